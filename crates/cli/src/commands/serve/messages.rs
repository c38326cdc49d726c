//! Messages to the notifiers of a server.

use crate::commands::runs::collector;
use llm_do_serve::Outgoing;
use reqwest::Url;
use std::{error::Error, time::Duration};

/// Longest time for one message.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Sends a message, and returns the status of the response. Errors do not show the address, which may hold a key.
pub(super) async fn post(message: Outgoing) -> Result<u16, String> {
    let Outgoing { url, headers, body } = message;
    let url: Url = url.parse().map_err(|_| "its address is none".to_owned())?;
    let client = collector::client(&url).map_err(|error| error.to_string())?;
    let request = client.post(url).timeout(TIMEOUT).body(body);
    let request = headers.into_iter().fold(request, |request, (name, value)| request.header(name, value));
    let response = request.send().await.map_err(|error| {
        let error = error.without_url();
        // The outermost words say only that sending failed.
        let mut cause: &dyn Error = &error;
        while let Some(deeper) = cause.source() {
            cause = deeper;
        }
        cause.to_string()
    })?;
    Ok(response.status().as_u16())
}
