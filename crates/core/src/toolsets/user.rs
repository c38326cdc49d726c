//! Talking to the user in the middle of a run (`docs/reference/conversations.md`).

use crate::{
    definition::WorkerDefinition,
    function::{Composite, CompositeCall, Concurrency, Function, FunctionMeta, Implementation},
    model::Usage,
    origin::{Origins, ResultOrigin, echoed},
    outcome::{End, Failure, FailureKind, Halt, Outcome},
    risk::Risk,
    schema::Schema,
    send::BoxFuture,
    source::FunctionSource,
    toolset::{ToolsetContext, ToolsetKind, ToolsetRuntime},
};
use serde_json::{Value, json};
use std::sync::Arc;

/// The name of its only tool.
const ASK_USER: &str = "ask_user";

/// The toolset kind `user`: a worker has it with `interaction: user`.
pub struct User;

impl ToolsetKind for User {
    fn name(&self) -> &'static str {
        "user"
    }
    fn tools(&self) -> &'static [&'static str] {
        &[ASK_USER]
    }
    fn risk(&self, _tool: &str) -> Option<Risk> {
        Some(Risk::Read)
    }
    fn input(&self, tool: &str) -> Option<Schema> {
        (tool == ASK_USER).then(input)
    }
    fn implied_by(&self, worker: &WorkerDefinition) -> bool {
        worker.interactive
    }
    fn may_ask(&self, _: &WorkerDefinition, _: &Value, _: Option<&[String]>) -> bool {
        false
    }
    fn inheritable(&self) -> bool {
        false
    }
}

impl ToolsetRuntime for User {
    fn build<'a>(
        &'a self,
        _configuration: &'a Value,
        context: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Result<Vec<Function>, String>> {
        Box::pin(async {
            if !context.worker.interactive {
                return Err("only a worker with `interaction: user` may talk to the user".into());
            }
            Ok(vec![ask_user(context)])
        })
    }
}

fn input() -> Schema {
    Schema::built_in(json!({
        "type": "object",
        "properties": {
            "question": {"type": "string", "description": "What you want to know, as the user reads it."},
            "choices": {
                "type": "array",
                "items": {"type": "string"},
                "minItems": 2,
                "description": "The answers to choose from, if there are only these.",
            },
            "form": {
                "type": "object",
                "description": "A JSON Schema of type `object` with the fields to fill in, for several values at once.",
            },
        },
        "required": ["question"],
        "additionalProperties": false,
    }))
}

fn ask_user(context: &ToolsetContext<'_>) -> Function {
    Function {
        meta: FunctionMeta {
            source: FunctionSource::Toolset("user".into()),
            name: ASK_USER.into(),
            tool_name: ASK_USER.into(),
            aliases: &[],
            description: "Asks the user a question and waits for the answer: a text, one of `choices`, or the fields of \
                          `form`."
                .into(),
            input: Arc::new(input()),
            output: None,
            risk: Risk::Read,
            concurrency: Concurrency::Barrier,
            timeout: None,
            contained: false,
            results: ResultOrigin::User,
            wildcard: false,
            policy: context.policy.clone(),
        },
        body: Implementation::Composite(Arc::new(AskUser)),
        rule: None,
    }
}

struct AskUser;

/// The schema of the answer; `None` for any text.
fn wanted(input: &Value) -> Result<Option<Schema>, String> {
    let schema = match (input.get("choices"), input.get("form")) {
        (Some(_), Some(_)) => return Err("Give `choices` or `form`, not both.".into()),
        (Some(choices), None) => json!({"enum": choices}),
        (None, Some(form)) if form.get("type").and_then(Value::as_str) == Some("object") => form.clone(),
        (None, Some(_)) => return Err("`form` must be a JSON Schema with `\"type\": \"object\"`.".into()),
        (None, None) => return Ok(None),
    };
    Schema::new(schema).map(Some).map_err(|error| format!("`form` is no usable JSON Schema: {error}"))
}

impl Composite for AskUser {
    /// Returns true: the user's own words are those of the operator, and the choices that the question offers keep
    /// their origin.
    fn knows_origins(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, call: CompositeCall<'a>) -> BoxFuture<'a, Result<Outcome, Halt>> {
        Box::pin(async move {
            let schema = match wanted(call.input) {
                Ok(schema) => schema,
                Err(reason) => {
                    let failure = Failure::new(FailureKind::InvalidInput, reason);
                    return Ok(Outcome::free(End::Failed(failure)));
                }
            };
            let question = call.input.get("question").and_then(Value::as_str).unwrap_or_default();
            let (end, origins) =
                match call.engine.input(call.frame, call.path, 0, question, schema.as_ref()).await {
                    Ok(value) => {
                        let user = Origins::whole(call.frame.user());
                        let offered = match schema {
                            Some(_) => echoed(call.input, call.origins, &value),
                            None => Origins::TRUSTED,
                        };
                        (End::Done(value), user.and(offered))
                    }
                    Err(stop) => (stop.end()?, Origins::TRUSTED),
                };
            Ok(Outcome { origins, ..Outcome::of(end, Usage::default()) })
        })
    }
}
