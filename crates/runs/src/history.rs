//! What a resumed run did before, found by the keys of its steps (SPEC §12).

use llm_do_core::{
    call_path::CallPath,
    engine::Halt,
    function::{Foreseen, Risk},
    journal::{Ending, Record, RecordKind},
    ledger::Reserved,
    operator::Ask,
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// What becomes of a leaf that had begun and not ended when its run was cut off: the operator's word.
#[derive(Clone, Debug, PartialEq)]
pub enum Settle {
    /// It runs again.
    Again,
    /// It counts as done, with this result.
    Given(Arc<Value>),
}

/// The records of a run so far, each under the place of its call and the name of its step.
///
/// Times are those of the run's work: the gaps in which nothing happened, because the run was suspended or cut off, are
/// left out, so that no deadline runs while nobody works.
#[derive(Debug, Default)]
pub struct History {
    steps: HashMap<CallPath, BTreeMap<String, Past>>,
    settle: HashMap<CallPath, Settle>,
    /// The steps that set something aside in the ledger.
    reserved: Vec<(CallPath, String)>,
    /// When the run began.
    pub(crate) began_ms: u64,
    /// How long nothing happened, all gaps together.
    pub(crate) idle_ms: u64,
    last_ms: u64,
}

/// One step, as far as it came.
#[derive(Debug, Default)]
struct Past {
    begun: Option<(RecordKind, u64)>,
    ended: Option<(RecordKind, u64)>,
    /// Whether the resumed run has come by.
    seen: AtomicBool,
}

/// What is known of a step.
pub(crate) enum Found<'a> {
    /// It never began.
    Nothing,
    /// It began at that time.
    Begun(&'a RecordKind, u64),
    /// It began, if it has a beginning, and ended.
    Ended { body: &'a RecordKind, began_ms: u64, at_ms: u64 },
}

impl History {
    /// That of a run that begins at that time: there is none.
    pub(crate) fn none(began_ms: u64) -> Self {
        Self { began_ms, ..Self::default() }
    }

    /// That of a run that was suspended or cut off, with what the operator has decided of its leaves.
    pub fn of(records: Vec<Record>, settle: HashMap<CallPath, Settle>) -> Self {
        let mut history = Self { settle, ..Self::default() };
        history.began_ms = records.first().map_or(0, |record| record.at_ms);
        history.last_ms = records.last().map_or(0, |record| record.at_ms);
        for Record { at_ms, path, step, body, .. } in records {
            if let RecordKind::RunResumed { idle_ms, .. } = body {
                history.idle_ms += idle_ms;
                continue;
            }
            let at_ms = at_ms.saturating_sub(history.idle_ms);
            if matches!(body, RecordKind::Reserved(_)) {
                history.reserved.push((path.clone(), step.clone()));
            }
            let past = history.steps.entry(path).or_default().entry(step).or_default();
            match body {
                // The run's own frame, and ends that only say that the run stopped there.
                RecordKind::RunStarted { .. }
                | RecordKind::RunEnded { .. }
                | RecordKind::CallEnded { ending: Ending::Suspended, .. } => {}
                // What was cut off counts as not ended.
                RecordKind::Cancelled => past.ended = None,
                begun @ (RecordKind::Asked(_)
                | RecordKind::ToolStarted { .. }
                | RecordKind::ModelRequested { .. }) => {
                    past.begun = Some((begun, at_ms));
                    past.ended = None;
                }
                RecordKind::Settled { again: true } => {}
                ended => past.ended = Some((ended, at_ms)),
            }
        }
        history
    }

    /// How long nothing happened until `now_ms`.
    pub(crate) fn idle_until(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.last_ms)
    }

    /// The questions that nobody has answered, by their places.
    pub fn open_questions(&self) -> BTreeMap<&CallPath, &Ask> {
        let asked = self.steps.iter().filter_map(|(path, steps)| {
            steps.values().find_map(|past| match (&past.begun, &past.ended) {
                (Some((RecordKind::Asked(ask), _)), None) => Some((path, ask)),
                _ => None,
            })
        });
        asked.collect()
    }

    /// Whether the operator was asked about that call and has answered.
    pub fn is_answered(&self, path: &CallPath) -> bool {
        let answered =
            |past: &Past| matches!(past.ended, Some((RecordKind::Answered(_) | RecordKind::Recalled(_), _)));
        self.steps.get(path).is_some_and(|steps| steps.values().any(answered))
    }

    /// The leaves that had begun and not ended, that may have had their effect, and that can't tell by what they left:
    /// places and functions.
    pub fn unsettled(&self) -> BTreeMap<&CallPath, &Arc<str>> {
        self.leaves_cut_off(|foreseen| foreseen.is_none())
    }

    /// The leaves that had begun and not ended, and that may have had their effect: the operator may decide about them.
    pub fn cut_off(&self) -> BTreeMap<&CallPath, &Arc<str>> {
        self.leaves_cut_off(|_| true)
    }

    fn leaves_cut_off(&self, which: impl Fn(Option<&Foreseen>) -> bool) -> BTreeMap<&CallPath, &Arc<str>> {
        let cut = self.steps.iter().filter_map(|(path, steps)| {
            steps.values().find_map(|past| match (&past.begun, &past.ended) {
                (Some((RecordKind::ToolStarted { function, risk, foreseen, .. }, _)), None)
                    if *risk != Risk::Read && which(foreseen.as_ref()) =>
                {
                    Some((path, function))
                }
                _ => None,
            })
        });
        cut.collect()
    }

    /// Whether a conversation was begun by that call.
    pub fn has_conversation(&self, path: &CallPath) -> bool {
        let is_start = |past: &Past| matches!(past.ended, Some((RecordKind::ConversationStarted { .. }, _)));
        self.steps.get(path).is_some_and(|steps| steps.values().any(is_start))
    }

    /// Whether the end of that call, or of one above it, is recorded: then everything that it did is.
    pub(crate) fn is_over(&self, path: &CallPath) -> bool {
        let ended = |path: &CallPath| {
            self.steps.get(path).and_then(|steps| steps.get("end")).is_some_and(|end| end.ended.is_some())
        };
        std::iter::successors(Some(path.clone()), CallPath::parent).any(|path| ended(&path))
    }

    /// The function that was called there.
    pub(crate) fn function_at(&self, path: &CallPath) -> Option<&Arc<str>> {
        match &self.steps.get(path)?.get("call")?.ended {
            Some((RecordKind::CallStarted { function, .. }, _)) => Some(function),
            _ => None,
        }
    }

    pub(crate) fn find(&self, path: &CallPath, step: &str) -> Found<'_> {
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

    /// Whether anything stands under that key.
    pub(crate) fn has(&self, path: &CallPath, step: &str) -> bool {
        self.steps.get(path).is_some_and(|steps| steps.contains_key(step))
    }

    /// What was begun under that key, whether it ended or not.
    pub(crate) fn begun(&self, path: &CallPath, step: &str) -> Option<&RecordKind> {
        self.steps.get(path)?.get(step)?.begun.as_ref().map(|(body, _)| body)
    }

    /// What the call at `path` and those below it had reserved, each with the end of its request if that has one.
    pub(crate) fn reserved_below(&self, path: &CallPath) -> Vec<(Reserved, Option<RecordKind>)> {
        let ended = |at: &CallPath, step: &str| {
            let past = self.steps.get(at)?.get(step)?;
            past.ended.as_ref().map(|(body, _)| body.clone())
        };
        let below = self.reserved.iter().filter(|(at, _)| at.is_within(path));
        below
            .filter_map(|(at, step)| {
                let Some(RecordKind::Reserved(reserved)) = ended(at, step) else { return None };
                let request = step.strip_prefix("reserve.").map(|turn| format!("model.{turn}"));
                Some((reserved, request.and_then(|request| ended(at, &request))))
            })
            .collect()
    }

    /// What becomes of a leaf that had begun and not ended.
    ///
    /// # Errors
    /// Only the operator knows, and hasn't said.
    pub(crate) fn settle(&self, path: &CallPath, begun: &RecordKind) -> Result<Settle, Halt> {
        match begun {
            RecordKind::ToolStarted { function, risk, .. } if *risk != Risk::Read => self
                .settle
                .get(path)
                .cloned()
                .ok_or_else(|| Halt::Unsettled { path: path.clone(), function: Arc::clone(function) }),
            // A model's answer that nobody got, and a look that changes nothing.
            _ => Ok(Settle::Again),
        }
    }

    /// A call below `path` that the run made before and that it has not come by again: its code went another way.
    pub(crate) fn left_out(&self, path: &CallPath) -> Option<&CallPath> {
        let below = |other: &CallPath| other.parent().is_some_and(|parent| parent == *path);
        let unseen = |steps: &BTreeMap<String, Past>| {
            steps.get("call").is_some_and(|call| call.ended.is_some() && !call.seen.load(Ordering::Relaxed))
        };
        self.steps.iter().find(|(other, steps)| below(other) && unseen(steps)).map(|(other, _)| other)
    }

    /// A step at `path` itself, or a call right below it, that was recorded and that nobody has come by: the first by name.
    pub(crate) fn passed_over(&self, path: &CallPath) -> Option<(&CallPath, &str, &RecordKind)> {
        let own = self.steps.get_key_value(path).into_iter();
        let own = own.flat_map(|(path, steps)| steps.iter().map(move |(step, past)| (path, step, past)));
        // The end is what is being looked at, what was decided of a leaf that was cut off follows from nothing, and a
        // question need not come up again where an earlier answer covers it by now: the verdict tells.
        let own = own.filter(|(_, step, _)| !matches!(step.as_str(), "end" | "settle" | "ask"));
        let below =
            self.steps.iter().filter(|(other, _)| other.parent().is_some_and(|parent| parent == *path));
        let below = below.filter_map(|(other, steps)| {
            let (step, past) = steps.get_key_value("call")?;
            Some((other, step, past))
        });
        let passed = own.chain(below).filter_map(|(path, step, past)| match &past.ended {
            Some((body, _))
                if !past.seen.load(Ordering::Relaxed) && !matches!(body, RecordKind::Note { .. }) =>
            {
                Some((path, step.as_str(), body))
            }
            _ => None,
        });
        passed.min_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)))
    }

    /// A call that was recorded, that nobody has come by, and whose caller did not stop because the record does, at one
    /// of these places.
    pub(crate) fn never_made(&self, stopped: &[CallPath]) -> Option<(&CallPath, &RecordKind)> {
        let calls = self.steps.iter().filter_map(|(path, steps)| {
            let call = steps.get("call")?;
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
