//! The places whose content was written from untrusted words.

use crate::{
    authority::Place,
    send::{MaybeSend, MaybeSync},
};
use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The places in which untrusted words were written, by this run and earlier ones of the same program. Content that is
/// read there is untrusted.
///
/// A host that keeps the list between runs seals it, since a program must not be able to shorten it. The engine reads
/// the list only within steps, and a resumed run therefore gets the recorded answer.
pub trait UntrustedPlaces: MaybeSend + MaybeSync {
    /// Returns true if the place is in the list or lies in a place of it.
    fn hold(&self, place: &Place) -> bool;
    /// Returns true if the place lies in a place of the list, or a place of the list lies in it.
    fn touch(&self, place: &Place) -> bool;
    /// The places of the list that lie in the place, which is itself excluded.
    fn within(&self, place: &Place) -> Vec<Place>;
    /// Adds places, before anything is written in them. A list over a network may gather them as its driver gathers
    /// records: they are durable before the step that writes there.
    ///
    /// # Errors
    /// The list can't be kept. The run can't continue, because a later run would trust the place.
    fn add(&self, places: &[Place]) -> Result<(), String>;
}

/// A set of places in memory. The time of a lookup hardly depends on their number.
#[derive(Debug, Default)]
pub struct UntrustedSet(Mutex<BTreeSet<Place>>);

impl UntrustedSet {
    /// Creates a list of these places.
    pub fn new(places: impl IntoIterator<Item = Place>) -> Self {
        Self(Mutex::new(places.into_iter().collect()))
    }

    /// Adds a place. Returns true if the list did not cover it before.
    pub fn insert(&self, place: &Place) -> bool {
        let mut all = self.lock();
        !holds(&all, place) && all.insert(place.clone())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<Place>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true if a place, or a folder around it, is in the set.
fn holds(all: &BTreeSet<Place>, place: &Place) -> bool {
    !all.is_empty() && place.upwards().any(|around| all.contains(around))
}

/// The places of the set that lie below a place. They are consecutive, because they all begin with its path.
fn below<'a>(all: &'a BTreeSet<Place>, place: &Place) -> impl Iterator<Item = &'a Place> {
    let from = place.join("\0");
    let prefix = from.as_str().trim_end_matches('\0').to_owned();
    all.range(from..).take_while(move |listed| listed.as_str().starts_with(&prefix))
}

impl UntrustedPlaces for UntrustedSet {
    fn hold(&self, place: &Place) -> bool {
        holds(&self.lock(), place)
    }

    fn touch(&self, place: &Place) -> bool {
        let all = self.lock();
        holds(&all, place) || below(&all, place).next().is_some()
    }

    fn within(&self, place: &Place) -> Vec<Place> {
        below(&self.lock(), place).cloned().collect()
    }

    fn add(&self, places: &[Place]) -> Result<(), String> {
        for place in places {
            self.insert(place);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place() -> impl Strategy<Value = Place> {
        let part = prop::sample::select(vec!["a", "b", "a-", "a b", "é", "a!"]);
        let file = prop::collection::vec(part, 0..4).prop_map(|parts| Place::new(&parts.join("/")));
        prop_oneof![8 => file, 1 => Just(Place::served("mcp", "a")), 1 => Just(Place::served("mcp", "a").join("b"))]
    }

    proptest! {
        #[test]
        fn lookups_agree_with_a_comparison_of_all(
            listed in prop::collection::vec(place(), 0..8),
            asked in place(),
        ) {
            let set = UntrustedSet::new(listed.clone());
            prop_assert_eq!(set.hold(&asked), listed.iter().any(|one| asked.is_within(one)));
            let mut inside: Vec<Place> =
                listed.into_iter().filter(|one| one.is_within(&asked) && *one != asked).collect();
            inside.sort();
            inside.dedup();
            prop_assert_eq!(set.touch(&asked), set.hold(&asked) || !inside.is_empty());
            prop_assert_eq!(set.within(&asked), inside);
        }
    }
}
