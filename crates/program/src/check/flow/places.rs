//! A map of places that finds the places inside and around another.

use llm_do_core::authority::Place;
use std::collections::BTreeMap;

/// A value for each of some places.
pub(super) struct Places<T>(BTreeMap<String, T>);

impl<T> Default for Places<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Copy> Places<T> {
    /// Returns the value of a place, and creates it at the first mention of the place.
    pub(super) fn entry(&mut self, place: &Place, make: impl FnOnce() -> T) -> T {
        *self.0.entry(place.as_str().to_owned()).or_insert_with(make)
    }

    /// Returns the values of the place itself, of folders that contain it, and of the places that it contains.
    pub(super) fn around(&self, place: &Place) -> Vec<T> {
        let within = format!("{}/", place.as_str().trim_end_matches('/'));
        let below = self.0.range(within.clone()..).take_while(|(path, _)| path.starts_with(&within));
        let below = below.filter(|(path, _)| **path != within).map(|(_, value)| *value);
        // `/` ends with its first character, the others before a slash.
        let ends = within.match_indices('/').map(|(end, _)| &within[..end.max(1)]);
        let mut above: Vec<&str> = ends.collect();
        above.dedup();
        let above = above.into_iter().filter_map(|path| self.0.get(path).copied());
        below.chain(above).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_around_a_place_contain_it_or_lie_in_it() {
        let mut places = Places::default();
        for (number, path) in ["/", "/a", "/a/b", "/a/b/c", "/a/b-c", "/ab"].into_iter().enumerate() {
            places.entry(&Place::new(path), || number);
        }
        let around = |path: &str| {
            let mut found = places.around(&Place::new(path));
            found.sort_unstable();
            found
        };
        assert_eq!(around("/a/b"), [0, 1, 2, 3]);
        assert_eq!(around("/a/b/x"), [0, 1, 2]);
        assert_eq!(around("/"), [0, 1, 2, 3, 4, 5]);
        assert_eq!(around("/z"), [0]);
    }
}
