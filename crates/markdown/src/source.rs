//! Recognises the constructs that a single line of source begins (CommonMark 0.31, sections 4 and 5).

/// Most nested containers on one line. A line with more is shown as text: each further line would repeat all of them.
const MAX_NESTING: usize = 32;

/// HTML that contains blank lines: the beginning and the end of each kind.
const RAW: [(&str, &str); 7] = [
    ("<pre", "</pre>"),
    ("<script", "</script>"),
    ("<style", "</style>"),
    ("<textarea", "</textarea>"),
    ("<!--", "-->"),
    ("<?", "?>"),
    ("<![CDATA[", "]]>"),
];

/// The opening line of a fenced code block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fence {
    /// Columns before the fence.
    pub(crate) indent: usize,
    mark: u8,
    length: usize,
    /// The first word after the marks.
    pub(crate) language: String,
}

impl Fence {
    /// Returns the fence that a line opens.
    pub(crate) fn open(line: &str) -> Option<Self> {
        let (indent, rest) = indentation(line);
        let mark = *rest.as_bytes().first().filter(|mark| matches!(mark, b'`' | b'~'))?;
        let length = rest.bytes().take_while(|byte| *byte == mark).count();
        let info = &rest[length..];
        if indent > 3 || length < 3 || (mark == b'`' && info.contains('`')) {
            return None;
        }
        let language = info.split_whitespace().next().unwrap_or_default().to_owned();
        Some(Self { indent, mark, length, language })
    }

    /// Returns true if a line closes the fence.
    pub(crate) fn is_closed_by(&self, line: &str) -> bool {
        let (indent, rest) = indentation(line);
        let length = rest.bytes().take_while(|byte| *byte == self.mark).count();
        indent <= 3 && length >= self.length && rest[length..].trim().is_empty()
    }
}

/// The marker of a list item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marker {
    /// The character `-`, `+`, `*`, `.` or `)`. Items with different characters belong to different lists.
    pub(crate) kind: u8,
    /// The number of an item in an ordered list.
    pub(crate) number: Option<u64>,
    /// The column in which the content of the item begins.
    pub(crate) content: usize,
    /// True if nothing follows the marker on its line.
    pub(crate) is_empty: bool,
}

impl Marker {
    /// Returns the marker that a line begins with.
    pub(crate) fn of(line: &str) -> Option<Self> {
        let (indent, rest) = indentation(line);
        if indent > 3 || is_rule(line) {
            return None;
        }
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let kind = *rest.as_bytes().get(digits)?;
        let number = match (digits, kind) {
            (0, b'-' | b'+' | b'*') => None,
            (1..=9, b'.' | b')') => Some(rest[..digits].parse().ok()?),
            _ => return None,
        };
        let after = &rest[digits + 1..];
        if !after.is_empty() && !after.starts_with([' ', '\t']) {
            return None;
        }
        let marker = indent + digits + 1;
        let is_empty = after.trim().is_empty();
        let spaces = columns(after, marker);
        let content = marker + if is_empty || spaces > 4 { 1 } else { spaces };
        Some(Self { kind, number, content, is_empty })
    }
}

/// Returns the columns of white space that a line begins with, and the rest of the line.
pub(crate) fn indentation(line: &str) -> (usize, &str) {
    (columns(line, 0), line.trim_start_matches([' ', '\t']))
}

/// Returns the columns of the white space that `text` begins with. Tabs extend to the next multiple of four, counted
/// from `start`.
fn columns(text: &str, start: usize) -> usize {
    let mut column = start;
    for byte in text.bytes() {
        match byte {
            b' ' => column += 1,
            b'\t' => column += 4 - column % 4,
            _ => break,
        }
    }
    column - start
}

/// Returns the line without that many columns of white space, or without all of its white space if it has less.
pub(crate) fn unindented(line: &str, columns: usize) -> String {
    let mut column = 0;
    for (at, byte) in line.bytes().enumerate() {
        if column >= columns {
            return format!("{}{}", " ".repeat(column - columns), &line[at..]);
        }
        match byte {
            b' ' => column += 1,
            b'\t' => column += 4 - column % 4,
            _ => return line[at..].to_owned(),
        }
    }
    " ".repeat(column.saturating_sub(columns))
}

/// Returns true for a blank line.
pub(crate) fn is_blank(line: &str) -> bool {
    line.bytes().all(|byte| matches!(byte, b' ' | b'\t'))
}

/// Returns true for a heading that begins with `#`.
pub(crate) fn is_heading(line: &str) -> bool {
    let (indent, rest) = indentation(line);
    let marks = rest.bytes().take_while(|byte| *byte == b'#').count();
    let after = &rest[marks..];
    indent <= 3 && (1..=6).contains(&marks) && (after.is_empty() || after.starts_with([' ', '\t']))
}

/// Returns true for a thematic break.
pub(crate) fn is_rule(line: &str) -> bool {
    let (indent, rest) = indentation(line);
    let Some(mark @ ('-' | '_' | '*')) = rest.chars().next() else { return false };
    indent <= 3
        && rest.chars().all(|c| c == mark || matches!(c, ' ' | '\t'))
        && rest.chars().filter(|c| *c == mark).count() >= 3
}

/// Returns true for a line that makes the paragraph above it a heading.
pub(crate) fn is_underline(line: &str) -> bool {
    let (indent, rest) = indentation(line);
    let rest = rest.trim_end_matches([' ', '\t']);
    indent <= 3
        && !rest.is_empty()
        && (rest.bytes().all(|byte| byte == b'=') || rest.bytes().all(|byte| byte == b'-'))
}

/// Returns true for a line of a block quote.
pub(crate) fn is_quote(line: &str) -> bool {
    let (indent, rest) = indentation(line);
    indent <= 3 && rest.starts_with('>')
}

/// Returns the end of the HTML block with blank lines that a line begins.
pub(crate) fn raw_end(line: &str) -> Option<&'static str> {
    let (indent, rest) = indentation(line);
    let begins = |start: &str| {
        let Some(head) = rest.as_bytes().get(..start.len()) else { return false };
        let after = rest.as_bytes().get(start.len());
        let is_tag = start.as_bytes()[1].is_ascii_alphabetic();
        head.eq_ignore_ascii_case(start.as_bytes())
            && (!is_tag || after.is_none_or(|byte| matches!(byte, b' ' | b'\t' | b'>')))
    };
    (indent <= 3).then(|| RAW.iter().find(|(start, _)| begins(start)).map(|(_, end)| *end)).flatten()
}

/// Returns true if a line of HTML ends the block.
pub(crate) fn ends_raw(line: &str, end: &str) -> bool {
    line.as_bytes().windows(end.len()).any(|window| window.eq_ignore_ascii_case(end.as_bytes()))
}

/// Returns true if a line ends a paragraph without a blank line between.
pub(crate) fn interrupts_paragraph(line: &str) -> bool {
    let item = |marker: Marker| !marker.is_empty && marker.number.is_none_or(|number| number == 1);
    is_heading(line)
        || is_rule(line)
        || is_quote(line)
        || raw_end(line).is_some()
        || Fence::open(line).is_some()
        || Marker::of(line).is_some_and(item)
}

/// Returns true if a line has too many nested containers.
pub(crate) fn is_too_deep(line: &str) -> bool {
    let lead = line.bytes().take_while(|byte| b" \t>-+*.)0123456789".contains(byte)).count();
    let mut markers = 0;
    let mut before = b' ';
    for byte in line[..lead].bytes() {
        let is_marker = match byte {
            b'>' => true,
            b'-' | b'+' | b'*' => matches!(before, b' ' | b'\t' | b'>'),
            b'.' | b')' => before.is_ascii_digit(),
            _ => false,
        };
        markers += usize::from(is_marker);
        before = byte;
    }
    markers > MAX_NESTING && !is_rule(line)
}

/// Returns the rest of a line after the markers of lists and quotes.
pub(crate) fn inner(line: &str) -> &str {
    let mut rest = line;
    loop {
        let (_, text) = indentation(rest);
        rest = if let Some(quoted) = text.strip_prefix('>') {
            quoted
        } else if Marker::of(text).is_some() {
            text.trim_start_matches(|c: char| c.is_ascii_digit()).get(1..).unwrap_or_default()
        } else {
            return text;
        };
    }
}

/// Returns the header and the delimiter row that a table begins with, if they are short.
pub(crate) fn table_head(text: &str) -> Option<&str> {
    const MAX: usize = 1024;
    let first = text.find('\n')? + 1;
    let second = first + text[first..].find('\n')? + 1;
    let delimiters = text[first..second].trim();
    let is_delimiters = delimiters.contains('-')
        && delimiters.bytes().all(|byte| matches!(byte, b'|' | b'-' | b':' | b' ' | b'\t'));
    (is_delimiters && text[..first].contains('|') && second <= MAX).then(|| &text[..second])
}
