//! A program in memory: workers by map, models that follow a script, tools from closures, an operator with a list of
//! answers.

use futures_util::future::poll_fn;
use llm_do_core::{
    authority::{Access, Authority, Bounds, Extent, Mount, Network, Place, Protection, View, VirtualPath},
    call_path::CallPath,
    driver::MemoryDriver,
    engine::{End, Failure, Outcome, RunContext},
    function::{
        Concurrency, Function, FunctionMeta, FunctionSource, Implementation, Leaf, LeafCall, Risk, ToolError,
        ToolOutput,
    },
    gate::{Calls, Gate, Mode, Rule, RuleLine},
    journal::{Record, RecordKind},
    launch::{Launch, RunRecords},
    ledger::Budget,
    model::{
        Arguments, Blob, Capabilities, DeltaSink, FinishReason, Message, Model, ModelError, ModelName,
        ModelRequest, ModelResponse, ModelSettings, Models, Part, Role, Sees, Terms, ToolCall, Usage,
    },
    operator::{OneAtATime, Operator, Recall},
    question::{Answer, Approval, Given, Question, Reply, Waiting},
    rebuild::conversation_at,
    redact::{NoSecrets, Redact},
    schema::Schema,
    send::BoxFuture,
    server_tool::ServerTool,
    template::NoTemplates,
    toolset::{ToolsetContext, ToolsetKind, ToolsetRegistry},
    vfs::MemoryFileSystem,
    worker::{
        AttachmentPolicy, DefinitionError, Definitions, Delegation, Instructions, Limits, ModelChoice,
        Sandbox, Signature, Untrusted, WorkerDefinition,
    },
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

/// What a model says, in order; each conversation of the worker follows it from its beginning.
pub(crate) type Script = Vec<Result<ModelResponse, ModelError>>;

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
    pub(crate) capabilities: Capabilities,
    pub(crate) files: Arc<MemoryFileSystem>,
    pub(crate) attachments: Vec<Blob>,
    pub(crate) redact: Arc<dyn Redact>,
    pub(crate) model: ModelChoice,
    pub(crate) settings_override: ModelSettings,
    pub(crate) chat: bool,
    pub(crate) attended: bool,
    /// How often a model yields before it answers, by the conversation's path.
    pub(crate) delay: fn(&CallPath) -> usize,
    /// The known terms of the model.
    pub(crate) terms: Terms,
    /// Whether the model's provider runs tools of its own.
    pub(crate) server_tools: bool,
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

/// A request, as a model saw it.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) path: CallPath,
    pub(crate) worker: String,
    pub(crate) model: String,
    pub(crate) temperature: Option<f64>,
    pub(crate) system: String,
    pub(crate) messages: Vec<Arc<Message>>,
    pub(crate) tools: Vec<String>,
    pub(crate) server_tools: Vec<ServerTool>,
    pub(crate) max_tokens: Option<u32>,
    pub(crate) output: bool,
}

/// A worker that takes any input and may do nothing.
pub(crate) fn worker(id: &str) -> WorkerDefinition {
    let schema = json!({
        "type": "object",
        "properties": {
            "input": {},
            "instructions": {"type": "string"},
            "attachments": {"type": "array", "items": {"type": "string"}},
        },
        "additionalProperties": false,
    });
    WorkerDefinition {
        id: id.into(),
        source: FunctionSource::Program,
        description: Some(format!("Does what {id} does.").into()),
        instructions: Instructions {
            text: format!("You are {id}.").into(),
            file: format!("workers/{id}.worker").into(),
            line_offset: 3,
            templates: Arc::new(NoTemplates),
        },
        model: None,
        compatible_models: Vec::new(),
        settings: ModelSettings::default(),
        mode: Default::default(),
        interactive: false,
        locked: false,
        signature: Signature {
            schema: Arc::new(Schema::new(schema).unwrap()),
            declared: false,
            message: Some("input".into()),
            parameters: Vec::new(),
        },
        returns: None,
        ensures: Arc::new([]),
        returned_paths: Vec::new(),
        toolsets: Vec::new(),
        server_tools: Arc::new([]),
        tools: Arc::new([]),
        code: None,
        allow_workers: Vec::new(),
        rules: Arc::new([]),
        overrides: Vec::new(),
        sandbox: Sandbox::default(),
        attachments: AttachmentPolicy::default(),
        untrusted: Untrusted::default(),
        allow_empty_input: true,
        limits: Limits::default(),
        text: format!("You are {id}.").into(),
        code_sha256: None,
    }
}

/// A worker with the tools of the test, and the file tools.
pub(crate) fn worker_with_tools(id: &str) -> WorkerDefinition {
    let mut worker = worker(id);
    worker.toolsets = vec![("test".into(), Arc::new(json!({})))];
    worker
}

/// A leaf tool that takes any object.
pub(crate) fn tool<F>(name: &str, risk: Risk, run: F) -> Function
where
    F: Fn(&Value) -> Result<Value, String> + Send + Sync + 'static,
{
    Function {
        meta: FunctionMeta {
            source: FunctionSource::Toolset("test".into()),
            name: name.into(),
            tool_name: name.into(),
            aliases: &[],
            description: format!("Does {name}.").into(),
            input: Arc::new(Schema::built_in(json!({"type": "object"}))),
            output: None,
            risk,
            concurrency: Concurrency::ByRisk,
            timeout: None,
            contained: false,
            results: llm_do_core::origin::ResultOrigin::Trusted,
            wildcard: false,
            policy: None,
        },
        body: Implementation::Leaf(Arc::new(Closure(run))),
        rule: None,
    }
}

struct Closure<F>(F);

impl<F: Fn(&Value) -> Result<Value, String> + Send + Sync> Leaf for Closure<F> {
    fn run<'a>(&'a self, call: LeafCall<'a>) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        let result = (self.0)(call.input);
        Box::pin(async move { result.map(ToolOutput::new).map_err(ToolError::new) })
    }
}

/// An answer in text.
pub(crate) fn text(text: &str) -> Result<ModelResponse, ModelError> {
    Ok(ModelResponse { parts: vec![Part::text(text)], finish: FinishReason::Stop, usage: Usage::default() })
}

/// Tool calls: name and arguments.
pub(crate) fn calls<const N: usize>(calls: [(&str, Value); N]) -> Result<ModelResponse, ModelError> {
    calls_of(calls.map(|(name, arguments)| (name.to_owned(), arguments)))
}

/// As [`calls`], for any number.
pub(crate) fn calls_of(
    calls: impl IntoIterator<Item = (String, Value)>,
) -> Result<ModelResponse, ModelError> {
    let parts = calls.into_iter().enumerate().map(|(at, (name, arguments))| {
        let arguments = Arguments::Json(Arc::new(arguments));
        Part::Call(ToolCall { id: format!("c{at}").into(), name: name.into(), arguments })
    });
    Ok(ModelResponse { parts: parts.collect(), finish: FinishReason::ToolCalls, usage: Usage::default() })
}

/// The same answer with so many output tokens, and nothing else that counts.
pub(crate) fn using(
    response: Result<ModelResponse, ModelError>,
    tokens: u64,
) -> Result<ModelResponse, ModelError> {
    response.map(|response| ModelResponse {
        usage: Usage { input_tokens: Some(0), output_tokens: Some(tokens), ..Usage::default() },
        ..response
    })
}

/// A rule line, as the command line takes it.
pub(crate) fn rule(pattern: &str, rule: Rule) -> RuleLine {
    let Calls { pattern: calls, conditions } = Calls::parse(pattern, &|set| Err(set.to_string())).unwrap();
    RuleLine::new(calls, rule, format!("rule {pattern}")).when(conditions)
}

/// A real place in the program's root.
pub(crate) fn place(below: &str) -> Place {
    Place::new("/program").join(below)
}

/// A mount of a folder of the program.
pub(crate) fn mount(at: &str, below: &str, access: Access) -> Mount {
    Mount::new(VirtualPath::parse(at).unwrap(), place(below), access)
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
            capabilities: Capabilities {
                native_schema: false,
                tools: true,
                sees: Sees { images: true, pdf: false },
            },
            files: Arc::new(MemoryFileSystem::new()),
            attachments: Vec::new(),
            redact: Arc::new(NoSecrets),
            model: ModelChoice { forced: None, default: Some("script:test".parse().unwrap()) },
            settings_override: ModelSettings::default(),
            chat: false,
            attended: true,
            delay: |_| 0,
            terms: Terms::default(),
            server_tools: true,
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
            models: Arc::new(Stages(stage.clone(), self.terms)),
            model: self.model,
            settings_override: self.settings_override,
            files: self.files.clone(),
            definitions: Arc::new(Program {
                workers: self.workers,
                delegation: self.delegation,
                mounts: self.mounts,
            }),
            toolsets: Arc::new(toolsets),
            gate: Arc::new(self.gate),
            chat: self.chat,
            attended: self.attended,
            redact: self.redact,
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
            attachments: self.attachments,
            authority,
            budget: Budget::default(),
            records: RunRecords::None,
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

    /// As [`Ran::results`], of another worker.
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
                    let sent = seen
                        .get_mut(&record.path)
                        .and_then(VecDeque::pop_front)
                        .expect("each request is seen");
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

struct Program {
    workers: BTreeMap<String, Arc<WorkerDefinition>>,
    delegation: Delegation,
    mounts: HashMap<&'static str, Mount>,
}

impl Definitions for Program {
    fn worker(
        &self,
        _: &WorkerDefinition,
        reference: &str,
    ) -> Result<Arc<WorkerDefinition>, DefinitionError> {
        self.workers
            .get(reference)
            .cloned()
            .ok_or_else(|| DefinitionError { message: format!("there is no worker `{reference}`") })
    }

    fn mount(&self, _: &WorkerDefinition, name: &str) -> Option<Mount> {
        self.mounts.get(name).cloned()
    }

    fn matching(&self, _: &WorkerDefinition, glob: &str) -> Vec<String> {
        let folder = glob.trim_end_matches('*');
        self.workers.keys().filter(|id| id.starts_with(folder)).cloned().collect()
    }

    fn project_name(&self) -> &str {
        "test"
    }

    fn delegation(&self) -> Delegation {
        self.delegation
    }
}

struct TestTools(Vec<Function>);

impl ToolsetKind for TestTools {
    fn name(&self) -> &'static str {
        "test"
    }
    fn configuration(&self) -> Schema {
        Schema::built_in(json!({"type": "object"}))
    }
    fn build<'a>(
        &'a self,
        _: &'a Value,
        context: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Result<Vec<Function>, String>> {
        let own = self.0.iter().cloned();
        let made = own.map(|mut function| {
            function.meta.policy.clone_from(&context.policy);
            function
        });
        let made: Vec<Function> = made.collect();
        Box::pin(async move { Ok(made) })
    }
}

/// The one model, on which every worker plays its script.
pub(crate) struct Stage {
    scripts: HashMap<String, Script>,
    told: Mutex<HashMap<CallPath, usize>>,
    pub(crate) seen: Mutex<Vec<Seen>>,
    capabilities: Capabilities,
    server_tools: bool,
    delay: fn(&CallPath) -> usize,
}

struct Stages(Arc<Stage>, Terms);

impl Models for Stages {
    fn open(&self, _: &ModelName) -> Result<Arc<dyn Model>, ModelError> {
        Ok(self.0.clone())
    }

    fn terms(&self, _: &ModelName) -> Terms {
        self.1
    }
}

impl Model for Stage {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn refused_server_tools(&self, tools: &[ServerTool]) -> Vec<String> {
        let refused = tools.iter().filter(|_| !self.server_tools);
        refused.map(|tool| format!("the model has no `{}` of its own", tool.name())).collect()
    }

    fn respond<'a>(
        &'a self,
        request: ModelRequest<'a>,
        _: &'a dyn DeltaSink,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        self.seen.lock().unwrap().push(Seen {
            path: request.conversation.clone(),
            worker: request.worker.to_owned(),
            model: request.model.to_string(),
            temperature: request.settings.temperature,
            system: request.system.to_string(),
            messages: request.messages.to_vec(),
            tools: request.tools.iter().map(|tool| tool.name.to_string()).collect(),
            server_tools: request.server_tools.to_vec(),
            max_tokens: request.settings.max_tokens,
            output: request.output.is_some(),
        });
        let line = {
            let mut told = self.told.lock().unwrap();
            let line = told.entry(request.conversation.clone()).or_default();
            *line += 1;
            *line - 1
        };
        let delay = (self.delay)(request.conversation);
        Box::pin(async move {
            yields(delay).await;
            let script = &self.scripts[request.worker];
            script.get(line).unwrap_or_else(|| panic!("`{}` is asked once too often", request.worker)).clone()
        })
    }
}

/// Comes back after so many polls.
async fn yields(mut left: usize) {
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(());
        }
        left -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// An approval that the operator was asked for.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) call: CallPath,
    approval: Approval,
}

impl std::ops::Deref for Asked {
    type Target = Approval;
    fn deref(&self) -> &Approval {
        &self.approval
    }
}

pub(crate) struct Answers {
    left: Mutex<VecDeque<Option<Answer>>>,
    asked: Mutex<Vec<Asked>>,
}

impl Operator for Answers {
    fn exchange<'a>(&'a self, waiting: &'a Waiting, _: &'a dyn Recall) -> BoxFuture<'a, Reply> {
        let what = match &waiting.question {
            Question::Approval(approval) => {
                let (call, approval) = (waiting.id.call.clone(), approval.clone());
                let function = approval.function.to_string();
                self.asked.lock().unwrap().push(Asked { call, approval });
                function
            }
            Question::Input(input) => input.prompt.to_string(),
            Question::Settlement(settlement) => settlement.function.to_string(),
        };
        let answer = self.left.lock().unwrap().pop_front();
        Box::pin(async move {
            // Others come to ask while this one is looked at.
            yields(3).await;
            match answer.unwrap_or_else(|| panic!("nobody expected to be asked about {what}")) {
                Some(answer) => Reply::Given(Given::operator(answer, "test")),
                None => Reply::Later,
            }
        })
    }
}
