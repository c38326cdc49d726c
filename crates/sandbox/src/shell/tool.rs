//! The function `shell`: from a command to its result.

use super::{
    expand::Expansion,
    paths, program,
    rules::{Judgement, Rules},
    run::{self, Ran},
    words::{self, Word},
};
use crate::confine::{
    Confinement, Confiner, Denial, Planted, Process, ProcessView, Tier, denied, env_allowlist, network,
    unseen, working_directory,
};
use llm_do_core::{
    authority::{Access, Authority, Narrowing, Network, VirtualPath},
    function::{Effects, Leaf, LeafCall, MainArgument, ToolError, ToolOutput},
    gate::{DecidedBy, Rule},
    send::BoxFuture,
};
use serde_json::{Map, Value, json};
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Looks up an environment variable.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// `shell`, for one worker.
pub(crate) struct ShellTool {
    pub(crate) rules: Rules,
    pub(crate) authority: Arc<Authority>,
    pub(crate) environment: Environment,
    /// The confinement of its processes, or the reason why there is none.
    pub(crate) confinement: Result<Confinement, String>,
    /// Knows what its processes leave behind.
    pub(crate) confiner: Arc<Confiner>,
    /// Maximum running time of a command.
    pub(crate) timeout: Duration,
    /// Hash of its configuration, which says what a command may see.
    pub(crate) identity: Arc<str>,
}

/// A command as it is checked: a program, and arguments that may have wildcards.
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
        let unconfined = self.confinement == Ok(Confinement::Unconfined);
        self.rules.judge(command, &self.authority, unconfined)
    }

    /// The view of the process, and the authority that it is made for: the worker's, within the places of the rule.
    async fn view(
        &self,
        confinement: Confinement,
        within: Option<Vec<VirtualPath>>,
    ) -> Result<(ProcessView, Arc<Authority>), ToolError> {
        let failed =
            |reason: String| ToolError::new(format!("the view of the command can't be made: {reason}"));
        let authority = match within {
            None => Arc::clone(&self.authority),
            // No places at all, which `restrict` would take for all of them.
            Some(paths) if paths.is_empty() => {
                return Ok((ProcessView::empty(), Arc::clone(&self.authority)));
            }
            Some(restrict) => {
                let narrowing = Narrowing { restrict, ..Narrowing::default() };
                let narrowed = self.authority.narrow("shell", &narrowing);
                Arc::new(narrowed.map_err(|refusal| failed(refusal.to_string()))?)
            }
        };
        let tier = match confinement {
            Confinement::Tier(tier) => tier,
            Confinement::Unconfined => Tier::Namespaces,
        };
        let made =
            tokio::task::spawn_blocking(move || Ok((ProcessView::of(&authority, tier)?, authority))).await;
        made.map_err(|error| failed(error.to_string()))?.map_err(|error: io::Error| failed(error.to_string()))
    }

    /// Sets aside the names that the ended command has planted in the folders that it could write, and returns them.
    async fn set_aside_planted(
        &self,
        run: &str,
        view: &ProcessView,
        authority: Arc<Authority>,
    ) -> Result<Vec<Planted>, String> {
        let (confiner, run, view) = (Arc::clone(&self.confiner), run.to_owned(), view.clone());
        let looked =
            tokio::task::spawn_blocking(move || confiner.watch().look(&run, &view, &authority)).await;
        looked.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }

    /// The file of the program.
    async fn program(
        &self,
        word: &str,
        call: &LeafCall<'_>,
        folder: Option<&Path>,
        path: &str,
    ) -> Result<PathBuf, ToolError> {
        if !word.contains('/') {
            return program::find(word, path).map_err(ToolError::new);
        }
        if word.starts_with('/') {
            let real = paths::real(word, &self.authority, call.files).await;
            return Ok(real.unwrap_or_else(|| word.to_owned()).into());
        }
        Ok(folder.unwrap_or(Path::new("/")).join(word))
    }

    async fn call(&self, call: LeafCall<'_>) -> Result<ToolOutput, ToolError> {
        let confinement = self.confinement.clone().map_err(ToolError::new)?;
        let written = command(call.input).map_err(ToolError::new)?;
        let judged = self.judge(&written);
        let cwd = working_directory(&self.authority);
        let expansion = Expansion { authority: &self.authority, files: call.files, cwd: &cwd };
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
        let (view, authority) = self.view(confinement, judged.within).await?;
        let folder = view.working_folder(&self.authority, confinement);
        let env = env_allowlist(|name| (self.environment)(name));
        let path = env.iter().find(|(name, _)| name == "PATH").map_or("", |(_, path)| path);
        let mut texts = command.iter().filter_map(Word::text);
        let program = texts.next().unwrap_or_default();
        let file = self.program(program, &call, folder.as_deref(), path).await?;
        let mut args = Vec::with_capacity(command.len());
        for text in texts {
            args.push(paths::given(text, &self.authority, call.files).await.into());
        }
        let process = Process {
            args,
            env: env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            cwd: folder,
            network: self.authority.bounds().network().clone(),
            ..Process::new(file, view.clone(), confinement)
        };
        let asked = call.input.get("timeout").and_then(Value::as_f64);
        let asked =
            asked.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or(self.timeout);
        let watching = self.confiner.watch().begin(call.run, &view, &authority);
        let ran = run::run(process, asked.min(self.timeout), watching).await;
        let ran = ran.map_err(|error| ToolError::new(format!("`{program}` can't be run: {error}")))?;
        let planted = self.set_aside_planted(call.run, &view, authority).await;
        Ok(ToolOutput::new(self.result(ran, &view, planted)))
    }

    fn result(&self, ran: Ran, view: &ProcessView, planted: Result<Vec<Planted>, String>) -> Value {
        let Ran { exit, stdout, stderr, ended, denials } = ran;
        let left_out = stdout.left_out() + stderr.left_out();
        let (stdout, stderr) = (stdout.text(), stderr.text());
        let mut result = Map::new();
        let ended = ended.or_else(|| match (&exit.reason, exit.signal) {
            (Some(reason), _) => Some(reason.clone()),
            (None, Some(signal)) => Some(format!("signal {signal} ended it")),
            (None, None) => None,
        });
        match ended {
            Some(ended) => drop(result.insert("ended".into(), ended.into())),
            None => drop(result.insert("exit_code".into(), exit.code.into())),
        }
        let hint = (exit.code != Some(0)).then(|| self.hint(&stderr, view, &denials)).flatten();
        result.insert("stdout".into(), stdout.into());
        result.insert("stderr".into(), stderr.into());
        if left_out > 0 {
            result.insert("left_out_bytes".into(), left_out.into());
        }
        result.extend(hint.map(|hint| ("hint".to_owned(), hint.into())));
        let planted: Vec<String> = match planted {
            Ok(planted) => Planted::notices(&planted),
            Err(error) => {
                vec![format!("the folders that the command could write can't be searched: {error}")]
            }
        };
        if !planted.is_empty() {
            result.insert("planted".into(), planted.into());
        }
        Value::Object(result)
    }

    /// The kernel's refusal, as far as the program's own messages show it.
    fn hint(&self, stderr: &str, view: &ProcessView, denials: &[Denial]) -> Option<String> {
        const WHO: &str = "The command";
        const REFUSED: [&str; 3] = ["Permission denied", "Operation not permitted", "Read-only file system"];
        const UNREACHABLE: [&str; 5] = [
            "Network is unreachable",
            "Could not resolve",
            "name resolution",
            "Name or service not known",
            "unable to resolve",
        ];
        const METADATA: &str = "Without namespaces commands can't change modes, owners, times and extended attributes, also \
                                of files that they may write.";
        let allowed = self.authority.bounds().network();
        let network = |found_nobody| {
            let told = network(WHO, *allowed == Network::Off, found_nobody, allowed, denials);
            (!told.is_empty()).then(|| told.join("\n"))
        };
        if !denials.is_empty() {
            return network(false);
        }
        stderr.lines().find_map(|line| {
            let holds = |signs: &[&str]| signs.iter().any(|sign| line.contains(sign));
            if holds(&UNREACHABLE) {
                return network(true);
            }
            let path = path_in(line);
            let shown = path
                .and_then(|path| view.shown().iter().find(|shown| Path::new(path).starts_with(&shown.place)));
            if holds(&REFUSED) {
                let writable = shown.is_some_and(|shown| shown.access == Access::Write);
                if writable && self.confinement == Ok(Confinement::Tier(Tier::Landlock)) {
                    return Some(METADATA.to_owned());
                }
                let mut told = denied(WHO, path, Some(view));
                if path.is_none() {
                    told.extend(network(false).map(|network| format!(" {network}")));
                }
                return Some(told);
            }
            let path = path.filter(|path| line.contains("No such file") && path.starts_with('/'))?;
            shown.is_none().then(|| unseen(WHO, path, Some(view)))
        })
    }
}

/// The path that a line like `cat: /x: Permission denied` or `rm: cannot remove '/x': …` is about.
fn path_in(line: &str) -> Option<&str> {
    let (before, _) = line.rsplit_once(": ")?;
    let last = before.rsplit(": ").next()?;
    let quotes = ['\'', '‘', '’', '"', '`'];
    let path = match last.find(quotes) {
        Some(_) => last.split(quotes).nth(1)?,
        None => last,
    };
    (path.contains('/') || !path.contains(' '))
        .then_some(path)
        .filter(|path| !path.is_empty() && *path != before)
}

impl Leaf for ShellTool {
    fn effects(&self, input: &Value) -> Effects {
        let judged = self.confinement.clone().and_then(|_| command(input)).map(|command| {
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

/// The schema of what it returns.
pub(crate) fn output() -> Value {
    json!({
        "type": "object",
        "properties": {
            "exit_code": {"type": ["integer", "null"]},
            "ended": {"type": "string"},
            "stdout": {"type": "string"},
            "stderr": {"type": "string"},
            "left_out_bytes": {"type": "integer"},
            "planted": {"type": "array", "items": {"type": "string"}},
            "hint": {"type": "string"},
        },
        "required": ["stdout", "stderr"],
    })
}

#[cfg(test)]
mod tests {
    use super::path_in;

    #[test]
    fn the_path_that_a_program_complains_about_is_found() {
        assert_eq!(path_in("cat: /x/y: Permission denied"), Some("/x/y"));
        assert_eq!(path_in("touch: cannot touch '/p/a b': Read-only file system"), Some("/p/a b"));
        assert_eq!(path_in("sh: 1: cannot create out: Permission denied"), None);
        assert_eq!(path_in("Permission denied"), None);
    }
}
