//! A toolset of these tests, whose tool leaves a line in a file for each of its effects.

use llm_do::core::{
    function::{
        Concurrency, Function, FunctionMeta, FunctionSource, Implementation, Leaf, LeafCall, Risk, ToolError,
        ToolOutput,
    },
    origin::ResultOrigin,
    schema::Schema,
    send::BoxFuture,
    toolset::{ToolsetContext, ToolsetKind, ToolsetRuntime},
};
use serde_json::{Value, json};
use std::{fs::OpenOptions, io::Write as _, path::PathBuf, sync::Arc, time::Duration};

/// The toolset `effects` with the tools `effect`, which needs no approval, and `sign`, which needs one.
pub(crate) struct Effects {
    /// The file of the effects.
    pub(crate) file: PathBuf,
}

impl ToolsetKind for Effects {
    fn name(&self) -> &'static str {
        "effects"
    }

    fn tools(&self) -> &'static [&'static str] {
        &["effect", "sign"]
    }

    fn configuration(&self) -> Schema {
        Schema::built_in(json!({"type": "object"}))
    }
}

impl ToolsetRuntime for Effects {
    fn build<'a>(
        &'a self,
        _: &'a Value,
        context: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Result<Vec<Function>, String>> {
        let function = |name: &'static str, risk| {
            let meta = FunctionMeta {
                source: FunctionSource::Toolset("effects".into()),
                name: name.into(),
                tool_name: name.into(),
                aliases: &[],
                description: "Has an effect.".into(),
                input: Arc::new(Schema::built_in(json!({"type": "object"}))),
                output: None,
                risk,
                concurrency: Concurrency::Parallel,
                timeout: None,
                contained: true,
                results: ResultOrigin::Trusted,
                wildcard: false,
                policy: context.policy.clone(),
            };
            let body = Implementation::Leaf(Arc::new(Effect { file: self.file.clone() }));
            Function { meta, body, rule: None }
        };
        let functions = vec![function("effect", Risk::Read), function("sign", Risk::Exec)];
        Box::pin(async { Ok(functions) })
    }
}

struct Effect {
    file: PathBuf,
}

impl Leaf for Effect {
    fn run<'a>(&'a self, call: LeafCall<'a>) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let name = call.input["name"].as_str().unwrap_or_default();
            let mut file =
                OpenOptions::new().create(true).append(true).open(&self.file).expect("a file of effects");
            writeln!(file, "{name}").expect("an effect");
            if let Some(ms) = call.input["ms"].as_u64() {
                tokio::time::sleep(Duration::from_millis(ms)).await;
            }
            let bytes = call.input["bytes"].as_u64().unwrap_or(0);
            let text = if bytes > 0 {
                "x".repeat(usize::try_from(bytes).expect("a size"))
            } else {
                format!("did {name}")
            };
            Ok(ToolOutput::text(text))
        })
    }
}
