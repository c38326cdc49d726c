//! Tests that a client library made for the real services can read the server's answers, and that the server accepts
//! its requests.
#![allow(clippy::unwrap_used)] // in a test a panic is the report

use futures_util::StreamExt;
use genai::adapter::AdapterKind;
use genai::chat::{
    ChatMessage, ChatOptions, ChatRequest, ChatStreamEvent, MessageContent, Tool, ToolResponse, Usage,
};
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, ModelIden, ServiceTarget};
use llm_do_testserver::{Reply, Script, TestServer};
use serde_json::json;

/// Makes a client without trusted certificates: the server does not use TLS, and a machine may have no certificates to
/// read.
fn client() -> Client {
    let tls = rustls::ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let client = reqwest::Client::builder().tls_backend_preconfigured(tls).no_proxy().build().unwrap();
    Client::builder().with_reqwest(client).build().unwrap()
}

fn target(server: &TestServer, kind: AdapterKind) -> ServiceTarget {
    ServiceTarget {
        endpoint: Endpoint::from_owned(format!("{}/v1/", server.url())),
        auth: AuthData::from_single("none"),
        model: ModelIden::new(kind, "loopback"),
    }
}

async fn ask(
    client: &Client,
    target: ServiceTarget,
    request: &ChatRequest,
    streamed: bool,
) -> genai::Result<(MessageContent, Usage)> {
    let options = ChatOptions::default()
        .with_capture_content(true)
        .with_capture_tool_calls(true)
        .with_capture_usage(true);
    if !streamed {
        let response = client.exec_chat(target, request.clone(), Some(&options)).await?;
        return Ok((response.content, response.usage));
    }
    let mut events = client.exec_chat_stream(target, request.clone(), Some(&options)).await?.stream;
    let mut answer = None;
    while let Some(event) = events.next().await {
        if let ChatStreamEvent::End(end) = event? {
            let usage = end.captured_usage.clone().unwrap_or_default();
            answer = Some((end.captured_content.unwrap_or_default(), usage));
        }
    }
    Ok(answer.expect("a stream has an end"))
}

#[test]
fn a_conversation_with_parallel_calls_works_on_both_wires_streamed_and_not() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (kind, streamed) in [AdapterKind::OpenAI, AdapterKind::Anthropic]
        .into_iter()
        .flat_map(|kind| [(kind, false), (kind, true)])
    {
        let calls = [("read_file", json!({"path": "a.txt"})), ("read_file", json!({"path": "ü.txt"}))];
        let server = TestServer::start(Script::turns([
            Reply::rate_limited(None),
            Reply::tools(calls).usage_with_cache(50, 5, 20),
            Reply::text("Both files say hello."),
        ]));
        runtime.block_on(async {
            let client = client();
            let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
            let mut request = ChatRequest::from_system("Be brief.")
                .append_message(ChatMessage::user("Read both files."))
                .with_tools([Tool::new("read_file").with_schema(schema)]);
            let limited = ask(&client, target(&server, kind), &request, streamed).await.unwrap_err();
            assert!(format!("{limited:?}").contains("429"), "{limited:?}");

            let (content, usage) = ask(&client, target(&server, kind), &request, streamed).await.unwrap();
            assert_eq!((usage.prompt_tokens, usage.completion_tokens), (Some(50), Some(5)));
            let calls = content.into_tool_calls();
            let paths: Vec<_> =
                calls.iter().map(|call| call.fn_arguments["path"].as_str().unwrap()).collect();
            assert_eq!(paths, ["a.txt", "ü.txt"]);
            let results: Vec<_> =
                calls.iter().map(|call| ToolResponse::new(call.call_id.clone(), "hello")).collect();
            request = request.append_message(calls).append_message(results);

            let (content, _) = ask(&client, target(&server, kind), &request, streamed).await.unwrap();
            assert_eq!(content.joined_texts().unwrap(), "Both files say hello.");
        });
        server.assert_valid();
        let last = server.requests().pop().unwrap();
        assert_eq!(last.tool_results().len(), 2);
        assert_eq!((last.system(), last.streamed()), ("Be brief.", streamed));
    }
}
