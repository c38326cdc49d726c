//! Reading one file.

use super::{
    argument,
    content::{Content, describe_start},
    hint::{explain, is_free, place},
};
use crate::{
    authority::{Access, Located, VirtualPath},
    function::{LeafCall, ToolError, ToolOutput},
    vfs::EntryKind,
};
use serde_json::{Value, json};

/// Default number of characters in a page.
pub(super) const PAGE_CHARS: u64 = 20_000;
/// Greatest length of a file that is read, in bytes. Longer files are only described, because finding a page means
/// reading everything before it.
pub(super) const LONGEST_TEXT: u64 = 16 * 1024 * 1024;
/// Bytes read to determine a file's type.
const START: u64 = 4096;

/// The canonical form of `/results/N`, if the path is one.
pub(super) fn results_path(path: &str) -> Option<String> {
    let path = VirtualPath::parse(path).ok()?;
    let number = path.as_str().strip_prefix("/results/")?;
    number.bytes().all(|b| b.is_ascii_digit()).then(|| path.to_string())
}

pub(super) async fn read(call: &LeafCall<'_>) -> Result<ToolOutput, ToolError> {
    let path = argument(call.input, "path");
    let from_the_project;
    let at = match results_path(path) {
        None => place(call, 0)?,
        Some(name) => {
            if let Some(text) = call.results.get(&name).await {
                let origins = Some(call.results.origins());
                return Ok(ToolOutput { origins, ..ToolOutput::text(page(call, &name, &text)) });
            }
            // A file that is only named like a result. It was not located, so its mount's approval rules were not
            // checked.
            let missing = || {
                ToolError::new(format!(
                    "`{name}` does not exist: there is no such result in this conversation."
                ))
            };
            from_the_project = call.authority.locate(&name, Access::Read).map_err(|_| missing())?;
            if !is_free(&from_the_project) || matches!(call.files.stat(&from_the_project).await, Ok(None)) {
                return Err(missing());
            }
            &from_the_project
        }
    };
    match whole(call, at).await? {
        // Before it is cut: half of a secret is not recognised.
        Content::Text(text) => Ok(ToolOutput::text(page(call, at.path.as_str(), &call.redact.text(&text)))),
        Content::Binary(kind, size) => Ok(ToolOutput::text(format!(
            "[`{}` is not text and can't be shown: {kind}, {size} bytes.]",
            at.path
        ))),
        Content::Long(what) => Ok(ToolOutput::text(format!(
            "[`{}` is too long to be shown: {what}. search_files finds lines in files of up to 4 MB.]",
            at.path
        ))),
    }
}

/// The whole content of a file, unless it is over-long.
pub(super) async fn whole(call: &LeafCall<'_>, at: &Located) -> Result<Content, ToolError> {
    let failed = |error| explain(call, error);
    // Checks the size first, so that an overlong file isn't read in part for nothing.
    let size = match call.files.stat(at).await {
        Ok(entry) => entry.and_then(|entry| entry.size).unwrap_or(0),
        Err(error) => return Err(failed(error).await),
    };
    let most = if size > LONGEST_TEXT { START } else { LONGEST_TEXT };
    match call.files.read(at, 0, most).await {
        Ok((bytes, size)) if size > most => {
            Ok(Content::Long(format!("{}, {size} bytes", describe_start(&bytes))))
        }
        Ok((bytes, _)) => Ok(Content::of(bytes)),
        Err(error) => Err(failed(error).await),
    }
}

/// The requested page, with a notice about the rest.
fn page(call: &LeafCall<'_>, path: &str, text: &str) -> String {
    let number = |name: &str, default| call.input.get(name).and_then(Value::as_u64).unwrap_or(default);
    // A text has fewer characters than a usize can count.
    let offset = usize::try_from(number("offset", 0)).unwrap_or(usize::MAX);
    let most = usize::try_from(number("max_chars", PAGE_CHARS)).unwrap_or(usize::MAX);
    let total = text.chars().count();
    if offset > 0 && offset >= total {
        return format!("[`{path}` ends before offset {offset}: it has {total} characters.]");
    }
    if text.is_empty() {
        return format!("[`{path}` is empty.]");
    }
    let end = offset.saturating_add(most).min(total);
    let byte = |chars: usize| text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    let shown = &text[byte(offset)..byte(end)];
    if end == total {
        return shown.to_owned();
    }
    format!(
        "{shown}\n[{} more characters. Read on with read_file(path=\"{path}\", offset={end}).]",
        total - end
    )
}

pub(super) async fn info(call: &LeafCall<'_>) -> Result<ToolOutput, ToolError> {
    let at = place(call, 0)?;
    let entry = match call.files.stat(at).await {
        Ok(Some(entry)) => entry,
        Ok(None) => return Err(explain(call, crate::vfs::FsError::NotFound(at.path.clone())).await),
        Err(error) => return Err(explain(call, error).await),
    };
    let mut value = json!({"path": entry.path.as_str(), "kind": kind(entry.kind)});
    if entry.kind == EntryKind::File {
        if let Some(size) = entry.size {
            value["size"] = size.into();
        }
        if let Ok((start, _)) = call.files.read(at, 0, START).await {
            value["content"] = describe_start(&start).into();
        }
    }
    if let Some(modified) = entry.modified_ms {
        value["modified"] = iso(modified).into();
    }
    Ok(ToolOutput::new(value))
}

pub(super) async fn exists(call: &LeafCall<'_>) -> Result<ToolOutput, ToolError> {
    match call.files.stat(place(call, 0)?).await {
        Ok(entry) => Ok(ToolOutput::new(entry.is_some().into())),
        Err(error) => Err(explain(call, error).await),
    }
}

fn kind(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::File => "file",
        EntryKind::Directory => "folder",
        EntryKind::Other => "other",
    }
}

/// Formats a time as ISO 8601 in UTC. The date is computed in the proleptic Gregorian calendar, with years that start
/// in March so that the leap day is the last of its year.
fn iso(ms: u64) -> String {
    let seconds = ms / 1000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let from_march_0000 = days + 719_468;
    let (era, day_of_era) = (from_march_0000 / 146_097, from_march_0000 % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates() {
        assert_eq!(iso(0), "1970-01-01T00:00:00Z");
        assert_eq!(iso(951_782_400_000), "2000-02-29T00:00:00Z");
        assert_eq!(iso(1_709_210_096_789), "2024-02-29T12:34:56Z");
        assert_eq!(iso(4_107_542_399_000), "2100-02-28T23:59:59Z");
        assert_eq!(iso(4_107_542_400_000), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn results_have_one_spelling() {
        for path in ["/results/3", "results/3", "./results//3"] {
            assert_eq!(results_path(path).as_deref(), Some("/results/3"));
        }
        for path in ["/results", "/results/", "/results/x", "/results/3/x", "/x/results/3"] {
            assert_eq!(results_path(path), None, "{path}");
        }
    }
}
