//! The results of `llm-do test` in the projects of a service.

use super::Service;
use crate::{
    error::{ApiError, Code},
    program::Served,
    token::{OPERATOR, Token},
};
use llm_do::{
    core::{model::Usage, price::Usd},
    runs::SealKey,
};
use llm_do_cases::{
    CaseReport, RunReport,
    baseline::{Change, Compared, Comparison},
    kept::{KeptCase, KeptTest},
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// Commands `llm-do test`.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Tests {
    /// The commands that are kept, newest first.
    pub(crate) tests: Vec<TestSummary>,
}

/// Whether a command is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CommandState {
    /// It is at work.
    Running,
    /// It has ended.
    Ended,
    /// It ended without a result: it was killed, for example.
    CutOff,
}

/// A command `llm-do test`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct TestSummary {
    /// Its ID.
    pub(crate) test: String,
    /// When it began, in milliseconds since 1970.
    pub(crate) began_ms: u64,
    /// Whether it is at work.
    pub(crate) state: CommandState,
    /// What ended it before all cases had run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cut: Option<String>,
    /// How many cases it has, each with each model.
    pub(crate) cases: u64,
    /// How many of them have passed.
    pub(crate) passed: u64,
    /// How many of them have failed.
    pub(crate) failed: u64,
    /// Cases that are worse than in the baseline; absent without a baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) worse: Option<u64>,
    /// The file of the baseline, as typed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) baseline: Option<String>,
    /// What its models cost, in US dollars, once it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cost_usd: Option<f64>,
}

/// A command `llm-do test` with its cases.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct TestView {
    /// The command.
    pub(crate) test: TestSummary,
    /// Its cases, in the order in which they run.
    pub(crate) cases: Vec<TestCase>,
    /// Cases of the baseline that the command did not have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) gone: Vec<TestCompared>,
}

/// A case with its results so far.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct TestCase {
    /// The file of cases, relative to the program's root.
    pub(crate) file: String,
    /// The worker.
    pub(crate) worker: String,
    /// The case.
    pub(crate) case: String,
    /// The model, if several were asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// Whether the answers came from recordings.
    pub(crate) recorded: bool,
    /// The folder of its recordings, relative to the program's root, if it has some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) recordings: Option<String>,
    /// How many repeats passed.
    pub(crate) passed: u64,
    /// How many repeats have ended.
    pub(crate) of: u64,
    /// How many repeats there are to be.
    pub(crate) repeats: u64,
    /// The lower end of the interval of 95 % of the share that passes.
    pub(crate) low: f64,
    /// Its upper end.
    pub(crate) high: f64,
    /// The repeats that have ended.
    pub(crate) runs: Vec<TestRun>,
    /// The comparison with the baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) compared: Option<TestCompared>,
}

/// A repeat of a case.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct TestRun {
    /// Whether everything held.
    pub(crate) pass: bool,
    /// What did not hold.
    pub(crate) failures: Vec<String>,
    /// The output with each part that does not match replaced by what the case expects, if the output does not match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expected: Option<Value>,
    /// The output that does not match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Value>,
    /// Where a request is not the recorded one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) place: Option<String>,
    /// What differs there, each as a unified diff.
    pub(crate) diffs: Vec<String>,
    /// What the models used.
    pub(crate) usage: Usage,
    /// How long it took, if models were asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) took_ms: Option<u64>,
}

/// How a case compares with the baseline.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct TestCompared {
    /// The file of cases.
    pub(crate) file: String,
    /// The case.
    pub(crate) case: String,
    /// How it compares.
    pub(crate) change: ChangeView,
    /// How many repeats passed before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) passed_before: Option<u64>,
    /// How many repeats there were before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) of_before: Option<u64>,
    /// How likely chance alone would make so large a difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p: Option<f64>,
}

/// How a case compares with before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ChangeView {
    /// It passes less often.
    Worse,
    /// It passes more often.
    Better,
    /// It passes as often.
    Same,
    /// It differs, and with so few repeats that may be chance.
    Undecided,
    /// There was no such case.
    New,
    /// There is no such case any more.
    Gone,
}

impl From<Change> for ChangeView {
    fn from(change: Change) -> Self {
        match change {
            Change::Worse => Self::Worse,
            Change::Better => Self::Better,
            Change::Same => Self::Same,
            Change::Undecided => Self::Undecided,
            Change::New => Self::New,
            Change::Gone => Self::Gone,
        }
    }
}

impl From<&Compared> for TestCompared {
    fn from(compared: &Compared) -> Self {
        Self {
            file: compared.file.clone(),
            case: compared.case.clone(),
            change: compared.change.into(),
            passed_before: compared.before.map(|(passed, _)| passed),
            of_before: compared.before.map(|(_, of)| of),
            p: compared.p,
        }
    }
}

impl From<RunReport> for TestRun {
    fn from(run: RunReport) -> Self {
        let (expected, output) = run.differs.map(|differs| (differs.expected, differs.output)).unzip();
        let (place, diffs) = run.missed.map(|missed| (missed.place, missed.diffs)).unzip();
        Self {
            pass: run.pass,
            failures: run.failures,
            expected,
            output,
            place,
            diffs: diffs.unwrap_or_default(),
            usage: run.usage,
            took_ms: run.took_ms,
        }
    }
}

fn summary(kept: &KeptTest) -> TestSummary {
    let count =
        |so: fn(&CaseReport) -> bool| kept.cases.iter().filter(|case| so(&case.report)).count() as u64;
    let end = kept.end.as_ref();
    let is_worse = |compared: &&Compared| compared.change == Change::Worse;
    let worse = |comparison: &Comparison| comparison.cases.iter().filter(is_worse).count() as u64;
    TestSummary {
        test: kept.id.clone(),
        began_ms: kept.began_ms,
        state: match (kept.is_running, end) {
            (true, _) => CommandState::Running,
            (false, Some(_)) => CommandState::Ended,
            (false, None) => CommandState::CutOff,
        },
        cut: end.and_then(|end| end.cut.clone()),
        cases: kept.cases.len() as u64,
        passed: kept.cases.iter().filter(|case| is_over(case) && case.report.passes()).count() as u64,
        failed: count(CaseReport::fails),
        worse: end.and_then(|end| end.comparison.as_ref()).map(worse),
        baseline: end.and_then(|end| end.baseline.clone()),
        cost_usd: end.and_then(|end| end.cost_usd).map(Usd::as_dollars),
    }
}

/// Whether all repeats of a case have ended.
fn is_over(case: &KeptCase) -> bool {
    case.report.of >= u64::from(case.repeats)
}

fn view(kept: KeptTest) -> TestView {
    let test = summary(&kept);
    let compared = kept.end.and_then(|end| end.comparison).map(|comparison| comparison.cases);
    let compared = compared.unwrap_or_default();
    let of = |report: &CaseReport| {
        let same = |one: &&Compared| {
            (&one.file, &one.case, &one.model) == (&report.file, &report.case, &report.model)
        };
        compared.iter().find(same).map(TestCompared::from)
    };
    let case = |KeptCase { report, repeats, recordings }: KeptCase| TestCase {
        compared: of(&report),
        file: report.file,
        worker: report.worker,
        case: report.case,
        model: report.model,
        recorded: report.recorded,
        recordings,
        passed: report.passed,
        of: report.of,
        repeats: repeats.into(),
        low: report.interval.0,
        high: report.interval.1,
        runs: report.runs.into_iter().map(TestRun::from).collect(),
    };
    let cases = kept.cases.into_iter().map(case).collect();
    let gone = compared.iter().filter(|one| one.change == Change::Gone).map(TestCompared::from).collect();
    TestView { test, cases, gone }
}

impl Service {
    /// The commands `llm-do test` of a project.
    pub(crate) async fn tests(&self, token: &Token, program: &str) -> Result<Tests, ApiError> {
        let Some((program, key)) = self.kept_of(token, program)? else { return Ok(Tests::default()) };
        let read = spawn_blocking(move || {
            let runs_dir = program.runs_dir();
            let mut tests = Vec::new();
            for id in KeptTest::ids(runs_dir)? {
                // A log that can't be read is not one of those that can.
                tests.extend(KeptTest::read(runs_dir, &id, &key).ok().flatten().as_ref().map(summary));
            }
            Ok::<_, std::io::Error>(Tests { tests })
        });
        read.await.map_err(ApiError::internal)?.map_err(ApiError::internal)
    }

    /// A command `llm-do test` with its cases.
    pub(crate) async fn test(&self, token: &Token, program: &str, id: String) -> Result<TestView, ApiError> {
        let none = || ApiError::new(Code::NotFound, format!("there is no test `{id}`"));
        let (program, key) = self.kept_of(token, program)?.ok_or_else(none)?;
        let of = id.clone();
        let read = spawn_blocking(move || KeptTest::read(program.runs_dir(), &of, &key));
        let kept = read.await.map_err(ApiError::internal)?.map_err(ApiError::internal)?;
        kept.map(view).ok_or_else(none)
    }

    /// A project whose logs of commands a client may see, with the key that has sealed them. `None`: it may see none.
    ///
    /// # Errors
    /// There is no such program that it may use.
    pub(super) fn kept_of(
        &self,
        token: &Token,
        program: &str,
    ) -> Result<Option<(Arc<Served>, SealKey)>, ApiError> {
        let program = self.program(token, Some(program))?;
        let sees = program.is_project() && token.sees(program.name().as_str(), OPERATOR);
        Ok(self.0.listing.key().filter(|_| sees).map(|key| (program, key.clone())))
    }
}
