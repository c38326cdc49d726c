//! Models against a server that speaks OpenAI chat completions and Anthropic messages, streaming and not, and that
//! refuses any history its wire would refuse.
#![allow(clippy::unwrap_used, reason = "a test may panic, also in its helpers")]

mod answers;
mod failures;
mod requests;

use llm_do_core::{
    call_path::CallPath,
    model::{
        Arguments, Blob, Delta, DeltaSink, FinishReason, Message, MessageId, Model, ModelError,
        ModelErrorKind, ModelName, ModelRequest, ModelResponse, ModelSettings, Models, Part, Role, ToolCall,
        ToolResult, ToolSpec,
    },
};
use llm_do_models::{Api, CustomProvider, Providers};
use llm_do_testserver::{self as server, Finish, Reply, Script, TestServer, Wire};
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

const KEY: &str = "sk-test-0123456789abcdef";

/// Both wires, each streaming and not.
const WAYS: [(Wire, bool); 4] =
    [(Wire::OpenAi, true), (Wire::OpenAi, false), (Wire::Anthropic, true), (Wire::Anthropic, false)];
const STREAMED: [Wire; 2] = [Wire::OpenAi, Wire::Anthropic];

/// A conversation with a model at a test server.
struct Talk {
    server: TestServer,
    model: Arc<dyn Model>,
    name: ModelName,
    system: Arc<str>,
    messages: Vec<Arc<Message>>,
    tools: Arc<[ToolSpec]>,
    settings: ModelSettings,
    output: Option<Arc<Value>>,
    told: Deltas,
}

#[derive(Default)]
struct Deltas(Mutex<Vec<Delta>>);

impl DeltaSink for Deltas {
    fn delta(&self, delta: Delta) {
        self.0.lock().unwrap().push(delta);
    }
}

impl Deltas {
    fn text(&self) -> String {
        let deltas = self.0.lock().unwrap();
        let texts = deltas.iter().filter_map(|delta| match delta {
            Delta::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }
    fn calls(&self) -> Vec<String> {
        let deltas = self.0.lock().unwrap();
        let names = deltas.iter().filter_map(|delta| match delta {
            Delta::Call { name } => Some(name.clone()),
            _ => None,
        });
        names.collect()
    }
}

fn providers(url: &str) -> Providers {
    let url = url.to_owned();
    Providers::new(move |name| match name {
        "OPENAI_BASE_URL" | "GROQ_BASE_URL" => Some(format!("{url}/v1")),
        "ANTHROPIC_BASE_URL" => Some(url.clone()),
        "OPENAI_API_KEY" | "ANTHROPIC_API_KEY" | "GROQ_API_KEY" => Some(KEY.into()),
        _ => None,
    })
}

impl Talk {
    fn new(way: (Wire, bool), script: Script) -> Self {
        let server = TestServer::start(script);
        let name = match way.0 {
            Wire::OpenAi => "openai:gpt-test",
            Wire::Anthropic => "anthropic:claude-test",
        };
        let providers = providers(server.url()).streaming(way.1);
        Self::with(server, &providers, name)
    }

    fn impatient(way: (Wire, bool), reply: Reply, idle: Duration) -> Self {
        let server = TestServer::start(Script::new().turn(reply));
        let name = if way.0 == Wire::OpenAi { "openai:gpt-test" } else { "anthropic:claude-test" };
        let providers = providers(server.url()).streaming(way.1).idle_timeout(idle);
        Self::with(server, &providers, name)
    }

    fn with(server: TestServer, providers: &Providers, name: &str) -> Self {
        let name: ModelName = name.parse().unwrap();
        let tool = |name: &str| ToolSpec {
            name: name.into(),
            description: "Does it.".into(),
            input: Arc::new(json!({"type": "object", "properties": {"path": {"type": "string"}}})),
        };
        let mut talk = Self {
            model: providers.open(&name).unwrap(),
            server,
            name,
            system: "Be brief.".into(),
            messages: Vec::new(),
            tools: Arc::new([tool("read_file"), tool("list_files")]),
            settings: ModelSettings::default(),
            output: None,
            told: Deltas::default(),
        };
        talk.say(Role::User, vec![Part::text("Hello.")]);
        talk
    }

    fn say(&mut self, role: Role, parts: Vec<Part>) {
        let id = MessageId(self.messages.len() as u32);
        self.messages.push(Arc::new(Message { id, parent: None, role, parts }));
    }

    async fn ask(&self) -> Result<ModelResponse, ModelError> {
        let turn = self.messages.iter().filter(|message| message.role == Role::Assistant).count();
        let request = ModelRequest {
            conversation: &CallPath::root(),
            run: "run-1",
            worker: "w",
            purpose: Default::default(),
            turn: turn as u32,
            model: &self.name,
            system: &self.system,
            messages: &self.messages,
            tools: &self.tools,
            server_tools: &Arc::from([]),
            settings: &self.settings,
            output: self.output.as_ref(),
        };
        self.model.respond(request, &self.told).await
    }

    /// Asks, keeps the answer, and answers each of its calls with `result`.
    async fn turn(&mut self, result: &str) -> ModelResponse {
        let response = self.ask().await.unwrap();
        self.say(Role::Assistant, response.parts.clone());
        let results: Vec<Part> = calls(&response)
            .into_iter()
            .map(|call| {
                Part::Result(ToolResult {
                    call_id: call.id,
                    name: call.name,
                    content: result.into(),
                    is_error: result.starts_with("error"),
                })
            })
            .collect();
        if !results.is_empty() {
            self.say(Role::Tool, results);
        }
        response
    }

    fn seen(&self) -> server::Seen {
        self.server.requests().pop().unwrap()
    }
}

fn text(response: &ModelResponse) -> String {
    response.parts.iter().filter_map(Part::as_text).collect()
}

fn calls(response: &ModelResponse) -> Vec<ToolCall> {
    let calls = response.parts.iter().filter_map(|part| match part {
        Part::Call(call) => Some(call.clone()),
        _ => None,
    });
    calls.collect()
}

fn arguments(call: &ToolCall) -> Value {
    match &call.arguments {
        Arguments::Json(value) => value.as_ref().clone(),
        Arguments::Invalid { text, .. } => panic!("{text}"),
    }
}
