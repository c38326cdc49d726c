//! Protection of files beside those of a program.

use llm_do_core::authority::{Authority, Place, Protection};
use std::sync::{Arc, Mutex, PoisonError};

/// The protection of the newest run of each program that protects further files. Runs that protect the same files share
/// it, because thousands of them may wait at once.
#[derive(Default)]
pub(crate) struct Protected(Mutex<Vec<Further>>);

struct Further {
    /// The protection of the program.
    of: Arc<Protection>,
    files: Vec<Place>,
    whole: Arc<Protection>,
}

impl Protected {
    /// Returns the authority of a run that also protects these files.
    pub(crate) fn with(&self, authority: Authority, files: Vec<Place>) -> Authority {
        if files.is_empty() {
            return authority;
        }
        let of = Arc::clone(authority.protection());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = known.iter().position(|further| Arc::ptr_eq(&further.of, &of));
        if let Some(further) = at.map(|at| &known[at]).filter(|further| further.files == files) {
            return authority.protected_by(Arc::clone(&further.whole));
        }
        let authority = authority.protecting(files.iter().cloned());
        let further = Further { of, files, whole: Arc::clone(authority.protection()) };
        match at {
            Some(at) => known[at] = further,
            None => known.push(further),
        }
        authority
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use llm_do_core::authority::{Bounds, Class, Network, View};

    #[test]
    fn runs_that_protect_the_same_share_it_and_others_get_their_own() {
        let root = Place::new("/p");
        let program = Arc::new(Protection::new(root.clone(), Vec::new()));
        let authority = || {
            Authority::new(Bounds::new(Vec::new(), Network::Off), View::new(Vec::new()), Arc::clone(&program))
        };
        let [script, other] = ["/p/script.yaml", "/p/other.yaml"].map(Place::new);
        let protected = Protected::default();
        let one = protected.with(authority(), vec![script.clone()]);
        let same = protected.with(authority(), vec![script.clone()]);
        assert!(Arc::ptr_eq(one.protection(), same.protection()));
        assert_eq!(same.protection().class(&script, &root), Class::Protected);
        assert_eq!(same.protection().class(&other, &root), Class::Open);
        let changed = protected.with(authority(), vec![other.clone()]);
        assert_eq!(changed.protection().class(&other, &root), Class::Protected);
        assert_eq!(changed.protection().class(&script, &root), Class::Open);
        assert!(Arc::ptr_eq(protected.with(authority(), Vec::new()).protection(), &program));
    }
}
