//! A cluster with a program, for a test.

use crate::{effects::Effects, postgres::Postgres};
use llm_do::{
    Decisions, Input, PastRun, RunOptions, Session, Settings,
    core::{
        call_path::CallPath,
        gate::Mode,
        journal::{Ending, Record, RecordKind, RunStatus},
        question::{Answer, Given, Question, Waiting},
        step_name::StepName,
    },
    program::target::Request,
    records::{History, parse_line},
    runs::read_journal,
};
use llm_do_cluster::{Bundle, Database, Dispatch, NodeEvent, NodeOptions, work};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::watch, task::JoinHandle};

/// The variable with the words of a node's process: URL, folder, and the number of records at which it dies.
pub(crate) const NODE: &str = "LLM_DO_TEST_NODE";
/// The length of a lease in seconds.
const LEASE: u32 = 2;
/// Turns of the lead before its children.
const TURNS: usize = 5;

const FILES: &[(&str, &str)] = &[
    ("project.yaml", "name: many\n"),
    (
        "main.worker",
        "---\nallow_workers: [child]\ntoolsets: {effects: {}}\nlimits: {max_turns: 40, max_tool_calls: 60}\n---\nLead.\n",
    ),
    ("workers/child.worker", "---\ntoolsets: {effects: {}}\n---\nDo {{ input }}.\n"),
];

/// The answers of the model: steps one after another, four children side by side, and a call that needs an approval.
fn script(kind: &str, bytes: u64) -> Value {
    let effect = |name: String| json!({"tool": "effect", "arguments": {"name": name}});
    let mut answers = Vec::new();
    match kind {
        "slow" => {
            let call = json!({"tool": "effect", "arguments": {"name": "slow", "ms": 600_000}});
            answers.push(json!({"when": {"worker": "main", "turn": 0}, "calls": [call]}));
        }
        "large" => {
            let call = json!({"tool": "effect", "arguments": {"name": "large", "bytes": bytes}});
            answers.push(json!({"when": {"worker": "main", "turn": 0}, "calls": [call]}));
        }
        _ => {
            for turn in 0..TURNS {
                let call = effect(format!("step{turn}"));
                answers.push(json!({"when": {"worker": "main", "turn": turn}, "calls": [call]}));
            }
            let children: Vec<Value> = (0..4)
                .map(|child| json!({"tool": "child", "arguments": {"input": format!("part{child}")}}))
                .collect();
            answers.push(json!({"when": {"worker": "main", "turn": TURNS}, "calls": children}));
            let sign = json!({"tool": "sign", "arguments": {"name": "sign"}});
            answers.push(json!({"when": {"worker": "main", "turn": TURNS + 1}, "calls": [sign]}));
            for child in 0..4 {
                let call = effect(format!("part{child}"));
                let when = json!({"worker": "child", "turn": 0, "last": format!("part{child}")});
                answers.push(json!({"when": when, "calls": [call]}));
            }
            answers.push(json!({"when": {"worker": "child"}, "text": "part done"}));
        }
    }
    answers.push(json!({"when": {"worker": "main"}, "text": "All is done."}));
    json!({"answers": answers})
}

pub(crate) struct World {
    pub(crate) server: Postgres,
    pub(crate) database: Arc<Database>,
    pub(crate) dispatch: Dispatch,
    home: tempfile::TempDir,
}

impl World {
    pub(crate) async fn start() -> Option<Self> {
        Self::start_with("steps").await
    }

    pub(crate) async fn start_with(kind: &str) -> Option<Self> {
        let server = Postgres::start()?;
        let database = Database::new(&server.url("owner")).unwrap();
        database.init().await.unwrap();
        let dispatch = database.tenant(None).await.unwrap();
        let home = tempfile::tempdir().unwrap();
        let world = Self { server, database, dispatch, home };
        for (path, text) in FILES {
            let path = world.home().join("project").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fs::write(world.home().join("script.yaml"), script(kind, world.large_bytes()).to_string()).unwrap();
        Some(world)
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn large_bytes(&self) -> u64 {
        if crate::is_whole() { 40 << 20 } else { 3 << 20 }
    }

    /// The settings of the client.
    pub(crate) fn settings(&self) -> Settings {
        let mut settings = base(self.home());
        settings.request = Request {
            positionals: vec![self.home().join("project").display().to_string()],
            ..Request::default()
        };
        settings.run = RunOptions {
            model: Some(format!("script:{}", self.home().join("script.yaml").display()).parse().unwrap()),
            unattended: Mode::Defer,
            ..RunOptions::default()
        };
        settings
    }

    /// Runs the program here. Returns its records.
    pub(crate) async fn local_run(&self) -> Vec<Record> {
        let session = Session::open(self.settings()).unwrap();
        let report = session.start(&go(), None, None).unwrap().finish().await;
        assert_eq!(report.status, RunStatus::Suspended, "{:?}", report.end);
        let past = PastRun::open(&report.dir, &self.home().join("home")).unwrap();
        let approve = |waiting: Waiting| (waiting.id, approval());
        let decisions = Decisions(past.waiting().into_iter().map(approve).collect());
        let report = session.resume(past, decisions, None, None).unwrap().finish().await;
        assert_eq!(report.status, RunStatus::Done, "{:?}", report.end);
        self.forget_effects();
        read_journal(&report.dir).unwrap().records
    }

    /// The number of records of a run that no one disturbs.
    pub(crate) async fn count_of_records(&self) -> usize {
        let node = self.node("first");
        let run = self.spawn().await;
        self.finish(&run).await;
        node.stop().await;
        self.records(&run).await.len()
    }

    pub(crate) async fn spawn(&self) -> String {
        let session = Session::open(self.settings()).unwrap();
        let start = serde_json::to_string(&session.cluster_start(&go()).unwrap()).unwrap();
        let packed = Bundle::pack(&session.cluster_root().unwrap(), &[]).unwrap();
        let bundle = packed.store(&self.dispatch).await.unwrap();
        self.dispatch.spawn(&bundle, &start).await.unwrap()
    }

    /// Starts a node in this process.
    pub(crate) fn node(&self, name: &str) -> Node {
        let (stop, stopped) = watch::channel(false);
        let options = node_options(self.home(), name, |_| {});
        // Connections of its own, as in another process.
        let database = Database::new(&self.server.url("owner")).unwrap();
        let working = tokio::spawn(async move { work(database, options, stopped).await.unwrap() });
        Node { stop, working }
    }

    /// Starts a node in a process of its own, which dies as soon as a run has that many records.
    pub(crate) fn process(&self, die_at: i64) -> Child {
        let words = format!("{}\n{}\n{die_at}", self.server.url("owner"), self.home().display());
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "node_process", "--ignored", "--nocapture"])
            .env(NODE, words)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Waits until a run is done, and answers its questions.
    pub(crate) async fn finish(&self, run: &str) {
        patiently("the run ends", async || {
            self.answer_all(run).await;
            self.dispatch.find(run).await.unwrap().has_ended()
        })
        .await;
        assert_eq!(self.dispatch.find(run).await.unwrap().state, "done");
    }

    /// Answers the open questions of a run that waits: it approves, and lets a call that was cut off run again.
    pub(crate) async fn answer_all(&self, run: &str) {
        let found = self.dispatch.find(run).await.unwrap();
        if found.state != "suspended" || found.reason.is_some() {
            return;
        }
        for Waiting { id, question } in self.waiting(run).await {
            let given = match question {
                Question::Settlement(_) => Given::operator(Answer::Again, "test"),
                _ => approval(),
            };
            let text = serde_json::to_string(&given).unwrap();
            self.dispatch.answer(run, &id.to_string(), &text).await.unwrap();
        }
    }

    pub(crate) async fn waiting(&self, run: &str) -> Vec<Waiting> {
        History::of(self.records(run).await).waiting()
    }

    pub(crate) async fn lines(&self, run: &str) -> Vec<String> {
        self.dispatch.records(run, 0, 10_000).await.unwrap()
    }

    pub(crate) async fn records(&self, run: &str) -> Vec<Record> {
        let lines = self.lines(run).await;
        let mut values: HashMap<String, Vec<u8>> = HashMap::new();
        let mut texts = lines.clone();
        while let Some(text) = texts.pop() {
            for (_, rest) in text.match_indices("sha256:").map(|(at, mark)| text.split_at(at + mark.len())) {
                let Some(hash) = rest.get(..64).filter(|hash| !values.contains_key(*hash)) else { continue };
                // Other hashes look the same.
                if let Some(value) = self.dispatch.blob(run, &format!("blobs/{hash}")).await.unwrap() {
                    texts.push(String::from_utf8_lossy(&value).into_owned());
                    values.insert(hash.to_owned(), value);
                }
            }
        }
        let parse = |line: &String| {
            parse_line(line.as_bytes(), &values).unwrap_or_else(|problem| panic!("{problem}: {line}"))
        };
        lines.iter().map(parse).collect()
    }

    /// Returns the number of times that each effect happened.
    pub(crate) fn effects(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for name in fs::read_to_string(self.home().join("effects")).unwrap_or_default().lines() {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
        counts
    }

    pub(crate) fn forget_effects(&self) {
        let _ = fs::remove_file(self.home().join("effects"));
    }
}

fn go() -> Input {
    Input { message: Some("go".into()), ..Input::default() }
}

fn approval() -> Given {
    Given::operator(Answer::Approve { remember: false }, "test")
}

fn base(home: &Path) -> Settings {
    let mut settings = Settings::for_target("");
    settings.around.here = home.to_owned();
    settings.home = home.join("home");
    settings.toolsets.register(Arc::new(Effects { file: home.join("effects") }));
    settings
}

pub(crate) fn node_options(
    home: &Path,
    name: &str,
    log: impl Fn(&NodeEvent<'_>) + Send + Sync + 'static,
) -> NodeOptions {
    let (of_settings, name) = (home.to_owned(), name.to_owned());
    NodeOptions {
        name,
        version: "test".to_owned(),
        lease: LEASE,
        most: 10,
        programs: home.join("programs"),
        grace: Duration::from_secs(30),
        settings: Box::new(move || Ok(base(&of_settings))),
        log: Box::new(log),
    }
}

/// A node in this process.
pub(crate) struct Node {
    stop: watch::Sender<bool>,
    working: JoinHandle<()>,
}

impl Node {
    /// Ends the node after its last run.
    pub(crate) async fn stop(self) {
        self.stop.send_replace(true);
        self.working.await.unwrap();
    }

    /// Waits until the node has ended by itself.
    pub(crate) async fn ended(self) {
        self.working.await.unwrap();
    }
}

/// Waits until something holds.
pub(crate) async fn patiently(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < Duration::from_secs(120), "{what}: not within two minutes");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The last record of each step of each call, without what differs between two runs: when a run was resumed or suspended, and
/// its ID.
pub(crate) fn kept(records: &[Record]) -> BTreeMap<(CallPath, String), String> {
    let of_run = |record: &&Record| {
        record.step == StepName::Run
            || matches!(&record.body, RecordKind::CallEnded { ending: Ending::Suspended, .. })
    };
    let id = records.iter().find_map(|record| match &record.body {
        RecordKind::RunStarted { run, .. } => Some(Arc::clone(run)),
        _ => None,
    });
    let id = id.unwrap_or_default();
    let mut kept = BTreeMap::new();
    for Record { path, step, body, .. } in records.iter().filter(|record| !of_run(record)) {
        let text = serde_json::to_string(body).unwrap().replace(&*id, "RUN");
        kept.insert((path.clone(), step.to_string()), text);
    }
    kept
}
