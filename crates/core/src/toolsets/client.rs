//! The tools of a run's client: the client declares them, and executes their calls itself (`docs/reference/ag-ui.md`).

use crate::{
    function::{Composite, CompositeCall, Concurrency, Function, FunctionMeta, Implementation, UserAnswer},
    model::Usage,
    origin::{Origins, ResultOrigin},
    outcome::{End, Failure, FailureKind, Halt, Outcome},
    risk::Risk,
    schema::{Schema, canonical, sha256},
    send::BoxFuture,
    source::FunctionSource,
    toolset::{ToolsetContext, ToolsetKind},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// The name of the kind, and the beginning of its tools' names in rules and records: `client:NAME`.
pub const CLIENT: &str = "client";

/// Greatest length of the name of a tool. The model's name for it has a prefix, and providers take 64 characters.
const LONGEST_NAME: usize = 56;

/// A tool that the client of a run declares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientTool {
    /// The client's own name for it.
    pub name: Arc<str>,
    /// The description, for the model.
    #[serde(default)]
    pub description: Arc<str>,
    /// The JSON Schema of its arguments, an object.
    pub parameters: Arc<Value>,
}

impl ClientTool {
    /// Makes a tool with the schema of its arguments. A tool without a schema takes no arguments.
    ///
    /// # Errors
    /// The name or the schema can't be used; the error has the field and the reason.
    pub fn new(name: &str, description: &str, parameters: Option<Value>) -> Result<Self, String> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_name) {
            return Err(format!("name: must have 1 to {LONGEST_NAME} letters, digits, `_` or `-`"));
        }
        let mut parameters = match parameters {
            None | Some(Value::Null) => json!({"type": "object", "properties": {}}),
            Some(Value::Object(schema)) if schema.is_empty() => json!({"type": "object", "properties": {}}),
            Some(schema) => schema,
        };
        let Some(keywords) = parameters.as_object_mut() else {
            return Err("parameters: must be a JSON Schema of an object".into());
        };
        if *keywords.entry("type").or_insert_with(|| "object".into()) != "object" {
            return Err("parameters: must be a JSON Schema of an object".into());
        }
        Schema::new(parameters.clone())
            .map_err(|error| format!("parameters: is no usable JSON Schema: {error}"))?;
        Ok(Self { name: name.into(), description: description.into(), parameters: Arc::new(parameters) })
    }
}

/// Returns the client's own name of a tool with that name in records.
pub fn name_at_client(function: &str) -> &str {
    function.strip_prefix(CLIENT).and_then(|rest| rest.strip_prefix(':')).unwrap_or(function)
}

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
        Schema::built_in(json!({
            "type": "object",
            "properties": {
                "risk": {
                    "enum": ["read", "write", "exec", "network", "destructive"],
                    "description": "The risk of the tools. Default: exec",
                },
            },
            "additionalProperties": false,
        }))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_needs_a_name_for_providers_and_a_schema_of_an_object() {
        for (name, parameters, wrong) in [
            ("confirm", None, None),
            ("confirm", Some(json!({})), None),
            ("confirm", Some(json!({"properties": {"a": {"type": "integer"}}})), None),
            ("", None, Some("name")),
            ("a b", None, Some("name")),
            (&*"a".repeat(57), None, Some("name")),
            ("confirm", Some(json!([])), Some("parameters")),
            ("confirm", Some(json!({"type": "string"})), Some("parameters")),
            (
                "confirm",
                Some(json!({"type": "object", "properties": {"a": {"type": 7}}})),
                Some("parameters"),
            ),
        ] {
            let made = ClientTool::new(name, "", parameters.clone());
            let field = made.as_ref().err().and_then(|why| why.split(':').next());
            assert_eq!(field, wrong, "{name} {parameters:?}");
            assert!(made.is_err() || made.is_ok_and(|tool| tool.parameters["type"] == "object"));
        }
    }

    #[test]
    fn names_of_other_functions_have_no_name_at_the_client() {
        assert_eq!((name_at_client("client:confirm"), name_at_client("clients")), ("confirm", "clients"));
    }
}
