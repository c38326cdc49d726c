//! Questions of a run as forms for the client's user, and the answers to them.

use llm_do::{
    core::{
        origin::Steering,
        question::{Answer, Approval, Input, Preview, Question, Settlement, Waiting},
        schema::Schema,
    },
    digest,
    program::visible,
    records::diff::unified_diff,
};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Most characters of the arguments, and of a diff, in a question.
const LONGEST_PART: usize = 4000;

/// The form for a question of that run.
pub fn form(run: &str, waiting: &Waiting) -> ElicitRequestParams {
    let (mut message, schema) = match &waiting.question {
        Question::Approval(approval) => (approval_text(approval), approval_schema()),
        Question::Input(input) => (input_text(input), input_schema(input)),
        Question::Settlement(settlement) => (settlement_text(settlement), settlement_schema()),
    };
    // Writing to a `String` does not fail.
    let _ = write!(message, "\n\nRun {run}, question {}, digest {}", waiting.id, digest(waiting));
    ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema: schema }
}

/// The answer that a filled form gives. A form that was dismissed refuses.
///
/// # Errors
/// What is wrong with the form.
pub fn answer(waiting: &Waiting, filled: &ElicitResult) -> Result<Answer, String> {
    let content = filled.content.as_ref().filter(|_| filled.action == ElicitationAction::Accept);
    let Some(content) = content else {
        return Ok(match filled.action {
            ElicitationAction::Accept => return Err("the form has no content".into()),
            ElicitationAction::Cancel => refusal(&waiting.question, Some("the user dismissed the question")),
            _ => refusal(&waiting.question, None),
        });
    };
    let field = |name: &str| content.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    match (&waiting.question, field("decision")) {
        (Question::Approval(_), Some("approve")) => Ok(Answer::Approve { remember: false }),
        (Question::Approval(_), Some("deny")) => {
            Ok(Answer::Deny { reason: field("reason").map(str::to_owned), remember: false })
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

/// The answer that refuses what a question is about.
pub(crate) fn refusal(question: &Question, reason: Option<&str>) -> Answer {
    let reason = reason.map(str::to_owned);
    match question {
        Question::Approval(_) => Answer::Deny { reason, remember: false },
        Question::Input(Input { conversation: Some(_), .. }) => Answer::End,
        Question::Input(_) => Answer::Decline { reason },
        Question::Settlement(_) => Answer::Abort,
    }
}

fn approval_text(approval: &Approval) -> String {
    let Approval { chain, function, risk, input, preview, rule, steering, rules: _, expires_ms: _ } = approval;
    let chain = visible::line(&chain.join(" → ")).into_owned();
    let mut text = format!("{chain} wants to call {} (risk: {risk}).", visible::line(function));
    let _ = write!(text, "\nAsked because of: {}", visible::line(&rule.to_string()));
    if let Some(steering) = steering {
        words(&mut text, steering);
    }
    arguments(&mut text, input);
    if let Some(Preview::Change { path, before, after }) = preview {
        let (before, after) = (before.as_deref().unwrap_or_default(), after.as_deref().unwrap_or_default());
        let diff = unified_diff(path, path, before, after);
        let _ = write!(text, "\n\nThe change:\n{}", part(&diff));
    }
    text
}

/// Where words that others wrote came from, and which arguments hold them.
fn words(text: &mut String, steering: &Steering) {
    for (sentence, excerpt) in steering.said() {
        let _ = write!(text, "\n{}\n  {}", visible::line(&sentence), visible::line(excerpt));
    }
}

fn arguments(text: &mut String, input: &Value) {
    let _ = write!(text, "\n\nArguments:\n{}", part(&format!("{input:#}")));
}

/// A long text by its beginning, with what can't be seen escaped.
fn part(text: &str) -> String {
    let shown = visible::start(text, LONGEST_PART);
    let left = text.chars().count().saturating_sub(LONGEST_PART);
    let more = if left > 0 { format!("\n({left} more characters are not shown)") } else { String::new() };
    format!("{}{more}", visible::text(&shown))
}

fn approval_schema() -> ElicitationSchema {
    schema(json!({
        "type": "object",
        "properties": {
            "decision": {"type": "string", "title": "Decision", "enum": ["approve", "deny"]},
            "reason": {"type": "string", "title": "Reason for a denial", "description": "The model is told."},
        },
        "required": ["decision"],
    }))
}

fn input_text(input: &Input) -> String {
    let chain = input.chain.join(" → ");
    format!("{} asks:\n{}", visible::line(&chain), visible::text(&input.prompt))
}

/// A form that clients can show is passed on. Any other is asked for as JSON.
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
    let schema = Schema::new((**wanted).clone()).map_err(|error| error.to_string())?;
    let wrong = |wrong: Vec<_>| wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    schema.validate(&value).map_err(wrong)?;
    Ok(value)
}

fn settlement_text(settlement: &Settlement) -> String {
    let Settlement { chain, function, risk, input } = settlement;
    let mut text = format!(
        "{} had called {} (risk: {risk}) when the run was interrupted. Did the call take effect?",
        visible::line(&chain.join(" → ")),
        visible::line(function)
    );
    arguments(&mut text, input);
    text
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

/// A form of this crate.
fn schema(form: Value) -> ElicitationSchema {
    serde_json::from_value(form).expect("forms of this crate are flat objects of texts")
}

fn json_or_text(text: &str) -> Value {
    llm_do::core::json::read(text).unwrap_or_else(|_| text.into())
}
