//! A tuning: the search with runs of the program.

use crate::{
    instructions::InstructionsFile,
    log::{Log, Proposal, Trial},
    options::{Options, Progress},
    problem::Problem,
    proposer::{FailedCall, message},
    refusal::{Memorised, refusal},
    report::{Compared, FORMAT, Outcome, Report},
    search::{Ended, Plan, Proposed, Searched, Trials, search},
    split::{Part, Parts},
    trace::{ending, excerpt, model_failure, trace},
};
use llm_do::{Editing, Effects, Input, Located, ModelSource, RunOptions, Session, Settings};
use llm_do_cases::{Answers, Cut, KeepRuns, KeptRun, Options as CaseOptions, Suite};
use llm_do_core::{
    call_path::CallPath,
    gate::Mode,
    journal::{Ending, Record, RecordKind},
    model::{ModelName, Usage},
    outcome::{End, FailureKind},
    price::Usd,
    schema::{canonical, sha256},
};
use llm_do_program::cases::Case;
use llm_do_records::diff::unified_diff;
use llm_do_runs::{SealKey, TUNINGS};
use serde_json::{Value, json};
use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::{BTreeMap, BTreeSet, HashSet},
    path::PathBuf,
    rc::Rc,
    sync::Arc,
};

/// The seed of the draws.
const SEED: u64 = 1;

/// A worker with its cases and the log of its tunings.
pub struct Opened {
    suite: Suite,
    worker: Arc<str>,
    file: InstructionsFile,
    /// The positions of the cases in the suite, by part.
    parts: BTreeMap<Part, Vec<usize>>,
    runs_dir: PathBuf,
    /// The log; absent if there are too few cases.
    log: Option<Log>,
}

/// A tuning for one model.
pub struct Tuning<'a> {
    opened: &'a Opened,
    log: &'a Log,
    options: &'a Options<'a>,
    session: Session,
    /// A hash of everything that decides about a run beside its instructions and its case.
    closure: String,
    memorised: Memorised,
    editing: RefCell<Editing>,
    /// The errors that the program has already.
    errors: BTreeSet<String>,
    proposer: OnceCell<Session>,
    spent: RefCell<Spent>,
    /// True from the beginning of the test at the end, for which the search leaves a part of the budget.
    is_testing: Cell<bool>,
}

/// The use of a tuning, from its beginning.
#[derive(Default)]
struct Spent {
    /// The keys that were counted.
    keys: HashSet<String>,
    usage: Usage,
    /// The usage of this command.
    paid: Usage,
    runs: u64,
    /// The cost and number of the runs of cases.
    of_cases: (Usd, u64),
}

impl Opened {
    /// Returns the files of cases. A run that could read them could read what is expected of it.
    fn cases_files(&self) -> Vec<PathBuf> {
        let files: BTreeSet<&str> = self.suite.cases.iter().map(|case| &*case.file).collect();
        files.into_iter().map(|file| self.suite.root().join(file)).collect()
    }

    /// Opens the worker that the settings name, its cases, and the log of its tunings. `make` makes the same settings each
    /// time.
    ///
    /// # Errors
    /// The program, its cases or the log can't be used.
    pub fn open(make: &dyn Fn() -> Settings) -> Result<Self, Problem> {
        let located = Located::find(make())?;
        let (source, own_runs) = (located.source().clone(), located.runs_dir().to_owned());
        let session = Session::open(make())?;
        let file = InstructionsFile::of(&source, session.entry())?;
        let suite = Suite::open(make)?;
        let worker = Arc::clone(&session.entry().id);
        let mut parts: BTreeMap<Part, Vec<usize>> = BTreeMap::new();
        for (at, case) in suite.cases.iter().enumerate().filter(|(_, case)| case.worker == worker) {
            parts.entry(Part::of(&case.case.name, &case.case.input)).or_default().push(at);
        }
        if parts.is_empty() {
            return Err(Problem::NoCases { worker: worker.to_string(), root: suite.root().to_owned() });
        }
        let place = canonical(&json!([source.identity().as_str(), worker]));
        let name = format!("{}-{}", slug(&worker), &sha256(place.as_bytes())[..8]);
        let runs_dir = own_runs.join(TUNINGS).join(&name);
        let mut this = Self { suite, worker, file, parts, runs_dir, log: None };
        if this.parts().too_few().is_none() {
            let key = SealKey::of(session.home())
                .map_err(|source| Problem::State { path: session.home().to_owned(), source })?;
            this.log = Some(Log::open(&own_runs, &name, &key)?);
        }
        Ok(this)
    }

    /// Returns the worker's ID.
    pub fn worker(&self) -> &str {
        &self.worker
    }

    /// Returns the numbers of cases.
    pub fn parts(&self) -> Parts {
        let count = |part| self.of(part).len();
        Parts { train: count(Part::Train), validation: count(Part::Validation), test: count(Part::Test) }
    }

    /// Returns the largest number of runs of the worker in that many rounds, those of judges left out.
    pub fn most_runs(&self, rounds: u32) -> u64 {
        let repeats = |part| self.cases(part).map(|case| u64::from(case.repeat)).sum::<u64>();
        let batch = self.cases(Part::Train).map(|case| u64::from(case.repeat)).max().unwrap_or_default() * 6;
        let all = repeats(Part::Validation) * (u64::from(rounds) + 1) + batch * u64::from(rounds);
        all + 2 * repeats(Part::Test) + u64::from(rounds)
    }

    fn of(&self, part: Part) -> &[usize] {
        self.parts.get(&part).map(Vec::as_slice).unwrap_or_default()
    }

    fn cases(&self, part: Part) -> impl Iterator<Item = &Arc<Case>> {
        self.of(part).iter().map(|at| &self.suite.cases[*at].case)
    }

    /// Returns the report of a worker with too few cases, for which nothing runs.
    pub fn too_few(&self) -> Option<Report> {
        let reason = self.parts().too_few()?;
        Some(self.report(Outcome::Undecided, reason))
    }

    fn report(&self, outcome: Outcome, reason: String) -> Report {
        Report {
            format: FORMAT,
            worker: self.worker.to_string(),
            file: self.file.path.clone(),
            model: None,
            proposer: None,
            cases: self.parts(),
            outcome,
            reason,
            ended: None,
            rounds: Vec::new(),
            candidates: 0,
            front: 0,
            validation: None,
            test: None,
            test_uses: self.log.as_ref().map_or(0, Log::tests),
            runs: 0,
            usage: Usage::default(),
            paid_usd: None,
            runs_dir: self.runs_dir.clone(),
            diff: String::new(),
            instructions: None,
            written: false,
            test_scores: Vec::new(),
        }
    }

    /// Writes the instructions of a report into the file, if they are a gain.
    ///
    /// # Errors
    /// The file has changed since [`Opened::open`], or can't be written.
    pub fn write(&self, report: &mut Report) -> Result<(), Problem> {
        if let (Outcome::Gain, Some(instructions)) = (report.outcome, &report.instructions) {
            self.file.write(instructions)?;
            report.written = true;
        }
        Ok(())
    }
}

/// Returns a name of a file for a worker's ID.
fn slug(worker: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    worker.chars().take(60).map(plain).collect()
}

impl<'a> Tuning<'a> {
    /// Prepares a tuning. `None`: there are too few cases ([`Opened::too_few`]).
    ///
    /// # Errors
    /// The program can't be used.
    pub fn new(opened: &'a Opened, options: &'a Options<'a>) -> Result<Option<Self>, Problem> {
        let Some(log) = &opened.log else { return Ok(None) };
        let session = opened_with((options.settings)(), opened.file.texts("x"), &opened.worker)?;
        let judges: BTreeSet<&str> = Part::ALL
            .into_iter()
            .flat_map(|part| opened.cases(part))
            .filter_map(|case| case.expect.judge.as_ref().map(|(judge, _)| judge.as_str()))
            .collect();
        let mut closures = vec![session.closure_sha256()];
        for judge in judges {
            closures.push(session.worker(judge)?.closure_sha256());
        }
        let cases = Part::ALL.into_iter().flat_map(|part| opened.cases(part));
        let memorised = Memorised::of(cases.map(|case| &**case), &opened.file.instructions());
        let mut editing = Editing::open(&(options.settings)())?;
        let errors = errors(&mut editing, BTreeMap::new()).into_iter().collect();
        Ok(Some(Self {
            opened,
            log,
            options,
            session,
            closure: sha256(closures.join("\n").as_bytes()),
            memorised,
            editing: RefCell::new(editing),
            errors,
            proposer: OnceCell::new(),
            spent: RefCell::default(),
            is_testing: Cell::default(),
        }))
    }

    /// Returns the models that are asked: those of the worker and of the proposer.
    pub fn models(&self) -> Vec<ModelName> {
        let mut names = self.session.model_names();
        names.extend(self.proposer_model());
        names.dedup();
        names
    }

    /// Returns true if the price of a model is known.
    pub fn is_priced(&self, name: &ModelName) -> bool {
        name.is_free() || self.session.terms(name).price.is_some()
    }

    fn proposer_model(&self) -> Option<ModelName> {
        self.options.proposer_model.clone().or_else(|| self.session.model_name())
    }

    /// Searches, and measures the result with the test split.
    ///
    /// # Errors
    /// A run can't be made, the limit of the cost was reached during the test, or the command was interrupted.
    pub async fn run(&self) -> Result<Report, Problem> {
        let parts = self.opened.parts();
        let plan = Plan {
            train: parts.train,
            validation: parts.validation,
            rounds: self.options.rounds,
            seed: SEED,
        };
        let searched = search(self, plan, self.opened.file.instructions()).await?;
        self.is_testing.set(true);
        let mut report = self.opened.report(Outcome::NoReliableGain, String::new());
        report.ended = Some(searched.ended);
        (report.candidates, report.front) = (searched.candidates.len(), searched.front());
        report.rounds.clone_from(&searched.rounds);
        self.judge(&mut report, &searched).await?;
        report.model = self.session.model_name().map(|name| name.to_string());
        report.proposer = self.proposer_model().map(|name| name.to_string());
        report.test_uses = self.log.tests();
        let spent = self.spent.borrow();
        (report.runs, report.usage, report.paid_usd) = (spent.runs, spent.usage, spent.paid.cost_usd);
        Ok(report)
    }

    /// Compares the best candidate with the first.
    async fn judge(&self, report: &mut Report, searched: &Searched) -> Result<(), Problem> {
        let Some(best) = searched.best() else {
            report.outcome = Outcome::Undecided;
            report.reason =
                "--max-cost does not suffice for the validation split and the test at the end".into();
            return Ok(());
        };
        let (first, best) = (&searched.candidates[0], &searched.candidates[best]);
        report.validation = Some(Compared::of(&first.scores, &best.scores));
        if first.instructions == best.instructions {
            report.reason = match searched.ended {
                Ended::Perfect => "the worker passes all validation cases: there is nothing to gain".into(),
                Ended::NoFailures => {
                    "the worker passes all train cases: there is nothing to learn from".into()
                }
                Ended::Budget if searched.rounds.is_empty() => {
                    report.outcome = Outcome::Undecided;
                    "--max-cost does not suffice for a proposal and the test at the end".into()
                }
                _ => "no proposal passes more validation cases".into(),
            };
            if self.options.always_tests {
                report.test_scores = self.test(&first.instructions).await?;
                report.test = Some(Compared::of(&report.test_scores, &report.test_scores));
            }
            return Ok(());
        }
        let key = self.key(&json!(["test", first.instructions, best.instructions]));
        let looks = self.log.tested(key)?;
        let before = self.test(&first.instructions).await?;
        report.test_scores = self.test(&best.instructions).await?;
        let test = Compared::of(&before, &report.test_scores);
        report.outcome = Outcome::of(&test, looks);
        report.reason = match report.outcome {
            Outcome::Gain => "the changed instructions pass more test cases".into(),
            _ if looks > 1 && test.better > test.worse => format!(
                "the test split does not confirm the gain; it was used {looks} times, so more is needed"
            ),
            _ => "the test split does not confirm the gain of the validation split".into(),
        };
        if report.outcome == Outcome::Gain {
            let file = &self.opened.file;
            let after = file.with(&best.instructions);
            report.diff = unified_diff(&file.path, &file.path, file.text(), &after);
            report.instructions = Some(best.instructions.to_string());
        }
        report.test = Some(test);
        Ok(())
    }

    /// Scores instructions on the test split.
    async fn test(&self, instructions: &str) -> Result<Vec<f64>, Problem> {
        let mut scores = Vec::new();
        for at in self.opened.of(Part::Test) {
            scores.push(self.score(instructions, *at).await?);
        }
        Ok(scores)
    }

    /// Scores instructions on a case of the suite.
    async fn score(&self, instructions: &str, at: usize) -> Result<f64, Problem> {
        let repeats = self.opened.suite.cases[at].case.repeat.max(1);
        let mut passed = 0;
        for number in 1..=repeats {
            passed += u32::from(self.trial(instructions, at, number).await?.pass);
        }
        Ok(f64::from(passed) / f64::from(repeats))
    }

    fn key(&self, what: &Value) -> String {
        sha256(canonical(&json!([self.closure, what])).as_bytes())[..32].to_owned()
    }

    fn trial_key(&self, instructions: &str, at: usize, number: u32) -> String {
        let case = &self.opened.suite.cases[at];
        self.key(&json!(["case", instructions, placeless(&case.file, &case.case), number]))
    }

    /// Returns the result of a repeat of a case: the one in the log, or that of a run.
    async fn trial(&self, instructions: &str, at: usize, number: u32) -> Result<Rc<Trial>, Problem> {
        let key = self.trial_key(instructions, at, number);
        let mut before = Usage::default();
        if let Some(trial) = self.log.trial(&key) {
            self.spend(&key, trial.usage, true, false);
            if !trial.cut {
                return Ok(trial);
            }
            before = trial.usage;
        }
        let left = self.left();
        if left == Some(Usd::ZERO) {
            return Err(Problem::Cost);
        }
        let kept: RefCell<Kept> = RefCell::default();
        let keep = KeepRuns { dir: self.opened.runs_dir.clone(), on_run: &|run| kept.borrow_mut().add(run) };
        let options = CaseOptions {
            settings: self.options.settings,
            answers: Answers::Live,
            models: Vec::new(),
            repeat: Some(1),
            max_cost: left,
            pages: None,
            left_out: self.opened.cases_files(),
            on_case: &|_| {},
            on_repeat: &|_, _| {},
            prune: false,
            texts: self.opened.file.texts(instructions),
            keep: Some(keep),
            canceller: self.options.canceller.clone(),
        };
        let ran = self.opened.suite.run(&[at], &options).await.map_err(Problem::Case)?;
        let kept = kept.take();
        let report = ran.report.cases.into_iter().next().and_then(|case| case.runs.into_iter().next());
        let is_model = self.opened.suite.cases[at].case.expect.fails == Some(FailureKind::Model);
        let Some(report) = report.filter(|_| !kept.is_cut) else {
            // Without a report, the limit or the operator has ended the run.
            if self.options.canceller.is_cancelled() {
                return Err(Problem::Interrupted);
            }
            self.spend(&key, kept.usage, true, true);
            let usage = before.plus(kept.usage);
            self.log.ran(key, Trial { run: kept.run, cut: true, usage, ..Trial::default() })?;
            return Err(match ran.cut {
                Some(Cut::Budget(what)) => Problem::Budget(what),
                _ => Problem::Cost,
            });
        };
        if let Some(failure) = kept.model_failure.filter(|_| !is_model) {
            return Err(Problem::Model(failure));
        }
        let trial = Trial {
            run: kept.run,
            pass: report.pass,
            cut: false,
            failures: report.failures,
            expected: report.differs.map(|differs| differs.expected),
            output: kept.output,
            trace: kept.trace,
            usage: before.plus(report.usage),
        };
        self.spend(&key, report.usage, true, true);
        self.log.ran(key, trial)
    }

    /// Counts a result once.
    fn spend(&self, key: &str, usage: Usage, of_case: bool, paid: bool) {
        let mut spent = self.spent.borrow_mut();
        if paid {
            spent.paid = spent.paid.plus(usage);
        }
        if !spent.keys.insert(key.to_owned()) && !paid {
            return;
        }
        spent.usage = spent.usage.plus(usage);
        spent.runs += 1;
        if of_case {
            let (cost, number) = spent.of_cases;
            spent.of_cases = (cost.plus(usage.cost_usd.unwrap_or_default()), number + 1);
        }
    }

    /// Returns the cost that is left for the next run.
    fn left(&self) -> Option<Usd> {
        let cost = self.spent.borrow().usage.cost_usd.unwrap_or_default();
        let reserved = if self.is_testing.get() { Usd::ZERO } else { self.reserved() };
        self.options.max_cost.map(|most| most.minus(cost).minus(reserved))
    }

    /// Returns the estimated cost of the test at the end.
    fn reserved(&self) -> Usd {
        let (cost, number) = self.spent.borrow().of_cases;
        let repeats: u32 = self.opened.cases(Part::Test).map(|case| case.repeat).sum();
        let mean = cost.as_dollars() / number.max(1) as f64;
        // The runs of the test are not all like the mean: a fifth more.
        Usd::dollars(mean * f64::from(repeats) * 2.4).unwrap_or_default()
    }

    fn proposer(&self) -> Result<&Session, Problem> {
        if let Some(session) = self.proposer.get() {
            return Ok(session);
        }
        let mut settings = (self.options.proposer)().with_providers_of(self.session.program());
        settings.run.model = self.proposer_model();
        // The proposer is another program, and works for this one.
        settings.run.budgets_of = Some(self.opened.suite.counted().to_owned());
        let options = settings.run.clone();
        let located = Located::find(settings)?.recorded_in(self.opened.runs_dir.clone());
        let loaded = located.load(Effects::Allowed, &options)?;
        let session = loaded.grant(options, ModelSource::Providers)?.open()?;
        Ok(self.proposer.get_or_init(|| session))
    }

    /// Returns the answer of the proposer: the one in the log, or that of a run.
    async fn proposal(&self, round: u32, message: String) -> Result<Rc<Proposal>, Problem> {
        let session = self.proposer()?;
        let key = self.key(&json!(["proposal", session.closure_sha256(), round, message]));
        let mut before = Usage::default();
        if let Some(proposal) = self.log.proposal(&key) {
            self.spend(&key, proposal.usage, false, false);
            if !proposal.cut {
                return Ok(proposal);
            }
            before = proposal.usage;
        }
        let left = self.left();
        if left == Some(Usd::ZERO) {
            return Err(Problem::Cost);
        }
        let mut options = RunOptions { mode: Some(Mode::AutoDeny), ..session.options().clone() };
        options.budget.max_cost_usd = left;
        let input = Input { message: Some(message), ..Input::default() };
        let run = session.with_options(options)?.start(&input, None, None)?;
        let canceller = run.canceller();
        let mut running = Box::pin(run.finish());
        let report = tokio::select! {
            biased;
            () = self.options.canceller.cancelled() => {
                canceller.cancel();
                running.await
            }
            report = &mut running => report,
        };
        if self.options.canceller.is_cancelled() {
            return Err(Problem::Interrupted);
        }
        let usage = before.plus(report.usage);
        let mut proposal = Proposal { run: Some(report.run.to_string()), usage, ..Proposal::default() };
        match &report.end {
            _ if report.over_budget.is_some() => proposal.cut = true,
            End::Done(output) => {
                let text = output.get("instructions").and_then(Value::as_str);
                proposal.instructions = text.map(|text| text.trim().replace("\r\n", "\n"));
            }
            End::Failed(failure) if failure.kind == FailureKind::Model => {
                return Err(Problem::Model(failure.to_string()));
            }
            End::Failed(failure) if failure.kind == FailureKind::Limit && left.is_some() => {
                proposal.cut = true;
            }
            End::Failed(failure) => proposal.failure = Some(format!("the proposer failed: {failure}")),
            End::Suspended(_) => proposal.failure = Some("the proposer waits for an operator".into()),
        }
        self.spend(&key, report.usage, false, true);
        let proposal = self.log.proposed(key, proposal)?;
        match report.over_budget {
            Some(what) => Err(Problem::Budget(what)),
            None if proposal.cut => Err(Problem::Cost),
            None => Ok(proposal),
        }
    }

    /// Returns the first error that `check` finds with these instructions and not without.
    fn check(&self, instructions: &str) -> Option<String> {
        let found = errors(&mut self.editing.borrow_mut(), self.opened.file.texts(instructions));
        let new = found.into_iter().find(|error| !self.errors.contains(error))?;
        Some(format!("`llm-do check` finds an error: {new}"))
    }
}

impl Trials for Tuning<'_> {
    type Error = Problem;

    async fn train(&self, instructions: &Arc<str>, case: usize) -> Result<f64, Problem> {
        self.score(instructions, self.opened.of(Part::Train)[case]).await
    }

    async fn validation(&self, instructions: &Arc<str>, case: usize) -> Result<f64, Problem> {
        self.score(instructions, self.opened.of(Part::Validation)[case]).await
    }

    async fn propose(
        &self,
        round: u32,
        instructions: &Arc<str>,
        failed: &[usize],
        refused: Option<&str>,
    ) -> Result<Proposed, Problem> {
        let mut calls = Vec::new();
        for case in failed {
            let at = self.opened.of(Part::Train)[*case];
            let case = &self.opened.suite.cases[at].case;
            for number in 1..=case.repeat.max(1) {
                let trial = self.trial(instructions, at, number).await?;
                if !trial.pass {
                    calls.push(FailedCall {
                        input: (*case.input).clone(),
                        output: trial.output.clone(),
                        expected: trial.expected.clone(),
                        reasons: trial.failures.iter().map(|failure| excerpt(failure)).collect(),
                        trace: trial.trace.clone(),
                    });
                    break;
                }
            }
        }
        let proposal = self.proposal(round, message(instructions, &calls, refused)).await?;
        let text = match (&proposal.instructions, &proposal.failure) {
            (Some(text), _) => text,
            (None, Some(failure)) => return Ok(Proposed::Refused(failure.clone())),
            (None, None) => return Ok(Proposed::Refused("the proposer gave no instructions".into())),
        };
        let first = self.opened.file.instructions();
        let check = || self.check(text);
        Ok(match refusal(text, &first, &self.memorised, self.options.max_growth, check) {
            Some(reason) => Proposed::Refused(reason),
            None => Proposed::Instructions(text.as_str().into()),
        })
    }

    fn is_spent(&self) -> bool {
        self.left() == Some(Usd::ZERO)
    }

    fn is_budget(&self, error: &Problem) -> bool {
        matches!(error, Problem::Cost)
    }

    fn progress(&self, state: &Searched) {
        let sum = |at: usize| state.candidates.get(at).map_or(0.0, crate::search::Candidate::sum);
        (self.options.on_progress)(&Progress {
            rounds: state.rounds.len(),
            of: self.options.rounds,
            front: state.front(),
            first: sum(0),
            best: sum(state.best().unwrap_or_default()),
            validation: self.opened.of(Part::Validation).len(),
            usage: self.spent.borrow().usage,
        });
    }
}

/// The runs of one repeat, as far as a tuning keeps them.
#[derive(Default)]
struct Kept {
    run: Option<String>,
    output: Option<Value>,
    trace: String,
    usage: Usage,
    /// The reason why a model could not be asked.
    model_failure: Option<String>,
    /// True if a limit ended the judge.
    is_cut: bool,
}

impl Kept {
    fn add(&mut self, run: &KeptRun<'_>) {
        if let Some(failure) = model_failure(run.records) {
            self.model_failure = Some(failure.to_string());
        }
        let root = CallPath::root();
        let of_root = |record: &&Record| record.path == root;
        for record in run.records.iter().filter(of_root) {
            if let RecordKind::CallEnded { usage, .. } = &record.body {
                self.usage = self.usage.plus(*usage);
            }
        }
        match (run.is_call, ending(run.records)) {
            (false, Some(Ending::Failure(failure))) => self.is_cut |= failure.kind == FailureKind::Limit,
            (true, end) => {
                self.run = Some(run.run.to_owned());
                self.trace = trace(run.records);
                if let Some(Ending::Output(output)) = end {
                    self.output = Some((**output).clone());
                }
            }
            _ => {}
        }
    }
}

/// Opens the program with these texts, and with that worker as its entry.
fn opened_with(
    settings: Settings,
    texts: BTreeMap<String, String>,
    worker: &str,
) -> Result<Session, Problem> {
    let options = settings.run.clone();
    let loaded = Located::find(settings)?.edited(texts, worker).load(Effects::Allowed, &options)?;
    Ok(loaded.grant(options, ModelSource::Providers)?.open()?)
}

/// Returns the errors of a program with these texts.
fn errors(editing: &mut Editing, texts: BTreeMap<String, String>) -> Vec<String> {
    let found = editing.findings(texts).into_iter().filter(llm_do::Diagnostic::is_error);
    found.map(|error| format!("{} {}", error.code, error.message)).collect()
}

/// Formats a case without the places in its file, so that other cases can move it.
fn placeless(file: &str, case: &Case) -> String {
    let text = format!("{case:?}");
    let place = format!("{file}:Some(");
    let mut pieces = text.split(&*place);
    let mut placeless = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        placeless.push_str(piece.split_once(')').map_or(piece, |(_, rest)| rest));
    }
    placeless
}
