//! Workers, tools, answers of models, rules and mounts, from which a test builds its world.

use llm_do_core::{
    authority::{Access, Mount, Place, VirtualPath},
    function::{
        Concurrency, Function, FunctionMeta, FunctionSource, Implementation, Leaf, LeafCall, Risk, ToolError,
        ToolOutput,
    },
    gate::{Calls, Rule, RuleLine},
    model::{Arguments, FinishReason, ModelError, ModelResponse, ModelSettings, Part, ToolCall, Usage},
    origin::ResultOrigin,
    schema::Schema,
    send::BoxFuture,
    template::NoTemplates,
    worker::{AttachmentPolicy, Instructions, Limits, Sandbox, Signature, Untrusted, WorkerDefinition},
};
use serde_json::{Value, json};
use std::sync::Arc;

/// A worker that takes any input and may do nothing.
pub(crate) fn worker(id: &str) -> WorkerDefinition {
    let schema = json!({
        "type": "object",
        "properties": {
            "input": {},
            "instructions": {"type": "string"},
            "attachments": {"type": "array", "items": {"type": "string"}},
        },
        "additionalProperties": false,
    });
    WorkerDefinition {
        id: id.into(),
        source: FunctionSource::Program,
        root: Place::new("/p"),
        description: Some(format!("Does what {id} does.").into()),
        instructions: Instructions {
            text: format!("You are {id}.").into(),
            file: format!("workers/{id}.worker").into(),
            line_offset: 3,
            templates: Arc::new(NoTemplates),
        },
        models: Vec::new(),
        compatible_models: Vec::new(),
        settings: ModelSettings::default(),
        inherited: Default::default(),
        mode: Default::default(),
        interactive: false,
        locked: false,
        signature: Signature {
            schema: Arc::new(Schema::new(schema).unwrap()),
            declared: false,
            message: Some("input".into()),
            parameters: Vec::new(),
        },
        returns: None,
        ensures: Arc::new([]),
        returned_paths: Vec::new(),
        toolsets: Vec::new(),
        pins: Arc::default(),
        server_tools: Arc::new([]),
        tools: Arc::new([]),
        code: None,
        allow_workers: Vec::new(),
        fixed: Default::default(),
        rules: Arc::new([]),
        overrides: Vec::new(),
        sandbox: Sandbox::default(),
        attachments: AttachmentPolicy::default(),
        untrusted: Untrusted::default(),
        allow_empty_input: true,
        limits: Limits::default(),
        text: format!("You are {id}.").into(),
        code_sha256: None,
    }
}

/// A worker with the tools of the test, and the file tools.
pub(crate) fn worker_with_tools(id: &str) -> WorkerDefinition {
    let mut worker = worker(id);
    worker.toolsets = vec![("test".into(), Arc::new(json!({})))];
    worker
}

/// A leaf tool that takes any object.
pub(crate) fn tool<F>(name: &str, risk: Risk, run: F) -> Function
where
    F: Fn(&Value) -> Result<Value, String> + Send + Sync + 'static,
{
    Function {
        meta: FunctionMeta {
            source: FunctionSource::Toolset("test".into()),
            name: name.into(),
            tool_name: name.into(),
            aliases: &[],
            description: format!("Does {name}.").into(),
            input: Arc::new(Schema::built_in(json!({"type": "object"}))),
            output: None,
            risk,
            concurrency: Concurrency::ByRisk,
            timeout: None,
            contained: false,
            results: ResultOrigin::Trusted,
            wildcard: false,
            policy: None,
        },
        body: Implementation::Leaf(Arc::new(Closure(run))),
        rule: None,
    }
}

struct Closure<F>(F);

impl<F: Fn(&Value) -> Result<Value, String> + Send + Sync> Leaf for Closure<F> {
    fn run<'a>(&'a self, call: LeafCall<'a>) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        let result = (self.0)(call.input);
        Box::pin(async move { result.map(ToolOutput::new).map_err(ToolError::new) })
    }
}

/// An answer in text.
pub(crate) fn text(text: &str) -> Result<ModelResponse, ModelError> {
    Ok(ModelResponse {
        parts: vec![Part::text(text)],
        finish: FinishReason::Stop,
        usage: Usage::default(),
        unknown_finish: None,
    })
}

/// Tool calls: name and arguments.
pub(crate) fn calls<const N: usize>(calls: [(&str, Value); N]) -> Result<ModelResponse, ModelError> {
    calls_of(calls.map(|(name, arguments)| (name.to_owned(), arguments)))
}

/// Makes any number of [`calls`].
pub(crate) fn calls_of(
    calls: impl IntoIterator<Item = (String, Value)>,
) -> Result<ModelResponse, ModelError> {
    let parts = calls.into_iter().enumerate().map(|(at, (name, arguments))| {
        let arguments = Arguments::Json(Arc::new(arguments));
        Part::Call(ToolCall { id: format!("c{at}").into(), name: name.into(), arguments })
    });
    Ok(ModelResponse {
        parts: parts.collect(),
        finish: FinishReason::ToolCalls,
        usage: Usage::default(),
        unknown_finish: None,
    })
}

/// The same answer with so many output tokens, and nothing else that counts.
pub(crate) fn using(
    response: Result<ModelResponse, ModelError>,
    tokens: u64,
) -> Result<ModelResponse, ModelError> {
    response.map(|response| ModelResponse {
        usage: Usage { input_tokens: Some(0), output_tokens: Some(tokens), ..Usage::default() },
        ..response
    })
}

/// A rule line, as the command line takes it.
pub(crate) fn rule(pattern: &str, rule: Rule) -> RuleLine {
    let Calls { pattern: calls, conditions } = Calls::parse(pattern, &|set| Err(set.to_string())).unwrap();
    RuleLine::new(calls, rule, format!("rule {pattern}")).when(conditions)
}

/// A real place in the program's root.
pub(crate) fn place(below: &str) -> Place {
    Place::new("/program").join(below)
}

/// A mount of a folder of the program.
pub(crate) fn mount(at: &str, below: &str, access: Access) -> Mount {
    Mount::new(VirtualPath::parse(at).unwrap(), place(below), access)
}
