//! A worker behind a route of axum. The handler shares one opened program; a client that goes away ends its run.
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use axum::{Json, Router, extract::State, http::StatusCode, routing::post};
use llm_do::{Error, Options, Program, Worker, schemars::JsonSchema};
use serde::{Deserialize, Serialize};
use std::fs;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

const WORKER: &str = "---
parameters: {text: string}
returns: {summary: string, words: integer}
---
Summarise: {{ text }}
";

const SCRIPT: &str = "
answers:
  - json: {summary: A short text., words: 3}
";

#[derive(Deserialize, Serialize)]
struct Text {
    text: String,
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Summary {
    summary: String,
    words: u32,
}

async fn summarise(
    State(worker): State<Worker<Summary>>,
    Json(input): Json<Text>,
) -> Result<Json<Summary>, (StatusCode, String)> {
    worker.call(input).await.map(Json).map_err(|error| {
        let status = match &error {
            Error::InvalidInput(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Error::Refused(_) => StatusCode::FORBIDDEN,
            Error::LimitReached(_) => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::BAD_GATEWAY,
        };
        (status, error.to_string())
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("main.worker"), WORKER)?;
    let program = Program::builder(folder.path())
        // The texts come from anyone: what they say can't steer an effect without an approval.
        .options(Options::new().untrusted_input().budget("5turns"))
        .script(SCRIPT)
        .temporary_journals()
        .open()?;
    let worker = program.entry()?.returns::<Summary>()?;

    let routes = Router::new().route("/summaries", post(summarise)).with_state(worker);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(async move { axum::serve(listener, routes).await });

    println!("{}", request(address, r#"{"text": "A long text."}"#).await?);
    println!("{}", request(address, r#"{"txt": 1}"#).await?.lines().next().unwrap_or_default());
    server.abort();
    Ok(())
}

/// Sends one request, as a client would, and gives the status and the body.
async fn request(address: std::net::SocketAddr, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let head = format!(
        "POST /summaries HTTP/1.1\r\nhost: example\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + body).as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    Ok(format!("{}\n{body}", head.lines().next().unwrap_or_default()))
}
