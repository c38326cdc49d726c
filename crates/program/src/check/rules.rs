//! Rules that name functions which do not exist: such a rule protects nothing. See `docs/reference/approvals.md`.
//!
//! A worker's rules apply to the calls of the worker and its callees, those of the manifest to all workers of the
//! program, and those of the operator to the workers of the run.

use super::{exposed::Exposed, scope::Scope};
use crate::{
    diagnostics::{Diagnostic, codes},
    effective::Effective,
    resolve::is_glob,
    rules::{FileRule, GuessedTest},
    shape::rule_of,
    skills::AllowedTool,
    span::{SourceFile, Span},
    toolsets::Toolsets,
    yaml::Node,
};
use globset::{Glob, GlobMatcher};
use llm_do_core::{
    function::tool_name,
    gate::{Calls, Pattern, Rule, RuleLine, Set, ToolSet},
    toolset::{Configuration, ForeseenTools, ToolsetKind},
};
use serde_json::Value;
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

/// A rule, or a condition of `ensures`, as far as it names functions.
struct Naming<'a> {
    /// `write_file`, `fs__*`.
    function: &'a str,
    /// The place in a file; a rule of the operator has none.
    span: Option<&'a Span>,
    /// The key or option that contains it, quoted.
    source: String,
    /// The pattern and the conditions on the function's arguments.
    arguments: Option<Arguments<'a>>,
}

/// The pattern and the conditions of a rule on arguments.
struct Arguments<'a> {
    calls: Cow<'a, Calls>,
    rule: Option<Rule>,
    /// The places of its tests; a rule of the operator has none.
    tests: &'a [Span],
}

impl<'a> Naming<'a> {
    fn new(text: &'a str, span: Option<&'a Span>, source: impl Into<String>) -> Self {
        let function = text.split('(').next().unwrap_or_default().trim();
        Self { function, span, source: source.into(), arguments: None }
    }

    /// Returns the naming of a file's rule.
    fn of_file(rule: &'a FileRule, source: &str) -> Self {
        let arguments = Arguments { calls: Cow::Borrowed(&rule.calls), rule: rule.rule, tests: &rule.tests };
        let naming = Self::new(rule.calls.pattern.tool(), Some(&rule.span), source);
        Self { arguments: Some(arguments), ..naming }
    }

    fn is_in(&self, file: &Arc<SourceFile>) -> bool {
        self.span.is_some_and(|span| Arc::ptr_eq(span.file(), file))
    }

    fn is_pattern(&self) -> bool {
        is_glob(self.function) || self.function.contains(['{', '\\'])
    }
}

/// The functions that a rule may name.
#[derive(Default)]
struct Functions {
    names: BTreeSet<String>,
    /// The arguments of those functions whose arguments are known.
    signatures: BTreeMap<String, Signature>,
    /// Matches the workers that only a pattern of an allowlist names.
    globs: Vec<GlobMatcher>,
    /// The toolset, if all of the tools belong to it.
    toolset: Option<&'static str>,
    /// True if there may be functions that are only known in a run.
    open: bool,
    /// Prefixes of the names of such functions.
    open_names: Vec<String>,
    /// True if errors, or Python that was not inspected, hide some functions.
    hidden: bool,
}

/// The arguments of a function.
#[derive(Clone)]
struct Signature {
    /// The schema of its input, where it is known.
    input: Option<Arc<Value>>,
    /// True if one of the arguments is the main one, which the pattern of a rule is compared with.
    has_main: bool,
}

/// Checks the rules of the workers: `tool_rules`, `ensures`, and the `approval.tools` of their toolsets.
pub(super) fn of_workers(scope: &Scope<'_>, found: &mut Vec<Diagnostic>) {
    scope.each(found, |effective, found| {
        of_skills(scope, effective, found);
        test(of_calls(effective), || Functions::of(scope, &closure(scope, effective)), found);
        test(judges(effective), || Functions::of(scope, &[effective]), found);
        let file = effective.keys.span.file();
        for (kind, namings) in of_toolsets(scope, &effective.toolsets) {
            let own = namings.into_iter().filter(|naming| naming.is_in(file)).collect();
            test(own, || Functions::of_kind(scope, &[effective], kind), found);
        }
    });
}

/// Checks the rules of the manifest: `approval.tools`, and those of its `toolsets`. With `whole`, the scope has all
/// workers of the program.
pub(super) fn of_manifest(scope: &Scope<'_>, whole: bool, found: &mut Vec<Diagnostic>) {
    let program = scope.packages.program();
    let workers: Vec<&Effective> = scope.workers.values().map(AsRef::as_ref).collect();
    let settle = |mut functions: Functions| {
        functions.hidden |= !scope.complete;
        if whole {
            functions.globs.clear();
        }
        functions
    };
    test(of_approval(scope), || settle(Functions::of(scope, &workers)), found);
    for (kind, namings) in of_toolsets(scope, &program.toolsets) {
        test(namings, || settle(Functions::of_kind(scope, &workers, kind)), found);
    }
}

/// Checks the functions that the cases of a worker name, each with its place. Those of `calls` have a pattern and
/// conditions, those of `given` do not.
pub(super) fn of_cases(
    scope: &Scope<'_>,
    worker: &Effective,
    named: Vec<(&str, &Span, Option<&Calls>)>,
    found: &mut Vec<Diagnostic>,
) {
    let namings = named.into_iter().map(|(function, span, calls)| match calls {
        None => Naming::new(function, Some(span), "`given`"),
        Some(calls) => {
            let arguments = Arguments { calls: Cow::Borrowed(calls), rule: None, tests: &[] };
            // A call is compared by any of its texts: a pattern with an argument fits tools without a main one, too.
            let arguments = (!calls.conditions.is_empty()).then_some(arguments);
            Naming { arguments, ..Naming::new(function, Some(span), "`calls`") }
        }
    });
    test(namings.collect(), || Functions::of(scope, &closure(scope, worker)), found);
}

/// Checks the rules of the operator, which apply to the calls of a run.
pub(crate) fn of_operator(scope: &Scope<'_>, rules: &[RuleLine]) -> Vec<Diagnostic> {
    let lines = rules.iter().map(|line| {
        let arguments = Arguments { calls: Cow::Owned(line.calls()), rule: Some(line.rule), tests: &[] };
        let naming = Naming::new(line.pattern.tool(), None, format!("`{}`", line.written_at));
        Naming { arguments: Some(arguments), ..naming }
    });
    let namings: Vec<Naming<'_>> = lines.collect();
    let read = read_code_for(scope, namings.iter().map(|naming| naming.function));
    let scope = &Scope { exposed: read.as_ref().unwrap_or(scope.exposed), ..scope.clone() };
    let workers: Vec<&Effective> = scope.workers.values().map(AsRef::as_ref).collect();
    let mut found = Vec::new();
    test(namings, || Functions::of(scope, &workers), &mut found);
    found
}

/// Inspects the Python of the workers of a run if their rules, or those of the manifest, may depend on it.
pub(super) fn read_code(scope: &Scope<'_>) -> Option<Exposed> {
    let mut named: Vec<String> = Vec::new();
    let mut add = |namings: Vec<Naming<'_>>| {
        named.extend(namings.iter().map(|naming| naming.function.to_owned()));
    };
    for effective in scope.workers.values() {
        add(of_calls(effective));
        add(judges(effective));
        of_toolsets(scope, &effective.toolsets).into_iter().for_each(|(_, namings)| add(namings));
    }
    add(of_approval(scope));
    read_code_for(scope, named.iter().map(String::as_str))
}

/// Inspects the Python of the workers if one of these functions can only be defined there.
fn read_code_for<'n>(scope: &Scope<'_>, named: impl Iterator<Item = &'n str>) -> Option<Exposed> {
    let mut named = named.peekable();
    named.peek()?;
    let workers: Vec<&Effective> = scope.workers.values().map(AsRef::as_ref).collect();
    let functions = Functions::of(scope, &workers);
    if !functions.hidden || named.all(|name| functions.names.contains(name)) {
        return None;
    }
    let mut exposed = Exposed::default();
    exposed.add(workers.into_iter(), scope.host.code.as_deref());
    Some(exposed)
}

/// Returns the functions that `tool_rules` names.
fn of_calls(effective: &Effective) -> Vec<Naming<'_>> {
    effective.rules.iter().map(|rule| Naming::of_file(rule, "`tool_rules`")).collect()
}

/// Returns the tools that `ensures` names.
fn judges(effective: &Effective) -> Vec<Naming<'_>> {
    if effective.definition.ensures.is_empty() {
        return Vec::new();
    }
    let named = effective.keys.get("ensures").into_iter().flat_map(|node| {
        node.texts().chain(node.entries().iter().map(|entry| (entry.key.as_str(), &entry.key_span)))
    });
    let tools: HashSet<&str> =
        effective.definition.ensures.iter().filter_map(|ensure| Some(&**ensure.tool()?)).collect();
    let tools = named.filter(|(text, _)| tools.contains(text));
    tools.map(|(text, span)| Naming::new(text, Some(span), "`ensures`")).collect()
}

/// Returns the functions that `approval.tools` and `approval.rules` of the manifest name.
fn of_approval<'a>(scope: &Scope<'a>) -> Vec<Naming<'a>> {
    let rules = scope.packages.program().manifest.approval_rules.iter();
    let source = |rule: &FileRule| if rule.is_item { "`approval.rules`" } else { "`approval.tools`" };
    rules.map(|rule| Naming::of_file(rule, source(rule))).collect()
}

/// Returns the functions that `approval.tools` of each toolset names.
fn of_toolsets<'a>(scope: &Scope<'a>, toolsets: &'a Toolsets) -> Vec<(&'a dyn ToolsetKind, Vec<Naming<'a>>)> {
    let kinds = toolsets.iter().filter_map(|(name, configuration)| {
        let rules = configuration.get("approval")?.get("tools")?.entries().iter();
        let kind = scope.host.toolsets.get(name)?;
        let source = format!("`toolsets.{name}.approval.tools`");
        let namings = rules.map(|rule| {
            let calls = Pattern::parse(&rule.key).ok().map(Calls::from);
            let arguments = calls.map(|calls| Arguments {
                calls: Cow::Owned(calls),
                rule: rule_of(&rule.value),
                tests: &[],
            });
            Naming { arguments, ..Naming::new(&rule.key, Some(&rule.key_span), source.clone()) }
        });
        Some((kind.as_ref(), namings.collect()))
    });
    kinds.collect()
}

/// Returns a worker and all workers that it can reach by exact references. Code may call every worker of the program.
fn closure<'a>(scope: &Scope<'a>, worker: &'a Effective) -> Vec<&'a Effective> {
    if worker.definition.code.is_some() {
        return scope.workers.values().map(AsRef::as_ref).collect();
    }
    let mut reached: Vec<&Effective> = vec![worker];
    let mut names: HashSet<&str> = HashSet::from([&*worker.definition.id]);
    let mut next = 0;
    while let Some(worker) = reached.get(next).copied() {
        next += 1;
        for (name, _) in &worker.calls {
            let Some(callee) = scope.workers.get(name) else { continue };
            if names.insert(name) {
                reached.push(callee);
            }
        }
    }
    reached
}

/// Reports tools of the worker's skills that no function matches. A skill may name tools that other programs have.
fn of_skills(scope: &Scope<'_>, effective: &Effective, found: &mut Vec<Diagnostic>) {
    let allowed = effective.skills.iter().flat_map(|skill| skill.file.allowed.iter().flatten());
    let mut allowed = allowed.peekable();
    if allowed.peek().is_none() {
        return;
    }
    let functions = Functions::of(scope, &closure(scope, effective));
    let open = functions.hidden || functions.open || !functions.globs.is_empty();
    for AllowedTool { patterns, span } in allowed {
        let pattern = patterns.first().and_then(|pattern| Pattern::parse(pattern).ok());
        let Some(tool) = pattern.as_ref().map(Pattern::tool) else { continue };
        let naming = Naming::new(tool, Some(span), "`allowed-tools`");
        if open || functions.may_have(tool) || functions.fit(&naming) {
            continue;
        }
        let message = format!("`allowed-tools` names `{tool}`, but there is no such tool");
        let finding = Diagnostic::warning(codes::SKILL_TOOL, message).at(span);
        found.push(finding.did_you_mean(tool, functions.names.iter().map(String::as_str)));
    }
}

/// Reports the rules that no function matches, and those with conditions on arguments that can never hold.
fn test(namings: Vec<Naming<'_>>, functions: impl FnOnce() -> Functions, found: &mut Vec<Diagnostic>) {
    if namings.is_empty() {
        return;
    }
    let functions = functions();
    for naming in namings {
        found.extend(functions.misfit(&naming));
        found.extend(functions.unknown_set(&naming));
        // An empty name is reported where it is read.
        if functions.hidden || naming.function.is_empty() || functions.fit(&naming) {
            continue;
        }
        let Naming { function, span, source, .. } = &naming;
        let near = functions.names.iter().map(String::as_str);
        let finding = if naming.is_pattern() {
            Diagnostic::warning(
                codes::UNMATCHED_RULE,
                format!("{source} names `{function}`, which matches no tool"),
            )
            .help("correct the pattern, or remove the rule")
        } else if functions.open || !functions.globs.is_empty() || functions.may_have(function) {
            Diagnostic::warning(
                codes::UNMATCHED_RULE,
                format!("{source} names `{function}`, but there is no known tool of that name"),
            )
            .note("some tools are only known in a run, because a pattern allows workers or a toolset has not listed its tools yet")
            .did_you_mean(function, near)
        } else {
            let nowhere = match functions.toolset {
                Some(toolset) => format!("the toolset `{toolset}` has no such tool"),
                None => "there is no such tool".to_owned(),
            };
            Diagnostic::error(codes::UNKNOWN_TOOL, format!("{source} names `{function}`, but {nowhere}"))
                .did_you_mean(function, near)
        };
        found.push(finding.or_at(*span));
    }
}

impl Functions {
    /// Returns all functions that these workers may call, and the built-in ones.
    fn of(scope: &Scope<'_>, workers: &[&Effective]) -> Self {
        let mut functions = Self::default();
        for kind in scope.host.toolsets.kinds() {
            functions.built_in(kind.as_ref());
        }
        for worker in workers {
            functions.worker(&worker.definition.id, Some(worker));
            functions.callees(scope, worker);
            functions.code(scope, worker);
            let of_provider = worker.definition.server_tools.iter();
            functions.names.extend(of_provider.map(|tool| tool.name().to_owned()));
            for kind in worker.toolsets.keys().filter_map(|name| scope.host.toolsets.get(name)) {
                functions.listed(scope, worker, kind.as_ref());
            }
        }
        functions
    }

    /// Returns the functions that a toolset makes for these workers.
    fn of_kind(scope: &Scope<'_>, workers: &[&Effective], kind: &dyn ToolsetKind) -> Self {
        let mut functions = Self { toolset: Some(kind.name()), ..Self::default() };
        functions.built_in(kind);
        functions.open = !kind.tools_are_known() && !kind.lists();
        for worker in workers {
            functions.listed(scope, worker, kind);
            if kind.delegates() {
                functions.callees(scope, worker);
            }
            if kind.runs_code() {
                functions.code(scope, worker);
            }
        }
        functions
    }

    fn built_in(&mut self, kind: &dyn ToolsetKind) {
        for name in kind.tools().iter().chain(kind.rule_names()) {
            let input = kind.input(name).map(|schema| Arc::clone(schema.value()));
            self.add(name, Some(Signature { input, has_main: kind.has_main_argument(name) }));
        }
    }

    /// Adds the tools of a worker that a server outside the program lists, as far as they are known before a run.
    fn listed(&mut self, scope: &Scope<'_>, worker: &Effective, kind: &dyn ToolsetKind) {
        for tool in worker.configured(kind) {
            let signature = Signature { input: Some(tool.input), has_main: tool.has_main_argument };
            self.add(&tool.name, Some(signature));
        }
        if kind.tools_are_known() {
            return;
        }
        let Some(configuration) = worker.toolsets.get(kind.name()).filter(|_| kind.lists()) else {
            self.open = true;
            return;
        };
        let own = Configuration::parse(&configuration.to_json(), kind.name()).unwrap_or_default().own;
        let root = scope.packages.program().protection.root();
        let ForeseenTools { tools, open } = kind.foreseen(&worker.definition, &own, root);
        self.open_names.extend(open);
        self.hidden |= worker.mistakes.concern(&["toolsets"]);
        for tool in tools {
            for name in [&tool.name, &tool.tool_name] {
                self.add(name, Some(Signature { input: tool.input.clone(), has_main: false }));
            }
        }
    }

    /// Returns true if a function with a matching name may become known in a run.
    fn may_have(&self, function: &str) -> bool {
        let plain = function.split(['*', '?', '[', '{', '\\']).next().unwrap_or_default();
        self.open_names.iter().any(|open| {
            plain.starts_with(open.as_str()) || open.starts_with(plain) && plain.len() < function.len()
        })
    }

    /// Adds a worker, by its ID or by a reference to it.
    fn worker(&mut self, name: &str, worker: Option<&Effective>) {
        let input = worker.filter(|worker| !worker.mistakes.concern(&["parameters", "schema_in_ref"]));
        let input = input.map(|worker| Arc::clone(worker.definition.signature.schema.value()));
        // The main argument of a call to a worker is the worker's ID.
        let signature = Signature { input, has_main: true };
        self.add(&tool_name(name), Some(signature.clone()));
        self.add(name, Some(signature));
    }

    fn add(&mut self, name: &str, signature: Option<Signature>) {
        self.names.insert(name.to_owned());
        if let Some(signature) = signature {
            self.signatures.insert(name.to_owned(), signature);
        }
    }

    /// Adds the callees of a worker, by their IDs and by the references to them.
    fn callees(&mut self, scope: &Scope<'_>, worker: &Effective) {
        let (globs, exact): (Vec<_>, Vec<_>) =
            worker.callees.iter().map(|(reference, _)| reference).partition(|reference| is_glob(reference));
        for reference in &exact {
            self.worker(reference.trim_start_matches("./"), None);
        }
        for (id, at) in &worker.calls {
            let callee = scope.workers.get(id).map(AsRef::as_ref);
            self.worker(id, callee);
            self.worker(worker.callees[*at].0.trim_start_matches("./"), callee);
            self.hidden |= !scope.workers.contains_key(id);
        }
        self.hidden |=
            worker.calls.len() < exact.len() || worker.mistakes.concern(&["allow_workers", "toolsets"]);
        let globs = globs.into_iter().filter_map(|glob| Some(Glob::new(glob).ok()?.compile_matcher()));
        self.globs.extend(globs);
        let delegation = scope.host.toolsets.delegation().and_then(|kind| worker.toolsets.get(kind.name()));
        self.open |= delegation.and_then(|it| it.get("dynamic")?.as_flag()).unwrap_or(false);
    }

    /// Adds the Python tools of a worker.
    fn code(&mut self, scope: &Scope<'_>, worker: &Effective) {
        let configuration = scope.host.toolsets.code().and_then(|kind| worker.toolsets.get(kind.name()));
        let listed = configuration.and_then(|configuration| configuration.get("tools"));
        self.names.extend(listed.into_iter().flat_map(Node::texts).map(|(name, _)| name.to_owned()));
        self.hidden |= worker.mistakes.concern(&["imports", "toolsets"]);
        match scope.exposed.tools(worker) {
            Some(tools) => {
                for (name, tool) in tools {
                    let signature = Signature {
                        input: Some(Arc::clone(&tool.code.input)),
                        has_main: tool.code.takes_paths,
                    };
                    self.add(name, Some(signature.clone()));
                    self.add(&tool.code.name, Some(signature));
                }
            }
            None => self.hidden = true,
        }
    }

    /// Reports a set of a rule that no tool can return.
    fn unknown_set(&self, naming: &Naming<'_>) -> Option<Diagnostic> {
        let Arguments { calls, tests, .. } = naming.arguments.as_ref()?;
        let open = self.hidden
            || self.open
            || self.toolset.is_some()
            || !self.globs.is_empty()
            || !self.open_names.is_empty();
        let mut sets =
            calls.conditions.tests().iter().enumerate().filter_map(|(at, test)| Some((at, test.set()?)));
        sets.find_map(|(at, set)| match set {
            Set::Tool(ToolSet { tool, .. }) if !open && !self.names.contains(&**tool) => {
                let message =
                    format!("{}: the set names the tool `{tool}`, but there is no such tool", naming.source);
                let near = self.names.iter().map(String::as_str);
                let finding =
                    Diagnostic::error(codes::UNKNOWN_TOOL, message).or_at(tests.get(at).or(naming.span));
                Some(finding.did_you_mean(tool, near))
            }
            _ => None,
        })
    }

    /// Reports a pattern or condition on arguments that fits none of the functions that the rule names.
    fn misfit(&self, naming: &Naming<'_>) -> Option<Diagnostic> {
        let Arguments { calls, rule, tests } = naming.arguments.as_ref()?;
        let named = self.signatures.iter().filter(|(name, _)| calls.pattern.names_one_of(&[name]));
        let named: Vec<&Signature> = named.map(|(_, signature)| signature).collect();
        let (function, source) = (naming.function, &naming.source);
        let first = named.first()?;
        if let Some(argument) = calls.pattern.argument()
            && named.iter().all(|signature| !signature.has_main)
        {
            let tests = GuessedTest::all(argument, first.input.as_deref());
            let joined = |shown: fn(&GuessedTest) -> String, and| {
                tests.iter().map(shown).collect::<Vec<_>>().join(and)
            };
            let message =
                format!("{source}: `{function}` has no main argument that `({argument})` could match");
            let finding = Diagnostic::error(codes::NO_MAIN_ARGUMENT, message).or_at(naming.span).note(
                "a pattern matches the one main argument of a tool, such as a path, a command or a worker",
            );
            let rule = rule.unwrap_or(Rule::PreApproved);
            return Some(match naming.span {
                None => finding.help(format!(
                    "write a condition: `{function} where {}`",
                    joined(GuessedTest::as_text, " and ")
                )),
                Some(_) => finding.help(format!(
                    "write a rule with a condition: `- {{tool: {function}, when: {{{}}}, then: {rule}}}`",
                    joined(GuessedTest::as_yaml, ", ")
                )),
            });
        }
        let inputs: Vec<&Arc<Value>> =
            named.iter().filter_map(|signature| signature.input.as_ref()).collect();
        if inputs.len() < named.len() {
            return None;
        }
        let (at, misfit) = calls.conditions.tests().iter().enumerate().find_map(|(at, test)| {
            let mut misfits = inputs.iter().map(|input| test.fits(input));
            let first = misfits.next()?.err()?;
            misfits.all(|fits| fits.is_err()).then_some((at, first))
        })?;
        let finding =
            Diagnostic::error(codes::MISFIT_CONDITION, format!("{source}: `{function}`: {}", misfit.message))
                .or_at(tests.get(at).or(naming.span))
                .note("the test can never hold as intended");
        let known = misfit.known.iter().map(String::as_str);
        Some(match &misfit.unknown {
            Some(unknown) => finding.did_you_mean(unknown, known),
            None => finding,
        })
    }

    /// Returns true if one of the functions has a name that a rule matches.
    fn fit(&self, naming: &Naming<'_>) -> bool {
        let name = naming.function;
        if !naming.is_pattern() {
            let reference = name.replace("__", "/");
            return self.names.contains(name)
                || self.globs.iter().any(|glob| glob.is_match(name) || glob.is_match(&reference));
        }
        if self.may_have(name) {
            return true;
        }
        // A pattern that does not parse is reported where it is read.
        let Ok(pattern) = Pattern::parse(name) else { return true };
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        pattern.names_one_of(&names)
    }
}
