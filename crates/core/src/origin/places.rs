//! The places that hold what was written from untrusted words.

use crate::{
    authority::Place,
    send::{MaybeSend, MaybeSync},
};
use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

/// The places in which untrusted words were written, by this run and earlier ones of the same program. What is read there
/// is untrusted.
///
/// A host that keeps the list between runs seals it, since a program must not be able to shorten it. The engine asks only
/// within steps, so that a resumed run gets the recorded answer.
pub trait UntrustedPlaces: MaybeSend + MaybeSync {
    /// Whether the place lies in one of the list.
    fn hold(&self, place: &Place) -> bool;
    /// Whether the place lies in one of the list, or one of the list in it.
    fn touch(&self, place: &Place) -> bool;
    /// Adds places, before anything is written there.
    ///
    /// # Errors
    /// The list can't be kept. The run can't continue, because a later one would trust the place.
    fn add(&self, places: &[Place]) -> Result<(), String>;
}

/// The places of one run, in memory.
#[derive(Debug, Default)]
pub struct UntrustedSet(Mutex<BTreeSet<Place>>);

impl UntrustedSet {
    /// A list that begins with these places.
    pub fn new(places: impl IntoIterator<Item = Place>) -> Self {
        Self(Mutex::new(places.into_iter().collect()))
    }

    /// Adds a place. Returns whether the list did not cover it.
    pub fn insert(&self, place: &Place) -> bool {
        !self.hold(place) && self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(place.clone())
    }
}

impl UntrustedPlaces for UntrustedSet {
    fn hold(&self, place: &Place) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        !all.is_empty() && all.iter().any(|listed| place.is_within(listed))
    }

    fn touch(&self, place: &Place) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().any(|listed| place.is_within(listed) || listed.is_within(place))
    }

    fn add(&self, places: &[Place]) -> Result<(), String> {
        for place in places {
            self.insert(place);
        }
        Ok(())
    }
}
