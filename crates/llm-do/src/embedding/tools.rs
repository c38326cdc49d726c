//! Functions of the embedding program as a toolset.

use super::tool::Tool;
use crate::{kinds, problem::Problem};
use llm_do_core::{
    function::Function,
    risk::Risk,
    schema::Schema,
    send::BoxFuture,
    toolset::{ToolsetContext, ToolsetKind, ToolsetRegistry, ToolsetRuntime},
    worker::WorkerDefinition,
};
use serde_json::Value;
use std::{path::Path, sync::Arc};

/// The toolset of tools that are registered without one.
pub(super) const RUST: &str = "rust";

/// A toolset whose tools are functions of the embedding program.
pub(super) struct Tools {
    name: &'static str,
    tools: Vec<Tool>,
    names: Vec<&'static str>,
}

impl Tools {
    /// # Errors
    /// One of them can't be a tool, or two have one name.
    pub(super) fn new(name: &'static str, tools: Vec<Tool>) -> Result<Self, Problem> {
        let mut names: Vec<&'static str> = Vec::new();
        for tool in &tools {
            let twice = names.contains(&tool.name()).then(|| "there are two tools of that name".to_owned());
            if let Some(reason) = tool.problem().or(twice) {
                return Err(Problem::Toolset { name: tool.name(), reason });
            }
            names.push(tool.name());
        }
        Ok(Self { name, tools, names })
    }

    fn get(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name() == name)
    }
}

impl ToolsetKind for Tools {
    fn name(&self) -> &'static str {
        self.name
    }

    fn tools(&self) -> &[&'static str] {
        &self.names
    }

    fn risk(&self, tool: &str) -> Option<Risk> {
        self.get(tool).map(Tool::declared_risk)
    }

    fn input(&self, tool: &str) -> Option<Schema> {
        self.get(tool).map(|tool| Schema::built_in(tool.input().clone()))
    }

    fn may_ask(&self, _: &WorkerDefinition, _: &Value, tools: Option<&[String]>) -> bool {
        let offered = |tool: &&Tool| tools.is_none_or(|names| names.iter().any(|name| name == tool.name()));
        self.tools.iter().filter(offered).any(|tool| tool.declared_risk() != Risk::Read)
    }
}

impl ToolsetRuntime for Tools {
    fn build<'a>(
        &'a self,
        _configuration: &'a Value,
        context: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Result<Vec<Function>, String>> {
        let functions = self.tools.iter().map(|tool| tool.function(self.name, context)).collect();
        Box::pin(async { Ok(functions) })
    }
}

/// Adds a kind to those that a host knows. A kind can't replace another kind, or a tool of llm-do.
///
/// # Errors
/// The kind would replace another kind or a tool.
pub(super) fn register(kinds: &mut ToolsetRegistry, kind: Arc<dyn ToolsetRuntime>) -> Result<(), Problem> {
    let name = kind.name();
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(plain) {
        let reason = "the name of a toolset is a lower-case word, such as `billing`".into();
        return Err(Problem::Toolset { name, reason });
    }
    let all = kinds::described(kinds.clone(), Path::new(""));
    if all.get(name).is_some() {
        return Err(Problem::Toolset { name, reason: "there is a toolset of that name".into() });
    }
    if let Some(owner) = all.reserving(kind.tools(), |_| true) {
        let reason = format!("one of its tools has the name of a tool of `{}`: rename it", owner.name());
        return Err(Problem::Toolset { name, reason });
    }
    kinds.register(kind);
    Ok(())
}
