//! The recorded steps of a resumed run, found by their keys (`docs/reference/journal.md`).

use llm_do_core::{
    call_path::CallPath,
    driver::{StepEnd, Stepped},
    function::Risk,
    journal::{Ending, Queued, Record, RecordKind},
    ledger::Reserved,
    origin::Origins,
    outcome::Halt,
    question::{Answer, Given, Question, QuestionId, Requester, Settlement, Waiting},
    step_name::StepName,
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// The records of a run so far, each under the place of its call and the name of its step.
///
/// Times are those of the run's work: the gaps in which nothing happened, because the run was suspended or cut off, are
/// left out, so that no deadline runs while the run is idle.
#[derive(Debug, Default)]
pub struct History {
    steps: BTreeMap<CallPath, BTreeMap<StepName, Past>>,
    /// The steps that set something aside in the ledger.
    reserved: Vec<(CallPath, StepName)>,
    /// The person or program that started the run, if the first record says so.
    pub requester: Option<Requester>,
    /// The words that wait for each conversation, oldest first.
    queued: BTreeMap<CallPath, Vec<Queued>>,
    /// The number of words that have waited for each conversation.
    queued_so_far: BTreeMap<CallPath, u32>,
    /// The time at which the run began, in milliseconds since 1970.
    pub began_ms: u64,
    /// The sum of all gaps in which nothing happened, in milliseconds.
    pub idle_ms: u64,
    last_ms: u64,
    /// The latest time of the run's work that the engine has come to in this execution.
    reached_ms: AtomicU64,
}

/// A step, as far as it is recorded.
#[derive(Debug, Default)]
struct Past {
    begun: Option<(RecordKind, u64)>,
    ended: Option<(RecordKind, u64)>,
    /// True if the resumed run has reached the step.
    seen: AtomicBool,
}

/// The records of a step.
pub enum Found<'a> {
    /// The step never began.
    Nothing,
    /// The step began at that time.
    Begun(&'a RecordKind, u64),
    /// The step ended. It need not have a record of its beginning.
    Ended {
        /// The record of its end.
        body: &'a RecordKind,
        /// The time of its beginning.
        began_ms: u64,
        /// The time of its end.
        at_ms: u64,
    },
}

impl History {
    /// Makes the empty history of a run that begins at that time.
    pub fn none(began_ms: u64) -> Self {
        Self { began_ms, ..Self::default() }
    }

    /// Returns true if the history of the call at `call` needs the record of that call and step: those of the call and of
    /// the calls below it, the beginnings and resumes of the run, and the beginnings and ends of the calls above it. A
    /// driver that makes the call on another machine loads these alone.
    pub fn concerns(call: &CallPath, path: &CallPath, step: &StepName) -> bool {
        let frames = match step {
            StepName::Run => true,
            StepName::Call | StepName::End => call.is_within(path),
            _ => false,
        };
        frames || path.is_within(call)
    }

    /// Makes the history of one call of a run and of the calls below it, from all records of the run or those that it
    /// [concerns](Self::concerns).
    pub fn of_call(call: &CallPath, mut records: Vec<Record>) -> Self {
        records.retain(|record| Self::concerns(call, &record.path, &record.step));
        Self::of(records)
    }

    /// Makes the history of a run that was suspended or cut off.
    pub fn of(records: Vec<Record>) -> Self {
        let mut history = Self {
            began_ms: records.first().map_or(0, |record| record.at_ms),
            last_ms: records.last().map_or(0, |record| record.at_ms),
            ..Self::default()
        };
        for Record { at_ms, path, step, body, .. } in records {
            if let RecordKind::RunResumed { idle_ms, .. } = body {
                history.idle_ms += idle_ms;
                continue;
            }
            let at_ms = at_ms.saturating_sub(history.idle_ms);
            if matches!(body, RecordKind::Reserved(_)) {
                history.reserved.push((path.clone(), step.clone()));
            }
            history.queue(&path, &step, &body);
            let steps = history.steps.entry(path).or_default();
            if matches!(body, RecordKind::ToolStarted { .. }) {
                // A new attempt: what was decided of the one before does not count for it.
                steps.remove(&StepName::Settle);
            }
            let past = steps.entry(step).or_default();
            match body {
                // The run's own frame, and ends that only say that the run stopped there.
                RecordKind::RunStarted { requester, .. } => history.requester = requester,
                RecordKind::RunEnded { .. } | RecordKind::CallEnded { ending: Ending::Suspended, .. } => {}
                // What was cut off counts as not ended.
                RecordKind::Cancelled => past.ended = None,
                begun @ (RecordKind::Asked(_)
                | RecordKind::ToolStarted { .. }
                | RecordKind::ModelRequested { .. }) => {
                    past.begun = Some((begun, at_ms));
                    past.ended = None;
                }
                ended => past.ended = Some((ended, at_ms)),
            }
        }
        history
    }

    /// Keeps the list of words that wait for a conversation: they are delivered in order.
    fn queue(&mut self, path: &CallPath, step: &StepName, body: &RecordKind) {
        match (step, body) {
            (_, RecordKind::Queued(said)) => {
                self.queued.entry(path.clone()).or_default().push(said.clone());
                *self.queued_so_far.entry(path.clone()).or_default() += 1;
            }
            (StepName::Message(_) | StepName::Now(_), RecordKind::Answered(given)) => {
                let Answer::Give { value } = &given.answer else { return };
                let (Some(queued), Some(text)) = (self.queued.get_mut(path), value.as_str()) else { return };
                match step {
                    // The words that an answer under way did not take come before those for the next turn.
                    StepName::Message(_) => {
                        let is_it = |said: &Queued| *said.text == *text && said.by == given.by;
                        let first = queued.iter().position(|said| said.now && is_it(said));
                        if let Some(at) = first.or_else(|| queued.iter().position(is_it)) {
                            queued.remove(at);
                        }
                    }
                    // One answer takes all that one person has said by then.
                    _ => {
                        let mut left = text;
                        queued.retain(|said| {
                            let taken = said.now && said.by == given.by && !left.is_empty();
                            let rest = left.strip_prefix(&*said.text).filter(|_| taken);
                            let Some(rest) = rest else { return true };
                            left = rest.strip_prefix("\n\n").unwrap_or(rest);
                            false
                        });
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns the words that wait for the conversation at that place, oldest first.
    pub fn queued(&self, path: &CallPath) -> &[Queued] {
        self.queued.get(path).map_or(&[], Vec::as_slice)
    }

    /// Returns the number of words that have waited for the conversation at that place, delivered or not.
    pub fn queued_so_far(&self, path: &CallPath) -> u32 {
        self.queued_so_far.get(path).copied().unwrap_or_default()
    }

    /// Adds an answer that was recorded at that time to a question that waits.
    pub fn decide(&mut self, id: &QuestionId, given: Given, at_ms: u64) {
        let at_ms = at_ms.saturating_sub(self.idle_ms);
        let past = self.steps.entry(id.call.clone()).or_default().entry(id.step.clone()).or_default();
        past.ended = Some((RecordKind::Answered(given), at_ms));
    }

    /// Returns the origins of the arguments of the call at that place, if the call was recorded.
    pub fn recorded_origins(&self, path: &CallPath) -> Option<Origins> {
        match self.find(path, &StepName::Call) {
            Found::Ended { body: RecordKind::CallStarted { origins, .. }, .. } => Some(origins.clone()),
            _ => None,
        }
    }

    /// Returns the time from the last record until `now_ms`, in milliseconds.
    pub fn idle_until(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.last_ms)
    }

    /// Returns the open questions: those that were asked and have no answer, and those about leaves that were cut off
    /// and may have had their effect. Sorted by call and step.
    pub fn waiting(&self) -> Vec<Waiting> {
        let mut waiting: Vec<Waiting> = self
            .steps
            .iter()
            .flat_map(|(path, steps)| {
                let asked = steps.iter().filter_map(move |(step, past)| match past {
                    Past { begun: Some((RecordKind::Asked(question), _)), ended: None, .. } => {
                        Some(Waiting { id: QuestionId::new(path, step), question: question.clone() })
                    }
                    _ => None,
                });
                asked.chain(self.cut_off(path, steps))
            })
            .collect();
        waiting.sort_by(|a, b| a.id.cmp(&b.id));
        waiting.dedup_by(|a, b| a.id == b.id);
        waiting
    }

    /// Returns the question of that call and step, if it has no answer and may be decided.
    pub fn question(&self, id: &QuestionId) -> Option<Question> {
        let steps = self.steps.get(&id.call)?;
        match steps.get(&id.step) {
            Some(Past { begun: Some((RecordKind::Asked(question), _)), ended: None, .. }) => {
                Some(question.clone())
            }
            Some(_) => None,
            None if id.step == StepName::Settle => self.settlement(&id.call, steps).map(Question::Settlement),
            None => None,
        }
    }

    /// Returns the question about a leaf at `path` that had begun and not ended, if the leaf may have had its effect
    /// and no record decides whether it had.
    fn cut_off(&self, path: &CallPath, steps: &BTreeMap<StepName, Past>) -> Option<Waiting> {
        let foreseen = steps.get(&StepName::Foresee).and_then(|past| past.ended.as_ref());
        let known = matches!(foreseen, Some((RecordKind::Foreseen { foreseen: Some(_) }, _)));
        let decided = steps.get(&StepName::Settle).is_some_and(|past| past.ended.is_some());
        if known || decided {
            return None;
        }
        let question = Question::Settlement(self.settlement(path, steps)?);
        Some(Waiting { id: QuestionId::new(path, &StepName::Settle), question })
    }

    /// Returns the question's content for the leaf at `path`, if it had begun and not ended and may have had its
    /// effect.
    fn settlement(&self, path: &CallPath, steps: &BTreeMap<StepName, Past>) -> Option<Settlement> {
        // Of several attempts or rounds only the last can have been cut off.
        let (_, tool) = steps.iter().rfind(|(step, _)| step.is_tool())?;
        let (Some((RecordKind::ToolStarted { function, risk, .. }, _)), None) = (&tool.begun, &tool.ended)
        else {
            return None;
        };
        if *risk == Risk::Read {
            return None;
        }
        let input = match steps.get(&StepName::Call).and_then(|past| past.ended.as_ref()) {
            Some((RecordKind::CallStarted { input, .. }, _)) => Arc::clone(input),
            _ => Arc::default(),
        };
        let above = std::iter::successors(path.parent(), CallPath::parent);
        let mut chain: Vec<Arc<str>> = above.filter_map(|path| self.function_at(&path).cloned()).collect();
        chain.reverse();
        Some(Settlement { chain, function: Arc::clone(function), risk: *risk, input })
    }

    /// Returns the answer to a question, if it has one.
    pub fn answer_to(&self, id: &QuestionId) -> Option<&Given> {
        match &self.steps.get(&id.call)?.get(&id.step)?.ended {
            Some((RecordKind::Answered(given), _)) => Some(given),
            _ => None,
        }
    }

    /// Returns true if that call began a conversation.
    pub fn has_conversation(&self, path: &CallPath) -> bool {
        let is_start = |past: &Past| matches!(past.ended, Some((RecordKind::ConversationStarted { .. }, _)));
        self.steps.get(path).is_some_and(|steps| steps.values().any(is_start))
    }

    /// Returns true if the end of that call, or of one above it, is recorded. Then the record has everything that the
    /// call did.
    pub fn is_over(&self, path: &CallPath) -> bool {
        let ended = |path: &CallPath| {
            self.steps
                .get(path)
                .and_then(|steps| steps.get(&StepName::End))
                .is_some_and(|end| end.ended.is_some())
        };
        std::iter::successors(Some(path.clone()), CallPath::parent).any(|path| ended(&path))
    }

    /// Returns the function that was called there.
    pub fn function_at(&self, path: &CallPath) -> Option<&Arc<str>> {
        match &self.steps.get(path)?.get(&StepName::Call)?.ended {
            Some((RecordKind::CallStarted { function, .. }, _)) => Some(function),
            _ => None,
        }
    }

    /// Returns the records of the step of that name in the call at `path`. The step then counts as seen again.
    pub fn find(&self, path: &CallPath, step: &StepName) -> Found<'_> {
        let Some(past) = self.steps.get(path).and_then(|steps| steps.get(step)) else {
            return Found::Nothing;
        };
        past.seen.store(true, Ordering::Relaxed);
        match (&past.begun, &past.ended) {
            (begun, Some((body, at_ms))) => {
                let began_ms = begun.as_ref().map_or(*at_ms, |(_, at_ms)| *at_ms);
                Found::Ended { body, began_ms, at_ms: *at_ms }
            }
            (Some((body, at_ms)), None) => Found::Begun(body, *at_ms),
            (None, None) => Found::Nothing,
        }
    }

    /// Notes that the engine has reached that time of the run's work.
    pub fn reach(&self, at_ms: u64) {
        self.reached_ms.fetch_max(at_ms, Ordering::AcqRel);
    }

    /// Returns the latest time that the engine has reached, in milliseconds since 1970: at first the run's beginning.
    pub fn now_ms(&self) -> u64 {
        self.reached_ms.load(Ordering::Acquire).max(self.began_ms)
    }

    /// Returns the end of a step from its record, and notes the time of that record as reached.
    pub fn stepped(&self, path: &CallPath, step: &StepName) -> Option<Stepped> {
        let Found::Ended { body, began_ms, at_ms } = self.find(path, step) else { return None };
        self.reach(at_ms);
        let end = match body {
            RecordKind::TimedOut { .. } => StepEnd::TimedOut,
            body => StepEnd::Done(body.clone()),
        };
        Some(Stepped { end, at_ms, took: Duration::from_millis(at_ms.saturating_sub(began_ms)) })
    }

    /// Returns the random number that was drawn in a step.
    pub fn drawn(&self, path: &CallPath, step: &StepName) -> Option<u64> {
        let Found::Ended { body: RecordKind::Random { value }, at_ms, .. } = self.find(path, step) else {
            return None;
        };
        self.reach(at_ms);
        Some(*value)
    }

    /// Returns the words that were recorded for the conversation at `path` while the model made the answer of that
    /// turn.
    ///
    /// # Errors
    /// The record of that step is of another kind.
    pub fn said_meanwhile(&self, path: &CallPath, turn: u32) -> Result<Option<Given>, Halt> {
        let name = StepName::Now(turn);
        match self.find(path, &name) {
            Found::Nothing => Ok(None),
            Found::Ended { body: RecordKind::Answered(given), at_ms, .. } => {
                self.reach(at_ms);
                Ok(Some(given.clone()))
            }
            Found::Begun(body, _) | Found::Ended { body, .. } => Err(Halt::unexpected(path, &name, body)),
        }
    }

    /// Returns the record of the beginning of that step, whether the step ended or not.
    pub fn begun(&self, path: &CallPath, step: &StepName) -> Option<&RecordKind> {
        self.steps.get(path)?.get(step)?.begun.as_ref().map(|(body, _)| body)
    }

    /// Returns the reservations that the call at `path` and the calls below it made, each with the end of its request
    /// if that has one. `since` leaves out those of earlier turns of that call's conversation.
    pub fn reserved_below(&self, path: &CallPath, since: u32) -> Vec<(Reserved, Option<RecordKind>)> {
        let ended = |at: &CallPath, step: &StepName| {
            let past = self.steps.get(at)?.get(step)?;
            past.ended.as_ref().map(|(body, _)| body.clone())
        };
        let turn =
            |at: &CallPath, step: &StepName| if at == path { step.turn() } else { at.turn_below(path) };
        let counts = |at: &CallPath, step: &StepName| {
            at.is_within(path) && (since == 0 || turn(at, step).is_some_and(|turn| turn >= since))
        };
        let below = self.reserved.iter().filter(|(at, step)| counts(at, step));
        below
            .filter_map(|(at, step)| {
                let Some(RecordKind::Reserved(reserved)) = ended(at, step) else { return None };
                let end = step.reserved_for().and_then(|request| ended(at, &request));
                Some((reserved, end))
            })
            .collect()
    }

    /// Returns a call directly below `path` that the run made before and has not made again: its code took another
    /// path.
    pub fn left_out(&self, path: &CallPath) -> Option<&CallPath> {
        let below = |other: &CallPath| other.parent().is_some_and(|parent| parent == *path);
        let unseen = |steps: &BTreeMap<StepName, Past>| {
            steps
                .get(&StepName::Call)
                .is_some_and(|call| call.ended.is_some() && !call.seen.load(Ordering::Relaxed))
        };
        self.steps.iter().find(|(other, steps)| below(other) && unseen(steps)).map(|(other, _)| other)
    }

    /// Returns a recorded step at `path` itself, or a recorded call directly below it, that this execution has not
    /// reached: the first by name.
    pub fn passed_over(&self, path: &CallPath) -> Option<(&CallPath, &StepName, &RecordKind)> {
        let own = self.steps.get_key_value(path).into_iter();
        let own = own.flat_map(|(path, steps)| steps.iter().map(move |(step, past)| (path, step, past)));
        // The end is what is being looked at, what was decided of a leaf that was cut off follows from nothing, and a
        // question need not come up again where an earlier answer covers it by now: the verdict tells.
        // Words that wait are delivered by another step.
        // A missing wait for code belongs to a missing call, and the difference in the call says more.
        let own = own.filter(|(_, step, _)| {
            !matches!(
                step,
                StepName::End | StepName::Settle | StepName::Ask(_) | StepName::Work(_) | StepName::Queued(_)
            )
        });
        let below =
            self.steps.iter().filter(|(other, _)| other.parent().is_some_and(|parent| parent == *path));
        let below = below.filter_map(|(other, steps)| {
            let (step, past) = steps.get_key_value(&StepName::Call)?;
            Some((other, step, past))
        });
        let passed = own.chain(below).filter_map(|(path, step, past)| match &past.ended {
            Some((body, _))
                if !past.seen.load(Ordering::Relaxed) && !matches!(body, RecordKind::Note { .. }) =>
            {
                Some((path, step, body))
            }
            _ => None,
        });
        passed.min_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)))
    }

    /// Returns a recorded call that this execution has not made. Calls whose caller stopped at one of the places
    /// `stopped`, where the record ends, don't count.
    pub fn never_made(&self, stopped: &[CallPath]) -> Option<(&CallPath, &RecordKind)> {
        let calls = self.steps.iter().filter_map(|(path, steps)| {
            let call = steps.get(&StepName::Call)?;
            let (body, _) = call.ended.as_ref()?;
            (!call.seen.load(Ordering::Relaxed)).then_some((path, body))
        });
        let unseen: BTreeMap<&CallPath, &RecordKind> = calls.collect();
        let mut topmost = unseen.iter().filter_map(|(path, body)| {
            let parent = path.parent().filter(|parent| !unseen.contains_key(parent))?;
            let inside = |place: &CallPath| {
                std::iter::successors(Some(place.clone()), CallPath::parent).any(|above| above == parent)
            };
            (!stopped.iter().any(inside)).then_some((*path, *body))
        });
        topmost.next()
    }
}

/// Returns true if two intents of one step mean the same: the model was sent the same request, or the tool is the same.
pub fn same_intent(recorded: &RecordKind, now: &RecordKind) -> bool {
    match (recorded, now) {
        (
            RecordKind::ModelRequested { head: a, digest: b, .. },
            RecordKind::ModelRequested { head: c, digest: d, .. },
        ) => a == c && b == d,
        (RecordKind::ToolStarted { function: a, .. }, RecordKind::ToolStarted { function: b, .. }) => a == b,
        _ => false,
    }
}
