//! Values that need quotes: YAML reads a colon, or a character such as `@` at the beginning, as syntax.

use super::options;
use crate::{diagnostics::Fix, span::SourceFile, span::Span};
use serde::de::IgnoredAny;
use std::{ops::Range, sync::Arc};

/// The number of lines before a syntax error that may contain its cause.
const BEFORE: usize = 3;

/// Returns the change that puts a value in quotes, and the quoted value, if that fixes a syntax error. The error lies
/// at the offset `at` of the file, in a document at `range`.
pub(super) fn missing(file: &Arc<SourceFile>, range: Range<usize>, at: usize) -> Option<(Fix, String)> {
    let text = &file.text()[range.clone()];
    let at = at.checked_sub(range.start)?.min(text.len());
    let lines: Vec<(usize, &str)> = text
        .split_inclusive('\n')
        .scan(0, |start, line| {
            let begin = *start;
            *start += line.len();
            Some((begin, line))
        })
        .collect();
    let wrong = lines.partition_point(|(start, _)| *start <= at).checked_sub(1)?;
    (wrong.saturating_sub(BEFORE)..=wrong).rev().find_map(|line| {
        let (start, line) = lines[line];
        let value = plain_value(line)?;
        let quoted = serde_json::Value::from(&line[value.clone()]).to_string();
        let (begin, end) = (start + value.start, start + value.end);
        let mended = format!("{}{quoted}{}", &text[..begin], &text[end..]);
        mends(&mended, end + quoted.len() - value.len()).then_some(())?;
        let span = Span::new(file, range.start + begin..range.start + end);
        Some((Fix::replace("put the value in quotes", &span, quoted.clone())?, quoted))
    })
}

/// Returns true if a text is valid YAML, at least up to this position.
fn mends(text: &str, end: usize) -> bool {
    match serde_saphyr::from_str_with_options::<IgnoredAny>(text, options(text.len())) {
        Ok(_) => true,
        Err(error) => {
            let offset =
                error.without_snippet().location().and_then(|location| location.span().byte_offset());
            offset.is_some_and(|offset| offset as usize > end)
        }
    }
}

/// Returns the value of a line `key: value` or `- value` that is not in quotes and that YAML may read as something
/// other than text.
fn plain_value(line: &str) -> Option<Range<usize>> {
    let content = line.trim_end();
    let mut start = content.len() - content.trim_start().len();
    while content[start..].starts_with("- ") {
        start += 2;
        start += content[start..].len() - content[start..].trim_start().len();
    }
    let rest = &content[start..];
    let is_key = |key: &str| {
        !key.is_empty()
            && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '$'))
    };
    if let Some((key, value)) = rest.split_once(": ").filter(|(key, _)| is_key(key)) {
        start += key.len() + 2;
        start += value.len() - value.trim_start().len();
    } else if !line.trim_start().starts_with("- ") {
        return None;
    }
    let value = &content[start..];
    let value = value.split(" #").next().unwrap_or(value).trim_end();
    let is_syntax = value.starts_with(['@', '`', '%', '*', '&', '!'])
        || value.starts_with("{{")
        || value.starts_with("{%")
        || (value.contains(": ") || value.ends_with(':'))
            && !value.starts_with(['"', '\'', '{', '[', '|', '>']);
    is_syntax.then(|| start..start + value.len())
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use crate::span::SourceFile;

    #[test]
    fn a_value_that_needs_quotes_gets_them() {
        for (value, after) in [
            ("Sorts mail: urgent first", ""),
            ("@name", " # who"),
            ("%d of them", ""),
            ("*all* of it", ""),
            ("`code` it", ""),
            ("{{ name }} writes", ""),
            ("{% if x %}", ""),
            ("note:", ""),
            ("C:\\temp: \"x\"", ""),
        ] {
            for line in ["description: ", "list:\n  - ", "a:\n  b: "] {
                // In a list, this is an entry with a key.
                if line.ends_with("- ") && value.contains(':') {
                    continue;
                }
                let text = format!("name: x\n{line}{value}{after}\nmodel: y\n");
                let found = parse(&SourceFile::new("x", text.as_str()), text.len()).unwrap_err();
                let fix = found.fix.as_ref().unwrap_or_else(|| panic!("{text}\n{found:?}"));
                let quoted = serde_json::Value::from(value).to_string();
                assert_eq!((fix.edits[0].span.text(), &fix.edits[0].text), (value, &quoted), "{text}");
            }
        }
        for text in ["a: [1, 2\n", "a: \"b\n", "a: {b: c: d}\n"] {
            let found = parse(&SourceFile::new("x", text), text.len()).unwrap_err();
            assert_eq!(found.fix, None, "{text}");
        }
    }
}
