//! A question as plain text and as Markdown, for faces that show no more than text.

use crate::{program::visible, records};
use llm_do_core::question::{Fact, Form, Preview, Question};
use serde_json::Value;
use std::fmt::Write as _;

/// The most characters of one fact that are shown. A notice says how many are left out.
const LONGEST_FACT: usize = 4000;

/// Returns the question in plain text, with all characters escaped that are invisible or move the cursor. The JSON
/// Schema of an answer is left out if the face has a form for it.
pub fn plain(question: &Question, with_schema: bool) -> String {
    let mut text = visible::line(&question.subject()).into_owned();
    for fact in question.facts() {
        write_fact(&mut text, &fact, with_schema);
    }
    text
}

/// Returns the form of the question, with all characters escaped in titles and descriptions that are invisible or move the
/// cursor: these may be a model's words.
pub fn form(question: &Question) -> Form {
    let mut form = question.form();
    let fields = form.schema.get_mut("properties").and_then(Value::as_object_mut);
    for field in fields.into_iter().flat_map(|fields| fields.values_mut()) {
        for key in ["title", "description"] {
            if let Some(Value::String(words)) = field.get_mut(key) {
                *words = visible::line(words).into_owned();
            }
        }
    }
    form
}

/// Returns the question as an entry of a list in Markdown. The subject is a span of code, and everything else is in a
/// block of code, so that no part of it can be a link, an image or a heading.
pub fn markdown(question: &Question) -> String {
    let mut rest = String::new();
    for fact in question.facts() {
        write_fact(&mut rest, &fact, true);
    }
    let subject = visible::line(&question.subject()).replace('`', "'");
    format!("- `{subject}`\n\n{}", fenced("", rest.trim_start()))
}

/// Returns a text as a block of code in Markdown, which the text can't end.
pub fn fenced(language: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{text}\n{fence}")
}

/// Adds a fact on lines of its own.
fn write_fact(text: &mut String, fact: &Fact<'_>, with_schema: bool) {
    // Writing to a `String` does not fail.
    let _ = match fact {
        Fact::Note(note) => write!(text, "\n{}", visible::line(note)),
        Fact::Words(sentence, excerpt) => {
            write!(text, "\n{}\n  {}", visible::line(sentence), visible::line(excerpt))
        }
        Fact::Prompt(prompt) => write!(text, "\n{}", beginning(prompt)),
        Fact::Arguments(input) => write!(text, "\n\nArguments:\n{}", beginning(&format!("{input:#}"))),
        Fact::Change(change) => write!(text, "\n\nThe change:\n{}", beginning(&diff(change))),
        Fact::Schema(schema) if with_schema => {
            write!(text, "\n\nThe answer is JSON of this schema:\n{}", beginning(&format!("{schema:#}")))
        }
        Fact::Schema(_) => Ok(()),
        Fact::Expires(at_ms) => write!(text, "\n\n{}", expiry(*at_ms)),
    };
}

/// Returns the sentence on the expiry of a question, a time in milliseconds since 1970.
pub fn expiry(at_ms: u64) -> String {
    format!(
        "The question expires at {}: without an answer until then the call is refused.",
        records::moment(at_ms)
    )
}

/// Returns a change to a file as a unified diff.
pub fn diff(change: &Preview) -> String {
    let Preview::Change { path, before, after } = change;
    let [before, after] = [before, after].map(|content| content.as_deref().unwrap_or_default());
    records::diff::unified_diff(path, path, before, after)
}

/// Returns the beginning of a long text, with invisible characters escaped.
fn beginning(text: &str) -> String {
    let shown = visible::start(text, LONGEST_FACT);
    let left = text.chars().count().saturating_sub(LONGEST_FACT);
    let more = if left > 0 { format!("\n({left} more characters are not shown)") } else { String::new() };
    format!("{}{more}", visible::text(&shown))
}

#[cfg(test)]
mod tests {
    use super::*;
    use llm_do_core::{
        question::{Approval, Input},
        risk::Risk,
        rule::DecidedBy,
    };
    use serde_json::json;
    use std::sync::Arc;

    fn write() -> Question {
        Question::Approval(Approval {
            chain: vec!["main".into()],
            function: "write_file".into(),
            risk: Risk::Write,
            input: Arc::new(json!({"path": "/a", "content": "```\n# \u{202e}x"})),
            preview: Some(Box::new(Preview::Change {
                path: "/a".into(),
                before: Some("old".into()),
                after: Some("new".into()),
            })),
            rule: DecidedBy::Default(Risk::Write),
            calls: None,
            steering: None,
            rules: Vec::new(),
            expires_ms: Some(0),
            arguments: Default::default(),
        })
    }

    #[test]
    fn all_facts_are_in_the_text() {
        let text = plain(&write(), true);
        for part in [
            "main wants to call write_file (risk: write)",
            "Asked because of: ",
            "\"path\"",
            "-old",
            "+new",
            "1970-01-01",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains('\u{202e}'), "{text}");
    }

    #[test]
    fn markdown_keeps_words_of_others_in_blocks() {
        let text = markdown(&write());
        assert!(text.starts_with("- `main wants to call write_file (risk: write)`\n\n````\n"), "{text}");
        assert!(text.ends_with("\n````"), "{text}");
        assert_eq!(fenced("", "a\n```\nb"), "````\na\n```\nb\n````");
        assert_eq!(fenced("json", "{}"), "```json\n{}\n```");
    }

    #[test]
    fn a_schema_is_shown_where_there_is_no_form() {
        let question = Question::Input(Input {
            chain: vec!["main".into()],
            prompt: "Which?".into(),
            schema: Some(Arc::new(json!({"enum": ["red"]}))),
            changes: Vec::new(),
            conversation: None,
            expires_ms: None,
        });
        assert!(plain(&question, true).contains("red"));
        assert_eq!(plain(&question, false), "main asks:\nWhich?");
    }
}
