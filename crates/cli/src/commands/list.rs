//! `llm-do list`: the workers of a project.

use crate::{
    args::{Format, ProgramArgs},
    exit::{Complaint, Exit},
    program::{findings, looked_at, surroundings},
    render::Output,
    visible,
};
use llm_do::program::{Listing, diagnostics::json::to_json, list_workers, target};
use serde_json::{Value, json};

/// Carries out the command.
pub(crate) fn run(program: &ProgramArgs, output: &Output) -> Result<Exit, Complaint> {
    let request = looked_at(program);
    let around =
        surroundings().map_err(|error| Complaint::wrong(format!("no current directory: {error}")))?;
    let found = target::find(&request, &around).and_then(|target| list_workers(&*target.source.tree));
    let workers = match found {
        Ok(workers) => workers,
        Err(found) => {
            output.screen.line(&findings(&found.0, output.err));
            if output.format != Format::Text {
                output.print_json(&to_json(&found.0));
            }
            return Ok(Exit::Wrong);
        }
    };
    if output.format != Format::Text {
        output.print_json(&json!({"workers": workers.iter().map(as_json).collect::<Vec<_>>()}));
        return Ok(Exit::Done);
    }
    if workers.is_empty() {
        output.note(
            "there are no workers here: they are files that end in .worker, under workers/ or main.worker",
        );
    }
    let width = workers.iter().map(|worker| visible::line(&worker.id).chars().count()).max().unwrap_or(0);
    let text: String = workers.iter().map(|worker| line(worker, width, output)).collect();
    output.print(&text);
    Ok(Exit::Done)
}

fn line(worker: &Listing, width: usize, output: &Output) -> String {
    let paint = output.out;
    let id = visible::line(&worker.id);
    let gap = " ".repeat(width.saturating_sub(id.chars().count()));
    let about = match (&worker.problem, &worker.description) {
        (Some(problem), _) => paint.red(visible::line(problem).into_owned()).to_string(),
        (None, Some(description)) => visible::line(description.trim()).into_owned(),
        (None, None) => paint.dim(visible::line(&worker.path)).to_string(),
    };
    let model = worker
        .model
        .as_deref()
        .map(|model| format!("  {}", paint.dim(visible::line(model))))
        .unwrap_or_default();
    format!("{}{gap}  {about}{model}\n", paint.bold(id))
}

fn as_json(worker: &Listing) -> Value {
    let Listing { id, path, description, model, problem } = worker;
    json!({"id": id, "path": path, "description": description, "model": model, "problem": problem})
}
