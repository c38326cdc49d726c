//! The check of a program in Python before it runs: the names and arguments of its calls, and their greatest number.
//!
//! The check is a help for the model and the basis of the operator's question. It does not confine: a program that hides a
//! call from it gets a refusal when it makes the call (`CodeCalls::within`), and its process sees nothing.

use super::{
    bounds::Known,
    finding::Finding,
    language::{MODULES, REFUSED, STOPS},
    tree::{Node, Tree},
};
use llm_do_core::call_bounds::CalleeBound;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

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

/// Checks a program. Returns the calls that it can make, or its problems.
pub(super) fn check(
    tree: &Tree,
    callees: &[Callee<'_>],
    max_calls: u64,
) -> Result<Vec<CalleeBound>, Vec<Finding>> {
    let mut check = Check::new(tree, callees);
    let calls = check.program(max_calls);
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
    parameters: Vec<&'a str>,
}

/// The place in which a node stands.
#[derive(Clone, Copy)]
struct Scope<'s, 'a> {
    /// The function at the top level; absent outside of them.
    function: Option<&'a str>,
    /// The values of the function's names.
    known: &'s Known<'a>,
    /// The thing inside the function in which no calls may be made, such as `a lambda`.
    hidden: Option<&'static str>,
}

struct Check<'a> {
    root: Node<'a>,
    callees: &'a [Callee<'a>],
    functions: BTreeMap<&'a str, Defined<'a>>,
    /// The values of the names of the top level.
    top: Known<'a>,
    /// The calls of the functions that are known; a function that is being looked at has none yet.
    known: BTreeMap<&'a str, Option<Calls>>,
    /// Uses of a function within itself.
    recursive: Vec<(&'a str, Node<'a>)>,
    findings: Vec<Finding>,
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
    fn new(tree: &'a Tree, callees: &'a [Callee<'a>]) -> Self {
        let root = tree.root();
        let functions = root.all("body").filter(|node| node.kind() == "FunctionDef").filter_map(|node| {
            let arguments = node.one("args")?;
            let parameters = ["posonlyargs", "args", "kwonlyargs"].into_iter();
            let parameters =
                parameters.flat_map(|field| arguments.all(field)).filter_map(|one| one.text("arg"));
            Some((node.text("name")?, Defined { node, parameters: parameters.collect() }))
        });
        Self {
            root,
            callees,
            functions: functions.collect(),
            top: Known::default(),
            known: BTreeMap::new(),
            recursive: Vec::new(),
            findings: Vec::new(),
        }
    }

    fn find(&mut self, node: Node<'_>, message: impl Into<String>) {
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

    fn program(&mut self, max_calls: u64) -> Calls {
        let root = self.root;
        let known =
            Known::of(root.all("body").filter(|node| node.kind() != "FunctionDef"), &[], &Known::default());
        let outside = Scope { function: None, known: &known, hidden: None };
        for statement in root.all("body").filter(|node| node.kind() != "FunctionDef") {
            self.calls(statement, outside);
        }
        self.top = known;
        let names: Vec<&'a str> = self.functions.keys().copied().collect();
        for name in names {
            self.function(name);
        }
        for (name, node) in std::mem::take(&mut self.recursive) {
            if self.known.get(name).and_then(Option::as_ref).is_some_and(|calls| !calls.is_empty()) {
                self.find(
                    node,
                    format!("`{name}` makes calls and calls itself, so their number has no bound: use a loop over `range(N)`"),
                );
            }
        }
        let Some(main) = self.functions.get("main").map(|main| (main.node, main.parameters.clone())) else {
            self.find(
                root,
                "the program has no function `main`: define `def main(input, ctx):` at its top level",
            );
            return Calls::new();
        };
        if main.1 != ["input", CTX] {
            self.find(main.0, "`main` takes two parameters: write `def main(input, ctx):`");
        }
        let calls = self.known.get("main").cloned().flatten().unwrap_or_default();
        let total = calls.values().fold(0u64, |sum, most| sum.saturating_add(*most));
        if total > max_calls {
            let most: Vec<String> = calls
                .iter()
                .map(|(callee, most)| format!("`{}` {most} times", self.callees[*callee].name))
                .collect();
            self.find(
                main.0,
                format!(
                    "the program can make {total} calls ({}), and {max_calls} are allowed: lower the bounds of its loops",
                    most.join(", ")
                ),
            );
        }
        calls
    }

    /// The calls of one execution of a function.
    fn function(&mut self, name: &'a str) -> Calls {
        if let Some(known) = self.known.get(name) {
            return known.clone().unwrap_or_default();
        }
        let Some(Defined { node, parameters }) = self.functions.get(name) else { return Calls::new() };
        let (node, known) = (*node, Known::of(node.all("body"), parameters, &self.top));
        self.known.insert(name, None);
        let scope = Scope { function: Some(name), known: &known, hidden: None };
        let mut calls = Calls::new();
        for part in node.all("decorator_list").chain(node.one("args")) {
            sum(&mut calls, self.calls(part, Scope { hidden: Some("the head of a function"), ..scope }));
        }
        for statement in node.all("body") {
            sum(&mut calls, self.calls(statement, scope));
        }
        self.known.insert(name, Some(calls.clone()));
        calls
    }

    /// The calls of one execution of a node.
    fn calls(&mut self, node: Node<'a>, scope: Scope<'_, 'a>) -> Calls {
        match node.kind() {
            "FunctionDef" if scope.function.is_some() || scope.hidden.is_some() => {
                self.hidden(node, scope, "a function within a function")
            }
            "Lambda" => self.hidden(node, scope, "a lambda"),
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
                            "this loop calls `{name}` and has no bound: write `for attempt in range(10):` and leave it with `break`"
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
            "Call" => self.call(node, scope),
            "Attribute" => {
                if let Some(name) = node.text("attr").filter(|name| name.starts_with("__")) {
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
            if !MODULES.contains(&top) {
                self.find(
                    node,
                    format!(
                        "the module `{module}` is not available in a program; there are {}",
                        MODULES.join(", ")
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
        if let Some(name) = caught.into_iter().find(|name| STOPS.contains(name)) {
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
        if let Some((_, instead)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
            return self.find(node, format!("`{name}` is not available in a program: {instead}"));
        }
        if self.functions.contains_key(name) && !self.function(name).is_empty() {
            self.find(node, format!("`{name}` makes calls, so the program must call it by its name"));
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
            self.find(
                node,
                format!(
                    "this loop calls `{name}` and has no bound: write `for item in items[:50]`, or `ctx.map(items, \"{name}\", limit=50)`"
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
        if let (Some(name @ ("now" | "utcnow" | "today")), Some(of)) =
            (function.text("attr"), function.one("value"))
            && matches!(of.name().or(of.text("attr")), Some("datetime" | "date"))
        {
            self.find(node, format!("`{name}` differs when the run is resumed: take the time from `input`"));
        }
        let Some((name, parameters)) = function
            .name()
            .and_then(|name| self.functions.get_key_value(name))
            .map(|(name, defined)| (*name, defined.parameters.clone()))
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
        if matches!(self.known.get(name), Some(None)) {
            self.recursive.push((name, node));
        }
        let own = self.function(name);
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
            self.find(node, format!("`ctx` can't be used in {what}: use it in a function at the top level"));
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
            self.find(node, "write the arguments of `ctx.call` and `ctx.map` one by one, without `*`");
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
                let limit = node.keyword("limit").or(arguments.get(2).copied()).and_then(Node::number);
                let limit = limit.and_then(|limit| u64::try_from(limit).ok());
                if limit.is_none() {
                    let name = Arc::clone(self.callees[callee].name);
                    self.find(
                        node,
                        format!("`ctx.map` needs a bound as a number: write `ctx.map(items, \"{name}\", limit=50)`"),
                    );
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
            self.find(
                node,
                "the name of the function must be a text in the code: `ctx.call(\"name\", {…})`, `ctx.map(items, \"name\", limit=50)`",
            );
            return None;
        };
        let found = self.callees.iter().position(|callee| **callee.name == *name);
        if found.is_none() {
            self.find(node, format!("there is no function `{name}` to call; {}", self.names()));
        }
        found
    }

    /// Compares the arguments of a call with the schema, as far as the code shows them. `call` has the arguments that are
    /// given by keywords.
    fn arguments(&mut self, call: Node<'a>, callee: usize, input: Option<Node<'a>>, place: Node<'a>) {
        let Callee { name, input: schema } = &self.callees[callee];
        let name = Arc::clone(name);
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
        let mut given: BTreeMap<&str, Node<'a>> = BTreeMap::new();
        let mut is_whole = true;
        match input {
            Some(dict) if dict.kind() == "Dict" => {
                for (key, value) in dict.elements("keys").zip(dict.all("values")) {
                    match key.map(Node::literal) {
                        Some(Some(key)) => drop(given.insert(key, value)),
                        _ => is_whole = false,
                    }
                }
            }
            // A value that is known only when the program runs. `None` is no input.
            Some(other) => {
                is_whole = other.kind() == "Constant" && other.constant("value") == Some(&Value::Null);
            }
            None => {}
        }
        for keyword in call.all("keywords") {
            match (keyword.text("arg"), keyword.one("value")) {
                (Some(key), Some(value)) => drop(given.insert(key, value)),
                _ => is_whole = false,
            }
        }
        let known: Vec<String> = properties.keys().map(|name| format!("`{name}`")).collect();
        let known = known.join(", ");
        let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
        for (key, value) in &given {
            match properties.get(*key) {
                None if is_closed => {
                    self.find(*value, format!("`{name}` has no argument `{key}`; it takes {known}"));
                }
                None => {}
                Some(property) => {
                    if let Some(wanted) = misfit(*value, property) {
                        self.find(*value, format!("the argument `{key}` of `{name}` is {wanted}"));
                    }
                }
            }
        }
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let missing: BTreeSet<&str> =
            required.filter_map(Value::as_str).filter(|required| !given.contains_key(required)).collect();
        if is_whole && !missing.is_empty() {
            let missing: Vec<String> = missing.into_iter().map(|name| format!("`{name}`")).collect();
            self.find(place, format!("this call of `{name}` lacks {}; it takes {known}", missing.join(", ")));
        }
    }
}

/// The items of `ctx.map` whose form the code shows.
fn items<'a>(items: Option<Node<'a>>) -> Vec<Node<'a>> {
    let Some(items) = items else { return Vec::new() };
    let field = match items.kind() {
        "List" | "Tuple" => "elts",
        "ListComp" | "GeneratorExp" => "elt",
        _ => return Vec::new(),
    };
    items.all(field).filter(|item| item.kind() == "Dict").collect()
}

/// Returns the type that the schema wants, if the code shows that a value has another one.
fn misfit(value: Node<'_>, schema: &Value) -> Option<String> {
    let kind = match value.kind() {
        "Constant" => match value.constant("value")? {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            _ => return None,
        },
        "JoinedStr" => "string",
        "List" | "Tuple" | "ListComp" => "array",
        "Dict" | "DictComp" => "object",
        _ => return None,
    };
    let wanted: Vec<&str> = match schema.get("type")? {
        Value::String(one) => vec![one],
        Value::Array(any) => any.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    let fits = wanted.iter().any(|wanted| *wanted == kind || (*wanted == "number" && kind == "integer"));
    (!fits && !wanted.is_empty()).then(|| format!("of type {}, and this is {kind}", wanted.join(" or ")))
}

#[cfg(test)]
mod tests;
