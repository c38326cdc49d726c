//! Changing files.

use super::{
    Tool, argument,
    content::Content,
    hint::{explain, place},
    read::whole,
};
use crate::{
    authority::Located,
    function::{LeafCall, ToolError, ToolOutput},
    question::Preview,
    schema::sha256,
    vfs::{EntryKind, FsError},
};
use std::borrow::Cow;

/// Greatest size of a content that previews show, in bytes. Longer contents are only described, because a person would
/// not read them before approving.
const PREVIEWED: usize = 512 * 1024;

pub(super) async fn write(call: &LeafCall<'_>) -> Result<ToolOutput, ToolError> {
    let (at, content) = (place(call, 0)?, argument(call.input, "content"));
    match call.files.write(at, content.as_bytes()).await {
        Ok(()) => Ok(ToolOutput::text(written(at, content))),
        Err(error) => Err(explain(call, error).await),
    }
}

pub(super) async fn append(call: &LeafCall<'_>) -> Result<ToolOutput, ToolError> {
    let at = place(call, 0)?;
    let content = addition(call, at).await;
    match call.files.append(at, content.as_bytes()).await {
        Ok(()) => Ok(ToolOutput::text(added(at, &content))),
        Err(error) => Err(explain(call, error).await),
    }
}

/// Size of the part of a file that is examined for line endings, in bytes.
const LOOKED_AT: u64 = 64 * 1024;

/// The text that is appended to a file, with the line endings of the file.
pub(super) async fn addition<'c>(call: &'c LeafCall<'_>, at: &Located) -> Cow<'c, str> {
    let content = argument(call.input, "content");
    if !content.contains('\n') {
        return Cow::Borrowed(content);
    }
    match call.files.read(at, 0, LOOKED_AT).await {
        Ok((bytes, _)) if ends_in_crlf(&String::from_utf8_lossy(&bytes)) => Cow::Owned(with_crlf(content)),
        _ => Cow::Borrowed(content),
    }
}

pub(super) async fn delete(call: &LeafCall<'_>) -> Result<ToolOutput, ToolError> {
    let at = place(call, 0)?;
    match call.files.delete(at).await {
        Ok(()) => Ok(ToolOutput::text(deleted(at))),
        Err(error) => Err(explain(call, error).await),
    }
}

pub(super) async fn rename(call: &LeafCall<'_>) -> Result<ToolOutput, ToolError> {
    let (from, to) = (place(call, 0)?, place(call, 1)?);
    match call.files.rename(from, to).await {
        Ok(()) => Ok(ToolOutput::text(moved(from, to))),
        Err(error) => Err(into_folder(call, to, explain(call, error.clone()).await, &error).await),
    }
}

pub(super) async fn copy(call: &LeafCall<'_>) -> Result<ToolOutput, ToolError> {
    let (from, to) = (place(call, 0)?, place(call, 1)?);
    match call.files.copy(from, to).await {
        Ok(()) => Ok(ToolOutput::text(copied(from, to))),
        Err(error) => Err(into_folder(call, to, explain(call, error.clone()).await, &error).await),
    }
}

/// The error for a destination that is a folder. Models have learned commands that move "into" a folder. Here the
/// destination includes the file's name.
async fn into_folder(call: &LeafCall<'_>, to: &Located, plain: ToolError, error: &FsError) -> ToolError {
    if !matches!(error, FsError::Exists(_)) {
        return plain;
    }
    match call.files.stat(to).await {
        Ok(Some(entry)) if entry.kind == EntryKind::Directory => {
            let name =
                argument(call.input, "source").trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            let inside = to.path.join(name);
            ToolError::new(format!(
                "`{}` is a folder. To put it there, give `{inside}` as the destination.",
                to.path
            ))
        }
        _ => plain,
    }
}

pub(super) async fn edit(call: &LeafCall<'_>) -> Result<ToolOutput, ToolError> {
    let at = place(call, 0)?;
    let text = match whole(call, at).await? {
        Content::Text(text) => text,
        Content::Binary(kind, _) => {
            return Err(ToolError::new(format!("`{}` is not text and can't be edited: {kind}.", at.path)));
        }
        Content::Long(what) => {
            return Err(ToolError::new(format!("`{}` is too long to be edited: {what}.", at.path)));
        }
    };
    let edited = edited(call, &text)
        .map_err(|reason| ToolError::new(format!("`{}` was not changed: {reason}", at.path)))?;
    match call.files.write(at, edited.text.as_bytes()).await {
        Ok(()) => Ok(ToolOutput::text(replaced(at, edited.line))),
        Err(error) => Err(explain(call, error).await),
    }
}

#[derive(Debug)]
pub(super) struct Edited {
    pub(super) text: String,
    /// The line of the change, from 1.
    pub(super) line: usize,
}

/// The edited text, or the reason why the edit is not possible.
pub(super) fn edited(call: &LeafCall<'_>, text: &str) -> Result<Edited, String> {
    replace_once(text, argument(call.input, "old_text"), argument(call.input, "new_text"))
}

pub(super) fn written(at: &Located, content: &str) -> String {
    format!("Wrote {} bytes to `{}`.", content.len(), at.path)
}

pub(super) fn added(at: &Located, content: &str) -> String {
    format!("Added {} bytes to `{}`.", content.len(), at.path)
}

pub(super) fn replaced(at: &Located, line: usize) -> String {
    format!("Replaced the text at line {line} of `{}`.", at.path)
}

pub(super) fn deleted(at: &Located) -> String {
    format!("Deleted `{}`.", at.path)
}

pub(super) fn moved(from: &Located, to: &Located) -> String {
    format!("Moved `{}` to `{}`.", from.path, to.path)
}

pub(super) fn copied(from: &Located, to: &Located) -> String {
    format!("Copied `{}` to `{}`.", from.path, to.path)
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].bytes().filter(|&b| b == b'\n').count() + 1
}

/// Replaces the only occurrence of `old`, or gives the reason why that is not possible.
fn replace_once(text: &str, old: &str, new: &str) -> Result<Edited, String> {
    if old.is_empty() {
        return Err("`old_text` is empty. Use write_file for a whole file, append_file for its end.".into());
    }
    // Models write `\n`. The lines of a file keep their ends.
    let (old, new) = match ends_in_crlf(text) {
        true => (Cow::Owned(with_crlf(old)), Cow::Owned(with_crlf(new))),
        false => (Cow::Borrowed(old), Cow::Borrowed(new)),
    };
    let (old, new) = (&*old, &*new);
    if old == new {
        return Err("`old_text` and `new_text` are the same.".into());
    }
    // Overlapping occurrences (`aa` in `aaa`) are ambiguous too.
    let mut places = Vec::new();
    let mut from = 0;
    while let Some(found) = text[from..].find(old).map(|at| from + at) {
        places.push(found);
        from = found + text[found..].chars().next().map_or(1, char::len_utf8);
    }
    match places.as_slice() {
        [at] => Ok(Edited {
            text: format!("{}{new}{}", &text[..*at], &text[at + old.len()..]),
            line: line_of(text, *at),
        }),
        [] => Err(format!("`old_text` does not occur in it. {}", near(text, old))),
        places => {
            let shown: Vec<String> = places.iter().take(5).map(|&at| line_of(text, at).to_string()).collect();
            let more = if places.len() > 5 { ", …" } else { "" };
            Err(format!(
                "`old_text` occurs {} times (lines {}{more}), not once. Give more of the text around the one you mean.",
                places.len(),
                shown.join(", ")
            ))
        }
    }
}

/// Returns true if all lines of a text end in CRLF.
fn ends_in_crlf(text: &str) -> bool {
    text.contains('\n') && text.split('\n').rev().skip(1).all(|line| line.ends_with('\r'))
}

fn with_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

/// The part of the text most similar to `old`.
fn near(text: &str, old: &str) -> String {
    /// Maximum number of lines to compare: beyond it the hint would take too long.
    const COMPARED: usize = 20_000;
    if text.contains("\r\n") && text.contains(&with_crlf(old)) {
        return "These lines of the file end in CRLF: write `\\r\\n` for their ends.".into();
    }
    let Some(wanted) = old.lines().map(str::trim).find(|line| !line.is_empty()) else {
        return "Use read_file to see what is there.".into();
    };
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let wanted_words = words(wanted);
    let mut best: Option<(f64, usize, &str)> = None;
    for (number, line) in text.lines().enumerate().take(COMPARED) {
        let likeness = match words(line) == wanted_words {
            true => 1.0,
            false => strsim::sorensen_dice(line.trim(), wanted),
        };
        if likeness > best.map_or(0.6, |(best, ..)| best) {
            best = Some((likeness, number + 1, line));
        }
    }
    match best {
        None => "Use read_file to see what is there.".into(),
        Some((likeness, number, line)) => {
            let cut = line.char_indices().nth(200).map_or(line.len(), |(at, _)| at);
            let how = if likeness < 1.0 {
                "is the nearest"
            } else {
                "begins alike; compare white space and what follows"
            };
            format!("Line {number} {how}: `{}`", &line[..cut])
        }
    }
}

/// A preview of the file before and after the call, for the operator. `None` if the call will fail anyway or changes no
/// content.
pub(super) async fn preview(tool: Tool, call: LeafCall<'_>) -> Option<Preview> {
    if !matches!(tool, Tool::Write | Tool::Edit | Tool::Append | Tool::Delete) {
        return None;
    }
    let at = call.places.first()?;
    let found = call.files.stat(at).await.ok()?;
    let before = match found {
        None => None,
        Some(entry) if entry.kind != EntryKind::File => return None,
        Some(_) => Some(whole(&call, at).await.ok()?),
    };
    let after = match (tool, &before) {
        (Tool::Write, _) => Some(argument(call.input, "content").to_owned()),
        (Tool::Edit, Some(Content::Text(text))) => Some(edited(&call, text).ok()?.text),
        (Tool::Append, None) => Some(argument(call.input, "content").to_owned()),
        (Tool::Append, Some(Content::Text(text))) => Some(format!("{text}{}", addition(&call, at).await)),
        (Tool::Delete, Some(_)) => None,
        _ => return None,
    };
    let before = before.map(|content| match content {
        Content::Text(text) => shown(text),
        Content::Binary(kind, size) => format!("({kind}, {size} bytes)"),
        Content::Long(what) => format!("({what})"),
    });
    Some(Preview::Change { path: at.path.to_string(), before, after: after.map(shown) })
}

fn shown(text: String) -> String {
    if text.len() <= PREVIEWED {
        return text;
    }
    // An approval is for this content: it is compared with what is there before the call runs.
    format!("({} bytes, SHA-256 {})", text.len(), sha256(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_replaces_the_only_occurrence() {
        let edited = replace_once("one\r\ntwo\r\nthree", "two\r\n", "2\r\n").unwrap();
        assert_eq!((edited.text.as_str(), edited.line), ("one\r\n2\r\nthree", 2));
        assert_eq!(replace_once("größe", "ö", "o").unwrap().text, "große");
    }

    #[test]
    fn an_edit_keeps_the_line_ends_of_the_file() {
        for (old, new) in
            [("b", "x\ny"), ("b\n", "x\ny\n"), ("a\nb\nc", "a\nx\ny\nc"), ("b\r\n", "x\r\ny\r\n")]
        {
            let edited = replace_once("a\r\nb\r\nc\r\n", old, new).unwrap();
            assert_eq!((edited.text.as_str(), edited.line > 0), ("a\r\nx\r\ny\r\nc\r\n", true), "{old:?}");
        }
        assert_eq!(replace_once("a\r\nb\n", "b", "x\ny").unwrap().text, "a\r\nx\ny\n", "its lines differ");
        assert_eq!(replace_once("b", "b", "x\ny").unwrap().text, "x\ny");
    }

    #[test]
    fn an_edit_that_could_mean_several_places_says_how_many_and_where() {
        let error = replace_once("a\nb\na\n", "a\n", "c\n").unwrap_err();
        assert!(error.contains("occurs 2 times (lines 1, 3)"), "{error}");
        assert!(replace_once("aaa", "aa", "b").unwrap_err().contains("occurs 2 times"));
    }

    #[test]
    fn an_edit_of_text_that_is_not_there_shows_the_nearest_line() {
        let text = "fn main() {\n    println(\"hello\");\n}\n";
        let error = replace_once(text, "\tprintln(\"hello\");", "").unwrap_err();
        assert!(error.contains("Line 2 begins alike"), "{error}");
        let error = replace_once(text, "    println(\"hallo\");", "").unwrap_err();
        assert!(error.contains("Line 2 is the nearest"), "{error}");
        let error = replace_once("a\r\nb\r\nc\n", "a\nb", "c").unwrap_err();
        assert!(error.contains("CRLF"), "{error}");
        assert!(replace_once("x", "something else", "").unwrap_err().contains("read_file"));
    }

    #[test]
    fn an_edit_that_changes_nothing_is_refused() {
        assert!(replace_once("a", "a", "a").unwrap_err().contains("the same"));
        assert!(replace_once("a", "", "b").unwrap_err().contains("empty"));
    }
}
