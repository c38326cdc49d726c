//! What the server answers to requests, whatever the transport.

use crate::{
    ServeError, ask,
    exact::REFUSED,
    live::{Attached, LiveRun, Next},
    outcome,
    progress::reporting,
    runs::{NotStarted, Runs},
    state::{self, Fingerprint, Round},
    tasks::{self, Seen},
    tool::ServedTool,
};
use llm_do::{
    Decisions, Input, Report, Session,
    core::{
        engine::End,
        question::{Answer, Given, OPERATOR, Waiting},
    },
    program::visible,
};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, CustomRequest,
        CustomResult, ElicitResult, ErrorCode, GetTaskParams, GetTaskResult, Implementation, InputRequest,
        InputRequiredResult, InputResponses, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
        Request, ServerCapabilities, ServerConfig, UpdateTaskParams,
    },
    service::RequestContext,
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Key of a request's `_meta` under which a client gives its idempotency key.
pub const IDEMPOTENCY_META: &str = "llm-do/idempotency-key";
/// How often a question is asked whose form comes back wrong. Then it counts as refused.
const MOST_ATTEMPTS: usize = 3;
/// Why a question is refused in the place of a user who can't be asked.
const CANNOT_ASK: &str = "the client that called can't ask its user";
/// Most characters of a client's name in records.
const LONGEST_NAME: usize = 60;

/// Takes a line for the server's log. It may hold text of clients, with nothing hidden in it.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// The workers of a program as tools. It is cheap to clone; all clones share the runs.
#[derive(Clone)]
pub struct Server(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    name: String,
    pub(crate) tools: BTreeMap<String, ServedTool>,
    pub(crate) project: Option<PathBuf>,
    pub(crate) runs_dir: PathBuf,
    pub(crate) home: PathBuf,
    pub(crate) runs: Runs,
    log: Log,
}

/// How the user of a client can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asking {
    /// Not at all.
    No,
    /// By a request of the server within the call.
    Request,
    /// The call ends with the questions, and is repeated with the answers.
    Rounds,
}

impl Asking {
    fn of(context: &RequestContext<RoleServer>) -> Self {
        let elicitation = context.client_capabilities().and_then(|client| client.elicitation);
        // Without either mode, a client of an older revision means forms.
        let forms = elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none());
        match (forms, is_newest(context)) {
            (false, _) => Self::No,
            (true, false) => Self::Request,
            (true, true) => Self::Rounds,
        }
    }
}

fn is_newest(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

/// Whether the client takes a task in place of a result. Only revision 2026-07-28 has a result that says that it is a task.
fn understands_tasks(context: &RequestContext<RoleServer>) -> bool {
    is_newest(context) && context.client_capabilities().is_some_and(|client| client.supports_tasks())
}

impl Server {
    /// A server for the entries of these sessions, which are of one program, as [`Session::open_exported`] gives them.
    ///
    /// # Errors
    /// A worker can't be opened, or two have the same name as tools.
    pub fn new(sessions: &[Session], log: Log) -> Result<Self, ServeError> {
        let first = sessions.first();
        let mut tools = BTreeMap::<String, ServedTool>::new();
        for session in sessions {
            let tool = ServedTool::new(session, tasks::client(session.program().root()))?;
            let name = tool.tool.name.to_string();
            if let Some(other) = tools.get(&name) {
                let workers = [Arc::clone(other.worker()), Arc::clone(tool.worker())];
                return Err(ServeError::SameName { name, workers });
            }
            tools.insert(name, tool);
        }
        Ok(Self(Arc::new(Inner {
            name: first.and_then(name).unwrap_or_else(|| "llm-do".into()),
            tools,
            project: first.and_then(project),
            runs_dir: first.map(Session::runs_dir).unwrap_or(Path::new("")).to_owned(),
            home: first.map(Session::home).unwrap_or(Path::new("")).to_owned(),
            runs: Runs::default(),
            log,
        })))
    }

    /// The names of its tools.
    pub fn tools(&self) -> impl Iterator<Item = &str> {
        self.0.tools.keys().map(String::as_str)
    }

    /// Ends all runs. Those that wait for an answer are suspended, so that they can be resumed. Returns when the journals
    /// are complete.
    pub async fn end(&self) {
        self.0.runs.end().await;
    }

    pub(crate) fn log(&self, line: &str) {
        (self.0.log)(line);
    }

    /// The run of a call: a new one, that of an earlier call with the same key, or the one whose questions it answers. If there
    /// is none, the result of the call.
    async fn run(
        &self,
        call: &Call<'_>,
        request: &CallToolRequestParams,
        key: Option<&str>,
    ) -> Result<Result<Arc<LiveRun>, CallToolResult>, ErrorData> {
        if let Some(state) = &request.request_state {
            let forged = "requestState is not one that this server gave for this call";
            let round = state::open(&call.tool.session, state, &call.fingerprint);
            let round = round.ok_or_else(|| ErrorData::invalid_params(forged, None))?;
            let responses = request.input_responses.as_ref();
            let resume = || {
                let (session, past) = self.0.past(&round.run)?;
                let waiting = past.waiting();
                let answers = self.answers(&round, &waiting, responses, call);
                let decisions =
                    Decisions(answers.map(|(waiting, given)| (waiting.id.clone(), given)).collect());
                self.log(&format!("{}: run {} continues", call.tool.tool.name, round.run));
                LiveRun::resume(&session, past, decisions)
            };
            return Ok(match self.0.runs.continued(&round.run, resume) {
                Ok(run) => {
                    for (waiting, given) in self.answers(&round, &run.questions().waiting(), responses, call)
                    {
                        give(&run, waiting, given);
                    }
                    Ok(run)
                }
                // The operator of the server may have continued it to its end.
                Err(why) => Err(match self.look(&round.run).await.map(Seen::result) {
                    Ok(Ok(result)) => result,
                    _ => outcome::not_continued(&round.run, &why),
                }),
            });
        }
        let input = Input { json: Some(call.arguments.clone()), ..Input::default() };
        let start = || {
            let run = LiveRun::start(&call.tool.session, &input)?;
            self.log(&format!("{}: run {}", call.tool.tool.name, run.id()));
            Ok(run)
        };
        let begun = self.0.runs.begin(key, &call.fingerprint, start);
        if let Err(NotStarted::Problem(problem)) = &begun {
            self.log(&format!("{}: {}", call.tool.tool.name, visible::line(&problem.to_string())));
        }
        Ok(begun.map_err(|why| outcome::not_started(&why)))
    }

    /// The answers among a client's responses to questions of that round that still wait. A question whose response is wrong
    /// stays open, and the client is asked again.
    fn answers<'a>(
        &'a self,
        round: &'a Round,
        waiting: &'a [Waiting],
        responses: Option<&'a InputResponses>,
        call: &'a Call<'_>,
    ) -> impl Iterator<Item = (&'a Waiting, Given)> + 'a {
        responses.into_iter().flatten().filter_map(move |(id, response)| {
            let waiting =
                waiting.iter().find(|waiting| waiting.id.to_string() == *id && round.asked(waiting))?;
            let filled = serde_json::from_value::<ElicitResult>(response.clone());
            match filled.map_err(|error| error.to_string()).and_then(|filled| ask::answer(waiting, &filled)) {
                Ok(answer) => Some((waiting, call.given(answer))),
                Err(why) => {
                    self.log(&format!("run {}: question {id}: {}", round.run, visible::line(&why)));
                    None
                }
            }
        })
    }

    /// Waits for the end of a run, and has its questions answered.
    async fn follow(
        &self,
        attached: Attached,
        run: &Arc<LiveRun>,
        call: &Call<'_>,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut attempts = 0;
        loop {
            match run.next().await {
                Next::Ended(report) => return Ok(self.answer(&report, run, call).await),
                Next::Lost => return Err(ErrorData::internal_error("the run came to no end", None)),
                // It is suspended, and the operator of the server answers.
                Next::Asks(_) if call.asking == Asking::No && call.tasks => run.questions().close(),
                Next::Asks(waiting) if call.asking == Asking::No => {
                    for waiting in &waiting {
                        run.count_refused();
                        give(run, waiting, call.given(waiting.question.refusal(Some(CANNOT_ASK))));
                    }
                }
                Next::Asks(waiting) if call.asking == Asking::Rounds => {
                    let response = self.round(run, &waiting, call)?;
                    attached.park();
                    return Ok(response);
                }
                Next::Asks(waiting) => {
                    let Some(first) = waiting.first() else { continue };
                    attempts = match self.ask(run, first, call, context).await {
                        true => 0,
                        false if attempts + 1 < MOST_ATTEMPTS => attempts + 1,
                        false => {
                            let why = "the client did not answer the question";
                            give(run, first, call.given(first.question.refusal(Some(why))));
                            0
                        }
                    };
                }
            }
        }
    }

    /// The answer to a call whose run has ended.
    async fn answer(&self, report: &Report, run: &LiveRun, call: &Call<'_>) -> CallToolResponse {
        // A suspended run may have continued in another process since.
        if matches!(report.end, End::Suspended(_))
            && let Ok(seen) = self.look(run.id()).await
        {
            match seen.result() {
                Ok(result) => return result.into(),
                Err(waits) if call.tasks => return CallToolResponse::Task(waits.created()),
                Err(_) => {}
            }
        }
        outcome::result(report, call.tool, run.refused(), self.0.project.as_deref()).into()
    }

    /// Asks the client's user one question. Returns whether it is answered, or withdrawn.
    async fn ask(
        &self,
        run: &LiveRun,
        waiting: &Waiting,
        call: &Call<'_>,
        context: &RequestContext<RoleServer>,
    ) -> bool {
        let filled = tokio::select! {
            filled = context.peer.create_elicitation(ask::form(run.id(), waiting)) => filled,
            () = run.settled(&waiting.id) => return true,
        };
        let answer = match filled {
            Ok(filled) => ask::answer(waiting, &filled),
            Err(error) => Err(error.to_string()),
        };
        match answer {
            Ok(answer) => give(run, waiting, call.given(answer)),
            Err(why) => {
                self.log(&format!("run {}: question {}: {}", run.id(), waiting.id, visible::line(&why)));
                return false;
            }
        }
        true
    }

    /// A result that asks the client for answers, and to call again with them.
    fn round(
        &self,
        run: &LiveRun,
        waiting: &[Waiting],
        call: &Call<'_>,
    ) -> Result<CallToolResponse, ErrorData> {
        let state = state::seal(&call.tool.session, &Round::new(run.id(), waiting), &call.fingerprint);
        let state = state.ok_or_else(|| {
            ErrorData::internal_error(
                "llm-do's folder can't be written, so that no question can be asked",
                None,
            )
        })?;
        let requests = waiting.iter().map(|waiting| {
            let form = Request::new(ask::form(run.id(), waiting));
            (waiting.id.to_string(), InputRequest::Elicitation(form))
        });
        Ok(InputRequiredResult::new(Some(requests.collect()), Some(state)).into())
    }
}

/// Gives an answer to a question. Another request may have answered it in between: the first answer stands.
fn give(run: &LiveRun, waiting: &Waiting, given: Given) {
    let (id, seen) = (&waiting.id, waiting.digest());
    if let Ok(taken) = run.questions().take(id, Some(&seen), &given.answer, &given.by) {
        taken.give(given);
    }
}

/// The name of a program: its manifest's, else that of its folder.
fn name(session: &Session) -> Option<String> {
    let program = session.program();
    let folder = || Some(Path::new(program.root().as_str()).file_name()?.to_string_lossy().into_owned());
    program.manifest().name.clone().or_else(folder)
}

/// The folder that commands about the runs need, if the program is a project.
fn project(session: &Session) -> Option<PathBuf> {
    let root = Path::new(session.program().root().as_str());
    (session.runs_dir() == root.join(".llm-do").join("runs")).then(|| root.to_owned())
}

/// A `tools/call` request.
struct Call<'a> {
    tool: &'a ServedTool,
    arguments: Value,
    fingerprint: Fingerprint,
    asking: Asking,
    /// Whether its client understands tasks.
    tasks: bool,
    /// Through what its answers come, as recorded.
    via: Arc<str>,
}

impl Call<'_> {
    /// An answer that came with this call.
    fn given(&self, answer: Answer) -> Given {
        Given::new(answer, OPERATOR.into(), Arc::clone(&self.via))
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tasks().build())
            .with_server_info(Implementation::new(self.0.name.clone(), env!("CARGO_PKG_VERSION")))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.0.tools.values().map(|served| served.tool.clone()).collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    /// A request with a number that can't be kept exactly is one of these by now.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if request.method != REFUSED {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None));
        }
        let reason = request.params.as_ref().and_then(|params| params.get("reason")?.as_str());
        Err(ErrorData::invalid_params(reason.unwrap_or("it is refused").to_owned(), None))
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.look(&request.task_id).await?.task()))
    }

    /// Tasks ask their clients nothing, so that there is nothing to answer.
    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.look(&request.task_id).await.map(drop)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.cancel(&request.task_id).await
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = self.0.tools.get(&*request.name) else {
            let name = visible::start(&request.name, LONGEST_NAME).into_owned();
            return Err(ErrorData::invalid_params(format!("there is no tool `{name}`"), None));
        };
        let given = request.arguments.clone().unwrap_or_default();
        if let Some(name) = tool.not_for_clients(&given) {
            return Ok(outcome::error(format!("the tool has no parameter `{name}`")).into());
        }
        let arguments = Value::Object(given);
        let client = context.client_info().map_or_else(String::new, |client| client.name);
        let client = visible::line(&visible::start(&client, LONGEST_NAME)).into_owned();
        let call = Call {
            tool,
            fingerprint: Fingerprint::of(&request.name, &arguments),
            arguments,
            asking: Asking::of(&context),
            tasks: understands_tasks(&context),
            via: format!("MCP client {client}").trim_end().into(),
        };
        let key = match context.meta.get(IDEMPOTENCY_META) {
            None => None,
            Some(Value::String(key)) => Some(key.as_str()),
            Some(_) => {
                let message = format!("_meta.{IDEMPOTENCY_META} must be a string");
                return Err(ErrorData::invalid_params(message, None));
            }
        };
        let run = match self.run(&call, &request, key).await? {
            Ok(run) => run,
            Err(result) => return Ok(result.into()),
        };
        // Dropped without a result, it cancels the run.
        let attached = run.attach();
        let token = context.meta.get_progress_token();
        let following = self.follow(attached, &run, &call, &context);
        let following = reporting(run.progress(), token, &context.peer, following);
        tokio::select! {
            biased;
            () = context.ct.cancelled() => {
                self.log(&format!("run {}: the client has cancelled the call", run.id()));
                Err(ErrorData::new(ErrorCode::INTERNAL_ERROR, "the call was cancelled", None))
            }
            response = following => response,
        }
    }
}
