//! `llm-do runs`: lists, shows, exports and removes recorded runs (docs/guides/runs.md).

mod clean;
pub(crate) mod collector;
mod export;
mod show;

use super::{replay, resume};
use crate::{
    args::{Format, RunsArgs, RunsCommand},
    exit::{Complaint, Exit},
    paint::Paint,
    program::{home, only_target, surroundings},
    render::Output,
    visible,
};
use llm_do::program::target::{self, Request};
use llm_do_core::journal::RunStatus;
use llm_do_records::{Line, Open, RunState, Tone, duration, thousands};
use llm_do_runs::{FindError, RunSummary, SealKey, began_here, find_run, list_runs};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
};

use clean::clean;
use export::export;
use show::show;

/// The most characters of a chat's first message that are shown.
const FIRST_WORDS: usize = 50;
/// The note on a run of another user's llm-do.
const FOREIGN: &str = "not written by your llm-do";

/// Runs a subcommand.
pub(crate) fn run(runs: &RunsArgs, output: &Output) -> Result<Exit, Complaint> {
    let project = runs.project.as_deref();
    let of = |target: &Option<String>| folders(target.as_deref(), project);
    match &runs.command {
        RunsCommand::List { target, limit, chats } => list(&of(target)?, *limit, *chats, output)?,
        RunsCommand::Show(args) => show(|| of(&args.target), args, output)?,
        RunsCommand::Clean(args) => clean(&of(&args.target)?, args, output)?,
        RunsCommand::Export(args) => export(args, project, output)?,
        RunsCommand::Resume(args) => return Ok(resume::run(&of(&args.target)?, args, project, output)),
        RunsCommand::Replay(args) => return Ok(replay::run(args, project, output)),
    }
    Ok(Exit::Done)
}

/// Returns the folders of the runs that a command may refer to: those of the target's project. Without a target, a
/// project and `LLM_DO_PROJECT`, those of the current directory and those of lone files, which no project keeps.
pub(crate) fn folders(target: Option<&str>, project: Option<&Path>) -> Result<Vec<PathBuf>, Complaint> {
    let of_project = |root: &Path| root.join(".llm-do").join("runs");
    let around =
        surroundings().map_err(|error| Complaint::wrong(format!("no current directory: {error}")))?;
    if let (Some(target), Some(project)) = (target, project) {
        let project = project.display();
        return Err(Complaint::wrong(format!(
            "the project is named twice: `{target}` and --project {project}"
        ))
        .hint("leave one of them out"));
    }
    if target.is_none() && project.is_none() && around.project.is_none() {
        let (here, lone) = (of_project(Path::new(".")), home().join("runs"));
        // In the user's own folder they are one.
        let one =
            fs::canonicalize(&here).is_ok_and(|here| fs::canonicalize(&lone).is_ok_and(|lone| here == lone));
        return Ok(if one { vec![lone] } else { vec![here, lone] });
    }
    let project = project.map(Path::to_owned);
    let request = Request { positionals: only_target(target), project, ..Request::default() };
    let found = target::find(&request, &around).map_err(|found| Complaint::wrong(found.to_string()))?;
    Ok(vec![match found.source.work {
        Some(_) => home().join("runs"),
        None => of_project(Path::new(found.source.tree.root().as_str())),
    }])
}

/// Lists the newest runs, one a line.
pub(crate) fn list(folders: &[PathBuf], limit: usize, chats: bool, output: &Output) -> Result<(), Complaint> {
    let mut runs = Vec::new();
    for folder in folders {
        let found = list_runs(folder, if chats { usize::MAX } else { limit });
        let found =
            found.map_err(|error| Complaint::failed(format!("cannot read {}: {error}", folder.display())))?;
        runs.extend(found.into_iter().filter(|run| run.chat || !chats).map(|run| (run, folder)));
    }
    // IDs begin with the time.
    runs.sort_by(|(a, _), (b, _)| b.run.cmp(&a.run));
    runs.truncate(limit);
    let key = SealKey::read(&home()).ok();
    let runs: Vec<Listed> = runs
        .into_iter()
        .map(|(run, folder)| {
            let is_own = key.as_ref().is_some_and(|key| began_here(&folder.join(&run.run), key));
            // A run without a first record says nothing.
            Listed { foreign: !is_own && run.started_ms.is_some(), run }
        })
        .collect();
    if output.format != Format::Text {
        let runs: Vec<Value> = runs.iter().map(Listed::to_json).collect();
        output.print_json(&json!({"folders": folders, "runs": runs}));
        return Ok(());
    }
    if runs.is_empty() {
        output.note(&format!("no runs in {}{}", names(folders), elsewhere(folders)));
        return Ok(());
    }
    let text: String = runs.iter().map(|run| line(run, output.out)).collect();
    output.print(&text);
    Ok(())
}

/// A run in a list.
struct Listed {
    run: RunSummary,
    /// True if this user's llm-do did not begin the run: a cloned project may bring runs along.
    foreign: bool,
}

impl Listed {
    fn to_json(&self) -> Value {
        let mut run = json!(self.run);
        if self.foreign {
            run["foreign"] = true.into();
        }
        run
    }
}

fn line(Listed { run, foreign }: &Listed, paint: Paint) -> String {
    let state = match run.state {
        RunState::Ended(RunStatus::Suspended) if run.chat => "chat",
        state => state.as_str(),
    };
    let state = format!("{state:<20}");
    let state = match run.state {
        RunState::Ended(RunStatus::Done) => paint.green(state),
        RunState::Ended(RunStatus::Suspended | RunStatus::Interrupted) | RunState::Open(Open::Running) => {
            paint.yellow(state)
        }
        RunState::Ended(_) | RunState::Open(Open::CutOff | Open::Damaged) => paint.red(state),
    };
    let took = run.took_ms.map(duration).unwrap_or_default();
    let tokens = run.usage.filter(|usage| usage.total() > 0);
    let tokens = tokens.map(|usage| format!("{} tokens", thousands(usage.total()))).unwrap_or_default();
    let when = run.started_ms.and_then(local_time).unwrap_or_default();
    let cost = run.usage.and_then(|usage| usage.cost_usd).map(|cost| cost.to_string()).unwrap_or_default();
    let about = about(run);
    let line = format!(
        "{}  {}  {state} {took:>8}  {tokens:>14}  {cost:>10}  {about}",
        paint.bold(&run.run),
        paint.dim(format!("{when:<16}"))
    );
    let note = if *foreign { format!("  {}", paint.yellow(FOREIGN)) } else { String::new() };
    format!("{}{note}\n", line.trim_end())
}

/// Returns the text about a run in a list: its worker, its target if it differs, and the beginning of its input.
pub(crate) fn about(run: &RunSummary) -> String {
    let (entry, target) = (visible::line(&run.entry), visible::line(&run.target));
    let named = Path::new(&run.target).file_stem().is_some_and(|stem| *stem == *run.entry);
    let worker = match &*run.target {
        "" | "." => entry.into_owned(),
        _ if named || run.entry.is_empty() => target.into_owned(),
        _ => format!("{entry} ({target})"),
    };
    let input = &run.invocation["input"];
    let parameters = input["parameters"].as_array().filter(|parameters| !parameters.is_empty());
    let input = match (&run.message, &input["json"], parameters) {
        (Some(message), ..) => format!("\"{}\"", visible::start(&visible::line(message), FIRST_WORDS)),
        (None, Value::Null, None) => return worker,
        (None, Value::Null, Some(parameters)) => {
            let pair = |pair: &Value| {
                let text = |at: usize| pair[at].as_str().unwrap_or_default().to_owned();
                format!("{}={}", text(0), text(1))
            };
            let pairs: Vec<String> = parameters.iter().map(pair).collect();
            visible::start(&visible::line(&pairs.join(" ")), FIRST_WORDS).into_owned()
        }
        (None, json, _) => visible::start(&visible::line(&json.to_string()), FIRST_WORDS).into_owned(),
    };
    format!("{worker}  {input}")
}

/// Formats a time for the user.
pub(crate) fn local_time(ms: u64) -> Option<String> {
    let time = jiff::Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok()?;
    Some(time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string())
}

/// Returns the folder of one run.
pub(crate) fn find(folders: &[PathBuf], run: &str) -> Result<PathBuf, Complaint> {
    let mut found = Vec::new();
    for folder in folders {
        match find_run(folder, run) {
            Ok(dir) => found.push(dir),
            Err(FindError::None { .. }) => {}
            Err(error) => return Err(Complaint::wrong(error.to_string())),
        }
    }
    // `last` is found in each.
    found.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
    found.pop().ok_or_else(|| {
        Complaint::wrong(format!("no run `{run}` in {}", names(folders)))
            .hint(format!("`llm-do runs list` lists the runs{}", elsewhere(folders)))
    })
}

/// Returns the folder of the user's own chat that was used last. A project may bring chats along, which can't be
/// continued.
pub(crate) fn last_chat(folders: &[PathBuf]) -> Result<PathBuf, Complaint> {
    let mut chats = Vec::new();
    let key = SealKey::read(&home()).ok();
    for folder in folders {
        let runs = list_runs(folder, usize::MAX);
        let runs =
            runs.map_err(|error| Complaint::failed(format!("cannot read {}: {error}", folder.display())))?;
        let used_ms = |run: &RunSummary| run.started_ms.unwrap_or(0) + run.took_ms.unwrap_or(0);
        let is_own =
            |run: &RunSummary| key.as_ref().is_some_and(|key| began_here(&folder.join(&run.run), key));
        let chats_here = runs.into_iter().filter(|run| run.chat && is_own(run));
        chats.extend(chats_here.map(|run| (used_ms(&run), run.run.clone(), folder.join(run.run))));
    }
    chats.sort();
    chats.pop().map(|(.., dir)| dir).ok_or_else(|| {
        Complaint::wrong(format!("no chat in {}", names(folders)))
            .hint(format!("`llm-do chat` begins one{}", elsewhere(folders)))
    })
}

/// Returns a hint to search elsewhere. For a named project there is only one folder, and no hint.
fn elsewhere(folders: &[PathBuf]) -> &'static str {
    if folders.len() > 1 { "; a project keeps its own, so name it or go there" } else { "" }
}

fn names(folders: &[PathBuf]) -> String {
    let names: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    names.join(" and ")
}

fn toned(line: &Line, paint: Paint) -> String {
    let mut out = String::new();
    for (tone, text) in &line.0 {
        let painted = match tone {
            Tone::Plain => paint.plain(text),
            Tone::Strong => paint.bold(text),
            Tone::Dim => paint.dim(text),
            Tone::Good => paint.green(text),
            Tone::Notice => paint.yellow(text),
            Tone::Bad => paint.red(text),
        };
        out.push_str(&painted.to_string());
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}
