//! Post-conditions (`docs/reference/worker-files.md` and `docs/reference/loop.md`): conditions on an output beyond
//! its schema.

use super::output::Answer;
use crate::{
    outcome::{Ending, Failure, FailureKind},
    template,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// One condition, and the message to the model when it is not met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Ensure {
    /// The judge.
    #[serde(flatten)]
    pub by: Judge,
    /// A message to the model in addition to the judge's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
}

/// The judge of an output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Judge {
    /// An expression over `input` and `output`, in the language of templates.
    That(Arc<str>),
    /// A tool of the worker, called with the output. A worker that it may call also counts as a tool.
    Tool(Arc<str>),
}

/// The variables of expressions.
const VARIABLES: [&str; 2] = ["input", "output"];

impl Ensure {
    /// Parses a condition: a bare name is a tool's, any other text is an expression.
    ///
    /// # Errors
    /// The text is not a valid condition; the error describes the problem for its author.
    pub fn new(text: &str, reason: Option<&str>) -> Result<Self, String> {
        let by = if is_tool_name(text) {
            Judge::Tool(text.into())
        } else {
            template::check_condition(text, &VARIABLES)?;
            Judge::That(text.into())
        };
        Ok(Self { by, reason: reason.map(Into::into) })
    }

    /// The tool, if the judge is a tool.
    pub fn tool(&self) -> Option<&Arc<str>> {
        match &self.by {
            Judge::Tool(tool) => Some(tool),
            Judge::That(_) => None,
        }
    }

    /// Formats one line of the message to the model.
    fn line(&self, problem: &str) -> String {
        match &self.reason {
            Some(reason) => format!("\n- {reason} ({problem})"),
            None => format!("\n- {problem}"),
        }
    }
}

/// Returns true for names of tools and workers: `check`, `lib:review`, `reports/check`, `./check`. `output.title` is an
/// expression.
fn is_tool_name(text: &str) -> bool {
    let first = text.split('.').next().unwrap_or_default();
    text.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '.'))
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/'))
        && !VARIABLES.contains(&first)
}

/// The conditions of one call, and the input that they refer to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Ensures {
    /// The worker's input.
    pub input: Arc<Value>,
    /// All must hold.
    pub all: Arc<[Ensure]>,
}

impl Ensures {
    /// The tools that are called with an output, in order.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<str>> {
        self.all.iter().filter_map(Ensure::tool)
    }

    /// Evaluates the expressions on an output. The result is a failed condition, an output for the tools to check, or a
    /// valid output.
    pub(super) fn judge(&self, output: Value) -> Answer {
        let values = json!({"input": self.input, "output": output});
        let unmet = self.all.iter().filter_map(|ensure| {
            let Judge::That(that) = &ensure.by else { return None };
            let problem = match template::holds(that, &values) {
                Ok(true) => return None,
                Ok(false) => format!("`{that}` does not hold"),
                Err(error) => format!("`{that}` can't be told: {error}"),
            };
            Some(ensure.line(&problem))
        });
        match reasons(unmet.collect()) {
            Some(reasons) => Answer::Unmet(output, reasons),
            None if self.tools().next().is_some() => Answer::ForTools(output),
            None => Answer::Valid(output),
        }
    }

    /// Combines the tools' results, in order: the output's problems, for the model.
    ///
    /// # Errors
    /// A tool failed to decide, so the validity of the output is unknown.
    pub(super) fn verdict(&self, said: &[Ending]) -> Result<Option<String>, Failure> {
        let by_tools = self.all.iter().filter_map(|ensure| Some((ensure, ensure.tool()?)));
        let mut unmet = String::new();
        for ((ensure, tool), ending) in by_tools.zip(said) {
            if let Some(problem) = problem(tool, ending)? {
                unmet.push_str(&ensure.line(&format!("`{tool}`: {problem}")));
            }
        }
        Ok(reasons(unmet))
    }
}

fn reasons(unmet: String) -> Option<String> {
    (!unmet.is_empty())
        .then(|| format!("Your answer doesn't meet what is required of it:{unmet}\nAnswer again."))
}

/// The problem that a tool reports. `true`, `null`, an empty text or list, `ok` and `{"ok": true}` mean that there is
/// none. An error that the tool raises, a text, a list of texts and `{"ok": false, …}` describe the problem.
///
/// # Errors
/// The tool failed to decide, or its answer has neither form.
pub fn problem(tool: &str, ending: &Ending) -> Result<Option<String>, Failure> {
    let value = match ending {
        Ending::Output(value) => &**value,
        Ending::Failure(failure) if failure.kind == FailureKind::Tool => {
            return Ok(Some(failure.message.clone()));
        }
        Ending::Failure(failure) => {
            let message = format!("`{tool}` of `ensures` could not look at the output: {}", failure.message);
            return Err(Failure::new(failure.kind, message));
        }
        Ending::Suspended => {
            let message = format!("`{tool}` of `ensures` waits for the operator");
            return Err(Failure::new(FailureKind::Denied, message));
        }
    };
    let good = match value {
        Value::Null => true,
        Value::Bool(good) => *good,
        Value::String(text) => matches!(text.trim().to_ascii_lowercase().as_str(), "" | "ok"),
        Value::Array(list) if list.iter().all(Value::is_string) => list.is_empty(),
        Value::Object(map) if map.get("ok").is_some_and(Value::is_boolean) => map["ok"] == true,
        other => {
            let message = format!(
                "`{tool}` of `ensures` answered {other}, which says neither that the output is good nor what is wrong; \
                 answer true, or a text that says what is wrong"
            );
            return Err(Failure::new(FailureKind::Definition, message));
        }
    };
    Ok((!good).then(|| match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("; "),
        Value::Object(map) => {
            let said = ["reason", "problem", "message"].iter().find_map(|key| map.get(*key)?.as_str());
            said.map_or_else(|| value.to_string(), str::to_owned)
        }
        _ => "no".to_owned(),
    }))
}
