//! The workers of a program as tools.

use crate::{
    error::ApiError,
    faces::{
        answering::{Answering, Shown},
        asking::Link,
        round::{Hearing, Next, Piece, Round, Settled},
    },
    service::Service,
    token::{Scope, Token},
    views::{QuestionView, StartRun},
};
use axum::http::request::Parts;
use llm_do::{Session, core::question::Waiting, output_text, program::visible};
use llm_do_mcp_server::{IDEMPOTENCY_META, answer, form, tool};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ElicitResult, ErrorCode,
        Implementation, InputRequest, InputRequiredResult, ListToolsResult, MetaObject,
        PaginatedRequestParams, ProgressNotificationParam, ProtocolVersion, Request, ServerCapabilities,
        ServerConfig,
    },
    service::RequestContext,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// Key of a result's `_meta` with the ID of its run.
const RUN_META: &str = "llm-do/run";
/// How often a question is asked whose form comes back wrong.
const MOST_ATTEMPTS: usize = 3;

/// Who sends a request, and for which program.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) service: Service,
    pub(super) token: Arc<Token>,
    pub(super) program: String,
}

impl Caller {
    /// The caller that the endpoint has put into the request.
    fn of(context: &RequestContext<RoleServer>) -> Result<Self, ErrorData> {
        let parts = context.extensions.get::<Parts>();
        let caller = parts.and_then(|parts| parts.extensions.get::<Self>());
        caller.cloned().ok_or_else(|| ErrorData::internal_error("the request has no token", None))
    }

    /// The session whose entry is the tool of that name.
    fn session(&self, name: &str) -> Result<Session, ErrorData> {
        let found = self.sessions()?.into_iter().find(|session| tool(session).name == name);
        found.ok_or_else(|| {
            let name = visible::line(&visible::start(name, 60)).into_owned();
            ErrorData::invalid_params(format!("there is no tool `{name}`"), None)
        })
    }

    fn sessions(&self) -> Result<Vec<Session>, ErrorData> {
        self.service
            .sessions(&self.token, &self.program)
            .map_err(|error| ErrorData::invalid_params(error.detail().to_owned(), None))
    }
}

/// The tools, for any caller.
#[derive(Clone, Copy)]
pub(super) struct Tools;

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("llm-do", env!("CARGO_PKG_VERSION")))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = Caller::of(&context)?.sessions()?.iter().map(tool).collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let caller = Caller::of(&context)?;
        let session = caller.session(&request.name)?;
        let begun = match &request.request_state {
            Some(run) => answered(&caller, &session, run, &request).await,
            None => begin(&caller, &session, &request, &context).await,
        };
        let round = match begun {
            Ok(round) => round,
            Err(error) => return Ok(failed(error.detail().to_owned()).into()),
        };
        let call = Call { caller: &caller, session: &session, context: &context };
        let following = call.follow(round);
        tokio::select! {
            biased;
            // Dropped before its end, the round cancels the run.
            () = context.ct.cancelled() => {
                Err(ErrorData::new(ErrorCode::INTERNAL_ERROR, "the call was cancelled", None))
            }
            response = following => response,
        }
    }
}

/// The run of a new call, or that of an earlier one with the same key.
async fn begin(
    caller: &Caller,
    session: &Session,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<Round, ApiError> {
    let Caller { service, token, program } = caller;
    let start = StartRun {
        program: Some(program.clone()),
        worker: Some(session.entry().id.to_string()),
        input: Some(Value::Object(request.arguments.clone().unwrap_or_default())),
        ..StartRun::default()
    };
    let hearing = Hearing::new(true);
    let Some(key) = context.meta.get(IDEMPOTENCY_META).and_then(Value::as_str) else {
        let (live, reader) = service.start_followed(token, start, Vec::new()).await?;
        return Ok(Round::new(service, token, live, reader, hearing));
    };
    let (run, _) = service.start(token, start, Some(key.to_owned())).await?;
    follow(caller, &run, 0, hearing).await
}

/// The run that this call answers the questions of.
async fn answered(
    caller: &Caller,
    session: &Session,
    run: &str,
    request: &CallToolRequestParams,
) -> Result<Round, ApiError> {
    let Caller { service, token, program } = caller;
    let view = service.run(token, run).await?;
    if *view.program != **program || view.worker != session.entry().id {
        return Err(ApiError::no_run(run));
    }
    let records = service.records(token, run).await?;
    let next = records.last().map_or(0, |record| record.seq + 1);
    let hearing = Hearing::after(true, &records);
    let answering = Answering::new(service, token, view);
    let mut answers = Vec::new();
    for (id, response) in request.input_responses.iter().flatten() {
        let Ok(shown) = id.parse::<Shown>() else { continue };
        let question = answering.question(&shown, &records)?;
        let filled =
            serde_json::from_value::<ElicitResult>(response.clone()).map_err(|error| error.to_string());
        // A question whose form is wrong stays open, and is asked again.
        match filled.and_then(|filled| answer(&question, &filled)) {
            Ok(answer) => answers.push((question, answer)),
            Err(why) => service.log(&format!("run {run}: question {shown}: {}", visible::line(&why))),
        }
    }
    if !answers.is_empty() {
        answering.give_all(answers).await?;
    }
    follow(caller, run, next, hearing).await
}

async fn follow(caller: &Caller, run: &str, next: u64, hearing: Hearing) -> Result<Round, ApiError> {
    let Caller { service, token, .. } = caller;
    let (live, reader) = service.follow(token, run, next).await?;
    let live =
        live.ok_or_else(|| ApiError::new(crate::error::Code::Conflict, format!("the run {run} is over")))?;
    Ok(Round::new(service, token, live, reader, hearing))
}

/// A `tools/call` request.
struct Call<'a> {
    caller: &'a Caller,
    session: &'a Session,
    context: &'a RequestContext<RoleServer>,
}

/// How the user of a client can be asked.
enum Asking {
    /// Not at all: the operator of the server answers.
    No,
    /// By a request of the server within the call.
    Request,
    /// The call ends with the questions, and is repeated with the answers.
    Rounds,
}

impl Call<'_> {
    /// Who may not answer is not asked.
    fn asking(&self) -> Asking {
        let elicitation = self.context.client_capabilities().and_then(|client| client.elicitation);
        // Without either mode, a client of an older revision means forms.
        let forms = elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none());
        let newest =
            self.context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        match (forms && self.caller.token.has(Scope::Answer), newest) {
            (false, _) => Asking::No,
            (true, false) => Asking::Request,
            (true, true) => Asking::Rounds,
        }
    }

    /// Waits for the end of the run, and has its questions answered.
    async fn follow(&self, mut round: Round) -> Result<CallToolResponse, ErrorData> {
        let mut calls = 0;
        let mut attempts = 0;
        loop {
            let settled = match self.next(&mut round).await? {
                Next::Piece(Piece::Called(called)) => {
                    calls += 1;
                    self.report(calls, &called.open.function).await;
                    continue;
                }
                Next::Piece(_) => continue,
                Next::Settled(settled) => settled,
            };
            let Some(first) = settled.questions.first() else { return Ok(self.result(&settled).into()) };
            match self.asking() {
                Asking::No => return Ok(self.waits(&settled).into()),
                Asking::Rounds => return Ok(rounds(&settled)),
                Asking::Request if attempts >= MOST_ATTEMPTS => return Ok(self.waits(&settled).into()),
                Asking::Request => {
                    attempts = if self.ask(&settled, first).await { 0 } else { attempts + 1 };
                    round.go_on();
                }
            }
        }
    }

    async fn next(&self, round: &mut Round) -> Result<Next, ErrorData> {
        round.next().await.map_err(|error| ErrorData::internal_error(error.detail().to_owned(), None))
    }

    async fn report(&self, calls: u32, function: &str) {
        let Some(token) = self.context.meta.get_progress_token() else { return };
        let name = visible::line(&visible::start(function, 80)).into_owned();
        let param =
            ProgressNotificationParam::new(token, calls.into()).with_message(format!("called {name}"));
        // A client that has gone hears nothing, and its request ends by itself.
        let _ = self.context.peer.notify_progress(param).await;
    }

    /// Asks the client's user one question. Returns whether it is answered.
    async fn ask(&self, settled: &Settled, question: &QuestionView) -> bool {
        let Caller { service, token, .. } = self.caller;
        let (run, waiting) = (&settled.run.run, &question.waiting);
        let filled = self.context.peer.create_elicitation(form(run, waiting)).await;
        let answer = filled.map_err(|error| error.to_string()).and_then(|filled| answer(waiting, &filled));
        let given = match answer {
            Ok(answer) => Answering::new(service, token, settled.run.clone())
                .give(waiting, answer)
                .await
                .map_err(|error| error.detail().to_owned()),
            Err(why) => Err(why),
        };
        if let Err(why) = &given {
            service.log(&format!("run {run}: question {}: {}", waiting.id, visible::line(why)));
        }
        given.is_ok()
    }

    /// The result of a run that has ended.
    fn result(&self, settled: &Settled) -> CallToolResult {
        let result = match (&settled.run.output, settled.failure()) {
            (_, Some(why)) => failed(why),
            (Some(output), None) if self.session.entry().returns.is_some() => {
                CallToolResult::structured((**output).clone())
            }
            (Some(output), None) => {
                CallToolResult::success(vec![ContentBlock::text(output_text(output, false))])
            }
            (None, None) => failed("the run has no output".into()),
        };
        of_run(result, &settled.run.run)
    }

    /// That the run waits for somebody else than the client's user.
    fn waits(&self, settled: &Settled) -> CallToolResult {
        let run = &settled.run.run;
        let parts = self.context.extensions.get::<Parts>();
        let link = parts.map_or_else(Link::none, |parts| Link::of(&parts.headers, run));
        of_run(failed(link.asking(&settled.questions)), run)
    }
}

/// A result that asks the client for answers, and to call again with them. The state is the run: only a token that sees it and may
/// answer can go on.
fn rounds(settled: &Settled) -> CallToolResponse {
    let run = &settled.run.run;
    let request = |waiting: &Waiting| {
        let id = Shown::of(run, waiting).to_string();
        (id, InputRequest::Elicitation(Request::new(form(run, waiting))))
    };
    let requests = settled.questions.iter().map(|question| request(&question.waiting)).collect();
    InputRequiredResult::new(Some(requests), Some(run.to_string())).into()
}

fn failed(text: String) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

fn of_run(mut result: CallToolResult, run: &str) -> CallToolResult {
    let mut meta = MetaObject::new();
    meta.insert(RUN_META.into(), json!(run));
    result.meta = Some(meta);
    result
}
