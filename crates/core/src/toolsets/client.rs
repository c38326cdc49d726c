//! The toolset of the tools that a run's client declares and executes itself (`docs/reference/ag-ui.md`).

use crate::{
    client_tool::{CLIENT, ClientTool},
    function::{Composite, CompositeCall, Concurrency, Function, FunctionMeta, Implementation, UserAnswer},
    model::Usage,
    origin::{Origins, ResultOrigin},
    outcome::{End, Failure, FailureKind, Halt, Outcome},
    risk::Risk,
    schema::{Schema, canonical, sha256},
    send::BoxFuture,
    source::FunctionSource,
    toolset::{ToolsetContext, ToolsetKind, ToolsetRuntime},
};
use serde_json::{Value, json};
use std::sync::Arc;

/// The toolset kind `client`.
pub struct Client;

impl ToolsetKind for Client {
    fn name(&self) -> &'static str {
        CLIENT
    }
    fn is_of_client(&self) -> bool {
        true
    }
    fn inheritable(&self) -> bool {
        false
    }
    fn configuration(&self) -> Schema {
        Schema::of_keys(json!({
            "risk": {
                "enum": ["read", "write", "exec", "network", "destructive"],
                "description": "The risk of the tools. Default: exec",
            },
        }))
    }
}

impl ToolsetRuntime for Client {
    fn build<'a>(
        &'a self,
        configuration: &'a Value,
        context: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Result<Vec<Function>, String>> {
        Box::pin(async {
            let risk = configuration.get("risk").cloned().map(serde_json::from_value::<Risk>).transpose();
            let risk = risk.map_err(|error| format!("`risk`: {error}"))?.unwrap_or(Risk::Exec);
            context.client_tools.iter().map(|tool| function(tool, risk, context)).collect()
        })
    }
}

fn function(tool: &ClientTool, risk: Risk, context: &ToolsetContext<'_>) -> Result<Function, String> {
    let name = &tool.name;
    let input = Schema::new((*tool.parameters).clone())
        .map_err(|error| format!("the client's tool `{name}` has no usable JSON Schema: {error}"))?;
    let definition = json!([tool.description, *tool.parameters]);
    Ok(Function {
        meta: FunctionMeta {
            source: FunctionSource::Toolset(CLIENT.into()),
            name: format!("{CLIENT}:{name}").into(),
            tool_name: format!("{CLIENT}__{name}").into(),
            aliases: &[],
            description: Arc::clone(&tool.description),
            input: Arc::new(input),
            output: None,
            risk,
            concurrency: Concurrency::ByRisk,
            timeout: None,
            contained: false,
            results: ResultOrigin::Foreign,
            wildcard: false,
            policy: context.policy.clone(),
        },
        body: Implementation::Composite(Arc::new(AtClient {
            name: Arc::clone(name),
            identity: sha256(canonical(&definition).as_bytes()).into(),
        })),
        rule: None,
    })
}

/// A call that the client executes.
struct AtClient {
    name: Arc<str>,
    identity: Arc<str>,
}

impl Composite for AtClient {
    fn identity(&self) -> BoxFuture<'_, Option<Arc<str>>> {
        Box::pin(async { Some(Arc::clone(&self.identity)) })
    }

    fn run<'a>(&'a self, call: CompositeCall<'a>) -> BoxFuture<'a, Result<Outcome, Halt>> {
        Box::pin(async move {
            let prompt = format!(
                "The client of this run executes `{}` with these arguments, and sends the result:\n\n{}",
                self.name,
                serde_json::to_string_pretty(call.input).unwrap_or_default()
            );
            let failed = |kind, message| End::Failed(Failure::new(kind, message));
            let end = match call.engine.put(call.frame, call.path, 0, &prompt, None).await {
                Ok(UserAnswer::Given(value)) => End::Done(value),
                Ok(UserAnswer::Declined(reason)) => {
                    let why = reason.map_or_else(String::new, |reason| format!(": {reason}"));
                    failed(FailureKind::Tool, format!("The client did not execute `{}`{why}", self.name))
                }
                Ok(UserAnswer::Stopped) => {
                    let message = "The user stopped the answer before the client sent the result".to_owned();
                    failed(FailureKind::Stopped, message)
                }
                Err(stop) => stop.end()?,
            };
            Ok(Outcome { origins: Origins::untrusted(), ..Outcome::of(end, Usage::default()) })
        })
    }
}
