//! Dependencies of a program or library: `dependencies` of a manifest or `lib.yaml`. See `docs/guides/libraries.md`.

use crate::{
    diagnostics::{Diagnostic, codes},
    source::plain,
    span::Span,
};

/// An item of `dependencies`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The target of the dependency.
    pub kind: DependencyKind,
    /// The text as written.
    pub text: String,
    /// The place of the text.
    pub span: Span,
}

/// The target of a dependency. A path or a repository is installed once (`llm-do lib install`); the lock file then
/// records the library that it contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DependencyKind {
    /// `NAME` or `NAME@VERSION`: an installed library.
    Named {
        /// The name of the library.
        name: String,
        /// The requested version, if there is one.
        version: Option<String>,
    },
    /// `./PATH`: a folder with a library, relative to the root of the package, or absolute on a command line.
    Path(String),
    /// `git+URL[@REF][#SUBDIR]`.
    Git {
        /// The URL for `git clone`.
        url: String,
        /// Branch, tag or commit.
        reference: Option<String>,
        /// The library's folder in the repository.
        subdir: Option<String>,
    },
}

impl Dependency {
    /// Reads a dependency of a manifest or `lib.yaml`: a name, a path inside the root, or a repository.
    pub(crate) fn read(text: &str, span: &Span, found: &mut Vec<Diagnostic>) -> Option<Self> {
        let wrong = |reason: String| {
            Diagnostic::error(
                codes::BAD_DEPENDENCY,
                format!("`{}` is not a dependency: {reason}", shown(text)),
            )
            .at(span)
            .help("write `NAME`, `NAME@VERSION`, `./PATH` or `git+URL[@REF][#SUBDIR]`")
        };
        match DependencyKind::parse(text) {
            Ok(DependencyKind::Path(path)) if plain(&path).is_err() => {
                found.push(
                    Diagnostic::error(
                        codes::ESCAPES_ROOT,
                        format!("the dependency `{}` is outside the root", shown(text)),
                    )
                    .at(span)
                    .help("move the library below the root, or install it with `llm-do lib install PATH` and use its name"),
                );
                None
            }
            Ok(kind) => Some(Self { kind, text: text.to_owned(), span: span.clone() }),
            Err(reason) => {
                found.push(wrong(reason));
                None
            }
        }
    }
}

impl DependencyKind {
    /// Parses a dependency as written in a manifest or after `llm-do lib install`.
    ///
    /// # Errors
    /// The reason why the text is not a dependency.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.trim() != text || text.is_empty() {
            return Err("it is empty, or has spaces around it".into());
        }
        if text.chars().any(char::is_control) {
            return Err("it has control characters".into());
        }
        if let Some(rest) = text.strip_prefix("git+") {
            return git(rest);
        }
        if text.contains("://") {
            return Err(format!("a repository is written `git+{text}`"));
        }
        if text.contains('/') || text == "." || text == ".." {
            return Ok(Self::Path(text.to_owned()));
        }
        let (name, version) = match text.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (text, None),
        };
        check_name(name)?;
        if let Some(version) = version {
            check_version(version)?;
        }
        Ok(Self::Named { name: name.to_owned(), version: version.map(str::to_owned) })
    }
}

fn git(rest: &str) -> Result<DependencyKind, String> {
    let (rest, subdir) = match rest.split_once('#') {
        Some((rest, subdir)) => {
            (rest, Some(plain(subdir).map_err(|_| "its subfolder is outside the repository".to_owned())?))
        }
        None => (rest, None),
    };
    // The `@` behind `.git`, else the first one of the path that begins no folder's name. One before the path belongs to the
    // address (`git@host:team/repository`). A branch may have slashes, and a tag an `@` (`kit@1.2.0`).
    let path = path_of(rest);
    let begins_reference = |at: &usize| *at > 0 && !rest[..*at].ends_with('/');
    let cut = rest[path..].find(".git@").map(|at| path + at + ".git".len());
    let cut = cut.or_else(|| rest[path..].match_indices('@').map(|(at, _)| path + at).find(begins_reference));
    let (url, reference) = match cut {
        Some(at) => (&rest[..at], Some(&rest[at + 1..])),
        None => (rest, None),
    };
    if url.is_empty() || url.starts_with('-') {
        return Err("it has no address".into());
    }
    if reference.is_some_and(|reference| reference.is_empty() || reference.starts_with('-')) {
        return Err("its reference is not a branch, tag or commit".into());
    }
    Ok(DependencyKind::Git {
        url: url.to_owned(),
        reference: reference.map(str::to_owned),
        subdir: subdir.filter(|subdir| !subdir.is_empty()),
    })
}

/// Returns the position at which the path of an address begins.
fn path_of(address: &str) -> usize {
    if let Some((scheme, rest)) = address.split_once("://") {
        return scheme.len() + 3 + rest.find('/').unwrap_or(rest.len());
    }
    // `user@host:path`, as ssh has it.
    match (address.find(':'), address.find('/')) {
        (Some(colon), slash) if slash.is_none_or(|slash| colon < slash) => colon + 1,
        _ => 0,
    }
}

/// The longest name or version, because each is part of a folder's name.
const LONGEST: usize = 64;

/// Checks that a text is a valid library name. It is used as a folder name and before the colon of `library:worker`.
///
/// # Errors
/// The reason why it is not.
pub fn check_name(name: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let first = name.chars().next().ok_or("its name is empty")?;
    if !first.is_ascii_alphanumeric() || !name.chars().all(fits) || name.ends_with('.') {
        return Err(format!(
            "`{}` is not a library name: use letters, digits, `-`, `_` and `.`, and start with a letter or digit",
            shown(name)
        ));
    }
    if name.len() > LONGEST {
        return Err(format!("its name is longer than {LONGEST} characters"));
    }
    Ok(())
}

/// Checks that a text can be a library's version.
///
/// # Errors
/// The reason why it is not.
pub fn check_version(version: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+');
    let starts = version.starts_with(|c: char| c.is_ascii_alphanumeric());
    if !starts || !version.chars().all(fits) || version.ends_with('.') || version.len() > LONGEST {
        return Err(format!("`{}` is not a version: write it like `1.2.0`", shown(version)));
    }
    Ok(())
}

/// Compares versions with numbers as numbers: `1.10` is after `1.9`. A version with a suffix (`1.0-rc1`) is before
/// its release.
pub fn compare_versions(a: &str, b: &str) -> std::cmp::Ordering {
    let release = |version: &'_ str| version.split('+').next().unwrap_or(version).to_owned();
    let (a, b) = (release(a), release(b));
    let split = |version: &str| match version.split_once('-') {
        Some((numbers, suffix)) => (numbers.to_owned(), Some(suffix.to_owned())),
        None => (version.to_owned(), None),
    };
    let ((numbers_a, suffix_a), (numbers_b, suffix_b)) = (split(&a), split(&b));
    let suffixes = match (suffix_a, suffix_b) {
        (None, None) => std::cmp::Ordering::Equal,
        (None, Some(_)) => std::cmp::Ordering::Greater,
        (Some(_), None) => std::cmp::Ordering::Less,
        (Some(a), Some(b)) => compare_parts(&a, &b),
    };
    compare_parts(&numbers_a, &numbers_b).then(suffixes)
}

fn compare_parts(a: &str, b: &str) -> std::cmp::Ordering {
    use std::cmp::Ordering;
    let (mut a, mut b) = (a.split('.'), b.split('.'));
    loop {
        let order = match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            // `1.0` and `1.0.0` are equal.
            (Some(zero), None) | (None, Some(zero)) if zero.parse() == Ok(0_u64) => Ordering::Equal,
            (Some(_), None) => Ordering::Greater,
            (None, Some(_)) => Ordering::Less,
            (Some(a), Some(b)) => match (a.parse::<u64>(), b.parse::<u64>()) {
                (Ok(a), Ok(b)) => a.cmp(&b),
                (Ok(_), Err(_)) => Ordering::Less,
                (Err(_), Ok(_)) => Ordering::Greater,
                (Err(_), Err(_)) => a.cmp(b),
            },
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

fn shown(text: &str) -> String {
    text.chars().take(100).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Ordering;

    #[test]
    fn all_forms_are_read() {
        let named = |name: &str, version: Option<&str>| DependencyKind::Named {
            name: name.into(),
            version: version.map(str::to_owned),
        };
        let git = |url: &str, reference: Option<&str>, subdir: Option<&str>| DependencyKind::Git {
            url: url.into(),
            reference: reference.map(str::to_owned),
            subdir: subdir.map(str::to_owned),
        };
        for (text, kind) in [
            ("utils", named("utils", None)),
            ("legal@2.0", named("legal", Some("2.0"))),
            ("./libs/utils", DependencyKind::Path("./libs/utils".into())),
            ("git+https://host/team/lib.git", git("https://host/team/lib.git", None, None)),
            ("git+https://host/lib@v1.2#sub/dir", git("https://host/lib", Some("v1.2"), Some("sub/dir"))),
            ("git+ssh://git@host/lib", git("ssh://git@host/lib", None, None)),
            ("git+git@host:team/lib@main", git("git@host:team/lib", Some("main"), None)),
            ("git+https://host/lib@feature/x#a", git("https://host/lib", Some("feature/x"), Some("a"))),
            ("git+git@host:team/lib@a/b/c", git("git@host:team/lib", Some("a/b/c"), None)),
            ("git+ssh://git@host:22/lib@a/b", git("ssh://git@host:22/lib", Some("a/b"), None)),
            ("git+file:///r@release/1.0", git("file:///r", Some("release/1.0"), None)),
            ("git+./r@feature/x", git("./r", Some("feature/x"), None)),
            ("git+https://host/@team/lib", git("https://host/@team/lib", None, None)),
            ("git+https://host/lib@kit@1.2.0", git("https://host/lib", Some("kit@1.2.0"), None)),
            (
                "git+https://host/lib.git@@team/kit@1.2",
                git("https://host/lib.git", Some("@team/kit@1.2"), None),
            ),
            ("git+https://host/a@b/lib.git@v1@x", git("https://host/a@b/lib.git", Some("v1@x"), None)),
            ("git+git@host:team/lib@kit@1", git("git@host:team/lib", Some("kit@1"), None)),
        ] {
            assert_eq!(DependencyKind::parse(text), Ok(kind), "{text}");
        }
        for text in
            ["", " x", "a b", "x@", "@1", "git+--upload-pack=x", "git+", "https://h/x", "x\n", "git+u#../x"]
        {
            assert!(DependencyKind::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn versions_are_ordered_as_people_count() {
        for pair in ["0.9", "1.0-rc1", "1.0-rc2", "1.0.0", "1.0.1", "1.9", "1.10", "2.0"].windows(2) {
            assert_eq!(compare_versions(pair[0], pair[1]), Ordering::Less, "{pair:?}");
            assert_eq!(compare_versions(pair[1], pair[0]), Ordering::Greater, "{pair:?}");
        }
        assert_eq!(compare_versions("1.0", "1.0.0+build"), Ordering::Equal);
        assert_eq!(compare_versions("1", "1.00"), Ordering::Equal);
    }
}
