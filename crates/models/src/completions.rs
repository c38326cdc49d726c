//! OpenAI's chat completions, written, sent and read here ([interface](https://platform.openai.com/docs/api-reference/chat)).
//!
//! Every other wire goes through `genai`. This one does not, because most conversations use it: OpenAI's own models, and
//! nearly every server that a program declares. `genai` copies the history for each request and serialises it twice, and
//! parses each event of a stream, which llm-do has to read itself anyway (`docs/client-library.md`). HTTP is `reqwest`'s,
//! the splitting of streams `sse-core`'s. A test compares each body with the one that `genai` makes.

mod body;
mod exchange;

use crate::failure::Whom;
use genai::adapter::AdapterKind;
use llm_do_core::model::{ModelError, ModelErrorKind};
use reqwest::{
    Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use std::collections::BTreeMap;

pub(crate) use body::Body;
pub(crate) use exchange::{UNNAMED, events};

/// Where requests go, and what each has besides its body.
#[derive(Clone)]
pub(crate) struct Endpoint {
    url: Url,
    headers: HeaderMap,
}

impl Endpoint {
    /// The endpoint at this base address. `None`: `genai` speaks to endpoints of that kind.
    ///
    /// # Errors
    ///
    /// A header can't be sent.
    pub(crate) fn new(
        kind: AdapterKind,
        base: &Url,
        key: Option<&str>,
        declared: &BTreeMap<String, String>,
        whom: &Whom,
    ) -> Result<Option<Self>, ModelError> {
        if kind != AdapterKind::OpenAI {
            return Ok(None);
        }
        let mut url = base.clone();
        url.set_path(&format!("{}chat/completions", base.path()));
        let bad = |name: &str, what: &str| {
            whom.error(
                ModelErrorKind::BadRequest,
                &format!("the header `{name}` has {what} that can't be sent"),
            )
        };
        let secret = |name: &str, value: &str| {
            let mut value = HeaderValue::from_str(value).map_err(|_| bad(name, "a value"))?;
            value.set_sensitive(true);
            Ok::<_, ModelError>(value)
        };
        let mut headers =
            HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        if let Some(key) = key {
            headers.insert(AUTHORIZATION, secret("authorization", &format!("Bearer {key}"))?);
        }
        for (name, value) in declared {
            let known = HeaderName::try_from(name).map_err(|_| bad(name, "a name"))?;
            headers.insert(known, secret(name, value)?);
        }
        Ok(Some(Self { url, headers }))
    }
}
