//! The user's editor: for a call's arguments before it runs, and for a message.

use crate::environment::{EDITOR, LLM_DO_EDITOR, VISUAL};
use llm_do_core::json::{self, Fault};
use serde_json::Value;
use std::{
    env,
    ffi::OsString,
    fs,
    fs::File,
    io,
    io::Write,
    path::Path,
    process::{Command, ExitStatus},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// What the user made of a call's arguments, as far as it can't be used yet.
#[derive(Default)]
pub(crate) struct Drafts(Option<String>);

impl Drafts {
    /// The arguments as the user's editor leaves them. A text that can't be arguments is there again the next time.
    ///
    /// # Errors
    /// Nothing was changed, the text is wrong, no editor is set, or it did not work.
    pub(crate) fn edit(
        &mut self,
        terminal: &File,
        cancelled: &AtomicBool,
        input: &Value,
    ) -> Result<Arc<Value>, String> {
        let text = self.0.take().unwrap_or_else(|| format!("{input:#}\n"));
        let text = edit(terminal, cancelled, &text, ".json").map_err(|error| error.to_string())?;
        arguments(&text, input).inspect_err(|_| self.0 = Some(text.clone()))
    }
}

/// Edited arguments, other than those there were.
///
/// # Errors
/// Why the text can't be arguments.
pub(crate) fn arguments(text: &str, before: &Value) -> Result<Arc<Value>, String> {
    match json::read(text) {
        Ok(value) if value == *before => Err("nothing was changed".into()),
        Ok(value) if value.is_object() => Ok(Arc::new(value)),
        Ok(_) => Err("arguments are a JSON object, {\"name\": value}".into()),
        Err(error) if error.fault == Fault::Refused => Err(error.to_string()),
        Err(error) => Err(format!("not JSON: {error}")),
    }
}

/// Whether the user has set an editor.
pub(crate) fn has_editor() -> bool {
    editor().is_some()
}

/// The user's editor, if one is set.
fn editor() -> Option<OsString> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    set(VISUAL.name).or_else(|| set(EDITOR.name))
}

/// A text as the user's editor left it. `suffix` is that of the file that the editor is given.
///
/// # Errors
/// No editor is set, or it did not work.
pub(crate) fn edit_file(terminal: &File, text: &str, suffix: &str) -> io::Result<String> {
    edit(terminal, &AtomicBool::new(false), text, suffix)
}

fn edit(terminal: &File, cancelled: &AtomicBool, text: &str, suffix: &str) -> io::Result<String> {
    let editor = editor().ok_or_else(|| io::Error::other("set VISUAL or EDITOR to your editor"))?;
    let edited = in_editor(&editor, terminal, cancelled, text, suffix);
    let name = editor.to_string_lossy();
    let edited = edited.map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))?;
    Ok(edited.unwrap_or_else(|| text.to_owned()))
}

/// The text as the editor left it; `None` if the run was ended meanwhile.
fn in_editor(
    editor: &std::ffi::OsStr,
    terminal: &File,
    cancelled: &AtomicBool,
    text: &str,
    suffix: &str,
) -> io::Result<Option<String>> {
    // Only this user can read it (mode 0600), and it goes when this returns.
    let mut file = tempfile::Builder::new().prefix("llm-do-").suffix(suffix).tempfile()?;
    file.write_all(text.as_bytes())?;
    let path = file.into_temp_path();
    match run(editor, terminal, cancelled, &path)? {
        None => Ok(None),
        Some(status) if !status.success() => Err(io::Error::other(format!("ended with {status}"))),
        // By path: many editors put a new file in place of the old one.
        Some(_) => fs::read_to_string(&path).map(Some),
    }
}

fn run(
    editor: &std::ffi::OsStr,
    terminal: &File,
    cancelled: &AtomicBool,
    path: &Path,
) -> io::Result<Option<ExitStatus>> {
    // A shell splits the variable into words (`code --wait`), as every program that honours it does.
    let mut child = Command::new("/bin/sh")
        .args(["-c", "exec $LLM_DO_EDITOR \"$1\"", "sh"])
        .arg(path)
        .env(LLM_DO_EDITOR.name, editor)
        .stdin(terminal.try_clone()?)
        .stdout(terminal.try_clone()?)
        .stderr(terminal.try_clone()?)
        .spawn()?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if cancelled.load(Ordering::Acquire) {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(20));
    }
}
