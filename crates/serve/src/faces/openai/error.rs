//! Errors in OpenAI's form.

use crate::error::{ApiError, Code};
use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

/// The error of a request, with the field that is wrong.
#[derive(Clone, Debug)]
pub(crate) struct Wrong {
    error: ApiError,
    param: Option<String>,
    code: Option<&'static str>,
    status: Option<StatusCode>,
}

impl Wrong {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        ApiError::new(code, message).into()
    }

    /// Creates the error of a wrong field.
    pub(super) fn field(name: impl Into<String>, why: impl std::fmt::Display) -> Self {
        let name = name.into();
        Self::new(Code::BadRequest, format!("{name}: {why}")).at(name)
    }

    /// Sets the field that the error is about.
    pub(super) fn at(self, param: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..self }
    }

    /// Sets OpenAI's own name for the error.
    pub(super) fn named(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    /// Replaces the status of the error.
    pub(super) fn with_status(self, status: StatusCode) -> Self {
        Self { status: Some(status), ..self }
    }

    /// The object under `error`.
    pub(super) fn body(&self) -> Value {
        body(&self.error, self.param.as_deref(), self.code)
    }
}

impl From<ApiError> for Wrong {
    fn from(error: ApiError) -> Self {
        Self { error, param: None, code: None, status: None }
    }
}

fn body(error: &ApiError, param: Option<&str>, code: Option<&str>) -> Value {
    let kind = match error.code() {
        Code::Unauthorized => "authentication_error",
        Code::Forbidden => "permission_error",
        code if code.status() == StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        Code::Program | Code::Internal | Code::ShuttingDown => "server_error",
        _ => "invalid_request_error",
    };
    // The names of this server's own errors, where OpenAI has none.
    let own = serde_json::to_value(error.code()).unwrap_or_default();
    let code = code.map_or(own, Value::from);
    json!({"error": {"message": error.detail(), "type": kind, "param": param, "code": code}})
}

impl IntoResponse for Wrong {
    fn into_response(self) -> Response {
        let mut response = with_headers(&self.error, self.body());
        if let Some(status) = self.status {
            *response.status_mut() = status;
        }
        response
    }
}

fn with_headers(error: &ApiError, body: Value) -> Response {
    let mut response = (error.code().status(), Json(body)).into_response();
    let headers = response.headers_mut();
    if let Some(seconds) = error.code().retry_after() {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static(seconds));
    }
    match error.code() {
        Code::Unauthorized => {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        // OpenAI's clients repeat every 409, which changes nothing about it.
        Code::AlreadyDecided | Code::QuestionChanged | Code::Conflict => {
            headers.insert("x-should-retry", HeaderValue::from_static("false"));
        }
        _ => {}
    }
    response
}

/// An error of the checks before every request, in OpenAI's form.
pub(crate) fn reshaped(error: &ApiError) -> Response {
    with_headers(error, body(error, None, None))
}
