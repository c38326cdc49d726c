//! The maps of a project and their rows.

use super::{
    Asked, Body, Caller, PROGRAM, Parameter, RequestBody, Route,
    runs::{events_of, last_event},
    schema,
};
use crate::{
    error::{ApiError, Code},
    service::{LARGEST_PAGE, MapView, Maps, RowStateView, Rows, RowsOf, Service},
    token::Scope,
};
use axum::{
    Extension, Json,
    extract::{Path, State},
    http::{HeaderMap, Method},
    response::Response,
    routing::on,
};
use serde::{Deserialize, de::IntoDeserializer};
use serde_json::json;

/// Rows of a page, unless a client wants another number.
const PAGE: usize = 50;

const MAP: Parameter = Parameter {
    name: "map",
    place: "path",
    description: "The ID of a map.",
    schema: || json!({"type": "string", "pattern": "^[0-9a-f]{8}-[0-9a-f]{6}-[0-9a-f]{4}$"}),
    required: true,
};

pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Method::GET,
        path: "/v1/programs/{program}/maps",
        name: "listMaps",
        summary: "The maps of a project, newest first, for tokens that read the operator's runs",
        scope: Some(Some(Scope::Read)),
        parameters: &[PROGRAM],
        body: RequestBody::None,
        responses: &[(200, "The maps.", Body::Json(schema::<Maps>))],
        own_errors: &[],
        handler: |on_method| on(on_method, list),
    },
    Route {
        method: Method::GET,
        path: "/v1/programs/{program}/maps/{map}",
        name: "getMap",
        summary: "How far a map has come",
        scope: Some(Some(Scope::Read)),
        parameters: &[PROGRAM, MAP],
        body: RequestBody::None,
        responses: &[(200, "The map.", Body::Json(schema::<MapView>))],
        own_errors: &[],
        handler: |on_method| on(on_method, show),
    },
    Route {
        method: Method::GET,
        path: "/v1/programs/{program}/maps/{map}/rows",
        name: "listRows",
        summary: "Rows of a map in the order of its input",
        scope: Some(Some(Scope::Read)),
        parameters: &[
            PROGRAM,
            MAP,
            Parameter {
                name: "state",
                place: "query",
                description: "Only rows in one of these states, separated by commas.",
                schema: || json!({"type": "string"}),
                required: false,
            },
            Parameter {
                name: "after",
                place: "query",
                description: "Only rows after the row with this number.",
                schema: || json!({"type": "integer", "minimum": 0}),
                required: false,
            },
            Parameter {
                name: "limit",
                place: "query",
                description: "The most that are listed. Default: 50.",
                schema: || json!({"type": "integer", "minimum": 1, "maximum": LARGEST_PAGE}),
                required: false,
            },
        ],
        body: RequestBody::None,
        responses: &[(
            200,
            "The rows. With a state, a page may be short or empty and still have `next`.",
            Body::Json(schema::<Rows>),
        )],
        own_errors: &[],
        handler: |on_method| on(on_method, rows),
    },
    Route {
        method: Method::GET,
        path: "/v1/programs/{program}/maps/{map}/rows/{row}/events",
        name: "followRow",
        summary: "The events of the run of a row that are recorded so far",
        scope: Some(Some(Scope::Read)),
        parameters: &[
            PROGRAM,
            MAP,
            Parameter {
                name: "row",
                place: "path",
                description: "The run of the row.",
                schema: || json!({"type": "string", "pattern": "^[0-9a-f]{32}$"}),
                required: true,
            },
            Parameter {
                name: "view",
                place: "query",
                description: "Whether records come with the changes that they make to the view of the run.",
                schema: || json!({"type": "boolean"}),
                required: false,
            },
            Parameter {
                name: "Last-Event-ID",
                place: "header",
                description: "The number of the last record that the reader has.",
                schema: || json!({"type": "string", "pattern": "^[0-9]+$"}),
                required: false,
            },
        ],
        body: RequestBody::None,
        responses: &[(200, "The events, as those of a run.", Body::Text("text/event-stream"))],
        own_errors: &[(429, "Too many streams are open.")],
        handler: |on_method| on(on_method, follow),
    },
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Query {
    state: Option<String>,
    after: Option<u64>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Following {
    #[serde(default)]
    view: bool,
}

async fn list(
    State(service): State<Service>,
    Extension(token): Caller,
    Path(program): Path<String>,
) -> Result<Json<Maps>, ApiError> {
    Ok(Json(service.maps(&token, &program).await?))
}

async fn show(
    State(service): State<Service>,
    Extension(token): Caller,
    Path((program, map)): Path<(String, String)>,
) -> Result<Json<MapView>, ApiError> {
    Ok(Json(service.map(&token, &program, map).await?))
}

async fn rows(
    State(service): State<Service>,
    Extension(token): Caller,
    Path((program, map)): Path<(String, String)>,
    Asked(Query { state, after, limit }): Asked<Query>,
) -> Result<Json<Rows>, ApiError> {
    let wrong = |detail: String| ApiError::new(Code::BadRequest, detail);
    let limit = limit.unwrap_or(PAGE);
    if !(1..=LARGEST_PAGE).contains(&limit) {
        return Err(wrong(format!("limit: a number from 1 to {LARGEST_PAGE}")));
    }
    let names = state.as_deref().unwrap_or_default().split(',').filter(|name| !name.is_empty());
    let states = names.map(|name| {
        RowStateView::deserialize(name.into_deserializer())
            .map_err(|error: serde::de::value::Error| wrong(format!("state: {error}")))
    });
    let of = RowsOf { states: states.collect::<Result<_, _>>()?, after: after.unwrap_or(0), limit };
    Ok(Json(service.rows(&token, &program, map, of).await?))
}

async fn follow(
    State(service): State<Service>,
    Extension(token): Caller,
    Path((program, map, row)): Path<(String, String, String)>,
    Asked(Following { view }): Asked<Following>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let reader = service.row(&token, &program, map, row, last_event(&headers)?).await?;
    Ok(events_of(reader, view))
}
