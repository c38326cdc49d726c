//! Forms of the protocol (`elicitation/create`) for questions that ask for several values, or for one of a list.

use agent_client_protocol::v1::schema::{
    CreateElicitationRequest, CreateElicitationResponse, ElicitationAction, ElicitationFormMode,
    ElicitationSchema, ElicitationSessionScope, SessionId,
};
use llm_do::{
    core::question::{Answer, Input},
    program::visible,
};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The name of the field in a form with a single field.
const ANSWER: &str = "answer";
/// Keywords of a field's schema that a form contains. The answer is validated with the whole schema.
const SHOWN: &[&str] =
    &["type", "enum", "default", "format", "minimum", "maximum", "minLength", "maxLength", "pattern"];

/// The client's answer to a form.
pub(crate) enum Filled {
    /// The user has answered.
    Answer(Answer),
    /// The user has stopped the answer that the question is part of.
    Cancelled,
    /// The client's answer does not fit, with the reason.
    Wrong(String),
}

/// Returns the request for the form of a question, or `None` if the question asks for words or for values that no form
/// can show.
pub(crate) fn request(session: &SessionId, input: &Input) -> Option<CreateElicitationRequest> {
    let schema = fields(input.schema.as_deref()?)?;
    let schema: ElicitationSchema = serde_json::from_value(schema).ok()?;
    let mode = ElicitationFormMode::new(ElicitationSessionScope::new(session.clone()), schema);
    let message = format!("{} asks: {}", input.chain.join(" → "), input.prompt);
    Some(CreateElicitationRequest::new(mode, visible::text(&message)))
}

/// Reads the client's answer.
pub(crate) fn filled(input: &Input, response: &CreateElicitationResponse) -> Filled {
    let accepted = match &response.action {
        ElicitationAction::Accept(accepted) => accepted,
        ElicitationAction::Decline => return Filled::Answer(Answer::Decline { reason: None }),
        ElicitationAction::Cancel => return Filled::Cancelled,
        _ => return Filled::Wrong("the editor answered in a way that it was not offered".to_owned()),
    };
    let content = serde_json::to_value(&accepted.content).unwrap_or_default();
    let schema = input.schema.as_deref().unwrap_or(&Value::Null);
    let value = match is_object(schema) {
        true if content.is_null() => json!({}),
        true => content,
        false => content.get(ANSWER).cloned().unwrap_or_default(),
    };
    match input.accept(&value) {
        Ok(()) => Filled::Answer(Answer::Give { value: Arc::new(value) }),
        Err(wrong) => Filled::Wrong(format!("Not taken: {wrong}")),
    }
}

fn is_object(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("object")
}

/// Returns the schema of the form: a flat object.
fn fields(schema: &Value) -> Option<Value> {
    if !is_object(schema) {
        let all_words = schema.get("enum")?.as_array()?.iter().all(Value::is_string);
        let field = json!({"type": "string", "title": "Answer", "enum": schema["enum"]});
        return all_words
            .then(|| json!({"type": "object", "properties": {ANSWER: field}, "required": [ANSWER]}));
    }
    let properties = schema.get("properties")?.as_object()?;
    let fields: Option<Map<String, Value>> =
        properties.iter().map(|(name, property)| Some((name.clone(), field(property)?))).collect();
    let required = schema.get("required").cloned().unwrap_or_else(|| json!([]));
    Some(json!({"type": "object", "properties": fields?, "required": required}))
}

/// Returns a field of the form, if it is a text, a number or a choice. Titles and descriptions are a model's words.
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
    let property = property.as_object()?;
    let mut field: Map<String, Value> = property
        .iter()
        .filter(|(key, _)| SHOWN.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    field.entry("type").or_insert_with(|| "string".into());
    for key in ["title", "description"] {
        if let Some(text) = property.get(key).and_then(Value::as_str) {
            field.insert(key.to_owned(), visible::line(text).into_owned().into());
        }
    }
    Some(field.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_client_protocol::v1::schema::{ElicitationAcceptAction, ElicitationContentValue};

    fn input(schema: Option<Value>) -> Input {
        Input {
            chain: vec!["main".into()],
            prompt: "Which?".into(),
            schema: schema.map(Arc::new),
            changes: Vec::new(),
            conversation: None,
            expires_ms: None,
        }
    }

    fn accepted(name: &str, value: impl Into<ElicitationContentValue>) -> CreateElicitationResponse {
        let content = [(name.to_owned(), value.into())].into_iter().collect();
        CreateElicitationResponse::new(ElicitationAcceptAction::new().content(Some(content)))
    }

    #[test]
    fn choices_and_flat_objects_are_forms() {
        let session = SessionId::new("s");
        let of = |schema| request(&session, &input(schema)).is_some();
        assert!(of(Some(json!({"enum": ["red", "blue"]}))));
        assert!(of(Some(
            json!({"type": "object", "properties": {"n": {"type": "integer"}, "c": {"enum": ["a"]}}})
        )));
        assert!(!of(None));
        assert!(!of(Some(json!({"enum": [1, 2]}))));
        assert!(!of(Some(json!({"type": "object", "properties": {"all": {"type": "array"}}}))));
    }

    #[test]
    fn an_answer_fits_the_question() {
        let colour = input(Some(json!({"enum": ["red", "blue"]})));
        let Filled::Answer(Answer::Give { value }) = filled(&colour, &accepted(ANSWER, "red")) else {
            panic!("it fits")
        };
        assert_eq!(*value, json!("red"));
        assert!(matches!(filled(&colour, &accepted(ANSWER, "green")), Filled::Wrong(_)));
        assert!(matches!(filled(&colour, &accepted("other", "red")), Filled::Wrong(_)));
        let declined = CreateElicitationResponse::new(ElicitationAction::Decline);
        assert!(matches!(filled(&colour, &declined), Filled::Answer(Answer::Decline { .. })));
    }
}
