//! Links that answer one question, once.
//!
//! Only the hash of a link's token is kept. A link holds as long as its question waits with the digest that the link names, until
//! it has been used, and until it expires.

use crate::{
    live::now_ms,
    token::{NewToken, is_token},
};
use llm_do::{
    core::{question::QuestionId, schema::sha256},
    private_dir, write_below,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

const FILE: &str = "links.jsonl";

/// A link to a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Link {
    /// The hash of the link's token.
    sha256: String,
    pub(crate) run: Arc<str>,
    #[serde(flatten)]
    pub(crate) question: QuestionId,
    pub(crate) digest: String,
    /// The notifier whose message has it.
    pub(crate) by: Arc<str>,
    expires_ms: u64,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum LinkLine {
    Used { used: String },
    Link(Link),
}

/// The links of a service.
pub(crate) struct Links {
    folder: PathBuf,
    valid: Mutex<BTreeMap<String, Link>>,
}

impl Links {
    /// The links that earlier processes made.
    ///
    /// # Errors
    /// The links can't be read, or can't be written without those that have expired or were used.
    pub(crate) fn open(home: &Path) -> io::Result<Self> {
        let folder = home.join("serve").join("notify");
        private_dir(&folder)?;
        let text = match fs::read_to_string(folder.join(FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read?,
        };
        let mut valid = BTreeMap::new();
        // A line that was cut off belongs to a link that was not sent, or to an answer that is in its run's journal.
        for line in text.lines().filter_map(|line| serde_json::from_str(line).ok()) {
            match line {
                LinkLine::Used { used } => drop(valid.remove(&used)),
                LinkLine::Link(link) => drop(valid.insert(link.sha256.clone(), link)),
            }
        }
        valid.retain(|_, link| now_ms() < link.expires_ms);
        let kept: String =
            valid.values().filter_map(|link| Some(serde_json::to_string(link).ok()? + "\n")).collect();
        if kept != text {
            write_below(&folder, Path::new(FILE), kept.as_bytes())?;
        }
        Ok(Self { folder, valid: Mutex::new(valid) })
    }

    fn valid(&self) -> MutexGuard<'_, BTreeMap<String, Link>> {
        self.valid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a link. Returns the text of its token.
    ///
    /// # Errors
    /// It can't be written.
    pub(crate) fn make(
        &self,
        run: &Arc<str>,
        question: &QuestionId,
        digest: &str,
        by: &Arc<str>,
        minutes: u32,
    ) -> io::Result<String> {
        let token = NewToken::generate()?;
        let link = Link {
            sha256: token.sha256(),
            run: Arc::clone(run),
            question: question.clone(),
            digest: digest.to_owned(),
            by: Arc::clone(by),
            expires_ms: now_ms().saturating_add(u64::from(minutes) * 60_000),
        };
        self.add(&LinkLine::Link(link.clone()))?;
        self.valid().insert(link.sha256.clone(), link);
        Ok(token.text().to_owned())
    }

    /// The link with that token, unless it was used or has expired. Hashes are compared.
    pub(crate) fn find(&self, token: &str) -> Option<Link> {
        if !is_token(token) {
            return None;
        }
        let link = self.valid().get(&sha256(token.as_bytes())).cloned()?;
        (now_ms() < link.expires_ms).then_some(link)
    }

    /// Takes a link for an answer: another answer with it finds none.
    pub(crate) fn take(&self, link: &Link) -> Option<Link> {
        self.valid().remove(&link.sha256)
    }

    /// Gives a link back whose answer was not taken.
    pub(crate) fn give_back(&self, link: Link) {
        self.valid().insert(link.sha256.clone(), link);
    }

    /// Notes that a link was used.
    ///
    /// # Errors
    /// The note can't be written. The question has an answer nevertheless.
    pub(crate) fn used(&self, link: &Link) -> io::Result<()> {
        self.add(&LinkLine::Used { used: link.sha256.clone() })
    }

    fn add(&self, line: &LinkLine) -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(self.folder.join(FILE))?;
        file.write_all(format!("{}\n", serde_json::to_string(line)?).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_holds_once_and_until_it_expires_also_in_the_next_process() {
        let home = tempfile::tempdir().expect("a folder");
        let links = Links::open(home.path()).expect("opened");
        let question: QuestionId =
            serde_json::from_str(r#"{"call": "0/0.0", "step": "ask"}"#).expect("an ID");
        let run: Arc<str> = "20261127-120000-abcd".into();
        let make = |minutes| links.make(&run, &question, "0011", &"phone".into(), minutes).expect("made");
        let (used, open, expired) = (make(5), make(5), make(0));
        assert!(links.find(&expired).is_none(), "it has expired");
        assert!(links.find(&open[1..]).is_none() && links.find("").is_none());
        let link = links.find(&used).expect("the link");
        assert!(links.take(&link).is_some() && links.take(&link).is_none(), "one of two answers has it");
        links.used(&link).expect("written");
        let text = fs::read_to_string(home.path().join("serve/notify/links.jsonl")).expect("a file");
        assert!(![&used, &open].iter().any(|token| text.contains(token.as_str())), "only hashes are kept");
        let links = Links::open(home.path()).expect("opened");
        assert!(links.find(&used).is_none());
        assert_eq!(links.find(&open).map(|link| link.question), Some(question));
        let text = fs::read_to_string(home.path().join("serve/notify/links.jsonl")).expect("a file");
        assert_eq!(text.lines().count(), 1, "what holds no more is gone");
    }
}
