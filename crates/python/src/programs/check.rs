//! The check of a program before it runs: the names and arguments of its calls, and their greatest number. It takes a time
//! that grows with the length of the program, and no longer than [`LONGEST`].
//!
//! The check is a help for the model and the basis of the operator's question. It does not confine: a program that hides a
//! call from it gets a refusal when it makes the call (`CodeCalls::within`), and its process sees nothing.

mod arguments;

use super::{
    bounds::Known,
    finding::Finding,
    language::Dialect,
    tree::{Node, Tree},
};
use arguments::items;
use llm_do_core::{call_bounds::CalleeBound, worker::Language};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

/// The time that a check may take.
pub(super) const LONGEST: Duration = Duration::from_secs(5);

/// The greatest number of findings that a check collects. A model gets the first of them.
const MOST_FINDINGS: usize = 500;

/// The context's name in every program.
const CTX: &str = "ctx";

/// A function that a program may call.
pub(super) struct Callee<'a> {
    /// The name, as a model sees it.
    pub(super) name: &'a Arc<str>,
    /// The schema of its arguments.
    pub(super) input: &'a Value,
}

/// Greatest numbers of calls, by callee.
type Calls = BTreeMap<usize, u64>;

/// Checks a program in at most `longest`. Returns the calls that it can make, or its problems.
pub(super) fn check(
    dialect: &'static Dialect,
    tree: &Tree,
    callees: &[Callee<'_>],
    max_calls: u64,
    longest: Duration,
) -> Result<Vec<CalleeBound>, Vec<Finding>> {
    let mut check = Check::new(dialect, tree, callees, Instant::now() + longest);
    let calls = check.program(max_calls);
    if check.is_late {
        let message = format!(
            "the program is too long to be checked in {} s: write a shorter one, or divide the work between several programs",
            longest.as_secs()
        );
        return Err(vec![Finding { line: 1, column: 1, message }]);
    }
    check.findings.sort_by_key(|finding| (finding.line, finding.column));
    check.findings.dedup();
    if !check.findings.is_empty() {
        return Err(check.findings);
    }
    let bound = |(callee, most): (usize, u64)| CalleeBound { name: Arc::clone(callees[callee].name), most };
    Ok(calls.into_iter().filter(|(_, most)| *most > 0).map(bound).collect())
}

/// A function at the top level of a program.
struct Defined<'a> {
    node: Node<'a>,
    /// The names of the parameters, in their order; empty for a parameter that is a pattern.
    parameters: Arc<[&'a str]>,
}

/// The place in which a node stands.
#[derive(Clone, Copy)]
struct Scope<'s, 'a> {
    /// The function at the top level; absent outside of them.
    function: Option<&'a str>,
    /// The values of the function's names.
    known: &'s Known<'s, 'a>,
    /// The thing inside the function in which no calls may be made, such as `a lambda`.
    hidden: Option<&'static str>,
}

struct Check<'a> {
    dialect: &'static Dialect,
    root: Node<'a>,
    callees: &'a [Callee<'a>],
    functions: BTreeMap<&'a str, Defined<'a>>,
    /// The calls of the functions that are known: each is looked at after those that it uses.
    known: BTreeMap<&'a str, Calls>,
    /// Calls of a function within itself.
    recursive: Vec<(&'a str, Node<'a>)>,
    /// Uses of a function other than its calls.
    named: Vec<(&'a str, Node<'a>)>,
    findings: Vec<Finding>,
    /// The time at which the check ends.
    until: Instant,
    /// The number of nodes looked at.
    visited: u32,
    is_late: bool,
}

fn sum(into: &mut Calls, more: Calls) {
    for (callee, most) in more {
        let sum = into.entry(callee).or_default();
        *sum = sum.saturating_add(most);
    }
}

fn greatest(into: &mut Calls, other: Calls) {
    for (callee, most) in other {
        let greatest = into.entry(callee).or_default();
        *greatest = most.max(*greatest);
    }
}

fn times(calls: Calls, rounds: u64) -> Calls {
    calls.into_iter().map(|(callee, most)| (callee, most.saturating_mul(rounds))).collect()
}

impl<'a> Check<'a> {
    fn new(dialect: &'static Dialect, tree: &'a Tree, callees: &'a [Callee<'a>], until: Instant) -> Self {
        let root = tree.root();
        let functions = root.all("body").filter(|node| node.kind() == "FunctionDef").filter_map(|node| {
            let arguments = node.one("args")?;
            let parameters = ["posonlyargs", "args", "kwonlyargs"].into_iter();
            let parameters =
                parameters.flat_map(|field| arguments.all(field)).filter_map(|one| one.text("arg"));
            Some((node.text("name")?, Defined { node, parameters: parameters.collect() }))
        });
        Self {
            dialect,
            root,
            callees,
            functions: functions.collect(),
            known: BTreeMap::new(),
            recursive: Vec::new(),
            named: Vec::new(),
            findings: Vec::new(),
            until,
            visited: 0,
            is_late: false,
        }
    }

    fn find(&mut self, node: Node<'_>, message: impl Into<String>) {
        if self.findings.len() == MOST_FINDINGS {
            return;
        }
        self.findings.push(Finding {
            line: node.line().max(1),
            column: node.column(),
            message: message.into(),
        });
    }

    fn names(&self) -> String {
        match self.callees {
            [] => "there is nothing to call".to_owned(),
            callees => {
                let names: Vec<String> = callees.iter().map(|callee| format!("`{}`", callee.name)).collect();
                format!("there are {}", names.join(", "))
            }
        }
    }

    /// Notes the visit of a node. Returns true if the time is over.
    fn visit(&mut self) -> bool {
        self.visited += 1;
        if self.visited % 256 == 1 && !self.is_late {
            self.is_late = Instant::now() >= self.until;
        }
        self.is_late
    }

    fn program(&mut self, max_calls: u64) -> Calls {
        let root = self.root;
        let main = self.dialect.main;
        let statements = || root.all("body").filter(|node| node.kind() != "FunctionDef");
        let top = Known::of(self.dialect, statements(), &[], None);
        for name in self.order() {
            let calls = self.function(name, &top);
            self.known.insert(name, calls);
        }
        let outside = Scope { function: None, known: &top, hidden: None };
        for statement in statements() {
            self.calls(statement, outside);
        }
        let makes_calls =
            |check: &Self, name: &str| check.known.get(name).is_some_and(|calls| !calls.is_empty());
        for (name, node) in std::mem::take(&mut self.recursive) {
            if makes_calls(self, name) {
                let repeat = self.dialect.repeat;
                self.find(
                    node,
                    format!(
                        "`{name}` makes calls and calls itself, so their number has no bound: use {repeat}"
                    ),
                );
            }
        }
        for (name, node) in std::mem::take(&mut self.named) {
            if makes_calls(self, name) {
                self.find(node, format!("`{name}` makes calls, so the program must call it by its name"));
            }
        }
        let Some(Defined { node, parameters }) = self.functions.get("main") else {
            self.find(root, format!("the program has no function `main`: define `{main}` at its top level"));
            return Calls::new();
        };
        let node = *node;
        // In TypeScript, the input may be taken apart there.
        let is_form = match self.dialect.language {
            Language::Python => **parameters == ["input", CTX],
            Language::Script => {
                let positional = node.one("args").map_or(0, |one| one.all("args").count());
                positional == 2 && parameters.get(1) == Some(&CTX)
            }
        };
        if !is_form {
            self.find(node, format!("`main` takes two parameters: write `{main}`"));
        }
        let calls = self.known.get("main").cloned().unwrap_or_default();
        let total = calls.values().fold(0u64, |sum, most| sum.saturating_add(*most));
        if total > max_calls {
            let most: Vec<String> = calls
                .iter()
                .map(|(callee, most)| format!("`{}` {most} times", self.callees[*callee].name))
                .collect();
            self.find(
                node,
                format!(
                    "the program can make {total} calls ({}), and {max_calls} are allowed: lower the bounds of its loops",
                    most.join(", ")
                ),
            );
        }
        calls
    }

    /// The functions in an order in which each comes after those that it uses, unless they use each other.
    fn order(&self) -> Vec<&'a str> {
        let uses = |name: &str| {
            let mut uses: Vec<&'a str> = Vec::new();
            if let Some(defined) = self.functions.get(name) {
                defined.node.walk(&mut |node| {
                    let used = node.name().and_then(|name| self.functions.get_key_value(name));
                    uses.extend(used.map(|(name, _)| *name));
                });
            }
            uses
        };
        let (mut order, mut seen) = (Vec::new(), BTreeSet::new());
        // Chains of functions are as long as programs, so no recursion follows them.
        for start in self.functions.keys() {
            if !seen.insert(*start) {
                continue;
            }
            let mut path = vec![(*start, uses(start))];
            while let Some((name, left)) = path.last_mut() {
                match left.pop() {
                    None => {
                        order.push(*name);
                        path.pop();
                    }
                    Some(next) if seen.insert(next) => path.push((next, uses(next))),
                    Some(_) => {}
                }
            }
        }
        order
    }

    /// The calls of one execution of a function.
    fn function(&mut self, name: &'a str, top: &Known<'_, 'a>) -> Calls {
        let Some(Defined { node, parameters }) = self.functions.get(name) else { return Calls::new() };
        let node = *node;
        let known = Known::of(self.dialect, node.all("body"), parameters, Some(top));
        let scope = Scope { function: Some(name), known: &known, hidden: None };
        let mut calls = Calls::new();
        for part in node.all("decorator_list").chain(node.one("args")) {
            sum(&mut calls, self.calls(part, Scope { hidden: Some("the head of a function"), ..scope }));
        }
        for statement in node.all("body") {
            sum(&mut calls, self.calls(statement, scope));
        }
        calls
    }

    /// The calls of one execution of a node.
    fn calls(&mut self, node: Node<'a>, scope: Scope<'_, 'a>) -> Calls {
        if self.visit() {
            return Calls::new();
        }
        match node.kind() {
            "FunctionDef" if scope.function.is_some() || scope.hidden.is_some() => {
                self.hidden(node, scope, "a function within a function")
            }
            "Lambda" => self.hidden(node, scope, self.dialect.lambda),
            "ClassDef" => self.hidden(node, scope, "a class"),
            "AsyncFunctionDef" => {
                self.find(node, "write `def`: `ctx.call` waits by itself, and `ctx.map` makes calls at once");
                Calls::new()
            }
            "Import" | "ImportFrom" => {
                self.import(node);
                Calls::new()
            }
            "While" => {
                let calls = self.all(node.children(), scope);
                if let Some(callee) = calls.keys().next() {
                    let name = Arc::clone(self.callees[*callee].name);
                    self.find(
                        node,
                        format!(
                            "this loop calls `{name}` and has no bound: write `{}` and leave it with `break`",
                            self.dialect.attempts
                        ),
                    );
                }
                calls
            }
            "For" => self.for_loop(node, scope),
            "ListComp" | "SetComp" | "GeneratorExp" | "DictComp" => self.comprehension(node, scope),
            "If" | "IfExp" => {
                let mut calls = self.all(node.all("test"), scope);
                let mut either = self.all(node.all("body"), scope);
                greatest(&mut either, self.all(node.all("orelse"), scope));
                sum(&mut calls, either);
                calls
            }
            "ExceptHandler" => {
                self.handler(node);
                self.all(node.children(), scope)
            }
            "Call" | "New" => self.call(node, scope),
            "Expr" if self.dialect.awaits && node.one("value").is_some_and(|value| calls_context(value)) => {
                self.find(node, "this call is not waited for: write `await` before it");
                self.all(node.children(), scope)
            }
            "Attribute" => {
                let hidden = self.dialect.hidden;
                let hides = |name: &&str| name.starts_with("__") || hidden.contains(name);
                if let Some(name) = node.text("attr").filter(hides) {
                    self.find(node, format!("`{name}` is not available in a program"));
                }
                self.all(node.children(), scope)
            }
            "Name" => {
                self.name(node);
                Calls::new()
            }
            _ => self.all(node.children(), scope),
        }
    }

    fn all(&mut self, nodes: impl Iterator<Item = Node<'a>>, scope: Scope<'_, 'a>) -> Calls {
        let mut calls = Calls::new();
        for node in nodes {
            sum(&mut calls, self.calls(node, scope));
        }
        calls
    }

    /// Looks at a thing in which no calls may be made.
    fn hidden(&mut self, node: Node<'a>, scope: Scope<'_, 'a>, what: &'static str) -> Calls {
        self.all(node.children(), Scope { hidden: Some(what), ..scope });
        Calls::new()
    }

    fn import(&mut self, node: Node<'a>) {
        let modules: Vec<&str> = match node.kind() {
            "ImportFrom" if node.constant("level").and_then(Value::as_i64).unwrap_or(0) > 0 => vec!["."],
            "ImportFrom" => node.text("module").into_iter().collect(),
            _ => node.all("names").filter_map(|alias| alias.text("name")).collect(),
        };
        for module in modules {
            let top = module.split('.').next().unwrap_or_default();
            let modules = self.dialect.modules;
            if !modules.contains(&top) {
                let there = if modules.len() == 1 { "is" } else { "are" };
                self.find(
                    node,
                    format!(
                        "the module `{module}` is not available in a program; there {there} {}",
                        modules.join(", ")
                    ),
                );
            }
        }
    }

    fn handler(&mut self, node: Node<'a>) {
        let caught: Vec<&str> = match node.one("type") {
            None => {
                return self.find(
                    node,
                    "this handler catches every error, also the end of the program: name the error, as in `except CallError:`",
                );
            }
            Some(class) if class.kind() == "Tuple" => class.all("elts").filter_map(Node::name).collect(),
            Some(class) => class.name().into_iter().collect(),
        };
        if let Some(name) = caught.into_iter().find(|name| self.dialect.stops.contains(name)) {
            self.find(
                node,
                format!(
                    "`{name}` also is the end of the program: name another error, as in `except CallError:`"
                ),
            );
        }
    }

    fn name(&mut self, node: Node<'a>) {
        let Some(name) = node.name() else { return };
        if name == CTX {
            return self.find(
                node,
                "use `ctx` only as `ctx.call(…)`, `ctx.map(…)` and `ctx.log(…)`, or pass it to a function of the program",
            );
        }
        if let Some((_, instead)) = self.dialect.refused.iter().find(|(refused, _)| *refused == name) {
            return self.find(node, format!("`{name}` is not available in a program: {instead}"));
        }
        if let Some((name, _)) = self.functions.get_key_value(name) {
            self.named.push((name, node));
        }
    }

    fn for_loop(&mut self, node: Node<'a>, scope: Scope<'_, 'a>) -> Calls {
        let mut calls = self.all(node.all("iter").chain(node.all("target")).chain(node.all("orelse")), scope);
        let body = self.all(node.all("body"), scope);
        let rounds = node.one("iter").and_then(|items| scope.known.bound(items));
        let rounds = self.bounded(node, &body, rounds);
        sum(&mut calls, times(body, rounds));
        calls
    }

    fn comprehension(&mut self, node: Node<'a>, scope: Scope<'_, 'a>) -> Calls {
        let mut generators = node.all("generators");
        let first = generators.next();
        let mut calls = self.all(first.into_iter().flat_map(|one| one.all("iter")), scope);
        let parts = ["elt", "key", "value"].into_iter().flat_map(|field| node.all(field));
        let conditions = first.into_iter().flat_map(|one| one.all("ifs").chain(one.all("target")));
        let each = self.all(parts.chain(conditions).chain(generators), scope);
        let rounds = scope.known.rounds(node);
        let rounds = self.bounded(node, &each, rounds);
        sum(&mut calls, times(each, rounds));
        calls
    }

    /// Returns the greatest number of rounds of a loop. A loop with calls needs a bound.
    fn bounded(&mut self, node: Node<'a>, body: &Calls, rounds: Option<u64>) -> u64 {
        if let (Some(callee), None) = (body.keys().next(), rounds) {
            let name = Arc::clone(self.callees[*callee].name);
            let map = Dialect::with(self.dialect.map, &name);
            self.find(
                node,
                format!(
                    "this loop calls `{name}` and has no bound: write `{}`, or `{map}`",
                    self.dialect.first_items
                ),
            );
        }
        rounds.unwrap_or(1)
    }

    fn call(&mut self, node: Node<'a>, scope: Scope<'_, 'a>) -> Calls {
        let Some(function) = node.one("func") else { return Calls::new() };
        if function.kind() == "Attribute" && function.one("value").and_then(Node::name) == Some(CTX) {
            return self.call_of_context(node, function, scope);
        }
        let of = function.one("value").and_then(|of| of.name().or(of.text("attr")));
        let method = of.zip(function.text("attr")).filter(|call| self.dialect.varying.contains(call));
        // `new Date()` is the current time, and `new Date(text)` is not.
        let is_now = self.dialect.language == Language::Script
            && function.name() == Some("Date")
            && node.all("args").next().is_none();
        if let Some(name) = method.map(|(_, name)| name).or(is_now.then_some("Date")) {
            self.find(node, format!("`{name}` differs when the run is resumed: take the value from `input`"));
        }
        let Some((name, parameters)) = function
            .name()
            .and_then(|name| self.functions.get_key_value(name))
            .map(|(name, defined)| (*name, Arc::clone(&defined.parameters)))
        else {
            return self.all(node.children(), scope);
        };
        // Arguments, of which the context goes to a parameter of the same name.
        let mut calls = Calls::new();
        for (at, argument) in node.all("args").enumerate() {
            match argument.name() {
                Some(CTX) if parameters.get(at) == Some(&CTX) => self.has_context(argument, scope),
                _ => sum(&mut calls, self.calls(argument, scope)),
            }
        }
        for keyword in node.all("keywords") {
            match keyword.one("value") {
                Some(value) if value.name() == Some(CTX) && keyword.text("arg") == Some(CTX) => {
                    self.has_context(value, scope);
                }
                Some(value) => sum(&mut calls, self.calls(value, scope)),
                None => {}
            }
        }
        let Some(own) = self.known.get(name).cloned() else {
            self.recursive.push((name, node));
            return calls;
        };
        if let (Some(what), false) = (scope.hidden, own.is_empty()) {
            self.find(node, format!("`{name}` makes calls, and can't be called in {what}: call it in a function at the top level"));
        }
        sum(&mut calls, own);
        calls
    }

    /// Checks that the context exists at a place.
    fn has_context(&mut self, node: Node<'a>, scope: Scope<'_, 'a>) {
        let parameters = scope.function.and_then(|name| self.functions.get(name)).map(|one| &one.parameters);
        if !parameters.is_some_and(|parameters| parameters.contains(&CTX)) {
            self.find(node, "there is no `ctx` here: give the function a parameter `ctx`");
        } else if let Some(what) = scope.hidden {
            let (items, map) = (self.dialect.first_items, Dialect::with(self.dialect.map, "name"));
            self.find(
                node,
                format!("`ctx` can't be used in {what}: use it in a function at the top level, in a loop such as `{items}`, or `{map}`"),
            );
        }
    }

    fn call_of_context(&mut self, node: Node<'a>, function: Node<'a>, scope: Scope<'_, 'a>) -> Calls {
        self.has_context(function, scope);
        let arguments: Vec<Node<'a>> = node.all("args").collect();
        let mut calls = self.all(
            arguments.iter().copied().chain(node.all("keywords").filter_map(|keyword| keyword.one("value"))),
            scope,
        );
        if arguments.iter().any(|argument| argument.kind() == "Starred") {
            self.find(node, "write the arguments of `ctx.call` and `ctx.map` one by one");
            return calls;
        }
        match function.text("attr") {
            Some("call") => {
                if let Some(callee) = self.callee(node, arguments.first().copied()) {
                    self.arguments(node, callee, arguments.get(1).copied(), node);
                    sum(&mut calls, Calls::from([(callee, 1)]));
                }
            }
            Some("map") => {
                let Some(callee) = self.callee(node, arguments.get(1).copied()) else { return calls };
                let limit = limit_of(node);
                if limit.is_none() {
                    let map = Dialect::with(self.dialect.map, self.callees[callee].name);
                    self.find(node, format!("`ctx.map` needs a bound as a number: write `{map}`"));
                }
                for item in items(arguments.first().copied()) {
                    self.arguments(item, callee, Some(item), item);
                }
                sum(&mut calls, Calls::from([(callee, limit.unwrap_or(1))]));
            }
            Some("log") => {}
            name => {
                let name = name.unwrap_or_default();
                self.find(
                    node,
                    format!("`ctx.{name}` is not available in a program; there are `call`, `map`, `log`"),
                );
            }
        }
        calls
    }

    /// The function that a call names.
    fn callee(&mut self, node: Node<'a>, named: Option<Node<'a>>) -> Option<usize> {
        let Some(name) = named.and_then(Node::literal) else {
            let (call, map) = (self.dialect.call, self.dialect.map);
            let (call, map) = (Dialect::with(call, "name"), Dialect::with(map, "name"));
            self.find(
                node,
                format!("the name of the function must be a text in the code: `{call}`, `{map}`"),
            );
            return None;
        };
        let found = self.callees.iter().position(|callee| **callee.name == *name);
        if found.is_none() {
            self.find(node, format!("there is no function `{name}` to call; {}", self.names()));
        }
        found
    }
}

/// Returns true if a node is `ctx.call(…)` or `ctx.map(…)`.
fn calls_context(node: Node<'_>) -> bool {
    let of_context = |function: &Node<'_>| function.one("value").and_then(Node::name) == Some(CTX);
    let function = node.one("func").filter(|_| node.kind() == "Call").filter(of_context);
    function.is_some_and(|function| matches!(function.text("attr"), Some("call" | "map")))
}

/// The limit of a `ctx.map`: `limit=50`, a third argument, or `{limit: 50}`.
pub(super) fn limit_of(map: Node<'_>) -> Option<u64> {
    let third = map.all("args").nth(2);
    let given = match third {
        Some(options) if options.kind() == "Dict" => {
            let mut keys = options.elements("keys").zip(options.all("values"));
            let mut limit = None;
            // The last one counts, and `...other` may hold another.
            keys.try_for_each(|(key, value)| {
                if key?.literal()? == "limit" {
                    limit = Some(value);
                }
                Some(())
            })?;
            limit
        }
        third => map.keyword("limit").or(third),
    };
    u64::try_from(given?.number()?).ok()
}

#[cfg(test)]
mod tests;
