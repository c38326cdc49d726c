//! The places of a program to which its runs wrote untrusted words, in a file of the page.
//!
//! The list outlives the engine: a later run must not trust such a file either. A place is stored before the write that
//! it is about, by the order of effects.

use crate::{
    bridge::Bridge,
    message::{Bytes, Done, Effect, EffectError, ErrorKind},
};
use llm_do_core::{
    authority::Place,
    origin::{UntrustedPlaces, UntrustedSet},
};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

/// The largest list that is read.
const LARGEST: u64 = 16 << 20;

/// The places of one program.
pub(crate) struct Listed {
    bridge: Bridge,
    path: String,
    set: UntrustedSet,
    /// The same places, in the form of the file.
    places: Mutex<BTreeSet<String>>,
}

impl Listed {
    /// Reads the list of a program.
    ///
    /// # Errors
    /// The list is there and can't be read: nothing is known to be trusted then.
    pub(crate) async fn read(bridge: &Bridge, program: &str) -> Result<Arc<Self>, EffectError> {
        let path = format!("{program}/.llm-do/untrusted.json");
        let of = path.clone();
        let places: BTreeSet<String> =
            match bridge.perform(|id| Effect::Read { id, path: of, from: 0, most: LARGEST }).await {
                Ok(Done { base64, .. }) => {
                    let Bytes(content) = base64.unwrap_or_default();
                    serde_json::from_slice(&content).map_err(|error| EffectError {
                        kind: ErrorKind::Other,
                        message: format!("{path} can't be read: {error}"),
                    })?
                }
                Err(EffectError { kind: ErrorKind::Missing, .. }) => BTreeSet::new(),
                Err(error) => return Err(error),
            };
        let set = UntrustedSet::new(places.iter().map(|place| Place::new(&format!("/{program}/{place}"))));
        Ok(Arc::new(Self { bridge: bridge.clone(), path, set, places: Mutex::new(places) }))
    }

    /// Returns the list for one run, whose journal precedes it.
    pub(crate) fn of_run(self: &Arc<Self>, run: Option<Arc<str>>) -> Arc<dyn UntrustedPlaces> {
        Arc::new(OfRun { listed: Arc::clone(self), run: run.unwrap_or_default() })
    }
}

/// The list, as one run adds to it.
struct OfRun {
    listed: Arc<Listed>,
    run: Arc<str>,
}

impl UntrustedPlaces for OfRun {
    fn hold(&self, place: &Place) -> bool {
        self.listed.set.hold(place)
    }

    fn touch(&self, place: &Place) -> bool {
        self.listed.set.touch(place)
    }

    fn within(&self, place: &Place) -> Vec<Place> {
        self.listed.set.within(place)
    }

    fn add(&self, places: &[Place]) -> Result<(), String> {
        let Listed { bridge, path, set, places: kept } = &*self.listed;
        if let Some(reason) = bridge.broken(&self.run) {
            return Err(reason);
        }
        let new: Vec<&Place> = places.iter().filter(|place| set.insert(place)).collect();
        if new.is_empty() {
            return Ok(());
        }
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        // Relative to the program, which may be moved.
        let below = |place: &Place| {
            place.as_str().trim_start_matches('/').split_once('/').map(|(_, rest)| rest.to_owned())
        };
        kept.extend(new.into_iter().filter_map(below));
        let text = serde_json::to_vec(&*kept).map_err(|error| error.to_string())?;
        bridge.store(&self.run, path.clone(), &text);
        Ok(())
    }
}
