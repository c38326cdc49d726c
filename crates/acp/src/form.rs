//! Forms of the protocol (`elicitation/create`) for questions that ask for several values, or for one of a list.

use agent_client_protocol::v1::schema::{
    CreateElicitationRequest, CreateElicitationResponse, ElicitationAction, ElicitationFormMode,
    ElicitationSchema, ElicitationSessionScope, SessionId,
};
use llm_do::{
    core::question::{Answer, FormFields, Question},
    program::visible,
    question_text,
};

/// The client's answer to a form.
pub(crate) enum Filled {
    /// The user has answered.
    Answer(Answer),
    /// The user has stopped the answer that the question is part of.
    Cancelled,
    /// The client's answer does not fit, with the reason.
    Wrong(String),
}

/// Returns the request for the form of a question to the user, or `None` if the question asks for words or for values
/// that no form can show.
pub(crate) fn request(session: &SessionId, question: &Question) -> Option<CreateElicitationRequest> {
    let Question::Input(input) = question else { return None };
    let form = question_text::form(question);
    if !matches!(form.fields, FormFields::Own | FormFields::Choice) {
        return None;
    }
    let schema: ElicitationSchema = serde_json::from_value(form.schema).ok()?;
    let mode = ElicitationFormMode::new(ElicitationSessionScope::new(session.clone()), schema);
    let message = format!("{} asks: {}", input.chain.join(" → "), input.prompt);
    Some(CreateElicitationRequest::new(mode, visible::text(&message)))
}

/// Reads the client's answer.
pub(crate) fn filled(question: &Question, response: &CreateElicitationResponse) -> Filled {
    let accepted = match &response.action {
        ElicitationAction::Accept(accepted) => accepted,
        ElicitationAction::Decline => return Filled::Answer(question.refusal(None)),
        ElicitationAction::Cancel => return Filled::Cancelled,
        _ => return Filled::Wrong("the editor answered in a way that it was not offered".to_owned()),
    };
    let content = serde_json::to_value(&accepted.content).unwrap_or_default();
    match question.filled(&content) {
        Ok(answer) => Filled::Answer(answer),
        Err(wrong) => Filled::Wrong(format!("Not taken: {wrong}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_client_protocol::v1::schema::{ElicitationAcceptAction, ElicitationContentValue};
    use llm_do::core::question::Input;
    use serde_json::{Value, json};
    use std::sync::Arc;

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

    fn accepted(name: &str, value: impl Into<ElicitationContentValue>) -> CreateElicitationResponse {
        let content = [(name.to_owned(), value.into())].into_iter().collect();
        CreateElicitationResponse::new(ElicitationAcceptAction::new().content(Some(content)))
    }

    #[test]
    fn words_and_values_that_no_form_shows_are_asked_in_words() {
        let session = SessionId::new("s");
        let of = |schema| request(&session, &input(schema)).is_some();
        assert!(of(Some(json!({"enum": ["red", "blue"]}))));
        assert!(!of(None));
        assert!(!of(Some(json!({"enum": [1, 2]}))));
    }

    #[test]
    fn an_answer_fits_the_question() {
        let colour = input(Some(json!({"enum": ["red", "blue"]})));
        let Filled::Answer(Answer::Give { value }) = filled(&colour, &accepted("answer", "red")) else {
            panic!("it fits")
        };
        assert_eq!(*value, json!("red"));
        assert!(matches!(filled(&colour, &accepted("answer", "green")), Filled::Wrong(_)));
        let declined = CreateElicitationResponse::new(ElicitationAction::Decline);
        assert!(matches!(filled(&colour, &declined), Filled::Answer(Answer::Decline { .. })));
    }
}
