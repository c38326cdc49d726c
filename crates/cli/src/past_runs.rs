//! The recorded runs that a command may mean: their folders, and the names by which users find them.

use crate::{
    exit::Complaint,
    program::{home, only_target, surroundings},
    visible,
};
use llm_do::program::target::{self, Request};
use llm_do_runs::{FindError, JOURNAL_FILE, RunSummary, SealKey, began_here, find_run, list_runs};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Characters of a chat's first message that are shown.
const FIRST_WORDS: usize = 50;

/// Finds the folders of the runs that a command may mean: those of the target's project. Without a target, a project and
/// `LLM_DO_PROJECT`, those of the current directory and those of lone files, which no project keeps.
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

/// Finds the folder of a run that is named by its ID, or by the folder itself.
pub(crate) fn folder(run: &str, target: Option<&str>, project: Option<&Path>) -> Result<PathBuf, Complaint> {
    match folder_named(run) {
        Some(folder) => Ok(folder),
        None => find(&folders(target, project)?, run),
    }
}

/// Returns the folder of a run if the name is one: runs of `llm-do tune`, and copies, lie elsewhere than other runs.
pub(crate) fn folder_named(run: &str) -> Option<PathBuf> {
    let named = Path::new(run);
    named.join(JOURNAL_FILE).is_file().then(|| named.to_owned())
}

/// Describes a run in a list: its worker, its target where that says more, and the beginning of its input.
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

/// Returns a time as the user reads it.
pub(crate) fn local_time(ms: u64) -> Option<String> {
    let time = jiff::Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok()?;
    Some(time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string())
}

/// Finds the folder of one run.
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

/// Finds the folder of the user's own chat that was used last. A project may bring chats along, which can't be continued.
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

/// The hint to look elsewhere. A project that was named has one folder alone.
pub(crate) fn elsewhere(folders: &[PathBuf]) -> &'static str {
    if folders.len() > 1 { "; a project keeps its own, so name it or go there" } else { "" }
}

pub(crate) fn names(folders: &[PathBuf]) -> String {
    let names: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    names.join(" and ")
}
