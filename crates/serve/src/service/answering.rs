//! Answers to questions, and words to chats.

use super::Service;
use crate::{
    error::{ApiError, Code},
    live::{LiveRun, NotSaid, Recorded, Said},
    log::LogEntry,
    owner::Owner,
    runs::Halted,
    token::{Scope, Token},
    views::{GiveAnswer, MessageSent, SendMessage},
};
use llm_do::{
    Decisions, NotTaken, Problem,
    core::{
        gate::Rule,
        journal::{Record, RecordKind, RunStatus},
        question::{Answer, Given, QuestionId},
    },
    digest, not_for_clients,
    records::RunState,
    runs::read_journal,
};
use std::{collections::BTreeMap, sync::Arc};
use tokio::task::spawn_blocking;

/// An answer to a question as its giver saw it.
#[derive(Clone)]
pub(crate) struct Answered {
    pub(crate) question: QuestionId,
    /// The digest of the question that was seen.
    pub(crate) digest: String,
    pub(crate) given: Given,
}

/// A run that continues.
pub(crate) enum Continued {
    /// The run continues with the answers that were given.
    Now(Arc<LiveRun>),
    /// Another request has continued the run before, and the answers are not given.
    Before(Arc<LiveRun>),
}

impl Service {
    /// Gives an answer to a question. The first one stands.
    pub(crate) async fn answer(&self, token: &Token, id: &str, given: GiveAnswer) -> Result<(), ApiError> {
        self.answer_via(token, id, given, self.0.owner.via()).await
    }

    /// Gives an answer to a question through another channel.
    pub(crate) async fn answer_via(
        &self,
        token: &Token,
        id: &str,
        given: GiveAnswer,
        via: &'static str,
    ) -> Result<(), ApiError> {
        let GiveAnswer { id: question, digest, answer } = given;
        let given = Given::new(answer, Arc::clone(token.name()), via);
        self.give(token, id, Answered { question, digest, given }).await
    }

    /// Gives an answer of any giver: a client, a link or a button.
    pub(crate) async fn give(&self, token: &Token, id: &str, answer: Answered) -> Result<(), ApiError> {
        let live = match self.live(token, id) {
            Some(live) => live,
            None => match self.continue_with(token, id, vec![answer.clone()]).await? {
                Continued::Now(_) => return Ok(()),
                Continued::Before(live) => live,
            },
        };
        let Answered { question, digest, given } = answer;
        self.admits(&live.client().program, id, &given.answer).await?;
        live.puts_again(&question).await;
        let recorded = live.give(&question, &digest, given)?;
        self.until_recorded(&live, recorded).await?;
        self.0.metrics.answered();
        Ok(())
    }

    /// Continues a run that has ended without a result, with these answers.
    ///
    /// # Errors
    /// It can't be continued, or doesn't take an answer.
    pub(crate) async fn continue_with(
        &self,
        token: &Token,
        id: &str,
        answers: Vec<Answered>,
    ) -> Result<Continued, ApiError> {
        let _alone = self.0.continuing.lock().await;
        if let Some(live) = self.live(token, id) {
            return Ok(Continued::Before(live));
        }
        let (program, summary) = self.stored(token, id).await?;
        if self.0.owner.only_shows(&summary) {
            let detail = format!(
                "the run `{id}` was started outside of this server: answer it with `llm-do runs resume {id}`"
            );
            return Err(ApiError::new(Code::Forbidden, detail));
        }
        for Answered { given, .. } in &answers {
            self.admits(program.name().as_str(), id, &given.answer).await?;
        }
        let started_by = self.0.owner.started_by(program.runs_dir(), &summary);
        let started_by = started_by.map_or_else(|| Arc::clone(token.name()), |client| client.name);
        // Before its journal says that the run continues: without room it would end there.
        let room = self.0.runs.admit(&started_by)?;
        let (dir, service, of) = (program.run_dir(&summary.run), self.clone(), Arc::clone(&program));
        let number = answers.len();
        let continued = spawn_blocking(move || {
            let past = of.past(&dir)?;
            let waiting = past.waiting();
            let mut decisions = BTreeMap::new();
            for Answered { question, digest: seen, given } in answers {
                if waiting.iter().any(|waiting| waiting.id == question && digest(waiting) != seen) {
                    return Err(NotTaken::Changed(question).into());
                }
                decisions.insert(question, given);
            }
            let decisions = Decisions(decisions);
            past.admits(&decisions).map_err(Problem::from)?;
            Ok::<_, ApiError>(service.continued(&of, past, decisions)?)
        });
        match continued.await.map_err(ApiError::internal)? {
            Ok((live, run)) => {
                self.set_off(Arc::clone(&live), run, room);
                (0..number).for_each(|_| self.0.metrics.answered());
                Ok(Continued::Now(live))
            }
            Err(error) => {
                drop(room);
                let waits = summary.state == RunState::Ended(RunStatus::Suspended);
                if waits && error.code() == Code::QuestionExpired {
                    // It waits for an answer that it can't get any more.
                    self.continue_one(&program, id.into(), &started_by).await;
                }
                Err(error)
            }
        }
    }

    /// Waits until an answer is in its run's journal: from then on a kill does not lose it.
    ///
    /// # Errors
    /// The run has ended without it.
    async fn until_recorded(&self, live: &LiveRun, recorded: Recorded) -> Result<(), ApiError> {
        if live.is_recorded(recorded).await {
            return Ok(());
        }
        Err(match self.0.runs.halted(&live.id) {
            Some(Halted::CutOff(why) | Halted::Changed(why)) => ApiError::storage(why),
            None => ApiError::new(Code::Conflict, "the run has ended before it took the answer"),
        })
    }

    /// Gives a message to a chat.
    pub(crate) async fn message(
        &self,
        token: &Token,
        id: &str,
        SendMessage { text, now }: SendMessage,
    ) -> Result<MessageSent, ApiError> {
        let live = self.live(token, id).ok_or_else(|| ApiError::no_run(id))?;
        if !live.about.chat {
            return Err(ApiError::new(Code::Conflict, format!("the run `{id}` is no chat")));
        }
        // Other clients' words in the place of the one who is talked with would be a forgery.
        if *live.client().name != **token.name() && !token.has(Scope::Answer) {
            return Err(ApiError::without_scope(Scope::Answer));
        }
        let said = live.say(text, token.name(), now).map_err(|error| match error {
            NotSaid::Full => ApiError::new(
                Code::Conflict,
                "too many messages wait for the conversation: send this one later",
            ),
            NotSaid::Over => ApiError::no_run(id),
            NotSaid::Halt(halt) => ApiError::storage(halt),
        })?;
        let delivered = match said {
            Said::Answers(recorded) => {
                self.until_recorded(&live, recorded).await?;
                true
            }
            Said::Interjected => true,
            Said::Queued => false,
        };
        Ok(MessageSent { delivered })
    }

    /// Begins to end a run. Its end is recorded when it is over.
    pub(crate) fn cancel(&self, token: &Token, id: &str) -> Result<Arc<LiveRun>, ApiError> {
        let live = self.live(token, id).ok_or_else(|| {
            ApiError::new(Code::Conflict, "the run is not under way: only a run that is can be cancelled")
        })?;
        if *live.client().name != **token.name() && !token.has(Scope::Answer) {
            return Err(ApiError::without_scope(Scope::Answer));
        }
        self.log_run(LogEntry {
            by: Some(token.name().to_string()),
            text: format!("cancelled by {}", token.name()),
            ..live.entry("run_cancelled")
        });
        live.cancel();
        Ok(live)
    }

    /// Stops the answer under way of a chat, as Ctrl-C in a terminal does. The run continues.
    pub(crate) fn stop(&self, token: &Token, id: &str) -> Result<(), ApiError> {
        let live = self.live(token, id).ok_or_else(|| ApiError::no_run(id))?;
        if !live.about.chat {
            return Err(ApiError::new(Code::Conflict, format!("the run `{id}` is no chat: cancel it")));
        }
        if *live.client().name != **token.name() && !token.has(Scope::Answer) {
            return Err(ApiError::without_scope(Scope::Answer));
        }
        match live.stop() {
            true => Ok(()),
            false => {
                Err(ApiError::new(Code::Conflict, "no answer is under way: the chat waits for a message"))
            }
        }
    }

    /// Checks that clients may give that answer in that run of a program.
    ///
    /// # Errors
    /// The answer asks for more than the operator has allowed.
    async fn admits(&self, program: &str, run: &str, answer: &Answer) -> Result<(), ApiError> {
        if let Owner::Client(_) = self.0.owner {
            // The operator's own process.
            return Ok(());
        }
        let program =
            || self.0.programs.get(program).ok_or_else(|| ApiError::internal("no such program is served"));
        match answer {
            Answer::Model { model } if !self.0.chat_models.contains(model) => {
                let detail = match self.0.chat_models.is_empty() {
                    true => "the models are the server's: an answer can't choose another".to_owned(),
                    false => {
                        let names: Vec<String> = self.0.chat_models.iter().map(ToString::to_string).collect();
                        format!("an answer can choose one of the models {}", names.join(", "))
                    }
                };
                Err(ApiError::new(Code::Forbidden, detail))
            }
            // A path would be read with the rights of the server.
            Answer::Attach { content: None, .. } => {
                Err(ApiError::new(Code::Forbidden, "attach a file with its `content`"))
            }
            Answer::Attach { content: Some(content), .. } if !content.places.is_empty() => {
                Err(ApiError::new(Code::Forbidden, "`places` of a content are the operator's to say"))
            }
            Answer::Allow { .. } | Answer::Rule { rule: Rule::PreApproved, .. } => Err(ApiError::new(
                Code::Forbidden,
                "an answer can only tighten: `allow` belongs to the server's command line, and a rule of a chat asks or blocks",
            )),
            Answer::Run { worker, input } => {
                let session = program()?.session(Some(worker))?;
                match input.as_object().and_then(|input| not_for_clients(session.entry(), input)) {
                    Some(name) => {
                        Err(ApiError::new(Code::BadInput, format!("the worker has no parameter `{name}`")))
                    }
                    None => Ok(()),
                }
            }
            // What the operator has said in a terminal is no client's to take back: that would loosen it.
            Answer::Forget { of } => {
                let (dir, of, via) = (program()?.run_dir(run), of.clone(), self.0.owner.via());
                let of_clients = spawn_blocking(move || {
                    Ok::<_, ApiError>(answered_via(
                        &read_journal(&dir).map_err(ApiError::internal)?.records,
                        &of,
                        via,
                    ))
                });
                match of_clients.await.map_err(ApiError::internal)?? {
                    true => Ok(()),
                    false => Err(ApiError::new(
                        Code::Forbidden,
                        "an answer takes back only what a client of this server has answered",
                    )),
                }
            }
            _ => Ok(()),
        }
    }
}

/// Returns true if that question was answered through the channel `via`.
fn answered_via(records: &[Record], of: &QuestionId, via: &str) -> bool {
    records.iter().any(|Record { path, step, body, .. }| {
        let is_it = *path == of.call && *step == of.step;
        is_it && matches!(body, RecordKind::Answered(given) if *given.via == *via)
    })
}
