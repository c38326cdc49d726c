//! Keeps a conversation within its model's context (`docs/reference/conversations.md`).

use super::{
    Talk,
    request::{self, Answered, Request, Unanswered},
};
use crate::{
    conversation::{
        Compaction, Conversation, OldResult, OlderTurns, Room, SUMMARISER, number_of, placeholder,
    },
    estimate::{estimate_text, scaled},
    journal::RecordKind,
    model::{FinishReason, ModelSettings, Purpose, Role},
    outcome::{Failure, FailureKind, Stop},
    question::ContextUse,
    step_name::StepName,
};
use std::sync::Arc;

/// The percentage of the limit at which a conversation is compacted. The rest is room for the answer, which shares the
/// model's window, and for the error of the estimate.
const FULL: u64 = 90;
/// The percentage that a compaction aims at. The next compaction is then far away, and the caches of providers keep the
/// prefix until then.
const AIM: u64 = 60;
/// The percentage that the most recent messages keep when older ones are summarised.
const RECENT: u64 = 25;
/// The percentage that the user's own words in older turns keep.
const USER: u64 = 25;
/// The percentage that a compaction must free. Otherwise each turn would be compacted.
const WORTH: u64 = 10;
/// The percentage that the text to be summarised may have.
const TEXT: u64 = 70;
/// Maximum tokens of a summary.
const SUMMARY: u64 = 4096;
/// The limit for summaries if the model's window is not known.
const UNKNOWN: u64 = 100_000;

fn percent(of: u64, share: u64) -> u64 {
    scaled(of, share, 100)
}

/// The purpose of a compaction.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    /// Room for the next request.
    Room,
    /// The user's request: a summary of everything but the last turn.
    Asked { keep: Option<&'a str> },
}

impl Talk<'_> {
    /// The plain estimate of the next request.
    pub(super) fn estimated(&self, conversation: &Conversation) -> u64 {
        self.fixed.saturating_add(conversation.tokens())
    }

    /// The part of the context that the next request takes.
    pub(super) fn context(&self, conversation: &Conversation) -> ContextUse {
        let tokens = self.estimate.next(self.estimated(conversation));
        ContextUse { tokens, limit: self.prepared.context.map(|limit| limit.tokens) }
    }

    /// Compacts the conversation if its next request would not fit.
    ///
    /// # Errors
    /// The request has more tokens than the worker allows, and nothing older is left to compact; or the user stopped it.
    pub(super) async fn fit(&mut self, conversation: &mut Conversation) -> Result<(), Stop> {
        let Some(limit) = self.prepared.context else { return Ok(()) };
        // The provider wants a turn that it paused back as it is.
        let paused = conversation.messages().last().is_some_and(|message| message.role == Role::Assistant);
        let answer = self.prepared.settings.max_tokens.map_or(0, u64::from);
        let most = limit.tokens.saturating_sub(answer.min(limit.tokens / 2)).min(percent(limit.tokens, FULL));
        let tokens = self.context(conversation).tokens;
        if tokens <= most || paused {
            return Ok(());
        }
        // Boxed, as it is seldom needed: a conversation that waits for its model would keep room for it.
        let compacted = Box::pin(self.compact(conversation, Wanted::Room, limit.tokens)).await?;
        let tokens = self.context(conversation).tokens;
        if tokens <= limit.tokens || !limit.declared {
            return Ok(());
        }
        let why = match compacted.and_then(|compaction| compaction.failure) {
            Some(failure) => format!("older turns could not be summarised: {failure}"),
            None => "nothing older is left to compact".to_owned(),
        };
        let message = format!(
            "the next request of `{}` has about {tokens} tokens, and its `max_context_tokens` is {}: {why}. Raise the limit, \
             send less at once, or begin another conversation",
            self.prepared.setup.worker, limit.tokens
        );
        Err(Stop::failed(FailureKind::Limit, message))
    }

    /// Compacts the conversation because the provider reports that its next request is longer than the model's window.
    /// Returns false if nothing older is left to compact.
    pub(super) async fn shorten(&mut self, conversation: &mut Conversation) -> Result<bool, Stop> {
        let tokens = self.context(conversation).tokens;
        let limit = self.prepared.context.map_or(tokens, |limit| limit.tokens.min(tokens));
        let compacted = Box::pin(self.compact(conversation, Wanted::Room, limit)).await?;
        Ok(compacted.is_some_and(|compaction| compaction.has_effect()))
    }

    /// Compacts the conversation because the user asks for it. Returns the reason if it is not compacted.
    pub(super) async fn compact_as_asked(
        &mut self,
        conversation: &mut Conversation,
        keep: Option<&str>,
    ) -> Result<Option<Failure>, Stop> {
        let limit = self.prepared.context.map_or(UNKNOWN, |limit| limit.tokens);
        Ok(match Box::pin(self.compact(conversation, Wanted::Asked { keep }, limit)).await? {
            None => Some(Failure::new(FailureKind::InvalidInput, "there is nothing older to compact yet")),
            Some(Compaction { failure: Some(failure), .. }) => {
                let message = format!("older turns could not be summarised: {failure}");
                Some(Failure::new(FailureKind::Model, message))
            }
            Some(_) => None,
        })
    }

    /// Compacts a conversation, records the compaction, and returns the record. `None` if there is nothing to compact,
    /// or too little.
    async fn compact(
        &mut self,
        conversation: &mut Conversation,
        wanted: Wanted<'_>,
        limit: u64,
    ) -> Result<Option<Compaction>, Stop> {
        let Some((mut compaction, older)) = self.plan(conversation, wanted, limit) else { return Ok(None) };
        let mut stopped = false;
        if let Some(older) = older {
            match self.summarise(conversation, &older, limit).await? {
                Ok(text) => {
                    let mut with =
                        Compaction { summary: Some(older.summary(conversation, text)), ..compaction };
                    if self.after(conversation, &with) >= self.estimated(conversation) {
                        with.summary = None;
                        with.failure = Some("the summary is not shorter than what it would replace".into());
                    }
                    compaction = with;
                }
                Err(Unsummarised { why, by_user }) => {
                    compaction.failure = Some(why.into());
                    stopped = by_user;
                }
            }
        }
        self.number(conversation, &mut compaction).await;
        compaction.after = self.estimate.next(self.after(conversation, &compaction));
        let name = StepName::Compact(conversation.compactions());
        let body = RecordKind::Compacted(compaction.clone());
        self.call.engine.host().driver.record(self.call.path, name, body)?;
        conversation.compacted(compaction.clone());
        if stopped {
            return Err(conversation.stopped().into());
        }
        Ok(Some(compaction))
    }

    /// Plans a compaction: the results that it leaves out, without their numbers, and the turns to summarise. `None` if
    /// there is nothing, or too little.
    fn plan(
        &self,
        conversation: &Conversation,
        wanted: Wanted<'_>,
        limit: u64,
    ) -> Option<(Compaction, Option<OlderTurns>)> {
        let (estimated, before) = (self.estimated(conversation), self.context(conversation).tokens);
        // The limit in the measure of the plain estimate.
        let plain = scaled(limit, estimated, before);
        let room = |recent| Room { recent, user: percent(plain, USER), text: percent(plain, TEXT) };
        let mut compaction =
            Compaction { before, origin: conversation.trail().origin(), ..Compaction::default() };
        if let Wanted::Asked { keep } = wanted {
            let older = conversation.older_turns(&[], room(None), keep)?;
            return Some((compaction, Some(older)));
        }
        let aim = percent(plain, AIM);
        compaction.results = oldest_results(conversation, estimated.saturating_sub(aim));
        let enough = self.after(conversation, &compaction) <= aim || conversation.summary_has_failed();
        let older = match enough {
            true => None,
            false => conversation.older_turns(&compaction.results, room(Some(percent(plain, RECENT))), None),
        };
        let summary = older.as_ref().map(|older| older.summary(conversation, "".into()));
        let at_best = self.after(conversation, &Compaction { summary, ..compaction.clone() });
        let freed = estimated.saturating_sub(at_best);
        (freed >= percent(plain, WORTH) || before > limit && freed > 0).then_some((compaction, older))
    }

    /// The plain estimate of the next request after a compaction.
    fn after(&self, conversation: &Conversation, compaction: &Compaction) -> u64 {
        self.fixed.saturating_add(conversation.tokens_after(compaction))
    }

    /// Keeps the results that a compaction leaves out, if the worker can read them again.
    async fn number(&self, conversation: &Conversation, compaction: &mut Compaction) {
        if !self.prepared.can_read_on {
            return;
        }
        let shared = self.call.engine.host().driver.shared();
        for ((_, result), old) in conversation.old_results().into_iter().zip(&mut compaction.results) {
            old.number = Some(match number_of(result) {
                Some(number) => number,
                None => shared.keep_result(self.call.path, &result.content).await,
            });
        }
    }

    /// Lets the model summarise older turns.
    ///
    /// # Errors
    /// The run ends. Any other failure is a reason why there is no summary.
    async fn summarise(
        &mut self,
        conversation: &Conversation,
        older: &OlderTurns,
        limit: u64,
    ) -> Result<Result<Arc<str>, Unsummarised>, Stop> {
        let prepared = &*self.prepared;
        let messages = [Arc::clone(&older.request)];
        let settings = ModelSettings {
            max_tokens: Some(u32::try_from(SUMMARY.min(limit / 8).max(1)).unwrap_or(u32::MAX)),
            stop: Vec::new(),
            ..prepared.settings.clone()
        };
        let json = serde_json::to_string(&*older.request).map_or(0, |json| json.len());
        let request = Request {
            purpose: Purpose::Summary,
            number: conversation.compactions(),
            conversation,
            system: &SUMMARISER.into(),
            messages: &messages,
            sent: (older.request.id, Conversation::digest_of(&messages)),
            tools: &[].into(),
            server_tools: &[].into(),
            output: None,
            settings: &settings,
            tokens: estimate_text(json + SUMMARISER.len()),
            earlier_attempts: 0,
        };
        let why = |why: String| Ok(Err(Unsummarised { why, by_user: false }));
        let Answered { message, finish, usage, .. } =
            match request::send(prepared, self.call, &request, &mut 0).await {
                Ok(answered) => answered,
                Err(
                    Unanswered::TooLong(failure)
                    | Unanswered::Unavailable(failure)
                    | Unanswered::Stopped(Stop::Failed(failure)),
                ) => {
                    return why(failure.message);
                }
                Err(Unanswered::Stopped(stop)) => return Err(stop),
            };
        *self.usage = self.usage.plus(usage);
        let text = message.text();
        match finish {
            FinishReason::Stopped => {
                Ok(Err(Unsummarised { why: "the user stopped it".to_owned(), by_user: true }))
            }
            FinishReason::Refusal => why(format!("the model declined: {text}")),
            _ if text.trim().is_empty() => why("the summary was empty".to_owned()),
            _ => Ok(Ok(text.trim().into())),
        }
    }
}

/// The oldest results that together free that number of tokens, or all that can be left out.
fn oldest_results(conversation: &Conversation, free: u64) -> Vec<OldResult> {
    let mut freed = 0;
    let oldest = conversation.old_results().into_iter().take_while(|(_, result)| {
        let goes_on = freed < free;
        freed += estimate_text(result.content.len().saturating_sub(placeholder(None).len()));
        goes_on
    });
    oldest
        .map(|(message, result)| OldResult { message, call_id: Arc::clone(&result.call_id), number: None })
        .collect()
}

/// The reason why there is no summary.
struct Unsummarised {
    why: String,
    /// True if the user has stopped the summary, and with it the answer under way.
    by_user: bool,
}
