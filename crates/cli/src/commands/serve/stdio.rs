//! `llm-do serve --stdio`: one program for the process that has started this one (docs/reference/stdio.md).

use super::{CommandLine, Traces, allow_open_files, chat_models, settings_of, targets};
use crate::{
    args::ServiceArgs,
    commands::run::say,
    exit::{Complaint, Exit},
    interrupt::Interrupts,
    opening::{NotReady, said},
    render::Output,
};
use llm_do::Session;
use llm_do_serve::{Stdio, StdioLimits};
use std::{io, sync::Arc, time::Duration};
use tokio::sync::watch;

/// Serves until the client has disconnected, or a signal ends the server.
pub(super) fn run(args: &ServiceArgs, output: &Output) -> Result<Exit, Complaint> {
    let targets = targets(args);
    let [target] = &targets[..] else {
        return Err(Complaint::wrong("`--stdio` serves one program").hint("start a process for each program"));
    };
    let failed = |error: io::Error| Complaint::failed(format!("cannot start: {error}"));
    let interrupts = Interrupts::listen(None).map_err(failed)?;
    let named = (!target.is_empty()).then_some(target.as_str());
    let sessions = match opened(args, named) {
        Ok(sessions) => sessions,
        Err(not_ready) => return Ok(said(not_ready, output)),
    };
    if let Some(first) = sessions.first() {
        say(first, output);
    }
    let limits = StdioLimits { runs: args.max_runs.get(), grace: Duration::from_secs(args.grace) };
    let chat_models = chat_models(args)?;
    let traces = args.otel.as_deref().map(|url| Traces::to(url, args.otel_content, output)).transpose()?;
    let host =
        CommandLine { args: args.clone(), output: output.clone(), chat_models, traces: traces.clone() };
    let host = Arc::new(host);
    allow_open_files();
    let target = named.unwrap_or(".").to_owned();
    let stdio = Stdio::new(target, sessions, limits, host);
    let stdio = stdio.map_err(|error| Complaint::wrong(error.to_string()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(failed)?;
    let (stop, mut stopped) = watch::channel(false);
    let came = stopped.clone();
    interrupts.on_first(move || {
        stop.send_replace(true);
    });
    let stopped = async move {
        // The sender lives as long as the process.
        let _ = stopped.wait_for(|stopped| *stopped).await;
    };
    let served = runtime.block_on(stdio.serve(tokio::io::stdin(), io::stdout(), stopped));
    // A read of stdin can't be taken back.
    runtime.shutdown_background();
    if let Some(traces) = traces {
        traces.finish();
    }
    served.map_err(|error| Complaint::failed(error.to_string()))?;
    Ok(if *came.borrow() { Exit::Interrupted } else { Exit::Done })
}

/// Opens the workers, with an operator that can be asked: each call says if its client answers questions.
fn opened(args: &ServiceArgs, target: Option<&str>) -> Result<Vec<Session>, NotReady> {
    let mut settings = settings_of(args, target)?;
    settings.run.can_ask = true;
    Ok(Session::open_exported(settings)?)
}
