//! Async functions as tools.

use llm_do_core::{
    function::{
        Concurrency, Function, FunctionMeta, FunctionSource, Implementation, Leaf, LeafCall, ToolError,
        ToolOutput,
    },
    origin::ResultOrigin,
    risk::Risk,
    schema::{Schema, canonical, sha256},
    send::BoxFuture,
    toolset::ToolsetContext,
};
use schemars::{JsonSchema, generate::SchemaSettings, transform::transform_subschemas};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{fmt, sync::Arc, time::Duration};

/// An async function that models can call.
///
/// [`#[llm_do::tool]`](macro@crate::tool) makes one of a function; [`Tool::new`] makes one of a closure, which can hold
/// connections and other state. The input is a type with a schema, and its doc comments describe it to models. A result is
/// anything that can be JSON. An error is text that the model receives, so it says what to try.
///
/// ```
/// use llm_do::{Tool, schemars::JsonSchema};
/// use serde::Deserialize;
/// use std::{collections::BTreeMap, sync::Arc};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Lookup {
///     /// The product's number.
///     sku: String,
/// }
///
/// let prices = Arc::new(BTreeMap::from([("A-1".to_owned(), 1290_u64)]));
/// let price = Tool::new("price", "The price of a product, in cents.", move |lookup: Lookup| {
///     let prices = Arc::clone(&prices);
///     async move { prices.get(&lookup.sku).copied().ok_or("no such product: look it up with `search`") }
/// })
/// .reads();
/// ```
///
/// A tool that declares nothing has the risk [`Risk::Exec`]: each call of it needs an approval.
#[derive(Clone)]
pub struct Tool {
    name: &'static str,
    description: Arc<str>,
    input: Value,
    risk: Risk,
    concurrency: Concurrency,
    results: Option<ResultOrigin>,
    timeout: Option<Duration>,
    code: Arc<Code>,
}

type Code = dyn Fn(ToolContext, Value) -> BoxFuture<'static, Result<ToolOutput, ToolError>> + Send + Sync;

/// The context of a tool's call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolContext {
    /// ID of the run.
    pub run: Arc<str>,
    /// The same for every attempt at this call, now and after a resume. A service that takes such keys makes an effect once.
    pub idempotency_key: Arc<str>,
}

/// The input of a tool that takes none.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoArguments {}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("name", &self.name).field("risk", &self.risk).finish_non_exhaustive()
    }
}

impl Tool {
    /// Makes a tool with that name and description of an async function that takes one value and returns a `Result`.
    pub fn new<A, F, R, T, E>(name: &'static str, description: impl Into<Arc<str>>, function: F) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        F: Fn(A) -> R + Send + Sync + 'static,
        R: Future<Output = Result<T, E>> + Send + 'static,
        T: Serialize,
        E: fmt::Display,
    {
        Self::with_context(name, description, move |_, input| function(input))
    }

    /// Makes a tool of a function that also takes the context of the call.
    pub fn with_context<A, F, R, T, E>(
        name: &'static str,
        description: impl Into<Arc<str>>,
        function: F,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        F: Fn(ToolContext, A) -> R + Send + Sync + 'static,
        R: Future<Output = Result<T, E>> + Send + 'static,
        T: Serialize,
        E: fmt::Display,
    {
        let code = move |context: ToolContext, input: Value| -> BoxFuture<'static, _> {
            // The schema of the type is checked before. A type may still be narrower than its schema.
            let started = serde_json::from_value(input).map(|input| function(context, input));
            Box::pin(async move {
                let called =
                    started.map_err(|error| ToolError::new(format!("the arguments don't fit: {error}")))?;
                let value = called.await.map_err(|error| ToolError::new(format!("{error:#}")))?;
                let value = serde_json::to_value(value);
                value
                    .map(ToolOutput::new)
                    .map_err(|error| ToolError::new(format!("its result is no JSON: {error}")))
            })
        };
        Self {
            name,
            description: description.into(),
            input: schema_of::<A>(),
            risk: Risk::Exec,
            concurrency: Concurrency::ByRisk,
            results: None,
            timeout: None,
            code: Arc::new(code),
        }
    }

    /// Declares the risk of the tool. The risk decides about calls to which no rule applies: [`Risk::Read`] runs, all
    /// others ask.
    #[must_use]
    pub fn risk(self, risk: Risk) -> Self {
        Self { risk, ..self }
    }

    /// Declares that the tool reads and changes nothing: its calls run without a question.
    #[must_use]
    pub fn reads(self) -> Self {
        self.risk(Risk::Read)
    }

    /// Declares that the tool changes data.
    #[must_use]
    pub fn writes(self) -> Self {
        self.risk(Risk::Write)
    }

    /// Declares that its calls may run beside other calls of the same turn, whatever its risk.
    #[must_use]
    pub fn parallel(self) -> Self {
        Self { concurrency: Concurrency::Parallel, ..self }
    }

    /// Declares that the tool's results contain texts of other people: mails, pages, comments of customers.
    #[must_use]
    pub fn untrusted(self) -> Self {
        Self { results: Some(ResultOrigin::Untrusted), ..self }
    }

    /// Declares that its results are the program's own, although it talks to other machines.
    #[must_use]
    pub fn trusted(self) -> Self {
        Self { results: Some(ResultOrigin::Trusted), ..self }
    }

    /// Sets the time limit of a call, in place of 120 seconds.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// Returns the name of the tool.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the JSON Schema of the tool's input.
    pub fn input(&self) -> &Value {
        &self.input
    }

    pub(super) fn declared_risk(&self) -> Risk {
        self.risk
    }

    /// Returns the reason why it can't be a tool.
    pub(super) fn problem(&self) -> Option<String> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if self.name.is_empty() || self.name.len() > 64 || !self.name.chars().all(fits) {
            return Some("its name must have 1 to 64 letters, digits, `_` and `-`".into());
        }
        if self.input.get("type") != Some(&json!("object")) {
            return Some(
                "its input must be a struct with named fields, because models give arguments by name".into(),
            );
        }
        Schema::new(self.input.clone()).err().map(|error| error.to_string())
    }

    /// Returns the tool in the form for [`ToolsetRuntime::build`](crate::toolset::ToolsetRuntime::build). `toolset` is the
    /// kind's name.
    pub fn function(&self, toolset: &'static str, context: &ToolsetContext<'_>) -> Function {
        let described = json!([self.name, self.description, self.input, self.risk]);
        let leaf = ToolLeaf {
            code: Arc::clone(&self.code),
            identity: sha256(canonical(&described).as_bytes()).into(),
        };
        let of_risk = match self.risk {
            Risk::Network => ResultOrigin::Untrusted,
            _ => ResultOrigin::Trusted,
        };
        Function {
            meta: FunctionMeta {
                source: FunctionSource::Toolset(toolset.into()),
                name: self.name.into(),
                tool_name: self.name.into(),
                aliases: &[],
                description: Arc::clone(&self.description),
                input: Arc::new(Schema::built_in(self.input.clone())),
                output: None,
                risk: self.risk,
                concurrency: self.concurrency,
                timeout: self.timeout,
                contained: false,
                results: self.results.clone().unwrap_or(of_risk),
                wildcard: false,
                policy: context.policy.clone(),
            },
            body: Implementation::Leaf(Arc::new(leaf)),
            rule: None,
        }
    }
}

/// A tool as a step.
struct ToolLeaf {
    code: Arc<Code>,
    identity: Arc<str>,
}

impl Leaf for ToolLeaf {
    fn identity(&self) -> BoxFuture<'_, Option<Arc<str>>> {
        Box::pin(async { Some(Arc::clone(&self.identity)) })
    }

    fn run<'a>(&'a self, call: LeafCall<'a>) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        let context = ToolContext { run: call.run.into(), idempotency_key: call.idempotency_key.into() };
        (self.code)(context, call.input.clone())
    }
}

/// Returns the schema of an input as models see it: without the name of the Rust type, and without formats such as
/// `uint32`, which providers don't know.
fn schema_of<A: JsonSchema>() -> Value {
    fn plain(schema: &mut schemars::Schema) {
        let of_rust = |format: &str| {
            format.starts_with("int") || format.starts_with("uint") || ["float", "double"].contains(&format)
        };
        if schema.get("format").and_then(Value::as_str).is_some_and(of_rust) {
            schema.remove("format");
        }
        transform_subschemas(&mut plain, schema);
    }
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.with_transform(plain).into_generator().into_root_schema_for::<A>();
    schema.remove("title");
    // The description of the tool says what it does; that of the type is for readers of the code.
    schema.remove("description");
    schema.to_value()
}
