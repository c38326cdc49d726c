//! `GET /v1/models`: the workers that the token may start.

use super::{Caller, error::Wrong, now};
use crate::{error::Code, service::Service, views::WorkerView};
use axum::{
    Extension, Json,
    extract::{Path, State},
};
use serde_json::{Value, json};

fn model(worker: &WorkerView, created: u64) -> Value {
    json!({
        "id": format!("{}/{}", worker.program, worker.worker),
        "object": "model",
        "created": created,
        "owned_by": worker.program,
        // Further fields that clients show: OpenAI's own have none of them.
        "name": worker.worker,
        "description": worker.description,
    })
}

pub(crate) async fn list(State(service): State<Service>, Extension(token): Caller) -> Json<Value> {
    let created = now();
    let models: Vec<Value> = service.workers(&token).iter().map(|worker| model(worker, created)).collect();
    Json(json!({"object": "list", "data": models}))
}

pub(crate) async fn show(
    State(service): State<Service>,
    Extension(token): Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, Wrong> {
    let workers = service.workers(&token);
    let found = workers.iter().find(|worker| format!("{}/{}", worker.program, worker.worker) == id);
    found.map(|worker| Json(model(worker, now()))).ok_or_else(|| {
        Wrong::new(Code::NotFound, "there is no such model: GET /v1/models lists them")
            .at("model")
            .named("model_not_found")
    })
}
