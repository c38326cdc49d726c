//! Toolsets: named, configurable families of tools (SPEC §8.1).
//!
//! A kind registers its name, the schema of its configuration, and a factory. The built-in kinds are registered the
//! same way as an embedding program's own.

use crate::{
    authority::Authority,
    function::Function,
    gate::{Pattern, Policy, Rule, RuleLine},
    schema::Schema,
    send::{BoxFuture, MaybeSend, MaybeSync},
    worker::{CodeEntry, Definitions, WorkerDefinition},
};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// What a factory receives.
pub struct ToolsetContext<'a> {
    /// ID of the run that they are made for.
    pub run: &'a Arc<str>,
    /// The worker that the tools are for.
    pub worker: &'a Arc<WorkerDefinition>,
    /// What it may touch.
    pub authority: &'a Authority,
    /// The program.
    pub definitions: &'a Arc<dyn Definitions>,
    /// The toolset's `approval`, parsed.
    pub policy: Option<Arc<Policy>>,
}

/// A toolset that could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("toolset `{toolset}` of worker `{worker}`: {reason}")]
pub struct ToolsetError {
    /// The kind.
    pub toolset: String,
    /// Whose.
    pub worker: String,
    /// What is wrong.
    pub reason: String,
}

/// A kind of toolset.
pub trait ToolsetKind: MaybeSend + MaybeSync {
    /// Its name in `toolsets`.
    fn name(&self) -> &'static str;
    /// Older names for it.
    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }
    /// Names of its tools, where they are the same for every worker that has the toolset: what else a worker has must
    /// not get one of them (SPEC §8.1).
    fn tools(&self) -> &'static [&'static str] {
        &[]
    }
    /// Schema of its configuration, without `tools` and `approval`, which every toolset takes.
    fn configuration(&self) -> Schema;
    /// Makes the tools. `configuration` is valid.
    fn build<'a>(
        &'a self,
        configuration: &'a Value,
        context: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Result<Vec<Function>, String>>;
    /// The function that a worker of code is. Only a kind that runs code has any.
    fn entry<'a>(
        &'a self,
        _code: &'a CodeEntry,
        _context: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Result<Function, String>> {
        Box::pin(async { Err(format!("the toolset `{}` runs no code", self.name())) })
    }
}

/// The kinds that a host knows.
#[derive(Clone, Default)]
pub struct ToolsetRegistry {
    kinds: BTreeMap<&'static str, Arc<dyn ToolsetKind>>,
}

impl ToolsetRegistry {
    /// The kinds that need nothing but ports: `filesystem` and `workers`.
    pub fn built_in() -> Self {
        let mut registry = Self::default();
        registry.register(Arc::new(crate::toolsets::filesystem::Filesystem));
        registry.register(Arc::new(crate::toolsets::workers::Workers));
        registry
    }
    /// Adds a kind.
    pub fn register(&mut self, kind: Arc<dyn ToolsetKind>) {
        self.kinds.insert(kind.name(), kind);
    }
    /// The kind of that name or alias.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn ToolsetKind>> {
        self.kinds.get(name).or_else(|| self.kinds.values().find(|kind| kind.aliases().contains(&name)))
    }
    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.kinds.keys().copied()
    }
}

/// A toolset's configuration, taken apart.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    /// What is the kind's own.
    pub own: Value,
    /// `tools`: offer only these.
    pub tools: Option<Vec<String>>,
    /// `approval`.
    pub policy: Option<Arc<Policy>>,
}

impl Configuration {
    /// Splits off what every toolset takes: `tools: [names]` and `approval {default, tools}` (SPEC §2.1). `origin`
    /// names the approval block in verdicts.
    pub fn parse(whole: &Value, origin: &str) -> Result<Self, String> {
        let mut own = match whole {
            Value::Null => serde_json::Map::new(),
            Value::Object(map) => map.clone(),
            _ => return Err("its configuration must be a map".into()),
        };
        let tools = own.shift_remove("tools").map(serde_json::from_value).transpose();
        let tools = tools.map_err(|_| "`tools` must be a list of names".to_owned())?;
        let policy = own.shift_remove("approval").map(|block| parse_policy(&block, origin)).transpose()?;
        Ok(Self { own: Value::Object(own), tools, policy: policy.map(Arc::new) })
    }
}

fn parse_policy(block: &Value, origin: &str) -> Result<Policy, String> {
    let rule = |value: &Value| {
        serde_json::from_value::<Rule>(value.clone())
            .map_err(|_| format!("`approval` takes preApproved, ask or blocked, not `{value}`"))
    };
    let map = block.as_object().ok_or("`approval` must be a map with `default` and `tools`")?;
    let mut policy = Policy { origin: origin.into(), ..Policy::default() };
    for (key, value) in map {
        match key.as_str() {
            "default" => policy.default = Some(rule(value)?),
            "tools" => {
                for (pattern, value) in
                    value.as_object().ok_or("`approval.tools` must be a map of tool: rule")?
                {
                    policy.lines.push(RuleLine {
                        pattern: Pattern::parse(pattern).map_err(|error| error.to_string())?,
                        rule: rule(value)?,
                        origin: format!("{origin}.tools.{pattern}").into(),
                    });
                }
            }
            other => return Err(format!("`approval` has no key `{other}`; it takes `default` and `tools`")),
        }
    }
    Ok(policy)
}
