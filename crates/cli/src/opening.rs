//! Shared by all commands that open a session: settings, operators, and running to an exit code.

use crate::{
    args::{ApprovalMode, BudgetFlags, RunArgs},
    exit::{Complaint, Exit},
    interrupt::Interrupts,
    meant::{self, Read},
    operator::{Channel, Taken, TerminalGrantor, TerminalOperator},
    program::{home, show_complaint, show_problem, surroundings},
    render::{Output, Refuses, Renderer, show_report},
    terminal::Terminal,
};
use llm_do::{
    BadGrant, ClientServers, Grant, Input, InputPart, Problem, ReadPart, RememberedGrants, Run, RunOptions,
    Session, Settings,
    confine::Confiner,
    core::{
        gate::{Calls, FileSet, Mode, Rule, RuleLine, ToolSets},
        ledger::Budget,
        model::{BadModelName, ModelName, ModelSettings, WrongSetting},
        operator::{OneAtATime, Operator},
        question::Requester,
        toolset::ToolsetRegistry,
        worker::GivenLimits,
    },
    models::{PriceList, Providers},
    parse_grant,
    program::{keys::LEAST_CONTEXT, limits, target::Request},
    read_set,
    runs::EventSink,
};
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

/// The operators that can be asked.
pub(crate) struct Asked {
    /// The terminal, if there is one.
    pub(crate) terminal: Option<Arc<Terminal>>,
    /// Another program, which then answers the questions of calls.
    program: Option<Taken>,
}

impl Asked {
    /// Opens the terminal, and the channel to the program if one is to answer.
    pub(crate) fn open(channel: Option<&Channel>) -> Result<Self, Complaint> {
        let program = channel.map(Channel::take).transpose();
        let program = program.map_err(|error| Complaint::wrong(format!("--operator: {error}")))?;
        Ok(Self { terminal: Terminal::open(), program })
    }

    /// Returns the operator that answers the questions of calls. Must be called inside a runtime.
    fn operator(&mut self, output: &Output) -> Result<Option<Arc<dyn Operator>>, Complaint> {
        if let Some(program) = self.program.take() {
            let talk = program.talk().map_err(|error| Complaint::wrong(format!("--operator: {error}")))?;
            return Ok(Some(Arc::new(talk)));
        }
        Ok(self.terminal.clone().map(|terminal| {
            let operator = TerminalOperator::new(terminal, Arc::clone(&output.screen), output.err);
            Arc::new(OneAtATime::new(operator)) as Arc<dyn Operator>
        }))
    }

    /// Returns true if another program answers questions.
    pub(crate) fn answers_by_program(&self) -> bool {
        self.program.is_some()
    }

    /// Returns true if there is neither a terminal nor a program to ask.
    pub(crate) fn is_nobody(&self) -> bool {
        self.terminal.is_none() && self.program.is_none()
    }
}

/// Shows the reason why a run does not start.
pub(crate) fn said(not_ready: NotReady, output: &Output) -> Exit {
    match not_ready {
        NotReady::Problem(problem) => show_problem(&problem, output),
        NotReady::Complaint(complaint) => show_complaint(&complaint, output),
    }
}

/// The reason why a run does not start.
pub(crate) enum NotReady {
    Problem(Box<Problem>),
    Complaint(Complaint),
}

impl NotReady {
    /// Returns the reason as text.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Problem(problem) => problem.to_string(),
            Self::Complaint(complaint) => complaint.message.clone(),
        }
    }
}

impl From<Problem> for NotReady {
    fn from(problem: Problem) -> Self {
        Self::Problem(Box::new(problem))
    }
}

impl From<Complaint> for NotReady {
    fn from(complaint: Complaint) -> Self {
        Self::Complaint(complaint)
    }
}

/// Adds the operators that can be asked to the settings.
pub(crate) fn asking(mut settings: Settings, asked: &Asked, output: &Output) -> Settings {
    settings.run.can_ask = !asked.is_nobody();
    if let Some(terminal) = &asked.terminal {
        let terminal = Arc::clone(terminal);
        let remembered = RememberedGrants::of(&settings.home);
        settings.grantor = Arc::new(TerminalGrantor { remembered, terminal, paint: output.err });
    }
    settings
}

/// Reads the input of the entry worker. Missing parts may come from stdin, and text on stdin beside a message is the
/// end of the message, except if its lines are the turns of a chat (`piped` is `None`).
pub(crate) fn given(args: &RunArgs, session: &Session, piped: Option<&Output>) -> Result<Input, NotReady> {
    let message = match (session.message(), &args.input.message) {
        (Some(word), Some(_)) => {
            return Err(Complaint::wrong(format!("the message is given twice: `{word}` and --message"))
                .hint("leave one of them out")
                .into());
        }
        (word, flag) => word.map(str::to_owned).or(flag.clone()),
    };
    let mut input = Input {
        message,
        parameters: meant::pairs("--param", &args.input.params)?,
        attachments: args.input.attach.clone(),
        ..Input::default()
    };
    if let Some(text) = &args.input.json {
        let Read { value, file } = meant::input(text)?;
        input.json = Some(value);
        input.read.extend(of_others(session, InputPart::Json, file)?);
    }
    let Some(output) = piped else { return Ok(input) };
    let read = if input.message.as_deref() == Some("-") {
        input.message = None;
        Some(meant::asked_for(output)?)
    } else if session.lacks_input(&input) {
        meant::piped(output)?
    } else if args.input.json.as_deref() != Some("-") && args.approval.operator.is_none() {
        // The operator's channel may be standard input.
        let beside = meant::beside()?;
        if beside.is_some() && input.message.is_none() {
            return Err(Complaint::wrong(
                "there is text on standard input, and the input is complete without it",
            )
            .hint("give the worker the text as a file (--attach FILE), or add `</dev/null`")
            .into());
        }
        if let Some(text) = &beside {
            let bytes = text.value.len();
            output.note(&format!("the text on standard input ({bytes} bytes) follows the message"));
        }
        beside
    } else {
        None
    };
    if let Some(Read { value, file }) = read {
        input.message = Some(match input.message.take() {
            Some(message) => format!("{message}\n\n{value}"),
            None => value,
        });
        input.read.extend(of_others(session, InputPart::Message, file)?);
    }
    Ok(input)
}

/// Returns the part of the input that comes from that file, if others wrote the file. The operator's own files are the
/// operator's words.
pub(crate) fn of_others(
    session: &Session,
    part: InputPart,
    file: Option<PathBuf>,
) -> Result<Option<ReadPart>, Problem> {
    let untrusted = match file {
        Some(file) => session.is_of_others(&file)?,
        None => false,
    };
    Ok(untrusted.then_some(ReadPart { part, untrusted }))
}

/// Returns an error for text that came on standard input after the run had begun.
pub(crate) fn came_too_late(args: &RunArgs, input: &Input) -> Option<Complaint> {
    let is_free = input.message.is_some() && args.approval.operator.is_none();
    (is_free && meant::has_unread()).then(|| {
        Complaint::failed(
            "text came on standard input after the run had begun, and the run has ended without it",
        )
        .hint(
            "give the worker the text as a file (--attach FILE), or as its message (`-`), which waits for it",
        )
    })
}

/// Returns settings from the environment alone: no target, no options, no operator.
pub(crate) fn surrounded() -> Result<Settings, Complaint> {
    let around =
        surroundings().map_err(|error| Complaint::wrong(format!("no current directory: {error}")))?;
    Ok(Settings {
        request: Request::default(),
        around,
        environment: Arc::new(|name| std::env::var(name).ok()),
        home: home(),
        toolsets: ToolsetRegistry::built_in(),
        client_servers: ClientServers::default(),
        providers: Box::new(with_local),
        fallback_model: local_model(),
        grantor: Arc::new(RememberedGrants::of(&home())),
        run: RunOptions::default(),
    })
}

/// Returns settings from the options of a run, without an operator.
pub(crate) fn settings(args: &RunArgs) -> Result<Settings, Complaint> {
    settings_in(args, surrounded()?)
}

/// Returns the same settings for another environment. Relative paths count from its current directory.
pub(crate) fn settings_in(args: &RunArgs, base: Settings) -> Result<Settings, Complaint> {
    let model = args.model.name.as_deref().map(str::parse::<ModelName>).transpose();
    let around = &base.around;
    let mut rules = Vec::new();
    for (flag, given, rule) in [
        ("--deny", &args.approval.deny, Rule::Blocked),
        ("--ask", &args.approval.ask, Rule::Ask),
        ("--allow", &args.approval.allow, Rule::PreApproved),
    ] {
        for text in given {
            rules.push(rule_line(flag, text, rule, &around.here)?);
        }
    }
    let (set, limits) = overrides(&args.model.set)?;
    let run = RunOptions {
        model: model.map_err(|error| no_model_name(error, args.model.name.as_deref().unwrap_or_default()))?,
        set,
        limits,
        mode: args.approval.mode.map(|mode| match mode {
            ApprovalMode::Interactive => Mode::Interactive,
            ApprovalMode::ApproveAll => Mode::ApproveAll,
            ApprovalMode::AutoDeny => Mode::AutoDeny,
            ApprovalMode::Defer => Mode::Defer,
        }),
        rules,
        grants: grants(&args.approval.grant)?,
        budget: budget(&args.budget)?,
        requester: Requester::operator("command line"),
        ..RunOptions::default()
    };
    Ok(Settings { request: args.into(), run, ..base })
}

/// Returns an error for a model without its provider, or a provider without a model.
fn no_model_name(error: BadModelName, name: &str) -> Complaint {
    let complaint = Complaint::wrong(format!("--model: {error}"));
    let of_provider = Providers::usual_model(name).into_iter();
    let listed = PriceList::built_in().models.into_iter().map(|(listed, _)| listed);
    let of_name = listed.filter(|listed| listed.split_once(':').is_some_and(|(_, model)| model == name));
    of_provider
        .chain(of_name)
        .take(3)
        .fold(complaint, |complaint, meant| complaint.hint(format!("did you mean `{meant}`?")))
}

/// Parses the rule of `--allow RULE` and similar options. Files of sets are relative to `here`.
fn rule_line(flag: &str, text: &str, rule: Rule, here: &Path) -> Result<RuleLine, Complaint> {
    let read = |set: &FileSet| read_set(here, set);
    let Calls { pattern, conditions } =
        Calls::parse(text, &read).map_err(|error| Complaint::wrong(format!("{flag}: {error}")))?;
    for set in conditions.sets().filter(|set| set.is_known()) {
        if let Err(reason) = set.values(&ToolSets::none()) {
            return Err(Complaint::wrong(format!("{flag} {text}: the set {set} cannot be read: {reason}"))
                .hint("files of sets are JSON, and relative to the current directory"));
        }
    }
    Ok(RuleLine::new(pattern, rule, format!("{flag} {text}")).when(conditions))
}

/// Parses `--budget` and `--max-cost`.
fn budget(given: &BudgetFlags) -> Result<Budget, Complaint> {
    let budget = given.budget.iter().try_fold(Budget::default(), |budget, text| budget.and(text));
    let budget = budget.map_err(|error| Complaint::wrong(format!("--budget: {error}")))?;
    let Some(most) = &given.max_cost else { return Ok(budget) };
    let dollars = most.trim().trim_end_matches("usd").trim_end();
    budget.and(&format!("{dollars}usd")).map_err(|_| {
        Complaint::wrong(format!("--max-cost: `{most}` is no amount of US dollars"))
            .hint("for example --max-cost 0.50; other limits are for --budget")
    })
}

/// Parses `--grant CAPABILITY`.
pub(crate) fn grants(given: &[String]) -> Result<Vec<Grant>, Complaint> {
    let wrong = |BadGrant { text, reason }| Complaint::wrong(format!("`--grant {text}`: {reason}"));
    given.iter().map(|text| parse_grant(text).map_err(wrong)).collect()
}

/// A worker's key that `--set` accepts and that is not under `limits`.
const MAX_CONTEXT_TOKENS: &str = "max_context_tokens";

/// Parses `--set KEY=VALUE`: keys of `model_settings`, whose name may be left out, of `limits`, and
/// `max_context_tokens`.
fn overrides(set: &[String]) -> Result<(ModelSettings, GivenLimits), Complaint> {
    let wrong = |error: String| {
        Complaint::wrong(format!("--set: {error}"))
            .hint("for example --set temperature=0.2 or --set limits.max_turns=20")
    };
    let pairs = meant::pairs("--set", set)?;
    let limit = |key: &str| key.strip_prefix("limits.").map(str::to_owned);
    let mut settings = ModelSettings::default();
    let mut max_context_tokens = None;
    for (key, value) in pairs.iter().filter(|(key, _)| limit(key).is_none()) {
        if key == MAX_CONTEXT_TOKENS {
            let tokens = value.parse::<u64>().ok().filter(|tokens| *tokens >= LEAST_CONTEXT);
            let wanted = || format!("{key} is a number of tokens, at least {LEAST_CONTEXT}, not `{value}`");
            max_context_tokens = Some(tokens.ok_or_else(|| wrong(wanted()))?);
            continue;
        }
        let key = key.strip_prefix("model_settings.").unwrap_or(key);
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.clone()));
        settings.set(key, &value).map_err(|error| match error {
            WrongSetting::Kind(kind) => wrong(format!("{key} is {kind}, not `{}`", text_of(&value))),
            WrongSetting::Unknown => {
                let keys = ModelSettings::KEYS.join(", ");
                wrong(format!(
                    "there is no `{key}`; a model has {keys}, and a worker max_context_tokens and limits"
                ))
            }
        })?;
    }
    let limits: Vec<(String, &str)> =
        pairs.iter().filter_map(|(key, value)| Some((limit(key)?, value.as_str()))).collect();
    let limits = limits::parse(limits.iter().map(|(key, value)| (key.as_str(), *value))).map_err(wrong)?;
    Ok((settings, GivenLimits { max_context_tokens, ..limits }))
}

/// Returns a value as it was typed.
fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Runs to the end and returns the exit code.
pub(crate) fn carry_out(
    start: impl FnOnce(Option<Arc<dyn Operator>>, Arc<dyn EventSink>) -> Result<Run, Problem>,
    asked: &mut Asked,
    interrupts: &Interrupts,
    refuses: Refuses,
    output: &Output,
) -> Result<Exit, NotReady> {
    // One thread: calls wait for models and people far more than they compute, and nothing is started that isn't used.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Complaint::failed(format!("cannot start: {error}")))?;
    let canceller = Arc::new(OnceLock::<llm_do::runs::Canceller>::new());
    let cancel = {
        let canceller = Arc::clone(&canceller);
        move || {
            if let Some(canceller) = canceller.get() {
                canceller.cancel();
            }
        }
    };
    let renderer = Renderer::new(output.clone(), refuses, cancel.clone());
    let events = Arc::clone(&renderer) as Arc<dyn EventSink>;
    let run = {
        let _context = runtime.enter();
        start(asked.operator(output)?, events)?
    };
    renderer.expects(run.has_typed_output());
    let screen = Arc::clone(&output.screen);
    interrupts.on_end(move || screen.live(Vec::new()));
    // Set once, here.
    let _ = canceller.set(run.canceller());
    interrupts.on_first(cancel);
    let report = runtime.block_on(run.finish());
    renderer.stop();
    show_report(output, &report, renderer.streamed().as_deref());
    // A model that is cut off in the middle of its work is not waited for.
    runtime.shutdown_background();
    Ok(Exit::from(&report))
}

/// Returns the folder of the local models.
#[cfg(feature = "local")]
pub(crate) fn store() -> llm_do_inference::Store {
    llm_do_inference::Store::new(home().join("models"))
}

/// Returns the best model of the catalogue that is installed and fits the memory.
#[cfg(feature = "local")]
pub(crate) fn local_model() -> Option<ModelName> {
    let found = crate::commands::models::best_here(&store())?;
    format!("local:{}", found.name).parse().ok()
}

#[cfg(not(feature = "local"))]
pub(crate) fn local_model() -> Option<ModelName> {
    None
}

/// Refuses a program whose entry calls tools or workers if only the smallest local model is available, and it was not
/// named: it would loop, or invent results.
#[cfg(feature = "local")]
pub(crate) fn too_small(session: &Session) -> Option<Complaint> {
    let smallest = format!("local:{}", llm_do_inference::catalogue::DEFAULT);
    let found = session.detected_model().filter(|found| found.name.as_str() == smallest)?;
    let entry = session.entry();
    let calls = !entry.toolsets.is_empty() || !entry.allow_workers.is_empty() || !entry.tools.is_empty();
    if entry.code.is_some() || !calls {
        return None;
    }
    let message = format!(
        "`{}` calls tools or other workers, and {}, the only model here, is too small for that",
        entry.id, found.name
    );
    Some(
        Complaint::wrong(message)
            .hint("store the key of a provider: `llm-do keys set anthropic`")
            .hint("or pull a larger model that fits this machine: `llm-do models suggest` names one")
            .hint(format!("to try it nevertheless, name it: --model {}", found.name)),
    )
}

#[cfg(not(feature = "local"))]
pub(crate) fn too_small(_: &Session) -> Option<Complaint> {
    None
}

/// Adds the provider `local:`.
#[cfg(feature = "local")]
fn with_local(providers: Providers, confiner: &Arc<Confiner>) -> Providers {
    use llm_do::core::model::{ModelError, ModelErrorKind};
    let sessions = Arc::clone(confiner);
    providers.with("local", move |name| {
        let missing = |error: llm_do_inference::NotInstalled| {
            ModelError::new(ModelErrorKind::NotFound, error.to_string())
        };
        let store = store();
        let path = store.locate(name.model()).map_err(missing)?;
        let mut confiner = Arc::clone(&sessions);
        if path.starts_with(store.dir()) {
            // The user pulled it, and its hash was verified: it runs where nothing can be confined, too.
            confiner = Arc::default();
            confiner.allow_unconfined();
        }
        Ok(Arc::new(llm_do_inference::LocalModel::open(path, confiner)?))
    })
}

#[cfg(not(feature = "local"))]
fn with_local(providers: Providers, _: &Arc<Confiner>) -> Providers {
    use llm_do::core::model::{ModelError, ModelErrorKind};
    providers.with("local", |_| {
        let message = "this build runs no local models: build it with the feature `local`";
        Err(ModelError::new(ModelErrorKind::Unsupported, message))
    })
}

/// Returns notes on overrides of the command line that a locked worker does not take.
pub(crate) fn locked_notes(session: &Session) -> Vec<String> {
    let RunOptions { model, set, limits, .. } = session.options();
    let sets = *set != ModelSettings::default() || *limits != GivenLimits::default();
    let given = match (model.is_some(), sets) {
        (true, true) => "--model and --set do",
        (true, false) => "--model does",
        (false, true) => "--set does",
        (false, false) => return Vec::new(),
    };
    let workers = session.program().loaded();
    let locked = workers.iter().filter(|worker| worker.locked);
    locked.map(|worker| format!("{given} not apply to `{}`, which is locked", worker.id)).collect()
}
