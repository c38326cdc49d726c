//! The next message of a chat, from clients that talk with its run.

use super::answering::Answering;
use crate::{
    error::{ApiError, Code},
    live::is_turn,
};
use llm_do::core::{
    attachment::Attachment,
    call_path::CallPath,
    journal::{Record, RecordKind},
    question::{Answer, Question, Waiting},
    step_name::StepName,
};
use std::{collections::HashSet, sync::Arc};

/// Returns the place in the records of a round at which the next round of the chat begins: the user's next message.
pub(crate) fn followed_by(round: &[Record]) -> Option<usize> {
    let mut asked = HashSet::new();
    round.iter().position(|record| match (&record.step, &record.body) {
        (StepName::Message(number), RecordKind::Asked(_)) if record.path == CallPath::root() => {
            asked.insert(*number);
            false
        }
        (StepName::Message(number), RecordKind::Answered(_)) if record.path == CallPath::root() => {
            asked.contains(number)
        }
        _ => false,
    })
}

/// Gives the user's message and its files to the chat, as the answer to the question `turn`.
///
/// # Errors
/// The token may not speak in the chat, or the chat takes no such file.
pub(crate) async fn say(
    answering: &Answering<'_>,
    turn: Waiting,
    text: String,
    files: Vec<Attachment>,
) -> Result<(), ApiError> {
    // Other clients' words in the place of the one who is talked with would be a forgery.
    if !answering.is_own {
        answering.may_answer()?;
    }
    let turn = attach(answering, turn, files).await?;
    answering.give(&turn, Answer::Give { value: Arc::new(text.into()) }).await
}

/// Attaches files to the next message. Returns the question that asks for the message afterwards.
async fn attach(
    answering: &Answering<'_>,
    mut turn: Waiting,
    files: Vec<Attachment>,
) -> Result<Waiting, ApiError> {
    for file in files {
        let name = Arc::clone(&file.file.name);
        answering.give(&turn, Answer::Attach { file: name, content: Some(Arc::new(file)) }).await?;
        turn = turn_after(answering, &turn)
            .await
            .ok_or_else(|| ApiError::new(Code::Conflict, "the chat ended before it took the file"))?;
        if let Question::Input(input) = &turn.question
            && let Some(failure) = input.conversation.as_ref().and_then(|turn| turn.failure.as_ref())
        {
            return Err(ApiError::new(Code::BadRequest, failure.message.clone()));
        }
    }
    Ok(turn)
}

/// Waits until a new question asks for the user's next message, and returns that question.
async fn turn_after(answering: &Answering<'_>, before: &Waiting) -> Option<Waiting> {
    let live = answering.service.live(answering.token, &answering.run)?;
    let mut questions = live.questions().subscribe();
    loop {
        questions.borrow_and_update();
        let waiting = live.questions().waiting();
        if let Some(turn) = waiting.into_iter().find(|found| is_turn(found) && found.id != before.id) {
            return Some(turn);
        }
        tokio::select! {
            () = live.ended() => return None,
            _ = questions.changed() => {}
        }
    }
}
