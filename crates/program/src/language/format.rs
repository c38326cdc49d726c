//! Formatting of YAML. Comments stay, and the values are proved to be the same.

use super::FileKind;
use crate::{
    span::SourceFile,
    yaml::{Data, Node, tree},
};
use std::ops::Range;

/// Returns the range of the YAML of a file and its formatted text, or `None` if nothing is to be changed, the file has a
/// syntax error, or a change of its values can't be ruled out.
///
/// One space follows a colon, a dash and the sign of a comment; white space at the ends of lines and repeated blank lines
/// are removed. Texts of several lines stay as they are.
pub fn format(path: &str, text: &str) -> Option<(Range<usize>, String)> {
    let kind = FileKind::of(path)?;
    let (yaml, _) = kind.parts(text);
    let before = &text[yaml.clone()];
    let old = read(before)?;
    let texts = texts(&old, before);
    let mut out = String::with_capacity(before.len());
    let mut at = 0;
    for line in before.split_inclusive('\n') {
        let here = at..at + line.len();
        at = here.end;
        let inside = |range: &Range<usize>| {
            let begins_above = range.start < here.start && here.start < range.end;
            // The first line of a block may be the one below its key.
            let begins_here =
                here.contains(&range.start) && before[here.start..range.start].trim().is_empty();
            begins_above || begins_here
        };
        if texts.iter().any(inside) {
            out.push_str(line);
            continue;
        }
        let end = if line.ends_with("\r\n") { "\r\n" } else { "\n" };
        // The first line of a text of several lines is formatted up to the text.
        let content = line.trim_end();
        if content.is_empty() {
            if !out.is_empty() && !out.ends_with("\n\n") && !out.ends_with("\n\r\n") {
                out.push_str(end);
            }
            continue;
        }
        out.push_str(&one_line(content));
        if line.ends_with('\n') {
            out.push_str(end);
        }
    }
    if kind == FileKind::Worker || out.ends_with("\n\n") {
        while out.ends_with("\n\n") || out.ends_with("\n\r\n") {
            let shorter = out.trim_end_matches('\n').trim_end_matches('\r').len();
            let end = if out[shorter..].starts_with('\r') { "\r\n" } else { "\n" };
            let kept = out.trim_end().len();
            out.truncate(kept);
            out.push_str(end);
        }
    }
    let new = read(&out)?;
    (new.to_json() == old.to_json() && out != before).then_some((yaml, out))
}

fn read(text: &str) -> Option<Node> {
    tree(&SourceFile::new("", text), text.len()).ok()
}

/// Returns the bytes of texts that have several lines.
fn texts(node: &Node, text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut open = vec![node];
    while let Some(node) = open.pop() {
        match &node.data {
            Data::Map(entries) => open.extend(entries.iter().map(|entry| &entry.value)),
            Data::List(items) => open.extend(items),
            _ => {
                let range = node.span.range().unwrap_or(0..0);
                if text[range.clone()].contains('\n') {
                    // The last lines of a block may be blank.
                    let end =
                        text[range.end..].find('\n').map_or(text.len(), |newline| range.end + newline + 1);
                    found.push(range.start..end);
                }
            }
        }
    }
    found
}

fn one_line(line: &str) -> String {
    let content = line.trim_start_matches(' ');
    let mut out = line[..line.len() - content.len()].to_owned();
    let mut rest = content;
    while let Some(item) = rest.strip_prefix("- ") {
        // More spaces would indent the keys below.
        if item.trim_start().len() != item.len() {
            break;
        }
        out.push_str("- ");
        rest = item;
    }
    if let Some(comment) = rest.strip_prefix('#') {
        let spaced = comment.is_empty() || comment.starts_with([' ', '#', '!']);
        return format!("{out}#{}{comment}", if spaced { "" } else { " " });
    }
    let colon = rest.find(": ").filter(|colon| {
        rest[..*colon].chars().all(|c| c.is_alphanumeric() || "_-.".contains(c)) && *colon > 0
    });
    match colon {
        Some(colon) => {
            out.push_str(&rest[..=colon]);
            out.push(' ');
            out.push_str(rest[colon + 1..].trim_start());
        }
        None => out.push_str(rest),
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_values_stay() {
        let text = "---\n\n#why\nmodel:   a:b   # fast  \nlist:\n-  a\n- b \n\n\n\ninstructions: |\n  x:   y  \n\n\n  z\n\n---\nHi  \n";
        let (range, formatted) = format("a.worker", text).unwrap();
        assert_eq!(
            formatted,
            "# why\nmodel: a:b   # fast\nlist:\n-  a\n- b\n\ninstructions: |\n  x:   y  \n\n\n  z\n"
        );
        let after = format!("{}{formatted}{}", &text[..range.start], &text[range.end..]);
        assert_eq!(format("a.worker", &after), None, "formatted twice");
        assert!(after.ends_with("---\nHi  \n"));
    }

    #[test]
    fn a_file_with_errors_stays() {
        assert_eq!(format("a.worker", "---\nmodel:   [\n---\n"), None);
        assert_eq!(format("a.worker", "no front matter"), None);
        assert_eq!(
            format("a.worker", "---\na:   \"x\n   y:   z\"\n---\n").map(|it| it.1),
            Some("a: \"x\n   y:   z\"\n".into())
        );
    }
}
