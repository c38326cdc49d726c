//! The lock file, `llm-do.lock`. It records the version and the file hashes of each dependency. See
//! `docs/guides/libraries.md`.
//!
//! `llm-do lib install` writes it. The loader checks each file of a library against it when it reads the file,
//! through a [`LockedTree`](crate::locked_tree::LockedTree). [`Pinned::compare`] checks a whole library.

use crate::{
    contents::{Contents, ContentsError, Difference, check_path},
    dependency::{check_name, check_version},
    diagnostics::{Diagnostic, codes},
    shape::{self, Key, Shape},
    source::{SourceError, SourceTree},
    span::{SourceFile, Span},
    yaml::{self, Data, Node},
};
use llm_do_core::worker::ToolPins;
use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

/// The name of the lock file in the project's root.
pub const LOCK_FILE: &str = "llm-do.lock";
/// The largest lock file that is read or written, in bytes.
pub const LARGEST_LOCK: u64 = 4 << 20;
/// The version of the format that is read and written.
const FORMAT: u64 = 1;
/// The largest number of errors that are reported: a hostile file must not flood the terminal.
const MOST_ERRORS: usize = 20;
const FIRST_LINE: &str = "# Written by `llm-do lib install`: what the libraries of this project resolved to. Keep it under version control.\n";
const WAY_OUT: &str = "run `llm-do lib install` to write it again";

const KEYS: &[Key] = &[
    Key::new("version", Shape::Count(1), "format of the file").required(),
    Key::new("libraries", Shape::Any, "the libraries, sorted by name").required(),
];

const LIBRARY: &[Key] = &[
    Key::new("name", Shape::Text, "its name").required(),
    Key::new("version", Shape::Text, "its version").required(),
    Key::new("source", Shape::Texts, "the dependencies that mean it, if they are paths or git repositories"),
    Key::new("commit", Shape::Text, "the commit it was taken from"),
    Key::new("hash", Shape::Text, "of paths and hashes of all files").required(),
    Key::new("files", Shape::Map(&Shape::Text), "SHA-256 of each file").required(),
    Key::new("tools", Shape::Map(&Shape::Map(&Shape::Text)), "SHA-256 of each tool, by MCP server"),
];

/// A library in the state in which it was pinned.
#[derive(Clone, Debug, Default)]
pub struct Pinned {
    /// The name of the library.
    pub name: String,
    /// The version of the library.
    pub version: String,
    /// The texts of the dependencies that refer to it, if they are paths or git repositories; sorted.
    pub sources: Vec<String>,
    /// The commit from which it was installed, in hexadecimal.
    pub commit: Option<String>,
    /// The files of the library.
    pub contents: Contents,
    /// The tools of its MCP servers that the operator has agreed to.
    pub tools: Arc<ToolPins>,
    /// The place of the entry in the lock file.
    pub span: Option<Span>,
}

impl Pinned {
    /// Creates a library with these contents.
    pub fn new(name: impl Into<String>, version: impl Into<String>, contents: Contents) -> Self {
        Self { name: name.into(), version: version.into(), contents, ..Self::default() }
    }

    /// Returns `NAME@VERSION`, which is for people, and the name of its folder.
    pub fn label(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }

    /// Returns the differences of a tree from the pinned library; empty if there are none. Reads the whole tree.
    ///
    /// # Errors
    /// The tree is not a valid library.
    pub fn compare(&self, tree: &dyn SourceTree) -> Result<Vec<Difference>, ContentsError> {
        Ok(self.contents.compare(&Contents::of(tree)?))
    }
}

/// The lock file.
#[derive(Clone, Debug, Default)]
pub struct Lock {
    libraries: BTreeMap<String, Arc<Pinned>>,
}

impl Lock {
    /// Reads the lock file of a project. Returns `None` if there is none, or with an error in `found` if it is damaged.
    pub fn load(tree: &dyn SourceTree, found: &mut Vec<Diagnostic>) -> Option<Self> {
        let unread = || SourceFile::new(LOCK_FILE, "");
        let bytes = match tree.read(LOCK_FILE, LARGEST_LOCK) {
            Ok(bytes) => bytes,
            Err(SourceError::NotFound) => return None,
            Err(error) => {
                found.push(bad(&Span::whole(&unread()), format!("`{LOCK_FILE}` cannot be read: {error}")));
                return None;
            }
        };
        let Ok(text) = String::from_utf8(bytes) else {
            found.push(bad(&Span::whole(&unread()), format!("`{LOCK_FILE}` is not UTF-8 text")));
            return None;
        };
        match Self::parse(&SourceFile::new(LOCK_FILE, text)) {
            Ok(lock) => Some(lock),
            Err(errors) => {
                found.extend(errors);
                None
            }
        }
    }

    /// Parses the text of a lock file.
    ///
    /// # Errors
    /// All problems of the file, each with [`codes::BAD_LOCK`] and its place.
    pub fn parse(file: &Arc<SourceFile>) -> Result<Self, Vec<Diagnostic>> {
        let mut found = Vec::new();
        let lock = Self::read(file, &mut found);
        if found.is_empty() {
            return Ok(lock);
        }
        found.truncate(MOST_ERRORS);
        for one in &mut found {
            one.code = codes::BAD_LOCK;
            if !one.help.iter().any(|help| help == WAY_OUT) {
                one.help.push(WAY_OUT.into());
            }
        }
        Err(found)
    }

    fn read(file: &Arc<SourceFile>, found: &mut Vec<Diagnostic>) -> Self {
        let mut lock = Self::default();
        let whole = match yaml::parse(file, file.text().len()) {
            Ok(whole) => whole,
            Err(error) => {
                found.push(*error);
                return lock;
            }
        };
        if !matches!(whole.data, Data::Map(_)) {
            found.push(bad(&Span::whole(file), "the lock file must be a map of keys"));
            return lock;
        }
        // Another format may have other keys.
        if let Some(node) = whole.get("version")
            && let Some(other) = node.as_count().filter(|format| *format != FORMAT)
        {
            found.push(
                bad(
                    &node.span,
                    format!("the lock file has format {other}, but this llm-do reads only format {FORMAT}"),
                )
                .help("use a newer llm-do"),
            );
            return lock;
        }
        let keys = shape::check(&whole, KEYS, "", found);
        let Some(libraries) = keys.get("libraries") else { return lock };
        if !matches!(libraries.data, Data::List(_)) {
            found.push(bad(&libraries.span, "`libraries` must be a list"));
        }
        for item in libraries.items() {
            if found.len() >= MOST_ERRORS {
                break;
            }
            let Some(pinned) = library(item, found) else { continue };
            let place = &item.span;
            // A program uses only one version of a library (`docs/guides/libraries.md`).
            match lock.libraries.get(&pinned.name).and_then(|other| other.span.clone()) {
                Some(other) => found.push(
                    bad(place, format!("`{}` is pinned twice", pinned.name))
                        .related("it is pinned here too", &other),
                ),
                None => {
                    for source in &pinned.sources {
                        if let Some(other) = lock.by_source(source) {
                            let message =
                                format!("`{source}` is pinned as `{}` and as `{}`", other.name, pinned.name);
                            found.push(bad(place, message));
                        }
                    }
                    lock.insert(pinned);
                }
            }
        }
        lock
    }

    /// Returns the library of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<Pinned>> {
        self.libraries.get(name)
    }

    /// Returns the library to which a dependency with this text refers, if it is a path or a git repository.
    pub fn by_source(&self, text: &str) -> Option<&Arc<Pinned>> {
        self.libraries.values().find(|pinned| pinned.sources.iter().any(|source| source == text))
    }

    /// Returns all libraries, sorted by name.
    pub fn libraries(&self) -> impl Iterator<Item = &Arc<Pinned>> {
        self.libraries.values()
    }

    /// Pins the tools of a library's server: the SHA-256 of each by its name. Returns true if the library is pinned
    /// itself.
    pub fn pin_tools(&mut self, library: &str, server: &str, tools: BTreeMap<String, String>) -> bool {
        let Some(pinned) = self.libraries.get_mut(library) else { return false };
        let mut all = (*pinned.tools).clone();
        all.insert(server.to_owned(), tools);
        *pinned = Arc::new(Pinned { tools: Arc::new(all), ..(**pinned).clone() });
        true
    }

    /// Keeps the pinned tools of `before` for the libraries that still exist: another version of a library may have the
    /// same servers, and tools that differ are withheld.
    pub fn keep_tools(&mut self, before: &Self) {
        for (name, pinned) in &mut self.libraries {
            if let Some(old) = before.get(name) {
                *pinned = Arc::new(Pinned { tools: Arc::clone(&old.tools), ..(**pinned).clone() });
            }
        }
    }

    /// Pins a library, and replaces another one of that name.
    pub fn insert(&mut self, pinned: Pinned) {
        self.libraries.insert(pinned.name.clone(), Arc::new(pinned));
    }

    /// Returns the text of the file. It is the same for the same libraries.
    pub fn to_text(&self) -> String {
        let mut out = format!("{FIRST_LINE}version: {FORMAT}\n");
        if self.libraries.is_empty() {
            out.push_str("libraries: []\n");
            return out;
        }
        out.push_str("libraries:\n");
        for pinned in self.libraries.values() {
            // Writing to a `String` does not fail.
            let _ =
                writeln!(out, "  - name: {}\n    version: {}", quoted(&pinned.name), quoted(&pinned.version));
            let mut sources: Vec<String> = pinned.sources.iter().map(|source| quoted(source)).collect();
            sources.sort();
            sources.dedup();
            match sources.as_slice() {
                [] => {}
                [one] => _ = writeln!(out, "    source: {one}"),
                many => _ = writeln!(out, "    source: [{}]", many.join(", ")),
            }
            if let Some(commit) = &pinned.commit {
                let _ = writeln!(out, "    commit: {}", quoted(commit));
            }
            let files = if pinned.contents.is_empty() { " {}" } else { "" };
            let _ = writeln!(out, "    hash: {}\n    files:{files}", quoted(&pinned.contents.hash()));
            for (path, hash) in pinned.contents.files() {
                let _ = writeln!(out, "      {}: {}", quoted(path), quoted(hash));
            }
            if !pinned.tools.is_empty() {
                out.push_str("    tools:\n");
            }
            for (server, tools) in &*pinned.tools {
                let none = if tools.is_empty() { " {}" } else { "" };
                let _ = writeln!(out, "      {}:{none}", quoted(server));
                for (tool, hash) in tools {
                    let _ = writeln!(out, "        {}: {}", quoted(tool), quoted(hash));
                }
            }
        }
        out
    }
}

fn library(item: &Node, found: &mut Vec<Diagnostic>) -> Option<Pinned> {
    let before = found.len();
    if !matches!(item.data, Data::Map(_)) {
        found.push(bad(&item.span, "a pinned library must be a map of keys"));
        return None;
    }
    let keys = shape::check(item, LIBRARY, "libraries", found);
    let text =
        |key: &str| keys.get(key).and_then(|node| Some((node.as_text()?.to_owned(), node.span.clone())));
    let (name, name_span) = text("name")?;
    let (version, version_span) = text("version")?;
    let (hash, hash_span) = text("hash")?;
    for (checked, span) in [(check_name(&name), name_span), (check_version(&version), version_span)] {
        if let Err(reason) = checked {
            found.push(bad(&span, reason));
        }
    }
    let commit = text("commit");
    if let Some((commit, span)) = &commit
        && !(is_hex(commit, 40) || is_hex(commit, 64))
    {
        found.push(bad(span, "this is not a commit"));
    }
    let mut contents = Contents::default();
    for entry in keys.get("files").map(Node::entries).unwrap_or_default() {
        let hash = entry.value.as_text().unwrap_or_default();
        if let Err(reason) = check_path(&entry.key) {
            found.push(bad(&entry.key_span, reason.to_string()));
        } else if !is_hex(hash, 64) {
            found.push(bad(&entry.value.span, "this is not a SHA-256 in lower-case hexadecimal"));
        } else {
            contents.insert_hash(entry.key.clone(), hash.to_owned());
        }
    }
    if found.len() == before && contents.hash() != hash {
        found.push(
            bad(&hash_span, format!("the hash of `{name}` does not match its files"))
                .note("the file was edited by hand, or merged"),
        );
    }
    let mut tools = ToolPins::new();
    for server in keys.get("tools").map(Node::entries).unwrap_or_default() {
        let of_server = tools.entry(server.key.clone()).or_default();
        for tool in server.value.entries() {
            let hash = tool.value.as_text().unwrap_or_default();
            if is_hex(hash, 64) {
                of_server.insert(tool.key.clone(), hash.to_owned());
            } else {
                found.push(bad(&tool.value.span, "this is not a SHA-256 in lower-case hexadecimal"));
            }
        }
    }
    let mut sources: Vec<String> =
        keys.get("source").into_iter().flat_map(Node::texts).map(|(text, _)| text.to_owned()).collect();
    sources.sort();
    sources.dedup();
    let span = keys.entry("name").map(|entry| entry.value.span.clone());
    (found.len() == before).then(|| Pinned {
        name,
        version,
        sources,
        commit: commit.map(|(commit, _)| commit),
        contents,
        tools: Arc::new(tools),
        span,
    })
}

fn bad(span: &Span, message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(codes::BAD_LOCK, message).at(span)
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Formats a text in double quotes as YAML. Every character that is not a letter, a digit or printable ASCII is
/// escaped, so that a lock file can't hide text.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            c if c.is_alphanumeric() => out.push(c),
            // Writing to a `String` does not fail.
            c if u32::from(c) < 0x1_0000 => _ = write!(out, "\\u{:04X}", u32::from(c)),
            c => _ = write!(out, "\\U{:08X}", u32::from(c)),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::MemoryTree;
    use llm_do_core::{authority::Place, schema::sha256};
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Lock, Vec<Diagnostic>> {
        Lock::parse(&SourceFile::new(LOCK_FILE, text))
    }

    fn sample() -> Lock {
        let mut contents = Contents::default();
        contents.insert("lib.yaml".into(), b"name: utils");
        contents.insert("workers/a.worker".into(), b"a");
        let mut lock = Lock::default();
        let of_server = BTreeMap::from([("read".to_owned(), sha256(b"read"))]);
        lock.insert(Pinned {
            tools: Arc::new(ToolPins::from([("fs".to_owned(), of_server)])),
            sources: vec!["git+https://example.org/x.git@v1#lib".into(), "./libs/utils".into()],
            commit: Some("a1".repeat(20)),
            ..Pinned::new("utils", "1.2.0", contents)
        });
        lock.insert(Pinned::new("base", "2", Contents::default()));
        lock
    }

    #[test]
    fn what_is_written_is_read_and_found_again() {
        let text = sample().to_text();
        let lock = parse(&text).unwrap();
        assert_eq!(lock.to_text(), text);
        assert_eq!(lock.get("utils").unwrap().label(), "utils@1.2.0");
        assert_eq!(lock.by_source("./libs/utils").unwrap().name, "utils");
        assert!(lock.by_source("utils").is_none());
        assert_eq!(
            lock.libraries().map(|pinned| pinned.name.as_str()).collect::<Vec<_>>(),
            ["base", "utils"]
        );
        assert_eq!(parse(&Lock::default().to_text()).unwrap().to_text(), Lock::default().to_text());
        assert_eq!(&*lock.get("utils").unwrap().span.as_ref().unwrap().origin(), "llm-do.lock:8");
    }

    #[test]
    fn a_lock_that_lies_is_damaged_at_a_place() {
        let text = sample().to_text();
        let hash = sha256(b"a");
        let other = sha256(b"b");
        let line = |text: &str| {
            let errors = parse(text).err()?;
            assert!(errors.iter().all(|error| error.code == codes::BAD_LOCK), "{errors:?}");
            assert!(errors[0].help.iter().any(|help| help.contains("lib install")));
            errors[0].span.as_ref()?.line_column().map(|(line, _)| line)
        };
        assert_eq!(line(&text.replace(&hash, &other)), Some(12), "the hash of all is told");
        assert_eq!(line(&text.replace(&hash, "ABC")), Some(15));
        assert_eq!(line(&text.replace("workers/a.worker", "../a.worker")), Some(15));
        assert_eq!(line(&text.replace("\"utils\"", "\"base\"")), Some(8));
        assert_eq!(line(&text.replace("\"utils\"", "\"../utils\"")), Some(8));
        assert_eq!(line(&text.replace("\"1.2.0\"", "\"../..\"")), Some(9));
        assert_eq!(line(&text.replace("version: 1\n", "version: 2\n")), Some(2));
        assert_eq!(line(&text.replace("commit: \"a1", "commit: \"--")), Some(11));
        assert_eq!(line(&text.replace("    hash", "    hsah")), Some(6));
        assert_eq!(line(&text.replace("libraries:", "<<<<<<< ours\nlibraries:")), Some(3));
        assert_eq!(line("version: 1\nlibraries: {a: 1}\n"), Some(2));
        assert_eq!(line("version: 1\nlibraries: [1]\n"), Some(2));
        for text in ["", "- a\n", "version: 1\n", "libraries: []\n", "version: one\nlibraries: []\n"] {
            assert!(parse(text).is_err(), "{text}");
        }
        let mut twice = sample();
        twice.insert(Pinned {
            sources: vec!["./libs/utils".into()],
            ..Pinned::new("b", "1", Contents::default())
        });
        assert!(parse(&twice.to_text()).is_err());
    }

    #[test]
    fn a_file_that_would_fill_the_memory_is_refused() {
        let mut bomb = String::from("version: 1\nlibraries:\n  - &a0 {name: [x, x, x, x, x, x, x, x]}\n");
        for i in 1..12 {
            let aliases = vec![format!("*a{}", i - 1); 10].join(", ");
            bomb.push_str(&format!("  - &a{i} {{name: [{aliases}]}}\n"));
        }
        assert_eq!(parse(&bomb).unwrap_err()[0].code, codes::BAD_LOCK);
        let wide = format!("version: 1\nlibraries: [{}]\n", "1, ".repeat(20_000));
        assert!(parse(&wide).unwrap_err().len() <= MOST_ERRORS);
        let load = |bytes: Vec<u8>| {
            let mut found = Vec::new();
            let lock = Lock::load(&MemoryTree::new(Place::new("/p"), [(LOCK_FILE, bytes)]), &mut found);
            (lock.is_some(), found.len())
        };
        assert_eq!(load(vec![b'#'; 10 << 20]), (false, 1));
        assert_eq!(load(vec![0xff]), (false, 1));
        assert_eq!(load(sample().to_text().into()), (true, 0));
        let mut found = Vec::new();
        let none = MemoryTree::new(Place::new("/p"), [("x", "")]);
        assert!(Lock::load(&none, &mut found).is_none() && found.is_empty());
    }

    proptest! {
        #[test]
        fn any_library_survives_the_file(
            paths in proptest::collection::vec("[^\\p{Cc}/\\\\]{1,20}", 0..5),
            sources in proptest::collection::vec(".{1,30}", 0..3),
        ) {
            let mut contents = Contents::default();
            for path in paths.iter().filter(|path| check_path(path).is_ok()) {
                contents.insert(path.clone(), path.as_bytes());
            }
            let mut lock = Lock::default();
            let mut pinned = Pinned { sources, ..Pinned::new("x", "1", contents) };
            pinned.sources.sort();
            pinned.sources.dedup();
            lock.insert(pinned.clone());
            let again = parse(&lock.to_text()).unwrap();
            let again = again.get("x").unwrap();
            prop_assert_eq!(&again.contents, &pinned.contents);
            prop_assert_eq!(&again.sources, &pinned.sources);
        }

        #[test]
        fn no_changed_byte_goes_unseen(at in any::<prop::sample::Index>(), byte in b' '..=b'~') {
            let text = sample().to_text();
            let body = text.find("libraries:").unwrap();
            let mut bytes = text.clone().into_bytes();
            let at = body + at.index(bytes.len() - body);
            bytes[at] = byte;
            // A file that still parses pins the same files. It may differ only in a name, a version or a source.
            if let Ok(lock) = parse(std::str::from_utf8(&bytes).unwrap()) {
                let hashes = |lock: &Lock| lock.libraries().map(|p| p.contents.hash()).collect::<Vec<_>>();
                let mut found = hashes(&lock);
                found.sort();
                let mut expected = hashes(&sample());
                expected.sort();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
