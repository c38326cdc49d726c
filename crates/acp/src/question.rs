//! Questions of a run in the forms of the protocol: a request for permission, or a message of the agent that the next
//! prompt answers.

use crate::{tool_call::Call, updates::text_content};
use agent_client_protocol::v1::schema::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, SessionId, ToolCallContent, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields,
};
use llm_do::{
    core::question::{Answer, Fact, Question, Waiting},
    program::visible,
    question_text::{diff, expiry, fenced},
};
use serde_json::Value;
use std::sync::Arc;

/// A choice that the client shows, and its meaning.
struct Choice {
    id: &'static str,
    name: &'static str,
    kind: PermissionOptionKind,
    answer: fn() -> Permitted,
}

const APPROVAL: &[Choice] = &[
    Choice {
        id: "allow",
        name: "Allow",
        kind: PermissionOptionKind::AllowOnce,
        answer: || Permitted::Answer(Answer::Approve { remember: false }),
    },
    Choice {
        id: "allow_always",
        name: "Allow this call for the rest of the session",
        kind: PermissionOptionKind::AllowAlways,
        answer: || Permitted::Answer(Answer::Approve { remember: true }),
    },
    Choice {
        id: "deny",
        name: "Deny",
        kind: PermissionOptionKind::RejectOnce,
        answer: || Permitted::Answer(Answer::Deny { reason: None, remember: false }),
    },
    Choice {
        id: "deny_always",
        name: "Deny this call for the rest of the session",
        kind: PermissionOptionKind::RejectAlways,
        answer: || Permitted::Answer(Answer::Deny { reason: None, remember: true }),
    },
];

const SETTLEMENT: &[Choice] = &[
    Choice {
        id: "again",
        name: "Run it again",
        kind: PermissionOptionKind::AllowOnce,
        answer: || Permitted::Answer(Answer::Again),
    },
    Choice {
        id: "done",
        name: "It took effect: give its result",
        kind: PermissionOptionKind::AllowOnce,
        answer: || Permitted::Result,
    },
    Choice {
        id: "abort",
        name: "End the chat",
        kind: PermissionOptionKind::RejectOnce,
        answer: || Permitted::Answer(Answer::Abort),
    },
];

/// The meaning of the client's answer to a request for permission.
pub(crate) enum Permitted {
    /// The user has chosen.
    Answer(Answer),
    /// The interrupted call took effect, and its result is still to be given.
    Result,
    /// The user has stopped the answer that the call is part of, which decides nothing about the call.
    Cancelled,
    /// The client's answer is none of the choices.
    Unknown,
}

/// Reads the client's answer.
pub(crate) fn permitted(response: &RequestPermissionResponse) -> Permitted {
    match &response.outcome {
        RequestPermissionOutcome::Cancelled => Permitted::Cancelled,
        RequestPermissionOutcome::Selected(selected) => {
            let id = &*selected.option_id.0;
            let choice = APPROVAL.iter().chain(SETTLEMENT).find(|choice| choice.id == id);
            choice.map_or(Permitted::Unknown, |choice| (choice.answer)())
        }
        _ => Permitted::Unknown,
    }
}

/// Builds a request for permission, or for the settlement of an interrupted tool. The client itself shows the change
/// that a call would make.
pub(crate) fn permission(
    session: &SessionId,
    waiting: &Waiting,
    call: Option<&Call>,
) -> RequestPermissionRequest {
    let (input, choices) = match &waiting.question {
        Question::Approval(approval) => (&*approval.input, APPROVAL),
        Question::Settlement(settlement) => (&*settlement.input, SETTLEMENT),
        Question::Input(_) => (&Value::Null, APPROVAL),
    };
    let diff = call.and_then(Call::diff);
    let facts: Vec<String> = waiting
        .question
        .facts()
        .into_iter()
        .filter(|fact| diff.is_none() || !matches!(fact, Fact::Change(_)))
        .map(|fact| paragraph(&fact))
        .collect();
    let mut content: Vec<ToolCallContent> = diff.map(ToolCallContent::from).into_iter().collect();
    content.push(text_content(&facts.join("\n\n")));
    let mut fields = ToolCallUpdateFields::new()
        .title(visible::line(&waiting.question.subject()).into_owned())
        .content(content);
    fields = fields.status(ToolCallStatus::Pending).raw_input(input.clone());
    if let Some(call) = call {
        fields = fields.kind(call.kind()).locations(call.locations());
    }
    let options = choices.iter().map(|choice| PermissionOption::new(choice.id, choice.name, choice.kind));
    let call = ToolCallUpdate::new(waiting.id.call.to_string(), fields);
    RequestPermissionRequest::new(session.clone(), call, options.collect())
}

/// Returns the text of a question as a message of the agent.
pub(crate) fn asked(question: &Question) -> String {
    let facts: Vec<String> = question.facts().iter().map(paragraph).collect();
    format!("\n\n**{}** {}\n\n", visible::line(&question.subject()), facts.join("\n\n"))
}

/// Formats a fact in Markdown.
fn paragraph(fact: &Fact<'_>) -> String {
    match fact {
        Fact::Note(line) => visible::line(line).into_owned(),
        Fact::Words(sentence, excerpt) => {
            format!("{}\n{}", visible::line(sentence), fenced("", &visible::text(excerpt)))
        }
        Fact::Prompt(prompt) => (*prompt).to_owned(),
        Fact::Arguments(input) => fenced("json", &visible::json(&format!("{input:#}"))),
        Fact::Change(change) => fenced("diff", &visible::text(&diff(change))),
        Fact::Schema(schema) => match choices(schema) {
            Some(choices) => format!("One of: {}", choices.join(", ")),
            None => format!("Answer with JSON of this form:\n{}", fenced("json", &format!("{schema:#}"))),
        },
        Fact::Expires(at_ms) => expiry(*at_ms),
    }
}

/// Reads a text as an answer, or returns the reason why it is none. An interrupted tool gets its result this way.
pub(crate) fn answer(question: &Question, text: &str) -> Result<Answer, String> {
    match question {
        Question::Input(input) => input.read(text).map_err(|why| format!("Not taken: {why}")),
        Question::Settlement(_) => {
            let text = text.trim();
            let result = llm_do::core::json::read(text).unwrap_or_else(|_| text.into());
            Ok(Answer::Done { result: Arc::new(result) })
        }
        Question::Approval(_) => Err("Not taken: choose one of the buttons".to_owned()),
    }
}

/// Returns the texts that a schema enumerates.
fn choices(schema: &Value) -> Option<Vec<&str>> {
    schema.get("enum")?.as_array()?.iter().map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use llm_do::core::question::Input;
    use serde_json::json;

    fn input(schema: Value) -> Question {
        Question::Input(Input {
            chain: vec!["main".into()],
            prompt: "Which?".into(),
            schema: Some(Arc::new(schema)),
            changes: Vec::new(),
            conversation: None,
            expires_ms: None,
        })
    }

    #[test]
    fn an_answer_is_a_word_or_json_that_fits() {
        let colour = input(json!({"enum": ["red", "blue"]}));
        assert!(asked(&colour).contains("One of: red, blue"));
        let given = |value| Ok(Answer::Give { value: Arc::new(value) });
        assert_eq!(answer(&colour, " red\n"), given(json!("red")));
        assert!(answer(&colour, "green").is_err());
        let form =
            input(json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}));
        assert_eq!(answer(&form, "{\"n\": 1}"), given(json!({"n": 1})));
        assert!(answer(&form, "one").is_err());
    }
}
