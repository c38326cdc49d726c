//! Questions of a run except the one for the next message: their display, and the meaning of answers. The same in a
//! chat, in `llm-do run` and in plain lines.

mod cut_off;
mod input;
mod view;

pub(crate) use view::Extent;

use crate::{
    editor::{arguments, has_editor},
    rows::{Tone, rule, unwrapped},
    visible,
};
use llm_do_core::{
    question::{Answer, Input, NotAccepted, Question, Waiting},
    schema::Violation,
};
use llm_do_terminal::{Answer as Entered, Choice, Field, FieldKind, KeyText, Kind, Line, Rejection};
use serde_json::Value;
use std::sync::Arc;

/// Formats a question for a transcript, in rows of at most `columns` columns. A rule separates a call from the text
/// before.
pub(crate) fn rows(waiting: &Waiting, extent: Extent, columns: usize) -> Vec<Line> {
    let approval = matches!(waiting.question, Question::Approval(_));
    approval.then(|| rule(columns)).into_iter().chain(text(waiting, extent, columns)).collect()
}

/// Formats a question in rows of at most `columns` columns.
pub(crate) fn text(waiting: &Waiting, extent: Extent, columns: usize) -> Vec<Line> {
    match &waiting.question {
        Question::Approval(approval) => view::question(approval, extent, columns),
        Question::Input(input) => input::question(input, extent, columns),
        Question::Settlement(settlement) => cut_off::question(&waiting.id.call, settlement, columns),
    }
}

/// Formats the subject of a question, on one line.
pub(crate) fn summary(question: &Question) -> Line {
    match question {
        Question::Approval(approval) => view::with_subject(approval, unwrapped),
        Question::Input(input) => {
            // The whole text stands in the transcript.
            let first = input.prompt.trim().lines().next().unwrap_or_default();
            unwrapped(&[
                (Tone::Name, &input.chain.join(" → ")),
                (Tone::Plain, " asks: "),
                (Tone::Plain, first),
            ])
        }
        Question::Settlement(settlement) => unwrapped(&[
            (Tone::Bold, &settlement.function),
            (Tone::Plain, " was cut off in an earlier process: what became of it?"),
        ]),
    }
}

/// Returns a key that answers by itself.
pub(crate) fn choice(key: char, label: &str) -> Choice {
    Choice { key, label: label.into(), text: None, options: Vec::new() }
}

fn with_text(key: char, label: &str, text: &str) -> Choice {
    let text = KeyText { label: text.into(), start: String::new() };
    Choice { text: Some(text), ..choice(key, label) }
}

/// Returns the possible answers to a question.
pub(crate) fn kind(question: &Question) -> Kind {
    match question {
        Question::Approval(approval) => Kind::Keys(vec![
            choice('a', "approve"),
            with_text('d', "deny", "reason (Enter for none)"),
            remembering(&approval.rules),
            with_text('D', "deny for this session", "reason (Enter for none)"),
            edit(&approval.input),
            choice('v', "show all"),
        ]),
        Question::Settlement(_) => Kind::Keys(vec![
            choice('a', "run it again"),
            with_text('d', "it is done", "its result (text or JSON)"),
            choice('x', "end the run"),
            choice('q', "decide later"),
        ]),
        Question::Input(input) => match input.schema.as_deref() {
            None => Kind::Text,
            Some(schema) => {
                picks(schema).map(Kind::Pick).or_else(|| form(schema).map(Kind::Form)).unwrap_or(Kind::Text)
            }
        },
    }
}

/// Returns the choice that approves more than this call: the same arguments, or the calls that a rule applies to. Each
/// rule is shown as it would be made.
fn remembering(rules: &[Arc<str>]) -> Choice {
    let label = "approve for this session";
    if rules.is_empty() {
        return choice('r', label);
    }
    let about = |rule: &Arc<str>| {
        let what = if rule.contains('(') { "this tool in this folder" } else { "this tool" };
        format!("{}   ({what})", visible::line(rule))
    };
    let options = ["the same arguments".to_owned()].into_iter().chain(rules.iter().map(about)).collect();
    Choice { options, ..choice('r', label) }
}

/// Returns the choice that edits the arguments: in the user's editor, or on a line if none is set.
fn edit(arguments: &Value) -> Choice {
    let text = (!has_editor()).then(|| KeyText { label: "arguments".into(), start: arguments.to_string() });
    Choice { text, ..choice('e', "edit") }
}

/// Returns the texts to choose from, if a schema is a list of texts.
fn picks(schema: &Value) -> Option<Vec<String>> {
    let values = schema.get("enum")?.as_array()?;
    let texts: Option<Vec<String>> = values.iter().map(|value| value.as_str().map(str::to_owned)).collect();
    texts.filter(|texts| !texts.is_empty())
}

/// Returns the fields of a form, if each has one value.
fn form(schema: &Value) -> Option<Vec<Field>> {
    let properties = schema.get("properties")?.as_object()?;
    let required = schema.get("required").and_then(Value::as_array);
    let field = |(name, schema): (&String, &Value)| {
        let kind = match (picks(schema), schema.get("type").and_then(Value::as_str)) {
            (Some(texts), _) => FieldKind::Pick(texts),
            (None, Some("boolean")) => FieldKind::Pick(vec!["true".into(), "false".into()]),
            (None, Some("string" | "integer" | "number")) => FieldKind::Text,
            _ => return None,
        };
        let note = schema.get("description").and_then(Value::as_str).unwrap_or_default().into();
        let required = required.is_some_and(|names| names.iter().any(|other| other == name.as_str()));
        Some(Field { name: name.clone(), note, kind, required })
    };
    let fields: Option<Vec<Field>> = properties.iter().map(field).collect();
    fields.filter(|fields| !fields.is_empty())
}

/// The meaning of an entry at the terminal.
pub(crate) enum Meant {
    /// The user gives this answer.
    Answer(Answer),
    /// The user gives no answer now.
    Later,
    /// The user wants to edit the arguments.
    Edit,
    /// The user wants to see the whole question.
    Show,
}

/// Reads an entry at the terminal as an answer.
///
/// # Errors
/// The reason why the answer is not usable.
pub(crate) fn meant(question: &Question, entered: Entered) -> Result<Meant, Rejection> {
    let answer = match (question, entered) {
        (Question::Approval(_), Entered::Option('r', 0)) => Answer::Approve { remember: true },
        (Question::Approval(approval), Entered::Option('r', number)) => {
            match approval.rules.get(number - 1) {
                Some(calls) => Answer::Allow { calls: Arc::clone(calls) },
                None => return Err("there is no such choice".into()),
            }
        }
        (Question::Approval(approval), Entered::Key(key, reason)) => match key {
            'a' => Answer::Approve { remember: false },
            'r' => Answer::Approve { remember: true },
            'v' => return Ok(Meant::Show),
            'e' => match reason {
                None => return Ok(Meant::Edit),
                Some(text) => Answer::Edit { input: arguments(&text, &approval.input)? },
            },
            key => {
                Answer::Deny { reason: reason.filter(|text| !text.trim().is_empty()), remember: key == 'D' }
            }
        },
        (Question::Settlement(_), Entered::Key(key, result)) => match key {
            'a' => Answer::Again,
            'x' => Answer::Abort,
            'q' => return Ok(Meant::Later),
            _ => {
                let text = result.unwrap_or_default();
                let result = llm_do_core::json::read(&text).unwrap_or(Value::String(text));
                Answer::Done { result: Arc::new(result) }
            }
        },
        (Question::Input(input), entered) => given(input, entered)?,
        _ => return Err("this is no answer to the question".into()),
    };
    question.accept(&answer).map_err(rejection)?;
    Ok(Meant::Answer(answer))
}

fn given(input: &Input, entered: Entered) -> Result<Answer, Rejection> {
    let read = match entered {
        Entered::Pick(number) => {
            let choice = input.schema.as_deref().and_then(|schema| schema.get("enum")?.get(number).cloned());
            let value = choice.ok_or("there is no such choice")?;
            input.accept(&value).map(|()| Answer::Give { value: Arc::new(value) })
        }
        Entered::Form(fields) => input.read_fields(fields),
        Entered::Text(text) | Entered::Key(_, Some(text)) => input.read(&text),
        Entered::Key(_, None) | Entered::Option(..) => return Err("this is no answer to the question".into()),
    };
    read.map_err(rejection)
}

/// Returns the reason why an answer is rejected, at the field of the form that is wrong.
pub(crate) fn rejection(why: NotAccepted) -> Rejection {
    match why {
        NotAccepted::Misfit(wrong) => Rejection {
            problem: wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
            field: wrong.first().and_then(Violation::property),
        },
        why => why.to_string().into(),
    }
}

/// Reads a line as an entry that could have been made with keys.
///
/// # Errors
/// The possible entries.
pub(crate) fn line(kind: &Kind, line: &str) -> Result<Entered, String> {
    match kind {
        Kind::Keys(choices) => {
            let (word, rest) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
            let chosen = by_line(choices).find(|choice| word == choice.key.to_string().as_str());
            let text = |choice: &Choice| choice.text.as_ref().map(|_| rest.trim().to_owned());
            if let Some(choice) = chosen.filter(|choice| !choice.options.is_empty()) {
                let number = match rest.trim() {
                    "" => Some(1),
                    number => number.parse::<usize>().ok(),
                };
                let number = number.filter(|number| (1..=choice.options.len()).contains(number));
                return number
                    .map(|number| Entered::Option(choice.key, number - 1))
                    .ok_or_else(|| keys(kind));
            }
            chosen.map(|choice| Entered::Key(choice.key, text(choice))).ok_or_else(|| keys(kind))
        }
        Kind::Pick(texts) => match line.trim().parse::<usize>() {
            Ok(number) if (1..=texts.len()).contains(&number) => Ok(Entered::Pick(number - 1)),
            _ => Ok(Entered::Text(line.to_owned())),
        },
        Kind::Form(_) | Kind::Text => Ok(Entered::Text(line.to_owned())),
    }
}

/// Returns the keys that a line can express. Editing is not possible there, and everything is shown already.
fn by_line(choices: &[Choice]) -> impl Iterator<Item = &Choice> {
    choices.iter().filter(|choice| !matches!(choice.key, 'e' | 'v'))
}

/// Describes how a line answers a question.
pub(crate) fn keys(kind: &Kind) -> String {
    match kind {
        Kind::Keys(choices) => {
            let choices = by_line(choices).map(|choice| match &choice.text {
                None if !choice.options.is_empty() => {
                    let options = choice.options.iter().enumerate();
                    let options =
                        options.map(|(at, option)| format!("{} {} for {option}", choice.key, at + 1));
                    format!("{} = {} ({})", choice.key, choice.label, options.collect::<Vec<_>>().join(", "))
                }
                None => format!("{} = {}", choice.key, choice.label),
                Some(text) => format!("{} TEXT = {}, with {}", choice.key, choice.label, text.label),
            });
            choices.collect::<Vec<_>>().join("; ")
        }
        Kind::Pick(texts) => {
            let texts = texts.iter().enumerate().map(|(at, text)| format!("{} = {text}", at + 1));
            texts.collect::<Vec<_>>().join("; ")
        }
        Kind::Form(_) => "the form as JSON".into(),
        Kind::Text => "a text".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn input(schema: Value) -> Question {
        Question::Input(Input {
            chain: vec!["main".into()],
            prompt: "?".into(),
            schema: Some(Arc::new(schema)),
            changes: Vec::new(),
            conversation: None,
            expires_ms: None,
        })
    }

    fn value(meant: Result<Meant, Rejection>) -> Result<Value, Rejection> {
        match meant? {
            Meant::Answer(Answer::Give { value }) => Ok((*value).clone()),
            _ => Err("no value".into()),
        }
    }

    #[test]
    fn a_form_of_single_values_is_filled_in_field_by_field() {
        let schema = json!({
            "type": "object",
            "properties": {"n": {"type": "integer", "maximum": 9}, "ok": {"type": "boolean"}, "name": {"type": "string"}},
            "required": ["n"],
        });
        let question = input(schema);
        let Kind::Form(fields) = kind(&question) else { panic!() };
        assert_eq!(fields.iter().filter(|field| field.required).count(), 1);
        let filled = |n: &str| {
            let fields = [("n", n), ("ok", "true"), ("name", "12")];
            let fields = fields.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec();
            value(meant(&question, Entered::Form(fields)))
        };
        assert_eq!(filled("3"), Ok(json!({"n": 3, "ok": true, "name": "12"})));
        for wrong in ["three", "12"] {
            let rejection = filled(wrong).unwrap_err();
            assert_eq!(rejection.field.as_deref(), Some("n"), "{rejection:?}");
        }
        assert!(filled("").unwrap_err().problem.contains('n'));
    }

    #[test]
    fn the_subject_of_a_question_is_one_line() {
        let Question::Input(input) = input(json!({})) else { panic!() };
        let question = Question::Input(Input { prompt: "Which one?\n  a\n  b".into(), ..input });
        assert_eq!(summary(&question).text(), "main asks: Which one?");
    }

    #[test]
    fn choices_are_picked_by_number_or_text() {
        let question = input(json!({"enum": ["red", "blue"]}));
        let picked = |text| value(meant(&question, line(&kind(&question), text).expect("a line")));
        assert_eq!(picked("2"), Ok(json!("blue")));
        assert_eq!(picked("red"), Ok(json!("red")));
        assert!(picked("3").is_err());
    }

    #[test]
    fn a_nested_form_is_a_text() {
        let nested = json!({"type": "object", "properties": {"a": {"type": "array"}}});
        assert_eq!(kind(&input(nested)), Kind::Text);
    }
}
