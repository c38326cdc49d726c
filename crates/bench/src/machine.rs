//! The machine in the form in which an embedding program uses it: a worker file and one tool, with the loopback server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use llm_do::core::function::{
    Concurrency, Function, FunctionMeta, FunctionSource, Implementation, Leaf, LeafCall, Risk, ToolError,
    ToolOutput,
};
use llm_do::core::gate::Policy;
use llm_do::core::schema::Schema;
use llm_do::core::send::BoxFuture;
use llm_do::core::toolset::{ToolsetContext, ToolsetKind, ToolsetRegistry, ToolsetRuntime};
use llm_do::{Input, Session, Settings};
use serde_json::{Value, json};

use crate::{DESCRIPTION, Failure, MODEL, RESULT, SYSTEM, TOOL, USER, schema};

/// A toolset with one tool, whose only cost is its way through the machine.
struct Lookup {
    input: Arc<Schema>,
}

struct Constant;

impl ToolsetKind for Lookup {
    fn name(&self) -> &'static str {
        "lookup"
    }

    fn tools(&self) -> &'static [&'static str] {
        &[TOOL]
    }

    fn configuration(&self) -> Schema {
        Schema::built_in(json!({"type": "object", "additionalProperties": false}))
    }
}

impl ToolsetRuntime for Lookup {
    fn build<'a>(
        &'a self,
        _: &'a Value,
        context: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Result<Vec<Function>, String>> {
        let made = vec![Function {
            meta: FunctionMeta {
                source: FunctionSource::Toolset(self.name().into()),
                name: TOOL.into(),
                tool_name: TOOL.into(),
                aliases: &[],
                description: DESCRIPTION.into(),
                input: Arc::clone(&self.input),
                output: None,
                risk: Risk::Read,
                concurrency: Concurrency::ByRisk,
                timeout: None,
                contained: false,
                results: llm_do::core::origin::ResultOrigin::Trusted,
                wildcard: false,
                policy: context.policy.as_ref().map(Arc::<Policy>::clone),
            },
            body: Implementation::Leaf(Arc::new(Constant)),
            rule: None,
        }];
        Box::pin(async { Ok(made) })
    }
}

impl Leaf for Constant {
    fn run<'a>(&'a self, _: LeafCall<'a>) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async { Ok(ToolOutput::text(RESULT)) })
    }
}

/// Opens the program in this folder, which gets its worker file and its runs. `limits` are those of the worker. Answers
/// are streamed, which is the default, or returned whole.
///
/// # Errors
/// The folder can't be written, or the program is not valid.
pub fn session(place: &Path, url: &str, limits: &Value, stream: bool) -> Result<Session, Failure> {
    let worker =
        format!("---\nmodel: openai:{MODEL}\ntoolsets:\n  lookup: {{}}\nlimits: {limits}\n---\n{SYSTEM}\n");
    std::fs::write(place.join("main.worker"), worker)?;
    let base = format!("{url}/v1");
    let mut toolsets = ToolsetRegistry::built_in();
    toolsets.register(Arc::new(Lookup { input: Arc::new(Schema::new(schema())?) }));
    let settings = Settings {
        toolsets,
        home: home(place),
        providers: Box::new(move |providers, _| providers.streaming(stream)),
        environment: Arc::new(move |name| match name {
            "OPENAI_BASE_URL" => Some(base.clone()),
            "OPENAI_API_KEY" => Some("none".into()),
            _ => None,
        }),
        ..Settings::for_target(&place.join("main.worker").to_string_lossy())
    };
    Ok(Session::open(settings)?)
}

/// The user's folder of such a session.
pub(crate) fn home(place: &Path) -> PathBuf {
    place.join("home")
}

/// The input of every run.
pub fn input() -> Input {
    Input { message: Some(USER.into()), ..Input::default() }
}
