//! A tool of a server as a function.

use crate::{
    configuration::Server,
    connection::CallError,
    known::{Definition, hash, name_of},
    pool::{Live, Pool, Starter},
    process::Launch,
    result,
};
use llm_do_core::{
    authority::Authority,
    function::{Effects, Leaf, LeafCall, ToolError, ToolOutput},
    gate::{DecidedBy, Rule},
    schema::{canonical, sha256},
    send::BoxFuture,
};
use llm_do_sandbox::confine::Planted;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::OnceCell;

/// A server as the tools of one worker use it.
pub(crate) struct WorkersServer {
    pub(crate) name: String,
    pub(crate) server: Server,
    pub(crate) run: Arc<str>,
    /// What the worker may touch.
    pub(crate) authority: Arc<Authority>,
    /// Absent where nothing may be started.
    pub(crate) starter: Option<Starter>,
    pub(crate) pool: Arc<Pool>,
    launch: OnceCell<Arc<Launch>>,
}

impl WorkersServer {
    pub(crate) fn new(
        name: String,
        server: Server,
        run: Arc<str>,
        authority: Arc<Authority>,
        starter: Option<Starter>,
        pool: Arc<Pool>,
    ) -> Self {
        Self { name, server, run, authority, starter, pool, launch: OnceCell::new() }
    }

    /// How its process is started, with the places that it may see.
    ///
    /// # Errors
    /// Why it can't be started.
    pub(crate) async fn launch(&self) -> Result<&Arc<Launch>, String> {
        let starter = self.starter()?;
        let prepare = async || {
            let (server, authority) = (self.server.clone(), Arc::clone(&self.authority));
            Launch::prepare(server, authority, &starter.confiner).await.map(Arc::new)
        };
        self.launch.get_or_try_init(prepare).await
    }

    pub(crate) fn starter(&self) -> Result<&Starter, String> {
        self.starter.as_ref().ok_or_else(|| "nothing starts servers here".to_owned())
    }

    async fn live(&self) -> Result<Arc<Live>, String> {
        let (launch, starter) = (self.launch().await?, self.starter()?);
        self.pool.start(&self.run, launch, starter).live().await.map_err(|reason| reason.to_string())
    }
}

/// A tool of a server.
pub(crate) struct McpTool {
    pub(crate) server: Arc<WorkersServer>,
    /// Its name in rules.
    pub(crate) name: Arc<str>,
    /// As it was listed.
    pub(crate) definition: Definition,
    /// Whether its results have a schema.
    pub(crate) has_output: bool,
    /// Whether calls of it ask unless a rule says otherwise.
    pub(crate) asks: bool,
}

impl McpTool {
    async fn call(&self, call: LeafCall<'_>) -> Result<ToolOutput, ToolError> {
        let server = &self.server.name;
        let unusable =
            |reason: String| ToolError::new(format!("the MCP server `{server}` can't be used: {reason}"));
        let live = self.server.live().await.map_err(unusable)?;
        // It was listed before, perhaps by an earlier process: what it says now must be what was shown and accepted.
        let name = name_of(&self.definition);
        let now = live.tools().iter().find(|tool| name_of(tool) == name).map(hash);
        if now.as_ref() != Some(&hash(&self.definition)) {
            return Err(unusable(format!(
                "it no longer offers `{name}` as it was listed when this conversation began; the next conversation lists \
                 it again"
            )));
        }
        let arguments = call.input.as_object().cloned().unwrap_or_default();
        let (patience, most) = (self.server.server.patience(), self.server.server.most());
        let answer = live.connection.call(name, arguments, patience, most).await;
        let log = self.log(&live, call.run).await;
        match answer {
            Ok(answer) => result::output(&self.name, answer, self.has_output, log),
            Err(CallError::Answered(message)) => Err(ToolError { message, log }),
            Err(CallError::Lost(reason)) => {
                let message = format!(
                    "the call of the MCP server `{server}` has no answer: {reason}. It may have had its effect; check \
                     before you call it again."
                );
                Err(ToolError { message, log })
            }
        }
    }

    /// What the server printed, and what it has left behind in the folders that it may write.
    async fn log(&self, live: &Live, run: &str) -> Option<Arc<str>> {
        let mut lines: Vec<String> = live.connection.printed().iter().map(ToString::to_string).collect();
        if let (Ok(launch), Ok(starter)) = (self.server.launch().await, self.server.starter()) {
            let (launch, confiner, run) = (Arc::clone(launch), Arc::clone(&starter.confiner), run.to_owned());
            let looked = tokio::task::spawn_blocking(move || {
                confiner.watch().look(&run, &launch.view, &launch.authority)
            });
            match looked.await {
                Ok(Ok(planted)) => lines.extend(Planted::notices(&planted)),
                Ok(Err(error)) => {
                    lines.push(format!("the folders that the server could write can't be searched: {error}"));
                }
                Err(error) => lines.push(error.to_string()),
            }
        }
        (!lines.is_empty()).then(|| lines.join("\n").into())
    }
}

impl Leaf for McpTool {
    fn effects(&self, _input: &Value) -> Effects {
        // The server says that the tool only reads. That is not the operator's word.
        let says = self.asks.then(|| {
            let why = format!("the MCP server `{}` describes its tools itself", self.server.name);
            (Rule::Ask, DecidedBy::Toolset { why: why.into() })
        });
        Effects { says, process: true, ..Effects::default() }
    }

    fn least(&self) -> Option<Effects> {
        Some(self.effects(&Value::Null))
    }

    fn identity(&self) -> BoxFuture<'_, Option<Arc<str>>> {
        let of = json!([self.server.server.key(), self.definition]);
        Box::pin(async move { Some(sha256(canonical(&of).as_bytes()).into()) })
    }

    fn run<'a>(&'a self, call: LeafCall<'a>) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(self.call(call))
    }
}
