//! `llm-do gate`: explains decisions of the gate.

use super::{no_model::without_model, show::opened};
use crate::{
    args::{ExplainArgs, Format, RunArgs},
    exit::{Complaint, Exit},
    meant::{self, Read},
    opening::{of_others, said, settings},
    program::{only_target, show_problem},
    render::Output,
    terminal::Terminal,
    visible,
};
use llm_do::{Input, InputPart};
use llm_do_core::{
    engine::Explained,
    gate::{Mode, Rule},
};
use std::fmt::Write as _;

/// Explains one call.
pub(crate) fn explain(args: &ExplainArgs, output: &Output) -> Result<Exit, Complaint> {
    let mut words = only_target(args.target.as_deref()).into_iter();
    let run = RunArgs {
        first: words.next(),
        second: words.next(),
        program: args.program.clone(),
        approval: args.approval.clone(),
        ..RunArgs::default()
    };
    let arguments = meant::json("ARGUMENTS", &args.arguments)?.value;
    let can_ask = Terminal::open().is_some();
    let session = match opened(|| {
        // The gate decides without the model, so that a machine that has none needs none.
        let mut settings = without_model(settings(&run)?);
        settings.run.can_ask = can_ask;
        Ok(settings)
    }) {
        Ok(session) => session,
        Err(not_ready) => return Ok(said(not_ready, output)),
    };
    let mut input = Input {
        message: args.input.message.clone(),
        parameters: meant::pairs("--param", &args.input.params)?,
        attachments: args.input.attach.clone(),
        ..Input::default()
    };
    if let Some(text) = &args.input.json {
        let Read { value, file } = meant::input(text)?;
        input.json = Some(value);
        match of_others(&session, InputPart::Json, file) {
            Ok(read) => input.read.extend(read),
            Err(problem) => return Ok(show_problem(&problem, output)),
        }
    }
    // The prompt does not matter to the gate.
    if session.lacks_input(&input) && !session.entry().signature.declared {
        input.message = Some("explain".into());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Complaint::failed(format!("cannot start: {error}")))?;
    match runtime.block_on(session.explain(&input, &args.tool, &arguments)) {
        Ok(explained) if output.format == Format::Text => {
            output.print(&text(&args.tool, &session.entry().id, &explained, output));
        }
        Ok(explained) => output.print_json(&serde_json::json!(explained)),
        Err(problem) => return Ok(show_problem(&problem, output)),
    }
    Ok(Exit::Done)
}

fn text(tool: &str, worker: &str, explained: &Explained, output: &Output) -> String {
    let paint = output.out;
    let rule = |rule: Rule| {
        let text = format!("{rule:<11}");
        match rule {
            Rule::PreApproved => paint.green(text).to_string(),
            Rule::Ask => paint.yellow(text).to_string(),
            Rule::Blocked => paint.red(text).to_string(),
        }
    };
    let call = format!("{} by {}", paint.bold(visible::line(tool)), paint.cyan(visible::line(worker)));
    let mut out = String::new();
    // Writing to a `String` does not fail.
    if let Some(refused) = &explained.refused {
        let _ = writeln!(out, "{}  {call}\n  {}", paint.red("refused"), visible::text(&refused.message));
        return out;
    }
    if let Some(verdict) = &explained.verdict {
        let _ = writeln!(out, "{}  {call}", rule(verdict.rule));
        let _ = writeln!(out, "  decided by  {}", paint.bold(visible::line(&verdict.decided_by.to_string())));
        if verdict.rule == Rule::Ask {
            let _ = writeln!(out, "  in this run {}", paint.dim(meaning(explained.mode)));
        }
    }
    let arguments: Vec<_> = explained.arguments.iter().map(|text| visible::line(text)).collect();
    if !arguments.is_empty() {
        let _ = writeln!(out, "  matched as  {}", arguments.join("\n              "));
    }
    for statement in &explained.statements {
        let _ = match &statement.said {
            Some(said) => {
                writeln!(
                    out,
                    "  {:<12}  {}  {}",
                    statement.source,
                    rule(said.rule),
                    visible::line(&said.decided_by.to_string())
                )
            }
            None => writeln!(out, "  {:<12}  {}", statement.source, paint.dim("-")),
        };
        for other in &statement.others {
            let calls = visible::line(&other.calls);
            let _ = writeln!(
                out,
                "    not {} {calls}  {}",
                other.rule,
                paint.dim(visible::line(&other.written_at))
            );
            let _ = writeln!(out, "        {}", paint.dim(visible::line(&other.why)));
        }
    }
    if !explained.offered {
        let _ = writeln!(out, "The model is not shown this tool: no arguments could pass.");
    }
    out
}

/// Returns the effect of `ask` in a mode.
fn meaning(mode: Mode) -> &'static str {
    match mode {
        Mode::Interactive => "the operator is asked",
        Mode::ApproveAll => "it runs: approve_all",
        Mode::AutoDeny => "it is refused: there is no operator to ask",
        Mode::Defer => "the run is suspended: defer",
    }
}
