//! A program in memory: workers by map, models that follow a script, tools from closures, an operator with a list of
//! answers.

mod operator;
mod parts;
mod program;
mod stage;

pub(crate) use parts::{calls, calls_of, mount, place, rule, text, tool, using, worker, worker_with_tools};
pub(crate) use stage::Script;

use llm_do_core::{
    attachment::Attachment,
    authority::{Access, Authority, Bounds, Extent, Mount, Network, Place, Protection, View, VirtualPath},
    call_path::CallPath,
    conversation::Conversation,
    driver::MemoryDriver,
    engine::{End, Failure, Outcome, RunContext},
    function::Function,
    gate::{Gate, Mode, Rule},
    journal::{Record, RecordKind},
    launch::{Launch, RunRecords},
    ledger::Budget,
    model::{
        Capabilities, Message, ModelError, ModelName, ModelResponse, ModelSettings, Part, Purpose, Role,
        Sees, Terms,
    },
    operator::OneAtATime,
    origin::{Origin, Origins},
    question::Answer,
    rebuild::conversation_at,
    redact::{NoSecrets, Redact},
    spending::Spending,
    toolset::ToolsetRegistry,
    vfs::MemoryFileSystem,
    worker::{Delegation, Limits, ModelChoice, WorkerDefinition},
};
use operator::{Answers, Asked};
use program::{Program, TestTools};
use serde_json::Value;
use stage::{Seen, Stage, Stages};
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

/// A program and its surroundings, before a run.
pub(crate) struct World {
    workers: BTreeMap<String, Arc<WorkerDefinition>>,
    scripts: HashMap<String, Script>,
    tools: Vec<Function>,
    pub(crate) delegation: Delegation,
    /// The manifest's mounts by name.
    pub(crate) mounts: HashMap<&'static str, Mount>,
    pub(crate) gate: Gate,
    pub(crate) answers: Vec<Option<Answer>>,
    /// The answer of models to requests for summaries, instead of their scripts.
    pub(crate) summaries: Option<Result<ModelResponse, ModelError>>,
    pub(crate) capabilities: Capabilities,
    pub(crate) files: Arc<MemoryFileSystem>,
    pub(crate) attachments: Vec<Attachment>,
    pub(crate) redact: Arc<dyn Redact>,
    pub(crate) model: ModelChoice,
    pub(crate) settings_override: ModelSettings,
    pub(crate) chat: bool,
    pub(crate) attended: bool,
    /// Number of times that a model yields before it answers, by the conversation's path.
    pub(crate) delay: fn(&CallPath) -> usize,
    /// The known terms of the models.
    pub(crate) terms: Terms,
    /// A model without known terms.
    pub(crate) without_terms: Option<ModelName>,
    /// True if the model's provider runs tools of its own.
    pub(crate) server_tools: bool,
    /// The budgets over time.
    pub(crate) spending: Option<Arc<dyn Spending>>,
}

/// A run that has not started.
pub(crate) struct Ready {
    pub(crate) launch: Launch,
    pub(crate) driver: Arc<MemoryDriver>,
    pub(crate) stage: Arc<Stage>,
    operator: Arc<Answers>,
}

/// A run that is over.
pub(crate) struct Ran {
    pub(crate) outcome: Outcome,
    pub(crate) records: Vec<Record>,
    pub(crate) seen: Vec<Seen>,
    pub(crate) asks: Vec<Asked>,
    pub(crate) files: Arc<MemoryFileSystem>,
}

impl World {
    /// A program without workers; everything that asks is approved.
    pub(crate) fn new() -> Self {
        Self {
            workers: BTreeMap::new(),
            scripts: HashMap::new(),
            tools: Vec::new(),
            delegation: Delegation::default(),
            mounts: HashMap::new(),
            gate: Gate { mode: Mode::ApproveAll, ..Gate::default() },
            answers: Vec::new(),
            summaries: None,
            capabilities: Capabilities {
                native_schema: false,
                tools: true,
                sees: Sees { images: true, pdf: false },
            },
            files: Arc::new(MemoryFileSystem::new()),
            attachments: Vec::new(),
            redact: Arc::new(NoSecrets),
            model: ModelChoice { defaults: vec!["script:test".parse().unwrap()], ..ModelChoice::default() },
            settings_override: ModelSettings::default(),
            chat: false,
            attended: true,
            delay: |_| 0,
            terms: Terms::default(),
            without_terms: None,
            server_tools: true,
            spending: None,
        }
    }

    /// Adds a worker with its model's script.
    pub(crate) fn worker(mut self, worker: WorkerDefinition, script: Script) -> Self {
        self.scripts.insert(worker.id.to_string(), script);
        self.workers.insert(worker.id.to_string(), Arc::new(worker));
        self
    }

    /// Sets the script of the model of a worker that is generated during the run.
    pub(crate) fn script(mut self, worker: &str, script: Script) -> Self {
        self.scripts.insert(worker.to_owned(), script);
        self
    }

    /// Adds a tool to the toolset `test`.
    pub(crate) fn tool(mut self, tool: Function) -> Self {
        self.tools.push(tool);
        self
    }

    /// Asks the operator, who answers these.
    pub(crate) fn asking(mut self, answers: impl IntoIterator<Item = Answer>) -> Self {
        self.gate.mode = Mode::Interactive;
        self.answers = answers.into_iter().map(Some).collect();
        self
    }

    /// Asks the operator, who answers nothing now.
    pub(crate) fn asking_in_vain(mut self) -> Self {
        self.answers = vec![None];
        self
    }

    /// Puts a file into the program's root.
    pub(crate) fn file(self, below: &str, content: &str) -> Self {
        self.files.put(&place(below), content.as_bytes());
        self
    }

    /// Runs `main`, which must not halt.
    pub(crate) fn run(self, input: Value) -> Ran {
        let limits: HashMap<String, Limits> =
            self.workers.iter().map(|(id, worker)| (id.clone(), worker.limits.clone())).collect();
        let files = Arc::clone(&self.files);
        let Ready { launch, driver, stage, operator } = self.ready(input);
        let outcome = block_on(launch.call());
        let ran = Ran {
            outcome: outcome.expect("the run does not halt"),
            records: driver.records(),
            seen: stage.seen.lock().unwrap().clone(),
            asks: operator.asked.lock().unwrap().clone(),
            files,
        };
        ran.check(&limits);
        ran
    }

    /// The launch of `main`, which writes no records around the call.
    pub(crate) fn ready(self, input: Value) -> Ready {
        let operator = Arc::new(Answers { left: Mutex::new(self.answers.into()), asked: Mutex::default() });
        let line = Arc::new(OneAtATime::new(operator.clone()));
        let driver = Arc::new(MemoryDriver::new(1_000, Some(line)));
        let stage = Arc::new(Stage {
            scripts: self.scripts,
            told: Mutex::default(),
            seen: Mutex::default(),
            summaries: self.summaries,
            capabilities: self.capabilities,
            server_tools: self.server_tools,
            delay: self.delay,
        });
        let mut toolsets = ToolsetRegistry::built_in();
        toolsets.register(Arc::new(TestTools(self.tools)));
        let main = Arc::clone(&self.workers["main"]);
        let context = RunContext {
            run: "run".into(),
            date: "2030-01-02".into(),
            driver: driver.clone(),
            models: Arc::new(Stages(stage.clone(), self.terms, self.without_terms)),
            model: self.model,
            settings_override: self.settings_override,
            files: self.files.clone(),
            definitions: Arc::new(Program {
                workers: self.workers,
                delegation: self.delegation,
                mounts: self.mounts,
            }),
            toolsets: Arc::new(toolsets),
            client_tools: Arc::default(),
            gate: Arc::new(self.gate),
            chat: self.chat,
            attended: self.attended,
            redact: self.redact,
            for_client: false,
            stand_ins: None,
            spending: self.spending,
        };
        let root = Place::new("/program");
        let authority = Authority::new(
            Bounds::new(vec![Extent { place: root.clone(), access: Access::Write }], Network::Off),
            View::new(vec![Mount::new(VirtualPath::root(), root.clone(), Access::Write)]),
            Arc::new(Protection::new(root, [])),
        );
        let launch = Launch {
            context,
            entry: main,
            input: Arc::new(input),
            input_origins: Origins::TRUSTED,
            user: Origin::Trusted,
            attachments: self.attachments,
            authority,
            budget: Budget::default(),
            records: RunRecords::None,
            held: None,
            tally: Arc::default(),
        };
        Ready { launch, driver, stage, operator }
    }
}

impl Ran {
    /// The output.
    pub(crate) fn output(&self) -> &Value {
        match &self.outcome.end {
            End::Done(value) => value,
            other => panic!("the run is done, not {other:?}"),
        }
    }

    /// The failure.
    pub(crate) fn failure(&self) -> &Failure {
        match &self.outcome.end {
            End::Failed(failure) => failure,
            other => panic!("the run has failed, not {other:?}"),
        }
    }

    /// Results of the last turn of tool calls in the last request of `main`: text, and whether it is an error.
    pub(crate) fn results(&self) -> Vec<(String, bool)> {
        self.results_of("main")
    }

    /// The results of another worker, like [`Ran::results`].
    pub(crate) fn results_of(&self, worker: &str) -> Vec<(String, bool)> {
        let last = self.seen.iter().rfind(|seen| seen.worker == worker).expect("the worker was asked");
        let results =
            last.messages.iter().rfind(|message| message.role == Role::Tool).expect("it made calls");
        let results = results.parts.iter().map(|part| match part {
            Part::Result(result) => (result.content.to_string(), result.is_error),
            other => panic!("only results: {other:?}"),
        });
        results.collect()
    }

    /// The one result, which must be an error.
    pub(crate) fn error(&self) -> String {
        match self.results().as_slice() {
            [(text, true)] => text.clone(),
            other => panic!("one call failed: {other:?}"),
        }
    }

    /// Paths of the leaves that were run, in the order in which they began.
    pub(crate) fn made(&self) -> Vec<(String, String)> {
        let started = self.records.iter().filter_map(|record| match &record.body {
            RecordKind::ToolStarted { function, .. } => Some((record.path.to_string(), function.to_string())),
            _ => None,
        });
        started.collect()
    }

    /// The first request to that worker.
    pub(crate) fn first(&self, worker: &str) -> &Seen {
        self.seen.iter().find(|seen| seen.worker == worker).expect("the worker was asked")
    }

    /// Gate verdicts: path, rule and who decided.
    pub(crate) fn verdicts(&self) -> Vec<(String, Rule, String)> {
        let verdicts = self.records.iter().filter_map(|record| match &record.body {
            RecordKind::Verdict { rule, by, .. } => Some((record.path.to_string(), *rule, by.to_string())),
            _ => None,
        });
        verdicts.collect()
    }

    /// Text of a file in the program's root.
    pub(crate) fn read(&self, below: &str) -> Option<String> {
        Some(String::from_utf8(self.files.get(&place(below))?.to_vec()).unwrap())
    }

    /// Each request of each conversation must follow from the records before it, read back from JSON.
    fn check(&self, limits: &HashMap<String, Limits>) {
        let lines: Vec<String> =
            self.records.iter().map(|record| serde_json::to_string(record).unwrap()).collect();
        let records: Vec<Record> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(records, self.records, "records survive being written");
        let mut workers: HashMap<&CallPath, &str> = HashMap::new();
        let mut seen: HashMap<&CallPath, VecDeque<&Seen>> = HashMap::new();
        for request in &self.seen {
            seen.entry(&request.path).or_default().push_back(request);
        }
        for (at, record) in records.iter().enumerate() {
            assert_eq!(record.seq as usize, at);
            match &record.body {
                RecordKind::ConversationStarted { worker, .. } => {
                    workers.insert(&record.path, worker);
                }
                // The records before a call give the origins of its arguments.
                RecordKind::CallStarted { origins, .. } => {
                    let caller = record.path.parent().filter(|caller| workers.contains_key(caller));
                    if let Some(caller) = caller {
                        let limits = limits.get(workers[&caller]).unwrap_or(&limits["main"]).clone();
                        let rebuilt = conversation_at(&records[..at], &caller, limits).unwrap();
                        assert_eq!(rebuilt.trail().is_tainted(), origins.is_untrusted(), "{}", record.path);
                    }
                }
                RecordKind::ModelRequested { digest, head, .. } => {
                    let sent = seen
                        .get_mut(&record.path)
                        .and_then(VecDeque::pop_front)
                        .expect("each request is seen");
                    if sent.purpose == Purpose::Summary {
                        assert_eq!(Conversation::digest_of(&sent.messages), *digest);
                        continue;
                    }
                    // A worker that was made has the limits of its creator.
                    let limits = limits.get(workers[&record.path]).unwrap_or(&limits["main"]).clone();
                    let rebuilt = conversation_at(&records[..at], &record.path, limits).unwrap();
                    assert_eq!(
                        rebuilt.digest(),
                        digest,
                        "the journal alone gives the conversation at {}",
                        record.path
                    );
                    assert_eq!(rebuilt.head(), *head);
                    assert_eq!(rebuilt.messages(), sent.messages);
                    assert_valid(&sent.messages);
                }
                _ => {}
            }
        }
    }
}

/// Each call is answered once, right after the message that makes it.
fn assert_valid(messages: &[Arc<Message>]) {
    assert_eq!(messages[0].role, Role::User);
    assert_ne!(messages.last().unwrap().role, Role::Assistant);
    for (at, message) in messages.iter().enumerate() {
        let calls: Vec<&str> = message.calls().map(|call| &*call.id).collect();
        let answers: Vec<&str> = messages
            .get(at + 1)
            .filter(|next| next.role == Role::Tool)
            .into_iter()
            .flat_map(|next| &next.parts)
            .filter_map(|part| if let Part::Result(result) = part { Some(&*result.call_id) } else { None })
            .collect();
        assert_eq!(calls, answers);
    }
}

/// Polls until it is ready: nothing here waits for the world.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}
