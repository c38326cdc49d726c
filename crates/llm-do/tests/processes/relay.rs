//! A toolset of this test: code that calls a worker and a tool, as a Python tool with a `ToolContext` does.

use llm_do::core::{
    code_calls::CodeCalls,
    engine::{End, Halt, Outcome, Stop},
    function::{
        Composite, CompositeCall, Concurrency, Function, FunctionMeta, FunctionSource, Implementation, Risk,
    },
    schema::Schema,
    send::BoxFuture,
    toolset::{ToolsetContext, ToolsetKind, ToolsetRuntime},
};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) struct Relay;

impl ToolsetKind for Relay {
    fn name(&self) -> &'static str {
        "relay"
    }

    fn tools(&self) -> &'static [&'static str] {
        &["relay"]
    }

    fn configuration(&self) -> Schema {
        Schema::built_in(json!({"type": "object"}))
    }
}

impl ToolsetRuntime for Relay {
    fn build<'a>(
        &'a self,
        _: &'a Value,
        context: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Result<Vec<Function>, String>> {
        let meta = meta(context);
        let body = Implementation::Composite(Arc::new(Relaying(meta.clone())));
        Box::pin(async { Ok(vec![Function { meta, body, rule: None }]) })
    }
}

fn meta(context: &ToolsetContext<'_>) -> FunctionMeta {
    FunctionMeta {
        source: FunctionSource::Toolset("relay".into()),
        name: "relay".into(),
        tool_name: "relay".into(),
        aliases: &[],
        description: "Asks a worker, reads a file and asks the user.".into(),
        input: Arc::new(Schema::built_in(json!({"type": "object"}))),
        output: None,
        risk: Risk::Read,
        concurrency: Concurrency::Barrier,
        timeout: None,
        contained: true,
        results: llm_do_core::origin::ResultOrigin::Trusted,
        wildcard: false,
        policy: context.policy.clone(),
    }
}

struct Relaying(FunctionMeta);

impl Composite for Relaying {
    fn run<'a>(&'a self, call: CompositeCall<'a>) -> BoxFuture<'a, Result<Outcome, Halt>> {
        Box::pin(async move {
            let calls = CodeCalls::new(call.engine, call.frame, call.path, &self.0);
            let said = async |name: &str, input: Value, only_tools| -> Result<Value, Stop> {
                match calls.make(calls.find(name, input, only_tools)?).await?.end {
                    End::Done(value) => Ok((*value).clone()),
                    End::Failed(failure) => Err(failure.into()),
                    End::Suspended(waiting) => Err(Stop::Suspended(waiting)),
                }
            };
            let both = async {
                let talked = said("talker", json!("short"), false).await?;
                let read = said("read_file", json!({"path": "/notes/a.txt"}), true).await?;
                let form = Schema::built_in(json!({"type": "object", "required": ["colour"]}));
                let said = call.engine.input(call.frame, call.path, 0, "Which colour?", Some(&form)).await?;
                Ok(json!([talked, read, said]))
            };
            Ok(Outcome::free(match both.await {
                Ok(value) => End::Done(Arc::new(value)),
                Err(stop) => Stop::end(stop)?,
            }))
        })
    }
}
