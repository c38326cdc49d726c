//! Results of calls as outputs.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use llm_do_core::{
    function::{ToolError, ToolOutput},
    model::Blob,
};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;
use std::sync::Arc;

/// Returns the output of a call: structured content if the tool has a schema for it, otherwise the text. Never both,
/// because a model would read everything twice.
///
/// # Errors
/// The server says that the call failed, or it left out the structured content.
pub(crate) fn output(
    tool: &str,
    result: CallToolResult,
    has_schema: bool,
    log: Option<Arc<str>>,
) -> Result<ToolOutput, ToolError> {
    let Content { text, blobs } = content(result.content);
    if result.is_error == Some(true) {
        let message = match (text.is_empty(), result.structured_content) {
            (false, _) => text,
            (true, Some(value)) => value.to_string(),
            (true, None) => format!("`{tool}` failed, and the server does not say why"),
        };
        return Err(ToolError { message, log });
    }
    let value = match (has_schema, result.structured_content) {
        (true, Some(value)) => value,
        (true, None) => {
            let message = format!(
                "`{tool}` has run, but its result is missing: the server declares structured results for this tool and \
                 returned none. Check its effect before you call it again."
            );
            return Err(ToolError { message, log });
        }
        (false, Some(value)) if text.is_empty() && blobs.is_empty() => value,
        (false, _) => Value::String(text),
    };
    Ok(ToolOutput { value, blobs, log, origins: None })
}

/// The blocks of a result.
#[derive(Default)]
struct Content {
    text: String,
    blobs: Vec<Blob>,
}

fn content(blocks: Vec<ContentBlock>) -> Content {
    let mut all = Content::default();
    for block in blocks {
        match block {
            ContentBlock::Text(block) => all.line(&block.text),
            ContentBlock::Image(block) => all.file("image", &block.mime_type, &block.data),
            ContentBlock::Audio(block) => all.file("audio", &block.mime_type, &block.data),
            ContentBlock::Resource(block) => match block.resource {
                ResourceContents::TextResourceContents { uri, text, .. } => {
                    all.line(&format!("{uri}:\n{text}"));
                }
                ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                    all.file(&uri, mime_type.as_deref().unwrap_or("application/octet-stream"), &blob);
                }
                _ => all.line("(a resource of an unknown kind)"),
            },
            ContentBlock::ResourceLink(link) => all.line(&format!("{}: {}", link.name, link.uri)),
            _ => all.line("(content of an unknown kind)"),
        }
    }
    all
}

impl Content {
    fn line(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(text);
    }

    /// Adds a file. The text refers to it by its name.
    fn file(&mut self, name: &str, media_type: &str, data: &str) {
        match STANDARD.decode(data) {
            Ok(data) => {
                let number = self.blobs.len() + 1;
                let name = name.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("file");
                let blob = Blob {
                    name: format!("{number}-{name}").into(),
                    media_type: media_type.into(),
                    data: data.into(),
                };
                self.blobs.push(blob);
            }
            Err(_) => self.line(&format!("(a file {name} of type {media_type}, which is not valid Base64)")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn result(value: Value) -> CallToolResult {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_model_gets_structured_content_or_text() {
        let both =
            json!({"content": [{"type": "text", "text": "{\"n\": 3}"}], "structuredContent": {"n": 3}});
        let with = output("s:t", result(both.clone()), true, None).unwrap();
        assert_eq!(with.value, json!({"n": 3}));
        let without = output("s:t", result(both), false, None).unwrap();
        assert_eq!(without.value, json!("{\"n\": 3}"));
        let missing = output("s:t", result(json!({"content": []})), true, None).unwrap_err();
        assert!(missing.message.contains("has run"), "{missing}");
    }

    #[test]
    fn files_are_content_of_their_own() {
        let blocks = json!({"content": [
            {"type": "text", "text": "Look:"},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "one"}},
            {"type": "resource", "resource": {"uri": "file:///b.bin", "blob": "aGk="}},
            {"type": "resource_link", "uri": "file:///c", "name": "c"},
            {"type": "image", "data": "%", "mimeType": "image/png"},
        ]});
        let ToolOutput { value, blobs, .. } = output("s:t", result(blocks), false, None).unwrap();
        let text = value.as_str().unwrap();
        assert!(text.starts_with("Look:\nfile:///a.txt:\none\nc: file:///c\n(a file"), "{text}");
        let names: Vec<&str> = blobs.iter().map(|blob| &*blob.name).collect();
        assert_eq!(names, ["1-image", "2-b.bin"]);
    }

    #[test]
    fn an_error_of_a_tool_is_its_text() {
        let failed = json!({"content": [{"type": "text", "text": "no such file"}], "isError": true});
        assert_eq!(output("s:t", result(failed), true, None).unwrap_err().message, "no such file");
    }
}
