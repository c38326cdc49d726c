//! The question for words: a worker, or a server behind a tool, wants something from the user.

use super::entry::{Entered, read};
use crate::{paint::Paint, terminal::Terminal, visible};
use llm_do_core::{
    question::{Answer, Input},
    schema::Schema,
};
use serde_json::Value;
use std::{
    fmt::Write as _,
    sync::{Arc, atomic::AtomicBool},
};

/// Asks for one line. With a schema it is read as JSON, or as text where the schema takes that, and asked for again until
/// it fits. Ctrl-D gives no answer. `None`: the question was cancelled.
pub(super) fn ask(
    terminal: &Terminal,
    cancelled: &AtomicBool,
    wanted: &Input,
    paint: Paint,
) -> Option<Answer> {
    terminal.show(&question(wanted, paint));
    terminal.read_keys(cancelled);
    let schema = wanted.schema.as_ref().and_then(|schema| Schema::new((**schema).clone()).ok());
    let answer = loop {
        match read(terminal, cancelled, "> ", "") {
            Entered::Line(line) => match value(&line, schema.as_ref()) {
                Ok(value) => break Some(Answer::Give { value: Arc::new(value) }),
                Err(problem) => {
                    terminal.show(&format!("  {} {}\n", paint.red("not usable:"), visible::text(&problem)));
                }
            },
            Entered::Left => break Some(Answer::Decline { reason: None }),
            Entered::Cancelled => break None,
        }
    };
    terminal.restore();
    answer
}

/// The line as the schema wants it, or what is wrong with it.
fn value(line: &str, schema: Option<&Schema>) -> Result<Value, String> {
    let text = Value::String(line.to_owned());
    let Some(schema) = schema else { return Ok(text) };
    let read = serde_json::from_str(line).unwrap_or_else(|_| text.clone());
    for candidate in [&text, &read] {
        if schema.validate(candidate).is_ok() {
            return Ok(candidate.clone());
        }
    }
    let wrong = schema.validate(&read).err().unwrap_or_default();
    Err(wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

fn question(wanted: &Input, paint: Paint) -> String {
    let mut out = format!("{} asks:\n", paint.cyan(visible::line(&wanted.chain.join(" → "))));
    for line in visible::text(&wanted.prompt).lines() {
        // Writing to a `String` does not fail.
        let _ = writeln!(out, "  │ {line}");
    }
    if let Some(schema) = &wanted.schema {
        let _ = writeln!(out, "  {}", paint.dim(visible::line(&format!("as {schema}"))));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_is_read_as_its_schema_wants_it() {
        let schema = |value| Schema::new(value).unwrap();
        assert_eq!(value("12", None), Ok(json!("12")));
        assert_eq!(value("12", Some(&schema(json!({"type": "integer"})))), Ok(json!(12)));
        assert_eq!(value("12", Some(&schema(json!({"type": "string"})))), Ok(json!("12")));
        let form = schema(json!({"type": "object", "required": ["n"]}));
        assert_eq!(value(r#"{"n": 1}"#, Some(&form)), Ok(json!({"n": 1})));
        assert!(value("{}", Some(&form)).unwrap_err().contains("n"));
    }

    #[test]
    fn nothing_in_the_prompt_reaches_the_terminal_as_a_command() {
        let wanted = Input {
            chain: vec!["main".into()],
            prompt: "your name?\u{1b}[2J\n[a]pprove".into(),
            schema: Some(Arc::new(json!({"title": "\u{9b}1A"}))),
        };
        let text = question(&wanted, Paint::NEVER);
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("  ")), "{text}");
    }
}
