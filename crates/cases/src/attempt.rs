//! A repeat of a case: the run of its worker, and the runs of its judge.

use crate::{
    copy::Workspace,
    evaluate::{self, Finished},
    judge::{self, Judgement},
    operator::CaseOperator,
    options::{Answers, KeptRun, Options, Pages},
    recording_files,
    report::{Differs, Missed, RunReport},
    stand_ins::{Stubs, WithListings},
    stopped::Stopped,
    suite::{Suite, SuiteCase},
};
use llm_do::{
    Effects, Grant, Input, InputPart, Located, ModelSource, Problem, ReadPart, Report, Session, ask_function,
    sections, write_named,
};
use llm_do_core::{
    gate::Mode,
    journal::Record,
    model::{ModelName, Usage},
    outcome::{End, Failure, FailureKind},
    price::Usd,
};
use llm_do_program::{
    cases::{Case, Ensured},
    signature::InputError,
    target::Request,
};
use llm_do_records::{Divergence, RecordedModels, Recording, WholeRun, diff::unified_diff, page};
use llm_do_runs::read_journal;
use serde_json::Value;
use std::{collections::BTreeSet, fs, future::pending, io, path::PathBuf, sync::Arc, time::Duration};

/// A repeat of a case that is about to run.
pub(crate) struct Repeat<'a> {
    pub(crate) case: &'a SuiteCase,
    pub(crate) model: Option<&'a ModelName>,
    pub(crate) number: u32,
    pub(crate) recorded: bool,
    /// The largest cost that it may have.
    pub(crate) left: Option<Usd>,
}

/// A repeat that is running.
pub(crate) struct Attempt<'a> {
    suite: &'a Suite,
    repeat: &'a Repeat<'a>,
    options: &'a Options<'a>,
    workspace: &'a Workspace,
    /// The recording that provides the answers.
    recording: Option<Recording>,
    /// The recording that is made.
    taken: Recording,
    /// The number of runs that it has made: the call, and those of its judge.
    runs: usize,
    usage: Usage,
    missed: Option<Divergence>,
    /// The reason why `taken` can't be used as a recording.
    incomplete: Option<&'static str>,
}

/// A run that has ended, with its records.
struct Made {
    session: Session,
    report: Report,
    records: Vec<Record>,
    timed_out: bool,
}

/// The reason why a run was not made.
#[derive(Debug, thiserror::Error)]
enum NotMade {
    /// The worker does not accept the input.
    #[error(transparent)]
    Refused(InputError),
    /// The case fails for another reason.
    #[error("{0}")]
    Failure(String),
}

/// A worker of the copy, ready to run.
struct Opened {
    session: Session,
    /// The recorded models, if they give the answers.
    models: Option<RecordedModels>,
    /// True if the servers of its toolsets are started.
    starts_servers: bool,
}

impl<'a> Attempt<'a> {
    /// Returns a repeat that is about to run in a copy of the program.
    pub(crate) fn new(
        suite: &'a Suite,
        repeat: &'a Repeat<'a>,
        options: &'a Options<'a>,
        workspace: &'a Workspace,
        recording: Option<Recording>,
    ) -> Self {
        let (taken, usage) = (Recording::default(), Usage::default());
        Self {
            suite,
            repeat,
            options,
            workspace,
            recording,
            taken,
            runs: 0,
            usage,
            missed: None,
            incomplete: None,
        }
    }

    /// Makes the runs of the repeat, and checks the expectations of its case.
    pub(crate) async fn run(mut self) -> Result<RunReport, Stopped> {
        let case = Arc::clone(&self.repeat.case.case);
        let stubs = Arc::new(Stubs::new(&case.given));
        let given = case.input_node.as_ref().map(|_| (*case.input).clone());
        let timeout = case.expect.limits.timeout.filter(|_| self.recording.is_none());
        let worker = Arc::clone(&self.repeat.case.worker);
        let made = match self.make(&worker, given, &stubs, timeout, true).await? {
            Ok(made) => made,
            Err(NotMade::Refused(wrong)) => return Ok(self.refused(&case, &wrong, &stubs)),
            Err(NotMade::Failure(failure)) => {
                return Ok(RunReport { failures: vec![failure], ..RunReport::default() });
            }
        };
        let Made { session, report, records, timed_out } = &made;
        let input = root_input(records).unwrap_or_else(|| Arc::clone(&case.input));
        let finished = Finished {
            end: &report.end,
            input: &input,
            usage: report.usage,
            records,
            workspace: self.workspace,
            stubs: &stubs,
        };
        let is_limit = |failure: &Failure| failure.kind == FailureKind::Limit;
        if matches!(&report.end, End::Failed(failure) if is_limit(failure)) && self.is_used_up() {
            return Err(Stopped::Cost);
        }
        let mut failures = match (timed_out, timeout) {
            (true, Some(timeout)) => {
                vec![format!("limits: it did not end within {} s", timeout.as_secs_f64())]
            }
            _ => evaluate::failures(&case.expect, &finished),
        };
        if let End::Done(output) = &report.end {
            for ensured in &case.expect.ensures {
                let Ensured::Function { file, function, .. } = ensured else { continue };
                let asked = tokio::select! {
                    asked = ask_function(session, file, function, output) => asked,
                    () = self.options.canceller.cancelled() => return Err(Stopped::Interrupted),
                };
                match asked {
                    Ok(None) => {}
                    Ok(Some(problem)) => failures.push(format!("ensures: `{file}:{function}`: {problem}")),
                    Err(failure) => failures.push(format!("ensures: {failure}")),
                }
            }
            // What fails anyway needs no judge.
            if let (Some((judge, _)), true) = (&case.expect.judge, failures.is_empty()) {
                failures.extend(self.judged(judge, &input, output).await?);
            }
        }
        let took = made.report.took;
        let recorded = self.recording.is_some();
        if self.options.answers == Answers::Update {
            match self.incomplete {
                // What is there is worth more than a run that a server's failure has cut off.
                Some(why) => failures.push(format!("its recording is left as it is: {why}")),
                None => {
                    let (root, file) = (&self.suite.root, &self.repeat.case.file);
                    recording_files::write(root, file, &case.name, self.repeat.number, &self.taken).map_err(
                        |source| Stopped::Write { path: recording_files::folder(root, file), source },
                    )?;
                }
            }
        }
        let asks_nothing = self.recording.as_ref().is_some_and(Recording::is_empty);
        let missed = self.missed.as_ref().filter(|_| !asks_nothing).map(missed);
        if missed.is_some() {
            failures =
                vec!["a request is not the recorded one: `llm-do test --update` records it again".into()];
        } else if self.missed.is_some() {
            failures = vec![format!("fails: expected invalid_input, and `{worker}` accepts the input")];
        }
        // Files of the copy may hold what records don't: the values of secrets.
        let shown = |failure: String| self.workspace.without_places(session.redacted(&failure));
        let differs = match (&report.end, &case.expect.output) {
            (End::Done(output), Some(matcher)) if missed.is_none() && matcher.check(output).is_err() => {
                let differs = Differs { expected: matcher.expected(output), output: (**output).clone() };
                let text = serde_json::to_string(&differs).map(shown).unwrap_or_default();
                // Without the values of secrets it may be no JSON any more.
                serde_json::from_str(&text).ok()
            }
            _ => None,
        };
        let failures: Vec<String> = failures.into_iter().map(shown).collect();
        Ok(RunReport {
            pass: failures.is_empty(),
            failures,
            differs,
            missed,
            usage: self.usage,
            took_ms: (!recorded).then(|| u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
        })
    }

    /// Returns the result of a call whose input the worker does not accept. Nothing has run.
    fn refused(&self, case: &Case, wrong: &InputError, stubs: &Stubs) -> RunReport {
        let failures = match case.expect.fails {
            None => vec![wrong.to_string()],
            Some(_) => {
                let finished = Finished {
                    end: &End::Failed(Failure::new(FailureKind::InvalidInput, wrong.to_string())),
                    input: &case.input,
                    usage: Usage::default(),
                    records: &[],
                    workspace: self.workspace,
                    stubs,
                };
                evaluate::failures(&case.expect, &finished)
            }
        };
        let failures: Vec<String> =
            failures.into_iter().map(|failure| self.workspace.without_places(failure)).collect();
        RunReport { pass: failures.is_empty(), failures, ..RunReport::default() }
    }

    /// Returns the largest cost that the next run may have.
    fn left(&self) -> Option<Usd> {
        Some(self.repeat.left?.minus(self.usage.cost_usd.unwrap_or_default()))
    }

    /// Returns true if a run ended at a limit because of the cost of the suite: it was refused its first request, or
    /// the remaining cost is at most what the run has used. After a limit of the worker itself, such as that of its
    /// turns, more remains.
    fn is_used_up(&self) -> bool {
        let used = self.usage.cost_usd.unwrap_or_default();
        self.left().is_some_and(|left| used == Usd::ZERO || left <= used)
    }

    /// Asks the judge, again after a fail. Returns the reason if the output fails.
    async fn judged(
        &mut self,
        judge: &str,
        input: &Value,
        output: &Value,
    ) -> Result<Option<String>, Stopped> {
        let mut said: Vec<Judgement> = Vec::new();
        loop {
            let passes: Vec<bool> = said.iter().map(|judgement| judgement.pass).collect();
            match judge::decided(&passes) {
                Some(true) => return Ok(None),
                Some(false) => {
                    let reason =
                        said.iter().find(|judgement| !judgement.pass).map(|judgement| &judgement.reason);
                    return Ok(Some(format!("judge: `{judge}`: {}", reason.map_or("", String::as_str))));
                }
                None => {}
            }
            let session = match self.open(judge)? {
                Ok(opened) => opened.session,
                Err(failure) => return Ok(Some(failure)),
            };
            let parameters: BTreeSet<&str> =
                session.entry().signature.parameters.iter().map(|parameter| &*parameter.name).collect();
            let given = judge::input(&parameters, input, output);
            let none = Arc::new(Stubs::new(&[]));
            let made = match self.make(judge, Some(given), &none, None, false).await? {
                Ok(made) => made,
                Err(failure) => return Ok(Some(format!("judge: `{judge}`: {failure}"))),
            };
            match &made.report.end {
                End::Done(output) => match Judgement::of(judge, output) {
                    Ok(judgement) => said.push(judgement),
                    Err(failure) => return Ok(Some(failure)),
                },
                End::Failed(failure) if failure.kind == FailureKind::Limit && self.is_used_up() => {
                    return Err(Stopped::Cost);
                }
                End::Failed(failure) => return Ok(Some(format!("judge: `{judge}` failed: {failure}"))),
                End::Suspended(_) => return Ok(Some(format!("judge: `{judge}` waits for an operator"))),
            }
        }
    }

    /// Opens the program of the copy with that worker, and the models that answer it. The inner `Err` means that the
    /// recording has no such run.
    fn open(&self, worker: &str) -> Result<Result<Opened, String>, Problem> {
        let mut settings = (self.options.settings)();
        let here = std::mem::replace(&mut settings.around.here, self.workspace.root().to_owned());
        settings.around.project = None;
        let target = match &self.suite.lone {
            Some(file) => file.clone(),
            None => self.workspace.root().to_owned(),
        };
        settings.request = Request {
            // Beside a message, if an empty one, a word is never the message.
            positionals: vec![target.to_string_lossy().into_owned(), String::new()],
            project: None,
            entry: self.suite.entry(worker),
            libraries: settings.request.libraries.iter().map(|folder| here.join(folder)).collect(),
            ..settings.request
        };
        settings.run.paths_below = Some(self.workspace.root().to_owned());
        settings.run.budgets_of = Some(self.suite.counted().to_owned());
        if let Some(left) = self.left() {
            let own = settings.run.budget.max_cost_usd;
            settings.run.budget.max_cost_usd = Some(own.map_or(left, |own| own.min(left)));
        }
        settings.run.model = match self.repeat.model {
            Some(model) => Some(model.clone()),
            None => settings.run.model,
        };
        // The operator of the case approves what only touches the copy.
        settings.run.can_ask = settings.run.mode.is_none();
        settings.run.mode = Some(settings.run.mode.unwrap_or(Mode::Interactive));
        let options = settings.run.clone();
        let models = match &self.recording {
            None => None,
            Some(recording) => match recording.run(self.runs) {
                Some(models) => Some(models),
                None if recording.is_empty() => Some(RecordedModels::of_nothing()),
                None => {
                    let what = if self.runs == 0 { "the call" } else { "the judge" };
                    return Ok(Err(format!(
                        "the recording lacks {what}: make it again with `llm-do test --update`"
                    )));
                }
            },
        };
        let source = match &models {
            None => ModelSource::Providers,
            Some(models) => ModelSource::Given {
                models: Arc::new(models.clone()),
                // Without an answer in it, nothing asks a model.
                default: models.first_model().or_else(|| "recorded:none".parse().ok()),
            },
        };
        // Recorded, a server is only started for an operator who grants one for this test.
        let starts_servers = models.is_none() || options.grants.iter().any(is_for_server);
        let effects = if starts_servers { Effects::Allowed } else { Effects::WithoutServers };
        let mut located = Located::find(settings)?;
        if !self.options.texts.is_empty() {
            located = located.edited(self.options.texts.clone(), worker);
        }
        if let Some(keep) = &self.options.keep {
            located = located.recorded_in(keep.dir.clone());
        }
        let loaded = located.load(effects, &options)?;
        let session = loaded.grant(options, source)?.open()?;
        Ok(Ok(Opened { session, models, starts_servers }))
    }

    /// Makes a run of that worker.
    async fn make(
        &mut self,
        worker: &str,
        input: Option<Value>,
        stubs: &Arc<Stubs>,
        timeout: Option<Duration>,
        is_call: bool,
    ) -> Result<Result<Made, NotMade>, Stopped> {
        let Opened { session, models, starts_servers } = match self.open(worker)? {
            Ok(opened) => opened,
            Err(failure) => return Ok(Err(NotMade::Failure(failure))),
        };
        let is_unlimited = self.options.max_cost.is_none() && self.options.models.is_empty();
        if models.is_none()
            && self.options.answers == Answers::Either
            && is_unlimited
            && let Some(hosted) = session.hosted_model()
        {
            return Err(Stopped::Hosted(hosted));
        }
        let mut input = Input { json: input, ..Input::default() };
        // The file of the case may hold words of others, in the copy or where it was copied from.
        let file = &*self.repeat.case.file;
        if session.is_of_others(&self.workspace.root().join(file))?
            || session.is_of_others(&self.suite.root.join(file))?
        {
            input.read.push(ReadPart { part: InputPart::Json, untrusted: true });
        }
        let operator = Arc::new(CaseOperator::new(Arc::clone(stubs)));
        let mut run = match session.start(&input, Some(operator), None) {
            Err(Problem::Input(wrong)) => return Ok(Err(NotMade::Refused(wrong))),
            run => run?,
        };
        if let Some(date) = models.as_ref().and_then(RecordedModels::date) {
            run = run.dated(Arc::clone(date));
        }
        let recorded = models.clone().filter(|_| !starts_servers);
        run = run.with_stand_ins(Arc::new(WithListings { stubs: Arc::clone(stubs), recorded }));
        let canceller = run.canceller();
        let mut running = Box::pin(run.finish());
        let deadline = async {
            match timeout {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => pending().await,
            }
        };
        let (ended, timed_out) = tokio::select! {
            biased;
            () = self.options.canceller.cancelled() => (None, false),
            report = &mut running => (Some(report), false),
            () = deadline => (None, true),
        };
        let report = match ended {
            Some(report) => report,
            // Its processes have ended then, and nothing writes to the copy any more.
            None => {
                canceller.cancel();
                running.await
            }
        };
        // The journal of a lone file lies in the user's folder.
        let is_removed = self.suite.lone.is_some() && self.options.keep.is_none();
        let _removed = is_removed.then(|| Removed(report.dir.clone()));
        if self.options.canceller.is_cancelled() {
            return Err(Stopped::Interrupted);
        }
        let journal = read_journal(&report.dir).map_err(|error| Stopped::Write {
            path: report.dir.clone(),
            source: io::Error::other(error.to_string()),
        })?;
        self.usage = self.usage.plus(report.usage);
        let expected = self.repeat.case.case.expect.fails.filter(|_| is_call);
        match &report.end {
            _ if report.halt.is_some() => self.incomplete = Some("the run was cut off"),
            End::Failed(failure) if failure.kind == FailureKind::Model && expected != Some(failure.kind) => {
                self.incomplete = Some("a model failed");
            }
            End::Suspended(_) => self.incomplete = Some("the call did not end"),
            _ if timed_out => self.incomplete = Some("the call did not end"),
            _ => {}
        }
        if self.options.answers == Answers::Update {
            let around = self.workspace.around().to_string_lossy().into_owned();
            let real = fs::canonicalize(self.workspace.around()).unwrap_or_default();
            let places = [(&*real.to_string_lossy(), "/case"), (around.as_str(), "/case")];
            self.taken
                .add(&journal.records, &places)
                .map_err(|error| Stopped::Write { path: report.dir.clone(), source: error.into() })?;
        }
        if let Some(missed) = models.as_ref().and_then(RecordedModels::missed) {
            self.missed.get_or_insert(missed);
        }
        let records = journal.records.clone();
        if let Some(keep) = &self.options.keep {
            (keep.on_run)(&KeptRun { run: &report.run, is_call, records: &records });
        }
        if let Some(what) = report.over_budget {
            return Err(Stopped::Budget(what));
        }
        if let Some(Pages { folder, template }) = &self.options.pages {
            let SuiteCase { file, case, .. } = self.repeat.case;
            let name = format!(
                "{}.{}{}.{}{}.html",
                file.replace('/', "_"),
                case.name,
                self.repeat
                    .model
                    .map(|model| format!(".{}", model.to_string().replace(['/', ':'], "_")))
                    .unwrap_or_default(),
                self.repeat.number,
                if is_call { String::new() } else { format!(".judge-{}", self.runs) },
            );
            let path = folder.join(name);
            let html = page(&WholeRun::of(&report.run, journal, false), *template);
            write_named(&path, html.as_bytes()).map_err(|source| Stopped::Write { path, source })?;
        }
        self.runs += 1;
        Ok(Ok(Made { session, report, records, timed_out }))
    }
}

/// Returns true if a case expects that the worker does not accept its input, before a model is asked.
pub(crate) fn expects_refusal(case: &Case) -> bool {
    case.expect.fails == Some(FailureKind::InvalidInput)
}

/// A folder that is removed when this value is dropped.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the complete input of the top-level call.
fn root_input(records: &[Record]) -> Option<Arc<Value>> {
    records.iter().find_map(|record| match &record.body {
        llm_do_core::journal::RecordKind::CallStarted { input, .. } => Some(Arc::clone(input)),
        _ => None,
    })
}

/// Returns true if a grant allows starting a server of a toolset or connecting to it.
fn is_for_server(grant: &Grant) -> bool {
    matches!(grant, Grant::Process(_) | Grant::Network(_))
}

fn missed(divergence: &Divergence) -> Missed {
    let chain = divergence.chain.iter().map(|name| &**name).collect::<Vec<_>>().join(" → ");
    let turn = divergence.turn().map(|turn| format!(", turn {turn}")).unwrap_or_default();
    let diff = |section: &llm_do::Section| {
        let (before, after) = (format!("recorded {}", section.name), format!("now {}", section.name));
        unified_diff(&before, &after, &section.recorded, &section.now)
    };
    Missed {
        place: format!("at {} ({chain}{turn})", divergence.path),
        diffs: sections(&divergence.what).iter().map(diff).collect(),
    }
}
