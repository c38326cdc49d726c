//! `server_side_tools` of a worker. See `docs/reference/server-side-tools.md`.

use crate::{
    diagnostics::{Diagnostic, codes},
    shape::bad_value,
    yaml::Node,
};
use llm_do_core::server_tool::ServerTool;
use serde_json::{Value, json};

/// Reads the tools that a worker's provider runs, each with its place in the file. Reports options that a tool does not
/// have, and tools that are listed twice.
pub(crate) fn read<'n>(keys: &'n Node, found: &mut Vec<Diagnostic>) -> Vec<(ServerTool, &'n Node)> {
    let items = keys.get("server_side_tools").map(Node::items).unwrap_or_default();
    let mut tools: Vec<(ServerTool, &Node)> = Vec::new();
    for item in items {
        let Some(tool) = one(item, found) else { continue };
        if let Some((_, first)) = tools.iter().find(|(known, _)| known.name() == tool.name()) {
            found.push(
                Diagnostic::error(codes::DUPLICATE_KEY, format!("`{}` is listed twice", tool.name()))
                    .at(&item.span)
                    .related("it is listed here too", &first.span)
                    .help("keep one of them"),
            );
            continue;
        }
        tools.push((tool, item));
    }
    tools
}

/// Reads a tool by its name, or a map with its options. The shape of both is checked.
fn one(item: &Node, found: &mut Vec<Diagnostic>) -> Option<ServerTool> {
    let written = match item.as_text() {
        Some(name) => json!({"tool_type": name}),
        None => item.to_json(),
    };
    let tool: ServerTool = serde_json::from_value(written.clone()).ok()?;
    let known = tool.schema();
    let is_known = |option: &str| known.value()["properties"].get(option).is_some();
    for entry in item.entries().iter().filter(|entry| entry.key != "tool_type" && !is_known(&entry.key)) {
        let message = format!("`{}` has no option `{}`", tool.name(), entry.key);
        found.push(Diagnostic::error(codes::BAD_VALUE, message).at(&entry.key_span).help("remove it"));
    }
    let list = |key: &str| written.get(key).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    if list("allowed_domains") && list("blocked_domains") {
        let message = "`allowed_domains` and `blocked_domains` cannot be used together";
        found.push(Diagnostic::error(codes::CONFLICT, message).at(&item.span).help("keep one of them"));
        return None;
    }
    for key in ["allowed_domains", "blocked_domains"] {
        for domain in item.get(key).map(Node::items).unwrap_or_default() {
            if let Some((_, rest)) = domain.as_text().and_then(|text| text.split_once("://")) {
                let host = rest.split('/').next().unwrap_or_default();
                found.push(
                    bad_value(domain, format!("`server_side_tools.{key}` takes domains, not addresses"))
                        .help(format!("write `{host}`")),
                );
            }
        }
    }
    Some(tool)
}
