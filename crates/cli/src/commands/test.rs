//! `llm-do test`: runs the cases of a program.

use crate::{
    args::{ApprovalMode, Format, ModelFlags, RunArgs, TestArgs},
    exit::{Complaint, Exit},
    interrupt::Interrupts,
    opening::{NotReady, said, settings, surrounded},
    paint::Paint,
    program::{home, show_complaint},
    render::Output,
    visible,
};
use llm_do::{
    Canceller, Located, Problem, Settings, check_named,
    core::{model::ModelName, price::Usd},
    read_regular, write_named,
};
use llm_do_cases::{
    Answers, CaseReport, Cut, Ended, Missed, Options, Pages, RunReport, Stopped, Suite, SuiteError,
    SuiteReport,
    baseline::{Change, Comparison},
    junit::junit,
    kept::{KeptEnd, TestLog},
    summary::{markdown, probability, sentence},
};
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
};
use watch::Watched;

mod watch;

/// Runs the command.
pub(crate) fn run(args: &TestArgs, output: &Output) -> Exit {
    let canceller = Canceller::default();
    let interrupts = match Interrupts::listen(None) {
        Ok(interrupts) => interrupts,
        Err(error) => {
            return show_complaint(&Complaint::failed(format!("cannot listen to signals: {error}")), output);
        }
    };
    let cancel = canceller.clone();
    interrupts.on_first(move || cancel.cancel());
    let once = || tested(args, &canceller, output).unwrap_or_else(|not_ready| said(not_ready, output));
    let watched = match args.watch.then(|| make(args).map(Located::find)) {
        Some(Ok(Ok(located))) => Watched::of(&located, args),
        // Of a program that can't be found there is nothing to watch.
        _ => return once(),
    };
    loop {
        // A change while the cases run counts too.
        let before = watched.state();
        let exit = once();
        if canceller.is_cancelled() {
            return exit;
        }
        output.note("waiting for a change; Ctrl-C ends the tests");
        watched.until_change(before, &canceller);
        if canceller.is_cancelled() {
            return Exit::Interrupted;
        }
    }
}

/// Returns the settings of a run, without an operator.
fn make(args: &TestArgs) -> Result<Settings, Complaint> {
    settings(&RunArgs {
        first: args.target.clone(),
        program: args.program.clone(),
        model: ModelFlags { name: None, set: args.set.clone() },
        approval: args.approval.clone(),
        ..RunArgs::default()
    })
}

fn tested(args: &TestArgs, canceller: &Canceller, output: &Output) -> Result<Exit, NotReady> {
    if args.approval.operator.is_some() || matches!(args.approval.mode, Some(ApprovalMode::Interactive)) {
        return Err(Complaint::wrong(
            "a test has no operator to ask: --operator and --approval interactive can't be used",
        )
        .hint("--allow RULE lets calls run")
        .into());
    }
    let models = args.models.iter().map(|name| name.parse::<ModelName>());
    let models: Vec<ModelName> =
        models.collect::<Result<_, _>>().map_err(|error| Complaint::wrong(format!("--model: {error}")))?;
    let answers = match (args.recorded, args.live, args.update) {
        (true, _, _) => Answers::Recorded,
        (_, _, true) if models.len() > 1 => {
            return Err(Complaint::wrong("--update records the answers of one model").into());
        }
        (_, _, true) => Answers::Update,
        (_, true, _) => Answers::Live,
        // A model is named to be asked.
        _ if !models.is_empty() => Answers::Live,
        _ => Answers::Either,
    };
    let max_cost = args.max_cost.as_deref().map(dollars).transpose()?;
    let baseline = args.baseline.as_deref().map(read_baseline).transpose()?;
    // Once for the mistakes of the command line. The same settings are made again for each run.
    make(args)?;
    surrounded()?;
    let again = || make(args).unwrap_or_else(|_| Settings::for_target("."));
    let suite = Suite::open(&again).map_err(|error| match error {
        SuiteError::Problem(problem) => NotReady::from(problem),
        SuiteError::None(root) => Complaint::wrong(format!("there are no cases in {}", root.display()))
            .hint("write them in WORKER.cases.yaml beside the worker, or below tests/")
            .into(),
    })?;
    let chosen = chosen(&suite, args)?;
    let left_out = reports(args)?;
    if answers == Answers::Either && !suite.has_recordings() {
        let cases = if chosen.len() == 1 { "1 case asks" } else { &*format!("{} cases ask", chosen.len()) };
        output.note(&format!(
            "no case has a recording, so {cases} models: `--update` records the answers, `--recorded` asks no model, and \
             `--max-cost USD` limits the cost"
        ));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Complaint::failed(format!("cannot start: {error}")))?;
    let tell = |case: &CaseReport| {
        if output.format == Format::Text {
            output.print(&told(case, output.out));
        }
    };
    let options = Options {
        settings: &again,
        answers,
        models,
        repeat: args.repeat,
        max_cost,
        pages: args.html.clone().map(|folder| Pages { folder, template: llm_do_serve::export_template() }),
        left_out,
        on_case: &tell,
        on_repeat: &|_, _| {},
        prune: args.cases.is_empty() && args.shard.is_none() && args.repeat.is_none(),
        texts: BTreeMap::new(),
        keep: None,
        canceller: canceller.clone(),
    };
    // The results of a project's cases are kept beside its runs, for the pages of the service.
    let located = Some(make(args)?).filter(|_| suite.is_project()).map(Located::find).transpose()?;
    let log = located.map(|located| TestLog::begin(&suite, &chosen, &options, located.runs_dir(), &home()));
    let on_repeat = |case: usize, run: &RunReport| log.iter().for_each(|log| log.repeat(case, run));
    let ran = runtime.block_on(suite.run(&chosen, &Options { on_repeat: &on_repeat, ..options }));
    let Ended { report, cut } = match ran {
        Ok(ended) => ended,
        Err(stopped) => {
            if let Some(log) = log {
                log.give_up();
            }
            return Err(match stopped {
                Stopped::Problem(problem) => not_ready(problem),
                Stopped::Hosted(_) => NotReady::from(
                    Complaint::wrong(stopped.to_string())
                        .hint(
                            "`--max-cost USD` asks it and limits the cost; `--live` asks it without a limit",
                        )
                        .hint("`--update` asks it and records the answers, from which later tests run"),
                ),
                Stopped::WritesOutside(_) => NotReady::from(Complaint::wrong(stopped.to_string())),
                other => Complaint::failed(other.to_string()).into(),
            });
        }
    };
    let comparison = baseline.map(|baseline| Comparison::of(&baseline, &report));
    let compared = args.baseline.as_deref().zip(comparison.as_ref());
    let kept = log.map_or(Ok(()), |log| log.end(KeptEnd::of(cut.as_ref(), report.cost_usd, compared)));
    if let Err(error) = kept {
        output.warn(&format!("the web app can't show these results, because they can't be kept: {error}"));
    }
    if output.format == Format::Text {
        output.print(&ending(&report, cut.as_ref(), comparison.as_ref(), output.out));
    } else {
        let mut json = serde_json::to_value(&report).unwrap_or_default();
        if let Some(comparison) = &comparison {
            json["comparison"] = serde_json::to_value(comparison).unwrap_or_default();
        }
        output.print_json(&json);
    }
    if let Some(Cut::Budget(what)) = &cut {
        let complaint = Complaint { exit: Exit::Limit, ..Complaint::failed(what.to_string()) };
        output.line(&complaint.render(output.err));
    }
    // The report is told by now, so that a disk that is full takes nothing away.
    let mut written = true;
    for (path, text) in [
        (args.junit.as_deref(), junit(&report)),
        (args.summary.as_deref(), markdown(&report, comparison.as_ref())),
    ] {
        if let Some(path) = path
            && let Err(error) = write_named(path, text.as_bytes())
        {
            let complaint = Complaint { exit: Exit::Failed, ..Complaint::unwritten(path, &error) };
            output.line(&complaint.render(output.err));
            written = false;
        }
    }
    let worse = comparison.as_ref().is_some_and(Comparison::is_worse);
    // What a cut-off run has begun is not waited for.
    runtime.shutdown_background();
    Ok(match (cut, report.passes() && !worse && written) {
        (Some(Cut::Interrupt), _) => Exit::Interrupted,
        (Some(Cut::Cost | Cut::Budget(_)), _) => Exit::Limit,
        (None, true) => Exit::Done,
        (None, false) => Exit::Failed,
    })
}

fn not_ready(problem: Problem) -> NotReady {
    NotReady::from(problem)
}

fn dollars(text: &str) -> Result<Usd, Complaint> {
    let amount = text.trim().trim_end_matches("usd").trim().parse().ok().and_then(Usd::dollars);
    amount.ok_or_else(|| {
        Complaint::wrong(format!("--max-cost: `{text}` is no amount of US dollars"))
            .hint("for example --max-cost 1.50")
    })
}

/// The largest baseline that is read, in bytes.
const LARGEST_BASELINE: u64 = 256 << 20;

fn read_baseline(path: &Path) -> Result<SuiteReport, Complaint> {
    let wrong = |reason: String| {
        Complaint::wrong(format!("--baseline {}: {reason}", path.display()))
            .hint("a baseline is the output of `llm-do test --json`")
    };
    let text = read_regular(path, LARGEST_BASELINE).map_err(|error| wrong(error.to_string()))?;
    let text = String::from_utf8(text).map_err(|error| wrong(error.to_string()))?;
    SuiteReport::parse(&text).map_err(wrong)
}

/// Returns the paths of the reports, and creates the files and the folder: an error is reported before a model is
/// asked.
fn reports(args: &TestArgs) -> Result<Vec<PathBuf>, Complaint> {
    let mut reports = Vec::new();
    let files = [&args.junit, &args.summary].into_iter().flatten();
    let open = |file: &PathBuf| OpenOptions::new().create(true).append(true).open(file).map(drop);
    let made = files.map(|file| (file, check_named(file).and_then(|()| open(file))));
    let folder = |folder: &PathBuf| check_named(folder).and_then(|()| fs::create_dir_all(folder));
    let made = made.chain(args.html.iter().map(|path| (path, folder(path))));
    for (path, made) in made {
        let real = made.and_then(|()| fs::canonicalize(path));
        reports.push(real.map_err(|error| Complaint::unwritten(path, &error))?);
    }
    Ok(reports)
}

/// Returns the positions of the cases that the command line names.
fn chosen(suite: &Suite, args: &TestArgs) -> Result<Vec<usize>, Complaint> {
    let named = |name: &str| args.cases.is_empty() || args.cases.iter().any(|pattern| fits(pattern, name));
    let mut chosen: Vec<usize> =
        suite.cases.iter().enumerate().filter(|(_, case)| named(&case.case.name)).map(|(at, _)| at).collect();
    if chosen.is_empty() {
        return Err(Complaint::wrong(format!("no case is named {}", args.cases.join(" or "))).hint(format!(
            "there {} in {}",
            match suite.cases.len() {
                1 => "is 1 case".to_owned(),
                count => format!("are {count} cases"),
            },
            suite.root().display()
        )));
    }
    if let Some(shard) = &args.shard {
        let parts = shard.split_once('/').and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
        let Some((part, of)) = parts.filter(|(part, of): &(usize, usize)| (1..=*of).contains(part)) else {
            return Err(Complaint::wrong(format!("--shard: `{shard}` is not I/N with I from 1 to N"))
                .hint("for example --shard 1/4"));
        };
        let mut at = 0;
        chosen.retain(|_| {
            at += 1;
            (at - 1) % of == part - 1
        });
    }
    Ok(chosen)
}

/// Returns true if a name fits a pattern in which `*` matches any characters.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => {
            let Some(rest) = name.strip_prefix(before) else { return false };
            let mut ends = (0..=rest.len()).filter(|at| rest.is_char_boundary(*at));
            ends.any(|at| fits(after, &rest[at..]))
        }
    }
}

/// Formats a case.
fn told(case: &CaseReport, paint: Paint) -> String {
    let word = match (case.passes(), case.fails()) {
        (true, _) => paint.green("pass"),
        (false, true) => paint.red("fail"),
        (false, false) => paint.yellow("cut "),
    };
    let (low, high) = case.interval;
    let share = match case.of {
        1 => String::new(),
        _ => format!("  {} of {} ({:.0} % to {:.0} %)", case.passed, case.of, low * 100.0, high * 100.0),
    };
    let mut out = String::new();
    // Writing to a `String` does not fail.
    let _ = writeln!(out, "{word}  {}{}", visible::line(&case.title()), paint.dim(share));
    if case.not_run > 0 {
        let _ = writeln!(out, "      {} of {} repeats did not run", case.not_run, case.of + case.not_run);
    }
    for (number, run) in case.runs.iter().enumerate().filter(|(_, run)| !run.pass) {
        let repeat = if case.of > 1 { format!("repeat {}: ", number + 1) } else { String::new() };
        for failure in &run.failures {
            let mut lines = failure.lines();
            let _ = writeln!(out, "      {repeat}{}", visible::line(lines.next().unwrap_or_default()));
            for line in lines {
                let _ = writeln!(out, "      {}", visible::line(line));
            }
        }
        if let Some(missed) = &run.missed {
            difference(&mut out, missed, paint);
        }
    }
    out
}

fn difference(out: &mut String, missed: &Missed, paint: Paint) {
    let _ = writeln!(out, "      {}", paint.bold(visible::line(&missed.place)));
    for line in missed.diffs.iter().flat_map(|diff| diff.lines()).filter(|line| !line.starts_with('\\')) {
        let line = visible::line(line);
        let _ = match line.chars().next() {
            Some('+') => writeln!(out, "      {}", paint.green(line)),
            Some('-') => writeln!(out, "      {}", paint.red(line)),
            Some('@') => writeln!(out, "      {}", paint.dim(line)),
            _ => writeln!(out, "      {line}"),
        };
    }
}

/// Formats the last lines: the changes, and the number of passed cases.
fn ending(report: &SuiteReport, cut: Option<&Cut>, comparison: Option<&Comparison>, paint: Paint) -> String {
    let mut out = String::new();
    if let Some(comparison) = comparison {
        for case in comparison.cases.iter().filter(|case| case.change != Change::Same) {
            let text = visible::line(&sentence(case)).to_string();
            let _ = match case.change {
                Change::Worse => writeln!(out, "{}", paint.red(text)),
                Change::Better => writeln!(out, "{}", paint.green(text)),
                _ => writeln!(out, "{text}"),
            };
        }
        let overall = &comparison.overall;
        let word = match overall.change {
            Change::Worse => "worse",
            Change::Better => "better",
            Change::Same => "neither better nor worse",
            _ => "not decidable with so few cases that differ",
        };
        // A single case has its own sentence.
        if comparison.cases.len() > 1 {
            let (fewer, more, p) = (overall.fewer, overall.more, probability(overall.p));
            let _ =
                writeln!(out, "all cases together: {word}: {fewer} pass less often, {more} more often, {p}");
        }
    }
    let cost = report.cost_usd.map(|cost| format!(", {cost}")).unwrap_or_default();
    let cut_off = report.cases.iter().filter(|case| case.not_run > 0).count() as u64;
    let left = match cut {
        None => String::new(),
        Some(cut) => {
            let why = match cut {
                Cut::Cost => "--max-cost pays for no more",
                Cut::Interrupt => "it was interrupted",
                Cut::Budget(_) => "a budget over time leaves too little",
            };
            let counts = [(cut_off, "did not run whole"), (report.not_run, "did not run")];
            let counts: Vec<String> = counts
                .into_iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, what)| format!("{count} {what}"))
                .collect();
            if counts.is_empty() {
                String::new()
            } else {
                format!("; {}, because {why}", counts.join(" and "))
            }
        }
    };
    let _ = writeln!(out, "{} of {} cases pass{cost}{left}", report.passed(), report.cases.len());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_any_characters() {
        for (pattern, name, is) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "ab", true),
            ("*b", "ab", true),
            ("a*c*e", "abcde", true),
            ("a*c", "abd", false),
            ("*", "", true),
        ] {
            assert_eq!(fits(pattern, name), is, "{pattern} {name}");
        }
    }
}
