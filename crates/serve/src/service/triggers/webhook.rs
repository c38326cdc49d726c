//! Runs of signed requests.

use super::{Event, Fired, Kind, LARGEST_BODY, Trigger};
use crate::{
    error::{ApiError, Code},
    service::Service,
};
use axum::http::HeaderMap;
use llm_do::core::json::exact;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// The outcome of a delivery.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Delivered {
    /// The run that it has started. Absent if earlier runs of the trigger are under way, and it skips deliveries then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<Arc<str>>,
    /// The run was started by this request.
    pub(crate) new: bool,
}

/// The error is the same for each reason, so that a stranger learns nothing.
fn refused() -> ApiError {
    ApiError::new(Code::Forbidden, "there is no such webhook, or the signature is missing, wrong or late")
}

impl Service {
    fn webhook(&self, name: &str) -> Result<&Arc<Trigger>, ApiError> {
        let found = self.triggers().iter().find(|trigger| *trigger.name == *name);
        found.filter(|trigger| matches!(trigger.kind, Kind::Webhook { .. })).ok_or_else(refused)
    }

    /// The client whose quota a delivery counts for, and the largest size of a delivery in bytes.
    ///
    /// # Errors
    /// There is no such webhook.
    pub(crate) fn largest_delivery(&self, name: &str) -> Result<(&Arc<str>, u64), ApiError> {
        let trigger = self.webhook(name)?;
        let Kind::Webhook { settings, .. } = &trigger.kind else { return Err(refused()) };
        Ok((trigger.token.name(), settings.max_body.map_or(LARGEST_BODY, |size| size.0)))
    }

    /// Takes a delivery for a webhook.
    ///
    /// # Errors
    /// The delivery is not signed with the secret, or starts no run.
    pub(crate) async fn deliver(
        &self,
        name: &str,
        headers: &HeaderMap,
        bytes: Vec<u8>,
    ) -> Result<Delivered, ApiError> {
        let trigger = self.webhook(name)?;
        let Kind::Webhook { settings, secret } = &trigger.kind else { return Err(refused()) };
        let Some(key) = settings.signature.verify(secret, headers, &bytes) else {
            self.metrics().triggered(&trigger.program, &trigger.name, "refused");
            return Err(refused());
        };
        let text = String::from_utf8(bytes)
            .map_err(|_| ApiError::new(Code::BadInput, "the body is no text: send JSON"))?;
        let body = match serde_json::from_str::<Value>(&text) {
            Ok(body) => {
                exact(&text).map_err(|error| ApiError::new(Code::BadInput, error.to_string()))?;
                body
            }
            Err(_) => text.into(),
        };
        let event = Event { key, fields: json!({"body": body}), file: None };
        Ok(match self.fire(trigger, event).await? {
            Fired::Started(run) => Delivered { run: Some(run), new: true },
            Fired::Known(run) => Delivered { run: Some(run), new: false },
            Fired::Skipped => Delivered { run: None, new: false },
        })
    }
}
