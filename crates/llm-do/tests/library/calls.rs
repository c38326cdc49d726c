//! Calls, their options, and how they end.

use crate::Folder;
use futures_util::StreamExt as _;
use llm_do::{
    Error, Mode, Options, Problem, Program, Worker,
    event::{Event, EventSink, RecordKind},
    operator::{Answer, answer_with},
    serde_json::{Value, json},
};
use std::{
    fs,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::Barrier;

const WRITES: &str = "
answers:
  - when: {worker: main, turn: 0}
    calls: [{tool: write_file, arguments: {path: note.txt, content: written}}]
  - text: '{{ last }}'
";

fn is_shared<T: Clone + Send + Sync + 'static>() {}

#[test]
fn handles_are_shared_between_threads() {
    is_shared::<Program>();
    is_shared::<Worker<String>>();
    is_shared::<Options>();
}

#[tokio::test]
async fn a_future_of_a_call_can_be_given_to_a_task() {
    let folder = Folder::of("");
    let program = folder.builder("answers: [{text: hi}]").temporary_journals().open().unwrap();
    let worker = program.entry().unwrap();
    drop(program);
    assert_eq!(tokio::spawn(worker.call("x").into_future()).await.unwrap().unwrap(), "hi");
}

#[tokio::test]
async fn an_input_may_be_a_text_an_object_or_nothing() {
    let folder = Folder::new(&[
        ("main.worker", "---\n---\nAnswer.\n"),
        ("workers/typed.worker", "---\nparameters: {text: string, times: integer?}\n---\n{{ text }}\n"),
    ]);
    let program = folder.builder("answers: [{text: '{{ input }}'}]").temporary_journals().open().unwrap();
    let main = program.entry().unwrap().returns::<String>().unwrap();
    assert!(main.call(json!({"input": [1, 2]})).await.unwrap().contains('1'));
    assert!(main.call([1, 2]).await.unwrap().contains('2'));
    assert!(main.call(()).await.is_ok());
    let typed = program.worker("typed").unwrap();
    assert!(typed.call("some text").await.is_ok());
    for wrong in [json!({"text": 1}), json!({"txt": "x"}), json!([1]), json!({"text": "x", "times": "many"})]
    {
        let error = typed.call(&wrong).await.err();
        assert!(matches!(&error, Some(Error::InvalidInput(_))), "{wrong}: {error:?}");
        assert!(error.unwrap().to_string().contains("typed(text: string"), "{wrong}");
    }
    // A key that is no text has no JSON.
    let error = typed.call(std::collections::BTreeMap::from([((1, 2), "x")])).await.err();
    assert!(matches!(&error, Some(Error::NotStarted(_))), "{error:?}");
    assert_eq!(program.workers(), ["main", "typed"]);
    assert!(matches!(program.worker("nobody").err(), Some(Problem::Program(_))));
}

#[tokio::test]
async fn a_call_that_needs_an_approval_is_refused_without_an_operator() {
    let folder = Folder::of("toolsets: {filesystem: {}}");
    let worker = folder.builder(WRITES).open().unwrap().entry().unwrap();
    assert!(worker.call("x").await.is_ok_and(|said| said.as_str().unwrap().contains("write_file")));
    let note = folder.program().join("note.txt");
    assert!(!note.exists());
    // The options of one call say nothing about the next.
    worker.call("x").options(Options::new().allow("write_file(note.txt)")).await.unwrap();
    assert_eq!(fs::read_to_string(&note).unwrap(), "written");
    fs::remove_file(&note).unwrap();
    worker.call("x").await.unwrap();
    assert!(!note.exists());
}

#[tokio::test]
async fn what_is_denied_for_the_program_no_call_can_allow() {
    let folder = Folder::of("toolsets: {filesystem: {}}");
    let program = folder.builder(WRITES).options(Options::new().deny("write_file")).open().unwrap();
    let call = program.entry().unwrap().call("x");
    call.options(Options::new().allow("write_file").mode(Mode::ApproveAll)).await.unwrap();
    assert!(!folder.program().join("note.txt").exists());
}

#[tokio::test]
async fn an_operator_of_one_call_answers_only_that_call() {
    let folder = Folder::of("toolsets: {filesystem: {}}");
    let worker = folder.builder(WRITES).open().unwrap().entry().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&asked);
    let operator = answer_with(move |_| {
        counting.fetch_add(1, Ordering::Relaxed);
        async { Some(Answer::Approve { remember: false }) }
    });
    worker.call("x").options(Options::new().operator(operator)).await.unwrap();
    assert!(folder.program().join("note.txt").exists());
    worker.call("x").await.unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[test]
fn options_that_cannot_be_read_are_errors_that_name_them() {
    let folder = Folder::of("");
    type Change = fn(Options) -> Options;
    let cases: [(&str, Change); 5] = [
        ("model", |options| options.model("nothing")),
        ("budget", |options| options.budget("5 apples")),
        ("allow", |options| options.allow("write_file(")),
        ("deny", |options| options.deny("send where amount < 5")),
        ("grant", |options| options.grant("everything")),
    ];
    for (name, change) in cases {
        let opened = folder.builder("answers: []").options(change(Options::new())).open();
        let Some(Problem::Option { option, .. }) = opened.err() else { panic!("{name}") };
        assert_eq!(option, name);
        let worker = folder.builder("answers: []").open().unwrap().entry().unwrap();
        let started = worker.call("x").options(change(Options::new())).start();
        let Some(Error::NotStarted(problem)) = started.err() else { panic!("{name}") };
        assert!(problem.to_string().starts_with(&format!("`{name}`: ")), "{problem}");
    }
    let script = folder.builder("answers: [{txt: x}]").open().err().unwrap().to_string();
    assert!(script.contains("unknown key `txt`"), "{script}");
}

#[tokio::test]
async fn each_end_has_its_error() {
    let folder = Folder::of("toolsets: {filesystem: {}}\nreturns: {n: integer}\nlimits: {output_retries: 0}");
    let script = "
answers:
  - when: {last: fail}
    error: {kind: auth, message: no key}
  - when: {last: loop, turn: 0}
    calls: [{tool: read_file, arguments: {path: main.worker}}]
  - when: {last: bad}
    json: {n: many}
  - json: {n: 1}
";
    let worker = folder.builder(script).temporary_journals().open().unwrap().entry().unwrap();
    let failed = worker.call("fail").await.err();
    assert!(matches!(&failed, Some(Error::Failed(ended)) if ended.message.contains("no key")), "{failed:?}");
    let limited = worker.call("loop").options(Options::new().budget("1turns")).await.err();
    assert!(matches!(&limited, Some(Error::LimitReached(_))), "{limited:?}");
    assert!(limited.unwrap().run().is_some());
    let invalid = worker.call("bad").await.err();
    assert!(matches!(&invalid, Some(Error::InvalidOutput(ended)) if ended.partial.is_some()), "{invalid:?}");
    // A type may be narrower than its schema. Then the output itself tells.
    #[derive(Debug, llm_do::schemars::JsonSchema)]
    struct Never {
        #[allow(dead_code)]
        n: i64,
    }
    impl<'de> serde::Deserialize<'de> for Never {
        fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
            Err(serde::de::Error::custom("never"))
        }
    }
    let misread = worker.returns::<Never>().unwrap().call("x").await.err();
    let Some(Error::InvalidOutput(ended)) = misread else { panic!("{misread:?}") };
    assert!(ended.message.contains("Never") && ended.message.contains("never"), "{}", ended.message);
    assert_eq!(ended.partial.as_deref(), Some(&json!({"n": 1})));
}

#[derive(Default)]
struct Sink(Mutex<Vec<String>>);

impl EventSink for Shared {
    fn event(&self, event: Event) {
        let name = match event {
            Event::Record { record } if matches!(record.body, RecordKind::RunEnded { .. }) => "ended",
            Event::Record { .. } => "record",
            Event::Delta { .. } => "delta",
            Event::Partial { .. } => "partial",
            Event::DiscardPartial { .. } => "discard_partial",
            Event::Discard { .. } => "discard",
        };
        self.0.0.lock().unwrap().push(name.into());
    }
}

struct Shared(Arc<Sink>);

#[tokio::test]
async fn a_sink_and_a_stream_get_the_same_events() {
    let folder = Folder::of("");
    let sink = Arc::<Sink>::default();
    let script = "answers: [{text: one two three, stream: {chars: 4}}]";
    let options = Options::new().events(Shared(Arc::clone(&sink)));
    let program = folder.builder(script).temporary_journals().options(options).open().unwrap();
    let events = program.entry().unwrap().call("x").stream().unwrap();
    let streamed: Vec<Event> = events.collect().await;
    let heard = sink.0.lock().unwrap().clone();
    assert_eq!(heard.len(), streamed.len());
    assert_eq!(heard.iter().filter(|name| *name == "delta").count(), 4);
    assert_eq!(heard.last().map(String::as_str), Some("ended"));
}

#[tokio::test]
async fn a_stream_that_is_not_read_to_its_end_still_gives_the_result() {
    let folder = Folder::of("");
    let script =
        "answers: [{text: one two three, stream: {chars: 4, pause_ms: 1}, usage: {output_tokens: 3}}]";
    let program = folder.builder(script).temporary_journals().open().unwrap();
    let mut events = program.entry().unwrap().returns::<String>().unwrap().call("x").stream().unwrap();
    assert_eq!(events.next_text().await.as_deref(), Some("one "));
    let completed = events.result().await.unwrap();
    assert_eq!((&*completed.output, completed.usage.output_tokens), ("one two three", Some(3)));
}

#[tokio::test]
async fn many_calls_at_once_keep_to_their_number_and_order() {
    let folder = Folder::of("toolsets: [rust]");
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    // Passes only while four calls are under way.
    let four = Arc::new(Barrier::new(4));
    let (running, highest) = (Arc::clone(&now), Arc::clone(&most));
    let slow = llm_do::Tool::new("slow", "Waits.", move |_: llm_do::NoArguments| {
        let (running, highest, four) = (Arc::clone(&running), Arc::clone(&highest), Arc::clone(&four));
        async move {
            highest.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            four.wait().await;
            running.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, String>("waited")
        }
    });
    let script = "answers: [{when: {turn: 0}, calls: [{tool: slow}]}, {text: '{{ input }}'}]";
    let program = folder.builder(script).tool(slow.reads()).temporary_journals().open().unwrap();
    let worker = program.entry().unwrap();
    let results = worker.call_all((0..12).map(|n| format!("<{n}>")), 4).await;
    for (n, result) in results.into_iter().enumerate() {
        let output: Value = result.unwrap();
        assert!(output.as_str().unwrap().contains(&format!("<{n}>")), "{output}");
    }
    assert_eq!(most.load(Ordering::SeqCst), 4);
    let runs = fs::read_dir(program.journals()).unwrap().flatten();
    assert_eq!(
        runs.filter(|entry| llm_do::host::runs::is_run_id(&entry.file_name().to_string_lossy())).count(),
        12
    );
}

#[tokio::test]
async fn temporary_journals_go_with_the_last_handle() {
    let folder = Folder::of("");
    let program = folder.builder("answers: [{text: hi}]").temporary_journals().open().unwrap();
    let (worker, journals) = (program.entry().unwrap(), program.journals().to_owned());
    drop(program);
    let running = worker.call("x").start().unwrap();
    drop(worker);
    let journal = running.journal().to_owned();
    assert!(journal.is_dir() && journal.starts_with(&journals));
    let completed = running.result().await.unwrap();
    assert_eq!((&completed.output, &completed.journal), (&json!("hi"), &journal));
    assert!(!journals.exists());
    assert!(!folder.program().join(".llm-do").exists());
}

#[tokio::test]
async fn a_file_is_attached() {
    let folder = Folder::of("");
    let file = folder.path().join("note.txt");
    fs::write(&file, "remember the milk").unwrap();
    let program =
        folder.builder("answers: [{when: {last: the milk}, text: seen}]").temporary_journals().open();
    let worker = program.unwrap().entry().unwrap();
    assert_eq!(worker.call("x").attach(&file).await.unwrap(), "seen");
    let missing = worker.call("x").attach("no such file").await.err();
    assert!(matches!(missing, Some(Error::NotStarted(_))), "{missing:?}");
}
