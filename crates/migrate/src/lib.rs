//! Converts older layouts and file formats of programs to a canonical project. See `docs/guides/migrating.md`.
//!
//! [`plan`] reads through a [`SourceTree`] and returns the files to write, move and leave, and the values that it could
//! not convert. The caller applies the plan. Files are edited in place, so that comments and formatting stay
//! ([`rewrite`](self)). Each result is read again and compared before it becomes part of a plan.

mod agents;
mod canonical;
mod draft;
mod emit;
mod entry;
mod golem;
mod hints;
mod inventory;
mod keys;
mod manifests;
mod names;
mod place;
mod prompts;
mod reading;
mod registry;
mod rewrite;
mod tool_rules;
mod toolsets;
mod unmended;
mod wrapper;

pub use hints::Migration;

use draft::{Draft, Role};
use inventory::Inventory;
use llm_do_program::{
    manifest_names::LEFT_OVER,
    source::SourceTree,
    span::{SourceFile, Span},
    yaml::{Data, Entry, Node},
};
use names::Names;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

/// Prefix of folders with originals; they are never migrated again.
pub const KEPT: &str = ".llm-do-migrated";

/// The target of a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A folder: it becomes a project.
    Folder,
    /// A single file, which keeps its path.
    File(String),
}

/// An older form that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// A folder of workers without a project.
    FlatRegistry,
    /// `workers/*.yaml`, with `prompts/` or `instructions`.
    YamlWorkers,
    /// Workers beside `main`, called by bare name.
    FlatWorkers,
    /// `program.yaml`.
    Program,
    /// `workshop.yaml`.
    Workshop,
    /// `worker:` or `workshop:` around all keys.
    Wrapper,
    /// `golem-forge.config.yaml`, `.workers/`, `index.worker`.
    GolemForge,
    /// `project.json`.
    ProjectJson,
    /// `*.agent`.
    Agents,
    /// `toolsets` as a list, or with older names.
    Toolsets,
    /// `_approval_config`.
    ApprovalConfig,
    /// Older names and forms of other keys.
    Keys,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FlatRegistry => "a flat registry",
            Self::YamlWorkers => "workers in YAML files",
            Self::FlatWorkers => "workers beside the entry",
            Self::Program => "program.yaml",
            Self::Workshop => "workshop.yaml",
            Self::Wrapper => "`worker:` or `workshop:` around all keys",
            Self::GolemForge => "a golem-forge project",
            Self::ProjectJson => "project.json",
            Self::Agents => ".agent files",
            Self::Toolsets => "older toolsets",
            Self::ApprovalConfig => "_approval_config",
            Self::Keys => "older keys",
        })
    }
}

/// A plan. Paths are relative to the tree, with `/`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The older forms that were found, each once.
    pub forms: Vec<Form>,
    /// New and changed files, sorted by target. No two have the same target, and no target belongs to an unchanged
    /// file.
    pub changes: Vec<Change>,
    /// Files that were merged into another file.
    pub absorbed: Vec<Absorbed>,
    /// All other files; they do not change.
    pub kept: Vec<String>,
    /// Notes on changes, and on values that could not be converted.
    pub notes: Vec<Note>,
    /// True if the folder is a registry that runs search by name. It must keep its place, so the project needs another
    /// folder.
    pub is_registry: bool,
}

impl Plan {
    /// Returns true if there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.absorbed.is_empty()
    }
}

/// A new or changed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The file that it replaces; `None` if it is new.
    pub from: Option<String>,
    /// The target path of the file.
    pub to: String,
    /// The content of the file.
    pub content: Content,
}

/// The content of a changed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Another text.
    Text {
        /// The old text; empty for a new file.
        before: Arc<str>,
        /// The new text.
        after: String,
    },
    /// The same bytes, at another path.
    Moved,
}

/// A file whose text was merged into another file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absorbed {
    /// The file.
    pub path: String,
    /// The file that contains its text now.
    pub into: String,
    /// The text of the file.
    pub text: Arc<str>,
}

/// The severity of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Something could not be converted; the user must check it.
    Lost,
    /// Information for the user.
    Info,
}

/// A note about a plan.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Note {
    /// The severity of the note.
    pub weight: Weight,
    /// The file of the note; absent for the whole plan.
    pub file: Option<String>,
    /// The line in that file, from 1.
    pub line: Option<usize>,
    /// The text.
    pub message: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => write!(f, "{file}:{line}: {}", self.message),
            (Some(file), None) => write!(f, "{file}: {}", self.message),
            _ => f.write_str(&self.message),
        }
    }
}

/// The folder does not contain a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nothing here looks like workers or a project, old or new")]
pub struct Unrecognised {
    /// The reasons why files could not be read.
    pub notes: Vec<Note>,
}

/// The notes and formats found so far.
#[derive(Default)]
struct Findings {
    forms: BTreeSet<Form>,
    notes: Vec<Note>,
}

impl Findings {
    fn lost(&mut self, draft: &Draft, span: &Span, message: impl Into<String>) {
        self.note(Weight::Lost, Some(draft.path.as_str()), draft.line(span), message);
    }

    fn info(&mut self, draft: &Draft, span: &Span, message: impl Into<String>) {
        self.note(Weight::Info, Some(draft.path.as_str()), draft.line(span), message);
    }

    fn note(&mut self, weight: Weight, file: Option<&str>, line: Option<usize>, message: impl Into<String>) {
        self.notes.push(Note { weight, file: file.map(str::to_owned), line, message: message.into() });
    }
}

/// Plans the migration of a tree. Only reads.
///
/// # Errors
/// The tree contains no known format.
pub fn plan(tree: &dyn SourceTree, scope: &Scope) -> Result<Plan, Unrecognised> {
    let mut findings = Findings::default();
    let inventory = Inventory::read(tree, &mut findings);
    let mut drafts = reading::read_all(tree, &inventory, &mut findings);
    if let Scope::File(path) = scope
        && !drafts.iter().any(|draft| draft.path == *path)
    {
        drafts.extend(wrapper::read(tree, path, &mut findings));
    }
    let wanted = |draft: &Draft| match scope {
        Scope::Folder => true,
        Scope::File(path) => draft.path == *path,
    };
    if !drafts.iter().any(wanted) {
        findings.notes.sort();
        return Err(Unrecognised { notes: findings.notes });
    }

    let layout = place::Layout::of(&inventory, &drafts, tree.root().as_str());
    match scope {
        Scope::Folder => place::place(&mut drafts, &inventory, &layout, &mut findings),
        Scope::File(path) => place::stay(&mut drafts, path, &inventory, &mut findings),
    }
    let names = Names::of(&drafts, &layout);
    let mut silent = Findings::default();
    for draft in &mut drafts {
        let findings = if wanted(draft) { &mut findings } else { &mut silent };
        match draft.role {
            Role::Worker => keys::worker(draft, &names, findings),
            Role::Manifest => manifests::manifest(draft, &names, &layout, findings),
        }
    }
    if *scope == Scope::Folder {
        manifests::grant_writes(&mut drafts, &mut findings);
    }
    let mentions = prompts::Mentions::read(tree, &inventory, &layout);
    let mut absorbed = Vec::new();
    for draft in drafts.iter_mut().filter(|draft| draft.role == Role::Worker && wanted(draft)) {
        prompts::take_in(tree, &inventory, &layout, &mentions, draft, &mut absorbed, &mut findings);
    }
    unmended::tell(&drafts, &inventory, scope, &mut findings);
    if *scope == Scope::Folder {
        entry::settle(&mut drafts, &inventory, &layout, &mut findings);
    }
    Ok(finish(drafts.into_iter().filter(wanted).collect(), absorbed, &inventory, &layout, scope, findings))
}

/// Creates the texts and moves, and checks that no target exists.
fn finish(
    drafts: Vec<Draft>,
    mut absorbed: Vec<Absorbed>,
    inventory: &Inventory,
    layout: &place::Layout,
    scope: &Scope,
    mut findings: Findings,
) -> Plan {
    let mut changes: BTreeMap<String, Change> = BTreeMap::new();
    let mut stuck: BTreeSet<String> = BTreeSet::new();
    for draft in &drafts {
        match draft.finish(&mut findings) {
            Some(change) => {
                changes.insert(change.to.clone(), change);
            }
            None => _ = stuck.insert(draft.to.clone()),
        }
    }
    // A file that would be merged into an unchanged file does not change either.
    absorbed.retain(|one| !stuck.contains(&one.into));
    if *scope == Scope::Folder {
        for (from, to) in place::companions(&drafts, inventory, layout, &mut findings) {
            let change = Change { from: Some(from), to: to.clone(), content: Content::Moved };
            changes.entry(to).or_insert(change);
        }
    }
    let changes: Vec<Change> = changes.into_values().filter(|change| !change.is_idle()).collect();
    let gone: BTreeSet<&str> = changes
        .iter()
        .filter_map(|change| change.from.as_deref())
        .chain(absorbed.iter().map(|one| one.path.as_str()))
        .collect();
    let kept = inventory.files.iter().filter(|path| !gone.contains(path.as_str())).cloned().collect();
    if changes.is_empty() {
        findings.forms.clear();
    }
    findings.notes.sort_by(|a, b| (a.weight, &a.file, a.line).cmp(&(b.weight, &b.file, b.line)));
    findings.notes.dedup();
    Plan {
        forms: findings.forms.into_iter().collect(),
        is_registry: layout.is_registry && *scope == Scope::Folder && !changes.is_empty(),
        changes,
        absorbed,
        kept,
        notes: findings.notes,
    }
}

impl Change {
    /// Returns true if it changes nothing.
    fn is_idle(&self) -> bool {
        let same = match &self.content {
            Content::Text { before, after } => **before == **after,
            Content::Moved => true,
        };
        same && self.from.as_deref() == Some(&self.to)
    }
}

/// Creates a node without a place in a file.
fn made(data: Data) -> Node {
    Node { span: nowhere(), data }
}

/// Creates a text node without a place in a file.
fn made_text(text: impl Into<String>) -> Node {
    made(Data::Text(text.into()))
}

/// Creates an entry without a place in a file.
fn made_entry(key: impl Into<String>, value: Node) -> Entry {
    Entry { key: key.into(), key_span: nowhere(), value }
}

fn nowhere() -> Span {
    Span::whole(&SourceFile::new("", ""))
}

/// Returns the entries of a map, to be changed; makes a map of a null value.
fn entries_mut(node: &mut Node) -> Option<&mut Vec<Entry>> {
    if node.data == Data::Null {
        node.data = Data::Map(Vec::new());
    }
    match &mut node.data {
        Data::Map(entries) => Some(entries),
        _ => None,
    }
}

/// Takes an entry out of a map.
fn take(node: &mut Node, key: &str) -> Option<Entry> {
    let Data::Map(entries) = &mut node.data else { return None };
    let at = entries.iter().position(|entry| entry.key == key)?;
    Some(entries.remove(at))
}

/// Returns the value of a key, to be changed.
fn get_mut<'a>(node: &'a mut Node, key: &str) -> Option<&'a mut Node> {
    let Data::Map(entries) = &mut node.data else { return None };
    entries.iter_mut().find(|entry| entry.key == key).map(|entry| &mut entry.value)
}

/// Returns the map under a key, and makes it if it does not exist. Returns `None` if another value is there.
fn map_at<'a>(node: &'a mut Node, key: &str) -> Option<&'a mut Node> {
    let entries = entries_mut(node)?;
    let at = match entries.iter().position(|entry| entry.key == key) {
        Some(at) => at,
        None => {
            entries.push(made_entry(key, made(Data::Map(Vec::new()))));
            entries.len() - 1
        }
    };
    let value = &mut entries[at].value;
    entries_mut(value)?;
    Some(value)
}
