//! The place of a position among the keys of a YAML text, which need not be valid.

use std::ops::Range;

/// A step from a value to a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The value of this key.
    Key(String),
    /// An item of a list.
    Item,
}

/// A position among keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The path from the file to the value that the position is in, without the word at the position.
    pub path: Vec<Step>,
    /// True if the position is behind a colon: the word is a value and no key.
    pub is_value: bool,
    /// True if a colon follows the word, which is then a key.
    pub is_key: bool,
    /// The word at the position.
    pub word: Range<usize>,
    /// True if the position is in a text of several lines.
    pub is_text: bool,
}

impl Cursor {
    /// Returns the keys of the path, without items of lists.
    pub fn keys(&self) -> Vec<&str> {
        let mut keys = Vec::new();
        for step in &self.path {
            if let Step::Key(key) = step {
                keys.push(key.as_str());
            }
        }
        keys
    }
}

/// Returns the place of `offset` in the YAML text in `region`, which contains it.
pub fn cursor(text: &str, region: Range<usize>, offset: usize) -> Cursor {
    let mut levels: Vec<(usize, Step)> = Vec::new();
    let mut text_below: Option<usize> = None;
    let mut at = region.start;
    // A value in brackets may have several lines.
    let mut skip_to = region.start;
    while at <= region.end {
        let end = text[at..region.end].find('\n').map_or(region.end, |newline| at + newline);
        let is_last = offset <= end;
        let line = text[at..end].strip_suffix('\r').unwrap_or(&text[at..end]);
        let content = line.trim_start_matches([' ', '\t']);
        let width = line.len() - content.len();
        if at < skip_to {
            if is_last {
                return whole(levels, offset, at..end);
            }
        } else if content.is_empty() || content.starts_with('#') {
            if is_last {
                let column = if content.is_empty() { offset.min(at + line.len()) - at } else { width };
                if let Some(above) = text_below.filter(|above| content.is_empty() && column > *above) {
                    return in_text(levels, above, offset);
                }
                pop(&mut levels, column, false);
                return Cursor {
                    path: steps(levels),
                    is_value: false,
                    is_key: false,
                    word: offset..offset,
                    is_text: content.starts_with('#') && offset > at + width,
                };
            }
        } else if text_below.is_some_and(|above| width > above) {
            if is_last {
                return in_text(levels, text_below.unwrap_or(0), offset);
            }
        } else {
            text_below = None;
            match read_line(text, at + width..at + line.len(), width, offset, is_last, &mut levels) {
                Read::Found(cursor) => return cursor,
                Read::Text(above) => text_below = Some(above),
                Read::Brackets(start) if offset < start && is_last => {
                    return cursor_at(&levels, true, false, offset..offset);
                }
                Read::Brackets(start) => {
                    let limit =
                        end_of_brackets(text, start, region.end, levels.last().map_or(0, |level| level.0));
                    if offset <= limit {
                        return brackets(text, start, offset, steps(levels));
                    }
                    skip_to = limit;
                }
                Read::Plain => {}
            }
            if is_last {
                return whole(levels, offset, at..end);
            }
        }
        at = end + 1;
    }
    Cursor { path: Vec::new(), is_value: false, is_key: false, word: offset..offset, is_text: false }
}

enum Read {
    Found(Cursor),
    Text(usize),
    Brackets(usize),
    Plain,
}

fn read_line(
    text: &str,
    mut content: Range<usize>,
    mut width: usize,
    offset: usize,
    is_last: bool,
    levels: &mut Vec<(usize, Step)>,
) -> Read {
    let is_item = |content: &Range<usize>| {
        let line = &text[content.clone()];
        line == "-" || line.starts_with("- ")
    };
    pop(levels, width, is_item(&content));
    while is_item(&content) {
        levels.push((width, Step::Item));
        let rest = &text[content.start + 1..content.end];
        let space = 1 + rest.len() - rest.trim_start_matches(' ').len();
        content.start = (content.start + space).min(content.end);
        width += space;
        if is_last && offset < content.start {
            levels.pop();
            return Read::Found(cursor_at(levels, false, false, offset..offset));
        }
    }
    let line = &text[content.clone()];
    if line.starts_with(['{', '[']) {
        return Read::Brackets(content.start);
    }
    let Some((colon, key)) = key_of(line) else {
        if is_last {
            let kept = line.find(" #").unwrap_or(line.trim_end().len());
            let word = content.start..(content.start + kept).max(offset.min(content.end));
            return Read::Found(cursor_at(levels, false, false, word));
        }
        return Read::Plain;
    };
    if is_last && offset <= content.start + colon {
        return Read::Found(cursor_at(
            levels,
            false,
            true,
            content.start..content.start + line[..colon].trim_end().len(),
        ));
    }
    levels.push((width, Step::Key(key)));
    let value = &line[colon + 1..];
    let begin = content.start + colon + 1 + (value.len() - value.trim_start().len());
    let value = value.trim_start();
    if value.starts_with(['{', '[']) {
        return Read::Brackets(begin);
    }
    if value.starts_with(['|', '>']) {
        return Read::Text(width);
    }
    if is_last {
        let kept = value.find(" #").map_or(value.len(), |at| value[..at].trim_end().len());
        let kept = value[..kept].trim_end().len();
        let end = (begin + kept).max(offset.min(content.end));
        return Read::Found(cursor_at(levels, true, false, begin.min(offset)..end));
    }
    Read::Plain
}

/// Returns the position of the colon behind a key, and the key without quotes.
fn key_of(line: &str) -> Option<(usize, String)> {
    let quote = line.chars().next().filter(|c| matches!(c, '"' | '\''));
    let from = match quote {
        Some(quote) => line[1..].find(quote)? + 2,
        None => 0,
    };
    if quote.is_none() && line.starts_with(['#', '&', '*', '!', '|', '>', '%', '@']) {
        return None;
    }
    let colon = line[from..].match_indices(':').map(|(at, _)| from + at).find(|at| {
        let rest = &line[at + 1..];
        rest.is_empty() || rest.starts_with([' ', '\t', '\r'])
    })?;
    let key = line[..colon].trim();
    if quote.is_none() && key.contains(" #") {
        return None;
    }
    Some((colon, key.trim_matches(['"', '\'']).to_owned()))
}

fn pop(levels: &mut Vec<(usize, Step)>, width: usize, is_item: bool) {
    while let Some((of, step)) = levels.last() {
        // The items of a list may be indented like its key.
        let stays = *of < width || (*of == width && is_item && matches!(step, Step::Key(_)));
        if stays {
            break;
        }
        levels.pop();
    }
}

fn steps(levels: Vec<(usize, Step)>) -> Vec<Step> {
    levels.into_iter().map(|(_, step)| step).collect()
}

fn cursor_at(levels: &[(usize, Step)], is_value: bool, is_key: bool, word: Range<usize>) -> Cursor {
    Cursor { path: steps(levels.to_vec()), is_value, is_key, word, is_text: false }
}

fn whole(levels: Vec<(usize, Step)>, offset: usize, line: Range<usize>) -> Cursor {
    Cursor {
        path: steps(levels),
        is_value: true,
        is_key: false,
        word: offset..offset.min(line.end),
        is_text: true,
    }
}

fn in_text(mut levels: Vec<(usize, Step)>, above: usize, offset: usize) -> Cursor {
    pop(&mut levels, above + 1, false);
    Cursor { path: steps(levels), is_value: true, is_key: false, word: offset..offset, is_text: true }
}

/// Returns the end of a value in brackets. One that is not closed ends before the next key that is not deeper.
fn end_of_brackets(text: &str, start: usize, end: usize, width: usize) -> usize {
    let mut depth = 0_usize;
    let mut quote = None;
    let mut at = start;
    for c in text[start..end].chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), '\n') => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '{' | '[') => depth += 1,
            (None, '}' | ']') => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
        if c == '\n' {
            let line = text[at + 1..end].split('\n').next().unwrap_or("");
            let content = line.trim_start_matches(' ');
            if line.len() - content.len() <= width
                && key_of(content).is_some()
                && !content.starts_with(['}', ']'])
            {
                return at;
            }
        }
        at += c.len_utf8();
    }
    end
}

/// Returns the place of a position in a value in brackets.
fn brackets(text: &str, start: usize, offset: usize, base: Vec<Step>) -> Cursor {
    /// A bracket that is open.
    struct OpenBracket {
        is_map: bool,
        key: Option<String>,
    }
    let mut open: Vec<OpenBracket> = Vec::new();
    let mut word = start;
    let mut quote = None;
    let clean = |word: &str| word.trim().trim_matches(['"', '\'']).to_owned();
    for (within, c) in text[start..offset].char_indices() {
        let at = start + within;
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') if text[word..at].trim().is_empty() => quote = Some(c),
            (None, '{' | '[') => {
                open.push(OpenBracket { is_map: c == '{', key: None });
                word = at + 1;
            }
            (None, '}' | ']') => {
                open.pop();
                word = at + 1;
            }
            (None, ',') => {
                if let Some(last) = open.last_mut() {
                    last.key = None;
                }
                word = at + 1;
            }
            (None, ':') => {
                let ends =
                    text[at + 1..].starts_with([' ', '\n', '\r', '}', ']', ',']) || at + 1 == text.len();
                let key = clean(&text[word..at]);
                if let Some(last) = open.last_mut().filter(|last| ends && last.is_map && last.key.is_none()) {
                    last.key = Some(key);
                    word = at + 1;
                }
            }
            _ => {}
        }
    }
    let mut path = base;
    let is_value = open.last().is_none_or(|last| !last.is_map || last.key.is_some());
    for level in &open {
        match (&level.key, level.is_map) {
            (Some(key), _) => path.push(Step::Key(key.clone())),
            (None, false) => path.push(Step::Item),
            (None, true) => {}
        }
    }
    let rest = &text[offset..];
    let stop = rest.find([',', '}', ']', '{', '[', '\n', '\r']).unwrap_or(rest.len());
    let colon = (!is_value).then(|| key_of(&rest[..stop])).flatten().map(|(colon, _)| colon);
    let end = offset + rest[..colon.unwrap_or(stop)].trim_end().len();
    let begin = word + text[word..offset].len() - text[word..offset].trim_start().len();
    Cursor { path, is_value, is_key: colon.is_some(), word: begin..end.max(offset), is_text: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cursor at `¦`: keys and items of its path, and the word.
    fn at(marked: &str) -> (String, bool, String) {
        let offset = marked.find('¦').unwrap();
        let text = marked.replace('¦', "");
        let found = cursor(&text, 0..text.len(), offset);
        let path: Vec<&str> = found
            .path
            .iter()
            .map(|step| match step {
                Step::Key(key) => key.as_str(),
                Step::Item => "-",
            })
            .collect();
        (path.join("."), found.is_value, text[found.word].to_owned())
    }

    fn is(marked: &str, path: &str, is_value: bool, word: &str) {
        assert_eq!(at(marked), (path.to_owned(), is_value, word.to_owned()), "{marked}");
    }

    #[test]
    fn positions_have_a_path() {
        is("mod¦", "", false, "mod");
        is("mod¦el: x", "", false, "model");
        is("model: op¦enai:x # why", "model", true, "openai:x");
        is("model: ¦", "model", true, "");
        is("model:¦", "model", true, "");
        is("limits:\n  ¦", "limits", false, "");
        is("limits:\n  max¦\nmode: chat", "limits", false, "max");
        is("limits:\n  max_turns: 3\n¦", "", false, "");
        is("allow_workers:\n- a\n- b¦", "allow_workers.-", false, "b");
        is("allow_workers:\n  - name: x¦", "allow_workers.-.name", true, "x");
        is("allow_workers:\n  - name: x\n    wi¦", "allow_workers.-", false, "wi");
        is("allow_workers: [a, b¦c]", "allow_workers.-", true, "bc");
        is("allow_workers: [a, ¦", "allow_workers.-", true, "");
        is("sandbox: {paths: {docs: {ro¦", "sandbox.paths.docs", false, "ro");
        is("sandbox: {paths: {docs: {root: ./d¦}}}", "sandbox.paths.docs.root", true, "./d");
        is("sandbox: {\n  readonly: tr¦ue,\n}\nmode: x", "sandbox.readonly", true, "true");
        is("a: [\nmode: ch¦", "mode", true, "ch");
        is("sandbox: {read¦only: true}", "sandbox", false, "readonly");
    }

    #[test]
    fn texts_of_several_lines_have_no_keys() {
        let text = "instructions: |\n  a: b\n  c";
        let found = cursor(text, 0..text.len(), text.len());
        assert!(found.is_text);
        assert_eq!(found.keys(), ["instructions"]);
        is("instructions: |\n  a\nmo¦", "", false, "mo");
    }

    #[test]
    fn every_position_of_any_text_has_a_cursor() {
        let text = "a:\n- {b: [c, 'd\n e\": - - f: \n\t-\r\n|\n  \"g\": {}\n]}: x\nü: {ö: [\n";
        for end in (0..=text.len()).filter(|end| text.is_char_boundary(*end)) {
            for offset in (0..=end).filter(|offset| text.is_char_boundary(*offset)) {
                let found = cursor(&text[..end], 0..end, offset);
                assert!(text.get(found.word).is_some());
            }
        }
    }
}
