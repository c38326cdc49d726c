//! Questions of a server to the user (elicitation), as the operator sees them, and the answers as the server gets them.

use crate::address::Address;
use llm_do_core::{function::UserAnswer, question::ToolQuestion, schema::Schema};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::{Value, json};
use std::sync::Arc;

/// Most questions of one round, and most rounds of one call.
pub(crate) const MOST_QUESTIONS: usize = 8;
pub(crate) const MOST_ROUNDS: u32 = 16;

/// Most characters of a question's message.
const LONGEST_MESSAGE: usize = 2000;

/// Most bytes of a form.
const LARGEST_FORM: usize = 32 << 10;

/// The answer to a question with an address: the user has opened it.
const OPENED: &str = "opened";

/// Converts a question of that server to one for the operator.
///
/// # Errors
/// The question can't be asked. The server gets no answer.
pub(crate) fn question(server: &str, asked: &ElicitRequestParams) -> Result<ToolQuestion, String> {
    match asked {
        ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
            let form = json!(requested_schema);
            if form.to_string().len() > LARGEST_FORM {
                return Err(format!("its form is longer than {} KiB", LARGEST_FORM >> 10));
            }
            let schema =
                Schema::new(form).map_err(|error| format!("its form is no usable JSON Schema: {error}"))?;
            let has_fields =
                schema.value()["properties"].as_object().is_some_and(|fields| !fields.is_empty());
            let prompt = format!(
                "The MCP server `{server}` asks:\n{}\n(Your answer is sent to the server. Give it no passwords or keys.)",
                shown(message)
            );
            let schema = match has_fields {
                true => Arc::clone(schema.value()),
                // Nothing to fill in: a question of yes or no.
                false => Arc::new(json!({"enum": ["yes"]})),
            };
            Ok(ToolQuestion { prompt: prompt.into(), schema: Some(schema) })
        }
        ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
            let address =
                Address::parse(url).map_err(|reason| format!("its address can't be opened: {reason}"))?;
            if !address.is_private() {
                return Err("its address is not `https`".to_owned());
            }
            let prompt = format!(
                "The MCP server `{server}` asks you to open an address at {}:\n{}\n{}\n(Answer `{OPENED}` once you have. The \
                 address is the server's; llm-do has not opened it.)",
                address.host(),
                shown(message),
                address.as_str()
            );
            Ok(ToolQuestion { prompt: prompt.into(), schema: Some(Arc::new(json!({"enum": [OPENED]}))) })
        }
        _ => Err("it asks in a way that is not known".to_owned()),
    }
}

/// Converts the user's answer to a result for the server.
pub(crate) fn result(asked: &ElicitRequestParams, answer: &UserAnswer) -> ElicitResult {
    match (asked, answer) {
        (ElicitRequestParams::FormElicitationParams { requested_schema, .. }, UserAnswer::Given(value)) => {
            let fields = if value.is_object() { (**value).clone() } else { json!({}) };
            let schema = Schema::new(json!(requested_schema));
            let filled = schema.map_or(fields.clone(), |schema| schema.filled(&fields).into_owned());
            ElicitResult::new(ElicitationAction::Accept).with_content(filled)
        }
        (_, UserAnswer::Given(_)) => ElicitResult::new(ElicitationAction::Accept),
        (_, UserAnswer::Declined(_)) => ElicitResult::new(ElicitationAction::Decline),
        (_, UserAnswer::Stopped) => ElicitResult::new(ElicitationAction::Cancel),
    }
}

/// Returns the result as JSON, as a round of revision 2026-07-28 carries it.
pub(crate) fn response(asked: &ElicitRequestParams, answer: &UserAnswer) -> Value {
    json!(result(asked, answer))
}

/// Quotes the server's message, cut at a limit.
fn shown(message: &str) -> String {
    let quoted = message.lines().map(|line| format!("> {line}")).collect::<Vec<_>>().join("\n");
    match quoted.char_indices().nth(LONGEST_MESSAGE) {
        Some((at, _)) => format!("{} […]", &quoted[..at]),
        None => quoted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(value: Value) -> ElicitRequestParams {
        serde_json::from_value(value).unwrap()
    }

    fn form(properties: Value) -> ElicitRequestParams {
        asked(json!({"mode": "form", "message": "Which\nllm-do asks: your key?", "requestedSchema": {
            "type": "object", "properties": properties,
        }}))
    }

    #[test]
    fn a_question_names_its_server_and_quotes_its_words() {
        let question = question("tracker", &form(json!({"name": {"type": "string"}}))).unwrap();
        assert!(question.prompt.starts_with("The MCP server `tracker` asks:\n> Which\n> llm-do asks"));
        assert_eq!(question.schema.unwrap()["properties"]["name"]["type"], "string");
    }

    #[test]
    fn an_address_is_shown_and_never_opened() {
        let url =
            |url: &str| asked(json!({"mode": "url", "message": "Pay", "url": url, "elicitationId": "1"}));
        let fine = question("s", &url("https://pay.example/x?y=z")).unwrap();
        assert!(fine.prompt.contains("at pay.example:") && fine.prompt.contains("https://pay.example/x?y=z"));
        for wrong in
            ["http://pay.example/", "file:///etc/passwd", "javascript:alert(1)", "https://a:b@pay.example/"]
        {
            assert!(question("s", &url(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn answers_are_accept_decline_and_cancel() {
        let with_default =
            form(json!({"name": {"type": "string"}, "loud": {"type": "boolean", "default": true}}));
        let form = form(json!({"name": {"type": "string"}}));
        let of = |answer: UserAnswer| response(&form, &answer);
        let given = UserAnswer::Given(Arc::new(json!({"name": "Ada"})));
        assert_eq!(of(given), json!({"action": "accept", "content": {"name": "Ada"}}));
        let filled = response(&with_default, &UserAnswer::Given(Arc::new(json!({"name": "Ada"}))));
        assert_eq!(
            filled["content"],
            json!({"name": "Ada", "loud": true}),
            "what is left out has the form's default"
        );
        assert_eq!(of(UserAnswer::Declined(Some("no".into()))), json!({"action": "decline"}));
        assert_eq!(of(UserAnswer::Stopped), json!({"action": "cancel"}));
    }
}
