//! The toolset kind `custom`: a worker's functions in Python (`docs/guides/python-tools.md`) and in TypeScript
//! (`docs/guides/typescript-tools.md`).

use crate::{
    approval::HostedRule,
    discovery::{Described, ExposedTool, Sharing},
    explain, host,
    python::Python,
    tool::{HostedTool, OWN_WORK, Takes},
    view::{self, Reach},
};
use llm_do_core::{
    authority::{Authority, Network},
    function::{
        Concurrency, Function, FunctionMeta, FunctionSource, Implementation, OutputSchema, Risk, RuleCode,
        tool_name,
    },
    gate::{Pattern, Policy, Rule, RuleLine},
    journal::Runtime,
    origin::ResultOrigin,
    schema::Schema,
    send::BoxFuture,
    toolset::{ToolsetContext, ToolsetKind, ToolsetRuntime},
    worker::{CodeEntry, Language, ToolLevel, ToolModule, WorkerDefinition},
};
use serde_json::{Value, json};
use std::sync::Arc;

/// Name of the kind.
const NAME: &str = "custom";

/// Functions of code as tools.
pub struct Custom {
    python: Option<Arc<Python>>,
}

impl Custom {
    /// Creates the kind, with the Python that runs the code.
    pub fn new(python: Arc<Python>) -> Self {
        Self { python: Some(python) }
    }

    /// Creates the kind alone, for programs that are only read. It can't build tools.
    pub fn unbound() -> Self {
        Self { python: None }
    }

    fn python(&self) -> Result<&Arc<Python>, String> {
        self.python.as_ref().ok_or_else(|| "this host does not run tools of code".to_owned())
    }
}

impl ToolsetKind for Custom {
    fn name(&self) -> &'static str {
        NAME
    }

    fn tools_are_known(&self) -> bool {
        true
    }

    /// Returns true if the worker has Python tools: they are offered without a request in the worker's file.
    fn implied_by(&self, worker: &WorkerDefinition) -> bool {
        !worker.tools.is_empty()
    }

    /// Returns false if the worker has no module, because the toolset is empty then.
    fn starts_processes(&self, worker: &WorkerDefinition) -> bool {
        worker.code.is_some() || !worker.tools.is_empty()
    }

    fn runs_code(&self) -> bool {
        true
    }

    /// Returns false: a plain function doesn't ask. Another risk is known only after the import.
    fn may_ask(&self, _: &WorkerDefinition, _: &Value, _: Option<&[String]>) -> bool {
        false
    }

    fn configuration(&self) -> Schema {
        Schema::built_in(json!({
            "type": "object",
            "properties": {"module": {"type": "string"}},
            "additionalProperties": {
                "type": "object",
                "properties": {"pre_approved": {"type": "boolean"}, "approval_required": {"type": "boolean"}},
                "additionalProperties": false,
            },
        }))
    }
}

impl ToolsetRuntime for Custom {
    fn build<'a>(
        &'a self,
        configuration: &'a Value,
        context: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Result<Vec<Function>, String>> {
        Box::pin(async move { Building::new(self.python()?, context).tools(configuration).await })
    }

    fn entry<'a>(
        &'a self,
        code: &'a CodeEntry,
        context: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Result<Function, String>> {
        Box::pin(async move { Building::new(self.python()?, context).entry(code).await })
    }

    fn runtimes<'a>(&'a self, workers: &'a [Arc<WorkerDefinition>]) -> BoxFuture<'a, Vec<Runtime>> {
        Box::pin(async move {
            let Some(python) = &self.python else { return Vec::new() };
            let mut runtimes = Vec::new();
            for (language, name) in [(Language::Python, "python"), (Language::Script, "node")] {
                if !workers.iter().any(|worker| uses(worker, language)) {
                    continue;
                }
                let Ok(interpreter) = python.interpreter(language).await else { continue };
                let Some(confinement) = python.confiner().name() else { continue };
                runtimes.push(Runtime {
                    name: name.into(),
                    version: interpreter.version.as_str().into(),
                    path: interpreter.path.to_string_lossy().into(),
                    confinement: confinement.into(),
                });
            }
            runtimes
        })
    }

    fn ended<'a>(&'a self, run: &'a Arc<str>) -> BoxFuture<'a, Vec<String>> {
        Box::pin(async move {
            match &self.python {
                Some(python) => python.end(run).await,
                None => Vec::new(),
            }
        })
    }
}

/// Returns true if a worker has code in a language.
fn uses(worker: &WorkerDefinition, language: Language) -> bool {
    let modules = worker.tools.iter().flat_map(|level| &level.modules).map(|module| &module.module);
    let entry = worker.code.iter().map(|code| &code.module);
    modules.chain(entry).any(|module| module.language() == language)
}

/// Formats the place of a tool's definition, for messages.
fn place(tool: &ExposedTool, level: &ToolLevel) -> String {
    let file = tool.file.as_deref().unwrap_or("?");
    let file = explain::shown(file, &level.package.root);
    tool.line.map_or_else(|| file.to_owned(), |line| format!("{file}:{line}"))
}

/// Makes the tools of one worker.
struct Building<'a> {
    python: &'a Arc<Python>,
    context: &'a ToolsetContext<'a>,
    authority: Arc<Authority>,
}

impl<'a> Building<'a> {
    fn new(python: &'a Arc<Python>, context: &'a ToolsetContext<'a>) -> Self {
        Self { python, context, authority: Arc::new(context.authority.clone()) }
    }

    async fn tools(&self, configuration: &Value) -> Result<Vec<Function>, String> {
        let levels = &self.context.worker.tools;
        let named: Vec<&String> = configuration
            .as_object()
            .map(|own| own.iter().filter(|(_, value)| value.is_object()).map(|(name, _)| name).collect())
            .unwrap_or_default();
        let mut functions: Vec<Function> = Vec::new();
        let mut known: Vec<(Arc<str>, Language)> = Vec::new();
        for level in levels.iter() {
            let parts = level.parts();
            let mut exposed: Vec<(ToolModule, ExposedTool)> = Vec::new();
            for (language, part) in &parts {
                let described = self.python.describe(*language, part).await;
                let described = described.map_err(|error| error.to_string())?;
                let found = self.exposed(*language, part, &described).await?;
                let tools = found.into_iter().filter(|(module, tool)| !self.is_entry(module, tool));
                exposed.extend(tools.map(|(module, tool)| (module.clone(), tool.clone())));
            }
            let is_known = |name: &str| {
                known.iter().any(|(known, _)| **known == *name)
                    || exposed.iter().any(|(_, tool)| *tool.name == *name)
            };
            let names: Vec<&str> = self.names().filter(|name| !is_known(name)).collect();
            exposed.extend(self.listed(level, names).await);
            let reaches: Vec<(Language, Reach)> = parts
                .iter()
                .map(|(language, _)| {
                    let work = Some((self.context.run, &self.authority));
                    let reach = Reach::new(*language, &level.package, levels.iter(), work);
                    (*language, reach.for_worker(self.context.worker))
                })
                .collect();
            let before = functions.len();
            let mut used: Vec<Language> = Vec::new();
            for (at, (module, tool)) in exposed.iter().enumerate() {
                let language = module.module.language();
                if let Some((_, other)) = exposed[..at].iter().find(|(_, other)| other.name == tool.name) {
                    let (first, second) = (place(other, level), place(tool, level));
                    return Err(format!(
                        "{} has two tools `{}`: {first} and {second}",
                        level.name, tool.name
                    ));
                }
                if known.iter().any(|(name, other)| *name == tool.name && *other != language) {
                    return Err(format!(
                        "the tool `{}` ({}) is defined in Python and in TypeScript: rename one of them",
                        tool.name,
                        place(tool, level)
                    ));
                }
                if !known.iter().any(|(name, _)| *name == tool.name) {
                    known.push((Arc::clone(&tool.name), language));
                }
                // A tool of a nearer level has this name.
                if functions[..before].iter().any(|nearer| nearer.meta.name == tool.name) {
                    continue;
                }
                if !named.is_empty() && !named.iter().any(|name| **name == *tool.name) {
                    continue;
                }
                let Some((_, reach)) = reaches.iter().find(|(other, _)| *other == language) else { continue };
                let own = configuration.get(&*tool.name);
                functions.push(self.function(level, module, tool, reach, own)?);
                used.push(language);
            }
            for (_, reach) in reaches.iter().filter(|(language, _)| used.contains(language)) {
                self.python.warm(reach);
            }
        }
        if let Some(missing) = named.iter().find(|name| !functions.iter().any(|f| *f.meta.name == ***name)) {
            let known: Vec<&str> = known.iter().map(|(name, _)| &**name).collect();
            return Err(format!("there is no Python tool `{missing}`; there are: {}", known.join(", ")));
        }
        Ok(functions)
    }

    /// Returns the names that `custom.tools` lists.
    fn names(&self) -> impl Iterator<Item = &str> {
        let configured = self.context.worker.toolsets.iter().find(|(name, _)| &**name == NAME);
        let tools = configured.and_then(|(_, configuration)| configuration.get("tools")?.as_array());
        tools.into_iter().flatten().filter_map(Value::as_str)
    }

    /// Finds functions that `custom.tools` lists by name although their modules do not expose them.
    async fn listed(&self, level: &ToolLevel, names: Vec<&str>) -> Vec<(ToolModule, ExposedTool)> {
        let mut found = Vec::new();
        for name in names {
            for ToolModule { module, .. } in &level.modules {
                let module = ToolModule { module: module.clone(), names: vec![name.into()] };
                let only = ToolLevel { modules: vec![module.clone()], ..level.clone() };
                let described = self.python.describe(module.module.language(), &only).await;
                let Ok(described) = described else { continue };
                // The report of a module without that name has a problem.
                let report = described.modules.first().filter(|report| !report.has_problem());
                if let Some(tool) = report.and_then(|report| report.functions.first()) {
                    found.push((module, tool.clone()));
                    break;
                }
            }
        }
        found.retain(|(_, tool)| tool.refused.is_none() && !tool.untyped);
        found
    }

    /// Returns the functions of a level with their modules. A module that can't be imported is an error of the worker,
    /// because its tools are not known, and so is a function that can't be a tool. Workers that are found only when
    /// they are called were not inspected before.
    async fn exposed<'m>(
        &self,
        language: Language,
        level: &'m ToolLevel,
        described: &'m Described,
    ) -> Result<Vec<(&'m ToolModule, &'m ExposedTool)>, String> {
        let mut found = Vec::new();
        for (module, report) in level.modules.iter().zip(&described.modules) {
            let interpreter = self.python.interpreter(language).await.map_err(|error| error.to_string())?;
            let language = language.name();
            if let Some(problem) = report.problem(&level.package.root, &interpreter) {
                return Err(format!("its {language} tools can't be imported: {problem}"));
            }
            if let Some(tool) = report.functions.iter().find(|tool| tool.refused.is_some()) {
                let reason = tool.refused.as_deref().unwrap_or_default();
                let place = place(tool, level);
                return Err(format!(
                    "the {language} function `{}` ({place}) cannot be a tool: {reason}",
                    tool.name
                ));
            }
            found.extend(report.functions.iter().map(|f| (module, f)));
        }
        Ok(found)
    }

    /// Returns true if a function is the worker itself, and therefore not one of its tools.
    fn is_entry(&self, module: &ToolModule, tool: &ExposedTool) -> bool {
        let code = self.context.worker.code.as_ref();
        code.is_some_and(|code| code.module == module.module && code.function == tool.function)
    }

    async fn entry(&self, code: &CodeEntry) -> Result<Function, String> {
        let module = ToolModule { module: code.module.clone(), names: vec![Arc::clone(&code.function)] };
        let level = ToolLevel {
            name: "the entry".into(),
            package: Arc::clone(&code.package),
            modules: vec![module.clone()],
        };
        let language = code.module.language();
        let described = self.python.describe(language, &level).await.map_err(|error| error.to_string())?;
        let exposed = self.exposed(language, &level, &described).await?;
        let Some((_, tool)) = exposed.first() else {
            return Err(format!("the entry `{}` can't be called: there is no such function", code.function));
        };
        let levels = self.context.worker.tools.iter().chain([&level]);
        let work = Some((self.context.run, &self.authority));
        let reach = Reach::new(language, &level.package, levels, work).for_worker(self.context.worker);
        self.python.warm(&reach);
        let mut function = self.function(&level, &module, tool, &reach, None)?;
        let schema = Arc::clone(&function.meta.input);
        function.meta.input = Arc::new(Schema::built_in(json!({"type": "object"})));
        let meta = function.meta.clone();
        function.body = self.body(meta, &module, tool, &reach, Takes::Input(schema));
        Ok(function)
    }

    fn function(
        &self,
        level: &ToolLevel,
        module: &ToolModule,
        tool: &ExposedTool,
        reach: &Reach,
        own: Option<&Value>,
    ) -> Result<Function, String> {
        let language = module.module.language().name();
        let schema = |value: &Value, what: &str| {
            Schema::new(value.clone()).map(Arc::new).map_err(|error| {
                format!("the {what} of the {language} tool `{}` is no schema: {error}", tool.name)
            })
        };
        let foreign = matches!(level.package.source, FunctionSource::Library(_));
        let (risk, contained) = self.risk(tool, foreign);
        let source = match &level.package.source {
            library @ FunctionSource::Library(_) => library.clone(),
            _ => FunctionSource::Toolset(NAME.into()),
        };
        let meta = FunctionMeta {
            source,
            name: Arc::clone(&tool.name),
            tool_name: tool_name(&tool.name).into(),
            aliases: &[],
            description: match tool.description.is_empty() {
                true => format!("The {language} function `{}`.", tool.name).into(),
                false => Arc::clone(&tool.description),
            },
            input: schema(&tool.input, "arguments")?,
            output: tool
                .output
                .as_ref()
                .map(|output| schema(output, "result").map(OutputSchema::Derived))
                .transpose()?,
            risk,
            // Its author expects the state of its module in the order of the calls.
            concurrency: match tool.sharing() {
                Sharing::Beside | Sharing::Own => Concurrency::Parallel,
                Sharing::InTurn => Concurrency::Barrier,
            },
            timeout: None,
            contained,
            results: self.results(tool, foreign),
            wildcard: false,
            policy: self.policy(tool, own, foreign)?,
        };
        let body = self.body(meta.clone(), module, tool, reach, Takes::Arguments);
        let rule = (tool.approval.as_deref() == Some("callable")).then(|| {
            Arc::new(HostedRule {
                python: Arc::clone(self.python),
                reach: reach.clone(),
                module: host::module(&reach.package, &module.module, &module.names),
                function: Arc::clone(&tool.function),
                takes_origins: tool.approval_origins,
                covers_grants: !foreign && !self.python.confiner().is_unconfined(),
            }) as Arc<dyn RuleCode>
        });
        Ok(Function { meta, body, rule })
    }

    fn body(
        &self,
        meta: FunctionMeta,
        module: &ToolModule,
        tool: &ExposedTool,
        reach: &Reach,
        takes: Takes,
    ) -> Implementation {
        let composite = tool.context;
        let tool = Arc::new(HostedTool {
            python: Arc::clone(self.python),
            reach: reach.clone(),
            module: host::module(&reach.package, &module.module, &module.names),
            tool: tool.clone(),
            meta,
            takes,
            work: OWN_WORK,
        });
        if composite { Implementation::Composite(tool) } else { Implementation::Leaf(tool) }
    }

    /// Returns the risk of a function: the one that its author declares, or else the worst that its process can do.
    /// Code of a library, and code that can reach more than the program's own mounts, can only declare a higher risk
    /// than that. The second value is true if its effects stay in the program's own mounts.
    fn risk(&self, tool: &ExposedTool, foreign: bool) -> (Risk, bool) {
        let network = *self.authority.bounds().network() != Network::Off;
        let stated: Option<Risk> =
            tool.risk.as_ref().and_then(|risk| serde_json::from_value(json!(risk)).ok());
        let most = if foreign || self.python.confiner().is_unconfined() {
            Risk::Exec
        } else if network {
            Risk::Network
        } else if view::can_write(&self.authority) {
            Risk::Write
        } else {
            Risk::Read
        };
        let contained = !(foreign || network || self.python.confiner().is_unconfined());
        // A file of the program can't lower the risk of code that reaches more than the program's own mounts.
        let stated = stated.filter(|risk| contained || *risk >= most);
        (stated.unwrap_or(most), contained)
    }

    /// Returns the origin of its results: the declaration of its author, or else the origins that its process can read.
    /// Code of a library can only declare more of its results untrusted.
    fn results(&self, tool: &ExposedTool, foreign: bool) -> ResultOrigin {
        let suspect = self.authority.reaches_untrusted() || self.python.confiner().is_unconfined();
        match tool.results() {
            // Not the default: it holds where the process can read untrusted files too.
            Some(ResultOrigin::Trusted) if !foreign => ResultOrigin::Fields(Arc::new([])),
            Some(declared) if !(foreign && suspect) => declared,
            _ if suspect => ResultOrigin::Untrusted,
            _ => ResultOrigin::Trusted,
        }
    }

    /// Returns the toolset's `approval`, with the rules of the configuration and of the author for this tool.
    fn policy(
        &self,
        tool: &ExposedTool,
        own: Option<&Value>,
        foreign: bool,
    ) -> Result<Option<Arc<Policy>>, String> {
        let flag = |key: &str| own.and_then(|own| own.get(key)).and_then(Value::as_bool);
        let configured = flag("pre_approved").or(flag("approval_required").map(|required| !required));
        let configured = configured.map(|free| if free { Rule::PreApproved } else { Rule::Ask });
        let stated: Option<Rule> = match tool.approval.as_deref() {
            Some("callable") | None => None,
            Some(rule) => Some(
                serde_json::from_value(json!(rule))
                    .map_err(|_| format!("the tool `{}` states the approval `{rule}`", tool.name))?,
            ),
        };
        let outer = self.context.policy.as_ref();
        let mut policy = outer.map_or_else(
            || Policy {
                written_at: format!("{}: toolsets.{NAME}", self.context.worker.id).into(),
                ..Policy::default()
            },
            |policy| (**policy).clone(),
        );
        let line = |rule, written_at: String| -> Result<RuleLine, String> {
            let pattern = Pattern::parse(&tool_name(&tool.name)).map_err(|error| error.to_string())?;
            Ok(RuleLine::new(pattern, rule, written_at))
        };
        if let Some(rule) = configured {
            let written_at = format!("{}: toolsets.{NAME}.{}", self.context.worker.id, tool.name);
            policy.lines.push(line(rule, written_at)?);
        } else if let Some(rule) = stated {
            policy.lines.push(line(rule, format!("@tool of `{}`", tool.name))?);
        } else if policy.default.is_none() && tool.risk.is_none() && !foreign {
            // A plain function of the program needs no approval to write: its effects stay in the program's own mounts.
            policy.risks.entry(Risk::Write).or_insert(Rule::PreApproved);
        }
        Ok(Some(Arc::new(policy)))
    }
}
