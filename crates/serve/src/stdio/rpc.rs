//! Messages of JSON-RPC 2.0 (<https://www.jsonrpc.org/specification>), one a line.

use crate::error::{ApiError, Code};
use llm_do::core::json;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The ID of a request, which the client chooses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum RequestId {
    Number(i64),
    Text(String),
}

/// A request, or a notification if it has no ID.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: Option<RequestId>,
    pub(super) method: String,
    pub(super) params: Map<String, Value>,
}

/// The reason why a request has no result.
#[derive(Debug, Serialize)]
pub(super) struct RpcError {
    code: i32,
    message: String,
    /// The problem as clients over HTTP get it.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<ApiError>,
}

impl RpcError {
    pub(super) fn parse(reason: impl std::fmt::Display) -> Self {
        Self::new(-32700, format!("the line is no JSON: {reason}"))
    }

    pub(super) fn invalid_request(reason: &str) -> Self {
        Self::new(-32600, format!("the line is no request of JSON-RPC 2.0: {reason}"))
    }

    pub(super) fn no_method(method: &str) -> Self {
        Self::new(-32601, format!("there is no method `{}`", method.escape_debug()))
    }

    pub(super) fn params(reason: impl std::fmt::Display) -> Self {
        Self::new(-32602, format!("params: {reason}"))
    }

    /// Creates the error of a request that the client has cancelled before it had an effect.
    pub(super) fn cancelled() -> Self {
        Self::new(-32800, "the request was cancelled before a run began".into())
    }

    fn new(code: i32, message: String) -> Self {
        Self { code, message, data: None }
    }
}

impl From<ApiError> for RpcError {
    fn from(error: ApiError) -> Self {
        let code = match error.code() {
            Code::BadRequest | Code::BadInput => -32602,
            Code::Internal => -32603,
            _ => -32000,
        };
        Self { code, message: error.detail().to_owned(), data: Some(error) }
    }
}

impl Request {
    /// Reads a line.
    ///
    /// # Errors
    /// The line is no request. The ID is the one to answer, if the line has one.
    #[expect(clippy::result_large_err, reason = "there is one result a line, and its error is sent at once")]
    pub(super) fn read(line: &[u8]) -> Result<Self, (Option<RequestId>, RpcError)> {
        let value = json::read_bytes(line).map_err(|error| (None, RpcError::parse(error)))?;
        let Value::Object(mut object) = value else {
            return Err((None, RpcError::invalid_request("it is no object")));
        };
        let id = match object.remove("id") {
            None => None,
            Some(id) => match serde_json::from_value(id) {
                Ok(id) => Some(id),
                Err(_) => {
                    let reason = "`id` is neither a whole number nor a text";
                    return Err((None, RpcError::invalid_request(reason)));
                }
            },
        };
        let wrong = |reason| (id.clone(), RpcError::invalid_request(reason));
        if object.remove("jsonrpc") != Some("2.0".into()) {
            return Err(wrong("`jsonrpc` is not \"2.0\""));
        }
        let Some(Value::String(method)) = object.remove("method") else {
            return Err(wrong("`method` is no text"));
        };
        let params = match object.remove("params") {
            None => Map::new(),
            Some(Value::Object(params)) => params,
            Some(_) => return Err(wrong("`params` is no object")),
        };
        if !object.is_empty() {
            return Err(wrong("it has unknown fields"));
        }
        Ok(Self { id, method, params })
    }
}

/// The line of a notification.
pub(super) fn notification(method: &str, params: &impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct Notification<'a, T> {
        jsonrpc: &'static str,
        method: &'a str,
        params: &'a T,
    }
    line(&Notification { jsonrpc: "2.0", method, params })
}

/// The line that answers a request.
pub(super) fn response(id: Option<&RequestId>, result: Result<Value, RpcError>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Response<'a> {
        jsonrpc: &'static str,
        id: Option<&'a RequestId>,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<RpcError>,
    }
    let (result, error) = match result {
        Ok(result) => (Some(result), None),
        Err(error) => (None, Some(error)),
    };
    line(&Response { jsonrpc: "2.0", id, result, error })
}

fn line(message: &impl Serialize) -> Vec<u8> {
    // Messages are data that serialises.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_are_read_and_the_error_names_the_request_if_it_can() {
        let read = Request::read(br#"{"jsonrpc":"2.0","id":1,"method":"hello"}"#).expect("a request");
        assert_eq!((read.id, read.method.as_str()), (Some(RequestId::Number(1)), "hello"));
        let code = |line: &str| {
            let (id, error) = Request::read(line.as_bytes()).expect_err(line);
            (id, error.code)
        };
        assert_eq!(code("{"), (None, -32700));
        assert_eq!(code("\"\u{0}"), (None, -32700));
        assert_eq!(code("[]"), (None, -32600));
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":{},"method":"hello"}"#), (None, -32600));
        assert_eq!(
            code(r#"{"jsonrpc":"1.0","id":7,"method":"hello"}"#),
            (Some(RequestId::Number(7)), -32600)
        );
        for rest in [r#""method":1"#, r#""method":"x","params":[]"#, r#""method":"x","more":1"#] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":"a",{rest}}}"#);
            assert_eq!(code(&line), (Some(RequestId::Text("a".into())), -32600), "{line}");
        }
    }
}
