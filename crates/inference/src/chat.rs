//! A conversation as the plain turns that local models know: system, user and assistant, each a text.

use crate::grammar::{CALL_CLOSE, CALL_OPEN};
use llm_do_core::model::{
    Arguments, Message, ModelError, ModelErrorKind, ModelRequest, Part, Role, ToolSpec,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// A turn of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Turn {
    /// The role that speaks.
    pub(crate) speaker: Speaker,
    /// The text.
    pub(crate) text: String,
}

/// The role that speaks in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Speaker {
    System,
    User,
    Assistant,
}

impl Speaker {
    /// Returns the name in templates.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// Returns the turns of a request. Neighbours of one role are joined, since many templates insist on alternation.
pub(crate) fn turns(request: &ModelRequest<'_>) -> Result<Vec<Turn>, ModelError> {
    let mut turns: Vec<Turn> = Vec::new();
    let system = system_text(request.system, request.tools, request.output.map(|schema| &**schema));
    if !system.is_empty() {
        turns.push(Turn { speaker: Speaker::System, text: system });
    }
    for message in request.messages {
        let (speaker, text) = turn(message)?;
        match turns.last_mut() {
            Some(last) if last.speaker == speaker => {
                last.text.push_str("\n\n");
                last.text.push_str(&text);
            }
            _ => turns.push(Turn { speaker, text }),
        }
    }
    Ok(turns)
}

fn turn(message: &Message) -> Result<(Speaker, String), ModelError> {
    let mut pieces: Vec<String> = Vec::new();
    for part in &message.parts {
        pieces.push(match part {
            Part::Text { .. } | Part::Attachment { .. } => part.sent().unwrap_or_default().into_owned(),
            Part::Call(call) => {
                let arguments = match &call.arguments {
                    Arguments::Json(value) => value.to_string(),
                    Arguments::Invalid { text, .. } => text.to_string(),
                };
                // The spelling that the grammar gives, so that the cached tokens of the answer fit.
                let name = Value::from(&*call.name);
                format!("{CALL_OPEN}{{\"name\": {name}, \"arguments\": {arguments}}}{CALL_CLOSE}")
            }
            Part::Result(result) => {
                let state = if result.is_error { " error" } else { "" };
                format!("<tool_response>\n{}{state}: {}\n</tool_response>", result.name, result.content)
            }
            Part::Blob(blob) => match std::str::from_utf8(&blob.data) {
                Ok(text) if blob.media_type.starts_with("text/") => format!("{}:\n{text}", blob.name),
                _ => {
                    return Err(ModelError::new(
                        ModelErrorKind::Unsupported,
                        format!(
                            "this local model reads text only; `{}` is {}: attach text, or use a provider whose \
                             models read it",
                            blob.name, blob.media_type
                        ),
                    ));
                }
            },
            Part::Reasoning { .. } | Part::Opaque { .. } | Part::ServerUse(_) | Part::Cited { .. } => continue,
        });
    }
    let speaker = match message.role {
        Role::Assistant => Speaker::Assistant,
        Role::User | Role::Tool => Speaker::User,
    };
    Ok((speaker, pieces.join("\n")))
}

/// Returns the instructions, with a description of the tools and of the form of the answer.
fn system_text(instructions: &str, tools: &[ToolSpec], output: Option<&Value>) -> String {
    let mut text = instructions.trim_end().to_owned();
    if let Some(example) = tools.first() {
        text.push_str("\n\nTools you can call:\n");
        for tool in tools {
            let _ = writeln!(text, "- {}", signature(tool));
        }
        let sample = json!({"name": &*example.name, "arguments": sample(&example.input)});
        let _ = write!(
            text,
            "To call one, write only this, with the tool's name and arguments as JSON, and wait for its result:\n\
             {CALL_OPEN}{sample}{CALL_CLOSE}"
        );
    }
    if let Some(schema) = output {
        let _ = write!(text, "\n\nGive the final answer as one JSON value of this JSON Schema:\n{schema}");
    }
    text.trim_start().to_owned()
}

/// Returns a schema in few tokens, as `name(path: string, depth?: integer): what it does`. The grammar enforces the
/// rest.
fn signature(tool: &ToolSpec) -> String {
    let required: Vec<&str> =
        tool.input["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let empty = serde_json::Map::new();
    let properties = tool.input["properties"].as_object().unwrap_or(&empty);
    let parameters: Vec<String> = properties
        .iter()
        .map(|(name, schema)| {
            let optional = if required.contains(&name.as_str()) { "" } else { "?" };
            let about = schema["description"].as_str().map(|it| format!(" ({it})")).unwrap_or_default();
            format!("{name}{optional}: {}{about}", kind(schema))
        })
        .collect();
    format!("{}({}): {}", tool.name, parameters.join(", "), tool.description.trim())
}

/// Returns a schema's type in a word or two.
fn kind(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
    }
    match &schema["type"] {
        Value::String(kind) if kind == "array" => format!("{} list", kind_or_any(&schema["items"])),
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | "),
        _ => "any".into(),
    }
}

fn kind_or_any(schema: &Value) -> String {
    if schema.is_object() { kind(schema) } else { "any".into() }
}

/// Returns arguments that fit the schema, to show the form of a call.
fn sample(schema: &Value) -> Value {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let pairs = required.map(|name| {
        let schema = &schema["properties"][name];
        let value = match schema["type"].as_str() {
            _ if schema["enum"][0] != Value::Null => schema["enum"][0].clone(),
            Some("integer" | "number") => json!(1),
            Some("boolean") => json!(true),
            Some("array") => json!([]),
            Some("object") => json!({}),
            _ => json!("..."),
        };
        (name.to_owned(), value)
    });
    Value::Object(pairs.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use llm_do_core::{
        call_path::CallPath,
        model::{Blob, MessageId, ModelName, ModelSettings, ToolCall, ToolResult},
    };
    use std::sync::Arc;

    fn message(role: Role, parts: Vec<Part>) -> Arc<Message> {
        Arc::new(Message { id: MessageId(0), parent: None, role, parts })
    }

    fn turns_of(
        system: &str,
        messages: &[Arc<Message>],
        tools: Vec<ToolSpec>,
        output: Option<Value>,
    ) -> Result<Vec<Turn>, ModelError> {
        let model: ModelName = "local:x".parse().unwrap();
        let (path, settings) = (CallPath::root(), ModelSettings::default());
        let (system, tools, output) = (Arc::from(system), Arc::from(tools), output.map(Arc::new));
        turns(&ModelRequest {
            conversation: &path,
            run: "r",
            worker: "w",
            purpose: Default::default(),
            turn: 0,
            model: &model,
            system: &system,
            messages,
            tools: &tools,
            server_tools: &Arc::from([]),
            settings: &settings,
            output: output.as_ref(),
        })
    }

    #[test]
    fn roles_alternate_and_calls_keep_the_form_they_were_made_in() {
        let call = ToolCall {
            id: "1".into(),
            name: "read".into(),
            arguments: Arguments::Json(Arc::new(json!({"path": "a"}))),
        };
        let result =
            ToolResult { call_id: "1".into(), name: "read".into(), content: "A".into(), is_error: false };
        let history = [
            message(Role::User, vec![Part::text("one"), Part::text("two")]),
            message(Role::Assistant, vec![Part::text("Reading."), Part::Call(call)]),
            message(Role::Tool, vec![Part::Result(result)]),
            message(Role::User, vec![Part::text("go on")]),
        ];
        let turns = turns_of("Be brief.", &history, vec![], None).unwrap();
        let speakers: Vec<_> = turns.iter().map(|turn| turn.speaker.name()).collect();
        assert_eq!(speakers, ["system", "user", "assistant", "user"]);
        assert_eq!(turns[1].text, "one\ntwo");
        assert_eq!(
            turns[2].text,
            "Reading.\n<tool_call>{\"name\": \"read\", \"arguments\": {\"path\":\"a\"}}</tool_call>"
        );
        assert_eq!(turns[3].text, "<tool_response>\nread: A\n</tool_response>\n\ngo on");
    }

    #[test]
    fn only_text_is_read() {
        let blob = |media_type: &str, data: &[u8]| {
            let data = data.into();
            [message(
                Role::User,
                vec![Part::Blob(Blob { name: "f".into(), media_type: media_type.into(), data })],
            )]
        };
        let text = turns_of("", &blob("text/markdown", b"# Hi"), vec![], None).unwrap();
        assert_eq!(text, [Turn { speaker: Speaker::User, text: "f:\n# Hi".into() }]);
        for (media_type, data) in [("image/png", b"x".as_slice()), ("text/plain", b"\xff")] {
            let error = turns_of("", &blob(media_type, data), vec![], None).unwrap_err();
            assert_eq!(error.kind, ModelErrorKind::Unsupported);
            assert!(error.message.contains("reads text only"), "{error}");
        }
    }

    #[test]
    fn tools_and_schema_are_told_in_few_words() {
        let input = json!({"type": "object", "properties": {
            "path": {"type": "string", "description": "file"}, "mode": {"enum": ["r", "w"]},
            "lines": {"type": "array", "items": {"type": "integer"}}}, "required": ["path", "mode"]});
        let tool = ToolSpec { name: "open".into(), description: "Opens.".into(), input: Arc::new(input) };
        let turns = turns_of("", &[], vec![tool], Some(json!({"type": "integer"}))).unwrap();
        let text = &turns[0].text;
        assert!(text.starts_with("Tools you can call:"), "{text}");
        assert!(
            text.contains("- open(path: string (file), mode: \"r\" | \"w\", lines?: integer list): Opens."),
            "{text}"
        );
        assert!(
            text.contains(
                "<tool_call>{\"name\":\"open\",\"arguments\":{\"path\":\"...\",\"mode\":\"r\"}}</tool_call>"
            ),
            "{text}"
        );
        assert!(text.ends_with("JSON Schema:\n{\"type\":\"integer\"}"), "{text}");
    }
}
