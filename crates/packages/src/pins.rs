//! Dependencies of a project: installation, and pins in its lock file.

use crate::{PackageManager, error::Message};
use crate::{
    error::Error,
    resolver::{Keep, Outcome, Requirer, Resolver},
    root::{Root, write_durably},
    users,
};
use llm_do_program::{
    Diagnostic,
    contents::Difference,
    dependency::DependencyKind,
    diagnostics::tidy,
    lock::{LARGEST_LOCK, LOCK_FILE, Lock, Pinned},
    manifest::{MANIFESTS, Manifest},
    source::DiskTree,
};
use llm_do_sandbox::read_regular;
use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

/// The result of updating a lock file.
#[derive(Debug)]
pub struct Pinning {
    /// The path of the lock file.
    pub path: PathBuf,
    /// Number of libraries that the file pins.
    pub libraries: usize,
    /// The libraries whose pins have changed, sorted by name.
    pub changes: Vec<Change>,
    /// True if the file was written, because its text has changed.
    pub written: bool,
}

/// A library whose pin has changed.
#[derive(Debug, PartialEq, Eq)]
pub struct Change {
    /// The library's name.
    pub name: String,
    /// `VERSION`, and the commit where there is one; `None` if the library was not pinned.
    pub before: Option<String>,
    /// The same after the change; `None` if the library is not pinned any more.
    pub after: Option<String>,
    /// The files that differ.
    pub files: Vec<Difference>,
}

/// The relation of a project to a library.
pub(crate) enum Concern {
    NoProject,
    Depends,
    /// The project does not depend on the library. The value is the name of the project's manifest.
    Not(String),
}

/// Determines if a project depends on a library of that name, itself or through others.
pub(crate) fn concern(project: &Path, name: &str) -> Result<Concern, Error> {
    let tree = open(project)?;
    // Installing a library reports no problems of the project.
    let manifest = Manifest::load(&tree, &mut Vec::new());
    let lock = Lock::load(&tree, &mut Vec::new());
    let named = manifest.dependencies.iter().any(
        |dependency| matches!(&dependency.kind, DependencyKind::Named { name: asked, .. } if asked == name),
    );
    if named || lock.is_some_and(|lock| lock.get(name).is_some()) {
        return Ok(Concern::Depends);
    }
    let file = manifest.file.as_ref().map(|file| file.path().to_string());
    Ok(Concern::Not(file.unwrap_or_else(|| MANIFESTS[0].to_owned())))
}

/// Installs the dependencies of a project and writes its lock file. Libraries in `but` are looked up again, even if
/// `keep` would keep them.
pub(crate) fn pin(
    project: &Path,
    keep: Keep,
    but: &[&str],
    force: bool,
    root: &Root,
    manager: &PackageManager<'_>,
) -> Result<(Vec<Outcome>, Pinning), Error> {
    let project = fs::canonicalize(project).map_err(|error| {
        Message::wrong(format!("the project `{}` cannot be opened: {error}", project.display()))
    })?;
    let tree = open(&project)?;
    let mut found = Vec::new();
    let manifest = Manifest::load(&tree, &mut found);
    if found.iter().any(Diagnostic::is_error) {
        tidy(&mut found);
        return Err(Error::Found(found));
    }
    let before = match Lock::load(&tree, &mut found) {
        Some(lock) => Some(lock),
        None if found.is_empty() => None,
        None if keep == Keep::Everything => return Err(Error::Found(found)),
        None => {
            // The file is replaced. The pins are lost, so the problem becomes a warning.
            for one in &mut found {
                one.severity = llm_do_program::diagnostics::Severity::Warning;
            }
            manager.host.warn(&found);
            None
        }
    };
    if keep == Keep::Everything && before.is_none() {
        return Err(Message::wrong(format!("there is no `{LOCK_FILE}` in {}", project.display()))
            .hint("`llm-do lib install` writes it")
            .into());
    }
    let before = before.unwrap_or_default();
    let mut kept = Lock::default();
    for pinned in before.libraries().filter(|pinned| !but.contains(&pinned.name.as_str())) {
        kept.insert((**pinned).clone());
    }
    let mut resolver = Resolver::new(root, &manager.roots, kept, manager.host);
    resolver.force = force;
    resolver.keep = keep;
    resolver.all(Requirer::project(&project), &manifest.dependencies)?;
    let mut after = resolver.pins();
    after.keep_tools(&before);
    let path = project.join(LOCK_FILE);
    let changes = changes(&before, &after);
    if keep == Keep::Everything && !changes.is_empty() {
        let mut message = format!("the installed libraries differ from `{LOCK_FILE}`:");
        message.extend(changes.iter().map(|change| format!("\n  {change}")));
        return Err(Message::wrong(message)
            .hint("`llm-do lib install` pins the current dependencies")
            .into());
    }
    let text = after.to_text();
    if text.len() as u64 > LARGEST_LOCK {
        return Err(Message::wrong(format!(
            "the libraries have so many files that `{LOCK_FILE}` would be larger than {} MiB",
            LARGEST_LOCK >> 20
        ))
        .into());
    }
    let outcomes = resolver.finish()?;
    let there = read_regular(&path, LARGEST_LOCK).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let needed = there.is_some() || after.libraries().next().is_some();
    let written = keep != Keep::Everything && needed && there.as_deref() != Some(&text);
    if written {
        write_durably(&path, &text)
            .map_err(|error| Message::failed(format!("`{}` cannot be written: {error}", path.display())))?;
    }
    if after.libraries().next().is_some() {
        users::remember(&manager.projects, &project)?;
    }
    Ok((outcomes, Pinning { path, libraries: after.libraries().count(), changes, written }))
}

fn open(project: &Path) -> Result<DiskTree, Error> {
    DiskTree::open(project).map_err(|error| {
        Message::wrong(format!("the project `{}` cannot be opened: {error}", project.display())).into()
    })
}

/// Returns the libraries whose pins have changed, sorted by name.
fn changes(before: &Lock, after: &Lock) -> Vec<Change> {
    let shown = |pinned: &Pinned| match &pinned.commit {
        Some(commit) => format!("{} ({})", pinned.version, crate::git::short(commit)),
        None => pinned.version.clone(),
    };
    let mut changes = Vec::new();
    for pinned in after.libraries() {
        let old = before.get(&pinned.name);
        let same = old.is_some_and(|old| old.version == pinned.version && old.contents == pinned.contents);
        if !same {
            changes.push(Change {
                name: pinned.name.clone(),
                before: old.map(|old| shown(old)),
                after: Some(shown(pinned)),
                files: old.map(|old| old.contents.compare(&pinned.contents)).unwrap_or_default(),
            });
        }
    }
    for old in before.libraries().filter(|old| after.get(&old.name).is_none()) {
        changes.push(Change {
            name: old.name.clone(),
            before: Some(shown(old)),
            after: None,
            files: Vec::new(),
        });
    }
    changes.sort_by(|a, b| a.name.cmp(&b.name));
    changes
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.mark(), self.text())
    }
}

impl Change {
    /// Returns the sign of the change: `+`, `-` or `~`.
    pub fn mark(&self) -> char {
        match (&self.before, &self.after) {
            (None, Some(_)) => '+',
            (Some(_), None) => '-',
            _ => '~',
        }
    }

    /// Returns the library with its versions and the first changed files.
    pub fn text(&self) -> String {
        let (before, after) = match (&self.before, &self.after) {
            (Some(before), Some(after)) => (before, after),
            (before, after) => {
                let version = before.as_ref().or(after.as_ref()).map_or("", String::as_str);
                return format!("{} {version}", self.name);
            }
        };
        let versions = if before == after { after.to_owned() } else { format!("{before} → {after}") };
        let mut text = format!("{} {versions}", self.name);
        for (i, file) in self.files.iter().take(3).enumerate() {
            text.push_str(if i == 0 { ": " } else { ", " });
            text.push_str(&file.to_string());
        }
        if let Some(more) = self.files.len().checked_sub(3).filter(|more| *more > 0) {
            text.push_str(&format!(", {more} more"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use llm_do_program::contents::Contents;

    #[test]
    fn changes_say_what_is_pinned_otherwise() {
        let library = |name: &str, version: &str, text: &str| {
            let mut contents = Contents::default();
            contents.insert("lib.yaml".into(), text.as_bytes());
            Pinned::new(name, version, contents)
        };
        let lock = |libraries: Vec<Pinned>| {
            let mut lock = Lock::default();
            libraries.into_iter().for_each(|library| lock.insert(library));
            lock
        };
        let before = lock(vec![
            library("a", "1", "x"),
            library("b", "1", "x"),
            library("c", "1", "x"),
            library("e", "1", "x"),
        ]);
        let after = lock(vec![
            library("a", "1", "x"),
            library("b", "2", "y"),
            library("c", "1", "y"),
            library("d", "1", "x"),
        ]);
        let lines: Vec<String> = changes(&before, &after).iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            ["~ b 1 → 2: `lib.yaml` is changed", "~ c 1: `lib.yaml` is changed", "+ d 1", "- e 1"]
        );
        assert_eq!(changes(&after, &after), []);
    }
}
