//! Conversations whose requests the snapshots hold.

use llm_do_core::{
    model::{Arguments, Blob, Message, MessageId, ModelSettings, Part, Role, ToolCall, ToolResult, ToolSpec},
    server_tool::{ServerTool, WebLimits},
};
use serde_json::{Value, json};
use std::sync::Arc;

/// The content of one request.
pub(crate) struct Conversation {
    pub(crate) name: &'static str,
    pub(crate) system: Arc<str>,
    pub(crate) messages: Vec<Arc<Message>>,
    pub(crate) tools: Arc<[ToolSpec]>,
    pub(crate) server_tools: Arc<[ServerTool]>,
    pub(crate) settings: ModelSettings,
    pub(crate) output: Option<Arc<Value>>,
}

impl Conversation {
    fn new(name: &'static str, history: Vec<(Role, Vec<Part>)>) -> Self {
        let messages = (0..)
            .zip(history)
            .map(|(id, (role, parts))| Arc::new(Message { id: MessageId(id), parent: None, role, parts }));
        Self {
            name,
            system: "Be brief.".into(),
            messages: messages.collect(),
            tools: Arc::new([
                tool("read_file", json!({"type": "object", "properties": {"path": {"type": "string"}}})),
                tool("web_search", json!({"type": "object"})),
            ]),
            server_tools: Arc::new([]),
            settings: ModelSettings::default(),
            output: None,
        }
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

fn tool(name: &str, input: Value) -> ToolSpec {
    ToolSpec { name: name.into(), description: "Does it.".into(), input: Arc::new(input) }
}

fn call(id: &str, arguments: Value) -> Part {
    let arguments = Arguments::Json(Arc::new(arguments));
    Part::Call(ToolCall { id: id.into(), name: "read_file".into(), arguments })
}

fn result(id: &str, content: &str) -> Part {
    let (call_id, name) = (id.into(), "read_file".into());
    Part::Result(ToolResult { call_id, name, content: content.into(), is_error: content == "error" })
}

fn blob(name: &str, media_type: &str) -> Part {
    let data = b"\x01a,b".as_slice().into();
    Part::Blob(Blob { name: name.into(), media_type: media_type.into(), data })
}

fn hello() -> (Role, Vec<Part>) {
    (Role::User, vec![Part::text("Hello.")])
}

/// Returns every conversation, for a provider of that name.
pub(crate) fn all(provider: &str) -> Vec<Conversation> {
    let opaque = |value: Value| Part::Opaque { provider: provider.into(), value };
    let thought = |text: &str| Part::Reasoning { text: text.into() };
    let say = |text: &str| Part::text(text);
    let calls = || {
        vec![
            hello(),
            (
                Role::Assistant,
                vec![say("Let me look."), call("toolu_1", json!({"path": "a"})), call("toolu_2", json!([1]))],
            ),
            (Role::Tool, vec![result("toolu_1", "text"), result("toolu_2", "error")]),
            (Role::Assistant, vec![call("toolu_3", json!({}))]),
            (Role::Tool, vec![result("toolu_3", "done"), blob("b.png", "image/png")]),
            (Role::Assistant, vec![say("It says so.")]),
            (Role::User, vec![say("And?")]),
        ]
    };
    vec![
        Conversation::new("plain", vec![hello()]),
        Conversation::new("bare", vec![hello()]).with(|it| {
            it.system = " ".into();
            it.tools = Arc::new([]);
        }),
        Conversation::new("no_system", vec![hello()]).with(|it| it.system = "".into()),
        Conversation::new(
            "files",
            vec![(
                Role::User,
                vec![
                    say("See."),
                    blob("a.png", "image/png"),
                    blob("a b.pdf", "application/pdf"),
                    blob("a.csv", "text/csv"),
                    Part::Attachment { name: "a.txt".into(), text: "A".into() },
                ],
            )],
        ),
        Conversation::new(
            "texts",
            vec![(Role::User, vec![say("one"), say(" "), say("two\n"), say("three")])],
        ),
        Conversation::new("calls", calls()),
        Conversation::new(
            "empty_answer",
            vec![hello(), (Role::Assistant, vec![say(" ")]), (Role::User, vec![say("Well?")])],
        ),
        Conversation::new(
            "thinking",
            vec![
                hello(),
                (
                    Role::Assistant,
                    vec![
                        thought("Hm."),
                        opaque(json!({"signature": "c2lnbjE="})),
                        say("So:"),
                        call("toolu_1", json!({"path": "a"})),
                    ],
                ),
                (Role::Tool, vec![result("toolu_1", "text")]),
                (
                    Role::Assistant,
                    vec![thought("Ah."), opaque(json!({"signature": "c2lnbjI="})), say("Done.")],
                ),
                (Role::User, vec![say("And?")]),
            ],
        ),
        Conversation::new(
            "thinking_of_another",
            vec![
                hello(),
                (
                    Role::Assistant,
                    vec![
                        thought("Hm."),
                        Part::Opaque {
                            provider: "elsewhere".into(),
                            value: json!({"signature": "c2lnbjE="}),
                        },
                        say("So."),
                    ],
                ),
                (Role::User, vec![say("And?")]),
            ],
        ),
        Conversation::new(
            "reasoning_goes_back",
            vec![
                hello(),
                (
                    Role::Assistant,
                    vec![thought("Hm."), opaque(json!("reasoning")), call("toolu_1", json!({}))],
                ),
                (Role::Tool, vec![result("toolu_1", "text")]),
            ],
        ),
        Conversation::new(
            "signed_calls",
            vec![
                hello(),
                (
                    Role::Assistant,
                    vec![
                        opaque(json!({"signature": "dGV4dDE="})),
                        say("So:"),
                        opaque(json!({"call": {"id": "c1", "signatures": ["c2lnbmVk"]}})),
                        call("c1", json!({"path": "a"})),
                        call("call#read_file#0#1", json!({})),
                    ],
                ),
                (Role::Tool, vec![result("c1", "text"), result("call#read_file#0#1", "more")]),
            ],
        ),
        Conversation::new("schema", vec![hello()]).with(|it| {
            it.output = Some(Arc::new(json!({"type": "array", "items": {"type": "integer"}})));
        }),
        Conversation::new("settings", vec![hello()]).with(|it| {
            it.settings = ModelSettings {
                temperature: Some(0.5),
                top_p: Some(0.25),
                max_tokens: Some(77),
                seed: Some(7),
                stop: vec!["END".into()],
                reasoning_effort: None,
            };
        }),
        effort("effort_none", "none"),
        effort("effort_minimal", "minimal"),
        effort("effort_low", "low"),
        effort("effort_medium", "medium"),
        effort("effort_high", "high"),
        effort("effort_xhigh", "xhigh"),
        effort("effort_max", "max"),
        effort("effort_2000", "2000"),
        Conversation::new("searches", searches(provider)).with(|it| {
            let domains = vec!["rust-lang.org".into()];
            let limits = WebLimits { max_uses: Some(3), allowed_domains: domains, ..WebLimits::default() };
            let search = ServerTool::WebSearch(limits);
            it.server_tools = match provider {
                "anthropic" | "vertex" => {
                    Arc::new([search, ServerTool::WebFetch(WebLimits::default()), ServerTool::CodeExecution])
                }
                "openai_resp" => Arc::new([search, ServerTool::CodeExecution]),
                "gemini" => Arc::new([
                    ServerTool::WebSearch(WebLimits::default()),
                    ServerTool::WebFetch(WebLimits::default()),
                    ServerTool::CodeExecution,
                ]),
                _ => Arc::new([]),
            };
        }),
    ]
}

fn effort(name: &'static str, effort: &str) -> Conversation {
    let effort = Some(effort.into());
    Conversation::new(name, vec![hello()]).with(|it| it.settings.reasoning_effort = effort)
}

/// Makes a turn in which the provider has used tools of its own.
fn searches(provider: &str) -> Vec<(Role, Vec<Part>)> {
    let block = |block: Value| Part::Opaque { provider: provider.into(), value: json!({ "block": block }) };
    let citations = Part::Opaque {
        provider: provider.into(),
        value: json!({"citations": [{
            "type": "web_search_result_location",
            "url": "https://a.example/",
            "title": "A",
            "cited_text": "Found.",
            "encrypted_index": "E",
        }]}),
    };
    let own = match provider {
        "openai_resp" => {
            json!({"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": "q"}})
        }
        "gemini" => {
            json!({"executableCode": {"language": "PYTHON", "code": "2"}, "thoughtSignature": "U2lnbmVk"})
        }
        "openrouter" => json!({"type": "reasoning.encrypted", "data": "E"}),
        _ => json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}}),
    };
    vec![
        hello(),
        (
            Role::Assistant,
            vec![block(own), Part::text("Found."), citations, call("toolu_1", json!({"path": "a"}))],
        ),
        (Role::Tool, vec![result("toolu_1", "text")]),
    ]
}
