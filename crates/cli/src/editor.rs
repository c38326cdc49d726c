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

/// An edited text of a call's arguments that can't be used yet.
#[derive(Default)]
pub(crate) struct Drafts(Option<String>);

impl Drafts {
    /// Opens the arguments in the user's editor, and returns the edited ones. A text that can't be arguments is kept
    /// for the next time.
    ///
    /// # Errors
    /// Nothing was changed, the text is wrong, no editor is set, or it failed.
    pub(crate) fn edit(
        &mut self,
        terminal: &File,
        cancelled: &AtomicBool,
        input: &Value,
    ) -> Result<Arc<Value>, String> {
        let sheet = Sheet::of(input);
        let text = self.0.take().unwrap_or_else(|| sheet.text(input));
        let text = edit(terminal, cancelled, &text, &sheet.suffix).map_err(|error| error.to_string())?;
        sheet.read(&text, input).inspect_err(|_| self.0 = Some(text.clone()))
    }
}

/// The length in characters from which a text of one line gets its own part.
const LONG: usize = 80;

/// Arguments in the form for an editor: JSON without the long texts, each of which follows unescaped under a line that
/// names it.
struct Sheet {
    /// The names of the long texts, each with the line above it.
    parts: Vec<(String, String)>,
    /// The end of the file's name, from which an editor chooses colours.
    suffix: String,
}

impl Sheet {
    fn of(input: &Value) -> Self {
        let map = input.as_object();
        let is_long = |text: &str| text.contains('\n') || text.chars().count() > LONG;
        let long = map
            .into_iter()
            .flatten()
            .filter_map(|(name, value)| value.as_str().filter(|text| is_long(text)).map(|_| name.clone()));
        let long: Vec<String> = long.filter(|name| !name.contains('\n')).collect();
        // No text may hold a line that could be taken for one of these.
        let all = map.into_iter().flatten().filter_map(|(_, value)| value.as_str());
        let all: Vec<&str> = all.flat_map(str::lines).collect();
        let mut bar = "-".repeat(8);
        while all.iter().any(|line| line.starts_with(&bar)) {
            bar.push('-');
        }
        let extension = map.and_then(|map| Path::new(map.get("path")?.as_str()?).extension()?.to_str());
        let is_plain = |extension: &&str| extension.len() < 9 && extension.chars().all(char::is_alphanumeric);
        let suffix = match (long.is_empty(), extension.filter(is_plain)) {
            (true, _) => ".json".to_owned(),
            (false, Some(extension)) => format!(".{extension}"),
            (false, None) => ".txt".to_owned(),
        };
        let parts = long.into_iter().map(|name| (name.clone(), format!("{bar} {name}"))).collect();
        Self { parts, suffix }
    }

    fn text(&self, input: &Value) -> String {
        let mut rest = input.clone();
        let mut below = String::new();
        for (name, line) in &self.parts {
            if let Some(Value::String(text)) = rest.as_object_mut().and_then(|map| map.shift_remove(name)) {
                below.push_str(&format!("{line}\n{text}"));
                // Where the text has no newline at its end, editors add one, and the next part begins a line.
                below.push_str(if text.ends_with('\n') { "" } else { "\n" });
            }
        }
        format!("{rest:#}\n{below}")
    }

    /// Reads the arguments from an edited text.
    fn read(&self, text: &str, before: &Value) -> Result<Arc<Value>, String> {
        if !self.parts.iter().any(|(_, line)| text.lines().any(|other| other == line)) {
            // The user has written all of it as JSON.
            return arguments(text, before);
        }
        let mut parts = Vec::new();
        let mut rest = text;
        for (name, line) in self.parts.iter().rev() {
            let at = rest.match_indices(line.as_str()).map(|(at, _)| at).find(|at| {
                let after = &rest[at + line.len()..];
                (*at == 0 || rest[..*at].ends_with('\n')) && (after.is_empty() || after.starts_with('\n'))
            });
            let at = at.ok_or_else(|| format!("the line `{line}` is missing, below which `{name}` is"))?;
            let content = rest[at + line.len()..].strip_prefix('\n').unwrap_or_default();
            let ended = before.get(name).and_then(Value::as_str).is_some_and(|text| text.ends_with('\n'));
            let content = if ended { content } else { content.strip_suffix('\n').unwrap_or(content) };
            parts.push((name, content));
            rest = &rest[..at];
        }
        let mut edited = match json::read(rest) {
            Ok(Value::Object(edited)) => edited,
            // `arguments` says what is wrong.
            _ => return arguments(rest, before),
        };
        for (name, content) in parts.into_iter().rev() {
            if edited.insert(name.clone(), content.into()).is_some() {
                return Err(format!("`{name}` is there twice"));
            }
        }
        changed(Value::Object(edited), before)
    }
}

/// Returns the arguments if they have changed.
fn changed(edited: Value, before: &Value) -> Result<Arc<Value>, String> {
    if edited == *before { Err("nothing was changed".into()) } else { Ok(Arc::new(edited)) }
}

/// Reads edited arguments, which must have changed.
///
/// # Errors
/// The reason why the text can't be arguments.
pub(crate) fn arguments(text: &str, before: &Value) -> Result<Arc<Value>, String> {
    match json::read(text) {
        Ok(value) if value.is_object() => changed(value, before),
        Ok(_) => Err("arguments are a JSON object, {\"name\": value}".into()),
        Err(error) if error.fault == Fault::Refused => Err(error.to_string()),
        Err(error) => Err(format!("not JSON: {error}")),
    }
}

/// Returns true if the user has set an editor.
pub(crate) fn has_editor() -> bool {
    editor().is_some()
}

/// Returns the user's editor, if one is set.
fn editor() -> Option<OsString> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    set(VISUAL.name).or_else(|| set(EDITOR.name))
}

/// Returns a text as the user edited it. `suffix` is the suffix of the file that the editor gets.
///
/// # Errors
/// No editor is set, or it failed.
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

/// Returns the edited text, or `None` if the run was ended meanwhile.
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_long_text_is_edited_as_it_is() {
        let input =
            json!({"path": "notes/a.md", "content": "# Title\n\n-------- content\n\"quoted\"\n", "n": 1});
        let sheet = Sheet::of(&input);
        assert_eq!(sheet.suffix, ".md");
        let text = sheet.text(&input);
        assert_eq!(
            text,
            "{\n  \"path\": \"notes/a.md\",\n  \"n\": 1\n}\n--------- content\n# Title\n\n-------- content\n\"quoted\"\n"
        );
        assert_eq!(sheet.read(&text, &input), Err("nothing was changed".into()));
        let edited =
            sheet.read(&text.replace("Title", "Tïtle").replace("notes/a", "notes/b"), &input).unwrap();
        let expected =
            json!({"path": "notes/b.md", "content": "# Tïtle\n\n-------- content\n\"quoted\"\n", "n": 1});
        assert_eq!(*edited, expected);
        let whole = "{\"path\": \"x\", \"content\": \"y\"}\n";
        assert_eq!(*sheet.read(whole, &input).unwrap(), json!({"path": "x", "content": "y"}));
        let twice = text.replace("\"n\": 1", "\"content\": 1");
        assert!(sheet.read(&twice, &input).unwrap_err().contains("twice"));
        assert!(sheet.read(&text.replace('{', ""), &input).unwrap_err().contains("not JSON"));
    }

    #[test]
    fn two_texts_without_newlines_at_their_ends_stay_without() {
        let input = json!({"old_text": "a\nb", "new_text": "c\nd"});
        let sheet = Sheet::of(&input);
        let text = sheet.text(&input);
        assert_eq!(text, "{}\n-------- old_text\na\nb\n-------- new_text\nc\nd\n");
        assert_eq!(
            *sheet.read(&text.replace("d\n", "e\n"), &input).unwrap(),
            json!({"old_text": "a\nb", "new_text": "c\ne"})
        );
        let without = text.replace("-------- old_text\n", "");
        assert!(
            sheet.read(&without, &input).unwrap_err().contains("the line `-------- old_text` is missing")
        );
        assert_eq!(Sheet::of(&json!({"path": "a.md", "n": 1})).suffix, ".json");
    }
}
