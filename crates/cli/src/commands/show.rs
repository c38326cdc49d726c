//! `llm-do show`: shows a worker after the merge, or its first request to the model.

use crate::{
    args::{ApprovalFlags, Format, InputFlags, ProgramArgs, ProgramFlags, RunArgs, ShowArgs},
    commands::{
        list::tools_line,
        no_model::{is_unchosen, without_model},
    },
    exit::{Complaint, Exit},
    opening::{NotReady, given, locked_notes, said, settings},
    program::{findings, looked_at, reading_host, show_problem, surroundings},
    render::Output,
    terminal::Terminal,
    visible,
};
use llm_do::{
    Problem, Session, Settings,
    core::{journal::RecordKind, model::Part, schema::Schema},
    program::{Program, Shown, diagnostics::json::to_json, target},
};
use serde_json::{Value, json};
use std::{path::Path, sync::Arc};

/// Runs the command.
pub(crate) fn run(args: &ShowArgs, output: &Output) -> Result<Exit, Complaint> {
    let (target, program) = meant(args)?;
    if args.prompt {
        let run = RunArgs {
            first: target,
            input: InputFlags {
                message: args.second.clone().or(args.input.message.clone()),
                ..args.input.clone()
            },
            program,
            model: args.model.clone(),
            approval: ApprovalFlags { grant: args.grant.clone(), ..ApprovalFlags::default() },
            ..RunArgs::default()
        };
        return prompt(&run, output);
    }
    let request = looked_at(&ProgramArgs { target, program });
    let around =
        surroundings().map_err(|error| Complaint::wrong(format!("no current directory: {error}")))?;
    let loaded = target::find(&request, &around).map_err(Problem::Program).and_then(|target| {
        let host = reading_host(&request, &around, &target)?;
        Program::load(target.source, host).map_err(Problem::Program)
    });
    match loaded {
        Ok(loaded) => {
            let shown = loaded.program.shown();
            match output.format {
                Format::Text => output.print(&text(&shown, output)),
                _ => output.print_json(&shown.to_json()),
            }
            Ok(Exit::Done)
        }
        Err(Problem::Program(found)) => {
            output.screen.line(&findings(&found.0, output.err));
            if output.format != Format::Text {
                output.print_json(&to_json(&found.0));
            }
            Ok(Exit::Wrong)
        }
        Err(problem) => Err(Complaint::wrong(problem.to_string())),
    }
}

/// Returns the target and the flags for a worker's name: a path is a target of its own, anything else the ID of a
/// worker of the project.
fn meant(args: &ShowArgs) -> Result<(Option<String>, ProgramFlags), Complaint> {
    let mut flags = args.program.clone();
    let Some(worker) = &args.worker else { return Ok((None, flags)) };
    let path = Path::new(worker);
    if path.exists() && (path.is_dir() || worker.contains(['/', '.'])) {
        return Ok((Some(worker.clone()), flags));
    }
    if let Some(entry) = &flags.entry {
        return Err(Complaint::wrong(format!("the worker is named twice: `{worker}` and `--entry {entry}`"))
            .hint("leave one of them out"));
    }
    flags.entry = Some(worker.clone());
    let root = flags.project.take().map(|project| project.display().to_string());
    Ok((root, flags))
}

fn text(shown: &Shown, output: &Output) -> String {
    let paint = output.out;
    let pure = if shown.pure { "pure: it touches nothing\n" } else { "" };
    let yaml = shown.to_yaml();
    let mut out = format!(
        "{}\n{}{pure}\n",
        paint.bold(visible::line(&shown.signature)),
        paint.dim(format!("{}\n", visible::line(&shown.file)))
    );
    for line in yaml.lines() {
        match line.rsplit_once("  # ") {
            Some((value, from)) => out.push_str(&format!(
                "{}  {}\n",
                visible::line(value),
                paint.dim(format!("# {}", visible::line(from)))
            )),
            None => out.push_str(&format!("{}\n", visible::line(line))),
        }
    }
    if shown.is_locked() {
        out.push_str(&format!("\n{}\n", paint.dim("locked: `--model` and `--set` do not apply to it")));
    }
    let what = if shown.is_code { "code" } else { "instructions" };
    out.push_str(&format!("\n{}\n", paint.dim(format!("{what} at {}", visible::line(&shown.instructions)))));
    for tools in &shown.tools {
        out.push_str(&format!("{}\n", paint.dim(tools_line(tools))));
    }
    out
}

fn prompt(run: &RunArgs, output: &Output) -> Result<Exit, Complaint> {
    let (session, input) = match opened(|| would_run(run))
        .and_then(|session| Ok((given(run, &session, Some(output))?, session)))
    {
        Ok((input, session)) => (session, input),
        Err(not_ready) => return Ok(said(not_ready, output)),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Complaint::failed(format!("cannot start: {error}")))?;
    for note in locked_notes(&session) {
        output.note(&note);
    }
    match runtime.block_on(session.preview(&input)) {
        Ok(sent) => {
            match output.format {
                Format::Text => output.print(&request_text(&sent, output)),
                _ => output.print_json(&request_json(&sent)),
            }
            Ok(Exit::Done)
        }
        Err(problem) => Ok(show_problem(&problem, output)),
    }
}

/// Returns the settings of a run at this terminal, if there is one. Tools whose calls an operator could approve are
/// then offered to the model.
fn would_run(run: &RunArgs) -> Result<Settings, Complaint> {
    let mut settings = settings(run)?;
    settings.run.can_ask = Terminal::open().is_some();
    Ok(settings)
}

/// Opens the session that a run would have. Nothing is sent, so it needs neither a model nor a key.
pub(crate) fn opened(settings: impl Fn() -> Result<Settings, Complaint>) -> Result<Session, NotReady> {
    match Session::open(settings()?) {
        Err(Problem::Model { .. }) => {
            let mut settings = settings()?;
            let environment = settings.environment;
            settings.environment = Arc::new(move |name| {
                environment(name).or_else(|| name.ends_with("_API_KEY").then(|| "none".to_owned()))
            });
            Ok(Session::open(settings)?)
        }
        Err(Problem::NoModel) => Ok(Session::open(without_model(settings()?))?),
        opened => Ok(opened?),
    }
}

/// Formats the request for people: its parts, under headings.
fn request_text(sent: &RecordKind, output: &Output) -> String {
    let RecordKind::ConversationStarted {
        model, system, tools, server_tools, output: schema, message, ..
    } = sent
    else {
        return String::new();
    };
    let paint = output.out;
    let heading = |text: &str| format!("{}\n", paint.bold(format!("== {text}")));
    let model = match is_unchosen(model) {
        true => "none chosen: this is the request to a model with tools and structured output".to_owned(),
        false => visible::line(model.as_str()).into_owned(),
    };
    let mut out = format!("{}{model}\n\n", heading("model"));
    if !system.is_empty() {
        out.push_str(&format!("{}{}\n\n", heading("instructions"), visible::text(system)));
    }
    out.push_str(&heading("message"));
    for part in &message.parts {
        match part {
            Part::Text { .. } | Part::Attachment { .. } => {
                let text = part.sent().unwrap_or_default();
                out.push_str(&format!("{}\n", visible::text(&text)));
            }
            Part::Blob(blob) => out.push_str(&format!(
                "{}\n",
                paint.dim(format!(
                    "[{}, {}, {} bytes]",
                    visible::line(&blob.name),
                    blob.media_type,
                    blob.data.len()
                ))
            )),
            _ => {}
        }
    }
    out.push_str(&format!("\n{}", heading(&format!("tools ({})", tools.len()))));
    for tool in tools.iter() {
        out.push_str(&format!(
            "{}  {}\n",
            paint.cyan(visible::line(&tool.name)),
            visible::line(&tool.description)
        ));
        out.push_str(&format!("  {}\n", paint.dim(visible::line(&tool.input.to_string()))));
    }
    if !server_tools.is_empty() {
        out.push_str(&format!("\n{}", heading(&format!("tools of the provider ({})", server_tools.len()))));
        for tool in server_tools.iter() {
            out.push_str(&format!(
                "{}  {}\n",
                paint.cyan(tool.name()),
                visible::line(&tool.options().to_string())
            ));
        }
    }
    if let Some(schema) = schema {
        out.push_str(&format!("\n{}{}\n", heading("returns"), visible::line(&offered(schema).to_string())));
    }
    out
}

fn request_json(sent: &RecordKind) -> Value {
    let RecordKind::ConversationStarted {
        worker, model, system, tools, server_tools, output, message, ..
    } = sent
    else {
        return Value::Null;
    };
    json!({
        "worker": worker,
        "model": (!is_unchosen(model)).then_some(model),
        "instructions": system,
        "message": message.parts,
        "tools": tools,
        "server_tools": server_tools,
        "returns": output.as_ref().map(offered),
    })
}

/// Returns the type of the output in the form that the model gets. The record also has the keywords of llm-do.
fn offered(output: &Arc<Value>) -> Arc<Value> {
    Arc::clone(Schema::built_in((**output).clone()).shown())
}
