//! The runs of a service on disk, as lists show them, remembered as long as their journals do not change.

use crate::{
    owner::Owner,
    views::{State, status_state},
};
use llm_do::{
    Client,
    core::{
        journal::{Ending, RecordKind, RunStatus},
        model::Usage,
        outcome::{Failure, Halt},
    },
    records::{OpenRun, RunState},
    runs::{JOURNAL_FILE, RunSummary, SealKey, began_here, is_own, read_ends, run_ids, summary_of},
};
use serde_json::Value;
use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

/// The longest title, in characters.
const LONGEST_TITLE: usize = 120;
/// The longest message of a failure in a list, in characters.
const LONGEST_FAILURE: usize = 300;
/// Most runs that are remembered. Beyond it all are read again.
const MOST_REMEMBERED: usize = 100_000;
/// Most journals that one search for a text opens.
pub(crate) const MOST_SEARCHED: usize = 500;

/// A run in a list.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) run: Arc<str>,
    pub(crate) program: Arc<str>,
    pub(crate) client: Arc<str>,
    /// True if it was started outside of the service.
    pub(crate) outside: bool,
    pub(crate) worker: Arc<str>,
    pub(crate) chat: bool,
    pub(crate) title: Option<String>,
    pub(crate) state: State,
    /// The reason why the run was cut off, if its journal has one.
    pub(crate) reason: Option<String>,
    /// The failure of a run without output, with the beginning of its message.
    pub(crate) failure: Option<Failure>,
    pub(crate) started_ms: u64,
    pub(crate) took_ms: Option<u64>,
    pub(crate) usage: Option<Usage>,
}

/// The conditions that a run in a list meets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    /// Only of this program.
    pub(crate) program: Option<String>,
    /// Only of this worker.
    pub(crate) worker: Option<String>,
    /// Only in these states; empty: in any.
    pub(crate) states: Vec<State>,
    /// Only chats, or only others.
    pub(crate) chat: Option<bool>,
    /// Only those whose ID, worker, input, output or failure has this text, in lower case.
    pub(crate) text: Option<String>,
}

impl Filter {
    /// Returns true if a run can be in the list, as far as that is known without its journal: `text` is not compared.
    pub(crate) fn admits(&self, program: &str, worker: &str, chat: bool, state: State) -> bool {
        self.program.as_deref().is_none_or(|wanted| wanted == program)
            && self.worker.as_deref().is_none_or(|wanted| wanted == worker)
            && self.chat.is_none_or(|wanted| wanted == chat)
            && (self.states.is_empty() || self.states.contains(&state))
    }
}

/// The runs in the folders of a service, as they were last read.
pub(crate) struct Listing {
    /// The key that tells the user's own journals from those that a project brings. Without a key no journal is known
    /// to be the user's own.
    key: Option<SealKey>,
    runs: Mutex<HashMap<PathBuf, Remembered>>,
    /// The journals of which every record is the user's own.
    own: Mutex<HashMap<PathBuf, Stamp>>,
}

/// A journal's length and time of change when it was read.
type Stamp = (u64, Option<SystemTime>);

fn stamp(dir: &Path) -> Option<Stamp> {
    let found = fs::symlink_metadata(dir.join(JOURNAL_FILE)).ok()?;
    Some((found.len(), found.modified().ok()))
}

#[derive(Clone)]
struct Remembered {
    stamp: Stamp,
    /// The run, absent if clients do not see it.
    run: Option<Arc<Listed>>,
}

impl Listing {
    /// A listing of the runs that this key has sealed.
    pub(crate) fn of(key: Option<SealKey>) -> Self {
        Self { key, runs: Mutex::default(), own: Mutex::default() }
    }

    /// The key of the user's seals.
    pub(crate) fn key(&self) -> Option<&SealKey> {
        self.key.as_ref()
    }

    /// Returns true if the user's llm-do began the run in that folder. Other runs belong to no client: a cloned project
    /// may bring journals that name one.
    pub(crate) fn has_begun(&self, dir: &Path) -> bool {
        self.key.as_ref().is_some_and(|key| began_here(dir, key))
    }

    /// Returns true if every record of the journal in that folder is the user's own, so that clients may see its
    /// contents.
    pub(crate) fn is_own(&self, dir: &Path) -> bool {
        let own = || self.own.lock().unwrap_or_else(PoisonError::into_inner);
        // Before the journal is read: one that grows meanwhile is read again.
        let Some(stamp) = stamp(dir) else { return false };
        if own().get(dir) == Some(&stamp) {
            return true;
        }
        let is_own = self.key.as_ref().is_some_and(|key| is_own(dir, key));
        if is_own {
            let mut own = own();
            if own.len() >= MOST_REMEMBERED {
                own.clear();
            }
            own.insert(dir.to_owned(), stamp);
        }
        is_own
    }

    /// The IDs of the runs in these folders before that one, newest first, each with its folder.
    ///
    /// # Errors
    /// A folder can't be read.
    pub(crate) fn ids(folders: &[PathBuf], before: Option<&str>) -> io::Result<Vec<(String, PathBuf)>> {
        let mut ids = Vec::new();
        for folder in folders {
            let found = run_ids(folder)?.into_iter().filter(|id| before.is_none_or(|before| &**id < before));
            ids.extend(found.map(|id| (id, folder.clone())));
        }
        ids.sort_unstable_by(|a, b| b.0.cmp(&a.0));
        Ok(ids)
    }

    /// The run with that ID in a folder, if clients see it and its journal can be read.
    pub(crate) fn get(&self, folder: &Path, id: &str, owner: &Owner) -> Option<Arc<Listed>> {
        let dir = folder.join(id);
        let stamp = stamp(&dir)?;
        let known = {
            let remembered = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
            remembered.get(&dir).filter(|known| known.stamp == stamp).cloned()
        };
        if let Some(known) = known {
            return known.run;
        }
        let summary = summary_of(folder, id).ok()?;
        // Whether a run that has no end is under way shows in a lock, which changes no time.
        let is_over = matches!(summary.state, RunState::Ended(_));
        let client = owner.started_by(folder, &summary).filter(|_| self.has_begun(&dir));
        let is_outside = owner.only_shows(&summary);
        let run = client.map(|client| Arc::new(listed(&summary, client, is_outside, &dir)));
        if is_over || run.is_none() {
            let mut remembered = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
            if remembered.len() >= MOST_REMEMBERED {
                remembered.clear();
            }
            remembered.insert(dir, Remembered { stamp, run: run.clone() });
        }
        run
    }
}

/// A run of that client, in that folder, as lists show it. `outside`: it was started outside of the service.
pub(crate) fn listed(summary: &RunSummary, client: Client, outside: bool, dir: &Path) -> Listed {
    let reason = cut_off_because(summary, dir);
    let state = match summary.state {
        RunState::Ended(_) if reason.is_some() => State::CutOff,
        RunState::Ended(status) => status_state(status),
        RunState::Open(OpenRun::Running) => State::Running,
        RunState::Open(OpenRun::CutOff | OpenRun::Damaged) => State::CutOff,
    };
    Listed {
        title: title_of(&summary.invocation["input"]),
        run: summary.run.as_str().into(),
        program: client.program,
        client: client.name,
        outside,
        worker: summary.entry.as_str().into(),
        chat: summary.chat,
        state,
        reason,
        failure: failure_of(state, dir),
        started_ms: summary.started_ms.unwrap_or_default(),
        took_ms: summary.took_ms,
        usage: summary.usage,
    }
}

/// The failure of the run in that folder, if it has no output.
fn failure_of(state: State, dir: &Path) -> Option<Failure> {
    if !matches!(state, State::Failed | State::Limit | State::Refused) {
        return None;
    }
    match read_ends(dir).ok()??.1.body {
        RecordKind::RunEnded { ending: Ending::Failure(mut failure), .. } => {
            failure.message = beginning(&failure.message, LONGEST_FAILURE);
            failure.partial = None;
            Some(failure)
        }
        _ => None,
    }
}

/// The reason why the run in that folder was cut off, if its last record has one. A run that no client interrupted can
/// be continued when the cause is gone.
pub(crate) fn cut_off_because(summary: &RunSummary, dir: &Path) -> Option<String> {
    if !matches!(summary.state, RunState::Ended(RunStatus::Interrupted)) {
        return None;
    }
    match read_ends(dir).ok()??.1.body {
        RecordKind::RunEnded { ending: Ending::Failure(failure), .. } => {
            (failure.message != Halt::Cancelled.to_string()).then_some(failure.message)
        }
        _ => None,
    }
}

/// The beginning of a recorded input. Absent if the whole lies beside the journal.
pub(crate) fn title_of(input: &Value) -> Option<String> {
    match (&input["message"], &input["json"]) {
        (Value::String(message), _) => Some(title(message)),
        (_, Value::Null) => None,
        (_, Value::Object(fields)) if fields.contains_key("$blob") => None,
        (_, json) => Some(title(&json.to_string())),
    }
}

/// The beginning of a text, on one line.
pub(crate) fn title(text: &str) -> String {
    beginning(text, LONGEST_TITLE)
}

fn beginning(text: &str, longest: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(longest).collect()
}

/// Returns true if the input or the end of the run in that folder contains the text, which is in lower case.
pub(crate) fn has_text(dir: &Path, text: &str) -> bool {
    let Ok(Some((first, last))) = read_ends(dir) else { return false };
    let has = |found: &str| contains(found, text);
    let started = match &first.body {
        RecordKind::RunStarted { invocation: Some(invocation), .. } => {
            let input = &invocation["input"];
            match (&input["message"], &input["json"]) {
                (Value::String(message), _) => has(message),
                (_, Value::Null) => false,
                (_, json) => holds(json, text),
            }
        }
        _ => false,
    };
    started
        || match &last.body {
            RecordKind::RunEnded { ending: Ending::Output(output), .. } => holds(output, text),
            RecordKind::RunEnded { ending: Ending::Failure(failure), .. } => has(&failure.message),
            _ => false,
        }
}

/// Returns true if `found` contains `text`, which is in lower case. White space of any length is one space, as titles
/// show it.
fn contains(found: &str, text: &str) -> bool {
    let found = found.to_lowercase();
    found.contains(text) || found.split_whitespace().collect::<Vec<_>>().join(" ").contains(text)
}

/// Returns true if one of the value's strings, or its JSON, contains the text.
fn holds(value: &Value, text: &str) -> bool {
    fn in_texts(value: &Value, text: &str) -> bool {
        match value {
            Value::String(found) => contains(found, text),
            Value::Array(items) => items.iter().any(|item| in_texts(item, text)),
            Value::Object(members) => members.values().any(|member| in_texts(member, text)),
            _ => false,
        }
    }
    in_texts(value, text) || (!value.is_string() && value.to_string().to_lowercase().contains(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_title_is_one_line_and_short() {
        assert_eq!(title_of(&json!({"message": "a\n  b\tc"})).as_deref(), Some("a b c"));
        assert_eq!(title_of(&json!({"json": {"name": "Ada"}})).as_deref(), Some("{\"name\":\"Ada\"}"));
        assert_eq!(title_of(&json!({"json": {"$blob": "sha256:00", "bytes": 9}})), None);
        assert_eq!(title_of(&json!({})), None);
        assert_eq!(title(&"ä".repeat(500)).chars().count(), LONGEST_TITLE);
    }

    #[test]
    fn a_text_is_found_as_a_reader_sees_it() {
        let value = json!({"mail": {"body": "He said \"Ünder\nway\" twice."}, "n": [12]});
        for text in ["said \"ünder way\"", "\"mail\":{", "12", "ünder\nway"] {
            assert!(holds(&value, text), "{text}");
        }
        assert!(!holds(&value, "no such"));
    }

    #[test]
    fn a_filter_admits_what_fits_all_of_it() {
        let filter = Filter {
            worker: Some("a".into()),
            states: vec![State::Done, State::Failed],
            ..Filter::default()
        };
        assert!(filter.admits("p", "a", false, State::Done));
        assert!(
            !filter.admits("p", "a", false, State::Running) && !filter.admits("p", "b", false, State::Done)
        );
        assert!(Filter::default().admits("p", "b", true, State::Waiting));
    }
}
