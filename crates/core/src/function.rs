//! Functions: anything callable by name, worker or tool, behind one interface (SPEC §8.1).

use crate::{
    authority::{Access, Authority, Located},
    call_path::CallPath,
    driver::CutOff,
    engine::{Engine, Failure, Frame, Halt, Outcome},
    gate::{Policy, Rule, Subject},
    model::Blob,
    schema::Schema,
    send::{BoxFuture, MaybeSend, MaybeSync},
    vfs::FileSystem,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{fmt, sync::Arc, time::Duration};

/// What a call may do to the world; decides what happens where no rule speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// Looks, and changes nothing.
    Read,
    /// Changes files inside the sandbox.
    Write,
    /// Talks to other machines.
    Network,
    /// Runs a process or foreign code.
    Exec,
    /// Removes what can't be brought back.
    Destructive,
    /// Calls a worker.
    Delegate,
}

impl Risk {
    /// Whether calls of this risk run one after another within a turn (SPEC §8.1).
    pub fn is_barrier(self) -> bool {
        matches!(self, Self::Write | Self::Exec | Self::Destructive)
    }
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Network => "network",
            Self::Exec => "exec",
            Self::Destructive => "destructive",
            Self::Delegate => "delegate",
        })
    }
}

/// Where a function comes from. With its name this is its identity; the name a model sees is only a label.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FunctionSource {
    /// A toolset that is part of llm-do, or registered by the embedding program.
    Toolset(Arc<str>),
    /// A worker of the program.
    Program,
    /// A worker or tool of this library.
    Library(Arc<str>),
    /// A worker made during the run.
    Generated,
}

/// Everything there is to say about a function but its code.
#[derive(Clone, Debug)]
pub struct FunctionMeta {
    /// Where it comes from.
    pub source: FunctionSource,
    /// Its own name: `read_file`, `reports/summarizer`.
    pub name: Arc<str>,
    /// The name a model sees.
    pub tool_name: Arc<str>,
    /// Older or generic names that rules may use for it (`worker.call`).
    pub aliases: &'static [&'static str],
    /// What it does.
    pub description: Arc<str>,
    /// Schema of its input: always an object schema.
    pub input: Arc<Schema>,
    /// Schema of its output, where there is one.
    pub output: Option<Arc<Schema>>,
    /// What it may do to the world.
    pub risk: Risk,
    /// Safe beside other calls of its turn although its risk makes it a barrier.
    pub parallel: bool,
    /// How long it may work; `None` is the default of 120 s for leaves and no limit for composites.
    pub timeout: Option<Duration>,
    /// Whether its effects stay inside the mounts that the program declares whatever its code does, because its process
    /// is confined to them.
    pub contained: bool,
    /// A delegation that only a wildcard of the allowlist permits.
    pub wildcard: bool,
    /// The `approval` of the toolset that offers it.
    pub policy: Option<Arc<Policy>>,
}

/// A function: what it is and how it runs.
#[derive(Clone)]
pub struct Function {
    /// What it is.
    pub meta: FunctionMeta,
    /// How it runs.
    pub body: Implementation,
    /// What its author's code says of single calls.
    pub rule: Option<Arc<dyn RuleCode>>,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function").field("meta", &self.meta).finish_non_exhaustive()
    }
}

/// How a function runs.
#[derive(Clone)]
pub enum Implementation {
    /// One journal step.
    Leaf(Arc<dyn Leaf>),
    /// Makes calls of its own; run again over its records instead of being recorded.
    Composite(Arc<dyn Composite>),
}

/// A rule that is code: its author decides call by call. Asked after the arguments are valid; its answer is a step.
pub trait RuleCode: MaybeSend + MaybeSync {
    /// What it says of these arguments. An error means that the operator is asked.
    fn rule<'a>(&'a self, input: &'a Value) -> BoxFuture<'a, Result<Rule, String>>;
}

/// A path that a call touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    /// As the model wrote it.
    pub path: String,
    /// What is done to it.
    pub access: Access,
    /// Whether it is removed: mounts may have a rule of their own for that.
    pub delete: bool,
}

/// What a call of a function means for authority and rules, from its input alone.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// The paths it touches. Each is located before anyone is asked.
    pub touches: Vec<Touch>,
    /// What rules match as arguments, where that isn't the paths (a command line, a worker's ID). Empty: the paths,
    /// or without any the canonical arguments.
    pub subjects: Vec<Subject>,
    /// What the toolset's own configuration says of these arguments, with the place where it says so: as its `approval`
    /// would, and so less than the operator's word and the worker's.
    pub says: Option<(Rule, String)>,
    /// What is known of these arguments whatever anybody allows, with the reason. It stands beside what mounts say: the
    /// strictest counts.
    pub rules: Vec<(Rule, String)>,
}

/// A result of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutput {
    /// The value: text for most tools, or structured.
    pub value: Value,
    /// Images and files, for a model that reads them.
    pub blobs: Vec<Blob>,
    /// What its code printed, for the journal.
    pub log: Option<Arc<str>>,
}

impl ToolOutput {
    /// A text result.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(Value::String(text.into()))
    }
    /// A structured result.
    pub fn new(value: Value) -> Self {
        Self { value, blobs: Vec::new(), log: None }
    }
}

/// A tool that failed. Said to the model, so it tells what to try next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    /// What happened and what to try.
    pub message: String,
    /// What its code printed, for the journal.
    pub log: Option<Arc<str>>,
}

impl ToolError {
    /// An error with that message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), log: None }
    }
}

/// What the operator is shown beside the arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(tag = "preview", rename_all = "snake_case")]
pub enum Preview {
    /// A file before and after; shown as a diff.
    Change {
        /// Virtual path.
        path: String,
        /// Content now; absent for a new file.
        before: Option<String>,
        /// Content after; absent if it is removed.
        after: Option<String>,
    },
}

/// What lies at a path, as far as it tells one state from another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FileState {
    /// Nothing.
    Absent,
    /// A folder.
    Folder,
    /// A file with this content: SHA-256 in hexadecimal.
    File(Arc<str>),
}

/// How a path is before a call and after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct FileChange {
    /// Virtual path.
    pub path: Arc<str>,
    /// Before.
    pub before: FileState,
    /// After.
    pub after: FileState,
}

/// What a call will have done once it has succeeded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Foreseen {
    /// The paths that it changes.
    pub changes: Vec<FileChange>,
    /// Its result.
    pub result: Arc<str>,
}

/// What a leaf works with. Its paths are located already, in the order of [`Effects::touches`].
pub struct LeafCall<'a> {
    /// The validated input.
    pub input: &'a Value,
    /// The places of the paths it touches.
    pub places: &'a [Located],
    /// What it may touch.
    pub authority: &'a Authority,
    /// The run's files.
    pub files: &'a dyn FileSystem,
    /// Texts cut from this conversation's results (`/results/N`).
    pub results: &'a crate::results::Results,
    /// The same for every attempt at this call, now and after a resume.
    pub idempotency_key: &'a str,
}

/// Code that is one step: it calls no other function.
pub trait Leaf: MaybeSend + MaybeSync {
    /// What a call with this input would touch. Pure; the input is valid.
    fn effects(&self, _input: &Value) -> Effects {
        Effects::default()
    }
    /// What to show an operator who is asked. Only reads.
    fn preview<'a>(&'a self, _call: LeafCall<'a>) -> BoxFuture<'a, Option<Preview>> {
        Box::pin(async { None })
    }
    /// What it will have changed, if that can be known and looked for afterwards. Only reads.
    fn foresee<'a>(&'a self, _call: LeafCall<'a>) -> BoxFuture<'a, Option<Foreseen>> {
        Box::pin(async { None })
    }
    /// What has become of an attempt that was cut off, by what it foresaw. Only reads.
    fn look_back<'a>(&'a self, _call: LeafCall<'a>, _foreseen: &'a Foreseen) -> BoxFuture<'a, CutOff> {
        Box::pin(async { CutOff::Unknown })
    }
    /// Does it.
    fn run<'a>(&'a self, call: LeafCall<'a>) -> BoxFuture<'a, Result<ToolOutput, ToolError>>;
}

/// What a composite works with.
pub struct CompositeCall<'a> {
    /// Makes further calls.
    pub engine: &'a Engine,
    /// Where it stands in the call tree and what it may touch (its caller's authority; it narrows for itself).
    pub frame: &'a Frame,
    /// Its place.
    pub path: &'a CallPath,
    /// The validated input.
    pub input: &'a Arc<Value>,
    /// The places of the paths it is handed, in the order of [`Effects::touches`].
    pub places: &'a [Located],
    /// Files that the operator gave to the top-level call.
    pub attachments: &'a [crate::model::Blob],
}

/// Code that makes calls of its own: a worker, or a function that orchestrates workers.
pub trait Composite: MaybeSend + MaybeSync {
    /// The arguments with those that the caller left out and the program gives; `None` where it gives none. Before they
    /// are validated.
    fn complete(&self, _engine: &Engine, _frame: &Frame, _input: &Value) -> Option<Value> {
        None
    }
    /// Whether it may be called from there at all (depth, cycles); before anyone is asked.
    fn admit(&self, _engine: &Engine, _frame: &Frame) -> Result<(), Failure> {
        Ok(())
    }
    /// What a call with this input would touch in the caller's view. Pure; the input is valid.
    fn effects(&self, _input: &Value) -> Effects {
        Effects::default()
    }
    /// Runs it. Failures that the caller should hear are values; `Err` is for the infrastructure alone.
    fn run<'a>(&'a self, call: CompositeCall<'a>) -> BoxFuture<'a, Result<Outcome, Halt>>;
}

/// The name a model sees for a function: `/` and `:` become `__`, other characters `_`, at most 64 (SPEC §8.1).
pub fn tool_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 2);
    for c in name.chars() {
        match c {
            '/' | ':' => out.push_str("__"),
            c if c.is_ascii_alphanumeric() || c == '_' || c == '-' => out.push(c),
            _ => out.push('_'),
        }
    }
    if out.len() > 64 {
        // Two long names that share their first 64 characters must not become one.
        let hash = crate::schema::sha256(name.as_bytes());
        out.truncate(55);
        out.push('_');
        out.push_str(&hash[..8]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_names_fit_what_providers_accept() {
        assert_eq!(tool_name("reports/summarizer"), "reports__summarizer");
        assert_eq!(tool_name("lib:worker"), "lib__worker");
        assert_eq!(tool_name("größe x"), "gr__e_x");
        let long = "a".repeat(80);
        assert_eq!(tool_name(&long).len(), 64);
        assert_ne!(tool_name(&long), tool_name(&"a".repeat(81)));
    }
}
