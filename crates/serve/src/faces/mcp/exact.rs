//! Messages of clients with numbers that can't be kept exactly. They are refused before anything reads them, because
//! the library of the protocol would silently change the numbers.

use llm_do::core::json::exact;
use serde_json::{Value, json};
use std::{borrow::Cow, io};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader, DuplexStream};

/// The method that replaces the method of a refused request. Its parameter `reason` says why the request is refused.
pub(super) const REFUSED: &str = "llm-do/refused";

/// A message that is refused.
struct Refused {
    /// The ID of the message. The method and the other parameters are not kept.
    id: Value,
    meta: Option<Value>,
    is_request: bool,
    reason: String,
}

impl Refused {
    /// Reads a message. Returns `None` if its numbers can be kept, or if the message gets no answer.
    fn of(message: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(message).ok()?;
        let reason = exact(text).err()?.message;
        let message: Value = serde_json::from_str(text).ok()?;
        let id = message.get("id").filter(|id| !id.is_null())?.clone();
        let meta = message.get("params").and_then(|params| params.get("_meta")).cloned();
        Some(Self { id, meta, is_request: message.get("method").is_some(), reason })
    }
}

/// The answer to a message that is refused, in JSON.
pub(super) fn refusal(message: &[u8]) -> Option<String> {
    let Refused { id, reason, .. } = Refused::of(message)?;
    Some(json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": reason}}).to_string())
}

/// Returns the message, or the replacement of a refused one: a request that fails with the reason, or an answer that is
/// an error.
fn checked(message: &[u8]) -> Cow<'_, [u8]> {
    let Some(Refused { id, meta, is_request, reason }) = Refused::of(message) else {
        return Cow::Borrowed(message);
    };
    let mut instead = match is_request {
        true => json!({"jsonrpc": "2.0", "id": id, "method": REFUSED, "params": {"reason": reason}}),
        false => json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": reason}}),
    };
    if let (true, Some(meta)) = (is_request, meta) {
        instead["params"]["_meta"] = meta;
    }
    Cow::Owned(format!("{instead}\n").into_bytes())
}

/// Passes on the lines of a client, each unchanged or replaced by its refusal. Lines of more than `longest` bytes are
/// not checked.
pub(super) async fn pass_on(
    reader: impl AsyncRead + Unpin,
    mut writer: DuplexStream,
    longest: usize,
) -> io::Result<()> {
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    loop {
        let bytes = reader.fill_buf().await?;
        if bytes.is_empty() {
            writer.write_all(&checked(&line)).await?;
            return writer.shutdown().await;
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(bytes.len(), |at| at + 1);
        line.extend_from_slice(&bytes[..length]);
        reader.consume(length);
        if end.is_some() && line.len() <= longest {
            writer.write_all(&checked(&line)).await?;
            line.clear();
        } else if end.is_some() || line.len() > longest {
            writer.write_all(&line).await?;
            line.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_with_an_inexact_number_is_refused() {
        let call = |n: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"t","arguments":{{"n":{n}}},"_meta":{{"a":1}}}}}}"#
            )
        };
        for exact in
            ["1", "18446744073709551615", "-9223372036854775808", "0.1", "\"12345678901234567890123\""]
        {
            let message = call(exact);
            assert_eq!(checked(message.as_bytes()), message.as_bytes());
            assert_eq!(refusal(message.as_bytes()), None);
        }
        for inexact in ["12345678901234567890123", "-9223372036854775809", "12345678901234567890.0"] {
            let message = call(inexact);
            let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
            let passed = read(&checked(message.as_bytes()));
            assert_eq!((&passed["method"], &passed["id"]), (&json!(REFUSED), &json!(7)));
            assert_eq!(passed["params"]["_meta"], json!({"a": 1}));
            let answer = read(refusal(message.as_bytes()).unwrap().as_bytes());
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32602)));
            assert!(answer["error"]["message"].as_str().unwrap().contains("exactly"), "{answer}");
        }
        let answer = br#"{"jsonrpc":"2.0","id":1,"result":{"content":{"n":12345678901234567890123}}}"#;
        let passed: Value = serde_json::from_slice(&checked(answer)).unwrap();
        assert!(passed.get("method").is_none() && passed["error"].is_object());
    }

    #[tokio::test]
    async fn lines_are_passed_on_in_order() {
        let (writer, mut reader) = tokio::io::duplex(64);
        let text = "{\"id\":1,\"method\":\"a\"}\n{\"id\":2,\"method\":\"b\",\"params\":{\"n\":99999999999999999999}}\nlast";
        let passing = tokio::spawn(pass_on(text.as_bytes(), writer, 1000));
        let mut passed = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut reader, &mut passed).await.unwrap();
        passing.await.unwrap().unwrap();
        let lines: Vec<&str> = passed.lines().collect();
        assert!(lines[0].contains("\"a\"") && lines[1].contains(REFUSED) && lines[2] == "last", "{passed}");
    }
}
