//! A definition file during its conversion to the canonical format.

use crate::{
    Change, Content, Findings, Form, LEFT_OVER, Weight, agents, emit, made, made_entry, map_at, rewrite,
};
use llm_do_program::{
    front_matter,
    resolve::EXTENSIONS,
    source::SourceTree,
    span::{SourceFile, Span},
    yaml::{Data, Entry, Node},
};
use std::{ops::Range, sync::Arc};

/// The role of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Worker,
    Manifest,
}

/// A definition file.
#[derive(Debug)]
pub(super) struct Draft {
    /// The path of the file; for a new file, its target path.
    pub(super) path: String,
    /// The target path.
    pub(super) to: String,
    pub(super) role: Role,
    /// The text on disk, or `None` if the file does not exist yet.
    original: Option<Arc<str>>,
    /// The text that the spans of the tree point into.
    text: Arc<SourceFile>,
    /// The number of lines removed before the text.
    shift: usize,
    /// The YAML part of the text.
    yaml: Range<usize>,
    before: Node,
    /// The new keys.
    pub(super) keys: Node,
    /// The old and new instructions after the front matter.
    body: Option<String>,
    pub(super) new_body: Option<String>,
    /// True if the whole file must be written.
    anew: bool,
    /// True if the file had `entry: true`.
    pub(super) is_entry: bool,
    /// True if the keys were inside `worker:` or `workshop:`.
    pub(super) was_wrapped: bool,
    /// The keys of a manifest that belong to the root worker.
    pub(super) root_worker: Vec<Entry>,
}

pub(super) fn is_yaml(path: &str) -> bool {
    path.ends_with(".yaml") || path.ends_with(".yml")
}

impl Draft {
    /// Reads a definition file of any format. Adds problems to `findings`.
    pub(super) fn read(tree: &dyn SourceTree, path: &str, findings: &mut Findings) -> Option<Self> {
        let document = front_matter::read(tree, path).and_then(|file| {
            if path.ends_with(".worker") || path.ends_with(agents::EXTENSION) {
                front_matter::worker(file)
            } else {
                front_matter::yaml_only(file)
            }
        });
        let document = match document {
            Ok(document) => document,
            Err(error) => {
                let line = error.span.as_ref().and_then(Span::line_column).map(|(line, _)| line);
                let message = format!("is left as it is: {}", error.message);
                findings.note(Weight::Lost, Some(path), line, message);
                return None;
            }
        };
        if !matches!(document.keys.data, Data::Map(_) | Data::Null) {
            let message = format!("is left as it is: it holds {} instead of keys", document.keys.kind());
            findings.note(Weight::Lost, Some(path), None, message);
            return None;
        }
        let file = document.file;
        let text = file.text();
        let yaml = match &document.body {
            // The front matter without its fences.
            Some(body) => {
                let closing = text[..body.range.start].trim_end().rfind("---").unwrap_or(0);
                let opening = text.find("---").map_or(0, |at| at + 3);
                let start = text[opening..].find('\n').map_or(closing, |newline| opening + newline + 1);
                start.min(closing)..closing
            }
            None => 0..text.len(),
        };
        let body = document.body.map(|body| text[body.range].to_owned());
        Some(Self {
            path: path.to_owned(),
            to: path.to_owned(),
            role: Role::Worker,
            original: Some(Arc::clone(text)),
            text: Arc::clone(&file),
            shift: 0,
            yaml,
            keys: document.keys.clone(),
            before: document.keys,
            new_body: body.clone(),
            body,
            anew: false,
            is_entry: false,
            was_wrapped: false,
            root_worker: Vec::new(),
        })
    }

    /// Creates a new definition.
    pub(super) fn new(path: &str, role: Role, keys: Vec<Entry>, body: Option<String>) -> Self {
        let keys = made(Data::Map(keys));
        Self {
            path: path.to_owned(),
            to: path.to_owned(),
            role,
            original: None,
            text: SourceFile::new("", ""),
            shift: 0,
            yaml: 0..0,
            before: made(Data::Null),
            keys,
            body: None,
            new_body: body,
            anew: true,
            is_entry: false,
            was_wrapped: false,
            root_worker: Vec::new(),
        }
    }

    /// Replaces the keys by those at the top level, with their text and the number of lines before them.
    pub(super) fn unwrapped(mut self, text: String, lines: usize, keys: Node, file: Arc<SourceFile>) -> Self {
        let start = self.yaml.start;
        self.yaml = start..start + text.len();
        self.text = file;
        self.shift = lines;
        self.before = keys.clone();
        self.keys = keys;
        self
    }

    /// Replaces the keys, so that the whole file is written.
    pub(super) fn written_anew(mut self, keys: Node) -> Self {
        self.rewrite_with(keys);
        self
    }

    /// Replaces its keys; the whole file is written.
    pub(super) fn rewrite_with(&mut self, keys: Node) {
        self.keys = keys;
        self.anew = true;
    }

    /// Returns the keys as they were read.
    pub(super) fn before(&self) -> &Node {
        &self.before
    }

    /// Returns the text into which places point, and its YAML part.
    pub(super) fn source(&self) -> (&Arc<SourceFile>, Range<usize>) {
        (&self.text, self.yaml.clone())
    }

    /// Returns the line of a span in the file on disk.
    pub(super) fn line(&self, span: &Span) -> Option<usize> {
        span.line_column().map(|(line, _)| line + self.shift)
    }

    /// Returns the file name without its extension.
    pub(super) fn stem(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        name.rsplit_once('.').map_or(name, |(stem, _)| stem)
    }

    /// Keeps a value without a place in the canonical format, and adds a note.
    pub(super) fn put_aside(&mut self, key: &str, value: Node, span: &Span, findings: &mut Findings) {
        let message = format!("`{key}` has no place in the canonical form, and is kept under `{LEFT_OVER}`");
        findings.lost(self, span, message);
        self.leave_over(key, value);
    }

    /// Keeps values without a place in the canonical format. Values that were kept before are not lost.
    pub(super) fn leave_over(&mut self, key: &str, value: Node) {
        let numbered = |name: &str, n: usize| if n == 1 { name.to_owned() } else { format!("{name}-{n}") };
        for n in 1.. {
            let Some(left) = map_at(&mut self.keys, &numbered(LEFT_OVER, n)) else {
                // The key has another value already.
                if matches!(self.keys.data, Data::Map(_) | Data::Null) {
                    continue;
                }
                return;
            };
            let Data::Map(entries) = &mut left.data else { return };
            let free = (1..).map(|n| numbered(key, n)).find(|key| !entries.iter().any(|e| e.key == *key));
            entries.extend(free.map(|key| made_entry(key, value)));
            return;
        }
    }

    /// Returns the new file, or `None` with a note if it can't be written with the same content.
    pub(super) fn finish(&self, findings: &mut Findings) -> Option<Change> {
        let before = self.original.clone().unwrap_or_else(|| "".into());
        let from = self.original.is_some().then(|| self.path.clone());
        let change = |after: String| Change {
            from: from.clone(),
            to: self.to.clone(),
            content: Content::Text { before: Arc::clone(&before), after },
        };
        let untouched = self.to == self.path && self.keys == self.before && self.new_body == self.body;
        if untouched && !self.anew && self.shift == 0 && self.original.is_some() {
            return Some(change(before.to_string()));
        }
        let edited = (!self.anew).then(|| self.edited()).flatten().filter(|text| self.is_right(text));
        if let Some(text) = edited {
            self.lost_comments(&text, findings);
            return Some(change(text));
        }
        let Data::Map(entries) = &self.keys.data else { return None };
        let text = self.compose(&emit::map(entries, 0));
        if !self.is_right(&text) {
            let message = "is left as it is: it can't be rewritten so that it says the same";
            findings.note(Weight::Lost, Some(&self.path), None, message);
            return None;
        }
        if self.original.is_some() {
            findings.note(Weight::Info, Some(&self.path), None, "was rewritten: its formatting changed");
            self.lost_comments(&text, findings);
        }
        Some(change(text))
    }

    /// Returns the old text with the changes.
    fn edited(&self) -> Option<String> {
        let whole = self.text.text();
        let rest = whole.len() - self.yaml.end;
        let out = rewrite::rewrite(whole, self.yaml.start, self.yaml.end, &self.before, &self.keys)?;
        Some(self.compose(&out[self.yaml.start..out.len() - rest]))
    }

    /// Composes a whole file of this YAML.
    fn compose(&self, yaml: &str) -> String {
        if self.role == Role::Manifest {
            // An empty file is an error.
            return if yaml.trim().is_empty() { "# All as by default.\n".into() } else { yaml.to_owned() };
        }
        let windows = self.text.text().contains("\r\n");
        let newline = if windows { "\r\n" } else { "\n" };
        let yaml = yaml.strip_prefix('\u{feff}').unwrap_or(yaml);
        // A YAML document marker would end the front matter.
        let first = yaml.lines().next().unwrap_or("");
        let yaml = match first.trim_end() == "---" {
            true => yaml[first.len()..].trim_start_matches(['\r', '\n']),
            false => yaml,
        };
        let end = if yaml.is_empty() || yaml.ends_with('\n') { "" } else { newline };
        let body = self.new_body.as_deref().unwrap_or("");
        format!("---{newline}{yaml}{end}---{newline}{body}")
    }

    /// Returns true if a text parses to the intended content.
    fn is_right(&self, text: &str) -> bool {
        let file = SourceFile::new(self.to.as_str(), text);
        match self.role {
            Role::Manifest => {
                let wanted = &self.keys.to_json();
                let empty = self.keys.entries().is_empty();
                front_matter::yaml_only(file).is_ok_and(|d| {
                    let read = d.keys.to_json();
                    read == *wanted || (empty && read.is_null())
                })
            }
            Role::Worker => front_matter::worker(file).is_ok_and(|document| {
                let body = document.body.as_ref().map_or("", |body| &text[body.range.clone()]);
                let (read, wanted) = (document.keys.to_json(), self.keys.to_json());
                let same = read == wanted || (self.keys.entries().is_empty() && read.is_null());
                same && body == self.new_body.as_deref().unwrap_or("")
            }),
        }
    }

    /// Adds notes for comments that the new text does not have.
    fn lost_comments(&self, text: &str, findings: &mut Findings) {
        let file = SourceFile::new("", text);
        let after = match self.role {
            Role::Manifest => front_matter::yaml_only(file),
            Role::Worker => front_matter::worker(file),
        };
        let Ok(after) = after else { return };
        let end = after.body.as_ref().map_or(text.len(), |body| body.range.start);
        let mut there: Vec<String> =
            rewrite::comments(&text[..end], &after.keys).into_iter().map(|(_, text)| text).collect();
        let old = &self.text.text()[..self.yaml.end];
        for (at, comment) in rewrite::comments(old, &self.before) {
            match there.iter().position(|known| *known == comment) {
                Some(known) => _ = there.swap_remove(known),
                None => {
                    let shown: String = comment.chars().take(60).collect();
                    let place = Span::new(&self.text, at..at);
                    findings.info(self, &place, format!("a comment was not kept: {shown}"));
                }
            }
        }
    }
}

/// Returns the target of a worker by its extension.
pub(super) fn with_extension(path: &str) -> String {
    let stem = path
        .strip_suffix(agents::EXTENSION)
        .or_else(|| EXTENSIONS.iter().find_map(|e| path.strip_suffix(e)?.strip_suffix('.')))
        .unwrap_or(path);
    format!("{stem}.worker")
}

/// Returns the older format of a file, by its path.
pub(super) fn form_of(path: &str) -> Option<Form> {
    match path {
        path if path.ends_with(agents::EXTENSION) => Some(Form::Agents),
        path if is_yaml(path) => Some(Form::YamlWorkers),
        _ => None,
    }
}
