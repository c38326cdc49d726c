//! The function `shell`: runs a command and returns its result.

use super::{
    expand::Expansion,
    paths,
    rules::{Judgement, Rules},
    run,
    runner::Runner,
    words::{self, Word},
};
use crate::confine::{Confinement, working_directory};
use llm_do_core::{
    function::{Effects, Leaf, LeafCall, MainArgument, ToolError, ToolOutput},
    gate::{DecidedBy, Rule},
    send::BoxFuture,
};
use serde_json::Value;
use std::{sync::Arc, time::Duration};

/// The function `shell`, for one worker.
pub(crate) struct ShellTool {
    pub(crate) runner: Runner,
    pub(crate) rules: Rules,
    /// Maximum running time of a command.
    pub(crate) timeout: Duration,
    /// A hash of its configuration, which determines the places that a command may see.
    pub(crate) identity: Arc<str>,
}

/// Parses a command for the checks: a program, and arguments that may have wildcards.
fn command(input: &Value) -> Result<Vec<Word>, String> {
    let text = input.get("command").and_then(Value::as_str).unwrap_or_default();
    let words = words::parse(text).map_err(|error| error.to_string())?;
    match words.first().map(Word::text) {
        Some(None) => Err("the program is named by a wildcard: write its name".to_owned()),
        Some(Some("")) => Err("the program's name is empty: write a program first".to_owned()),
        Some(Some(program)) if program.contains('=') => Err(format!(
            "`{program}` sets a variable for the command, which is not supported: write the program first"
        )),
        _ => Ok(words),
    }
}

impl ShellTool {
    fn judge(&self, command: &[Word]) -> Judgement {
        let unconfined = self.runner.confinement == Ok(Confinement::Unconfined);
        self.rules.judge(command, &self.runner.authority, unconfined)
    }

    async fn call(&self, call: LeafCall<'_>) -> Result<ToolOutput, ToolError> {
        let runner = &self.runner;
        let written = command(call.input).map_err(ToolError::new)?;
        let judged = self.judge(&written);
        let cwd = working_directory(&runner.authority);
        let expansion = Expansion { authority: &runner.authority, files: call.files, cwd: &cwd };
        let command = expansion.expand(&written).await.map_err(ToolError::new)?;
        let again = self.judge(&command);
        // The operator approved the command as written.
        let other_reason = again.rule == Rule::Ask && again.why != judged.why;
        if again.rule > judged.rule || other_reason {
            return Err(ToolError::new(format!(
                "with the files that its wildcards stand for the command needs more than was allowed ({}). Write the \
                 names themselves.",
                again.why
            )));
        }
        let prepared = runner.prepare(judged.within).await?;
        let mut texts = command.iter().filter_map(Word::text);
        let program = texts.next().unwrap_or_default();
        let mut args = Vec::with_capacity(command.len());
        for text in texts {
            args.push(paths::given(text, &runner.authority, call.files).await.into());
        }
        let process = runner.process(&prepared, program, args, &call).await?;
        let asked = call.input.get("timeout").and_then(Value::as_f64);
        let asked =
            asked.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or(self.timeout);
        let watching = runner.confiner.watch().begin(call.run, &prepared.view, &prepared.authority);
        let ran = run::run(vec![process], None, asked.min(self.timeout), watching).await;
        let ran = ran.map_err(|error| ToolError::new(format!("`{program}` can't be run: {error}")))?;
        let planted = runner.set_aside_planted(call.run, &prepared.view, prepared.authority).await;
        Ok(ToolOutput::new(runner.result(ran, &prepared.view, planted)))
    }
}

impl Leaf for ShellTool {
    fn effects(&self, input: &Value) -> Effects {
        let judged = self.runner.confinement.clone().and_then(|_| command(input)).map(|command| {
            let Judgement { rule, why, dangerous, .. } = self.judge(&command);
            (words::line(&command), rule, why, dangerous)
        });
        let (line, rule, why, dangerous) = judged.unwrap_or_else(|reason| {
            let text = input.get("command").and_then(Value::as_str).unwrap_or_default();
            (text.to_owned(), Rule::Blocked, reason, false)
        });
        // A dangerous command asks even if a rule allows it; the rest follows the toolset's `approval`.
        let (says, rules) = match dangerous {
            true => (None, vec![(rule, DecidedBy::Toolset { why: why.into() })]),
            false => (Some((rule, DecidedBy::Toolset { why: why.into() })), Vec::new()),
        };
        // A rule against `rm` speaks of `/bin/rm` too; one that allows it does not.
        let program = line.split(' ').next().unwrap_or_default();
        let named = program.rsplit_once('/').map(|(_, name)| format!("{name}{}", &line[program.len()..]));
        let main = MainArgument::Texts([Some(line.clone()), named].into_iter().flatten().collect());
        Effects { main, says, rules, process: true, ..Effects::default() }
    }

    fn least(&self) -> Option<Effects> {
        let says = (self.rules.least(), DecidedBy::Toolset { why: "toolsets.shell".into() });
        Some(Effects { says: Some(says), ..Effects::default() })
    }

    fn identity(&self) -> BoxFuture<'_, Option<Arc<str>>> {
        Box::pin(async { Some(Arc::clone(&self.identity)) })
    }

    fn run<'a>(&'a self, call: LeafCall<'a>) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(self.call(call))
    }
}
