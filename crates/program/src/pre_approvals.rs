//! Pre-approvals in files of the program that do not count: the operator is asked anyway
//! (`docs/reference/approvals.md`).

use crate::{
    authorities::Authorities,
    diagnostics::{Diagnostic, codes},
    effective::Effective,
    load_options::LoadOptions,
    loading::Workers,
    manifest,
    package::Package,
    rules::FileRule,
    shape::rule_of,
    span::Span,
    yaml::Node,
};
use llm_do_core::{
    authority::{Access, Authority, Network, Origin},
    function::Risk,
    gate::{Calls, Pattern, Rule},
    source::FunctionSource,
};
use std::{borrow::Cow, sync::Arc};

/// A statement that pre-approves calls.
struct Statement {
    /// The calls to which it applies.
    calls: Calls,
    /// The risk to which it is restricted.
    risk: Option<Risk>,
    /// The toolset to which it is restricted.
    toolset: Option<Arc<str>>,
    span: Span,
}

/// A function that a worker has. Its name and risk determine what rules may pre-approve.
struct Tool<'a> {
    toolset: &'a str,
    name: Cow<'a, str>,
    risk: Risk,
    /// True if every worker with the toolset has it. For other tools, only rules that name them are checked.
    always: bool,
}

/// Reports pre-approvals of the program's files that do not count for any worker that a run can reach.
pub(crate) fn check(
    program: &Package,
    workers: &Workers,
    host: &LoadOptions,
    authorities: &Authorities<'_>,
    found: &mut Vec<Diagnostic>,
) {
    let mut of_project = program.manifest.approval_keys.as_ref().map(of_policy).unwrap_or_default();
    of_project.extend(of_rules(program.manifest.approval_rules.iter().filter(|rule| rule.is_item)));
    for (id, all) in &authorities.of {
        let worker = &workers[*id];
        // Everyone knows that rules of a library only tighten.
        if matches!(worker.definition.source, FunctionSource::Library(_)) {
            continue;
        }
        let tools = tools(worker, host);
        for statement in of_worker(worker).iter().chain(&of_project) {
            found.extend(tools.iter().find_map(|tool| asks(statement, tool, all)));
        }
    }
}

/// Returns the finding for a statement about a tool, if it does not count.
fn asks(statement: &Statement, tool: &Tool<'_>, authorities: &[Authority]) -> Option<Diagnostic> {
    let Statement { calls, risk, toolset, span } = statement;
    let pattern = &calls.pattern;
    let speaks = pattern.names_one_of(&[&tool.name])
        && (tool.always || pattern.to_string().starts_with(&*tool.name))
        && risk.is_none_or(|risk| risk == tool.risk)
        && toolset.as_ref().is_none_or(|toolset| **toolset == *tool.toolset);
    let why = speaks.then(|| why(pattern, tool, authorities)).flatten()?;
    let message = format!("this does not pre-approve `{}`: the operator is asked anyway", tool.name);
    let warning = Diagnostic::warning(codes::ASKS_ANYWAY, message).at(span).note(why.text());
    Some(match why {
        Why::New => warning.help("remove it: no rule spares this question"),
        why => {
            let bare = !pattern.has_arguments() && calls.conditions.is_empty();
            let rule = if bare { tool.name.to_string() } else { calls.to_string() };
            let allow = format!("to spare the question, start the run with `--allow '{rule}'`");
            match why {
                Why::Outside => {
                    warning.help("declare a mount for the files that it writes (`sandbox.paths`)").help(allow)
                }
                _ => warning.help(allow),
            }
        }
    })
}

/// The reason why a pre-approval does not count.
enum Why {
    /// The call creates a new worker.
    New,
    /// The call uses the network.
    Network,
    /// The call changes a place whose files other programs execute.
    Executed,
    /// No file of the program declares a mount that the call needs.
    Outside,
}

impl Why {
    fn text(&self) -> &'static str {
        match self {
            Self::New => "a new worker is always asked about, because no person has read its instructions",
            Self::Network => {
                "processes of this worker may use the network, so their effects leave the program's mounts"
            }
            Self::Executed => "other programs execute the files there",
            Self::Outside => {
                "no file declares a mount here, and the worker sees the current directory or a project that contains the \
                 home directory"
            }
        }
    }
}

fn why(pattern: &Pattern, tool: &Tool<'_>, authorities: &[Authority]) -> Option<Why> {
    let all = |is: &dyn Fn(&Authority) -> bool| authorities.iter().all(is);
    match tool.risk {
        Risk::Exec if tool.name == "worker_create" => Some(Why::New),
        Risk::Exec => all(&|a| *a.bounds().network() != Network::Off).then_some(Why::Network),
        Risk::Write | Risk::Destructive => {
            if !authorities.iter().any(Authority::can_write) {
                return None; // It is not offered.
            }
            let executed = |a: &Authority| {
                let text = pattern.to_string();
                let (_, inside) = text.trim_end_matches(')').split_once('(')?;
                let literal = &inside[..inside.find(['*', '?', '[', '{']).unwrap_or(inside.len())];
                let literal = literal.trim_start_matches("./").trim_start_matches('/');
                // The text before a wildcard is a whole component of the path only if it ends at a slash.
                let end = if literal.len() == inside.len() { literal.len() } else { literal.rfind('/')? };
                let protection = a.protection();
                Some(protection.is_executed(&protection.root().join(&literal[..end])))
            };
            if all(&|a| executed(a) == Some(true)) {
                return Some(Why::Executed);
            }
            let own = |a: &Authority| {
                a.view().mounts().iter().any(|m| m.access == Access::Write && m.origin != Origin::Other)
            };
            all(&|a| !own(a)).then_some(Why::Outside)
        }
        Risk::Read | Risk::Network | Risk::Delegate => None,
    }
}

/// Returns the built-in tools of a worker that have effects beyond reading.
fn tools<'a>(worker: &'a Effective, host: &'a LoadOptions) -> Vec<Tool<'a>> {
    let kinds = worker.toolsets.iter().filter_map(|(name, node)| Some((host.toolsets.get(name)?, node)));
    let tools = kinds.flat_map(|(kind, node)| {
        let listed = node.get("tools");
        let offers = move |tool: &str| listed.is_none_or(|names| names.texts().any(|(name, _)| name == tool));
        let always = kind.tools().iter().map(|name| (*name, true));
        let names = always.chain(kind.rule_names().iter().map(|name| (*name, false)));
        let built_in = names.filter(move |(name, _)| offers(name)).filter_map(move |(name, always)| {
            Some(Tool { toolset: kind.name(), name: Cow::Borrowed(name), risk: kind.risk(name)?, always })
        });
        let configured = worker.configured(&**kind).into_iter().filter(move |tool| offers(&tool.name));
        built_in.chain(configured.map(move |tool| Tool {
            toolset: kind.name(),
            name: Cow::Owned(tool.name.to_string()),
            risk: tool.risk,
            always: true,
        }))
    });
    tools.collect()
}

/// Returns the statements of a worker's own file and of its toolsets.
fn of_worker(worker: &Effective) -> Vec<Statement> {
    let mut all: Vec<Statement> = of_rules(&worker.rules);
    for (name, node) in &worker.toolsets {
        let policy = node.get("approval").map(of_policy).unwrap_or_default();
        all.extend(policy.into_iter().map(|line| Statement { toolset: Some(Arc::clone(name)), ..line }));
        // Rules of the toolset's own, such as those for commands.
        let own = [node.get("rules"), node.get("default")].into_iter().flatten();
        let free = own.flat_map(|node| node.items().iter().chain([node])).filter_map(|rule| {
            let required = rule.get("approval_required")?;
            (required.as_flag() == Some(false)).then_some(&required.span)
        });
        all.extend(free.filter_map(|span| {
            let line = statement("*", span, None)?;
            Some(Statement { toolset: Some(Arc::clone(name)), ..line })
        }));
    }
    all
}

/// Returns the rules of a file that pre-approve calls.
fn of_rules<'r>(rules: impl IntoIterator<Item = &'r FileRule>) -> Vec<Statement> {
    let allowing = rules.into_iter().filter(|rule| rule.rule == Some(Rule::PreApproved));
    let statements = allowing.map(|rule| Statement {
        calls: rule.calls.clone(),
        risk: None,
        toolset: None,
        span: rule.span.clone(),
    });
    statements.collect()
}

/// Returns the statements of an `approval` block except the rules of a manifest.
fn of_policy(block: &Node) -> Vec<Statement> {
    let allowing = |key: &str| {
        let entries = block.get(key).map(Node::entries).unwrap_or_default();
        entries.iter().filter(|entry| rule_of(&entry.value) == Some(Rule::PreApproved))
    };
    let tools = allowing("tools").filter_map(|entry| statement(&entry.key, &entry.key_span, None));
    let risks = allowing("risks").filter_map(|entry| {
        let risk = serde_json::from_value(entry.key.as_str().into()).ok()?;
        statement("*", &entry.key_span, Some(risk))
    });
    let default = block.entry("default").filter(|entry| rule_of(&entry.value) == Some(Rule::PreApproved));
    let default = default.and_then(|entry| statement("*", &entry.key_span, None));
    tools.chain(risks).chain(default).collect()
}

fn statement(pattern: &str, span: &Span, risk: Option<Risk>) -> Option<Statement> {
    let calls = manifest::pattern(pattern, span, &mut Vec::new())?.into();
    Some(Statement { calls, risk, toolset: None, span: span.clone() })
}
