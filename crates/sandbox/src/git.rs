//! Folders that git takes for a repository although they are not called `.git`: bare repositories, and the folders to
//! which a `.git` file points. Git reads `config` in such a folder, which names programs that git runs, as soon as git
//! is used in it or below it (git-config(1), `safe.bareRepository`).

use std::ffi::OsStr;

/// The entries by which git recognises a repository (gitrepository-layout(5)). `commondir` names a folder that holds
/// the other two.
const PARTS: [&str; 4] = ["HEAD", "objects", "refs", "commondir"];

/// Returns the entry that a name matches, as file systems that ignore case compare it.
pub(crate) fn part(name: &OsStr) -> Option<&'static str> {
    PARTS.into_iter().find(|part| name.eq_ignore_ascii_case(part))
}

/// Returns true if a folder with these parts is a repository.
pub(crate) fn is_repository(has: impl Fn(&str) -> bool) -> bool {
    has("HEAD") && (has("commondir") || (has("objects") && has("refs")))
}
