//! Names of templates and files, checked before any file is opened.

/// A name that stays inside any root in which it is looked up: relative, without `..`, in `/` notation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TemplateName {
    library: Option<String>,
    path: String,
}

impl TemplateName {
    /// The library named before the colon (`lib:x.jinja`), else the name is looked up in the caller's own roots.
    pub fn library(&self) -> Option<&str> {
        self.library.as_deref()
    }

    /// The path inside a root: one or more components, none of them empty, `.` or `..`, joined by `/`.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl std::fmt::Display for TemplateName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.library {
            Some(library) => write!(f, "{library}:{}", self.path),
            None => f.write_str(&self.path),
        }
    }
}

/// A refused template or file, with the reason for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is refused: {reason}", name.escape_debug())]
pub struct TemplateRefusal {
    /// The name as the template wrote it.
    pub name: String,
    /// The reason, as the end of a sentence.
    pub reason: String,
}

/// The longest name.
const LONGEST: usize = 1024;

/// Checks a name by its characters alone (`docs/reference/templates.md`). Empty and `.` components are dropped, as
/// the Python library does; names that could leave a root on any system are refused.
///
/// # Errors
/// An empty or overlong name, an absolute path, `..`, a backslash, NUL or another control character, a drive or a
/// second colon.
pub fn confine(name: &str) -> Result<TemplateName, TemplateRefusal> {
    let refuse = |reason: &str| {
        Err(TemplateRefusal { name: name.chars().take(100).collect(), reason: reason.to_owned() })
    };
    if name.len() > LONGEST {
        return refuse("the name is too long");
    }
    if name.chars().any(char::is_control) {
        return refuse("a name has no control characters");
    }
    if name.contains('\\') {
        return refuse("a name is written with `/`, not with a backslash");
    }
    let (library, path) = match name.split_once(':') {
        Some((library, path)) => (Some(library), path),
        None => (None, name),
    };
    if path.contains(':') || library.is_some_and(|library| !is_library_name(library)) {
        return refuse("a colon is allowed only after the name of a library");
    }
    if path.starts_with('/') {
        return refuse("the path is absolute; names are relative to the template roots");
    }
    let components: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if components.contains(&"..") {
        return refuse("`..` would leave the template roots");
    }
    if components.is_empty() {
        return refuse("the name is empty");
    }
    Ok(TemplateName { library: library.map(str::to_owned), path: components.join("/") })
}

fn is_library_name(name: &str) -> bool {
    let known = |character: char| character.is_alphanumeric() || matches!(character, '-' | '_' | '.');
    name.starts_with(|first: char| first.is_alphanumeric() || first == '_') && name.chars().all(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_inside_a_root_are_kept() {
        for (name, kept) in [
            ("x.jinja", "x.jinja"),
            ("partials/x.jinja", "partials/x.jinja"),
            ("./a//b/./c", "a/b/c"),
            ("lib:x.jinja", "lib:x.jinja"),
            ("my-lib:a/./b", "my-lib:a/b"),
            ("...", "..."),
            ("a b/ü.txt", "a b/ü.txt"),
        ] {
            assert_eq!(confine(name).unwrap().to_string(), kept);
        }
    }

    #[test]
    fn names_that_could_leave_a_root_are_refused() {
        for name in [
            "",
            ".",
            "/",
            "./",
            "../x",
            "..",
            "/etc/passwd",
            "//x",
            "a/../../b",
            "a/..",
            "..\\x",
            "a\\b",
            "C:\\x",
            "C:/x",
            "lib:../x",
            "lib:/x",
            "lib:",
            ":x",
            "lib:a:b",
            "x\0",
            "a\nb",
            "a\u{7f}",
            "..:x",
            "./lib:x",
            "http://host/x",
        ] {
            assert!(confine(name).is_err(), "{name:?}");
        }
        assert!(confine(&"x".repeat(2000)).is_err());
    }

    #[test]
    fn a_refusal_shows_no_control_characters() {
        assert_eq!(
            confine("a\0b").unwrap_err().to_string(),
            "`a\\0b` is refused: a name has no control characters"
        );
    }
}
