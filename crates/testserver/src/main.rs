//! The model server of the benchmarks: K tool turns, then a text, at next to no cost of its own.
//!
//! `llm-do-testserver [--turns K] [--tool NAME] [--arguments JSON] [--final TEXT] [--threads N] [--delay MS]`
//!
//! Prints its URL and serves until its standard input ends (so not with `</dev/null`). In the
//! arguments `{turn}` becomes the turn's number, so that no two calls are the same. Each answer waits
//! for the delay, so that many clients can be held at once. `GET /stats` says how many requests came,
//! with how many bytes and when the first did, in nanoseconds since 1970, and begins to count anew.

use std::convert::Infallible;
use std::error::Error;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response};
use llm_do_testserver::{Fixed, Reply, net};
use serde_json::json;

struct Options {
    turns: usize,
    tool: String,
    arguments: String,
    text: String,
    threads: usize,
    delay: u64,
}

struct Bench {
    fixed: Fixed,
    requests: AtomicU64,
    bytes: AtomicU64,
    first: AtomicU64,
    delay: Duration,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    let call = |turn: usize| {
        Reply::empty().and_raw_tool(&options.tool, &options.arguments.replace("{turn}", &turn.to_string()))
    };
    let replies: Vec<_> = (0..options.turns).map(call).chain([Reply::text(&options.text)]).collect();
    let bench = Arc::new(Bench {
        fixed: Fixed::new(&replies),
        requests: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        first: AtomicU64::new(0),
        delay: Duration::from_millis(options.delay),
    });

    let mut runtime = match options.threads {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = runtime.worker_threads(options.threads).enable_all().build()?;
    let listener = {
        let _context = runtime.enter();
        net::listen()?
    };
    writeln!(std::io::stdout(), "http://{}", listener.local_addr()?)?;
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    runtime.block_on(net::accept(listener, || {
        let bench = bench.clone();
        move |request| answer(bench.clone(), request)
    }));
    Ok(())
}

async fn answer(bench: Arc<Bench>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    if path == "/stats" {
        let stats = json!({
            "requests": bench.requests.swap(0, Relaxed),
            "bytes": bench.bytes.swap(0, Relaxed),
            "first_unix_ns": bench.first.swap(0, Relaxed),
        });
        return Ok(Response::new(Full::new(stats.to_string().into())));
    }
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    if bench.requests.fetch_add(1, Relaxed) == 0 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        bench.first.store(now.as_nanos() as u64, Relaxed);
    }
    bench.bytes.fetch_add(body.len() as u64, Relaxed);
    if !bench.delay.is_zero() {
        tokio::time::sleep(bench.delay).await;
    }
    let (content_type, answer) =
        bench.fixed.answer(path, &body).unwrap_or(("text/plain", Bytes::from_static(b"no such endpoint")));
    let mut response = Response::new(Full::new(answer));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    Ok(response)
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options {
        turns: 10,
        tool: "read_file".into(),
        arguments: r#"{"path":"input/{turn}.txt"}"#.into(),
        text: "All of it is read.".into(),
        threads: 1,
        delay: 0,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} wants a value"))?;
        match word.as_str() {
            "--turns" => options.turns = value.parse()?,
            "--tool" => options.tool = value,
            "--arguments" => options.arguments = value,
            "--final" => options.text = value,
            "--threads" => options.threads = value.parse()?,
            "--delay" => options.delay = value.parse()?,
            _ => return Err(format!("unknown option {word}").into()),
        }
    }
    Ok(options)
}
