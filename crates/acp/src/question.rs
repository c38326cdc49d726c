//! Questions of a run in the protocol's forms: a request for permission, or words of the agent that the next prompt answers.

use crate::{tool_call::Call, updates::text_content};
use agent_client_protocol::v1::schema::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, SessionId, ToolCallContent, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields,
};
use llm_do::{
    core::{
        question::{Answer, Approval, Input, Preview, QuestionId, Settlement},
        schema::Schema,
    },
    program::visible,
    records::diff::unified_diff,
};
use serde_json::Value;
use std::sync::Arc;

/// A choice that the client shows, and the answer that it stands for.
struct Choice {
    id: &'static str,
    name: &'static str,
    kind: PermissionOptionKind,
    answer: fn() -> Answer,
}

const APPROVAL: &[Choice] = &[
    Choice {
        id: "allow",
        name: "Allow",
        kind: PermissionOptionKind::AllowOnce,
        answer: || Answer::Approve { remember: false },
    },
    Choice {
        id: "allow_always",
        name: "Allow this call for the rest of the session",
        kind: PermissionOptionKind::AllowAlways,
        answer: || Answer::Approve { remember: true },
    },
    Choice {
        id: "deny",
        name: "Deny",
        kind: PermissionOptionKind::RejectOnce,
        answer: || Answer::Deny { reason: None, remember: false },
    },
    Choice {
        id: "deny_always",
        name: "Deny this call for the rest of the session",
        kind: PermissionOptionKind::RejectAlways,
        answer: || Answer::Deny { reason: None, remember: true },
    },
];

const SETTLEMENT: &[Choice] = &[
    Choice {
        id: "again",
        name: "Run it again",
        kind: PermissionOptionKind::AllowOnce,
        answer: || Answer::Again,
    },
    Choice {
        id: "done",
        name: "It had its effect: go on without a result",
        kind: PermissionOptionKind::AllowOnce,
        answer: || Answer::Done { result: Arc::new(Value::Null) },
    },
    Choice {
        id: "abort",
        name: "End the chat",
        kind: PermissionOptionKind::RejectOnce,
        answer: || Answer::Abort,
    },
];

/// What the client's answer to a request for permission means.
pub(crate) enum Permitted {
    /// The user has chosen.
    Answer(Answer),
    /// The user has stopped the answer that the call is part of, which decides nothing about the call.
    Cancelled,
    /// Nothing that was offered.
    Unknown,
}

/// Reads the client's answer.
pub(crate) fn permitted(response: &RequestPermissionResponse) -> Permitted {
    match &response.outcome {
        RequestPermissionOutcome::Cancelled => Permitted::Cancelled,
        RequestPermissionOutcome::Selected(selected) => {
            let id = &*selected.option_id.0;
            let choice = APPROVAL.iter().chain(SETTLEMENT).find(|choice| choice.id == id);
            choice.map_or(Permitted::Unknown, |choice| Permitted::Answer((choice.answer)()))
        }
        _ => Permitted::Unknown,
    }
}

/// Asks whether a call may be made. The title names the workers from the root down to the caller.
pub(crate) fn approval(
    session: &SessionId,
    id: &QuestionId,
    approval: &Approval,
    call: Option<&Call>,
) -> RequestPermissionRequest {
    let title = format!(
        "{} wants to call {} (risk: {})",
        approval.chain.join(" → "),
        approval.function,
        approval.risk
    );
    let mut why = format!("Asked because of: {}", visible::line(&approval.rule.to_string()));
    if let Some(steering) = &approval.steering {
        for (sentence, excerpt) in steering.said() {
            why.push_str(&format!(
                "\n\n{}\n{}",
                visible::line(&sentence),
                fenced("", &visible::text(excerpt))
            ));
        }
        if steering.more > 0 {
            why.push_str(&format!("\n\n{} more calls brought such words", steering.more));
        }
    }
    let diff = call.and_then(Call::diff);
    let arguments = fenced("json", &visible::json(&format!("{:#}", approval.input)));
    let mut content: Vec<ToolCallContent> = diff.map(ToolCallContent::from).into_iter().collect();
    content.push(text_content(&format!("{why}\n\n{arguments}")));
    let title = visible::line(&title).into_owned();
    request(session, id, title, content, call, &approval.input, APPROVAL)
}

/// Asks what became of a tool that was interrupted.
pub(crate) fn settlement(
    session: &SessionId,
    id: &QuestionId,
    settlement: &Settlement,
    call: Option<&Call>,
) -> RequestPermissionRequest {
    let Settlement { chain, function, risk, input } = settlement;
    let title = format!("{}: {function} (risk: {risk}) was interrupted", chain.join(" → "));
    let arguments = fenced("json", &visible::json(&format!("{input:#}")));
    let what = "It had begun and not ended when the chat was interrupted, and may have had its effect. Look, then decide.";
    let content = vec![text_content(&format!("{what}\n\n{arguments}"))];
    let title = visible::line(&title).into_owned();
    request(session, id, title, content, call, input, SETTLEMENT)
}

fn request(
    session: &SessionId,
    id: &QuestionId,
    title: String,
    content: Vec<ToolCallContent>,
    call: Option<&Call>,
    input: &Value,
    choices: &[Choice],
) -> RequestPermissionRequest {
    let mut fields = ToolCallUpdateFields::new().title(visible::line(&title).into_owned()).content(content);
    fields = fields.status(ToolCallStatus::Pending).raw_input(input.clone());
    if let Some(call) = call {
        fields = fields.kind(call.kind()).locations(call.locations());
    }
    let options = choices.iter().map(|choice| PermissionOption::new(choice.id, choice.name, choice.kind));
    let call = ToolCallUpdate::new(id.call.to_string(), fields);
    RequestPermissionRequest::new(session.clone(), call, options.collect())
}

/// A question for words, as a message of the agent.
pub(crate) fn asked(input: &Input) -> String {
    let chain = input.chain.join(" → ");
    let mut question = format!("\n\n**{chain} asks:** {}\n\n", input.prompt);
    for Preview::Change { path, before, after } in &input.changes {
        let [before, after] = [before, after].map(|text| text.as_deref().unwrap_or_default());
        let diff = unified_diff(path, path, before, after);
        question.push_str(&format!("{}\n", fenced("diff", &visible::text(&diff))));
    }
    match input.schema.as_deref() {
        None => question,
        Some(schema) => match choices(schema) {
            Some(choices) => format!("{question}One of: {}\n", choices.join(", ")),
            None => format!(
                "{question}Answer with JSON of this form:\n{}\n",
                fenced("json", &format!("{schema:#}"))
            ),
        },
    }
}

/// The answer to a question for words, or why the text is none.
pub(crate) fn answer(input: &Input, text: &str) -> Result<Value, String> {
    let Some(schema) = &input.schema else { return Ok(Value::String(text.to_owned())) };
    let schema = Schema::new((**schema).clone()).map_err(|error| error.to_string())?;
    let word = Value::String(text.trim().to_owned());
    if schema.validate(&word).is_ok() {
        return Ok(word);
    }
    let value = llm_do::core::json::read(text.trim()).unwrap_or(word);
    match schema.validate(&value) {
        Ok(()) => Ok(value),
        Err(wrong) => {
            let wrong: Vec<String> = wrong.iter().map(ToString::to_string).collect();
            Err(format!("The answer does not fit the form: {}", wrong.join("; ")))
        }
    }
}

/// The texts that a schema enumerates.
fn choices(schema: &Value) -> Option<Vec<&str>> {
    schema.get("enum")?.as_array()?.iter().map(Value::as_str).collect()
}

/// Text as a block of Markdown that it can't leave.
fn fenced(language: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{text}\n{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn input(schema: Value) -> Input {
        Input {
            chain: vec!["main".into()],
            prompt: "Which?".into(),
            schema: Some(Arc::new(schema)),
            changes: Vec::new(),
            conversation: None,
            expires_ms: None,
        }
    }

    #[test]
    fn text_does_not_leave_its_block() {
        assert_eq!(fenced("", "a\n```\nb"), "````\na\n```\nb\n````");
        assert_eq!(fenced("json", "{}"), "```json\n{}\n```");
    }

    #[test]
    fn an_answer_is_a_word_or_json_that_fits() {
        let colour = input(json!({"enum": ["red", "blue"]}));
        assert!(asked(&colour).contains("One of: red, blue"));
        assert_eq!(answer(&colour, " red\n"), Ok(json!("red")));
        assert!(answer(&colour, "green").is_err());
        let form =
            input(json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}));
        assert_eq!(answer(&form, "{\"n\": 1}"), Ok(json!({"n": 1})));
        assert!(answer(&form, "one").is_err());
    }
}
