//! In-place changes of YAML. Unchanged parts keep their text, including comments.
//!
//! The new tree is made from the old one: an entry whose key has the span of an old key is that entry, even under a new
//! name. The caller parses the result again and compares it, and does not use a result that differs from the new tree.

use crate::emit;
use llm_do_program::yaml::{Data, Entry, Node};
use std::ops::Range;

/// A stretch of text and its replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Edit {
    range: Range<usize>,
    text: String,
}

/// Changes the text of `before`, the first `end` bytes of `text`, to that of `after`; the rest stays. Returns `None` if
/// the trees differ too much, or the text has an unsupported form, so that it must be written from scratch.
pub(super) fn rewrite(text: &str, start: usize, end: usize, before: &Node, after: &Node) -> Option<String> {
    let mut edits = Vec::new();
    let newline = if text[..end].contains("\r\n") { "\r\n" } else { "\n" };
    let rewriter = Rewriter { text };
    match (&before.data, &after.data) {
        (Data::Map(old), Data::Map(new)) if !old.is_empty() && !new.is_empty() => {
            if rewriter.is_flow(old) {
                return None;
            }
            rewriter.block_map(old, new, start..end, &mut edits)?;
        }
        (old, new) if old == new => {}
        (Data::Null, Data::Map(new)) => {
            let open = !text[..end].is_empty() && !text[..end].ends_with('\n');
            let text = format!("{}{}", if open { "\n" } else { "" }, emit::map(new, 0));
            edits.push(Edit { range: end..end, text });
        }
        _ => return None,
    }
    edits.sort_by_key(|edit| (edit.range.start, edit.range.end));
    let mut out = String::with_capacity(text.len() + 64);
    let mut at = 0;
    for edit in edits {
        if edit.range.start < at {
            return None;
        }
        out.push_str(&text[at..edit.range.start]);
        if newline == "\n" {
            out.push_str(&edit.text);
        } else {
            out.push_str(&edit.text.replace('\n', newline));
        }
        at = edit.range.end;
    }
    out.push_str(&text[at..]);
    Some(out)
}

struct Rewriter<'a> {
    text: &'a str,
}

impl Rewriter<'_> {
    /// Returns true if the map of these entries is written as `{…}`.
    fn is_flow(&self, entries: &[Entry]) -> bool {
        let first = entries.first().and_then(|entry| entry.key_span.range()).map_or(0, |range| range.start);
        self.text[..first].trim_end().ends_with('{')
    }

    fn line_start(&self, at: usize) -> usize {
        // By bytes, because `at` may be inside a character.
        self.text.as_bytes()[..at].iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1)
    }

    /// Returns the lines of each entry of a block map. Blank lines and comments no deeper than the keys belong to the
    /// entry after them.
    fn regions(&self, entries: &[Entry], within: &Range<usize>) -> Option<(usize, Vec<Range<usize>>)> {
        let starts: Vec<usize> =
            entries.iter().map(|e| e.key_span.range().map(|r| r.start)).collect::<Option<_>>()?;
        let first = *starts.first()?;
        let column = first - self.line_start(first);
        let mut regions = Vec::new();
        for (i, start) in starts.iter().enumerate() {
            let line = self.line_start(*start);
            let indent = &self.text[line..*start];
            let indent = indent.strip_prefix('\u{feff}').unwrap_or(indent);
            let next = match starts.get(i + 1) {
                Some(next) => self.line_start(*next),
                None => within.end,
            };
            // An alias or merge key leads elsewhere; `- key: …` shares its line.
            if start - line != column
                || !indent.chars().all(|c| c == ' ')
                || next <= *start
                || line < within.start
            {
                return None;
            }
            regions.push(line..self.without_tail(*start, next, indent.len()));
        }
        Some((column, regions))
    }

    /// Returns `end` moved before the blank lines and comments that belong to the next entry.
    fn without_tail(&self, start: usize, end: usize, column: usize) -> usize {
        let mut end = end;
        loop {
            let line = self.line_start(end.saturating_sub(1));
            if line <= start || end == 0 {
                return end;
            }
            let whole = &self.text[line..end];
            let content = whole.trim_start();
            let shallow = whole.len() - content.len() <= column;
            if content.is_empty() || (content.starts_with('#') && shallow) {
                end = line;
            } else {
                return end;
            }
        }
    }

    fn block_map(
        &self,
        old: &[Entry],
        new: &[Entry],
        within: Range<usize>,
        edits: &mut Vec<Edit>,
    ) -> Option<()> {
        let (column, regions) = self.regions(old, &within)?;
        let mut kept = vec![false; old.len()];
        // New entries are inserted after the preceding one.
        let mut behind = regions.first()?.start;
        for entry in new {
            let origin =
                old.iter().position(|o| o.key_span == entry.key_span && o.key_span.range().is_some());
            let Some(i) = origin.filter(|&i| !kept[i]) else {
                let mut lines = emit::entry(&entry.key, &entry.value, column);
                if behind > 0 && !self.text[..behind].ends_with('\n') {
                    lines = format!("\n{}", lines.trim_end_matches('\n'));
                }
                edits.push(Edit { range: behind..behind, text: lines });
                continue;
            };
            kept[i] = true;
            behind = regions[i].end;
            if old[i].key != entry.key {
                edits.push(Edit { range: old[i].key_span.range()?, text: emit::text(&entry.key, false) });
            }
            if !same(&old[i].value, &entry.value) {
                self.value(&old[i], &entry.value, column, &regions[i], edits)?;
            }
        }
        for (region, _) in regions.into_iter().zip(&kept).filter(|(_, kept)| !**kept) {
            edits.push(Edit { range: region, text: String::new() });
        }
        Some(())
    }

    /// Changes the value of one entry of a block map.
    fn value(
        &self,
        old: &Entry,
        new: &Node,
        column: usize,
        region: &Range<usize>,
        edits: &mut Vec<Edit>,
    ) -> Option<()> {
        match (&old.value.data, &new.data) {
            (Data::Map(a), Data::Map(b)) if !a.is_empty() && !b.is_empty() && !self.is_flow(a) => {
                return self.block_map(a, b, region.clone(), edits);
            }
            (Data::Map(a), Data::Map(b)) if !a.is_empty() && self.in_place(a, b, edits) => return Some(()),
            (Data::List(a), Data::List(b)) if a.len() == b.len() && self.items(a, b, edits) => {
                return Some(());
            }
            _ if self.scalar(&old.value, new, edits) => return Some(()),
            _ => {}
        }
        let small = match &new.data {
            Data::Map(entries) => entries.is_empty() || matches!(old.value.data, Data::Map(_)),
            Data::List(items) => items.is_empty(),
            Data::Text(text) => !text.contains('\n'),
            _ => true,
        };
        if let (true, Some(range)) = (small, self.flow_extent(&old.value)) {
            edits.push(Edit { range, text: emit::flow(new) });
            return Some(());
        }
        let key_end = old.key_span.range()?.end;
        let colon = key_end + self.text[key_end..region.end].find(':')? + 1;
        let line_end = region.end - self.text[..region.end].ends_with('\n') as usize;
        let flow = match &old.value.data {
            Data::Map(entries) => !entries.is_empty() && self.is_flow(entries),
            _ => false,
        };
        let text = if flow { format!(" {}", emit::flow(new)) } else { emit::after_colon(new, column) };
        edits.push(Edit { range: colon..line_end.max(colon), text });
        Some(())
    }

    /// Replaces a scalar on one line, and keeps the rest of the line.
    fn scalar(&self, old: &Node, new: &Node, edits: &mut Vec<Edit>) -> bool {
        let scalar = |node: &Node| matches!(node.data, Data::Flag(_) | Data::Number(_) | Data::Text(_));
        let Some(range) = old.span.range() else { return false };
        let text = &self.text[range.clone()];
        let one_line =
            !text.is_empty() && !text.contains('\n') && !text.starts_with(['|', '>', '&', '*', '!']);
        let many_lines = new.as_text().is_some_and(|text| text.contains('\n'));
        if !scalar(old) || !scalar(new) || !one_line || many_lines {
            return false;
        }
        edits.push(Edit { range, text: emit::flow(new) });
        true
    }

    /// Returns the range of `{…}` or `[…]`, if it is on one line.
    fn flow_extent(&self, node: &Node) -> Option<Range<usize>> {
        let (open, close, first, last) = match &node.data {
            Data::Map(entries) => {
                let last = entries.last()?;
                ('{', '}', entries.first()?.key_span.range()?.start, self.end_of(&last.value)?)
            }
            Data::List(items) => {
                let first = items.first()?;
                let start = self.flow_extent(first).or_else(|| first.span.range())?.start;
                ('[', ']', start, self.end_of(items.last()?)?)
            }
            _ => return None,
        };
        let before = self.text[..first].trim_end_matches(' ');
        let start = before.strip_suffix(open)?.len();
        let behind = self.text[last..].trim_start_matches([' ', ',']);
        let end = self.text.len() - behind.strip_prefix(close)?.len();
        (!self.text[start..end].contains('\n')).then_some(start..end)
    }

    fn end_of(&self, node: &Node) -> Option<usize> {
        self.flow_extent(node).or_else(|| node.span.range()).map(|range| range.end)
    }

    /// Changes the items of a list, one by one, if only scalars differ.
    fn items(&self, old: &[Node], new: &[Node], edits: &mut Vec<Edit>) -> bool {
        let before = edits.len();
        for (a, b) in old.iter().zip(new) {
            if !same(a, b) && !self.scalar(a, b, edits) {
                edits.truncate(before);
                return false;
            }
        }
        true
    }

    /// Changes a map written as `{…}`, if only names of keys and scalars differ.
    fn in_place(&self, old: &[Entry], new: &[Entry], edits: &mut Vec<Edit>) -> bool {
        let before = edits.len();
        let pairs = old.iter().zip(new);
        let mut fits = old.len() == new.len();
        for (a, b) in pairs {
            fits = fits && a.key_span == b.key_span && a.key_span.range().is_some();
            if fits && a.key != b.key {
                edits.extend(a.key_span.range().map(|range| Edit { range, text: emit::text(&b.key, true) }));
            }
            fits = fits && (same(&a.value, &b.value) || self.scalar(&a.value, &b.value, edits));
        }
        if !fits {
            edits.truncate(before);
        }
        fits
    }
}

/// Returns true if two values are equal, ignoring their spans.
pub(super) fn same(a: &Node, b: &Node) -> bool {
    a.to_json() == b.to_json()
}

/// Returns the comments of a YAML text with their places. Text inside of a scalar is not a comment.
pub(super) fn comments(text: &str, node: &Node) -> Vec<(usize, String)> {
    let mut scalars = Vec::new();
    collect_scalars(node, &mut scalars);
    scalars.sort_by_key(|range| range.start);
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(hash) = text[at..].find('#').map(|i| at + i) {
        let line_end = text[hash..].find('\n').map_or(text.len(), |newline| hash + newline);
        let opens = text[..hash].chars().next_back().is_none_or(char::is_whitespace);
        let before = scalars.partition_point(|range| range.start <= hash);
        let inside = scalars[..before].iter().rev().take(4).any(|range| range.contains(&hash));
        if opens && !inside {
            found.push((hash, text[hash..line_end].trim_end().to_owned()));
            at = line_end;
        } else {
            at = hash + 1;
        }
    }
    found
}

fn collect_scalars(node: &Node, found: &mut Vec<Range<usize>>) {
    match &node.data {
        Data::Map(entries) => {
            for entry in entries {
                found.extend(entry.key_span.range());
                collect_scalars(&entry.value, found);
            }
        }
        Data::List(items) => items.iter().for_each(|item| collect_scalars(item, found)),
        _ => found.extend(node.span.range()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use llm_do_program::{
        span::{SourceFile, Span},
        yaml,
    };

    fn parse(text: &str) -> Node {
        yaml::parse(&SourceFile::new("x", text), text.len()).unwrap()
    }

    /// Rewrites and reads back.
    fn changed(text: &str, change: impl FnOnce(&mut Vec<Entry>)) -> String {
        let before = parse(text);
        let mut after = before.clone();
        let Data::Map(entries) = &mut after.data else { panic!("a map") };
        change(entries);
        let out = rewrite(text, 0, text.len(), &before, &after).unwrap();
        assert_eq!(parse(&out).to_json(), after.to_json(), "{out}");
        out
    }

    fn new_value(text: &str) -> Node {
        let mut node = parse(text);
        let file = SourceFile::new("", "");
        forget(&mut node, &Span::whole(&file));
        node
    }

    fn forget(node: &mut Node, nowhere: &Span) {
        node.span = nowhere.clone();
        match &mut node.data {
            Data::Map(entries) => entries.iter_mut().for_each(|e| {
                e.key_span = nowhere.clone();
                forget(&mut e.value, nowhere);
            }),
            Data::List(items) => items.iter_mut().for_each(|i| forget(i, nowhere)),
            _ => {}
        }
    }

    const TEXT: &str = "# top\nname: x   # its name\n\n# about models\nmodelName: \"a:b\"\ntools:\n  # first\n  one: {a: 1, b: [x, y]}\n\n  two:\n    deep: yes # kept\nlast: |\n  # no comment\n  text\n# end\n";

    #[test]
    fn only_what_changes_is_touched() {
        let out = changed(TEXT, |e| e[1].key = "model".into());
        assert_eq!(out, TEXT.replace("modelName", "model"));
        let out = changed(TEXT, |e| e[0].value = new_value("a: 'y: z'").get("a").unwrap().clone());
        assert_eq!(out, TEXT.replace("name: x ", "name: \"y: z\" "));
        let out = changed(TEXT, |e| {
            e.remove(1);
        });
        assert_eq!(out, TEXT.replace("modelName: \"a:b\"\n", ""));
        let out = changed(TEXT, |e| {
            e.insert(2, new_value("new: {k: [1]}").entries()[0].clone());
        });
        assert_eq!(out, TEXT.replace("\"a:b\"\n", "\"a:b\"\nnew:\n  k: [1]\n"));
        let out = changed(TEXT, |e| {
            e.remove(3);
        });
        assert_eq!(out, TEXT.replace("last: |\n  # no comment\n  text\n", ""));
        let out = changed("a:\n  b: {c: [1, {d: 2}], }   # kept\n", |e| {
            let Data::Map(inner) = &mut e[0].value.data else { panic!() };
            inner[0].value = new_value("x: ask").get("x").unwrap().clone();
        });
        assert_eq!(out, "a:\n  b: ask   # kept\n");
        let out = changed(TEXT, |e| {
            let Data::Map(tools) = &mut e[2].value.data else { panic!() };
            tools[1].value = new_value("a: {deep: 3, more: {}}").get("a").unwrap().clone();
            let Data::Map(one) = &mut tools[0].value.data else { panic!() };
            one[0].key = "z".into();
        });
        assert_eq!(
            out,
            TEXT.replace("{a: 1", "{z: 1").replace("    deep: yes # kept\n", "    deep: 3\n    more: {}\n")
        );
    }

    #[test]
    fn comments_are_told_from_texts() {
        let found: Vec<String> = comments(TEXT, &parse(TEXT)).into_iter().map(|(_, text)| text).collect();
        assert_eq!(found, ["# top", "# its name", "# about models", "# first", "# kept", "# end"]);
        let tricky = "a: \"x # y\"\nb: c#d\ne: >\n  # f\n#g\n";
        let found: Vec<String> = comments(tricky, &parse(tricky)).into_iter().map(|(_, text)| text).collect();
        assert_eq!(found, ["#g"]);
    }

    #[test]
    fn what_cannot_be_edited_is_left_to_be_written_anew() {
        for text in ["{a: 1, b: 2}", "x: &x {a: 1}\n<<: *x\nb: 2\n"] {
            let before = parse(text);
            let mut after = before.clone();
            let Data::Map(entries) = &mut after.data else { panic!() };
            entries.pop();
            entries[0].key = "other".into();
            let out = rewrite(text, 0, text.len(), &before, &after);
            assert!(out.is_none_or(|out| parse(&out).to_json() == after.to_json()), "{text}");
        }
    }

    #[test]
    fn a_last_line_without_its_end_is_no_trouble() {
        let text = "a: 1\nb: é";
        let out = changed(text, |e| _ = e.pop());
        assert_eq!(out, "a: 1\n");
        let out = changed(text, |e| e.push(new_value("c: 2").entries()[0].clone()));
        assert_eq!(out, "a: 1\nb: é\nc: 2");
        let (before, after) = (parse("# é"), parse("c: 2"));
        assert_eq!(rewrite("# é", 0, 4, &before, &after).unwrap(), "# é\nc: 2\n");
    }

    #[test]
    fn windows_line_ends_stay() {
        let text = "a: 1\r\nb: 2\r\n";
        let out = changed(text, |e| e.push(new_value("c: {d: 3}").entries()[0].clone()));
        assert_eq!(out, "a: 1\r\nb: 2\r\nc:\r\n  d: 3\r\n");
    }
}
