//! Further rounds of a run: the next message of a chat, and answers to questions of the run.

use super::{
    id::ResponseId,
    input::{Approval, Given},
    speaks, view,
};
use crate::{
    error::Code,
    faces::{
        answering::Answering,
        conversation::{Speaker, Words},
        openai::error::Wrong,
        round::{Hearing, Round},
        speaking::say,
    },
    live::is_turn,
    service::Service,
    token::Token,
};
use llm_do::{
    Session,
    core::{
        journal::Record,
        question::{Answer, Question, Waiting},
    },
};
use std::sync::Arc;

/// Continues a run with the client's message or answers, and follows it from there.
pub(super) async fn go_on(
    service: &Service,
    token: &Arc<Token>,
    session: &Session,
    model: &str,
    previous: &ResponseId,
    input: Given,
) -> Result<(ResponseId, Round), Wrong> {
    let run = &previous.run;
    let view = view(service, token, previous).await?;
    let own = format!("{}/{}", view.program, view.worker);
    if own != model {
        let why = format!("the response is of the model `{own}`");
        return Err(Wrong::field("model", why));
    }
    let records = service.records(token, run).await?;
    let (_, round, is_newest) = previous.of(&records);
    if !is_newest && input.answers.is_empty() {
        let from = round.last().map_or(0, |record| record.seq + 1);
        let why = format!(
            "the chat has gone on since, from record {from} of run {run}: a conversation has no branches"
        );
        return Err(Wrong::new(Code::Conflict, why).at("previous_response_id"));
    }
    let next = records.last().map_or(0, |record| record.seq + 1);
    let hearing = Hearing::after(speaks(session, view.chat), &records);
    let (mut live, mut reader) = service.follow(token, run, next).await?;
    let answering = Answering::new(service, token, view);
    if input.answers.is_empty() {
        speak(&answering, speech(input.words)?).await?;
    } else {
        if input.words.len() > input.known {
            return Err(Wrong::field(
                "input",
                "send answers to approval requests alone, or after what led to them",
            ));
        }
        answer(&answering, &records, input.answers).await?;
    }
    if live.is_none() {
        // It was suspended, and continues with the answer.
        (live, reader) = service.follow(token, run, next).await?;
    }
    let live = live.ok_or_else(|| Wrong::new(Code::Conflict, "the run is over"))?;
    let id = ResponseId { run: Arc::clone(run), from: next };
    Ok((id, Round::new(service, token, live, reader, hearing)))
}

/// Returns the user's message, if there is one. The input may contain no other message.
fn speech(mut words: Vec<Words>) -> Result<Option<Words>, Wrong> {
    // The run has its own history: what comes before the last message is there, or was never said.
    match (words.pop(), words.is_empty()) {
        (None, _) => Ok(None),
        (Some(last), true) if last.speaker == Speaker::User => Ok(Some(last)),
        _ => {
            let why = "with previous_response_id, send one message of the user: the run has the conversation";
            Err(Wrong::field("input", why))
        }
    }
}

/// Gives the user's message to the chat, or to the only question that asks for text.
async fn speak(answering: &Answering<'_>, speech: Option<Words>) -> Result<(), Wrong> {
    let Some(Words { text, files, .. }) = speech else {
        return Err(Wrong::field("input", "there is no message, and no answer to an approval request"));
    };
    let waiting = &answering.waiting;
    let wants_words =
        |waiting: &&Waiting| matches!(waiting.question, Question::Input(_)) && !is_turn(waiting);
    let inputs: Vec<&Waiting> = waiting.iter().filter(wants_words).collect();
    match (waiting.iter().find(|waiting| is_turn(waiting)), &inputs[..]) {
        (Some(turn), _) => {
            say(answering, turn.clone(), text, files).await.map_err(|error| match error.code() {
                Code::BadRequest => Wrong::from(error).at("input"),
                _ => Wrong::from(error),
            })?;
        }
        (None, [question]) => {
            answering.may_answer()?;
            if !files.is_empty() {
                return Err(Wrong::field("input", "only a message of a chat can have files"));
            }
            answering.give(question, words(question, &text)?).await?;
        }
        (None, _) => {
            let why = "the run waits for no message: previous_response_id continues a chat, or answers what the run asks";
            return Err(Wrong::new(Code::Conflict, why).at("previous_response_id"));
        }
    }
    Ok(())
}

/// Reads the answer to a question that asks for text.
fn words(question: &Waiting, text: &str) -> Result<Answer, Wrong> {
    let Question::Input(input) = &question.question else {
        return Err(Wrong::field("input", "the question wants no words"));
    };
    input.read(text).map_err(|why| Wrong::field("input", why))
}

/// Answers the questions of these approval requests: all, or none if one of them is wrong.
async fn answer(answering: &Answering<'_>, records: &[Record], answers: Vec<Approval>) -> Result<(), Wrong> {
    let mut given = Vec::with_capacity(answers.len());
    for Approval { request, approve, reason } in answers {
        let question =
            answering.question(&request, records).map_err(|error| Wrong::from(error).at("input"))?;
        let answer = match (&question.question, approve) {
            (Question::Approval(_), true) => Answer::Approve { remember: false },
            (Question::Approval(_), false) => Answer::Deny { reason, remember: false },
            (Question::Input(_), true) => {
                let why = "the run asks for words: give them as `reason`";
                words(&question, &reason.ok_or_else(|| Wrong::field("input", why))?)?
            }
            (Question::Input(_), false) => Answer::Decline { reason },
            (Question::Settlement(_), true) => Answer::Again,
            (Question::Settlement(_), false) => Answer::Abort,
        };
        given.push((question, answer));
    }
    Ok(answering.give_all(given).await?)
}
