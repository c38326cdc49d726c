//! Types of a program's workers in other languages, with the hash of the signatures (`docs/reference/stdio.md#stubs`).
//!
//! A stub has types and no behaviour. Its header has the hash of the signatures from which it was generated, so that
//! `check` and the clients detect an outdated stub.

mod model;
mod names;
mod python;
mod rust;
mod typescript;

use crate::{
    signatures::Signatures,
    source::{Kind, LARGEST_DEFINITION, SourceTree, join},
    span::{SourceFile, Span},
};

/// The largest number of files of a folder that are checked. Stubs are looked for in the root and in the folders
/// directly in it.
const MOST_FILES: usize = 200;

/// A language that stubs are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// A Python module.
    Python,
    /// A TypeScript declaration file.
    TypeScript,
    /// A Rust module with types of serde.
    Rust,
}

impl Language {
    /// Returns the name of the language in headers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::TypeScript => "typescript",
            Self::Rust => "rust",
        }
    }

    fn comment(self) -> &'static str {
        match self {
            Self::Python => "#",
            Self::TypeScript | Self::Rust => "//",
        }
    }
}

/// Generates the stub of a program. `name` is the program's name.
pub fn write(language: Language, name: &str, signatures: &Signatures) -> String {
    let header = format!(
        "{comment} llm-do-stubs: {language} {hash}\n{comment} `llm-do stubs --{language}` has written this file. Do not edit it.\n",
        comment = language.comment(),
        language = language.name(),
        hash = signatures.hash(),
    );
    let types = match language {
        Language::Python => python::types(name, signatures),
        Language::TypeScript => typescript::types(name, signatures),
        Language::Rust => rust::types(signatures),
    };
    header + &types
}

/// A stub of a program.
#[derive(Clone, Debug)]
pub struct Stub {
    /// The path of the stub.
    pub path: String,
    /// The language of the stub.
    pub language: Language,
    /// The hash in its header, of the signatures from which it was generated.
    pub hash: Span,
}

/// Finds the stubs in the program's folder, and in the folders in it.
pub fn written(tree: &dyn SourceTree) -> Vec<Stub> {
    let mut found = Vec::new();
    let top = tree.list("").unwrap_or_default();
    let folders = top.iter().filter(|(name, kind)| *kind == Kind::Folder && is_looked_into(name));
    let folders: Vec<&str> = [""].into_iter().chain(folders.map(|(name, _)| name.as_str())).collect();
    for folder in folders {
        // A folder that can't be read has no stubs that could be used.
        let files = tree.list(folder).unwrap_or_default();
        let sources = files.iter().filter(|(name, kind)| *kind == Kind::File && is_source(name));
        for (name, _) in sources.take(MOST_FILES) {
            let path = join(folder, name);
            let Ok(bytes) = tree.read(&path, LARGEST_DEFINITION) else { continue };
            let text = String::from_utf8_lossy(&bytes);
            if let Some((language, range)) = header(&text) {
                let file = SourceFile::new(tree.shown(&path), text.as_ref());
                found.push(Stub { path, language, hash: Span::new(&file, range) });
            }
        }
    }
    found
}

/// Returns the stubs that were generated from signatures with another hash. Calls `hash` only if there are stubs,
/// because it takes time for a large program.
pub fn stale(tree: &dyn SourceTree, hash: impl FnOnce() -> String) -> Vec<Stub> {
    let mut stubs = written(tree);
    if !stubs.is_empty() {
        let hash = hash();
        stubs.retain(|stub| stub.hash.text() != hash);
    }
    stubs
}

fn is_looked_into(folder: &str) -> bool {
    !folder.starts_with('.') && !["node_modules", "target", "venv", "dist"].contains(&folder)
}

fn is_source(name: &str) -> bool {
    [".py", ".pyi", ".ts", ".rs"].iter().any(|ending| name.ends_with(ending))
}

/// Returns the language and the place of the hash in the first line of a stub.
fn header(text: &str) -> Option<(Language, std::ops::Range<usize>)> {
    let line = text.lines().next()?;
    [Language::Python, Language::TypeScript, Language::Rust].into_iter().find_map(|language| {
        let start = format!("{} llm-do-stubs: {} ", language.comment(), language.name());
        let hash = line.strip_prefix(&start)?.trim_end();
        Some((language, start.len()..start.len() + hash.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_is_found_again_in_what_is_written() {
        let signatures = Signatures { workers: Vec::new(), broken: Vec::new() };
        for language in [Language::Python, Language::TypeScript, Language::Rust] {
            let text = write(language, "desk", &signatures);
            let (found, range) = header(&text).expect("a header");
            assert_eq!((found, &text[range]), (language, signatures.hash().as_str()));
        }
        assert!(header("").is_none() && header("# llm-do-stubs: cobol 1\n").is_none());
    }
}
