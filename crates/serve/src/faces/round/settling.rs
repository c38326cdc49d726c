//! Rounds of real runs.

use super::*;
use crate::{
    faces::answering::Answering,
    program::{Host, Served},
    quotas::Limits,
    token::{NewToken, Tokens},
    views::StartRun,
};
use llm_do::{Session, Settings, core::question::Answer};
use std::{fs, path::PathBuf, time::Duration};
use tempfile::TempDir;

struct Quiet(PathBuf);

impl Host for Quiet {
    fn settings(&self, _target: &str) -> Result<Settings, String> {
        Err("nothing is loaded again".into())
    }
    fn log(&self, _line: &str) {}
    fn home(&self) -> PathBuf {
        self.0.clone()
    }
}

/// Starts a run of a worker with these keys and that script, and follows it from its first event.
async fn begun(folder: &TempDir, keys: &str, script: &str) -> (Service, Arc<Token>, Round) {
    let place = |name: &str| folder.path().join(name);
    let model = place("s.yaml");
    let worker =
        format!("---\nmodel: 'script:{}'\ntoolsets: [filesystem]\n{keys}---\nWrite.\n", model.display());
    fs::write(place("main.worker"), worker).expect("a file");
    fs::write(place("s.yaml"), script).expect("a file");
    let target = place("main.worker").to_string_lossy().into_owned();
    let settings = Settings { home: place("home"), ..Settings::for_target(&target) };
    let sessions = Session::open_exported(settings).expect("a program");
    let limits = Limits {
        runs: 8,
        runs_of_token: None,
        queue: 0,
        streams: 8,
        streams_of_token: None,
        grace: Duration::from_secs(60),
        chats_expire: None,
    };
    let secret = NewToken::given("0123456789abcdef").expect("a token");
    let tokens = Tokens::default().with_tools(&secret);
    let served = Served::of_tools(target, sessions);
    let service =
        Service::of_tools(served, tokens, limits, Arc::new(Quiet(place("home")))).expect("a service");
    let token = service.token(secret.text()).expect("the token");
    let ask = vec!["read_file".into()];
    let start = StartRun { message: Some("go".into()), ask, ..StartRun::default() };
    let (live, reader) = service.start_followed(&token, start, Vec::new()).await.expect("a run");
    let round = Round::new(&service, &token, live, reader, Hearing::new(true));
    (service, token, round)
}

async fn settled(round: &mut Round) -> Settled {
    loop {
        if let Next::Settled(settled) = round.next().await.expect("a journal") {
            return *settled;
        }
    }
}

#[tokio::test]
async fn a_round_ends_with_all_questions_of_calls_that_run_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["a.txt", "b.txt"] {
        fs::write(folder.path().join(name), name).expect("a file");
    }
    let script = "answers:\n  - calls: [{tool: read_file, arguments: {path: a.txt}}, {tool: read_file, arguments: {path: b.txt}}]\n";
    let (service, _, mut round) = begun(&folder, "", script).await;
    let settled = settled(&mut round).await;
    assert_eq!((settled.questions.len(), settled.open.len()), (2, 2));
    service.end().await;
}

#[tokio::test]
async fn a_round_whose_question_another_client_answers_ends_with_the_output() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = "answers:\n  - when: {turn: 0}\n    calls: [{tool: write_file, arguments: {path: a.txt, content: a}}]\n  - text: finished\n    delay_ms: 200\n";
    let (service, token, mut round) = begun(&folder, "", script).await;
    while round.state == Progress::Following {
        round.hear().await.expect("a journal");
    }
    assert!(round.state == Progress::Asked);
    let view = service.run(&token, &round.live.id).await.expect("a run");
    let waiting = view.questions[0].waiting.clone();
    let answering = Answering::new(&service, &token, view);
    answering.give(&waiting, Answer::Approve { remember: false }).await.expect("it is taken");
    let settled = settled(&mut round).await;
    assert_eq!(settled.text().as_deref(), Some("finished"), "{settled:?}");
    assert!(folder.path().join("a.txt").exists());
}

/// The worker below makes a call every 100 ms. A round that waited for a moment without events would end after it.
#[tokio::test]
async fn a_round_ends_with_its_question_while_another_call_works() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = |name: &str| folder.path().join(name);
    fs::write(place("a.txt"), "a").expect("a file");
    let busy =
        format!("---\nmodel: 'script:{}'\ntoolsets: [filesystem]\n---\nLook.\n", place("b.yaml").display());
    fs::create_dir(place("workers")).expect("a folder");
    fs::write(place("workers/busy.worker"), busy).expect("a file");
    let look = |turn| {
        format!(
            "  - when: {{turn: {turn}}}\n    delay_ms: 100\n    calls: [{{tool: file_exists, arguments: {{path: /{turn}}}}}]\n"
        )
    };
    let script = (0..40).map(look).collect::<String>();
    fs::write(place("b.yaml"), format!("answers:\n{script}  - text: done\n")).expect("a file");
    let script = "answers:\n  - calls: [{tool: busy, arguments: {input: go}}, {tool: read_file, arguments: {path: a.txt}}]\n";
    let (service, _, mut round) = begun(&folder, "allow_workers: [busy]\n", script).await;
    let settled = settled(&mut round).await;
    let open: Vec<&str> = settled.open.iter().map(|call| &*call.function).collect();
    assert_eq!((settled.questions.len(), &open[..]), (1, &["busy", "read_file"][..]));
    service.end().await;
}
