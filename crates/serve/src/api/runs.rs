//! Runs, their events and their questions.

use super::{Asked, Body, Caller, Given, Parameter, RUN, RequestBody, Route, events, schema, text_of};
use crate::{
    error::{ApiError, Code},
    events::Reader,
    listing::Filter,
    notices::Notice,
    service::{LARGEST_PAGE, Page, Service},
    token::Scope,
    views::State as RunState,
    views::{GiveAnswer, Questions, RunView, Runs, StartRun},
};
use axum::{
    Extension, Json,
    extract::{Path, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response, sse},
    routing::on,
};
use futures_util::{StreamExt, stream::unfold};
use llm_do::{core::event::Event, records::RunChanges, runs::is_run_id};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::time::Duration;

/// The header by which a client makes a request safe to repeat.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Longest wait for the end of a run that one request can ask for, in seconds.
const LONGEST_WAIT: u32 = 300;
const PAGE: usize = 50;
/// Longest text to search for, in bytes.
const LONGEST_SEARCH: usize = 256;
const WAIT: Parameter = Parameter {
    name: "wait",
    place: "query",
    description: "Answer when the run is over or asks something, or after so many seconds.",
    schema: || json!({"type": "integer", "minimum": 0, "maximum": LONGEST_WAIT}),
    required: false,
};

const PREVIEWS: Parameter = Parameter {
    name: "previews",
    place: "query",
    description: "Whether questions show the effects of their calls, such as diffs. Default: true.",
    schema: || json!({"type": "boolean"}),
    required: false,
};

pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Method::POST,
        path: "/v1/runs",
        name: "startRun",
        summary: "Start a run",
        scope: Some(Some(Scope::Start)),
        parameters: &[
            Parameter {
                name: "Idempotency-Key",
                place: "header",
                description: "A repeated request with the same key finds the run that the first one has started.",
                schema: || json!({"type": "string", "minLength": 1, "maxLength": 256}),
                required: false,
            },
            WAIT,
        ],
        body: RequestBody::Json(schema::<StartRun>),
        responses: &[
            (
                200,
                "The run that an earlier request with this key has started.",
                Body::Json(schema::<RunView>),
            ),
            (201, "The run. `Location` is its address.", Body::Json(schema::<RunView>)),
        ],
        own_errors: &[
            (404, "There is no such program or worker."),
            (409, "The key was used for another request."),
            (422, "The input does not fit the worker."),
            (429, "Too many runs are under way."),
            (507, "The server can't write the run: the disk is full, for example."),
            (500, "The program can't be run as it is."),
            (503, "The server shuts down."),
        ],
        handler: |on_method| on(on_method, start),
    },
    Route {
        method: Method::GET,
        path: "/v1/runs",
        name: "listRuns",
        summary: "The runs that the token may see, newest first",
        scope: Some(Some(Scope::Read)),
        parameters: &[
            Parameter {
                name: "before",
                place: "query",
                description: "Only runs that began before the run with this ID.",
                schema: || json!({"type": "string"}),
                required: false,
            },
            Parameter {
                name: "limit",
                place: "query",
                description: "The most that are listed. Default: 50.",
                schema: || json!({"type": "integer", "minimum": 1, "maximum": LARGEST_PAGE}),
                required: false,
            },
            Parameter {
                name: "program",
                place: "query",
                description: "Only runs of this program.",
                schema: || json!({"type": "string"}),
                required: false,
            },
            Parameter {
                name: "worker",
                place: "query",
                description: "Only runs that started with this worker.",
                schema: || json!({"type": "string"}),
                required: false,
            },
            Parameter {
                name: "state",
                place: "query",
                description: "Only runs in these states, separated by commas.",
                schema: || json!({"type": "string"}),
                required: false,
            },
            Parameter {
                name: "chat",
                place: "query",
                description: "Only chats, or only others.",
                schema: || json!({"type": "boolean"}),
                required: false,
            },
            Parameter {
                name: "q",
                place: "query",
                description: "Only runs whose ID, worker, input, output or failure has this text in any case. A page with it may \
                              be short and still have a next one.",
                schema: || json!({"type": "string"}),
                required: false,
            },
            PREVIEWS,
        ],
        body: RequestBody::None,
        responses: &[(
            200,
            "Runs, without their outputs, and with the beginnings of their failures.",
            Body::Json(schema::<Runs>),
        )],
        own_errors: &[],
        handler: |on_method| on(on_method, list),
    },
    Route {
        method: Method::GET,
        path: "/v1/runs/{run}",
        name: "getRun",
        summary: "One run, with its output once it has one",
        scope: Some(Some(Scope::Read)),
        parameters: &[RUN, WAIT],
        body: RequestBody::None,
        responses: &[(200, "The run.", Body::Json(schema::<RunView>))],
        own_errors: &[],
        handler: |on_method| on(on_method, show),
    },
    Route {
        method: Method::GET,
        path: "/v1/runs/{run}/events",
        name: "followRun",
        summary: "The events of a run, as Server-Sent Events",
        scope: Some(Some(Scope::Read)),
        parameters: &[
            RUN,
            Parameter {
                name: "Last-Event-ID",
                place: "header",
                description: "Only events after the record with this number.",
                schema: || json!({"type": "integer", "minimum": 0}),
                required: false,
            },
            Parameter {
                name: "view",
                place: "query",
                description: "Whether `data` of a record also has the field `view`: a `RunChanges`, with the parts of the \
                              run's view that the record changes.",
                schema: || json!({"type": "boolean"}),
                required: false,
            },
        ],
        body: RequestBody::None,
        responses: &[(
            200,
            "Events until the run ends. `data` is an `Event`; `id` is the number of the record, and absent for deltas, \
             which a slow reader may miss.",
            Body::Text("text/event-stream"),
        )],
        own_errors: &[(429, "Too many streams are followed.")],
        handler: |on_method| on(on_method, follow_run),
    },
    Route {
        method: Method::POST,
        path: "/v1/runs/{run}/answers",
        name: "answer",
        summary: "Answer a question of a run",
        scope: Some(Some(Scope::Answer)),
        parameters: &[RUN],
        body: RequestBody::Json(schema::<GiveAnswer>),
        responses: &[(204, "The run has the answer.", Body::None)],
        own_errors: &[
            (409, "The question has an answer, or is not the one that the digest names."),
            (429, "Too many runs are under way to continue this one."),
        ],
        handler: |on_method| on(on_method, answer),
    },
    Route {
        method: Method::POST,
        path: "/v1/runs/{run}/cancel",
        name: "cancelRun",
        summary: "End a run",
        scope: Some(Some(Scope::Start)),
        parameters: &[RUN],
        body: RequestBody::None,
        responses: &[(202, "The run ends.", Body::None)],
        own_errors: &[(409, "The run is not under way.")],
        handler: |on_method| on(on_method, cancel),
    },
    Route {
        method: Method::GET,
        path: "/v1/questions",
        name: "listQuestions",
        summary: "The questions that wait, over all runs that the token may see",
        scope: Some(Some(Scope::Read)),
        parameters: &[PREVIEWS],
        body: RequestBody::None,
        responses: &[(200, "The questions.", Body::Json(schema::<Questions>))],
        own_errors: &[],
        handler: |on_method| on(on_method, questions),
    },
    Route {
        method: Method::GET,
        path: "/v1/events",
        name: "follow",
        summary: "Which runs change their states, and how many questions wait, as Server-Sent Events",
        scope: Some(Some(Scope::Read)),
        parameters: &[],
        body: RequestBody::None,
        responses: &[(
            200,
            "Events `run` and `questions`, from now on; first the number of questions. `data` is a `Notice`. A reader that is \
             too slow is disconnected.",
            Body::Text("text/event-stream"),
        )],
        own_errors: &[(429, "Too many streams are followed.")],
        handler: |on_method| on(on_method, follow),
    },
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Waiting {
    wait: Option<u32>,
}

impl Waiting {
    fn time(&self) -> Result<Option<Duration>, ApiError> {
        match self.wait {
            Some(seconds) if seconds > LONGEST_WAIT => {
                Err(ApiError::new(Code::BadRequest, format!("wait: at most {LONGEST_WAIT} seconds")))
            }
            wait => Ok(wait.map(|seconds| Duration::from_secs(seconds.into()))),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Following {
    view: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Query {
    before: Option<String>,
    limit: Option<usize>,
    program: Option<String>,
    worker: Option<String>,
    state: Option<String>,
    chat: Option<bool>,
    q: Option<String>,
    previews: Option<bool>,
}

impl Query {
    fn page(self) -> Result<Page, ApiError> {
        let wrong = |detail: String| ApiError::new(Code::BadRequest, detail);
        let limit = self.limit.unwrap_or(PAGE);
        if !(1..=LARGEST_PAGE).contains(&limit) {
            return Err(wrong(format!("limit: a number from 1 to {LARGEST_PAGE}")));
        }
        if self.before.as_deref().is_some_and(|before| !is_run_id(before)) {
            return Err(wrong("before: the ID of a run".into()));
        }
        if self.q.as_ref().is_some_and(|text| text.len() > LONGEST_SEARCH) {
            return Err(wrong(format!("q: at most {LONGEST_SEARCH} bytes")));
        }
        let state = |name: &str| {
            RunState::named(name)
                .ok_or_else(|| wrong(format!("state: there is no state `{}`", name.escape_debug())))
        };
        let given = self.state.iter().flat_map(|states| states.split(','));
        let states = given.filter(|name| !name.is_empty()).map(state).collect::<Result<_, _>>()?;
        let filter = Filter {
            program: self.program,
            worker: self.worker,
            states,
            chat: self.chat,
            text: self.q.map(|text| text.to_lowercase()).filter(|text| !text.is_empty()),
        };
        Ok(Page { before: self.before, limit, filter, previews: self.previews.unwrap_or(true) })
    }
}

async fn start(
    State(service): State<Service>,
    Extension(token): Caller,
    Asked(waiting): Asked<Waiting>,
    headers: HeaderMap,
    Given(request): Given<StartRun>,
) -> Result<Response, ApiError> {
    let wait = waiting.time()?;
    let key = text_of(&headers, IDEMPOTENCY_KEY)?;
    let (run, is_new) = service.start(&token, request, key).await?;
    if let Some(within) = wait {
        service.settle(&run, within).await;
    }
    // Who starts a run sees it, whatever else the token allows.
    let view = service.run(&token, &run).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = (status, Json(view)).into_response();
    // The ID of a run is hexadecimal digits and hyphens.
    if let Ok(address) = HeaderValue::from_str(&format!("/v1/runs/{run}")) {
        response.headers_mut().insert(header::LOCATION, address);
    }
    Ok(response)
}

async fn list(
    State(service): State<Service>,
    Extension(token): Caller,
    Asked(query): Asked<Query>,
) -> Result<Json<Runs>, ApiError> {
    Ok(Json(service.runs(&token, query.page()?).await?))
}

async fn show(
    State(service): State<Service>,
    Extension(token): Caller,
    Path(run): Path<String>,
    Asked(waiting): Asked<Waiting>,
) -> Result<Json<RunView>, ApiError> {
    // Before the wait: what the token may not see has no end to wait for.
    let view = service.run(&token, &run).await?;
    match waiting.time()? {
        None => Ok(Json(view)),
        Some(within) => {
            service.settle(&run, within).await;
            Ok(Json(service.run(&token, &run).await?))
        }
    }
}

async fn follow_run(
    State(service): State<Service>,
    Extension(token): Caller,
    Path(run): Path<String>,
    Asked(Following { view }): Asked<Following>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let reader = service.reader(&token, &run, last_event(&headers)?).await?;
    Ok(events_of(reader, view))
}

/// The number of the last record that a reader has.
pub(super) fn last_event(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let after = text_of(headers, "last-event-id")?.map(|text| text.parse::<u64>());
    after
        .transpose()
        .map_err(|_| ApiError::new(Code::BadRequest, "Last-Event-ID is not the number of a record"))
}

/// The stream of what a reader reads, with the changes of the run's view if `view`.
pub(super) fn events_of(reader: Reader, view: bool) -> Response {
    let reader = if view { reader.with_view() } else { reader };
    events(unfold(reader, |mut reader| async move {
        let event = match reader.event().await? {
            Ok(event) => as_event(&event, reader.changes(&event)),
            Err(reason) => sse::Event::default().event("error").data(reason),
        };
        Some((event, reader))
    }))
}

/// An event with the changes that it makes to the view of its run, if a client wants them.
#[derive(Serialize)]
struct Viewed<'a> {
    #[serde(flatten)]
    event: &'a Event,
    view: RunChanges<'a>,
}

/// Converts an event of a run to a server-sent event.
fn as_event(event: &Event, view: Option<RunChanges<'_>>) -> sse::Event {
    // Events are data that serialises.
    let data = match view {
        Some(view) => serde_json::to_string(&Viewed { event, view }),
        None => serde_json::to_string(event),
    };
    let sent = |kind: &str| sse::Event::default().event(kind).data(data.unwrap_or_default());
    match event {
        Event::Record { record } => sent("record").id(record.seq.to_string()),
        Event::Delta { .. } => sent("delta"),
        Event::Partial { .. } => sent("partial"),
        Event::DiscardPartial { .. } => sent("discard_partial"),
        Event::Discard { .. } => sent("discard"),
    }
}

async fn follow(State(service): State<Service>, Extension(token): Caller) -> Result<Response, ApiError> {
    let as_event = |notice: Notice| {
        // A notice is data that serialises.
        sse::Event::default().event(notice.kind()).data(serde_json::to_string(&notice).unwrap_or_default())
    };
    Ok(events(service.notices(&token)?.map(as_event)))
}

async fn answer(
    State(service): State<Service>,
    Extension(token): Caller,
    Path(run): Path<String>,
    Given(given): Given<GiveAnswer>,
) -> Result<StatusCode, ApiError> {
    service.answer(&token, &run, given).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn cancel(
    State(service): State<Service>,
    Extension(token): Caller,
    Path(run): Path<String>,
) -> Result<StatusCode, ApiError> {
    // Accepted when the end is recorded: a server that is killed now must not continue the run later.
    service.cancel(&token, &run)?.ended().await;
    Ok(StatusCode::ACCEPTED)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Previews {
    previews: Option<bool>,
}

async fn questions(
    State(service): State<Service>,
    Extension(token): Caller,
    Asked(Previews { previews }): Asked<Previews>,
) -> Json<Questions> {
    Json(Questions { questions: service.questions(&token, previews.unwrap_or(true)) })
}
