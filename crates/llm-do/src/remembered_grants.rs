//! Grants from earlier runs: `grants.yaml` in the user's folder. See `docs/reference/sandbox.md`.

use crate::{
    grant::{Grantor, MissingGrant},
    replaced_file::lock_to_replace,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

const FIRST_LINE: &str = "# What you have granted to programs: `llm-do grants list` shows it, `llm-do grants revoke` takes it back.\n";

/// A remembered grant: an exact set of capabilities of one program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RememberedGrant {
    /// Root of the program, or the lone worker file, without links on the way.
    pub program: PathBuf,
    /// The granted capabilities, as [`parse_grant`](crate::grant::parse_grant) reads them, sorted.
    pub capabilities: BTreeSet<String>,
    /// The time of the grant.
    pub granted_at: Timestamp,
}

/// The user's `grants.yaml`. A program is identified by its place, so a copy elsewhere needs its own grant.
#[derive(Clone, Debug)]
pub struct RememberedGrants {
    file: PathBuf,
}

/// A `grants.yaml` that can't be read or written. In this case nothing counts as granted.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct BadGrantsFile {
    /// The file.
    pub path: PathBuf,
    /// The cause.
    pub reason: String,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    grants: Vec<RememberedGrant>,
}

impl RememberedGrants {
    /// Returns the grants in the user's folder (`~/.llm-do`). The file is read only when it is needed.
    pub fn of(home: &Path) -> Self {
        Self { file: home.join("grants.yaml") }
    }

    /// Returns the path of the file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns all grants, in the order in which they were given.
    ///
    /// # Errors
    /// The file exists and can't be read.
    pub fn list(&self) -> Result<Vec<RememberedGrant>, BadGrantsFile> {
        let text = match fs::read_to_string(&self.file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.bad(error)),
        };
        if text.trim().is_empty() {
            return Ok(Vec::new());
        }
        serde_saphyr::from_str::<Document>(&text)
            .map(|document| document.grants)
            .map_err(|error| self.bad(error))
    }

    /// Remembers an exact set for a program.
    ///
    /// # Errors
    /// The file can't be read or written; it is left as it was.
    pub fn remember(&self, program: &Path, missing: &[MissingGrant]) -> Result<(), BadGrantsFile> {
        let granted = RememberedGrant {
            program: program.to_owned(),
            capabilities: set_of(missing),
            granted_at: Timestamp::now(),
        };
        self.change(|grants| {
            grants.retain(|old| old.program != granted.program || old.capabilities != granted.capabilities);
            grants.push(granted);
        })
    }

    /// Revokes all grants that `which` chooses, and returns them.
    ///
    /// # Errors
    /// The same as for [`RememberedGrants::remember`].
    pub fn revoke(
        &self,
        which: impl Fn(&RememberedGrant) -> bool,
    ) -> Result<Vec<RememberedGrant>, BadGrantsFile> {
        let mut revoked = Vec::new();
        self.change(|grants| {
            let (back, kept) = std::mem::take(grants).into_iter().partition(&which);
            (revoked, *grants) = (back, kept);
        })?;
        Ok(revoked)
    }

    /// Replaces the file as a whole, under a lock.
    fn change(&self, change: impl FnOnce(&mut Vec<RememberedGrant>)) -> Result<(), BadGrantsFile> {
        let io = |error: io::Error| self.bad(error);
        let _alone = lock_to_replace(&self.file).map_err(io)?;
        let mut grants = self.list()?;
        change(&mut grants);
        let yaml = serde_saphyr::to_string(&Document { grants }).map_err(|error| self.bad(error))?;
        llm_do_sandbox::write_private(&self.file, format!("{FIRST_LINE}{yaml}").as_bytes()).map_err(io)
    }

    fn bad(&self, reason: impl ToString) -> BadGrantsFile {
        BadGrantsFile { path: self.file.clone(), reason: reason.to_string() }
    }
}

impl Grantor for RememberedGrants {
    fn grant(&self, program: &Path, missing: &[MissingGrant]) -> Result<bool, BadGrantsFile> {
        let asked = set_of(missing);
        Ok(self.list()?.iter().any(|granted| granted.program == program && granted.capabilities == asked))
    }
}

/// Returns the requested capabilities as a set, so that their order does not matter.
fn set_of(missing: &[MissingGrant]) -> BTreeSet<String> {
    missing.iter().map(|missing| missing.grant.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grant::{NeededBy, parse_grant};

    fn missing(flags: &[&str]) -> Vec<MissingGrant> {
        let missing = flags.iter().map(|flag| MissingGrant {
            grant: parse_grant(flag).unwrap(),
            needed_by: NeededBy::Program,
            asked_at: String::new(),
        });
        missing.collect()
    }

    #[test]
    fn a_grant_holds_for_one_program_and_an_exact_set() {
        let home = tempfile::tempdir().unwrap();
        let grants = RememberedGrants::of(&home.path().join("new"));
        let (mine, other) = (Path::new("/p/mine"), Path::new("/p/other"));
        let both = missing(&["network=a.example", "/:ro"]);
        assert!(!grants.grant(mine, &both).unwrap());
        grants.remember(mine, &both).unwrap();
        grants.remember(mine, &both).unwrap();
        assert_eq!(grants.list().unwrap().len(), 1);
        assert!(grants.grant(mine, &missing(&["/:ro", "network=a.example"])).unwrap());
        assert!(!grants.grant(other, &both).unwrap());
        for changed in [&["network=a.example"][..], &["network", "/:ro"], &["/:rw", "network=a.example"]] {
            assert!(!grants.grant(mine, &missing(changed)).unwrap(), "{changed:?}");
        }
        assert_eq!(grants.revoke(|granted| granted.program == other).unwrap(), []);
        assert_eq!(grants.revoke(|granted| granted.program == mine).unwrap().len(), 1);
        assert!(!grants.grant(mine, &both).unwrap());
    }

    #[test]
    fn a_damaged_file_grants_nothing_and_stays_as_it_is() {
        let home = tempfile::tempdir().unwrap();
        let grants = RememberedGrants::of(home.path());
        for damaged in ["grants: 3", "grants:\n- program: /p\n", "more: []", "\u{1}"] {
            fs::write(grants.file(), damaged).unwrap();
            assert!(grants.grant(Path::new("/p"), &missing(&["network"])).is_err(), "{damaged:?}");
            assert!(grants.remember(Path::new("/p"), &missing(&["network"])).is_err());
            assert_eq!(fs::read_to_string(grants.file()).unwrap(), damaged);
        }
    }

    #[test]
    fn concurrent_remembering_loses_nothing() {
        let home = tempfile::tempdir().unwrap();
        let grants = RememberedGrants::of(home.path());
        std::thread::scope(|scope| {
            for number in 0..16 {
                let grants = &grants;
                scope.spawn(move || {
                    grants.remember(Path::new(&format!("/p/{number}")), &missing(&["network"]))
                });
            }
        });
        assert_eq!(grants.list().unwrap().len(), 16);
    }
}
