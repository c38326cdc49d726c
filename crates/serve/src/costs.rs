//! The costs of runs by worker and model, read once from each journal.

use llm_do::{core::model::Usage, runs::JOURNAL_FILE};
use serde::Deserialize;
use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// Most journals whose costs are remembered. Beyond it all are read again.
const MOST_REMEMBERED: usize = 100_000;
/// Longest line that is parsed, in bytes. Long values lie beside the journal.
const LONGEST_LINE: usize = 4 << 20;
/// The marks of the records that matter: a line without one of them is not parsed.
const MARKS: [&str; 3] =
    ["\"kind\":\"conversation_started\"", "\"kind\":\"model_answered\"", "\"kind\":\"model_chosen\""];

/// The worker and the model of a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spender {
    pub(crate) worker: String,
    pub(crate) model: String,
}

/// Requests and their usage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Spent {
    pub(crate) requests: u64,
    /// Requests whose cost is not known.
    pub(crate) unpriced: u64,
    pub(crate) usage: Usage,
}

impl Spent {
    pub(crate) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.unpriced += other.unpriced;
        self.usage = sum(self.usage, other.usage);
    }
}

/// The sum of two usages, with the known part of the cost: `unpriced` says whether there is another.
fn sum(a: Usage, b: Usage) -> Usage {
    let cost = match (a.cost_usd, b.cost_usd) {
        (Some(a), Some(b)) => Some(a.plus(b)),
        (a, b) => a.or(b),
    };
    Usage { cost_usd: cost, ..a.plus(b) }
}

/// The costs of a run so far.
pub(crate) type OfRun = BTreeMap<Spender, Spent>;

/// The remembered costs, by the folder of the run.
#[derive(Default)]
pub(crate) struct Costs(Mutex<HashMap<PathBuf, Tally>>);

/// The records of a journal that were read.
#[derive(Clone, Default)]
struct Tally {
    read: u64,
    /// The worker and model of each conversation, by the path of its call.
    conversations: HashMap<String, Spender>,
    spent: Arc<OfRun>,
}

/// The fields of a record that matter.
#[derive(Deserialize)]
struct CostRecord {
    path: String,
    kind: String,
    #[serde(default)]
    worker: String,
    #[serde(default)]
    model: String,
    #[serde(default)]
    usage: Usage,
}

impl Costs {
    /// Returns true if nothing of the run in that folder was read so far.
    pub(crate) fn is_new(&self, dir: &Path) -> bool {
        !self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(dir)
    }

    /// Returns the costs of the run in that folder. Reads only what was added to its journal.
    pub(crate) fn of(&self, dir: &Path) -> Arc<OfRun> {
        let mut tally = {
            let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.get(dir).cloned().unwrap_or_default()
        };
        // A journal that can't be read has no costs that are known.
        if matches!(tally.advance(dir), Ok(true)) || tally.read == 0 {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() >= MOST_REMEMBERED {
                known.clear();
            }
            known.insert(dir.to_owned(), tally.clone());
        }
        tally.spent
    }

    /// All costs of the run in that folder together.
    pub(crate) fn usage(&self, dir: &Path) -> Option<Usage> {
        let spent = self.of(dir);
        (!spent.is_empty()).then(|| spent.values().fold(Usage::default(), |all, one| sum(all, one.usage)))
    }
}

impl Tally {
    /// Reads the lines that were added. Returns whether there were any.
    fn advance(&mut self, dir: &Path) -> io::Result<bool> {
        let file = File::open(dir.join(JOURNAL_FILE))?;
        let length = file.metadata()?.len();
        if length == self.read {
            return Ok(false);
        }
        if length < self.read {
            *self = Self::default();
        }
        let mut file = BufReader::with_capacity(1 << 16, file);
        file.seek(SeekFrom::Start(self.read))?;
        let mut file = file.take(length - self.read);
        let mut line = Vec::new();
        loop {
            line.clear();
            let bytes = file.read_until(b'\n', &mut line)?;
            // The end of the last line is still being written.
            if bytes == 0 || line.last() != Some(&b'\n') {
                return Ok(true);
            }
            self.read += bytes as u64;
            self.take(&line);
        }
    }

    fn take(&mut self, line: &[u8]) {
        let Some(text) = (line.len() <= LONGEST_LINE).then(|| str::from_utf8(line).ok()).flatten() else {
            return;
        };
        if !MARKS.iter().any(|mark| text.contains(mark)) {
            return;
        }
        let Ok(CostRecord { path, kind, worker, model, usage }) = serde_json::from_str(text) else { return };
        match kind.as_str() {
            "conversation_started" => drop(self.conversations.insert(path, Spender { worker, model })),
            "model_chosen" => {
                if let Some(conversation) = self.conversations.get_mut(&path) {
                    conversation.model = model;
                }
            }
            "model_answered" => {
                let Some(spender) = self.conversations.get(&path).cloned() else { return };
                let one = Spent { requests: 1, unpriced: usage.cost_usd.is_none().into(), usage };
                Arc::make_mut(&mut self.spent).entry(spender).or_default().add(&one);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use llm_do::core::price::Usd;
    use serde_json::json;
    use std::{fs::OpenOptions, io::Write};

    #[test]
    fn a_journal_is_read_on_from_where_it_was_read_to() {
        let dir = tempfile::tempdir().unwrap();
        let costs = Costs::default();
        let write = |text: &str| {
            let mut file =
                OpenOptions::new().create(true).append(true).open(dir.path().join(JOURNAL_FILE)).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        assert!(costs.is_new(dir.path()));
        let started =
            json!({"path": "0", "kind": "conversation_started", "worker": "main", "model": "m:one"});
        let answered = |cost: Option<f64>| json!({"path": "0", "kind": "model_answered", "message": "\"kind\":", "usage": {"input_tokens": 3, "cost_usd": cost}});
        write(&format!("{started}\n{}\n", answered(Some(0.5))));
        assert_eq!(costs.of(dir.path()).values().map(|one| one.requests).sum::<u64>(), 1);
        let half = answered(None).to_string();
        let chosen = json!({"path": "0", "kind": "model_chosen", "model": "m:two"});
        write(&format!("{chosen}\n{}", &half[..20]));
        assert_eq!(costs.of(dir.path()).len(), 1);
        write(&format!("{}\n", &half[20..]));
        let found = costs.of(dir.path());
        let lines: Vec<_> =
            found.iter().map(|(by, spent)| (by.model.as_str(), spent.requests, spent.unpriced)).collect();
        assert_eq!(lines, [("m:one", 1, 0), ("m:two", 1, 1)]);
        let usage = costs.usage(dir.path()).unwrap();
        assert_eq!((usage.input_tokens, usage.cost_usd.map(Usd::as_dollars)), (Some(6), Some(0.5)));
        assert!(!costs.is_new(dir.path()));
    }
}
