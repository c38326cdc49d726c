//! The interfaces of OpenAI: each worker is a model (`docs/reference/openai.md`).

mod chat;
mod content;
mod error;
mod fields;
mod format;
mod models;
mod responses;
mod title;
mod tools;

pub(crate) use chat::complete;
pub(crate) use error::reshaped;
pub(crate) use models::{list, show};
pub(crate) use responses::{cancel, create, retrieve};

use error::Wrong;
use llm_do::{Session, core::json};
use serde_json::{Map, Value};
use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use crate::{error::Code, service::Service, token::Token};

/// A worker as clients name it: `PROGRAM/WORKER`.
struct ModelId<'a> {
    program: &'a str,
    worker: &'a str,
}

impl<'a> ModelId<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (program, worker) = text.split_once('/')?;
        Some(Self { program, worker })
    }
}

/// Returns the session of the worker that a model's name refers to.
fn session_of(service: &Service, token: &Token, model: &str) -> Result<Session, Wrong> {
    let unknown = || {
        let shown: String = model.chars().filter(|c| !c.is_control()).take(80).collect();
        Wrong::new(Code::NotFound, format!("there is no model `{shown}`: GET /v1/models lists them"))
            .at("model")
            .named("model_not_found")
    };
    let id = ModelId::parse(model).ok_or_else(unknown)?;
    service.session(token, id.program, id.worker).map_err(|_| unknown())
}

/// The body of a request, as an object.
fn object(body: &[u8]) -> Result<Map<String, Value>, Wrong> {
    let wrong = |why: String| Wrong::new(Code::BadRequest, why);
    match json::read_bytes(body) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(wrong("the body must be a JSON object".into())),
        Err(error) => Err(wrong(format!("the body is not JSON: {error}"))),
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

type Caller = axum::Extension<Arc<Token>>;
