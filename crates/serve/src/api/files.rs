//! Files: uploads of clients, files of runs, and exported runs.

use super::{Asked, Body, Caller, Parameter, RUN, RequestBody, Route, schema};
use crate::{
    error::ApiError,
    service::Service,
    token::Scope,
    views::{Folder, Uploaded},
};
use axum::{
    Extension, Json,
    body::{Body as Content, Bytes},
    extract::{Path, State},
    http::{HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
    routing::on,
};
use serde::Deserialize;
use serde_json::json;

pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Method::POST,
        path: "/v1/uploads",
        name: "upload",
        summary: "Upload a file for a run",
        scope: Some(Some(Scope::Start)),
        parameters: &[Parameter {
            name: "name",
            place: "query",
            description: "The file's name.",
            schema: || json!({"type": "string", "minLength": 1, "maxLength": 200}),
            required: true,
        }],
        body: RequestBody::Bytes,
        responses: &[(
            201,
            "The upload. It is kept for a day, or until the run that uses it ends.",
            Body::Json(schema::<Uploaded>),
        )],
        own_errors: &[
            (429, "Too many files are uploaded."),
            (507, "The server can't write the file: the disk is full, for example."),
        ],
        handler: |on_method| on(on_method, upload),
    },
    Route {
        method: Method::GET,
        path: "/v1/runs/{run}/files",
        name: "listFiles",
        summary: "A folder in the view of a run's worker",
        scope: Some(Some(Scope::Read)),
        parameters: &[
            RUN,
            Parameter {
                name: "path",
                place: "query",
                description: "A path in the view of the run's worker. Default: `/`.",
                schema: || json!({"type": "string"}),
                required: false,
            },
        ],
        body: RequestBody::None,
        responses: &[(200, "The entries of the folder.", Body::Json(schema::<Folder>))],
        own_errors: &[],
        handler: |on_method| on(on_method, list),
    },
    Route {
        method: Method::GET,
        path: "/v1/runs/{run}/files/content",
        name: "getFile",
        summary: "A file in the view of a run's worker",
        scope: Some(Some(Scope::Read)),
        parameters: &[
            RUN,
            Parameter {
                name: "path",
                place: "query",
                description: "A path in the view of the run's worker.",
                schema: || json!({"type": "string"}),
                required: true,
            },
        ],
        body: RequestBody::None,
        responses: &[(200, "The bytes of the file, as an attachment.", Body::Bytes)],
        own_errors: &[(413, "The mount shows no file of this size.")],
        handler: |on_method| on(on_method, content),
    },
    Route {
        method: Method::GET,
        path: "/v1/runs/{run}/export",
        name: "exportRun",
        summary: "A run as a page that needs no other file",
        scope: Some(Some(Scope::Read)),
        parameters: &[RUN],
        body: RequestBody::None,
        responses: &[(200, "The page, as an attachment.", Body::Text("text/html"))],
        own_errors: &[],
        handler: |on_method| on(on_method, export),
    },
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Within {
    #[serde(default = "root")]
    path: String,
}

fn root() -> String {
    "/".into()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct At {
    path: String,
}

async fn upload(
    State(service): State<Service>,
    Extension(token): Caller,
    Asked(named): Asked<Named>,
    bytes: Bytes,
) -> Result<(StatusCode, Json<Uploaded>), ApiError> {
    Ok((StatusCode::CREATED, Json(service.upload(&token, named.name, bytes).await?)))
}

async fn list(
    State(service): State<Service>,
    Extension(token): Caller,
    Path(run): Path<String>,
    Asked(within): Asked<Within>,
) -> Result<Json<Folder>, ApiError> {
    Ok(Json(service.folder(&token, &run, &within.path).await?))
}

async fn content(
    State(service): State<Service>,
    Extension(token): Caller,
    Path(run): Path<String>,
    Asked(at): Asked<At>,
) -> Result<Response, ApiError> {
    let file = service.file(&token, &run, &at.path).await?;
    let kind = if file.is_text { "text/plain; charset=utf-8" } else { "application/octet-stream" };
    let (name, bytes) = (file.name.clone(), file.bytes);
    let mut response = Response::new(Content::from_stream(file.pieces()));
    response.headers_mut().insert(header::CONTENT_LENGTH, bytes.into());
    Ok(as_attachment(response, kind, &name))
}

async fn export(
    State(service): State<Service>,
    Extension(token): Caller,
    Path(run): Path<String>,
) -> Result<Response, ApiError> {
    let page = service.export(&token, &run).await?;
    Ok(as_attachment(page.into_response(), "text/html; charset=utf-8", &format!("{run}.html")))
}

/// Makes a browser save the response and never show it, because its content is not trusted.
fn as_attachment(mut response: Response, kind: &'static str, name: &str) -> Response {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_. ".contains(c);
    let shown: String = name.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    let escaped: String = name
        .bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect();
    let disposition = format!("attachment; filename=\"{shown}\"; filename*=UTF-8''{escaped}");
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    // ASCII without control characters.
    if let Ok(disposition) = HeaderValue::from_str(&disposition) {
        headers.insert(header::CONTENT_DISPOSITION, disposition);
    }
    let nothing = HeaderValue::from_static("default-src 'none'; sandbox");
    headers.insert(header::CONTENT_SECURITY_POLICY, nothing);
    response
}
