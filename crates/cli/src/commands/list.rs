//! `llm-do list`: the workers of a project.

use crate::{
    args::{Format, ProgramArgs},
    exit::{Complaint, Exit},
    program::{findings, looked_at, reading_host, surroundings},
    render::Output,
    visible,
};
use llm_do::{
    Problem,
    program::{Listed, Listing, ShownTools, diagnostics::json::to_json, list_workers, target},
};
use serde_json::{Value, json};

/// Runs the command.
pub(crate) fn run(program: &ProgramArgs, output: &Output) -> Result<Exit, Complaint> {
    let request = looked_at(program);
    let around =
        surroundings().map_err(|error| Complaint::wrong(format!("no current directory: {error}")))?;
    let found = target::find(&request, &around).map_err(Problem::Program).and_then(|target| {
        let host = reading_host(&request, &around, &target)?;
        list_workers(&target.source, host).map_err(Problem::Program)
    });
    let listed = match found {
        Ok(listed) => listed,
        Err(Problem::Program(found)) => {
            output.screen.line(&findings(&found.0, output.err));
            if output.format != Format::Text {
                output.print_json(&to_json(&found.0));
            }
            return Ok(Exit::Wrong);
        }
        Err(problem) => return Err(Complaint::wrong(problem.to_string())),
    };
    if output.format != Format::Text {
        output.print_json(&json!({
            "workers": listed.workers.iter().map(as_json).collect::<Vec<_>>(),
            "tools": listed.tools.iter().map(ShownTools::to_json).collect::<Vec<_>>(),
            "entry": listed.entry,
        }));
        return Ok(Exit::Done);
    }
    if listed.workers.is_empty() && listed.entry.is_none() {
        output.note(
            "there are no workers here: they are files that end in .worker, under workers/ or main.worker",
        );
    }
    output.print(&format!("{}{}", tree(&listed.workers, output), python(&listed, output)));
    Ok(Exit::Done)
}

/// Formats the function that the program starts with, and the source of its workers' tools.
fn python(listed: &Listed, output: &Output) -> String {
    let entry = listed.entry.iter().map(|entry| format!("entry {}", visible::line(entry)));
    let lines = entry.chain(listed.tools.iter().map(tools_line));
    let text: String = lines.map(|line| format!("{}\n", output.out.dim(line))).collect();
    let gap = if listed.workers.is_empty() || text.is_empty() { "" } else { "\n" };
    format!("{gap}{text}")
}

/// Formats the source of tools.
pub(crate) fn tools_line(tools: &ShownTools) -> String {
    format!("tools of {}: {}", visible::line(&tools.level), visible::line(&tools.modules.join(", ")))
}

/// A line of the tree: a worker, or a folder of workers.
struct TreeRow<'a> {
    /// Lines before it, as they are drawn.
    branch: String,
    name: String,
    worker: Option<&'a Listing>,
}

/// Formats the workers as a tree of the folders that their IDs name.
fn tree(workers: &[Listing], output: &Output) -> String {
    let mut lines = Vec::new();
    let parts: Vec<(Vec<&str>, &Listing)> =
        workers.iter().map(|worker| (worker.id.split_inclusive(['/', ':']).collect(), worker)).collect();
    branches(&parts, 0, "", &mut lines);
    let width_of = |line: &TreeRow<'_>| line.branch.chars().count() + line.name.chars().count();
    let width = lines.iter().map(width_of).max().unwrap_or(0);
    let paint = output.out;
    let mut text = String::new();
    for line in &lines {
        let gap = " ".repeat(width - width_of(line));
        let about = line.worker.map(|worker| format!("{gap}  {}", about(worker, output))).unwrap_or_default();
        text.push_str(&format!("{}{}{about}\n", paint.dim(&line.branch), paint.bold(&line.name)));
    }
    text
}

/// Workers that share the first `depth` parts of their IDs, as lines below `before`.
fn branches<'a>(
    workers: &[(Vec<&'a str>, &'a Listing)],
    depth: usize,
    before: &str,
    lines: &mut Vec<TreeRow<'a>>,
) {
    let mut rest = workers;
    while let Some((parts, worker)) = rest.first() {
        let name = parts.get(depth).copied().unwrap_or_default();
        let folder = parts.len() > depth + 1;
        let same = rest
            .iter()
            .take_while(|(other, _)| {
                folder && other.len() > depth + 1 && other.get(depth).copied() == Some(name)
            })
            .count()
            .max(1);
        let (these, after) = rest.split_at(same);
        let last = after.is_empty();
        let (branch, below) = match (depth, last) {
            (0, _) => (String::new(), String::new()),
            (_, false) => (format!("{before}├── "), format!("{before}│   ")),
            (_, true) => (format!("{before}└── "), format!("{before}    ")),
        };
        let name = visible::line(name).into_owned();
        lines.push(TreeRow { branch, name, worker: (!folder).then_some(*worker) });
        if folder {
            branches(these, depth + 1, &below, lines);
        }
        rest = after;
    }
}

fn about(worker: &Listing, output: &Output) -> String {
    let paint = output.out;
    let about = match (&worker.problem, &worker.description) {
        (Some(problem), _) => paint.red(visible::line(problem).into_owned()).to_string(),
        (None, Some(description)) => visible::line(description.trim()).into_owned(),
        (None, None) => paint.dim(visible::line(&worker.path)).to_string(),
    };
    if worker.models.is_empty() {
        return about;
    }
    format!("{about}  {}", paint.dim(visible::line(&worker.models.join(", "))))
}

fn as_json(worker: &Listing) -> Value {
    let Listing { id, path, description, models, problem } = worker;
    // As in a worker file: a name, or a list of them.
    let model = match &**models {
        [] => Value::Null,
        [model] => json!(model),
        models => json!(models),
    };
    json!({"id": id, "path": path, "description": description, "model": model, "problem": problem})
}
