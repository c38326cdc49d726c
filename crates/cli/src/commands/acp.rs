//! `llm-do acp`: the agent of an editor (docs/guides/editors.md).

use crate::{
    args::{AcpArgs, Format, RunArgs},
    commands::run::say,
    exit::{Complaint, Exit},
    interrupt::Interrupts,
    opening::{settings_in, surrounded},
    program::complaint,
    render::Output,
};
use llm_do::{Problem, Session, Settings, core::question::Requester};
use llm_do_acp::{Host, serve};
use std::{
    env,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::sync::watch;

/// Runs the command.
pub(crate) fn run(acp: &AcpArgs, output: &Output) -> Result<Exit, Complaint> {
    if output.format != Format::Text {
        return Err(Complaint::wrong("--output is not available for acp: stdout carries the protocol"));
    }
    if acp.approval.operator.is_some() {
        return Err(Complaint::wrong("--operator is not available for acp: the editor answers questions"));
    }
    let failed = |error: std::io::Error| Complaint::failed(format!("cannot start: {error}"));
    let started_in =
        env::current_dir().map_err(|error| Complaint::wrong(format!("no current directory: {error}")))?;
    let editor = Editor { run: acp.into(), started_in, output: output.clone() };
    // What is wrong with the options is said at once, and not to each session.
    editor.settings(&editor.started_in).map_err(Complaint::wrong)?;
    let interrupts = Interrupts::listen(None).map_err(failed)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let (stop, mut stopped) = watch::channel(false);
    let came = stopped.clone();
    interrupts.on_first(move || {
        stop.send_replace(true);
    });
    let served = runtime.block_on(async {
        let stopped = async move {
            // The sender lives as long as the process.
            let _ = stopped.wait_for(|stopped| *stopped).await;
        };
        serve(Arc::new(editor), tokio::io::stdin(), tokio::io::stdout(), stopped).await
    });
    // A thread that still reads stdin, or a model that is cut off, is not waited for.
    runtime.shutdown_background();
    served.map_err(|error| Complaint::failed(error.to_string()))?;
    Ok(if *came.borrow() { Exit::Interrupted } else { Exit::Done })
}

/// The command line, as the host of an editor's sessions.
struct Editor {
    run: RunArgs,
    started_in: PathBuf,
    output: Output,
}

impl Host for Editor {
    fn settings(&self, folder: &Path) -> Result<Settings, String> {
        let mut base = surrounded().map_err(words)?;
        base.around.here = folder.to_owned();
        let mut settings = settings_in(&self.run, base).map_err(words)?;
        settings.run.requester = Requester::operator("acp");
        let request = &mut settings.request;
        if let Some(target) = request.positionals.first_mut() {
            let path = self.started_in.join(&*target);
            // Any other is a name that is looked for.
            if path.exists() {
                *target = path.to_str().map(str::to_owned).ok_or("the path of the target is not UTF-8")?;
            }
        }
        request.project = request.project.take().map(|project| self.started_in.join(project));
        for library in &mut request.libraries {
            *library = self.started_in.join(&*library);
        }
        Ok(settings)
    }

    fn explain(&self, problem: &Problem) -> String {
        words(complaint(problem))
    }

    fn opened(&self, session: &Session) {
        say(session, &self.output);
    }

    fn note(&self, text: &str) {
        self.output.note(text);
    }
}

fn words(complaint: Complaint) -> String {
    let hints = complaint.hints.iter().map(|hint| format!("\n{hint}"));
    format!("{}{}", complaint.message.trim_end(), hints.collect::<String>())
}
