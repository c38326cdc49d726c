//! The processes of commands: their view, their files and their results.

use super::{paths, program, run::Ran};
use crate::confine::{
    Confinement, Confiner, Denial, Planted, Process, ProcessView, Tier, denied, env_allowlist, network,
    unseen,
};
use llm_do_core::{
    authority::{Access, Authority, Narrowing, Network, Place, VirtualPath},
    function::{LeafCall, ToolError},
};
use serde_json::{Map, Value, json};
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Looks up an environment variable.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Runs the processes of one worker.
pub(crate) struct Runner {
    pub(crate) authority: Arc<Authority>,
    pub(crate) environment: Environment,
    /// The confinement of its processes, or the reason why there is none.
    pub(crate) confinement: Result<Confinement, String>,
    /// The watch over files that its processes leave behind.
    pub(crate) confiner: Arc<Confiner>,
}

/// The place of a command's processes.
pub(crate) struct Prepared {
    pub(crate) view: ProcessView,
    /// The authority that the view is made for.
    pub(crate) authority: Arc<Authority>,
    confinement: Confinement,
    folder: Option<PathBuf>,
    env: Vec<(String, String)>,
}

impl Runner {
    /// Prepares processes of the worker, within the places of a rule.
    ///
    /// # Errors
    /// There is no confinement, or the view can't be made.
    pub(crate) async fn prepare(&self, within: Option<Vec<VirtualPath>>) -> Result<Prepared, ToolError> {
        let confinement = self.confinement.clone().map_err(ToolError::new)?;
        let (view, authority) = self.view(confinement, within).await?;
        let folder = view.working_folder(&self.authority, confinement);
        let env = env_allowlist(|name| (self.environment)(name)).into_iter();
        let env = env.map(|(name, value)| (name.to_string(), value)).collect();
        Ok(Prepared { view, authority, confinement, folder, env })
    }

    /// Creates a process of that program.
    ///
    /// # Errors
    /// The program does not exist.
    pub(crate) async fn process(
        &self,
        prepared: &Prepared,
        program: &str,
        args: Vec<std::ffi::OsString>,
        call: &LeafCall<'_>,
    ) -> Result<Process, ToolError> {
        let path = prepared.env.iter().find(|(name, _)| name == "PATH").map_or("", |(_, path)| path);
        let file = self.program(program, call, prepared.folder.as_deref(), path).await?;
        Ok(Process {
            args,
            env: prepared.env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            cwd: prepared.folder.clone(),
            network: self.authority.bounds().network().clone(),
            ..Process::new(file, prepared.view.clone(), prepared.confinement)
        })
    }

    /// Returns the view of the process, and the authority for which it is made: the worker's, within the places of the
    /// rule.
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
    pub(crate) async fn set_aside_planted(
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

    /// Finds the file of the program.
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
        let file: PathBuf = if word.starts_with('/') {
            let real = paths::real(word, &self.authority, call.files).await;
            real.unwrap_or_else(|| word.to_owned()).into()
        } else {
            folder.unwrap_or(Path::new("/")).join(word)
        };
        match program::not_executable(&file, word) {
            // Whether a file exists outside of the worker's view is not said.
            Some(reason) if self.shows(&file) => Err(ToolError::new(reason)),
            _ => Ok(file),
        }
    }

    /// Returns true if a real path is in one of the worker's mounts.
    fn shows(&self, file: &Path) -> bool {
        let Some(place) = std::fs::canonicalize(file).ok().and_then(|file| Some(Place::new(file.to_str()?)))
        else {
            return false;
        };
        self.authority.view().mounts().iter().any(|mount| place.is_within(&mount.place))
    }

    /// Returns the result of a command for its caller.
    pub(crate) fn result(
        &self,
        ran: Ran,
        view: &ProcessView,
        planted: Result<Vec<Planted>, String>,
    ) -> Value {
        let Ran { exit, stdout, stderr, ended, denials, program } = ran;
        let left_out = stdout.left_out() + stderr.left_out();
        let (stdout, stderr) = (stdout.text(), stderr.text());
        let mut result = Map::new();
        let ended = ended.or_else(|| match (&exit.reason, exit.signal) {
            (Some(reason), _) => Some(reason.clone()),
            (None, Some(signal)) => Some(format!("signal {signal} ended it")),
            (None, None) => None,
        });
        if let Some(program) = program {
            result.insert("program".into(), program.into());
        }
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

    /// Explains the kernel's refusal, as far as the program's own messages show it.
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

/// Returns the path in a line like `cat: /x: Permission denied` or `rm: cannot remove '/x': …`.
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

/// Returns the schema of the result.
pub(crate) fn output() -> Value {
    json!({
        "type": "object",
        "properties": {
            "program": {"type": "string"},
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
