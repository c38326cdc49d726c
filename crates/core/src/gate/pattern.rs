//! Patterns of rules: `write_file`, `fs__*`, `write_file(output/**)`, `shell(git diff*)`, `worker_call(reports/*)`.

use globset::{GlobBuilder, GlobMatcher};
use std::fmt;

/// A subject in a call's arguments, in the form that rules match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A project-relative real path (`docs/reference/approvals.md`); `*` doesn't cross `/`.
    Path(String),
    /// Any other text: a command line, a worker's ID; `*` matches all characters.
    Text(String),
}

impl Subject {
    /// The text of the subject.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Path(text) | Self::Text(text) => text,
        }
    }
}

impl Subject {
    /// The prefix that patterns are compared with.
    pub(super) fn head(&self) -> Head {
        Head::of(match self {
            Self::Path(path) => path.strip_prefix('/').unwrap_or(path),
            Self::Text(text) => text,
        })
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A pattern that doesn't parse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` is not a rule pattern: {reason}. Write `tool`, `tool_*` or `tool(argument pattern)`")]
pub struct BadPattern {
    /// The pattern as written.
    pub pattern: String,
    /// The error in the pattern.
    pub reason: String,
}

/// The calls that a rule applies to.
///
/// A scan may go through a thousand rules, of which few match a call. The heads that rule out most of them are stored
/// inline and the rest behind a pointer, so that a scan reads little memory.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// Head of the tool's name.
    head: Head,
    /// Head of the arguments; empty if there are none, or if paths and other texts begin differently.
    argument_head: Head,
    rest: Box<Parsed>,
}

#[derive(Clone, Debug)]
struct Parsed {
    text: String,
    tool: Glob,
    arguments: Option<Arguments>,
}

#[derive(Clone, Debug)]
struct Arguments {
    path: Glob,
    /// True if the pattern also matches places outside the project, which are absolute: only if it is written as an
    /// absolute path or starts with a wildcard. `etc/**` is the project's `etc`.
    absolute: bool,
    text: Glob,
}

/// A glob. Its literal prefix rules out most candidates, because few of a thousand rules match a call.
#[derive(Clone, Debug)]
struct Glob {
    /// The literal prefix of every match.
    prefix: String,
    /// `None` if the glob matches the prefix exactly.
    matcher: Option<Box<GlobMatcher>>,
}

/// The first eight bytes of a text, or fewer if it is shorter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Head {
    bytes: u64,
    /// Mask of the valid bytes.
    mask: u64,
}

impl Head {
    pub(super) fn of(text: &str) -> Self {
        let (mut bytes, mut mask) = ([0; 8], [0; 8]);
        for (at, byte) in text.bytes().take(8).enumerate() {
            (bytes[at], mask[at]) = (byte, 0xff);
        }
        Self { bytes: u64::from_le_bytes(bytes), mask: u64::from_le_bytes(mask) }
    }

    /// Returns true if a text with the head `text` may begin with a text with this head.
    fn begins(self, text: Self) -> bool {
        text.bytes & self.mask == self.bytes
    }
}

impl Glob {
    fn new(prefix: &str, matcher: Option<Box<GlobMatcher>>) -> Self {
        Self { prefix: prefix.to_owned(), matcher }
    }

    fn parse(pattern: &str, paths: bool) -> Result<Self, globset::Error> {
        let matcher = GlobBuilder::new(pattern).literal_separator(paths).backslash_escape(true).build()?;
        Ok(match pattern.find(['*', '?', '[', ']', '{', '}', '\\', '!']) {
            None => Self::new(pattern, None),
            // The prefix of `a/**` ends before its slash; the matcher handles the rest.
            Some(end) => {
                let prefix = pattern[..end].trim_end_matches('/');
                Self::new(prefix, Some(Box::new(matcher.compile_matcher())))
            }
        })
    }

    fn is_match(&self, text: &str) -> bool {
        match &self.matcher {
            None => self.prefix == text,
            Some(matcher) => text.starts_with(&self.prefix) && matcher.is_match(text),
        }
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.rest.text == other.rest.text
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rest.text)
    }
}

impl Pattern {
    /// Parses `tool` or `tool(arguments)`. In both parts `*` and `?` are wildcards. In paths `**` crosses folders, and
    /// a leading `/` has no effect.
    pub fn parse(text: &str) -> Result<Self, BadPattern> {
        let text = text.trim();
        let bad = |reason: String| BadPattern { pattern: text.to_owned(), reason };
        let (tool, arguments) = match text.split_once('(') {
            None => (text, None),
            Some((tool, rest)) => {
                let inner =
                    rest.strip_suffix(')').ok_or_else(|| bad("a `)` is missing at its end".into()))?;
                (tool.trim(), Some(inner.trim()))
            }
        };
        if tool.is_empty() {
            return Err(bad("the tool's name is missing".into()));
        }
        if tool.contains(char::is_whitespace) {
            return Err(bad("a tool's name has no blanks; conditions follow `where` on the command line and `when` in files".into()));
        }
        let glob = |pattern: &str, paths: bool| {
            Glob::parse(pattern, paths).map_err(|error| bad(error.kind().to_string()))
        };
        let arguments = arguments
            .map(|inner| {
                let path = inner.strip_prefix("./").unwrap_or(inner).trim_start_matches('/');
                let absolute = inner.starts_with(['/', '*']);
                Ok(Arguments { path: glob(path, true)?, absolute, text: glob(inner, false)? })
            })
            .transpose()?;
        let tool = glob(tool, false)?;
        let head = Head::of(&tool.prefix);
        let alike = arguments.as_ref().filter(|arguments| arguments.path.prefix == arguments.text.prefix);
        let argument_head = alike.map_or_else(Head::default, |arguments| Head::of(&arguments.path.prefix));
        let rest = Box::new(Parsed { text: text.to_owned(), tool, arguments });
        Ok(Self { head, argument_head, rest })
    }

    /// Returns true if the pattern could match a function with one of these heads, and one of these arguments, if there
    /// are any. If not, no further check is needed.
    pub(super) fn could_speak_of(&self, names: &[Head], subjects: &[Head]) -> bool {
        let fits = |own: Head, heads: &[Head]| heads.iter().any(|head| own.begins(*head));
        fits(self.head, names) && (subjects.is_empty() || fits(self.argument_head, subjects))
    }

    /// Returns true if the pattern matches a function with one of these names, whatever its arguments.
    pub fn names_one_of(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.rest.tool.is_match(name))
    }

    /// Returns true if the pattern restricts arguments.
    pub fn has_arguments(&self) -> bool {
        self.rest.arguments.is_some()
    }

    /// Returns true if the pattern matches every call of a function with one of these names.
    pub fn speaks_of_all(&self, names: &[&str]) -> bool {
        self.rest.arguments.is_none() && self.names_one_of(names)
    }

    /// The tool's name as written.
    pub fn tool(&self) -> &str {
        let text = self.rest.text.as_str();
        text.split_once('(').map_or(text, |(tool, _)| tool).trim_end()
    }

    /// The part in parentheses as written, if there is one.
    pub fn argument(&self) -> Option<&str> {
        self.rest.arguments.as_ref()?;
        Some(self.rest.text.split_once('(')?.1.strip_suffix(')')?.trim())
    }

    /// Returns true if the part in parentheses matches that argument.
    pub fn fits_arguments(&self, subject: &Subject) -> bool {
        self.rest.arguments.as_ref().is_none_or(|arguments| arguments.matches(subject))
    }

    /// Returns true if the pattern matches any part of the main argument, for rules that tighten. The function's name
    /// has matched before. If the function has no main argument (`None`), this can't be decided; the rule then applies
    /// if it names the function itself.
    pub fn touches(&self, subjects: Option<&[Subject]>) -> bool {
        match (&self.rest.arguments, subjects) {
            (None, _) => true,
            (Some(_), None) => self.rest.tool.matcher.is_none(),
            (Some(arguments), Some(subjects)) => subjects.iter().any(|s| arguments.matches(s)),
        }
    }

    /// Returns true if the pattern matches the whole main argument, for rules that loosen. The function's name has
    /// matched before.
    pub fn covers(&self, subjects: Option<&[Subject]>) -> bool {
        match (&self.rest.arguments, subjects) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(arguments), Some(subjects)) => {
                !subjects.is_empty() && subjects.iter().all(|s| arguments.matches(s))
            }
        }
    }
}

impl Arguments {
    fn matches(&self, subject: &Subject) -> bool {
        match subject {
            Subject::Path(path) => match path.strip_prefix('/') {
                Some(outside) => self.absolute && self.path.is_match(outside),
                None => self.path.is_match(path),
            },
            Subject::Text(text) => self.text.is_match(text),
        }
    }
}
