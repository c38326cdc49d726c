//! Places for those who follow runs or the service.

use crate::error::{ApiError, Code};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The streams that are open: at most so many at once, and so many of one token.
pub(crate) struct Streams {
    all: Arc<Semaphore>,
    of_token: usize,
    by_token: Mutex<HashMap<Arc<str>, Arc<Semaphore>>>,
}

/// A place for a stream, given back when it is dropped.
pub(crate) struct Place {
    _of_all: OwnedSemaphorePermit,
    _of_token: OwnedSemaphorePermit,
}

impl Streams {
    pub(crate) fn new(all: usize, of_token: usize) -> Self {
        let [all, of_token] = [all, of_token].map(|most| most.min(Semaphore::MAX_PERMITS));
        Self { all: Arc::new(Semaphore::new(all)), of_token, by_token: Mutex::default() }
    }

    /// A place for a stream of the token with that name.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn place(&self, token: &Arc<str>) -> Result<Place, ApiError> {
        let own = {
            // Tokens are few: those of the operator's file.
            let mut known = self.by_token.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(
                known.entry(Arc::clone(token)).or_insert_with(|| Arc::new(Semaphore::new(self.of_token))),
            )
        };
        let full = |whose: &str| {
            let detail = format!(
                "{whose} follows too many streams at once: close one, or ask again without following"
            );
            ApiError::new(Code::TooManyStreams, detail)
        };
        let of_token = own.try_acquire_owned().map_err(|_| full("this token"))?;
        let of_all = Arc::clone(&self.all).try_acquire_owned().map_err(|_| full("everybody together"))?;
        Ok(Place { _of_all: of_all, _of_token: of_token })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_limited_for_all_and_for_a_token_and_come_back() {
        let streams = Streams::new(3, 2);
        let (ann, bob): (Arc<str>, Arc<str>) = ("ann".into(), "bob".into());
        let first = streams.place(&ann).expect("a place");
        let _second = streams.place(&ann).expect("a place");
        assert!(streams.place(&ann).is_err(), "of the token");
        let _third = streams.place(&bob).expect("a place");
        assert!(streams.place(&bob).is_err(), "of all");
        drop(first);
        streams.place(&bob).expect("a place that was given back");
    }
}
