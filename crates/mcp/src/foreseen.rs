//! The tools of servers that are known before a run: those that the operator has agreed to.

use crate::{
    configuration::{CLIENT, Configuration, qualified},
    known::{Agreement, ServerFiles},
    listing::{self, Listed},
};
use llm_do_core::{
    authority::Place,
    toolset::{ForeseenTool, ForeseenTools},
    worker::WorkerDefinition,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// Returns the tools of a worker's servers, in the program with that root. A server without an agreement may have any
/// tools.
pub(crate) fn tools(
    configuration: &Configuration,
    worker: &WorkerDefinition,
    root: &Place,
    known: Option<&ServerFiles>,
) -> ForeseenTools {
    let (mut listed, mut open) = (Listed::new(), Vec::new());
    if configuration.client {
        open.push(format!("{CLIENT}-"));
    }
    for (name, server) in &configuration.servers {
        let agreement = Agreement::new(root, name, server, worker);
        // A run reports an agreement that can't be read.
        match known.and_then(|known| known.agreed(&agreement).ok().flatten()) {
            Some(agreed) => {
                let named = |tool| json!({ "name": tool });
                let tools =
                    agreed.into_iter().map(|(tool, agreed)| agreed.definition.unwrap_or_else(|| named(tool)));
                listed.insert(name.clone(), tools.collect());
            }
            None => open.extend([format!("{name}:"), format!("{name}__")]),
        }
    }
    let names = listing::tool_names(&listed);
    let tools = listed.iter().flat_map(|(server, tools)| tools.iter().map(move |tool| (server, tool)));
    let foreseen = |(server, tool): (&String, &Value)| {
        let name = qualified(server, tool["name"].as_str().unwrap_or_default());
        let tool_name = names.get(&name).unwrap_or(&name).clone();
        ForeseenTool {
            name,
            tool_name,
            input: listing::input(tool).ok().map(|input| Arc::clone(input.value())),
        }
    };
    ForeseenTools { tools: tools.map(foreseen).collect(), open }
}
