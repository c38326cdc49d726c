//! Words of users that arrive while an answer is made.

use llm_do_core::{call_path::CallPath, question::OPERATOR};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The channel (`Given::via`) of words that the user says while an answer is made.
const VIA: &str = "chat";

/// Says something to a conversation while its answer is made. Clones reach the same run.
#[derive(Clone, Debug, Default)]
pub struct Interjector(Arc<Mutex<Vec<(CallPath, Said)>>>);

/// Words that are said while an answer is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The words.
    pub text: String,
    /// The author of the words, as in [`Given::by`](llm_do_core::question::Given::by).
    pub by: Arc<str>,
    /// The channel, as in [`Given::via`](llm_do_core::question::Given::via).
    pub via: Arc<str>,
}

impl Interjector {
    /// Adds words of the operator, which the next request of the conversation at `path` delivers.
    pub fn say(&self, path: CallPath, text: String) {
        self.say_as(path, Said { text, by: OPERATOR.into(), via: VIA.into() });
    }
    /// Adds words of another person, or through another channel.
    pub fn say_as(&self, path: CallPath, said: Said) {
        self.said().push((path, said));
    }
    /// Takes the words that no request of that conversation has delivered, in order. Words of another author stay for
    /// the request after it.
    pub(crate) fn take(&self, path: &CallPath) -> Vec<Said> {
        let mut said = self.said();
        let Some(first) = said.iter().find(|(of, _)| of == path).map(|(_, first)| first.clone()) else {
            return Vec::new();
        };
        let is_first =
            |(of, said): &mut (CallPath, Said)| of == path && said.by == first.by && said.via == first.via;
        said.extract_if(.., is_first).map(|(_, said)| said).collect()
    }
    /// Takes back the texts that no request has delivered, in order.
    pub fn take_all(&self) -> Vec<String> {
        self.take_back().into_iter().map(|said| said.text).collect()
    }
    /// Takes back all words that no request has delivered, in order.
    pub fn take_back(&self) -> Vec<Said> {
        std::mem::take(&mut *self.said()).into_iter().map(|(_, said)| said).collect()
    }
    fn said(&self) -> MutexGuard<'_, Vec<(CallPath, Said)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
