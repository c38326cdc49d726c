//! Questions of a run as forms for the client's user, and the answers to them.

use llm_do::{
    core::question::{Answer, Input, Question, Waiting},
    digest, question_text,
};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The form for a question of that run.
pub(super) fn form(run: &str, waiting: &Waiting) -> ElicitRequestParams {
    let schema = match &waiting.question {
        Question::Approval(_) => approval_schema(),
        Question::Input(input) => input_schema(input),
        Question::Settlement(_) => settlement_schema(),
    };
    let mut message = question_text::plain(&waiting.question, false);
    // Writing to a `String` does not fail.
    let _ = write!(message, "\n\nRun {run}, question {}, digest {}", waiting.id, digest(waiting));
    ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema: schema }
}

/// Reads the answer from a filled form. A dismissed form is a refusal.
///
/// # Errors
/// The form is filled wrong. The text says why.
pub(super) fn answer(waiting: &Waiting, filled: &ElicitResult) -> Result<Answer, String> {
    let content = filled.content.as_ref().filter(|_| filled.action == ElicitationAction::Accept);
    let Some(content) = content else {
        return Ok(match filled.action {
            ElicitationAction::Accept => return Err("the form has no content".into()),
            ElicitationAction::Cancel => waiting.question.refusal(Some("the user dismissed the question")),
            _ => waiting.question.refusal(None),
        });
    };
    let field = |name: &str| content.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let remember = match content.get("remember") {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(remember)) => Ok(*remember),
        Some(_) => Err("`remember` must be true or false"),
    };
    match (&waiting.question, field("decision")) {
        (Question::Approval(_), Some("approve")) => Ok(Answer::Approve { remember: remember? }),
        (Question::Approval(_), Some("deny")) => {
            Ok(Answer::Deny { reason: field("reason").map(str::to_owned), remember: remember? })
        }
        (Question::Settlement(_), Some("again")) => Ok(Answer::Again),
        (Question::Settlement(_), Some("abort")) => Ok(Answer::Abort),
        (Question::Settlement(_), Some("done")) => {
            let result = field("result").ok_or("`result` is missing")?;
            Ok(Answer::Done { result: std::sync::Arc::new(json_or_text(result)) })
        }
        (Question::Approval(_) | Question::Settlement(_), _) => {
            Err("`decision` is missing, or is none of its choices".into())
        }
        (Question::Input(input), _) => {
            let value = given(input, content)?;
            Ok(Answer::Give { value: std::sync::Arc::new(value) })
        }
    }
}

fn approval_schema() -> ElicitationSchema {
    schema(json!({
        "type": "object",
        "properties": {
            "decision": {"type": "string", "title": "Decision", "enum": ["approve", "deny"]},
            "reason": {"type": "string", "title": "Reason for a denial", "description": "The model is told."},
            "remember": {
                "type": "boolean",
                "title": "Decide the same call alike for the rest of the run",
                "default": false,
            },
        },
        "required": ["decision"],
    }))
}

/// Returns the question's own schema if clients can show it as a form, otherwise a form that asks for JSON.
fn input_schema(input: &Input) -> ElicitationSchema {
    match &input.schema {
        None => one_text("text", "Answer", ""),
        Some(wanted) => serde_json::from_value((**wanted).clone())
            .unwrap_or_else(|_| one_text("json", "Answer as JSON", &format!("JSON Schema: {wanted}"))),
    }
}

/// The value in a form that [`input_schema`] describes.
fn given(input: &Input, content: &Value) -> Result<Value, String> {
    let text = |name: &str| content.get(name).and_then(Value::as_str);
    let Some(wanted) = &input.schema else {
        return text("text").map(Value::from).ok_or_else(|| "`text` is missing".into());
    };
    let value = match serde_json::from_value::<ElicitationSchema>((**wanted).clone()) {
        Ok(_) => content.clone(),
        Err(_) => json_or_text(text("json").ok_or("`json` is missing")?),
    };
    input.accept(&value).map_err(|why| why.to_string())?;
    Ok(value)
}

fn settlement_schema() -> ElicitationSchema {
    schema(json!({
        "type": "object",
        "properties": {
            "decision": {
                "type": "string",
                "title": "Decision",
                "description": "again: run it again. done: it took effect, with this result. abort: end the run.",
                "enum": ["again", "done", "abort"],
            },
            "result": {"type": "string", "title": "Result, as JSON or text"},
        },
        "required": ["decision"],
    }))
}

fn one_text(name: &str, title: &str, description: &str) -> ElicitationSchema {
    schema(json!({
        "type": "object",
        "properties": {name: {"type": "string", "title": title, "description": description}},
        "required": [name],
    }))
}

/// Reads the schema of a form of this package.
fn schema(form: Value) -> ElicitationSchema {
    serde_json::from_value(form).expect("forms of this package are flat objects of texts")
}

fn json_or_text(text: &str) -> Value {
    llm_do::core::json::read(text).unwrap_or_else(|_| text.into())
}
