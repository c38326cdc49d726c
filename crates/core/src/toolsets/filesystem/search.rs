//! Searching text files.

use super::{
    argument, argument_or,
    content::Content,
    hint::found,
    list::{LOOKED_AT, Rows, walk},
};
use crate::{
    authority::VirtualPath,
    function::{LeafCall, ToolError, ToolOutput},
    origin::Origins,
    vfs::EntryKind,
};
use regex::{Regex, RegexBuilder};
use std::{fmt::Write, future::poll_fn, task::Poll};

/// Maximum number of matching lines shown.
const SHOWN: u32 = 200;
/// Maximum number of characters shown per line.
const LINE_CHARS: usize = 300;
/// Greatest size of a file that is searched, in bytes. Larger files are skipped.
const LARGEST: u64 = 4 * 1024 * 1024;
/// Maximum bytes that one search reads.
const READ: u64 = 128 * 1024 * 1024;
/// Bytes searched without a pause.
const SLICE: usize = 256 * 1024;
/// Maximum memory of a compiled pattern, in bytes, because a pattern may be hostile.
const COMPILED: usize = 1024 * 1024;

pub(super) async fn search(call: &LeafCall<'_>) -> Result<ToolOutput, ToolError> {
    let path = VirtualPath::parse(argument_or(call.input, "path", "."))
        .map_err(|refusal| ToolError::new(refusal.to_string()))?;
    let pattern = argument(call.input, "pattern");
    let (regex, literal) = compile(pattern)?;
    let tree = walk(call, &path, "").await?;
    let (mut text, mut shown, mut read, mut skipped, mut searched) = (String::new(), 0, 0, 0_usize, 0_usize);
    let (mut stopped, mut slice) = (None, 0);
    let (rows, mut untrusted) = (Rows::of(call, call.places).await, Vec::new());
    for entry in tree.entries.iter().filter(|entry| entry.kind == EntryKind::File) {
        if entry.size.is_some_and(|size| size > LARGEST) {
            skipped += 1;
            continue;
        }
        if read + entry.size.unwrap_or(0) > READ {
            stopped = Some(format!("Stopped after {READ} bytes. Give a narrower `path`."));
            break;
        }
        // A file that vanishes or may not be read does not fail the search.
        let file = found(call, &entry.path)?;
        let (bytes, size) = match call.files.read(&file, 0, LARGEST).await {
            Ok((bytes, size)) if size <= LARGEST => (bytes, size),
            _ => {
                skipped += 1;
                continue;
            }
        };
        read += size;
        let Content::Text(content) = Content::of(bytes) else {
            skipped += 1;
            continue;
        };
        searched += 1;
        // Before lines are matched and cut: a pattern must not find out about a secret, and a part of one is not recognised.
        let content = call.redact.text(&content);
        let from_others = rows.has_untrusted_content(&file).await;
        for (number, line) in content.lines().enumerate() {
            slice += line.len() + 1;
            if slice > SLICE {
                slice = 0;
                pause().await;
            }
            if !regex.is_match(line) {
                continue;
            }
            if shown == SHOWN {
                stopped = Some(format!("Stopped after {SHOWN} lines. Give a narrower `path` or `pattern`."));
                break;
            }
            shown += 1;
            if from_others {
                untrusted.push(shown);
            }
            let cut = line.char_indices().nth(LINE_CHARS).map_or(line.len(), |(at, _)| at);
            let more = if cut < line.len() { "…" } else { "" };
            // Writing to a String can't fail.
            let _ = writeln!(text, "{}:{}: {}{more}", entry.path, number + 1, &line[..cut]);
        }
        if stopped.is_some() {
            break;
        }
    }
    if text.is_empty() {
        let _ = writeln!(text, "No line matches `{pattern}` in {searched} text files in `{path}`.");
    }
    let notices = [
        literal.then(|| "The pattern is not a regular expression and was searched as plain text.".to_owned()),
        (skipped > 0)
            .then(|| format!("{skipped} files were skipped: binary, over {LARGEST} bytes, or not readable.")),
        tree.cut
            .then(|| format!("Only the first {LOOKED_AT} entries were looked at. Give a narrower `path`.")),
        stopped,
    ];
    tree.add_missing(&mut text, &mut untrusted);
    for notice in notices.into_iter().flatten() {
        let _ = writeln!(text, "[{notice}]");
    }
    Ok(ToolOutput { origins: Some(Origins::lines(untrusted)), ..ToolOutput::text(text.trim_end()) })
}

/// Yields to other tasks on this thread, including one that may cancel this search.
async fn pause() {
    let mut paused = false;
    poll_fn(|context| {
        if std::mem::replace(&mut paused, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The pattern as a regular expression, or as plain text if it doesn't parse as one.
fn compile(pattern: &str) -> Result<(Regex, bool), ToolError> {
    let build =
        |pattern: &str| RegexBuilder::new(pattern).size_limit(COMPILED).dfa_size_limit(COMPILED).build();
    match build(pattern) {
        Ok(regex) => Ok((regex, false)),
        Err(regex::Error::Syntax(_)) => {
            build(&regex::escape(pattern)).map(|regex| (regex, true)).map_err(too_large)
        }
        Err(error) => Err(too_large(error)),
    }
}

fn too_large(_: regex::Error) -> ToolError {
    ToolError::new("The pattern is too large. Search for something shorter, with smaller repetitions.")
}
