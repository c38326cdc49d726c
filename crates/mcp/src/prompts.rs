//! The prompts of servers as texts for templates: `file("mcp:SERVER/PROMPT", ARGUMENT=…)` (`docs/reference/mcp.md`).

use crate::tool::WorkersServer;
use llm_do_core::template::InsertArguments;
use rmcp::model::{ContentBlock, Prompt, PromptMessage, ResourceContents, Role};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Splits a name into the server and the prompt.
///
/// # Errors
/// The name has another form.
pub(crate) fn parts(name: &str) -> Result<(&str, &str), String> {
    name.split_once('/').ok_or_else(|| "a prompt is named `mcp:SERVER/PROMPT`".to_owned())
}

/// Returns the text of a prompt with these arguments.
///
/// # Errors
/// The server can't be used, has no such prompt, or the arguments are not those that the prompt takes.
pub(crate) async fn text(
    server: &WorkersServer,
    name: &str,
    arguments: &InsertArguments,
) -> Result<Arc<str>, String> {
    let of_server = |reason: String| format!("the MCP server `{}`: {reason}", server.name);
    let patience = server.server.patience();
    let live = server.live().await.map_err(of_server)?;
    let prompts = live.connection.prompts(patience).await.map_err(of_server)?;
    let prompt = prompts.iter().find(|prompt| prompt.name == name);
    let prompt = prompt.ok_or_else(|| {
        let names: Vec<&str> = prompts.iter().map(|prompt| prompt.name.as_str()).collect();
        of_server(format!("it has no prompt `{name}`; it has: {}", names.join(", ")))
    })?;
    check(prompt, arguments)?;
    let given: Map<String, Value> =
        arguments.iter().map(|(name, value)| (name.clone(), Value::String(value.clone()))).collect();
    let messages = live.connection.prompt(name, given, patience).await.map_err(of_server)?;
    joined(messages).map(Arc::from).map_err(of_server)
}

/// Checks that the prompt takes these arguments.
fn check(prompt: &Prompt, given: &InsertArguments) -> Result<(), String> {
    let takes = prompt.arguments.as_deref().unwrap_or_default();
    let missing =
        takes.iter().find(|argument| argument.required == Some(true) && !given.contains_key(&argument.name));
    if let Some(argument) = missing {
        return Err(format!("the prompt needs the argument `{0}`: add `{0}=…`", argument.name));
    }
    match given.keys().find(|name| !takes.iter().any(|argument| argument.name == **name)) {
        None => Ok(()),
        Some(unknown) if takes.is_empty() => {
            Err(format!("the prompt takes no arguments, and `{unknown}` is given"))
        }
        Some(unknown) => {
            let names: Vec<&str> = takes.iter().map(|argument| argument.name.as_str()).collect();
            Err(format!("the prompt has no argument `{unknown}`; it has: {}", names.join(", ")))
        }
    }
}

/// Joins the messages of a prompt to one text. If there are messages of both sides, each names its side.
fn joined(messages: Vec<PromptMessage>) -> Result<String, String> {
    let both = messages.windows(2).any(|pair| pair[0].role != pair[1].role);
    let texts = messages.into_iter().map(|message| {
        let text = match message.content {
            ContentBlock::Text(block) => block.text,
            ContentBlock::Resource(block) => match block.resource {
                ResourceContents::TextResourceContents { uri, text, .. } => format!("{uri}:\n{text}"),
                _ => return Err("the prompt holds a file that is no text".to_owned()),
            },
            _ => return Err("the prompt holds something that is no text, such as an image".to_owned()),
        };
        Ok(match (both, message.role) {
            (false, _) => text,
            (true, Role::User) => format!("User: {text}"),
            (true, Role::Assistant) => format!("Assistant: {text}"),
        })
    });
    Ok(texts.collect::<Result<Vec<String>, String>>()?.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn messages(value: Value) -> Result<String, String> {
        joined(serde_json::from_value(value).unwrap())
    }

    #[test]
    fn messages_are_one_text() {
        let of = |role: &str, text: &str| json!({"role": role, "content": {"type": "text", "text": text}});
        assert_eq!(messages(json!([])), Ok(String::new()));
        assert_eq!(messages(json!([of("user", "a"), of("user", "b")])), Ok("a\n\nb".to_owned()));
        let both = messages(json!([of("user", "a"), of("assistant", "b")]));
        assert_eq!(both, Ok("User: a\n\nAssistant: b".to_owned()));
        let file = json!({"type": "resource", "resource": {"uri": "x:y", "text": "z"}});
        assert_eq!(messages(json!([{"role": "user", "content": file}])), Ok("x:y:\nz".to_owned()));
        let image = json!({"type": "image", "data": "aGk=", "mimeType": "image/png"});
        assert!(messages(json!([{"role": "user", "content": image}])).unwrap_err().contains("an image"));
    }

    #[test]
    fn arguments_are_those_of_the_prompt() {
        let prompt = |arguments: Value| {
            serde_json::from_value::<Prompt>(json!({"name": "p", "arguments": arguments})).unwrap()
        };
        let takes = prompt(json!([{"name": "day", "required": true}, {"name": "mood"}]));
        let given = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), String::new())).collect();
        assert_eq!(check(&takes, &given(&["day"])), Ok(()));
        assert_eq!(check(&takes, &given(&["day", "mood"])), Ok(()));
        assert!(check(&takes, &given(&["mood"])).unwrap_err().contains("needs the argument `day`"));
        assert!(check(&takes, &given(&["day", "x"])).unwrap_err().contains("it has: day, mood"));
        assert!(check(&prompt(json!([])), &given(&["x"])).unwrap_err().contains("takes no arguments"));
    }
}
