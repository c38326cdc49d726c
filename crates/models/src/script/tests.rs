use super::*;
use llm_do_core::model::{Message, MessageId, ModelName, ModelSettings, Role, ToolResult};
use std::{fs, path::PathBuf, time::Duration};
use tempfile::TempDir;

/// A script in a directory of its own.
struct Scripted {
    _dir: TempDir,
    path: PathBuf,
}

fn written(text: &str) -> Scripted {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("demo.yaml");
    fs::write(&path, text).unwrap();
    Scripted { _dir: dir, path }
}

impl Scripted {
    fn open(&self) -> Result<Arc<dyn Model>, ModelError> {
        open(self.path.to_str().unwrap())
    }
    fn refusal(&self) -> String {
        match self.open() {
            Ok(_) => panic!("it opens"),
            Err(error) => error.message,
        }
    }
}

#[derive(Default)]
struct Deltas(Mutex<Vec<Delta>>);

impl DeltaSink for Deltas {
    fn delta(&self, delta: Delta) {
        self.0.lock().unwrap().push(delta);
    }
}

/// Sends a request of a conversation whose last message is this.
async fn ask_at(
    model: &dyn Model,
    place: &str,
    worker: &str,
    turn: u32,
    last: Part,
    told: &Deltas,
) -> Result<ModelResponse, ModelError> {
    let role = if matches!(last, Part::Result(_)) { Role::Tool } else { Role::User };
    let message = |id, role, parts| Arc::new(Message { id: MessageId(id), parent: None, role, parts });
    let messages = [message(0, Role::User, vec![Part::text("the input")]), message(1, role, vec![last])];
    let name: ModelName = "script:demo.yaml".parse().unwrap();
    let request = ModelRequest {
        conversation: &CallPath::from(place),
        run: "run",
        worker,
        purpose: Default::default(),
        turn,
        model: &name,
        system: &"".into(),
        messages: &messages,
        tools: &Arc::from([]),
        server_tools: &Arc::from([]),
        settings: &ModelSettings::default(),
        output: None,
    };
    model.respond(request, told).await
}

async fn ask(model: &dyn Model, worker: &str, turn: u32, last: &str) -> Result<ModelResponse, ModelError> {
    ask_at(model, "0", worker, turn, Part::text(last), &Deltas::default()).await
}

fn text(response: &ModelResponse) -> String {
    response.parts.iter().filter_map(Part::as_text).collect()
}

#[tokio::test]
async fn the_first_entry_whose_conditions_all_hold_answers() {
    let script = written(
        r"
answers:
  - when: {worker: greeter, turn: 0, last: hello}
    text: Hi!
  - when: {last_regex: '^\d+$'}
    text: a number
  - when: {worker: greeter}
    text: something else
",
    );
    let model = script.open().unwrap();
    for (worker, turn, last, expected) in [
        ("greeter", 0, "well hello there", "Hi!"),
        ("greeter", 1, "hello", "something else"),
        ("other", 0, "42", "a number"),
    ] {
        assert_eq!(text(&ask(&*model, worker, turn, last).await.unwrap()), expected);
    }
    let error = ask(&*model, "other", 3, "what now?").await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::BadRequest);
    for part in ["`other`", "turn 3", "what now?", "demo.yaml"] {
        assert!(error.message.contains(part), "{error}");
    }
}

#[tokio::test]
async fn an_answer_holds_thinking_text_and_calls_in_that_order() {
    let script = written(
        r#"
answers:
  - reasoning: Let me see.
    text: Looking.
    calls:
      - {tool: read_file, arguments: {path: "{{ last }}.txt", deep: [1, "{{ worker }}"]}}
      - {tool: write_file, raw_arguments: '{"path": ', id: mine}
      - {tool: list}
    usage: {input_tokens: 7, output_tokens: 3}
"#,
    );
    let model = script.open().unwrap();
    let response = ask(&*model, "w", 4, "notes").await.unwrap();
    assert_eq!(response.finish, FinishReason::ToolCalls);
    assert_eq!(response.usage.input_tokens, Some(7));
    assert_eq!(response.usage.cached_tokens, None);
    let [Part::Reasoning { .. }, Part::Text { .. }, Part::Call(read), Part::Call(write), Part::Call(list)] =
        response.parts.as_slice()
    else {
        panic!("{response:?}");
    };
    let expected = serde_json::json!({"path": "notes.txt", "deep": [1, "w"]});
    assert_eq!(read.arguments, Arguments::Json(Arc::new(expected)));
    assert_eq!(&*read.id, "call_4_0");
    assert!(matches!(&write.arguments, Arguments::Invalid { text, .. } if &**text == r#"{"path": "#));
    assert_eq!(&*write.id, "mine");
    assert_eq!(list.arguments, Arguments::parse("{}"));
}

#[tokio::test]
async fn json_is_answered_as_text_and_finish_can_be_said() {
    let script = written(
        "answers:\n  - {when: {turn: 0}, json: {n: 1, s: '{{ input }}'}}\n  - {text: cu, finish: length}\n",
    );
    let model = script.open().unwrap();
    assert_eq!(text(&ask(&*model, "w", 0, "x").await.unwrap()), r#"{"n":1,"s":"the input"}"#);
    assert_eq!(ask(&*model, "w", 1, "x").await.unwrap().finish, FinishReason::Length);
}

#[tokio::test]
async fn only_true_and_false_are_booleans() {
    let model = written("answers:\n  - json: {a: yes, b: n, c: true}\n").open().unwrap();
    assert_eq!(text(&ask(&*model, "w", 0, "x").await.unwrap()), r#"{"a":"yes","b":"n","c":true}"#);
}

#[tokio::test]
async fn results_of_tools_are_the_last_message_too() {
    let script = written("answers:\n  - {when: {last: 'No such file'}, text: 'It said: {{ last }}'}\n");
    let result =
        ToolResult { call_id: "c".into(), name: "f".into(), content: "No such file".into(), is_error: true };
    let told = Deltas::default();
    let response = ask_at(&*script.open().unwrap(), "0", "w", 1, Part::Result(result), &told).await.unwrap();
    assert_eq!(text(&response), "It said: No such file");
}

#[tokio::test]
async fn an_entry_with_times_answers_each_conversation_that_often() {
    let script = written(
        "answers:\n  - {times: 2, error: {status: 429, message: slow down, retry_after_ms: 20}}\n  - {text: done}\n",
    );
    let model = script.open().unwrap();
    let told = Deltas::default();
    for place in ["0", "0/0.1"] {
        for _ in 0..2 {
            let error = ask_at(&*model, place, "w", 0, Part::text("x"), &told).await.unwrap_err();
            assert_eq!((error.kind, error.retry_after_ms), (ModelErrorKind::RateLimited, Some(20)));
            assert!(error.message.contains("slow down"));
        }
        assert_eq!(text(&ask_at(&*model, place, "w", 0, Part::text("x"), &told).await.unwrap()), "done");
    }
    model.forget("run", &CallPath::from("0"));
    assert!(ask(&*model, "w", 0, "x").await.is_err(), "a forgotten conversation begins again");
}

#[tokio::test(start_paused = true)]
async fn pieces_and_pauses_are_told_as_written() {
    let script = written(
        "answers:\n  - {delay_ms: 500, text: añb, calls: [{tool: t}], stream: {chars: 2, pause_ms: 100}}\n",
    );
    let model = script.open().unwrap();
    let told = Deltas::default();
    let begin = tokio::time::Instant::now();
    ask_at(&*model, "0", "w", 0, Part::text("x"), &told).await.unwrap();
    assert_eq!(begin.elapsed(), Duration::from_millis(600));
    let deltas = told.0.into_inner().unwrap();
    let text = |text: &str| Delta::Text { text: text.into() };
    let arguments = Delta::Arguments { call: 0, text: "{}".into() };
    assert_eq!(deltas, [text("añ"), text("b"), Delta::Call { name: "t".into() }, arguments]);
}

#[test]
fn a_json_file_is_a_script_too() {
    let script = written(r#"{"answers": [{"when": {"turn": 0}, "text": "hi"}]}"#);
    assert!(script.open().is_ok());
}

#[test]
fn mistakes_are_told_with_their_line_and_the_nearest_name() {
    for (text, parts) in [
        ("answers:\n  - txt: hi\n", &["line 2", "`txt`", "did you mean `text`?"][..]),
        ("answers:\n  - when: {wroker: x}\n    text: hi\n", &["line 2", "did you mean `worker`?"]),
        ("answers:\n  - text: hi\n    finish: lenght\n", &["line 3", "did you mean `length`?"]),
        ("answer: []\n", &["line 1", "did you mean `answers`?"]),
        ("answers:\n  - when: {turn: 0}\n  - text: hi\n", &["line 2", "needs `text`"]),
        ("answers:\n  - text: hi\n    error: {status: 500}\n", &["line 2", "can't also answer"]),
        ("answers:\n  - error: {kind: server, status: 500}\n", &["line 2", "either `kind` or `status`"]),
        ("answers:\n  - error: {status: 200}\n", &["line 2", "200"]),
        ("answers:\n\n  - text: '{{ last'\n", &["line 3", "template"]),
        ("answers:\n  - text: a\n    text: b\n", &["line 3", "text"]),
        ("answers:\n  - when: {last_regex: '('}\n    text: a\n", &["line 2", "regex"]),
        ("answers:\n  - {text: a, stream: {chars: 0}}\n", &["line 2", "chars"]),
        ("answers:\n  - {text: a, usage: {input: 1}}\n", &["line 2", "input_tokens"]),
        ("answers: [\n", &["line"]),
    ] {
        let told = written(text).refusal();
        for part in parts {
            assert!(told.contains(part), "{text}\n→ {told}");
        }
        assert!(told.contains("demo.yaml"), "{told}");
    }
    let script = written("");
    fs::remove_file(&script.path).unwrap();
    assert!(script.refusal().contains("can't be read"));
}

#[tokio::test]
async fn an_undefined_name_in_a_template_is_an_error_that_shows_it() {
    let script = written("answers:\n  - text: '{{ nobody }}'\n");
    let error = ask(&*script.open().unwrap(), "w", 0, "x").await.unwrap_err();
    assert!(error.message.contains("nobody"), "{error}");
}

#[test]
fn alias_bombs_do_not_open() {
    let mut text = String::from("a0: &a0 [x, x]\n");
    for n in 1..40 {
        let before = n - 1;
        text.push_str(&format!("a{n}: &a{n} [*a{before}, *a{before}, *a{before}]\n"));
    }
    text.push_str("answers:\n  - json: *a39\n");
    assert!(written(&text).open().is_err());
}
