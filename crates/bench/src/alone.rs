//! The second floor: `genai` alone over the same transcript, streaming, in a naive loop that clones the whole request
//! each turn. One program uses the system's allocator, the default of a program, and one uses that of llm-do.

use std::sync::Arc;

use futures_util::StreamExt;
use genai::adapter::AdapterKind;
use genai::chat::{ChatMessage, ChatOptions, ChatRequest, ChatStreamEvent, Tool, ToolResponse};
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, ModelIden, ServiceTarget};

use crate::{
    DESCRIPTION, Failure, MODEL, Meter, Options, RESULT, SYSTEM, TOOL, USER, options, print, schema,
};

/// Makes the loops that the command line asks for, and prints their figures under this name.
///
/// # Errors
/// A wrong option, or a server that does not keep to the transcript.
pub fn main(program: &str) -> Result<(), Failure> {
    let options = options()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let meter = Meter::start();
    runtime.block_on(async {
        let client = client()?;
        let loops: Vec<_> =
            (0..options.concurrency).map(|_| tokio::spawn(run(client.clone(), options.clone()))).collect();
        for each in loops {
            each.await??;
        }
        Ok::<_, Failure>(())
    })?;
    print(&meter.stop(program, &options))
}

/// Creates a client without the machine's certificates: this loop has no use for them, and llm-do does not read them
/// either for such a server.
fn client() -> Result<Client, Failure> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .tcp_nodelay(true)
        .pool_max_idle_per_host(256)
        .no_proxy()
        .build()?;
    Ok(Client::builder().with_reqwest(client).build()?)
}

async fn run(client: Client, options: Options) -> Result<(), Failure> {
    let target = ServiceTarget {
        endpoint: Endpoint::from_owned(format!("{}/v1/", options.url)),
        auth: AuthData::from_single("none"),
        model: ModelIden::new(AdapterKind::OpenAI, MODEL),
    };
    let capture = ChatOptions::default()
        .with_capture_content(true)
        .with_capture_tool_calls(true)
        .with_capture_usage(true);
    let schema = schema();
    for _ in 0..options.repeat {
        let mut request = ChatRequest::from_system(SYSTEM)
            .append_message(ChatMessage::user(USER))
            .with_tools([Tool::new(TOOL).with_description(DESCRIPTION).with_schema(schema.clone())]);
        for turn in 0..=options.turns {
            let answer = client.exec_chat_stream(target.clone(), request.clone(), Some(&capture)).await?;
            let mut events = answer.stream;
            let mut calls = Vec::new();
            while let Some(event) = events.next().await {
                if let ChatStreamEvent::End(end) = event? {
                    calls = end.captured_into_tool_calls().unwrap_or_default();
                }
            }
            if calls.is_empty() {
                if turn != options.turns {
                    return Err(format!("the answer to turn {turn} of {} has no call", options.turns).into());
                }
                break;
            }
            let results: Vec<_> =
                calls.iter().map(|call| ToolResponse::new(call.call_id.clone(), RESULT)).collect();
            request = request.append_message(calls);
            for result in results {
                request = request.append_message(result);
            }
        }
    }
    Ok(())
}
