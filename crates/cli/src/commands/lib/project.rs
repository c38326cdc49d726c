//! Dependencies of a project: installation, and pins in its lock file.

use super::{
    Places,
    resolver::{Keep, Outcome, Requirer, Resolver},
    root::{Root, write_whole},
    trouble::Trouble,
    users,
};
use crate::{exit::Complaint, paint::Paint, program::findings, render::Output, visible};
use llm_do::program::{
    Diagnostic,
    contents::Difference,
    dependency::DependencyKind,
    diagnostics::tidy,
    lock::{LARGEST_LOCK, LOCK_FILE, Lock, Pinned},
    manifest::{MANIFESTS, Manifest},
    source::DiskTree,
};
use llm_do::read_regular;
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The result of updating a lock file.
pub(crate) struct Pinning {
    pub(crate) path: PathBuf,
    /// Number of libraries that the file pins.
    pub(crate) libraries: usize,
    changes: Vec<Change>,
    /// True if the file was written, because its text has changed.
    written: bool,
}

/// A library whose pin has changed.
#[derive(Debug, PartialEq, Eq)]
struct Change {
    name: String,
    /// `VERSION`, and the commit where there is one.
    before: Option<String>,
    after: Option<String>,
    files: Vec<Difference>,
}

/// The relation of a project to a library.
pub(crate) enum Concern {
    NoProject,
    Depends,
    /// The project does not depend on the library. The value is the name of the project's manifest.
    Not(String),
}

/// Determines if a project depends on a library of that name, itself or through others.
pub(crate) fn concern(project: &Path, name: &str) -> Result<Concern, Trouble> {
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
    places: &Places,
    output: &Output,
) -> Result<(Vec<Outcome>, Pinning), Trouble> {
    let project = fs::canonicalize(project).map_err(|error| {
        Complaint::wrong(format!("the project `{}` cannot be opened: {error}", project.display()))
    })?;
    let tree = open(&project)?;
    let mut found = Vec::new();
    let manifest = Manifest::load(&tree, &mut found);
    if found.iter().any(Diagnostic::is_error) {
        tidy(&mut found);
        return Err(Trouble::Found(found));
    }
    let before = match Lock::load(&tree, &mut found) {
        Some(lock) => Some(lock),
        None if found.is_empty() => None,
        None if keep == Keep::Everything => return Err(Trouble::Found(found)),
        None => {
            // The file is replaced. The pins are lost, so the problem becomes a warning.
            for one in &mut found {
                one.severity = llm_do::program::diagnostics::Severity::Warning;
            }
            output.screen.line(&findings(&found, output.err));
            None
        }
    };
    if keep == Keep::Everything && before.is_none() {
        return Err(Complaint::wrong(format!("there is no `{LOCK_FILE}` in {}", project.display()))
            .hint("`llm-do lib install` writes it")
            .into());
    }
    let before = before.unwrap_or_default();
    let mut kept = Lock::default();
    for pinned in before.libraries().filter(|pinned| !but.contains(&pinned.name.as_str())) {
        kept.insert((**pinned).clone());
    }
    let mut resolver = Resolver::new(root, &places.roots, kept, output);
    resolver.force = force;
    resolver.keep = keep;
    resolver.all(Requirer::project(&project), &manifest.dependencies)?;
    let mut after = resolver.pins();
    after.keep_tools(&before);
    let path = project.join(LOCK_FILE);
    let changes = changes(&before, &after);
    if keep == Keep::Everything && !changes.is_empty() {
        let mut message = format!("the installed libraries differ from `{LOCK_FILE}`:");
        message.extend(changes.iter().map(|change| format!("\n  {}", change.line(Paint::NEVER).trim_end())));
        return Err(Complaint::wrong(message)
            .hint("`llm-do lib install` pins the current dependencies")
            .into());
    }
    let text = after.to_text();
    if text.len() as u64 > LARGEST_LOCK {
        return Err(Complaint::wrong(format!(
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
        write_whole(&path, &text)
            .map_err(|error| Complaint::failed(format!("`{}` cannot be written: {error}", path.display())))?;
    }
    if after.libraries().next().is_some() {
        users::remember(&places.projects, &project)?;
    }
    Ok((outcomes, Pinning { path, libraries: after.libraries().count(), changes, written }))
}

fn open(project: &Path) -> Result<DiskTree, Trouble> {
    DiskTree::open(project).map_err(|error| {
        Complaint::wrong(format!("the project `{}` cannot be opened: {error}", project.display())).into()
    })
}

/// Returns the libraries whose pins have changed, sorted by name.
fn changes(before: &Lock, after: &Lock) -> Vec<Change> {
    let shown = |pinned: &Pinned| match &pinned.commit {
        Some(commit) => format!("{} ({})", pinned.version, super::git::short(commit)),
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

impl Change {
    fn line(&self, paint: Paint) -> String {
        let name = visible::line(&self.name);
        match (&self.before, &self.after) {
            (None, Some(after)) => format!("{} {name} {after}\n", paint.green("+")),
            (Some(before), None) => format!("{} {name} {before}\n", paint.red("-")),
            (before, after) => {
                let (before, after) =
                    (before.as_deref().unwrap_or_default(), after.as_deref().unwrap_or_default());
                let versions =
                    if before == after { after.to_owned() } else { format!("{before} → {after}") };
                let mut line = format!("{} {name} {versions}", paint.yellow("~"));
                for (i, file) in self.files.iter().take(3).enumerate() {
                    line.push_str(if i == 0 { ": " } else { ", " });
                    line.push_str(&visible::line(&file.to_string()));
                }
                if let Some(more) = self.files.len().checked_sub(3).filter(|more| *more > 0) {
                    line.push_str(&format!(", {more} more"));
                }
                line + "\n"
            }
        }
    }
}

impl Pinning {
    /// Formats the changes, a line each, and the state of the file.
    pub(crate) fn as_text(&self, paint: Paint) -> String {
        let mut text: String = self.changes.iter().map(|change| change.line(paint)).collect();
        if self.libraries > 0 || self.written {
            let noun = if self.libraries == 1 { "library" } else { "libraries" };
            let state = if self.written { "pins" } else { "is as it was and pins" };
            text.push_str(&format!("{LOCK_FILE} {state} {} {noun}\n", self.libraries));
        }
        text
    }

    pub(crate) fn as_json(&self) -> Value {
        let changes = self.changes.iter().map(|change| {
            let files =
                change.files.iter().map(|file| json!({"path": file.path, "change": file.change.to_string()}));
            json!({"library": change.name, "before": change.before, "after": change.after,
                "files": files.collect::<Vec<_>>()})
        });
        json!({"path": self.path, "libraries": self.libraries, "written": self.written,
            "changes": changes.collect::<Vec<_>>()})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use llm_do::program::contents::Contents;

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
        let lines: Vec<String> =
            changes(&before, &after).iter().map(|change| change.line(Paint::NEVER)).collect();
        assert_eq!(
            lines,
            ["~ b 1 → 2: `lib.yaml` is changed\n", "~ c 1: `lib.yaml` is changed\n", "+ d 1\n", "- e 1\n"]
        );
        assert_eq!(changes(&after, &after), []);
    }
}
