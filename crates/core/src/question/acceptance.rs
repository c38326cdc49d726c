//! The answers that a question accepts. Every interface calls this code, so that all accept the same answers.

use super::{Answer, Input, Question};
use crate::{
    json,
    schema::{Schema, Violation},
};
use serde_json::{Map, Value};
use std::{fmt, sync::Arc};

/// The reason why an answer does not fit a question, which stays open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAccepted {
    /// The answer belongs to another kind of question.
    #[error("the answer is one to another kind of question")]
    OtherKind,
    /// The value does not fit the schema of the question.
    #[error("the answer does not fit the question: {}", Listed(.0))]
    Misfit(Vec<Violation>),
    /// The question has no schema, and the value is not a text.
    #[error("the question wants a text")]
    NoText,
    /// The arguments of an edit are not an object, as the arguments of the call are.
    #[error("the arguments must be a JSON object, as those of the call are")]
    NoArguments,
    /// The arguments of an edit don't fit the schema of the function.
    #[error("the arguments do not fit `{function}`: {}", Listed(.wrong))]
    BadArguments {
        /// The function.
        function: Arc<str>,
        /// The violations of the schema.
        wrong: Vec<Violation>,
    },
    /// The schema that a tool gave its question is invalid, so that no value can be judged.
    #[error("the question can only be declined, because its form is {0}")]
    NoForm(String),
}

/// Violations on one line.
struct Listed<'a>(&'a [Violation]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, violation) in self.0.iter().enumerate() {
            let before = if at == 0 { "" } else { "; " };
            write!(f, "{before}{violation}")?;
        }
        Ok(())
    }
}

impl Question {
    /// Judges an answer before it is taken.
    ///
    /// # Errors
    /// The answer does not fit this question.
    pub fn accept(&self, answer: &Answer) -> Result<(), NotAccepted> {
        if !answer.fits(self) {
            return Err(NotAccepted::OtherKind);
        }
        match (self, answer) {
            (Self::Input(input), Answer::Give { value }) => input.accept(value),
            (Self::Approval(asked), Answer::Edit { input })
                if asked.input.is_object() && !input.is_object() =>
            {
                Err(NotAccepted::NoArguments)
            }
            (Self::Approval(asked), Answer::Edit { input }) => match &asked.arguments.0 {
                Some(schema) => schema.accept(input).map(drop).map_err(|wrong| NotAccepted::BadArguments {
                    function: Arc::clone(&asked.function),
                    wrong,
                }),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// The answer that refuses the question's request, with a reason.
    pub fn refusal(&self, reason: Option<&str>) -> Answer {
        let reason = reason.map(str::to_owned);
        match self {
            Self::Approval(_) => Answer::Deny { reason, remember: false },
            Self::Input(Input { conversation: Some(_), .. }) => Answer::End,
            Self::Input(_) => Answer::Decline { reason },
            Self::Settlement(_) => Answer::Abort,
        }
    }
}

impl Input {
    /// Judges a value before it is given.
    ///
    /// # Errors
    /// The value does not fit the schema, or is not a text if there is no schema.
    pub fn accept(&self, value: &Value) -> Result<(), NotAccepted> {
        match self.form()? {
            Some(schema) => schema.validate(value).map_err(NotAccepted::Misfit),
            None if value.is_string() => Ok(()),
            None => Err(NotAccepted::NoText),
        }
    }

    /// Reads the answer from a text that a person wrote: the text itself if the question accepts it, with or without
    /// the white space around it, and otherwise the JSON in it.
    ///
    /// # Errors
    /// The question accepts neither. The violations are those of the JSON value, or those of the text if it is not
    /// JSON.
    pub fn read(&self, text: &str) -> Result<Answer, NotAccepted> {
        let Some(schema) = self.form()? else { return Ok(given(text.into())) };
        read(text, &schema).map(given)
    }

    /// Reads the answer from the texts that a person wrote into the fields of a form. Fields without text are left out.
    ///
    /// # Errors
    /// A field, or the whole form, does not fit. The violations have the places.
    pub fn read_fields(
        &self,
        fields: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Answer, NotAccepted> {
        let form = self.schema.as_deref();
        let mut values = Map::new();
        for (name, text) in fields.into_iter().filter(|(_, text)| !text.is_empty()) {
            let of_field = form.and_then(|form| form.get("properties")?.get(&name));
            let value = match of_field.and_then(|schema| Schema::new(schema.clone()).ok()) {
                // All of the form is judged below, where a violation says which field it is about.
                Some(schema) => read(&text, &schema).unwrap_or_else(|_| text.into()),
                None => text.into(),
            };
            values.insert(name, value);
        }
        let value = Value::Object(values);
        self.accept(&value).map(|()| given(value))
    }

    fn form(&self) -> Result<Option<Schema>, NotAccepted> {
        let schema = self.schema.as_deref().cloned().map(Schema::new).transpose();
        schema.map_err(|error| NotAccepted::NoForm(error.to_string()))
    }
}

/// Reads a value from a text that a person wrote.
fn read(text: &str, schema: &Schema) -> Result<Value, NotAccepted> {
    let read = json::read(text.trim()).ok();
    let candidates = [Some(Value::from(text)), Some(Value::from(text.trim())), read];
    let mut wrong = Vec::new();
    for value in candidates.into_iter().flatten() {
        match schema.validate(&value) {
            Ok(()) => return Ok(value),
            Err(violations) => wrong = violations,
        }
    }
    Err(NotAccepted::Misfit(wrong))
}

fn given(value: Value) -> Answer {
    Answer::Give { value: Arc::new(value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        question::{Approval, Arguments, Settlement},
        risk::Risk,
        rule::DecidedBy,
    };
    use serde_json::json;

    fn input(schema: Option<Value>) -> Input {
        Input {
            chain: vec!["main".into()],
            prompt: "?".into(),
            schema: schema.map(Arc::new),
            changes: Vec::new(),
            conversation: None,
            expires_ms: None,
        }
    }

    #[test]
    fn a_value_that_does_not_fit_is_not_taken() {
        let form = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
        let question = Question::Input(input(Some(form)));
        assert_eq!(question.accept(&given(json!({"n": 1}))), Ok(()));
        for wrong in [json!({}), json!({"n": "one"}), json!("n"), Value::Null] {
            let refused = question.accept(&given(wrong.clone()));
            assert!(matches!(refused, Err(NotAccepted::Misfit(_))), "{wrong}: {refused:?}");
        }
        let plain = Question::Input(input(None));
        assert_eq!(plain.accept(&given(json!("text"))), Ok(()));
        assert_eq!(plain.accept(&given(json!(1))), Err(NotAccepted::NoText));
        assert_eq!(plain.accept(&Answer::Again), Err(NotAccepted::OtherKind));
        assert_eq!(plain.accept(&Answer::Decline { reason: None }), Ok(()));
        let no_form = Question::Input(input(Some(json!({"type": "no type"}))));
        assert!(matches!(no_form.accept(&given(json!(1))), Err(NotAccepted::NoForm(_))));
        assert_eq!(no_form.accept(&Answer::Decline { reason: None }), Ok(()));
    }

    #[test]
    fn edited_arguments_are_an_object_if_those_of_the_call_are() {
        let schema = json!({"type": "object", "properties": {"to": {"type": "string"}}});
        let schema = Schema::new(schema).unwrap();
        let question = Question::Approval(Approval {
            chain: vec!["main".into()],
            function: "send".into(),
            risk: Risk::Network,
            input: Arc::new(json!({"to": "ada"})),
            preview: None,
            rule: DecidedBy::Default(Risk::Network),
            calls: None,
            steering: None,
            rules: Vec::new(),
            expires_ms: None,
            arguments: Arguments(Some(Arc::new(schema))),
        });
        let edit = |input: Value| question.accept(&Answer::Edit { input: Arc::new(input) });
        assert_eq!(edit(json!({"to": "bob"})), Ok(()));
        assert_eq!(edit(json!(["bob"])), Err(NotAccepted::NoArguments));
        let wrong = edit(json!({"to": 3})).unwrap_err().to_string();
        assert!(wrong.starts_with("the arguments do not fit `send`: "), "{wrong}");
    }

    #[test]
    fn a_text_is_read_as_the_question_takes_it() {
        let read = |schema: Option<Value>, text: &str| input(schema).read(text);
        assert_eq!(read(None, " 12\n"), Ok(given(json!(" 12\n"))));
        assert_eq!(read(Some(json!({"type": "string"})), "12"), Ok(given(json!("12"))));
        assert_eq!(read(Some(json!({"type": "integer"})), " 12\n"), Ok(given(json!(12))));
        let colour = json!({"enum": ["red", "blue"]});
        assert_eq!(read(Some(colour.clone()), " red\n"), Ok(given(json!("red"))));
        assert!(read(Some(colour), "green").is_err());
        let form = json!({"type": "object", "required": ["n"]});
        assert_eq!(read(Some(form.clone()), "{\"n\": 1}"), Ok(given(json!({"n": 1}))));
        let wrong = read(Some(form), "{}").unwrap_err().to_string();
        assert!(wrong.contains("\"n\""), "{wrong}");
    }

    #[test]
    fn the_fields_of_a_form_are_read_as_it_takes_them() {
        let form = json!({"type": "object", "required": ["city"], "additionalProperties": false, "properties": {
            "city": {"type": "string"}, "n": {"type": "integer"}, "ok": {"type": "boolean"},
        }});
        let read = |fields: &[(&str, &str)]| {
            let fields = fields.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
            input(Some(form.clone())).read_fields(fields)
        };
        assert_eq!(
            read(&[("city", "12"), ("n", " 3"), ("ok", "true")]),
            Ok(given(json!({"city": "12", "n": 3, "ok": true})))
        );
        assert_eq!(read(&[("city", "Rome"), ("n", "")]), Ok(given(json!({"city": "Rome"}))));
        for wrong in [&[("n", "3")][..], &[("city", "Rome"), ("n", "three")]] {
            assert!(matches!(read(wrong), Err(NotAccepted::Misfit(_))), "{wrong:?}");
        }
    }

    #[test]
    fn a_refusal_is_an_answer_to_its_question() {
        let settlement = Settlement {
            chain: Vec::new(),
            function: "send".into(),
            risk: Risk::Network,
            input: Arc::default(),
        };
        for question in [Question::Input(input(None)), Question::Settlement(settlement)] {
            assert_eq!(question.accept(&question.refusal(Some("no"))), Ok(()));
        }
    }
}
