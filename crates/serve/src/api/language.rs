//! The language of definition files, for the editor of the app.

use super::{Body, Caller, Given, PROGRAM, RequestBody, Route, schema};
use crate::{
    error::ApiError,
    service::{Completion, CursorIn, DefinitionPlaces, Explained, Service},
    token::Scope,
};
use axum::{
    Extension, Json,
    extract::{Path, State},
    http::Method,
    routing::on,
};

const ERRORS: &[(u16, &str)] = &[(500, "The program can't be checked.")];

pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Method::POST,
        path: "/v1/programs/{program}/completion",
        name: "completeDefinition",
        summary: "List the texts that may stand at a position of a definition file, also of one that is not saved",
        scope: Some(Some(Scope::Edit)),
        parameters: &[PROGRAM],
        body: RequestBody::Json(schema::<CursorIn>),
        responses: &[(200, "The texts.", Body::Json(schema::<Completion>))],
        own_errors: ERRORS,
        handler: |on_method| on(on_method, completion),
    },
    Route {
        method: Method::POST,
        path: "/v1/programs/{program}/hover",
        name: "explainDefinition",
        summary: "Explain the word at a position of a definition file, also of one that is not saved",
        scope: Some(Some(Scope::Edit)),
        parameters: &[PROGRAM],
        body: RequestBody::Json(schema::<CursorIn>),
        responses: &[(200, "The explanation.", Body::Json(schema::<Explained>))],
        own_errors: ERRORS,
        handler: |on_method| on(on_method, hover),
    },
    Route {
        method: Method::POST,
        path: "/v1/programs/{program}/definition",
        name: "findDefinition",
        summary: "Find the definition of the thing that the word at a position of a definition file names",
        scope: Some(Some(Scope::Edit)),
        parameters: &[PROGRAM],
        body: RequestBody::Json(schema::<CursorIn>),
        responses: &[(200, "The places.", Body::Json(schema::<DefinitionPlaces>))],
        own_errors: ERRORS,
        handler: |on_method| on(on_method, definition),
    },
];

async fn completion(
    State(service): State<Service>,
    Extension(token): Caller,
    Path(program): Path<String>,
    Given(cursor): Given<CursorIn>,
) -> Result<Json<Completion>, ApiError> {
    Ok(Json(service.completion(&token, &program, cursor).await?))
}

async fn hover(
    State(service): State<Service>,
    Extension(token): Caller,
    Path(program): Path<String>,
    Given(cursor): Given<CursorIn>,
) -> Result<Json<Explained>, ApiError> {
    Ok(Json(service.hover(&token, &program, cursor).await?))
}

async fn definition(
    State(service): State<Service>,
    Extension(token): Caller,
    Path(program): Path<String>,
    Given(cursor): Given<CursorIn>,
) -> Result<Json<DefinitionPlaces>, ApiError> {
    Ok(Json(service.definition_at(&token, &program, cursor).await?))
}
