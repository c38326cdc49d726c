//! Functions: anything callable by name, worker or tool, behind one interface (`docs/reference/loop.md`).

mod stand_in;

use crate::{
    attachment::Attachment,
    authority::{Access, Authority, Located},
    call_bounds::CallBounds,
    call_path::CallPath,
    engine::{Engine, Frame},
    gate::Policy,
    model::Blob,
    origin::{Origin, Origins, ResultOrigin, UntrustedPlaces},
    outcome::{Failure, Halt, Outcome},
    question::{Answer, ToolQuestion},
    redact::Redact,
    rule::{DecidedBy, Rule},
    schema::Schema,
    send::{BoxFuture, MaybeSend, MaybeSync},
    shared::Results,
    vfs::FileSystem,
};
pub use crate::{
    foreseen::{FileChange, FileState, Foreseen},
    question::Preview,
    risk::Risk,
    source::{FunctionId, FunctionSource},
};
use serde_json::Value;
pub use stand_in::StandIns;
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

/// The description of a function, without its code.
#[derive(Clone, Debug)]
pub struct FunctionMeta {
    /// The owner of the function: a toolset, the program, a library, or the run that generated it.
    pub source: FunctionSource,
    /// The function's own name: `read_file`, `reports/summarizer`.
    pub name: Arc<str>,
    /// The name a model sees.
    pub tool_name: Arc<str>,
    /// Older or generic names that rules may use for it (`worker.call`).
    pub aliases: &'static [&'static str],
    /// The description of the function.
    pub description: Arc<str>,
    /// Schema of its input: always an object schema.
    pub input: Arc<Schema>,
    /// Schema of its output, where there is one.
    pub output: Option<OutputSchema>,
    /// The risk of its calls.
    pub risk: Risk,
    /// The order of its calls relative to the other calls of their turn.
    pub concurrency: Concurrency,
    /// Time limit of a call, unless the caller's rules state one; `None` means the default of 120 s for leaves and no
    /// limit for composites.
    pub timeout: Option<Duration>,
    /// True if the function's process is confined to the mounts that the program declares, so that its effects stay
    /// inside them whatever its code does.
    pub contained: bool,
    /// The origin that the function states for its results.
    pub results: ResultOrigin,
    /// A delegation that only a wildcard of the allowlist permits.
    pub wildcard: bool,
    /// The `approval` of the toolset that offers it.
    pub policy: Option<Arc<Policy>>,
}

/// The schema of a function's output, and the consequence for a result that does not fit.
#[derive(Clone, Debug)]
pub enum OutputSchema {
    /// Declared as a contract: a result that does not fit is a failure.
    Declared(Arc<Schema>),
    /// Derived from the code, such as a return annotation. The schema is only a description: the call had its effects,
    /// so a result that does not fit is passed on unchanged, with a note in the journal.
    Derived(Arc<Schema>),
}

impl OutputSchema {
    /// The schema.
    pub fn schema(&self) -> &Arc<Schema> {
        match self {
            Self::Declared(schema) | Self::Derived(schema) => schema,
        }
    }
}

/// The order of a function's calls relative to the other calls of their turn (`docs/reference/loop.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concurrency {
    /// The risk decides: a call that may change something is a barrier.
    ByRisk,
    /// Calls run in parallel with others, whatever the risk.
    Parallel,
    /// Calls run one after another, whatever the risk.
    Barrier,
}

impl FunctionMeta {
    /// The identity of the function.
    pub fn id(&self) -> FunctionId {
        FunctionId { source: self.source.clone(), name: Arc::clone(&self.name) }
    }

    /// Returns true if a call of the function is a barrier: it starts after all earlier calls of its turn have ended,
    /// and later calls start after it.
    pub fn is_barrier(&self) -> bool {
        match self.concurrency {
            Concurrency::ByRisk => self.risk.is_barrier(),
            Concurrency::Parallel => false,
            Concurrency::Barrier => true,
        }
    }
}

/// A function: its description and its code.
#[derive(Clone)]
pub struct Function {
    /// The description.
    pub meta: FunctionMeta,
    /// The code.
    pub body: Implementation,
    /// The author's approval code for single calls.
    pub rule: Option<Arc<dyn RuleCode>>,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function").field("meta", &self.meta).finish_non_exhaustive()
    }
}

/// The code of a function.
#[derive(Clone)]
pub enum Implementation {
    /// A function that is one journal step.
    Leaf(Arc<dyn Leaf>),
    /// A function that makes calls of its own. A resume runs it again over the records of these calls instead of
    /// recording it.
    Composite(Arc<dyn Composite>),
}

impl Implementation {
    /// The effects of the call that needs the least approval ([`Leaf::least`]).
    pub fn least(&self) -> Option<Effects> {
        match self {
            Self::Leaf(leaf) => leaf.least(),
            Self::Composite(composite) => composite.least(),
        }
    }

    /// Identifies the code and the configuration of the function ([`Leaf::identity`]).
    pub async fn identity(&self) -> Option<Arc<str>> {
        match self {
            Self::Leaf(leaf) => leaf.identity().await,
            Self::Composite(composite) => composite.identity().await,
        }
    }
}

/// A rule in code: its author decides call by call. It runs after validation of the arguments, and its answer is a
/// step.
pub trait RuleCode: MaybeSend + MaybeSync {
    /// The rule for a call. After an error the operator is asked.
    fn rule<'a>(&'a self, call: RuleCall<'a>) -> BoxFuture<'a, Result<Rule, String>>;
    /// Returns true if the code looks at the origins of the arguments. If not, its `preApproved` does not count for
    /// untrusted words.
    fn takes_origins(&self) -> bool {
        false
    }
    /// Returns true if a `preApproved` of this code counts beyond the program's own mounts, because the function's
    /// process can only reach places that the operator has granted.
    fn covers_grants(&self) -> bool {
        false
    }
}

/// The data that approval code may look at.
#[derive(Clone, Copy, Debug)]
pub struct RuleCall<'a> {
    /// The arguments, complete and valid.
    pub arguments: &'a Value,
    /// The input of the run, which the operator gave to the entry.
    pub run_input: &'a Value,
    /// The worker that calls, or on whose behalf code calls.
    pub caller: Option<&'a str>,
    /// The origin of each argument, by its name.
    pub origins: &'a BTreeMap<Arc<str>, Origin>,
}

/// A path that a call touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The path as the model wrote it.
    pub path: String,
    /// The operation on the path.
    pub access: Access,
    /// True if the path is removed. Mounts may have a separate rule for that.
    pub delete: bool,
}

/// The one argument of a function that the `(PATTERN)` of a rule is compared with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MainArgument {
    /// None of its arguments is the main one. Rules test single arguments by conditions.
    #[default]
    None,
    /// The paths that the call touches.
    Paths,
    /// A text, in each of its forms: a command line, a worker's ID.
    Texts(Vec<String>),
}

/// The effects of a call that matter for authority and rules, derived from its input alone.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// The paths it touches. Each is located before the operator is asked.
    pub touches: Vec<Touch>,
    /// The main argument, which the `(PATTERN)` of a rule is compared with.
    pub main: MainArgument,
    /// The rule of the toolset's own configuration for these arguments, with its origin. It has the precedence of the
    /// toolset's `approval`: below the operator's and the worker's rules.
    pub says: Option<(Rule, DecidedBy)>,
    /// Rules that hold for these arguments regardless of any approval, with the reason. They are combined with the
    /// mounts' rules: the strictest applies.
    pub rules: Vec<(Rule, DecidedBy)>,
    /// True if a process executes the call. Its code can read and write in every mount of the caller's view, whatever
    /// paths the arguments name.
    pub process: bool,
}

/// A result of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutput {
    /// The value: text for most tools, or structured.
    pub value: Value,
    /// Images and files, for a model that reads them.
    pub blobs: Vec<Blob>,
    /// The output that its code printed, for the journal.
    pub log: Option<Arc<str>>,
    /// The origins of the value, if the tool knows them: a listing knows them for each row. If it doesn't, the value has
    /// the most suspicious origin of the places that the call reads.
    pub origins: Option<Origins>,
}

impl ToolOutput {
    /// A text result.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(Value::String(text.into()))
    }
    /// A structured result.
    pub fn new(value: Value) -> Self {
        Self { value, blobs: Vec::new(), log: None, origins: None }
    }
}

/// The error of a failed tool. The model receives it, so its message suggests what to try next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    /// A description of the failure and of what to try.
    pub message: String,
    /// The output that its code printed, for the journal.
    pub log: Option<Arc<str>>,
}

impl ToolError {
    /// An error with that message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), log: None }
    }
}

/// The context of a leaf's execution. Its paths are already located, in the order of [`Effects::touches`].
pub struct LeafCall<'a> {
    /// The validated input.
    pub input: &'a Value,
    /// The places of the paths it touches.
    pub places: &'a [Located],
    /// The authority of the call.
    pub authority: &'a Authority,
    /// The run's files.
    pub files: &'a dyn FileSystem,
    /// Texts cut from this conversation's results (`/results/N`).
    pub results: Results<'a>,
    /// Replaces secrets. The engine redacts the values that a leaf returns. A leaf that returns a part of a text
    /// redacts the whole text first, because a part of a secret is not recognised.
    pub redact: &'a dyn Redact,
    /// The places whose content was written from untrusted words.
    pub untrusted: &'a dyn UntrustedPlaces,
    /// ID of the run.
    pub run: &'a str,
    /// A key that is the same for every attempt at this call, now and after a resume.
    pub idempotency_key: &'a str,
}

/// The end of one round of a leaf's execution.
#[derive(Clone, Debug, PartialEq)]
pub enum Round {
    /// The leaf has ended.
    Done(ToolOutput),
    /// The leaf has questions to the user.
    Asks(ToolAsks),
}

/// Questions of a leaf to the user. The leaf continues once they are answered.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolAsks {
    /// The questions.
    pub questions: Vec<ToolQuestion>,
    /// The data, apart from the answers, that the leaf needs to continue. It is recorded.
    pub state: Value,
    /// The output that its code printed, for the journal.
    pub log: Option<Arc<str>>,
}

/// The answers to the questions of a leaf.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolAnswers {
    /// Number of earlier rounds.
    pub round: u32,
    /// [`ToolAsks::state`], as it was recorded.
    pub state: Arc<Value>,
    /// The answers, one for each question, in their order.
    pub answers: Vec<UserAnswer>,
}

/// The user's answer to a question of a tool.
#[derive(Clone, Debug, PartialEq)]
pub enum UserAnswer {
    /// A text, or a value that fits the schema.
    Given(Arc<Value>),
    /// No answer: the user declined, with an optional reason.
    Declined(Option<String>),
    /// No answer: the user stopped the answer that the call is part of.
    Stopped,
}

/// A call's turn to use something that calls use one after another. It ends when this value is dropped.
pub struct Turn(pub Option<Box<dyn MaybeSend>>);

/// Code that is one step: it calls no other function.
pub trait Leaf: MaybeSend + MaybeSync {
    /// The effects of a call with this input. Pure; the input is valid.
    fn effects(&self, _input: &Value) -> Effects {
        Effects::default()
    }
    /// The effects of the call that needs the least approval, if they are known. Of a touch only its access counts:
    /// the call may choose its path. If not even this call can pass the gate, a model is not shown the function.
    fn least(&self) -> Option<Effects> {
        None
    }
    /// Identifies the code and the configuration of the function, for remembered answers: an answer about one module's
    /// `deploy` is not valid for the `deploy` of another. Functions that are part of llm-do and take no configuration
    /// need no identity.
    fn identity(&self) -> BoxFuture<'_, Option<Arc<str>>> {
        Box::pin(async { None })
    }
    /// Waits for its turn before an attempt. No time limit includes this wait.
    fn turn(&self) -> BoxFuture<'_, Turn> {
        Box::pin(async { Turn(None) })
    }
    /// Does the work that can fail or take long before the first effect, such as starting the process that runs the
    /// call. Nothing is recorded yet: if our process is killed here, the call has not begun. The execution reports a
    /// failure of this work.
    fn ready(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
    /// A preview for the operator's question. Must only read.
    fn preview<'a>(&'a self, _call: LeafCall<'a>) -> BoxFuture<'a, Option<Preview>> {
        Box::pin(async { None })
    }
    /// Returns true if the leaf can predict its changes. If so, [`Leaf::foresee`] is a step before every execution.
    fn foresees(&self) -> bool {
        false
    }
    /// Predicts its changes, if they can be predicted and checked afterwards. Must only read.
    fn foresee<'a>(&'a self, _call: LeafCall<'a>) -> BoxFuture<'a, Option<Foreseen>> {
        Box::pin(async { None })
    }
    /// Determines from the prediction whether an interrupted attempt took effect: [`Answer::Again`] or
    /// [`Answer::Done`], `None` if that is unknown. Must only read.
    fn look_back<'a>(
        &'a self,
        _call: LeafCall<'a>,
        _foreseen: &'a Foreseen,
    ) -> BoxFuture<'a, Option<Answer>> {
        Box::pin(async { None })
    }
    /// Executes the call.
    fn run<'a>(&'a self, call: LeafCall<'a>) -> BoxFuture<'a, Result<ToolOutput, ToolError>>;
    /// Executes the call up to its end, or up to its next questions to the user. `answers` are the answers to its last
    /// questions. Each round is a step. Leaves without questions have one round: [`Leaf::run`].
    fn round<'a>(
        &'a self,
        call: LeafCall<'a>,
        _answers: Option<&'a ToolAnswers>,
    ) -> BoxFuture<'a, Result<Round, ToolError>> {
        Box::pin(async move { self.run(call).await.map(Round::Done) })
    }
}

/// The context of a composite's execution.
pub struct CompositeCall<'a> {
    /// Makes further calls.
    pub engine: &'a Engine,
    /// The call's position in the call tree and its caller's authority, which the composite narrows for itself.
    pub frame: &'a Frame,
    /// The call's place in the call tree.
    pub path: &'a CallPath,
    /// The validated input.
    pub input: &'a Arc<Value>,
    /// The origins of the input.
    pub origins: &'a Origins,
    /// The places of the paths that it receives, in the order of [`Effects::touches`].
    pub places: &'a [Located],
    /// The positions of those places whose content is untrusted.
    pub untrusted: &'a [usize],
    /// Files that the operator gave to the top-level call.
    pub attachments: &'a [Attachment],
    /// The call's own time limit, if it has one. The deadlines of `frame` contain it; it counts working time.
    pub timeout: Option<Duration>,
    /// The result of [`Composite::check`], for a function that checks its arguments.
    pub bounds: Option<&'a Arc<CallBounds>>,
}

/// The result of [`Composite::check`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checked {
    /// The calls that the code in the arguments can make.
    pub bounds: Arc<CallBounds>,
    /// The configuration of the toolset that pre-approves code with these calls.
    pub approved_by: Option<DecidedBy>,
}

/// Code that makes calls of its own: a worker, or a function that orchestrates workers.
pub trait Composite: MaybeSend + MaybeSync {
    /// The arguments completed with values that the caller left out and the program supplies; `None` if there are
    /// none. Called before validation.
    fn complete(&self, _engine: &Engine, _frame: &Frame, _input: &Value) -> Option<Value> {
        None
    }
    /// Checks that the function may be called from that frame (depth, cycles). Called before the operator is asked.
    fn admit(&self, _engine: &Engine, _frame: &Frame) -> Result<(), Failure> {
        Ok(())
    }
    /// The effects of a call with this input, in the caller's view. Pure; the input is valid.
    fn effects(&self, _input: &Value) -> Effects {
        Effects::default()
    }
    /// The effects of the call that needs the least approval; see [`Leaf::least`].
    fn least(&self) -> Option<Effects> {
        None
    }
    /// Identifies the code and the configuration; see [`Leaf::identity`].
    fn identity(&self) -> BoxFuture<'_, Option<Arc<str>>> {
        Box::pin(async { None })
    }
    /// The description for a model, if it depends on the other functions that the model is shown.
    fn describe(&self, _offered: &[Function]) -> Option<Arc<str>> {
        None
    }
    /// Returns false if a model is not shown the function beside these other ones.
    fn is_offered(&self, _others: &[Function]) -> bool {
        true
    }
    /// Returns true if the function checks its arguments by more than their schema ([`Composite::check`]).
    fn checks(&self) -> bool {
        false
    }
    /// Checks valid arguments before any rule decides and before the operator is asked: code that a model wrote. This is
    /// a step. A failure is the result of the call, which then has no execution.
    fn check<'a>(
        &'a self,
        _engine: &'a Engine,
        _frame: &'a Frame,
        _input: &'a Value,
    ) -> BoxFuture<'a, Result<Checked, Failure>> {
        Box::pin(async { Ok(Checked::default()) })
    }

    /// The origins of the parts of the input that others write, as the function's author declares them. They apply
    /// to every caller.
    fn declared_origins(&self, _input: &Value) -> Origins {
        Origins::TRUSTED
    }
    /// Returns true if the function's outcomes state the origins of their words. If not, a result for untrusted
    /// arguments is untrusted.
    fn knows_origins(&self) -> bool {
        false
    }
    /// Runs the call. Failures for the caller are values; `Err` is only for the infrastructure.
    fn run<'a>(&'a self, call: CompositeCall<'a>) -> BoxFuture<'a, Result<Outcome, Halt>>;
}

/// The name a model sees for a function: `/` and `:` become `__`, other characters `_`, at most 64
/// (`docs/reference/loop.md`).
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
