//! `llm-do tune`: better instructions of a worker, from its cases.

mod shown;

use crate::{
    args::{ApprovalMode, Format, ModelFlags, ProgramFlags, RunArgs, TuneArgs},
    exit::{Complaint, Exit},
    interrupt::Interrupts,
    max_cost::MaxCost,
    opening::{NotReady, said, settings, surrounded},
    program::{home, shipped_worker},
    render::Output,
    terminal::Terminal,
};
use llm_do::{
    Canceller, Settings,
    core::{model::ModelName, price::Usd},
};
use llm_do_tune::{Opened, Options, Outcome, PROPOSER, Problem, Progress, Report, Tuning, compare};
use serde_json::json;
use std::sync::Arc;

/// Runs the command.
pub(crate) fn run(args: &TuneArgs, output: &Output) -> Exit {
    tuned(args, output).unwrap_or_else(|not_ready| said(not_ready, output))
}

fn tuned(args: &TuneArgs, output: &Output) -> Result<Exit, NotReady> {
    if args.approval.operator.is_some() || matches!(args.approval.mode, Some(ApprovalMode::Interactive)) {
        return Err(Complaint::wrong(
            "a tuning has no operator to ask: --operator and --approval interactive can't be used",
        )
        .hint("--allow RULE lets calls run")
        .into());
    }
    if args.write && args.models.len() > 1 {
        return Err(Complaint::wrong(
            "--write: a worker has one file, and several models have different instructions",
        )
        .hint("compare the models without --write, then tune the chosen one")
        .into());
    }
    let max_cost = args.max_cost.as_deref().map(MaxCost::parse).transpose()?;
    let proposer_model = args.proposer.as_deref().map(|name| model_name("--proposer", name)).transpose()?;
    let models = args.models.iter().map(|name| model_name("--model", name));
    let models: Vec<ModelName> = models.collect::<Result<_, _>>()?;
    surrounded()?;
    // Once for the mistakes of the command line. The same settings are made again for each run.
    let first = models.first();
    make(args, first)?;
    let opened = Opened::open(&|| again(args, first)).map_err(not_ready)?;
    if let Some(report) = opened.too_few() {
        return Ok(shown(&[report], output));
    }
    let terminal = Terminal::open();
    if terminal.is_none() && max_cost.is_none() {
        let complaint = Complaint::wrong("--max-cost is required without a terminal");
        return Err(Complaint { exit: Exit::Refused, ..complaint }
            .hint("say how much it may cost with --max-cost, such as --max-cost 5usd or --max-cost unlimited")
            .into());
    }
    let file = shipped_worker("tune", "proposer", PROPOSER)?;
    let proposer = RunArgs {
        first: Some(file.display().to_string()),
        // Beside a message, if an empty one, a word is never the message.
        second: Some(String::new()),
        program: ProgramFlags { no_project: true, ..ProgramFlags::default() },
        ..RunArgs::default()
    };
    settings(&proposer)?;
    let proposer = || settings(&proposer).unwrap_or_else(|_| Settings::for_target("."));
    let canceller = Canceller::default();
    let interrupts = Interrupts::listen(terminal.clone())
        .map_err(|error| Complaint::failed(format!("cannot listen to signals: {error}")))?;
    let cancel = canceller.clone();
    interrupts.on_first(move || cancel.cancel());
    if max_cost.is_none() && !wants(args, &opened, terminal.as_ref(), output) {
        return Ok(if canceller.is_cancelled() { Exit::Interrupted } else { Exit::Refused });
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Complaint::failed(format!("cannot start: {error}")))?;
    let count = args.models.len().max(1);
    let max_cost = match max_cost {
        Some(MaxCost::Dollars(dollars)) => Usd::dollars(dollars / count as f64),
        Some(MaxCost::Unlimited) | None => None,
    };
    let mut reports: Vec<Report> = Vec::new();
    let which: Vec<Option<&ModelName>> =
        if models.is_empty() { vec![None] } else { models.iter().map(Some).collect() };
    for model in which {
        let tell = |progress: &Progress| {
            if !output.quiet {
                output.line(&shown::progress(progress, model.filter(|_| count > 1)));
            }
        };
        let options = Options {
            settings: &|| again(args, model),
            proposer: &proposer,
            proposer_model: proposer_model.clone(),
            max_cost,
            rounds: args.rounds,
            max_growth: args.max_growth,
            always_tests: count > 1,
            on_progress: &tell,
            canceller: canceller.clone(),
        };
        let Some(tuning) = Tuning::new(&opened, &options).map_err(not_ready)? else { continue };
        if max_cost.is_some() {
            check_prices(&tuning)?;
        }
        reports.push(match runtime.block_on(tuning.run()) {
            Ok(report) => report,
            Err(Problem::Interrupted) => {
                output.note("interrupted: the same command continues");
                return Ok(Exit::Interrupted);
            }
            Err(problem) => return Err(not_ready(problem)),
        });
    }
    // What was cut off is not waited for.
    runtime.shutdown_background();
    let written = match (args.write, reports.as_mut_slice()) {
        (true, [report]) => opened.write(report),
        _ => Ok(()),
    };
    let exit = shown(&reports, output);
    match written {
        Ok(()) => Ok(exit),
        Err(problem) => Err(not_ready(problem)),
    }
}

/// Returns the settings of a run, without an operator.
fn make(args: &TuneArgs, model: Option<&ModelName>) -> Result<Settings, Complaint> {
    settings(&RunArgs {
        first: Some(args.target.clone()),
        // Beside a message, if an empty one, a word is never the message.
        second: Some(String::new()),
        program: args.program.clone(),
        model: ModelFlags { name: model.map(ToString::to_string), set: args.set.clone() },
        approval: args.approval.clone(),
        ..RunArgs::default()
    })
}

fn again(args: &TuneArgs, model: Option<&ModelName>) -> Settings {
    make(args, model).unwrap_or_else(|_| Settings::for_target("."))
}

fn model_name(flag: &str, name: &str) -> Result<ModelName, Complaint> {
    name.parse().map_err(|error| Complaint::wrong(format!("{flag}: {error}")))
}

/// Checks that prices are known if the cost is limited.
fn check_prices(tuning: &Tuning<'_>) -> Result<(), Complaint> {
    match tuning.models().into_iter().find(|name| !tuning.is_priced(name)) {
        None => Ok(()),
        Some(name) => Err(Complaint::wrong(format!("--max-cost: the price of {name} is not known"))
            .hint(format!("set it under `prices` in {}", home().join("config.yaml").display()))
            .hint("or accept any cost: --max-cost unlimited")),
    }
}

/// Asks if the tuning is to begin without a limit of its cost.
fn wants(args: &TuneArgs, opened: &Opened, terminal: Option<&Arc<Terminal>>, output: &Output) -> bool {
    let Some(terminal) = terminal else { return false };
    let runs = opened.most_runs(args.rounds) * args.models.len().max(1) as u64;
    let question =
        format!("Tune `{}` with at most {runs} runs, without a limit of their cost?\n", opened.worker());
    let _paused = output.screen.pause();
    let keys = [('y', "yes"), ('n', "no")];
    terminal.choose(move |_| question.clone(), &keys, output.err) == Some('y')
}

/// Shows the reports, and returns the exit code.
fn shown(reports: &[Report], output: &Output) -> Exit {
    let differences = compare(reports);
    if output.format == Format::Text {
        for report in reports {
            output.print(&shown::report(report, reports.len() > 1, output.out));
        }
        output.print(&shown::differences(&differences));
    } else {
        match reports {
            [report] => output.print_json(&serde_json::to_value(report).unwrap_or_default()),
            reports => output.print_json(&json!({"models": reports, "differences": differences})),
        }
    }
    let is_cut = |report: &Report| report.outcome == Outcome::Undecided && report.ended.is_some();
    if reports.iter().any(is_cut) { Exit::Limit } else { Exit::Done }
}

fn not_ready(problem: Problem) -> NotReady {
    let hints = problem.hints();
    let complaint = match problem {
        Problem::Program(problem) => return problem.into(),
        Problem::Cost | Problem::Budget(_) => {
            Complaint { exit: Exit::Limit, ..Complaint::failed(problem.to_string()) }
        }
        Problem::Model(_) | Problem::State { .. } | Problem::Write { .. } | Problem::Case(_) => {
            Complaint::failed(problem.to_string())
        }
        problem => Complaint::wrong(problem.to_string()),
    };
    Complaint { hints, ..complaint }.into()
}
