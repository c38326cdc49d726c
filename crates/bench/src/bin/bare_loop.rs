//! The floor: the HTTP exchange of K tool turns, with the bytes that `genai` sends, and nothing else. The history is a
//! string that grows; only the ID of the call is parsed from an answer.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper_util::rt::TokioIo;
use llm_do_bench::{
    DESCRIPTION, Failure, MODEL, Meter, Options, RESULT, SYSTEM, TOOL, USER, options, print, schema,
};
use serde_json::json;
use tokio::net::TcpStream;

fn main() -> Result<(), Failure> {
    let options = options()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let meter = Meter::start();
    runtime.block_on(async {
        let loops: Vec<_> = (0..options.concurrency).map(|_| tokio::spawn(run(options.clone()))).collect();
        for each in loops {
            each.await??;
        }
        Ok::<_, Failure>(())
    })?;
    print(&meter.stop("bare_loop", &options))
}

async fn run(options: Options) -> Result<(), Failure> {
    let host = options.url.trim_start_matches("http://").to_owned();
    let stream = TcpStream::connect(&host).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let function = json!({"name": TOOL, "description": DESCRIPTION, "parameters": schema(), "strict": false});
    let tools = json!([{"type": "function", "function": function}]);
    let result = json!(RESULT);
    for _ in 0..options.repeat {
        let mut history = format!(
            r#"{{"model":"{MODEL}","stream":true,"stream_options":{{"include_usage":true}},"tools":{tools},"messages":[{},{}"#,
            json!({"role": "system", "content": SYSTEM}),
            json!({"role": "user", "content": USER}),
        );
        for turn in 0..=options.turns {
            let answer = ask(&mut sender, &host, &history).await?;
            let Some(id) = call_id(&answer) else {
                if turn != options.turns {
                    return Err(format!("the answer to turn {turn} of {} has no call", options.turns).into());
                }
                break;
            };
            history.push_str(&format!(
                r#",{{"role":"assistant","content":"","tool_calls":[{{"id":"{id}","type":"function","function":{{"name":"{TOOL}","arguments":"{{\"path\":\"input/{turn}.txt\"}}"}}}}]}},{{"role":"tool","content":{result},"tool_call_id":"{id}"}}"#,
            ));
        }
    }
    Ok(())
}

async fn ask(sender: &mut SendRequest<Full<Bytes>>, host: &str, history: &str) -> Result<Bytes, Failure> {
    let body = Bytes::from([history, "]}"].concat());
    let request = Request::post("/v1/chat/completions")
        .header(HOST, host)
        .header(AUTHORIZATION, "Bearer none")
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(body))?;
    sender.ready().await?;
    Ok(sender.send_request(request).await?.into_body().collect().await?.to_bytes())
}

fn call_id(answer: &[u8]) -> Option<&str> {
    let mark = br#""id":"call_"#;
    let start = memchr::memmem::find(answer, mark)? + mark.len() - "call_".len();
    let length = memchr::memchr(b'"', &answer[start..])?;
    std::str::from_utf8(&answer[start..start + length]).ok()
}
