//! Errors as clients see them: problem details for HTTP (RFC 9457).

use crate::{
    program::{Broken, ProgramName},
    token::Scope,
};
use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use llm_do::{NotTaken, Problem, ResumeError, program::diagnostics::json::to_json};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;

/// Why a request was not carried out. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(crate) struct ApiError {
    /// The HTTP status.
    status: u16,
    /// The kind of error, for programs.
    code: Code,
    /// What is wrong and what to do, for people.
    detail: String,
    /// Who has answered a question before.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<Arc<str>>,
    /// The quota that the request exceeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<&'static str>,
    /// What is wrong with the files of a program, as `llm-do check --output json` shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    diagnostics: Option<Box<Value>>,
}

/// The kinds of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Code {
    /// The body, a header or the query of the request is wrong.
    BadRequest,
    /// There is no token, or no such token.
    Unauthorized,
    /// The token, or the server, does not allow this.
    Forbidden,
    /// There is no such thing, or the token must not know of it.
    NotFound,
    /// The request has another method than its path takes.
    MethodNotAllowed,
    /// The input does not fit the worker's parameters.
    BadInput,
    /// The question has an answer.
    AlreadyDecided,
    /// The question is not the one that the answer's digest names.
    QuestionChanged,
    /// The question has expired: it counts as denied.
    QuestionExpired,
    /// The run, or the server, is not in a state for this.
    Conflict,
    /// The idempotency key was used for another request.
    KeyReused,
    /// The body is too large.
    TooLarge,
    /// The body did not arrive in time.
    TooSlow,
    /// Too many runs wait to begin, or the client has too many runs.
    TooManyRuns,
    /// The client, or all together, follow too many streams.
    TooManyStreams,
    /// Too many files are uploaded.
    TooManyUploads,
    /// Too many bodies of requests are on their way.
    TooManyBodies,
    /// Too many sessions of the Model Context Protocol are open.
    TooManySessions,
    /// The server uses too much memory to begin something new.
    TooMuchMemory,
    /// The program can't be run as it is.
    Program,
    /// The program does not load since its definitions were changed.
    ProgramBroken,
    /// The file is not as the request says.
    FileChanged,
    /// The server can't write its files: the disk is full, for example.
    Storage,
    /// The server failed.
    Internal,
    /// The server shuts down.
    ShuttingDown,
}

impl Code {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::BadRequest => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::BadInput => StatusCode::UNPROCESSABLE_ENTITY,
            Self::AlreadyDecided
            | Self::QuestionChanged
            | Self::Conflict
            | Self::KeyReused
            | Self::ProgramBroken
            | Self::FileChanged => StatusCode::CONFLICT,
            Self::QuestionExpired => StatusCode::GONE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::TooManyRuns
            | Self::TooManyStreams
            | Self::TooManyUploads
            | Self::TooManyBodies
            | Self::TooManySessions
            | Self::TooMuchMemory => StatusCode::TOO_MANY_REQUESTS,
            Self::Program | Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Storage => StatusCode::INSUFFICIENT_STORAGE,
            Self::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl Code {
    /// The number of seconds after which a repetition may succeed.
    pub(crate) fn retry_after(self) -> Option<&'static str> {
        match self {
            Self::TooManyRuns
            | Self::TooManyStreams
            | Self::TooManyBodies
            | Self::TooManySessions
            | Self::TooMuchMemory
            | Self::ShuttingDown => Some("5"),
            // Uploads that no run uses are kept for a day.
            Self::TooManyUploads => Some("3600"),
            _ => None,
        }
    }
}

impl ApiError {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            status: code.status().as_u16(),
            code,
            detail: detail.into(),
            by: None,
            quota: None,
            diagnostics: None,
        }
    }

    pub(crate) fn code(&self) -> Code {
        self.code
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// Names the quota that the request exceeds.
    pub(crate) fn of_quota(self, quota: &'static str) -> Self {
        Self { quota: Some(quota), ..self }
    }

    pub(crate) fn without_scope(scope: Scope) -> Self {
        Self::new(Code::Forbidden, format!("the token has no scope `{}`", scope.name()))
    }

    pub(crate) fn no_run(id: &str) -> Self {
        let shown: String = id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(40).collect();
        Self::new(Code::NotFound, format!("there is no run `{shown}`"))
    }

    /// The error of a program whose definitions were changed and do not load.
    pub(crate) fn broken(program: &ProgramName, broken: &Broken) -> Self {
        let detail = format!(
            "the program `{program}` does not load since its definitions were changed: {}",
            broken.reason
        );
        let diagnostics = to_json(&broken.diagnostics)["diagnostics"].take();
        Self { diagnostics: Some(Box::new(diagnostics)), ..Self::new(Code::ProgramBroken, detail) }
    }

    /// The error of a request during which a file or thread of the server failed.
    pub(crate) fn internal(error: impl std::fmt::Display) -> Self {
        Self::new(Code::Internal, format!("the server failed: {error}"))
    }

    /// The error of a request for which the server could not write a file.
    pub(crate) fn storage(error: impl std::fmt::Display) -> Self {
        Self::new(Code::Storage, format!("the server can't write its files: {error}"))
    }

    fn decided(detail: String, by: &Arc<str>) -> Self {
        Self { by: Some(Arc::clone(by)), ..Self::new(Code::AlreadyDecided, detail) }
    }
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        match &problem {
            Problem::Input(_) | Problem::Attachment { .. } => Self::new(Code::BadInput, problem.to_string()),
            Problem::Grants(missing) => {
                let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
                Self::new(
                    Code::Forbidden,
                    format!("the operator of this server has not granted: {}", missing.join("; ")),
                )
            }
            Problem::Resume(ResumeError::AlreadyDecided { by, .. }) => Self::decided(problem.to_string(), by),
            Problem::Resume(ResumeError::NotAsked(_)) => Self::new(Code::NotFound, problem.to_string()),
            Problem::Resume(ResumeError::NotAccepted { .. }) => {
                Self::new(Code::BadRequest, problem.to_string())
            }
            Problem::Resume(ResumeError::Expired(_)) => Self::new(Code::QuestionExpired, problem.to_string()),
            Problem::Journal(_) | Problem::Key(_) => Self::storage(problem),
            Problem::Resume(_) => Self::new(Code::Conflict, problem.to_string()),
            _ => Self::new(Code::Program, problem.to_string()),
        }
    }
}

impl From<NotTaken> for ApiError {
    fn from(error: NotTaken) -> Self {
        match &error {
            NotTaken::Unknown(_) => Self::new(Code::NotFound, error.to_string()),
            NotTaken::NotAccepted { .. } => Self::new(Code::BadRequest, error.to_string()),
            NotTaken::Changed(_) => Self::new(Code::QuestionChanged, error.to_string()),
            NotTaken::Expired(_) => Self::new(Code::QuestionExpired, error.to_string()),
            NotTaken::AlreadyDecided { by, .. } => Self::decided(error.to_string(), by),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = self.code.status();
        let mut response = (status, Json(&self)).into_response();
        response.extensions_mut().insert(self.clone());
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        match self.code {
            Code::Unauthorized => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            code => {
                if let Some(seconds) = code.retry_after() {
                    headers.insert(header::RETRY_AFTER, HeaderValue::from_static(seconds));
                }
            }
        }
        response
    }
}
