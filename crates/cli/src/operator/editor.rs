//! Editing a call's arguments before it runs.

use super::entry::{self, Entered};
use crate::{
    environment::{EDITOR, LLM_DO_EDITOR, VISUAL},
    terminal::Terminal,
};
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

/// How an editing ended.
pub(super) enum Edited {
    /// With these arguments.
    Arguments(Arc<Value>),
    /// With those there were.
    Unchanged,
    /// With a text that can't be arguments.
    Wrong {
        /// The text, to continue from.
        text: String,
        /// What is wrong, and where.
        problem: String,
    },
    /// The editor did not work.
    Failed(String),
    /// The question is no longer open.
    Cancelled,
}

/// Edits the arguments in the user's editor, or on a line below the question where none is set. `draft` is what the last
/// attempt left.
pub(super) fn edit(
    terminal: &Terminal,
    cancelled: &AtomicBool,
    question: &dyn Fn(usize) -> String,
    input: &Arc<Value>,
    draft: Option<String>,
) -> Edited {
    let text = match editor() {
        Some(editor) => {
            let text = draft.unwrap_or_else(|| format!("{input:#}\n"));
            terminal.restore();
            match in_editor(&editor, &|| terminal.handle(), cancelled, &text, ".json") {
                Ok(Some(text)) => text,
                Ok(None) => return Edited::Cancelled,
                Err(error) => return Edited::Failed(format!("{}: {error}", editor.to_string_lossy())),
            }
        }
        None => {
            let text = draft.unwrap_or_else(|| input.to_string());
            match entry::read(terminal, cancelled, question, "arguments: ", &text) {
                Entered::Line(text) => text,
                Entered::Left => return Edited::Unchanged,
                Entered::Cancelled => return Edited::Cancelled,
            }
        }
    };
    match serde_json::from_str::<Value>(&text) {
        Ok(value) if value == **input => Edited::Unchanged,
        Ok(value) if value.is_object() => Edited::Arguments(Arc::new(value)),
        Ok(_) => Edited::Wrong { text, problem: "arguments are a JSON object, {\"name\": value}".into() },
        Err(error) => Edited::Wrong { problem: format!("not JSON: {error}"), text },
    }
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
    let editor = editor().ok_or_else(|| io::Error::other("set VISUAL or EDITOR to your editor"))?;
    let never = AtomicBool::new(false);
    let edited = in_editor(&editor, &|| terminal.try_clone(), &never, text, suffix)?;
    Ok(edited.unwrap_or_else(|| text.to_owned()))
}

/// The text as the editor left it; `None` if the run was ended meanwhile.
fn in_editor(
    editor: &std::ffi::OsStr,
    terminal: &dyn Fn() -> io::Result<File>,
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
    terminal: &dyn Fn() -> io::Result<File>,
    cancelled: &AtomicBool,
    path: &Path,
) -> io::Result<Option<ExitStatus>> {
    // A shell splits the variable into words (`code --wait`), as every program that honours it does.
    let mut child = Command::new("/bin/sh")
        .args(["-c", "exec $LLM_DO_EDITOR \"$1\"", "sh"])
        .arg(path)
        .env(LLM_DO_EDITOR.name, editor)
        .stdin(terminal()?)
        .stdout(terminal()?)
        .stderr(terminal()?)
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
