//! Errors as the app sees them: problem details, as `llm-do serve` sends them.

use crate::{
    bridge::{Answer, Body},
    message::{EffectError, ErrorKind},
};
use llm_do_host::Obstacle;
use llm_do_program::{Diagnostic, diagnostics::json::to_json};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;

/// The reason why a request was not carried out.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ApiError {
    status: u16,
    code: &'static str,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    diagnostics: Option<Value>,
}

impl ApiError {
    pub(crate) fn new(status: u16, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), by: None, diagnostics: None }
    }

    pub(crate) fn bad(detail: impl Into<String>) -> Self {
        Self::new(400, "bad_request", detail)
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(404, "not_found", detail)
    }

    pub(crate) fn no_run(id: &str) -> Self {
        let shown: String = id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(40).collect();
        Self::not_found(format!("there is no run `{shown}`"))
    }

    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(409, "conflict", detail)
    }

    /// The error for a request that only a server can carry out.
    pub(crate) fn not_in_page(what: &str) -> Self {
        Self::new(501, "not_in_page", format!("{what}: a web page can't do this. Use `llm-do serve`"))
    }

    pub(crate) fn storage(detail: impl std::fmt::Display) -> Self {
        Self::new(507, "storage", format!("the page can't write its files: {detail}"))
    }

    pub(crate) fn decided(detail: String, by: Arc<str>) -> Self {
        Self { by: Some(by), ..Self::new(409, "already_decided", detail) }
    }

    pub(crate) fn broken(found: &[Diagnostic]) -> Self {
        let reason = found.iter().find(|found| found.is_error()).or(found.first());
        let reason = reason.map(|found| found.message.clone()).unwrap_or_default();
        let detail = format!("the program does not load: {reason}");
        Self { diagnostics: Some(diagnostics(found)), ..Self::new(409, "program_broken", detail) }
    }

    pub(crate) fn answer(&self) -> Answer {
        Answer {
            status: self.status,
            headers: vec![("content-type".into(), "application/problem+json".into())],
            body: Body::Text(serde_json::to_string(self).unwrap_or_default()),
        }
    }
}

/// Returns findings as `llm-do check --output json` shows them.
pub(crate) fn diagnostics(found: &[Diagnostic]) -> Value {
    to_json(found)["diagnostics"].take()
}

impl From<EffectError> for ApiError {
    fn from(error: EffectError) -> Self {
        match error.kind {
            ErrorKind::Missing => Self::not_found(error.message),
            ErrorKind::Held => Self::conflict(error.message),
            _ => Self::storage(error.message),
        }
    }
}

impl From<Obstacle> for ApiError {
    fn from(obstacle: Obstacle) -> Self {
        match &obstacle {
            Obstacle::Program(found) => Self::broken(&found.0),
            Obstacle::Input(_) | Obstacle::Attachment { .. } => {
                Self::new(422, "bad_input", obstacle.to_string())
            }
            Obstacle::Grants(missing) => {
                let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
                Self::new(403, "forbidden", format!("the program asks for grants: {}", missing.join("; ")))
            }
            _ => Self::new(500, "program", obstacle.to_string()),
        }
    }
}
