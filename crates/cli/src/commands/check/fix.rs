//! `check --fix`: certain changes, written into the program's files.
//!
//! Each file is replaced as a whole by a new one with the same permissions. A file that is a symbolic link, that is read-only,
//! that lies outside of the program or that has changed since it was read is left alone.

use cap_std::{ambient_authority, fs::Dir};
use llm_do::{
    NewFile,
    program::{
        diagnostics::{Code, Diagnostic, Fix, fix::merge},
        span::Span,
    },
};
use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    path::Path,
};

/// A change that was made.
pub(super) struct Made {
    pub(super) code: Code,
    /// `main.worker:3:1`, before the change.
    pub(super) place: String,
    pub(super) title: String,
}

/// A change that was not made.
pub(super) struct Left {
    pub(super) file: String,
    pub(super) title: String,
    pub(super) reason: String,
}

/// Changes of one round.
#[derive(Default)]
pub(super) struct Round {
    pub(super) made: Vec<Made>,
    pub(super) left: Vec<Left>,
}

/// Applies the fixes of these findings that do not overlap, file by file.
pub(super) fn apply(root: &Path, found: &[Diagnostic]) -> Round {
    let mut round = Round::default();
    let mut by_file: BTreeMap<&str, Vec<(&Diagnostic, &Fix)>> = BTreeMap::new();
    for finding in found {
        if let Some((fix, file)) = finding.fix.as_ref().and_then(|fix| Some((fix, fix.file()?))) {
            by_file.entry(file.path()).or_default().push((finding, fix));
        }
    }
    for (path, fixes) in by_file {
        let (whole, skipped) = merge(fixes.iter().map(|(_, fix)| *fix));
        let changed = write(root, path, &whole);
        for (finding, fix) in fixes {
            let overlaps = skipped.iter().any(|skipped| std::ptr::eq(*skipped, fix));
            let reason = match &changed {
                Err(reason) => Some(reason.clone()),
                Ok(()) => overlaps.then(|| "it touches the same text as another change".to_owned()),
            };
            match reason {
                Some(reason) => {
                    round.left.push(Left { file: path.to_owned(), title: fix.title.clone(), reason });
                }
                None => round.made.push(made(finding, path, fix)),
            }
        }
    }
    round
}

fn made(finding: &Diagnostic, path: &str, fix: &Fix) -> Made {
    let place = match finding.span.as_ref().and_then(Span::line_column) {
        Some((line, column)) => format!("{path}:{line}:{column}"),
        None => path.to_owned(),
    };
    Made { code: finding.code, place, title: fix.title.clone() }
}

/// Changes one file of the program in `root`.
fn write(root: &Path, path: &str, fix: &Fix) -> Result<(), String> {
    let file = fix.file().ok_or("there is no change")?;
    let text = fix.apply(file.text()).ok_or("the changes do not fit its text")?;
    replace(root, path, file.text(), &text)
}

/// Replaces one file of the program in `root`, if it still has the text `before`. A file with an empty `before` may be
/// missing.
///
/// # Errors
/// The reason why the file is left unchanged.
pub(crate) fn replace(root: &Path, path: &str, before: &str, text: &str) -> Result<(), String> {
    if Path::new(path).is_absolute() {
        return Err("it is not a file of this program".into());
    }
    let (folder, name) = path.rsplit_once('/').unwrap_or((".", path));
    let said = |error: io::Error| format!("it cannot be written: {error}");
    let folder = Dir::open_ambient_dir(root, ambient_authority())
        .and_then(|root| root.open_dir(folder))
        .map_err(said)?;
    let metadata = match folder.symlink_metadata(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && before.is_empty() => None,
        found => Some(found.map_err(said)?),
    };
    if metadata.as_ref().is_some_and(|found| !found.is_file()) {
        return Err("it is a symbolic link, or no file".into());
    }
    if metadata.as_ref().is_some_and(|found| found.permissions().readonly()) {
        return Err("it is read-only".into());
    }
    let same = || -> io::Result<bool> {
        let mut now = Vec::new();
        // One byte more than it was: enough to see that it has changed.
        folder.open(name)?.take(before.len() as u64 + 1).read_to_end(&mut now)?;
        Ok(now == before.as_bytes() && folder.symlink_metadata(name)?.is_file())
    };
    let mut new = NewFile::begin(&folder).map_err(said)?;
    new.write_all(text.as_bytes()).map_err(said)?;
    if let Some(found) = &metadata {
        new.file().set_permissions(found.permissions()).map_err(said)?;
    }
    new.file().sync_all().map_err(said)?;
    match metadata {
        None => new.put(name).map_err(said),
        Some(_) if same().map_err(said)? => new.replace(name).map_err(said),
        Some(_) => Err("it has changed since it was read".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use llm_do::program::{diagnostics::codes, span::SourceFile};
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, symlink},
    };

    fn finding(path: &str, text: &str, range: std::ops::Range<usize>) -> Diagnostic {
        let file = SourceFile::new(path, text);
        let span = Span::new(&file, range);
        Diagnostic::error(codes::WRONG_TYPE, "x").at(&span).fix(Fix::replace("mend it", &span, "NEW"))
    }

    #[test]
    fn a_file_is_replaced_with_its_permissions() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("a.worker");
        fs::write(&path, "one two").expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("permissions");
        let round =
            apply(dir.path(), &[finding("a.worker", "one two", 0..3), finding("a.worker", "one two", 1..2)]);
        assert_eq!(fs::read_to_string(&path).expect("text"), "NEW two");
        assert_eq!(fs::metadata(&path).expect("metadata").permissions().mode() & 0o777, 0o640);
        assert_eq!((round.made.len(), round.left.len()), (1, 1));
        assert_eq!(round.made[0].place, "a.worker:1:1");
        assert!(round.left[0].reason.contains("same text"));
        assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 1, "nothing is left behind");
    }

    #[test]
    fn what_is_not_what_was_read_is_left_alone() {
        let outer = tempfile::tempdir().expect("a folder");
        let root = outer.path().join("program");
        fs::create_dir(&root).expect("a folder");
        for path in
            [outer.path().join("secret.worker"), root.join("read-only.worker"), root.join("linked-to.worker")]
        {
            fs::write(path, "one two").expect("a file");
        }
        fs::write(root.join("changed.worker"), "one two three").expect("a file");
        fs::set_permissions(root.join("read-only.worker"), fs::Permissions::from_mode(0o444))
            .expect("permissions");
        symlink("../secret.worker", root.join("out.worker")).expect("a link");
        symlink("linked-to.worker", root.join("in.worker")).expect("a link");
        symlink("..", root.join("up")).expect("a link");
        let whole = outer.path().join("secret.worker");
        for path in [
            "changed.worker",
            "read-only.worker",
            "out.worker",
            "in.worker",
            "up/secret.worker",
            "../secret.worker",
            "gone.worker",
            whole.to_str().expect("UTF-8"),
        ] {
            let round = apply(&root, &[finding(path, "one two", 0..3)]);
            assert_eq!((round.made.len(), round.left.len()), (0, 1), "{path}");
        }
        assert_eq!(fs::read_to_string(whole).expect("text"), "one two");
        assert_eq!(fs::read_to_string(root.join("linked-to.worker")).expect("text"), "one two");
        assert_eq!(fs::read_dir(&root).expect("a folder").count(), 6, "nothing is left behind");
    }
}
