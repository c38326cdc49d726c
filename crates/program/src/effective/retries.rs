//! `retries` of `tool_rules`: the tools that they may apply to.

use crate::{
    diagnostics::{Diagnostic, codes},
    manifest,
    rules::written,
    span::Span,
    toolsets::Toolsets,
    yaml::Node,
};
use llm_do_core::{
    function::{Risk, tool_name},
    gate::Pattern,
    toolset::{Configuration, ToolsetRegistry},
};

/// Reports rules with `retries` for tools that can't be retried, as far as their names show: built-in tools and
/// callees. For other tools see [`crate::check`].
pub(super) fn check(
    keys: &Node,
    toolsets: &Toolsets,
    callees: &[(String, Span)],
    kinds: &ToolsetRegistry,
    found: &mut Vec<Diagnostic>,
) {
    for (pattern, span) in retried(keys) {
        let offered = toolsets.iter().filter_map(|(name, node)| Some((kinds.get(name)?, node)));
        let tools = offered.flat_map(|(kind, node)| {
            let named = node.get("tools");
            let offers =
                move |tool: &str| named.is_none_or(|names| names.texts().any(|(name, _)| name == tool));
            kind.tools()
                .iter()
                .copied()
                .filter(move |tool| offers(tool))
                .map(move |tool| (tool, kind.risk(tool)))
        });
        let mut risky = tools.filter(|(_, risk)| risk.is_some_and(|risk| risk != Risk::Read));
        if let Some((tool, Some(risk))) = risky.find(|(tool, _)| pattern.names_one_of(&[*tool])) {
            found.push(not_retried(&span, tool, &format!("has the risk `{risk}`")));
            continue;
        }
        let kinds_of = toolsets.iter().filter_map(|(name, node)| Some((kinds.get(name)?, node)));
        let configured = kinds_of.flat_map(|(kind, node)| {
            let own = Configuration::parse(&node.to_json(), kind.name()).unwrap_or_default().own;
            kind.configured(&own)
        });
        let mut configured = configured.filter(|tool| tool.risk != Risk::Read);
        if let Some(tool) = configured.find(|tool| pattern.names_one_of(&[&tool.name])) {
            found.push(not_retried(&span, &tool.name, &format!("has the risk `{}`", tool.risk)));
            continue;
        }
        let names = |callee: &str| {
            let name = callee.trim_start_matches("./");
            pattern.names_one_of(&[name, &tool_name(name), "worker_call", "worker.call"])
        };
        if let Some((callee, _)) = callees.iter().find(|(callee, _)| names(callee)) {
            found.push(not_retried(&span, callee, "is a worker"));
        }
    }
}

/// Returns the rules of a worker that ask for retries.
pub(crate) fn retried(keys: &Node) -> impl Iterator<Item = (Pattern, Span)> {
    written(keys.get("tool_rules")).into_iter().filter_map(|rule| {
        let retries = rule.value.entry("retries")?;
        let pattern = manifest::pattern(rule.text, rule.span, &mut Vec::new())?;
        retries.value.as_count().filter(|count| *count > 0).map(|_| (pattern, retries.key_span.clone()))
    })
}

/// Returns the finding for a tool that can't be retried; `why` continues its name.
pub(crate) fn not_retried(span: &Span, tool: &str, why: &str) -> Diagnostic {
    Diagnostic::error(codes::NOT_RETRIED, format!("`{tool}` cannot be retried: it {why}"))
        .at(span)
        .note("only a tool of risk `read` runs again after a failure: another may have had its effect")
        .help("remove `retries`, or name the tools that only read")
}
