//! A tool of a server as a function.

use crate::{
    client_servers::{self, is_of_client},
    configuration::{At, Server},
    connection::{Call, CallError, Called, Continuation},
    elicit::{self, MOST_QUESTIONS, MOST_ROUNDS},
    known::{Definition, hash, name_of},
    launch::Launch,
    pool::{Live, Pool},
    result,
    starter::Starter,
};
use llm_do_core::{
    authority::Authority,
    function::{
        Effects, FunctionSource, Leaf, LeafCall, Round, ToolAnswers, ToolAsks, ToolError, ToolOutput,
        UserAnswer,
    },
    gate::{DecidedBy, Rule},
    question::ToolQuestion,
    schema::{canonical, sha256},
    send::BoxFuture,
    worker::WorkerDefinition,
};
use llm_do_sandbox::confine::Planted;
use rmcp::model::ElicitRequestParams;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::OnceCell;

/// A server as the tools of one worker use it.
pub(crate) struct WorkersServer {
    pub(crate) name: String,
    pub(crate) server: Server,
    pub(crate) worker: Arc<WorkerDefinition>,
    pub(crate) run: Arc<str>,
    /// The authority of the worker.
    pub(crate) authority: Arc<Authority>,
    /// The starter. Absent in a process that may start nothing.
    pub(crate) starter: Option<Starter>,
    pub(crate) pool: Arc<Pool>,
    launch: OnceCell<Arc<Launch>>,
}

impl WorkersServer {
    pub(crate) fn new(
        name: String,
        server: Server,
        worker: Arc<WorkerDefinition>,
        run: Arc<str>,
        authority: Arc<Authority>,
        starter: Option<Starter>,
        pool: Arc<Pool>,
    ) -> Self {
        Self { name, server, worker, run, authority, starter, pool, launch: OnceCell::new() }
    }

    /// Returns the launch of the server.
    ///
    /// # Errors
    /// The server can't be started or reached.
    pub(crate) async fn launch(&self) -> Result<&Arc<Launch>, String> {
        let starter = self.starter()?;
        let prepare = async || {
            let (server, authority) = (self.server.clone(), Arc::clone(&self.authority));
            if server.is_absent() {
                return Err("the client of this session has not passed it on".to_owned());
            }
            if !is_of_client(&self.name) {
                return Launch::prepare(server, &self.worker, authority, starter).await.map(Arc::new);
            }
            let readable = client_servers::readable(&server, &self.worker.root, starter.known.folder());
            let granted = Arc::new(client_servers::granted(&server, &authority));
            let launch = Launch::prepare(server, &self.worker, granted, starter).await?;
            Ok(Arc::new(launch.seeing(readable)))
        };
        self.launch.get_or_try_init(prepare).await
    }

    /// Returns the name for the operator: `LIBRARY:NAME` for a server of a library.
    pub(crate) fn full_name(&self) -> String {
        match &self.worker.source {
            FunctionSource::Library(library) => format!("{library}:{}", self.name),
            _ => self.name.clone(),
        }
    }

    pub(crate) fn starter(&self) -> Result<&Starter, String> {
        self.starter.as_ref().ok_or_else(|| "nothing starts servers here".to_owned())
    }

    /// Returns the server, which is started or reached if it was not yet.
    ///
    /// # Errors
    /// The server can't be used.
    pub(crate) async fn live(&self) -> Result<Arc<Live>, String> {
        let (launch, starter) = (self.launch().await?, self.starter()?);
        self.pool.start(&self.run, launch, starter).live().await.map_err(|reason| reason.to_string())
    }
}

/// A tool of a server.
pub(crate) struct McpTool {
    pub(crate) server: Arc<WorkersServer>,
    /// The name in rules.
    pub(crate) name: Arc<str>,
    /// The definition that the server listed.
    pub(crate) definition: Definition,
    /// True if the results have a schema.
    pub(crate) has_output: bool,
    /// True if calls ask unless a rule says otherwise.
    pub(crate) asks: bool,
}

impl McpTool {
    async fn call(&self, call: LeafCall<'_>, answers: Option<&ToolAnswers>) -> Result<Round, ToolError> {
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
        let key = call.idempotency_key;
        let answered = match answers.map(answered).transpose() {
            Ok(answered) => answered,
            Err(reason) => {
                live.connection.give_up(key);
                return Err(ToolError::new(format!(
                    "the call of the MCP server `{server}` was given up: {reason}"
                )));
            }
        };
        let answer = live.connection.call(Call {
            tool: name,
            arguments: call.input.as_object().cloned().unwrap_or_default(),
            patience: self.server.server.patience(),
            most: self.server.server.most(),
            key,
            answered,
            keep: Arc::clone(&live) as _,
        });
        let answer = answer.await;
        let log = self.log(&live, call.run).await;
        match answer {
            Ok(Called::Done(answer)) => {
                result::output(&self.name, answer, self.has_output, log).map(Round::Done)
            }
            Ok(Called::Asks(asked, continuation)) => match asks(server, asked, continuation) {
                Ok((questions, state)) => Ok(Round::Asks(ToolAsks { questions, state, log })),
                Err(reason) => {
                    live.connection.give_up(key);
                    let message = format!(
                        "the MCP server `{server}` asks the user something that can't be put: {reason}. The call was given \
                         up; it may have had a part of its effect."
                    );
                    Err(ToolError { message, log })
                }
            },
            Err(CallError::Answered(message)) => Err(ToolError { message, log }),
            Err(CallError::Refused(reason)) => {
                let message = format!("the MCP server `{server}` did not take the call: {reason}");
                Err(ToolError { message, log })
            }
            Err(CallError::Lost(reason)) => {
                let message = format!(
                    "the call of the MCP server `{server}` has no answer: {reason}. It may have had its effect; check \
                     before you call it again."
                );
                Err(ToolError { message, log })
            }
        }
    }

    /// Returns the text that the server printed, and notices about files that it has left in the folders that it may
    /// write.
    async fn log(&self, live: &Live, run: &str) -> Option<Arc<str>> {
        let mut lines: Vec<String> = live.connection.printed().iter().map(ToString::to_string).collect();
        if let (Ok(launch), Ok(starter)) = (self.server.launch().await, self.server.starter()) {
            let (launch, confiner, run) = (Arc::clone(launch), Arc::clone(&starter.confiner), run.to_owned());
            let looked = tokio::task::spawn_blocking(move || match launch.process() {
                Some(process) => confiner.watch().look(&run, &process.view, &process.authority),
                None => Ok(Vec::new()),
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
        let process = matches!(self.server.server.at, At::Process(_));
        Effects { says, process, ..Effects::default() }
    }

    fn least(&self) -> Option<Effects> {
        Some(self.effects(&Value::Null))
    }

    fn identity(&self) -> BoxFuture<'_, Option<Arc<str>>> {
        let of = json!([self.server.server.key(), self.definition]);
        Box::pin(async move { Some(sha256(canonical(&of).as_bytes()).into()) })
    }

    fn run<'a>(&'a self, call: LeafCall<'a>) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            match self.call(call, None).await? {
                Round::Done(output) => Ok(output),
                Round::Asks(_) => {
                    Err(ToolError::new("the server asks the user something, and nobody is asked here"))
                }
            }
        })
    }

    fn round<'a>(
        &'a self,
        call: LeafCall<'a>,
        answers: Option<&'a ToolAnswers>,
    ) -> BoxFuture<'a, Result<Round, ToolError>> {
        Box::pin(self.call(call, answers))
    }
}

/// The recorded state of open questions: all that is needed to continue once they are answered.
#[derive(Serialize, Deserialize)]
struct Elicitation {
    asked: Vec<ElicitRequestParams>,
    continuation: Continuation,
}

/// Returns the questions of a server for the operator, and their recorded state.
///
/// # Errors
/// The questions can't be asked.
fn asks(
    server: &str,
    asked: Vec<ElicitRequestParams>,
    continuation: Continuation,
) -> Result<(Vec<ToolQuestion>, Value), String> {
    if asked.len() > MOST_QUESTIONS {
        return Err(format!("it has more than {MOST_QUESTIONS} questions at once"));
    }
    let questions = asked.iter().map(|asked| elicit::question(server, asked)).collect::<Result<_, _>>()?;
    Ok((questions, json!(Elicitation { asked, continuation })))
}

/// Returns the questions of the last round with their answers.
///
/// # Errors
/// The call can't continue.
fn answered(answers: &ToolAnswers) -> Result<(Continuation, Vec<(ElicitRequestParams, UserAnswer)>), String> {
    if answers.round >= MOST_ROUNDS {
        return Err(format!("it has asked the user {MOST_ROUNDS} times"));
    }
    let Elicitation { asked, continuation } = serde_json::from_value((*answers.state).clone())
        .map_err(|error| format!("the record of its questions can't be read: {error}"))?;
    Ok((continuation, asked.into_iter().zip(answers.answers.iter().cloned()).collect()))
}
