//! The kinds of definition files, and their keys.

use crate::{
    fence,
    keys::{CASES, LIBRARY as LIBRARY_KEYS, MANIFEST, WORKER},
    manifest::{LIBRARY, MANIFESTS},
    resolve::is_cases,
    shape::Key,
};
use std::ops::Range;

/// The kind of a file, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A worker with front matter and instructions.
    Worker,
    /// A worker that is YAML only.
    YamlWorker,
    /// A manifest.
    Manifest,
    /// The manifest of a library.
    Library,
    /// Cases.
    Cases,
    /// A prompt or a template.
    Template,
}

impl FileKind {
    /// Returns the kind of a file, or `None` if it is no definition.
    pub fn of(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or(path);
        if MANIFESTS.contains(&name) {
            return Some(Self::Manifest);
        }
        if name == LIBRARY {
            return Some(Self::Library);
        }
        if is_cases(name) {
            return Some(Self::Cases);
        }
        match name.rsplit_once('.')?.1 {
            "worker" => Some(Self::Worker),
            "yaml" | "yml" => Some(Self::YamlWorker),
            "j2" | "jinja" | "jinja2" | "txt" | "md" => Some(Self::Template),
            _ => None,
        }
    }

    /// Returns the keys of such a file.
    pub fn keys(self) -> &'static [Key] {
        match self {
            Self::Worker | Self::YamlWorker => WORKER,
            Self::Manifest => MANIFEST,
            Self::Library => LIBRARY_KEYS,
            Self::Cases => CASES,
            Self::Template => &[],
        }
    }

    /// Returns the bytes of the YAML and those of the template in a text of this kind. Front matter that is not closed ends
    /// with the text.
    pub fn parts(self, text: &str) -> (Range<usize>, Range<usize>) {
        let all = text.len();
        match self {
            Self::Worker => {
                let mut lines = fence::Lines::of(text);
                let opening = lines.find(|line| !fence::is_blank(&text[line.clone()]));
                let Some(opening) = opening.filter(|line| fence::is_fence(text, line)) else {
                    return (0..0, 0..all);
                };
                match lines.find(|line| fence::is_fence(text, line)) {
                    Some(closing) => (opening.end..closing.start, closing.end..all),
                    None => (opening.end..all, all..all),
                }
            }
            Self::Template => (0..0, 0..all),
            _ => (0..all, all..all),
        }
    }
}
