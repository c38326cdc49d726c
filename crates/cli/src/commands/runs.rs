//! `llm-do runs`: lists, shows, exports and removes recorded runs (docs/guides/runs.md).

mod clean;
pub(crate) mod collector;
mod export;
mod program;
mod show;

use super::{replay, resume};
use crate::{
    args::{Format, RunsArgs, RunsCommand},
    exit::{Complaint, Exit},
    paint::Paint,
    past_runs::{about, elsewhere, folders, local_time, names},
    program::home,
    render::Output,
};
use llm_do_core::journal::RunStatus;
use llm_do_records::{Line, OpenRun, RunState, Tone, duration, thousands};
use llm_do_runs::{RunSummary, SealKey, began_here, list_runs};
use serde_json::{Value, json};
use std::path::PathBuf;

use clean::clean;
use export::export;
use show::show;

/// The note on a run of another user's llm-do.
const FOREIGN: &str = "not written by your llm-do";

/// Runs a subcommand.
pub(crate) fn run(runs: &RunsArgs, output: &Output) -> Result<Exit, Complaint> {
    #[cfg(feature = "cluster")]
    if let Some(done) = of_cluster(runs, output) {
        return done;
    }
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

/// Runs a subcommand for a run of a cluster, `pg:RUN`. Those that read a run get a copy of it.
#[cfg(feature = "cluster")]
fn of_cluster(runs: &RunsArgs, output: &Output) -> Option<Result<Exit, Complaint>> {
    use super::cluster::{LocalCopy, PREFIX, export_copy, list as list_cluster, resume as resume_there};
    use crate::args::{ReplayArgs, ShowRunArgs};

    let database = runs.database.clone().or_else(|| std::env::var("LLM_DO_DATABASE").ok());
    let database = database.as_ref();
    let is_there = |run: &str| run.starts_with(PREFIX);
    let copied = |run: &str, with: &dyn Fn(String) -> Result<Exit, Complaint>| {
        let copy = LocalCopy::of(run, database)?;
        with(copy.dir.display().to_string())
    };
    Some(match &runs.command {
        RunsCommand::List { target: None, limit, chats: false } if runs.database.is_some() => {
            list_cluster(database.map(String::as_str).unwrap_or_default(), *limit, output)
                .map(|()| Exit::Done)
        }
        RunsCommand::Resume(args) if is_there(&args.run) => Ok(resume_there(args, database, output)),
        RunsCommand::Show(args) if is_there(&args.run) && args.view.follow => {
            Err(Complaint::wrong("--follow is not available for a run of a cluster")
                .hint("`llm-do runs resume` follows it, and decides nothing without decisions"))
        }
        RunsCommand::Show(args) if is_there(&args.run) => copied(&args.run, &|run| {
            show(|| Ok(Vec::new()), &ShowRunArgs { run, ..(**args).clone() }, output).map(|()| Exit::Done)
        }),
        RunsCommand::Replay(args) if is_there(&args.run) => {
            copied(&args.run, &|run| Ok(replay::run(&ReplayArgs { run, ..(**args).clone() }, None, output)))
        }
        RunsCommand::Export(args) => {
            match (args.runs.first().filter(|run| is_there(run)), &args.form.local) {
                (Some(run), Some(folder)) => export_copy(run, database, folder, output).map(|()| Exit::Done),
                (None, Some(_)) => {
                    Err(Complaint::wrong("--local is for a run of a cluster: name it as pg:RUN"))
                }
                (Some(run), None) => copied(run, &|dir| {
                    let mut args = (**args).clone();
                    args.runs[0] = dir;
                    export(&args, None, output).map(|()| Exit::Done)
                }),
                (None, None) => return None,
            }
        }
        _ if runs.database.is_some() => Err(Complaint::wrong(
            "--database is for runs of a cluster: name one as pg:RUN, or use `llm-do runs list`",
        )),
        _ => return None,
    })
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
        RunState::Ended(RunStatus::Suspended | RunStatus::Interrupted) | RunState::Open(OpenRun::Running) => {
            paint.yellow(state)
        }
        RunState::Ended(_) | RunState::Open(OpenRun::CutOff | OpenRun::Damaged) => paint.red(state),
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
