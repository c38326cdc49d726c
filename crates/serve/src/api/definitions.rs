//! The definitions of programs: reading, checking and changing them.

use super::{Asked, Body, Caller, Given, PROGRAM, Parameter, RequestBody, Route, schema};
use crate::{
    error::ApiError,
    service::Service,
    token::Scope,
    views::{CheckTexts, DefinitionFiles, DefinitionText, Diagnostics, SaveDefinition, Saved},
};
use axum::{
    Extension, Json,
    extract::{Path, State},
    http::Method,
    routing::on,
};
use serde::Deserialize;
use serde_json::json;

pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Method::GET,
        path: "/v1/programs/{program}/files",
        name: "listDefinitions",
        summary: "The definition files of a program, for tokens with `edit` or `read`",
        scope: Some(None),
        parameters: &[PROGRAM],
        body: RequestBody::None,
        responses: &[(200, "The files.", Body::Json(schema::<DefinitionFiles>))],
        own_errors: &[],
        handler: |on_method| on(on_method, list),
    },
    Route {
        method: Method::GET,
        path: "/v1/programs/{program}/files/content",
        name: "getDefinition",
        summary: "The text of a definition file, for tokens with `edit` or `read`",
        scope: Some(None),
        parameters: &[
            PROGRAM,
            Parameter {
                name: "path",
                place: "query",
                description: "The file's path from the program's folder.",
                schema: || json!({"type": "string", "minLength": 1}),
                required: true,
            },
        ],
        body: RequestBody::None,
        responses: &[(200, "The text.", Body::Json(schema::<DefinitionText>))],
        own_errors: &[(413, "The file is too large.")],
        handler: |on_method| on(on_method, read),
    },
    Route {
        method: Method::PUT,
        path: "/v1/programs/{program}/files/content",
        name: "saveDefinition",
        summary: "Save a definition file. Later runs get the program as it is then",
        scope: Some(Some(Scope::Edit)),
        parameters: &[PROGRAM],
        body: RequestBody::Json(schema::<SaveDefinition>),
        responses: &[(200, "It is saved.", Body::Json(schema::<Saved>))],
        own_errors: &[(409, "The file is not at the hash that the request names.")],
        handler: |on_method| on(on_method, save),
    },
    Route {
        method: Method::POST,
        path: "/v1/programs/{program}/check",
        name: "checkProgram",
        summary: "List the findings of `llm-do check`, also over texts that are not saved; for tokens with `edit` or `read`",
        scope: Some(None),
        parameters: &[PROGRAM],
        body: RequestBody::Json(schema::<CheckTexts>),
        responses: &[(200, "The findings.", Body::Json(schema::<Diagnostics>))],
        own_errors: &[(500, "The program can't be checked.")],
        handler: |on_method| on(on_method, check),
    },
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct At {
    path: String,
}

async fn list(
    State(service): State<Service>,
    Extension(token): Caller,
    Path(program): Path<String>,
) -> Result<Json<DefinitionFiles>, ApiError> {
    Ok(Json(service.definitions(&token, &program).await?))
}

async fn read(
    State(service): State<Service>,
    Extension(token): Caller,
    Path(program): Path<String>,
    Asked(at): Asked<At>,
) -> Result<Json<DefinitionText>, ApiError> {
    Ok(Json(service.definition(&token, &program, at.path).await?))
}

async fn save(
    State(service): State<Service>,
    Extension(token): Caller,
    Path(program): Path<String>,
    Given(given): Given<SaveDefinition>,
) -> Result<Json<Saved>, ApiError> {
    Ok(Json(service.save(&token, &program, given).await?))
}

async fn check(
    State(service): State<Service>,
    Extension(token): Caller,
    Path(program): Path<String>,
    Given(given): Given<CheckTexts>,
) -> Result<Json<Diagnostics>, ApiError> {
    Ok(Json(Diagnostics { diagnostics: service.check(&token, &program, given).await? }))
}
