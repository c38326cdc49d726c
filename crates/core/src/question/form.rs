//! A question as a form: a JSON Schema of a flat object, for interfaces that show forms (elicitation in MCP and in the
//! protocol of editors). The answer to the form is read here too, so that all interfaces take the same answers.

use super::{Answer, Input, NotAccepted, Question};
use crate::json;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The name of the only field of a form that asks for one value.
const ANSWER: &str = "answer";
/// Keywords of a field's schema that a form contains. The answer is validated with the whole schema.
const SHOWN: &[&str] = &[
    "type",
    "title",
    "description",
    "enum",
    "default",
    "format",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
];

/// A form that asks a question.
#[derive(Clone, Debug, PartialEq)]
pub struct Form {
    /// JSON Schema: an object of texts, numbers, flags and choices. Titles and descriptions in it may be words of
    /// others.
    pub schema: Value,
    /// The kind of its fields.
    pub fields: FormFields,
}

/// The kind of the fields of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormFields {
    /// A decision, with further fields.
    Decision,
    /// The fields that the question itself has.
    Own,
    /// A choice from a list of texts.
    Choice,
    /// A text.
    Text,
    /// A value that no form can show, as JSON in a text.
    Json,
}

/// The reason why a form that was filled in is no answer to its question.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFilled {
    /// A field is missing, or has another type.
    #[error("`{0}` is missing, or has another type")]
    Field(&'static str),
    /// The decision is none of the choices.
    #[error("`decision` is missing, or is none of its choices")]
    Decision,
    /// The question does not accept the answer.
    #[error(transparent)]
    NotAccepted(#[from] NotAccepted),
}

impl Question {
    /// Returns the form of the question.
    pub fn form(&self) -> Form {
        match self {
            Self::Approval(_) => decision(
                &["approve", "deny"],
                None,
                json!({
                    "reason": {
                        "type": "string",
                        "title": "Reason for a denial",
                        "description": "The model is told.",
                    },
                    "remember": {
                        "type": "boolean",
                        "title": "Decide the same call alike for the rest of the run",
                        "default": false,
                    },
                }),
            ),
            Self::Settlement(_) => decision(
                &["again", "done", "abort"],
                Some("again: run it again. done: it took effect, with this result. abort: end the run."),
                json!({"result": {"type": "string", "title": "Result, as JSON or text"}}),
            ),
            Self::Input(input) => input.fields(),
        }
    }

    /// Reads the answer from the form that a person has filled in.
    ///
    /// # Errors
    /// The form is no answer to the question, which stays open.
    pub fn filled(&self, content: &Value) -> Result<Answer, NotFilled> {
        let text = |name: &str| content.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let answer = match (self, text("decision")) {
            (Self::Input(input), _) => input.value_of(content)?,
            (Self::Approval(_), Some("approve")) => Answer::Approve { remember: remember(content)? },
            (Self::Approval(_), Some("deny")) => {
                Answer::Deny { reason: text("reason").map(str::to_owned), remember: remember(content)? }
            }
            (Self::Settlement(_), Some("again")) => Answer::Again,
            (Self::Settlement(_), Some("abort")) => Answer::Abort,
            (Self::Settlement(_), Some("done")) => {
                let result = text("result").ok_or(NotFilled::Field("result"))?;
                Answer::Done { result: Arc::new(json_or_text(result)) }
            }
            (Self::Approval(_) | Self::Settlement(_), _) => return Err(NotFilled::Decision),
        };
        self.accept(&answer)?;
        Ok(answer)
    }
}

impl Input {
    fn fields(&self) -> Form {
        let Some(schema) = self.schema.as_deref() else {
            return Form { schema: lone("Answer", None, None), fields: FormFields::Text };
        };
        let words = schema.get("enum").and_then(Value::as_array);
        if let Some(words) = words.filter(|words| words.iter().all(Value::is_string)) {
            return Form { schema: lone("Answer", None, Some(words)), fields: FormFields::Choice };
        }
        match own_fields(schema) {
            Some(schema) => Form { schema, fields: FormFields::Own },
            None => {
                let about = format!("JSON Schema: {schema}");
                Form { schema: lone("Answer as JSON", Some(&about), None), fields: FormFields::Json }
            }
        }
    }

    fn value_of(&self, content: &Value) -> Result<Answer, NotFilled> {
        let text = || content.get(ANSWER).and_then(Value::as_str).ok_or(NotFilled::Field(ANSWER));
        let value = match self.fields().fields {
            FormFields::Text | FormFields::Choice => text()?.into(),
            FormFields::Json => json_or_text(text()?),
            FormFields::Own | FormFields::Decision if content.is_null() => json!({}),
            FormFields::Own | FormFields::Decision => content.clone(),
        };
        Ok(Answer::Give { value: Arc::new(value) })
    }
}

fn decision(choices: &[&str], about: Option<&str>, further: Value) -> Form {
    let mut decision = json!({"type": "string", "title": "Decision", "enum": choices});
    if let Some(about) = about {
        decision["description"] = about.into();
    }
    let mut properties = Map::from_iter([("decision".to_owned(), decision)]);
    properties.extend(further.as_object().cloned().unwrap_or_default());
    let schema = json!({"type": "object", "properties": properties, "required": ["decision"]});
    Form { schema, fields: FormFields::Decision }
}

fn remember(content: &Value) -> Result<bool, NotFilled> {
    match content.get("remember") {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(remember)) => Ok(*remember),
        Some(_) => Err(NotFilled::Field("remember")),
    }
}

/// Returns the schema of a form with one field.
fn lone(title: &str, about: Option<&str>, choices: Option<&Vec<Value>>) -> Value {
    let mut field = json!({"type": "string", "title": title});
    if let Some(about) = about {
        field["description"] = about.into();
    }
    if let Some(choices) = choices {
        field["enum"] = choices.clone().into();
    }
    json!({"type": "object", "properties": {ANSWER: field}, "required": [ANSWER]})
}

/// Returns the schema of a form with the properties of an object, if each of them can be a field.
fn own_fields(schema: &Value) -> Option<Value> {
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return None;
    }
    let properties = schema.get("properties")?.as_object()?;
    let fields: Option<Map<String, Value>> =
        properties.iter().map(|(name, property)| Some((name.clone(), field(property)?))).collect();
    let required = schema.get("required").cloned().unwrap_or_else(|| json!([]));
    Some(json!({"type": "object", "properties": fields?, "required": required}))
}

/// Returns a field of the form, if it is a text, a number, a flag or a choice.
fn field(property: &Value) -> Option<Value> {
    let kind = property.get("type").and_then(Value::as_str);
    let words = property.get("enum").and_then(Value::as_array);
    if words.is_some_and(|words| !words.iter().all(Value::is_string)) {
        return None;
    }
    match (kind, words) {
        (Some("string"), _) | (None, Some(_)) => {}
        (Some("number" | "integer" | "boolean"), None) => {}
        _ => return None,
    }
    let shown = property.as_object()?.iter().filter(|(key, _)| SHOWN.contains(&key.as_str()));
    let mut field: Map<String, Value> = shown.map(|(key, value)| (key.clone(), value.clone())).collect();
    field.entry("type").or_insert_with(|| "string".into());
    Some(field.into())
}

fn json_or_text(text: &str) -> Value {
    json::read(text.trim()).unwrap_or_else(|_| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{question::Settlement, risk::Risk};

    fn input(schema: Option<Value>) -> Question {
        Question::Input(Input {
            chain: vec!["main".into()],
            prompt: "Which?".into(),
            schema: schema.map(Arc::new),
            changes: Vec::new(),
            conversation: None,
            expires_ms: None,
        })
    }

    fn settlement() -> Question {
        Question::Settlement(Settlement {
            chain: Vec::new(),
            function: "send".into(),
            risk: Risk::Network,
            input: Arc::default(),
        })
    }

    #[test]
    fn choices_and_flat_objects_are_fields_and_the_rest_is_json() {
        let of = |schema| input(schema).form().fields;
        assert_eq!(of(Some(json!({"enum": ["red", "blue"]}))), FormFields::Choice);
        let flat = json!({"type": "object", "properties": {"n": {"type": "integer"}, "c": {"enum": ["a"]}}});
        assert_eq!(of(Some(flat)), FormFields::Own);
        assert_eq!(of(None), FormFields::Text);
        assert_eq!(of(Some(json!({"enum": [1, 2]}))), FormFields::Json);
        let deep = json!({"type": "object", "properties": {"all": {"type": "array"}}});
        assert_eq!(of(Some(deep)), FormFields::Json);
    }

    #[test]
    fn every_form_that_is_filled_as_it_says_gives_an_answer_to_its_question() {
        let deep = json!({"type": "object", "properties": {"all": {"type": "array"}}});
        let flat = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
        let give = |value| Answer::Give { value: Arc::new(value) };
        for (question, content, answer) in [
            (input(None), json!({"answer": " 12 "}), give(json!(" 12 "))),
            (input(Some(json!({"enum": ["red"]}))), json!({"answer": "red"}), give(json!("red"))),
            (input(Some(json!({"enum": [1, 2]}))), json!({"answer": "2"}), give(json!(2))),
            (input(Some(deep)), json!({"answer": "{\"all\": [1]}"}), give(json!({"all": [1]}))),
            (input(Some(flat)), json!({"n": 1}), give(json!({"n": 1}))),
            (
                settlement(),
                json!({"decision": "done", "result": "{\"a\": 1}"}),
                Answer::Done { result: Arc::new(json!({"a": 1})) },
            ),
            (settlement(), json!({"decision": "abort"}), Answer::Abort),
        ] {
            assert_eq!(question.filled(&content), Ok(answer), "{content}");
        }
    }

    #[test]
    fn a_form_that_is_filled_wrong_is_no_answer() {
        let colour = input(Some(json!({"enum": ["red", "blue"]})));
        assert!(matches!(colour.filled(&json!({"answer": "green"})), Err(NotFilled::NotAccepted(_))));
        assert_eq!(colour.filled(&json!({"other": "red"})), Err(NotFilled::Field("answer")));
        assert_eq!(settlement().filled(&json!({"decision": "done"})), Err(NotFilled::Field("result")));
        assert_eq!(settlement().filled(&json!({"decision": "approve"})), Err(NotFilled::Decision));
        let flat = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
        assert!(matches!(input(Some(flat)).filled(&Value::Null), Err(NotFilled::NotAccepted(_))));
    }
}
