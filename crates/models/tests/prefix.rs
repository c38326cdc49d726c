//! Tests that requests of a conversation keep their prefix: providers cache the part that a request has in common with
//! the one before.
#![allow(clippy::unwrap_used, reason = "a test may panic, also in its helpers")]

use llm_do_core::{
    call_path::CallPath,
    model::{
        Arguments, Delta, DeltaSink, Message, MessageId, ModelName, ModelRequest, ModelSettings, Models,
        Part, Role, ToolCall, ToolResult, ToolSpec,
    },
};
use llm_do_models::{Api, CustomProvider, Providers};
use serde_json::{Value, json};
use std::sync::Arc;

mod one_answer;

const TURNS: u32 = 40;

struct Nobody;

impl DeltaSink for Nobody {
    fn delta(&self, _: Delta) {}
}

/// Returns the history before a turn: each turn calls a tool, and at every fourth turn the user adds a message.
fn history(turn: u32) -> Vec<Arc<Message>> {
    let mut messages: Vec<Arc<Message>> = Vec::new();
    let mut say = |role, parts| {
        let id = MessageId(messages.len() as u32);
        messages.push(Arc::new(Message { id, parent: None, role, parts }));
    };
    say(Role::User, vec![Part::text("Read the notes and report.")]);
    for at in 0..turn {
        let id: Arc<str> = format!("call_{at}").into();
        let arguments = Arguments::Json(Arc::new(json!({"path": format!("notes/{at}.txt")})));
        let call = Part::Call(ToolCall { id: Arc::clone(&id), name: "read_file".into(), arguments });
        say(Role::Assistant, vec![Part::text(format!("I read file {at}.")), call]);
        let content = format!("Line of file {at}.\n").repeat(60).into();
        say(
            Role::Tool,
            vec![Part::Result(ToolResult {
                call_id: id,
                name: "read_file".into(),
                content,
                is_error: false,
            })],
        );
        if at % 4 == 3 {
            say(Role::Assistant, vec![Part::text(format!("That was file {at}."))]);
            say(Role::User, vec![Part::text("Go on.")]);
        }
    }
    messages
}

/// Returns the body of the request for that turn.
async fn body(api: Api, model: &str, turn: u32) -> Value {
    let (url, served) = one_answer::serve([("text/event-stream", [Vec::new()])]);
    let mut custom = CustomProvider::new(url);
    custom.api = api;
    custom.api_key_env = Some("KEY".to_owned());
    let providers =
        Providers::new(|name| (name == "KEY").then(|| "key-of-tests".to_owned())).custom("gw", custom);
    let name: ModelName = format!("gw:{model}").parse().unwrap();
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: "Reads a text file.".into(),
        input: Arc::new(json!({"type": "object", "properties": {"path": {"type": "string"}}})),
    };
    let request = ModelRequest {
        conversation: &CallPath::root(),
        run: "run",
        worker: "w",
        purpose: Default::default(),
        turn,
        model: &name,
        system: &"You report on notes.".repeat(20).into(),
        messages: &history(turn),
        tools: &Arc::from([tool("read_file"), tool("search_files")]),
        server_tools: &Arc::from([]),
        settings: &ModelSettings::default(),
        output: None,
    };
    // The answer is empty, which is an error. Only what was sent counts here.
    let _ = providers.open(&name).unwrap().respond(request, &Nobody).await;
    served.join().unwrap().remove(0).1
}

/// Returns the text that a provider reads, in its order: the constant parts, then the history. The order of keys in the
/// body and the cache marks are not part of it, and a plain text equals a list with that text, as Anthropic documents
/// it.
fn read_by_provider(body: &Value, history: &str) -> String {
    let mut body = body.clone();
    without_marks(&mut body);
    let messages = body.as_object_mut().unwrap().shift_remove(history).unwrap();
    format!("{body}{messages}")
}

fn without_marks(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.shift_remove("cache_control");
            if let Some(Value::String(text)) = map.get("content").filter(|_| map.contains_key("role")) {
                let list = json!([{"type": "text", "text": text}]);
                map.insert("content".to_owned(), list);
            }
            map.values_mut().for_each(without_marks);
        }
        Value::Array(items) => items.iter_mut().for_each(without_marks),
        _ => {}
    }
}

#[tokio::test]
async fn ninety_nine_percent_of_a_request_stand_at_the_same_place_in_the_next() {
    for (api, model, history) in [
        (Api::OpenAi, "gpt-4o", "messages"),
        (Api::OpenAiResponses, "gpt-5", "input"),
        (Api::Anthropic, "claude-sonnet-4-5", "messages"),
        (Api::Gemini, "gemini-2.5-flash", "contents"),
    ] {
        let (mut kept, mut held) = (0, 0);
        let mut before = read_by_provider(&body(api, model, 0).await, history);
        for turn in 1..=TURNS {
            let now = read_by_provider(&body(api, model, turn).await, history);
            kept += before.bytes().zip(now.bytes()).take_while(|(then, now)| then == now).count();
            held += before.len();
            before = now;
        }
        let share = kept as f64 / held as f64;
        println!("{api:?}: {:.3} % of {held} bytes", share * 100.0);
        assert!(share >= 0.99, "{api:?}: {share}");
    }
}
