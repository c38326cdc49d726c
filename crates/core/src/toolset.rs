//! Toolsets: named, configurable families of tools.
//!
//! A kind describes itself: its name, the schema of its configuration, a factory, and the properties that the rest of
//! the system needs. The engine, `check` and the hosts know no kind by name. The built-in kinds are registered in the
//! same way as an embedding program's own.

mod served;

pub use served::WithServed;

use crate::{
    authority::{Authority, Extent, Mount, Network, Place, VirtualPath},
    client_tool::ClientTool,
    code::CodeEntry,
    definition::{Definitions, WorkerDefinition},
    function::Function,
    gate::{Pattern, Policy, RuleLine},
    journal::Runtime,
    listing::Listing,
    risk::Risk,
    rule::Rule,
    schema::Schema,
    send::{BoxFuture, MaybeSend, MaybeSync},
    template::{Insert, TemplateName},
    vfs::FileSystem,
};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// The data that a factory receives.
pub struct ToolsetContext<'a> {
    /// ID of the run that the tools are made for.
    pub run: &'a Arc<str>,
    /// The worker that the tools are for.
    pub worker: &'a Arc<WorkerDefinition>,
    /// The authority of the worker's calls.
    pub authority: &'a Authority,
    /// The program.
    pub definitions: &'a Arc<dyn Definitions>,
    /// All kinds that the host knows.
    pub kinds: &'a ToolsetRegistry,
    /// The toolset's `approval`, parsed.
    pub policy: Option<Arc<Policy>>,
    /// The tools that the client of the run declares.
    pub client_tools: &'a [ClientTool],
    /// The result of [`ToolsetRuntime::list`] for this worker in this run, if the kind lists its tools.
    pub listing: Option<&'a Listing>,
}

/// A capability that a toolset needs from the operator because of its configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// A process with exactly this command line.
    Process(Arc<str>),
    /// The value of an environment variable, for a process or an external host.
    Variable(Arc<str>),
    /// A place outside the program.
    Place(Extent),
    /// External servers that llm-do itself talks to.
    Network(Network),
}

/// A part of a valid configuration that can't work, whatever the operator grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigurationProblem {
    /// JSON Pointer to the part.
    pub pointer: String,
    /// The reason why the part can't work.
    pub reason: String,
}

/// Definitions that a manifest holds under a key of its own, so that workers can list them by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declarations {
    /// The manifest's key: a map of definitions by name.
    pub manifest_key: &'static str,
    /// The property of the configuration that holds such a map, or a list of names.
    pub property: &'static str,
    /// A noun for a definition: `MCP server`.
    pub noun: &'static str,
    /// A name that workers can list without a definition; its meaning is known only in a run.
    pub reserved: Option<&'static str>,
}

/// The folders of skills that the configuration of a toolset names. The front end reads the skills in them into the
/// worker's definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkillFolders {
    /// The property of the configuration that lists the folders, below the root of the worker's package.
    pub property: &'static str,
    /// The folders that are searched if the property is absent, as far as they exist.
    pub default: &'static [&'static str],
}

/// The calls that run without a question after a tool has returned a result. All other calls that the result led to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Narrowed {
    /// The patterns of rules that match these calls.
    pub to: Vec<Arc<str>>,
    /// The reason for a question about another call.
    pub by: Arc<str>,
    /// A folder of the view in which reading stays as it was.
    pub readable: VirtualPath,
}

/// Files of a program that a process executes because of a configuration. A worker that could write them could choose
/// the code that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// Programs and scripts, and folders of packages.
    pub files: Vec<Place>,
    /// Folders from which Python scripts import modules.
    pub importing: Vec<Place>,
}

impl Executed {
    /// Combines the files of both.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.files.extend(other.files);
        self.importing.extend(other.importing);
        self
    }
}

/// The tools of a worker's toolset that are known before an external server lists them.
#[derive(Clone, Debug, Default)]
pub struct ForeseenTools {
    /// The tools that the operator has agreed to.
    pub tools: Vec<ForeseenTool>,
    /// Prefixes of the names of tools that become known only in a run: `s:`.
    pub open: Vec<String>,
}

/// A tool that is known before a run.
#[derive(Clone, Debug)]
pub struct ForeseenTool {
    /// The tool's name in rules and records.
    pub name: Arc<str>,
    /// The tool's name for models.
    pub tool_name: Arc<str>,
    /// The schema of its arguments. `None` if only the pin of its definition is known.
    pub input: Option<Arc<Value>>,
}

/// A tool that the configuration of a toolset makes.
#[derive(Clone, Debug)]
pub struct ConfiguredTool {
    /// The name.
    pub name: Arc<str>,
    /// The risk of its calls.
    pub risk: Risk,
    /// The schema of its arguments.
    pub input: Arc<Value>,
    /// True if the pattern of a rule is compared with one of its arguments.
    pub has_main_argument: bool,
}

/// An older key of a toolset's configuration, a boolean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldApproval {
    /// The key.
    pub key: &'static str,
    /// The tools that ask if the value is true.
    pub ask: &'static [&'static str],
    /// The tools that run without asking if the value is false.
    pub run: &'static [&'static str],
}

/// A kind of toolset, as the front end, `check` and editors see it: names, schemas, and answers about a configuration.
/// A description has no effects. [`ToolsetRuntime`] makes the tools.
pub trait ToolsetKind: MaybeSend + MaybeSync {
    /// The kind's name in `toolsets`.
    fn name(&self) -> &'static str;
    /// Older names of the kind.
    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }
    /// Older names of keys of its configuration, each with its present name.
    fn old_keys(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }
    /// Older keys that decide for several of its tools whether a call asks.
    fn old_approvals(&self) -> &'static [OldApproval] {
        &[]
    }
    /// Names of its tools that are the same for every worker with the toolset. No other function of a worker may have
    /// one of these names.
    fn tools(&self) -> &[&'static str] {
        &[]
    }
    /// The tools that a configuration makes in addition to [`ToolsetKind::tools`].
    fn configured(&self, _configuration: &Value) -> Vec<ConfiguredTool> {
        Vec::new()
    }
    /// Returns true if the names of its tools are also reserved in workers of the program that do not have the toolset.
    fn reserves_everywhere(&self) -> bool {
        true
    }
    /// The risk of one of these tools.
    fn risk(&self, _tool: &str) -> Option<Risk> {
        None
    }
    /// The schema of the input of one of these tools or names, if it is the same for every worker.
    fn input(&self, _tool: &str) -> Option<Schema> {
        None
    }
    /// Returns true if one of these tools or names has a main argument, which the pattern of a rule is compared with.
    fn has_main_argument(&self, _tool: &str) -> bool {
        false
    }
    /// Returns true if a reader of definitions can name all of its tools: those of [`ToolsetKind::tools`], a worker's
    /// functions of code, or its callees.
    fn tools_are_known(&self) -> bool {
        !self.tools().is_empty()
    }
    /// Names that rules may use for its tools in addition to their own.
    fn rule_names(&self) -> &'static [&'static str] {
        &[]
    }
    /// The tool that reads more of a long result that was cut, if it belongs to this kind.
    fn result_reader(&self) -> Option<&'static str> {
        None
    }
    /// Returns true if a worker has the toolset without naming it in `toolsets`, because of another declaration.
    fn implied_by(&self, _worker: &WorkerDefinition) -> bool {
        false
    }
    /// Returns true if the kind starts processes for that worker.
    fn starts_processes(&self, _worker: &WorkerDefinition) -> bool {
        false
    }
    /// Returns true if the kind makes functions of code: a worker's own tools, and workers that are code.
    fn runs_code(&self) -> bool {
        false
    }
    /// Returns true if its tools only call workers and have no other effect.
    fn delegates(&self) -> bool {
        false
    }
    /// Returns true if calls of its tools may need an approval, judged before the tools are made. `configuration` is
    /// the kind's own part, without the keys that every toolset takes; `tools` are the names to which the toolset is
    /// narrowed.
    fn may_ask(&self, _worker: &WorkerDefinition, _configuration: &Value, _tools: Option<&[String]>) -> bool {
        true
    }
    /// Returns true if the client of a run declares the tools. A worker may name tools that the client of a run does not
    /// have.
    fn is_of_client(&self) -> bool {
        false
    }
    /// Returns true if a worker can pass the toolset on to a worker that it makes during a run.
    fn inheritable(&self) -> bool {
        !self.delegates()
    }
    /// The definitions of a manifest that its configuration may name.
    fn declarations(&self) -> Option<Declarations> {
        None
    }
    /// The problems of a valid configuration for that worker, whatever the operator grants.
    fn problems(&self, _worker: &WorkerDefinition, _configuration: &Value) -> Vec<ConfigurationProblem> {
        Vec::new()
    }
    /// The capabilities that it needs from the operator for that worker. `configuration` is valid and has no
    /// [problems](ToolsetKind::problems).
    fn requires(&self, _worker: &WorkerDefinition, _configuration: &Value) -> Vec<Requirement> {
        Vec::new()
    }
    /// The tools of a worker of the program in `root` that are known before a run, for a kind whose tools an external
    /// server lists.
    fn foreseen(&self, _worker: &WorkerDefinition, _configuration: &Value, _root: &Place) -> ForeseenTools {
        ForeseenTools::default()
    }
    /// The files of a program that processes of that worker's toolset execute. `folders` are the possible working
    /// directories of such a process.
    fn executes(&self, _worker: &WorkerDefinition, _configuration: &Value, _folders: &[Place]) -> Executed {
        Executed::default()
    }
    /// Returns true if an external server lists its tools, so that [`ToolsetRuntime::list`] is called before they are
    /// made.
    fn lists(&self) -> bool {
        false
    }
    /// Returns true if the kind shows mounts to a worker ([`ToolsetKind::mounts`]).
    fn has_mounts(&self) -> bool {
        false
    }
    /// The mounts that the kind shows to the worker for reading: of [served](Place::served) places, or of folders that
    /// belong to the worker's definition. In a run, [`ToolsetRuntime::mounts_in`] has them.
    fn mounts(&self, _worker: &WorkerDefinition, _configuration: &Value) -> Vec<Mount> {
        Vec::new()
    }
    /// The folders of skills that its configuration names, if it offers skills.
    fn skill_folders(&self) -> Option<SkillFolders> {
        None
    }
    /// The calls to which a result of one of its tools narrows what follows from the result. `configuration` is that of a
    /// worker in the chain of callers. The `arguments` of the call are absent if they do not name the whole result. Only
    /// a kind with [`ToolsetKind::skill_folders`] is asked.
    fn narrows(
        &self,
        _configuration: &Value,
        _arguments: Option<&Value>,
        _result: &Value,
    ) -> Option<Narrowed> {
        None
    }
    /// Returns true if the kind inserts texts into templates, by `file("KIND:NAME", ARGUMENT=…)` with its name as KIND.
    fn inserts(&self) -> bool {
        false
    }
    /// Checks that a worker with this configuration can have a text of that name, as far as this is known before a run.
    ///
    /// # Errors
    /// The worker can't have the text; the error has the reason.
    fn check_insert(&self, _configuration: &Value, name: &str) -> Result<(), String> {
        Err(format!("the toolset `{}` has no text `{name}`", self.name()))
    }
    /// Schema of its configuration, without `tools` and `approval`, which every toolset takes. By default there are no
    /// other keys.
    fn configuration(&self) -> Schema {
        Schema::of_keys(serde_json::json!({}))
    }
    /// Makes a worker again that `creator` has generated with these arguments. Only a kind that generates workers has
    /// any.
    ///
    /// # Errors
    /// The arguments don't make a worker.
    fn generated(
        &self,
        _kinds: &ToolsetRegistry,
        _run: &str,
        _creator: &WorkerDefinition,
        name: &str,
        _arguments: &Value,
    ) -> Result<Arc<WorkerDefinition>, String> {
        Err(format!("the toolset `{}` generates no workers, and so not `{name}`", self.name()))
    }
}

/// The runtime of a kind of toolset: it opens servers, makes the tools of a run, and ends with the run.
pub trait ToolsetRuntime: ToolsetKind {
    /// Asks an external server for its tools. This is a step: the answer is recorded. `configuration` is valid. A
    /// server that can't be asked is a notice, not an error.
    fn list<'a>(
        &'a self,
        _configuration: &'a Value,
        _context: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Listing> {
        Box::pin(async { Listing::default() })
    }
    /// The mounts of [`ToolsetKind::mounts`] in a run. `context` has the worker's authority without them. Starts nothing.
    fn mounts_in(
        &self,
        worker: &WorkerDefinition,
        configuration: &Value,
        _context: &ToolsetContext<'_>,
    ) -> Vec<Mount> {
        self.mounts(worker, configuration)
    }
    /// The file system that reads the places of [`ToolsetKind::mounts`].
    fn served(&self) -> Option<&dyn FileSystem> {
        None
    }
    /// A text for the worker's templates. Called within a step.
    ///
    /// # Errors
    /// There is no text; the error has the reason. It may contain words of others.
    fn insert<'a>(
        &'a self,
        _configuration: &'a Value,
        _context: &'a ToolsetContext<'a>,
        insert: &'a Insert,
    ) -> BoxFuture<'a, Result<Arc<str>, String>> {
        Box::pin(async { Err(format!("the toolset `{}` has no text `{}`", self.name(), insert.name)) })
    }
    /// Makes the tools. `configuration` is valid.
    fn build<'a>(
        &'a self,
        configuration: &'a Value,
        context: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Result<Vec<Function>, String>>;
    /// The function of a worker that is code. Only a kind that runs code has any.
    fn entry<'a>(
        &'a self,
        _code: &'a CodeEntry,
        _context: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Result<Function, String>> {
        Box::pin(async { Err(format!("the toolset `{}` runs no code", self.name())) })
    }
    /// The runtimes of the tools of these workers, for the start record. Empty if the kind starts no processes, or can't.
    fn runtimes<'a>(&'a self, _workers: &'a [Arc<WorkerDefinition>]) -> BoxFuture<'a, Vec<Runtime>> {
        Box::pin(async { Vec::new() })
    }
    /// The run with that ID has ended: asks its processes to end, without waiting. Called for every kind before the
    /// first [`ToolsetRuntime::ended`], which waits.
    fn ending(&self, _run: &str) {}
    /// The run with that ID has ended: releases the processes and connections that the kind holds for it. Returns
    /// notices for the operator about anything that its tools left behind.
    fn ended<'a>(&'a self, _run: &'a Arc<str>) -> BoxFuture<'a, Vec<String>> {
        Box::pin(async { Vec::new() })
    }
}

/// The kinds that a host knows.
#[derive(Clone, Default)]
pub struct ToolsetRegistry {
    kinds: BTreeMap<&'static str, Arc<dyn ToolsetKind>>,
    /// The runtimes of those that the host can run.
    runtimes: BTreeMap<&'static str, Arc<dyn ToolsetRuntime>>,
}

impl ToolsetRegistry {
    /// Adds a kind with its runtime.
    pub fn register(&mut self, kind: Arc<dyn ToolsetRuntime>) {
        self.kinds.insert(kind.name(), Arc::clone(&kind) as _);
        self.runtimes.insert(kind.name(), kind);
    }
    /// Adds a kind that the host can only describe. A worker that has the toolset can be checked, and not run.
    pub fn describe(&mut self, kind: Arc<dyn ToolsetKind>) {
        self.runtimes.remove(kind.name());
        self.kinds.insert(kind.name(), kind);
    }
    /// The runtime of the kind of that name or alias.
    ///
    /// # Errors
    /// The host does not run the kind, or does not know it.
    pub fn runtime(&self, name: &str) -> Result<&Arc<dyn ToolsetRuntime>, String> {
        let kind = self.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.names().collect();
            format!("there is no toolset `{name}`; there are: {}", known.join(", "))
        })?;
        self.runtimes.get(kind.name()).ok_or_else(|| format!("this host does not run the toolset `{name}`"))
    }
    /// The kind of that name or alias.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn ToolsetKind>> {
        self.kinds.get(name).or_else(|| self.kinds.values().find(|kind| kind.aliases().contains(&name)))
    }
    /// The kinds, by name.
    pub fn kinds(&self) -> impl Iterator<Item = &Arc<dyn ToolsetKind>> {
        self.kinds.values()
    }
    /// The kind that reserves one of these names and for which `counts` is true. No other function may have such a
    /// name: a rule for `shell` refers to the tool of llm-do.
    pub fn reserving(
        &self,
        names: &[&str],
        counts: impl Fn(&dyn ToolsetKind) -> bool,
    ) -> Option<&Arc<dyn ToolsetKind>> {
        let reserves = |kind: &dyn ToolsetKind| {
            kind.tools().iter().chain(kind.rule_names()).any(|name| names.contains(name))
        };
        self.kinds().find(|kind| reserves(&***kind) && counts(&***kind))
    }
    /// The kind that makes functions of code, if the host has one.
    pub fn code(&self) -> Option<&Arc<dyn ToolsetKind>> {
        self.kinds().find(|kind| kind.runs_code())
    }
    /// The kind that offers the callees of a worker, if the host has one.
    pub fn delegation(&self) -> Option<&Arc<dyn ToolsetKind>> {
        self.kinds().find(|kind| kind.delegates())
    }
    /// Makes a worker again that `creator` has generated with these arguments.
    ///
    /// # Errors
    /// The host has no kind that generates workers, or the arguments don't make one.
    pub fn generated(
        &self,
        run: &str,
        creator: &WorkerDefinition,
        name: &str,
        arguments: &Value,
    ) -> Result<Arc<WorkerDefinition>, String> {
        let kind = self.delegation().ok_or_else(|| format!("nothing here generates `{name}`"))?;
        kind.generated(self, run, creator, name, arguments)
    }
    /// Returns true if calls of that worker's tools may need an approval, judged before the tools are made.
    pub fn may_ask(&self, worker: &WorkerDefinition) -> bool {
        self.of(worker).iter().any(|(name, whole)| {
            let Configuration { own, tools, .. } = Configuration::parse(whole, name).unwrap_or_default();
            self.get(name).is_none_or(|kind| kind.may_ask(worker, &own, tools.as_deref()))
        })
    }
    /// Returns true if any kind starts processes for that worker.
    pub fn starts_processes(&self, worker: &WorkerDefinition) -> bool {
        self.kinds().any(|kind| kind.starts_processes(worker))
    }
    /// The kinds of that worker's toolsets, each with its own part of the configuration.
    pub fn configured(&self, worker: &WorkerDefinition) -> Vec<(&Arc<dyn ToolsetKind>, Value)> {
        let kinds = self.of(worker).into_iter().filter_map(|(name, whole)| {
            let kind = self.get(&name)?;
            Some((kind, Configuration::parse(&whole, &name).unwrap_or_default().own))
        });
        kinds.collect()
    }
    /// The capabilities that the toolsets of that worker need from the operator.
    pub fn requires(&self, worker: &WorkerDefinition) -> Vec<Requirement> {
        let kinds = self.configured(worker).into_iter();
        kinds.flat_map(|(kind, own)| kind.requires(worker, &own)).collect()
    }
    /// The mounts that the toolsets of that worker show to it ([`ToolsetKind::mounts`]).
    pub fn mounts(&self, worker: &WorkerDefinition, context: Option<&ToolsetContext<'_>>) -> Vec<Mount> {
        let mut mounts = Vec::new();
        for (name, whole) in &worker.toolsets {
            let Some(kind) = self.get(name).filter(|kind| kind.has_mounts()) else { continue };
            let Configuration { own, .. } = Configuration::parse(whole, name).unwrap_or_default();
            mounts.extend(match (context, self.runtimes.get(kind.name())) {
                (Some(context), Some(runtime)) => runtime.mounts_in(worker, &own, context),
                _ => kind.mounts(worker, &own),
            });
        }
        mounts
    }
    /// The names of the kinds that insert texts into templates.
    pub fn inserting(&self) -> Vec<&'static str> {
        self.kinds().filter(|kind| kind.inserts()).map(|kind| kind.name()).collect()
    }
    /// Checks that templates of that worker can insert the text of that name. `None` if it is the name of a file.
    pub fn check_insert(&self, worker: &WorkerDefinition, name: &TemplateName) -> Option<Result<(), String>> {
        let kind = self.get(name.library()?).filter(|kind| kind.inserts())?;
        Some(match self.own_part(worker, kind.name()) {
            Some(own) => kind.check_insert(&own, name.path()),
            None => Err(without(worker, kind.name())),
        })
    }
    /// A text for the templates of the context's worker.
    ///
    /// # Errors
    /// There is no text; the error has the reason. It may contain words of others.
    pub async fn insert(&self, context: &ToolsetContext<'_>, insert: &Insert) -> Result<Arc<str>, String> {
        let kind = self.runtime(&insert.kind)?;
        let own = self.own_part(context.worker, kind.name());
        let own = own.ok_or_else(|| without(context.worker, kind.name()))?;
        kind.insert(&own, context, insert).await
    }
    /// The kind's own part of the configuration of a worker that has the toolset.
    fn own_part(&self, worker: &WorkerDefinition, kind: &str) -> Option<Value> {
        let (name, whole) = worker.toolsets.iter().find(|(name, _)| **name == *kind)?;
        Some(Configuration::parse(whole, name).unwrap_or_default().own)
    }
    /// The files that processes of that worker's toolsets execute.
    pub fn executes(&self, worker: &WorkerDefinition, folders: &[Place]) -> Executed {
        let kinds = self.configured(worker).into_iter();
        let all = kinds.map(|(kind, own)| kind.executes(worker, &own, folders));
        all.fold(Executed::default(), Executed::and)
    }
    /// Returns true if one of these functions reads more of long results that were cut.
    pub fn reads_results(&self, functions: &[Function]) -> bool {
        self.kinds()
            .filter_map(|kind| kind.result_reader())
            .any(|reader| functions.iter().any(|function| *function.meta.tool_name == *reader))
    }
    /// The toolsets of a worker with their configurations: those that the worker names, and those that another
    /// declaration implies.
    pub fn of(&self, worker: &WorkerDefinition) -> Vec<(Arc<str>, Arc<Value>)> {
        let mut all = worker.toolsets.clone();
        for kind in self.kinds().filter(|kind| kind.implied_by(worker)) {
            if !all.iter().any(|(name, _)| **name == *kind.name()) {
                all.push((kind.name().into(), Arc::new(Value::Object(serde_json::Map::new()))));
            }
        }
        all
    }
    /// Returns true if the worker gets the tools that the client of a run declares.
    pub fn has_client_tools(&self, worker: &WorkerDefinition) -> bool {
        let mut names = worker.toolsets.iter().map(|(name, _)| name);
        names.any(|name| self.get(name).is_some_and(|kind| kind.is_of_client()))
    }
    /// Informs every kind that the run with that ID has ended. Returns their notices for the operator.
    pub async fn ended(&self, run: &Arc<str>) -> Vec<String> {
        self.runtimes.values().for_each(|kind| kind.ending(run));
        let mut notices = Vec::new();
        for kind in self.runtimes.values() {
            notices.extend(kind.ended(run).await);
        }
        notices
    }
    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.kinds.keys().copied()
    }
}

fn without(worker: &WorkerDefinition, kind: &str) -> String {
    format!("`{}` does not have the toolset `{kind}`", worker.id)
}

/// A toolset's configuration, taken apart.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    /// The part that belongs to the kind.
    pub own: Value,
    /// `tools`: offer only these.
    pub tools: Option<Vec<String>>,
    /// `approval`.
    pub policy: Option<Arc<Policy>>,
}

impl Configuration {
    /// Splits off the keys that every toolset takes: `tools: [names]` and `approval {default, tools}`. `written_at`
    /// names the approval block in verdicts.
    pub fn parse(whole: &Value, written_at: &str) -> Result<Self, String> {
        let mut own = match whole {
            Value::Null => serde_json::Map::new(),
            Value::Object(map) => map.clone(),
            _ => return Err("its configuration must be a map".into()),
        };
        let tools = own.shift_remove("tools").map(serde_json::from_value).transpose();
        let tools = tools.map_err(|_| "`tools` must be a list of names".to_owned())?;
        let policy =
            own.shift_remove("approval").map(|block| parse_policy(&block, written_at)).transpose()?;
        Ok(Self { own: Value::Object(own), tools, policy: policy.map(Arc::new) })
    }
}

fn parse_policy(block: &Value, written_at: &str) -> Result<Policy, String> {
    let rule = |value: &Value| {
        serde_json::from_value::<Rule>(value.clone())
            .map_err(|_| format!("`approval` takes preApproved, ask or blocked, not `{value}`"))
    };
    let map = block.as_object().ok_or("`approval` must be a map with `default` and `tools`")?;
    let mut policy = Policy { written_at: written_at.into(), ..Policy::default() };
    for (key, value) in map {
        match key.as_str() {
            "default" => policy.default = Some(rule(value)?),
            "tools" => {
                for (pattern, value) in
                    value.as_object().ok_or("`approval.tools` must be a map of tool: rule")?
                {
                    let written_at = format!("{written_at}.tools.{pattern}");
                    let pattern = Pattern::parse(pattern).map_err(|error| error.to_string())?;
                    policy.lines.push(RuleLine::new(pattern, rule(value)?, written_at));
                }
            }
            other => return Err(format!("`approval` has no key `{other}`; it takes `default` and `tools`")),
        }
    }
    Ok(policy)
}
