//! Cuts a streamed answer into blocks, line by line.
//!
//! Only whole lines decide whether a block is complete, and only its bytes decide where a long line is cut, so that the
//! pieces in which the answer arrives make no difference. Lines of code at the top level are given one by one. Every
//! other block is collected and given as a whole, or in pieces once it is longer than [`LIMIT`].

use crate::{
    code::Code,
    line::{self, Line, Span},
    render::{self, Chunk},
    source::{self, Fence, Marker},
};
use std::mem;

/// A line or block that is longer (in bytes) is given in pieces.
const LIMIT: usize = 64 * 1024;

/// Turns Markdown into lines while it arrives.
///
/// Time is linear in the length of the answer. Memory is bounded: at most one block or line of 64 KiB is kept.
#[derive(Debug)]
pub struct Blocks {
    columns: usize,
    links: bool,
    /// The line that has not ended yet.
    line: String,
    /// True if the line began before [`Blocks::line`], and that part was already processed.
    continues: bool,
    open: OpenBlock,
    /// The source of the open block that was not given yet.
    chunk: String,
    /// The last block that was given.
    last: Option<Kind>,
    /// True if blank lines followed it.
    blank: bool,
    /// The list of the last item: its kind of marker, and the number of the next item.
    list: Option<(u8, u64)>,
    out: Vec<Line>,
}

/// The block that the next line may continue.
#[derive(Debug)]
enum OpenBlock {
    None,
    /// A paragraph, a table, or HTML. A table that was given in part repeats its head.
    Text {
        head: Option<String>,
    },
    Quote,
    Item(Item),
    Fenced(Fence, Code),
    /// Code by indentation, with the number of blank lines that may belong to it.
    Indented(usize),
    /// HTML up to this end.
    Raw(&'static str),
}

/// An item of a list at the top level.
#[derive(Debug)]
struct Item {
    marker: Marker,
    /// The number shown in an ordered list.
    number: Option<u64>,
    /// The open fence in it, and the line that opened it.
    fence: Option<(Fence, String)>,
    /// True if the last line of the item was blank.
    blank: bool,
    /// True if the beginning of the item was given.
    is_continued: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Item,
    Other,
}

impl Blocks {
    /// Makes an empty state for a terminal that is `columns` wide. Only the layout of tables depends on the width.
    pub fn new(columns: usize) -> Self {
        Self {
            columns,
            links: true,
            line: String::new(),
            continues: false,
            open: OpenBlock::None,
            chunk: String::new(),
            last: None,
            blank: false,
            list: None,
            out: Vec::new(),
        }
    }

    /// Sets a terminal that can't follow links: their addresses become part of the text.
    #[must_use]
    pub fn without_links(self) -> Self {
        Self { links: false, ..self }
    }

    /// Sets another width of the terminal. Lines that were given stay as they are.
    pub fn set_columns(&mut self, columns: usize) {
        self.columns = columns;
    }

    /// Takes the next piece of the answer and gives the lines of the blocks that it completes.
    pub fn push(&mut self, text: &str) -> Vec<Line> {
        let mut rest = text;
        while !rest.is_empty() {
            let room = LIMIT - self.line.len();
            let within = &rest.as_bytes()[..rest.len().min(room + 1)];
            if let Some(end) = within.iter().position(|byte| *byte == b'\n') {
                self.line.push_str(&rest[..end]);
                rest = &rest[end + 1..];
                self.end_line(true);
            } else if rest.len() <= room {
                self.line.push_str(rest);
                rest = "";
            } else {
                let cut = (0..=room).rev().find(|at| rest.is_char_boundary(*at)).unwrap_or(0);
                self.line.push_str(&rest[..cut]);
                rest = &rest[cut..];
                self.end_line(false);
            }
        }
        mem::take(&mut self.out)
    }

    /// Completes the answer: gives the lines that were not given yet.
    pub fn finish(mut self) -> Vec<Line> {
        if !self.line.is_empty() {
            self.end_line(true);
        }
        self.close();
        self.out
    }

    /// Returns the end of the received text that is not part of a given line: source text, at most `rows` lines of it.
    /// It changes with every [`Blocks::push`] and is for a preview only.
    pub fn pending(&self, rows: usize) -> Vec<Line> {
        let lines = self.chunk.lines().rev();
        let unfinished = (!self.line.is_empty()).then_some(self.line.as_str());
        let mut shown: Vec<Line> =
            unfinished.into_iter().chain(lines).take(rows).map(|text| plain(text.to_owned())).collect();
        shown.reverse();
        shown
    }

    /// Processes the collected line. It ends here, or is continued because it is too long.
    fn end_line(&mut self, ended: bool) {
        let mut line = mem::take(&mut self.line);
        let continues = mem::replace(&mut self.continues, !ended);
        if ended && line.ends_with('\r') {
            line.pop();
        }
        // Else a parser would take it for the end of a line.
        if line.contains('\r') {
            line = line.replace('\r', "\\r");
        }
        if continues {
            self.take_rest(line, ended);
        } else {
            self.take_line(line);
        }
    }

    /// Processes a further piece of a line that is too long.
    fn take_rest(&mut self, line: String, ended: bool) {
        match &mut self.open {
            OpenBlock::Fenced(_, code) => self.out.push(code.line(&line)),
            OpenBlock::Raw(end) => {
                let end = *end;
                self.out.push(plain(line));
                if ended && source::ends_raw(&self.out[self.out.len() - 1].text(), end) {
                    self.open = OpenBlock::None;
                }
            }
            OpenBlock::Indented(_) => self.out.push(Code::plain().line(&line)),
            OpenBlock::None => {
                self.open = OpenBlock::Text { head: None };
                self.collect(&line);
            }
            OpenBlock::Text { .. } | OpenBlock::Quote | OpenBlock::Item(_) => self.collect(&line),
        }
    }

    /// Processes a line from its beginning.
    fn take_line(&mut self, line: String) {
        let blank = source::is_blank(&line);
        match &mut self.open {
            OpenBlock::None => {}
            OpenBlock::Fenced(fence, _) if fence.is_closed_by(&line) => {
                self.open = OpenBlock::None;
                return;
            }
            OpenBlock::Fenced(fence, code) => {
                self.out.push(code.line(&source::unindented(&line, fence.indent)));
                return;
            }
            OpenBlock::Raw(end) => {
                if source::ends_raw(&line, end) {
                    self.open = OpenBlock::None;
                }
                self.out.push(plain(line));
                return;
            }
            OpenBlock::Indented(blanks) if blank => {
                *blanks += 1;
                return;
            }
            OpenBlock::Indented(blanks) if source::indentation(&line).0 >= 4 => {
                let blanks = mem::take(blanks);
                self.out.extend((0..blanks).map(|_| Line::default()));
                self.out.push(Code::plain().line(&source::unindented(&line, 4)));
                return;
            }
            OpenBlock::Indented(blanks) => {
                self.blank = *blanks > 0;
                self.open = OpenBlock::None;
            }
            _ if source::is_too_deep(&line) => self.close(),
            OpenBlock::Text { .. } if blank => self.close(),
            OpenBlock::Text { .. } if source::is_underline(&line) => {
                self.collect(&line);
                self.close();
                return;
            }
            OpenBlock::Text { .. } if source::interrupts_paragraph(&line) => self.close(),
            OpenBlock::Text { .. } => {
                self.collect(&line);
                return;
            }
            OpenBlock::Quote => {
                let lazy = !blank
                    && !source::interrupts_paragraph(&line)
                    && is_paragraph(self.chunk.lines().next_back().unwrap_or_default());
                if source::is_quote(&line) || lazy {
                    self.collect(&line);
                    return;
                }
                self.close();
            }
            OpenBlock::Item(item) => {
                if item.takes(&line, &self.chunk) {
                    item.track(&line);
                    self.collect(&line);
                    return;
                }
                self.close();
            }
        }
        self.begin(line, blank);
    }

    /// Begins a block with this line.
    fn begin(&mut self, line: String, blank: bool) {
        if blank {
            self.blank = true;
        } else if source::is_too_deep(&line) {
            self.separate(Kind::Other);
            self.out.push(plain(line));
        } else if let Some(fence) = Fence::open(&line) {
            self.separate(Kind::Other);
            let code = Code::new(&fence.language);
            self.open = OpenBlock::Fenced(fence, code);
        } else if source::indentation(&line).0 >= 4 {
            self.separate(Kind::Other);
            self.out.push(Code::plain().line(&source::unindented(&line, 4)));
            self.open = OpenBlock::Indented(0);
        } else if let Some(end) = source::raw_end(&line) {
            self.separate(Kind::Other);
            if !source::ends_raw(&line, end) {
                self.open = OpenBlock::Raw(end);
            }
            self.out.push(plain(line));
        } else if source::is_heading(&line) || source::is_rule(&line) {
            self.chunk = line;
            self.give(Kind::Other, None, false);
        } else if source::is_quote(&line) {
            self.open = OpenBlock::Quote;
            self.collect(&line);
        } else if let Some(marker) = Marker::of(&line) {
            let mut item = Item::new(marker, self.next_number(marker));
            item.track(&line);
            self.open = OpenBlock::Item(item);
            self.collect(&line);
        } else {
            self.open = OpenBlock::Text { head: None };
            self.collect(&line);
        }
    }

    /// Returns the number of an item, which continues the numbers of its list.
    fn next_number(&mut self, marker: Marker) -> Option<u64> {
        let next = self.list.filter(|(kind, _)| *kind == marker.kind).map(|(_, next)| next);
        let number = marker.number.map(|own| next.unwrap_or(own));
        self.list = Some((marker.kind, number.map_or(0, |number| number.saturating_add(1))));
        number
    }

    /// Adds a line to the open block. A block that is too long is given in pieces.
    fn collect(&mut self, line: &str) {
        match &self.open {
            OpenBlock::Item(item) if item.is_continued && self.chunk.is_empty() => {
                item.resume(line, &mut self.chunk);
            }
            OpenBlock::Text { head: Some(head) } if self.chunk.is_empty() => {
                self.chunk.push_str(head);
                self.chunk.push_str(line);
            }
            _ => self.chunk.push_str(line),
        }
        self.chunk.push('\n');
        if self.chunk.len() < LIMIT {
            return;
        }
        match &mut self.open {
            OpenBlock::Item(item) => {
                let (number, is_continued) = (item.number, mem::replace(&mut item.is_continued, true));
                self.give(Kind::Item, number, is_continued);
            }
            OpenBlock::Text { head } => {
                *head = source::table_head(&self.chunk).map(str::to_owned);
                self.give(Kind::Text, None, false);
            }
            _ => self.give(Kind::Other, None, false),
        }
        // The next piece follows without a blank line.
        self.last = None;
    }

    /// Completes the open block.
    fn close(&mut self) {
        match mem::replace(&mut self.open, OpenBlock::None) {
            OpenBlock::None | OpenBlock::Fenced(..) | OpenBlock::Raw(_) => {}
            OpenBlock::Indented(blanks) => self.blank |= blanks > 0,
            OpenBlock::Text { .. } => self.give(Kind::Text, None, false),
            OpenBlock::Quote => self.give(Kind::Other, None, false),
            OpenBlock::Item(item) => {
                self.give(Kind::Item, item.number, item.is_continued);
                self.blank |= item.blank;
            }
        }
    }

    /// Gives the lines of the collected source.
    fn give(&mut self, kind: Kind, number: Option<u64>, is_continued: bool) {
        let source = mem::take(&mut self.chunk);
        if source.is_empty() {
            return;
        }
        self.separate(kind);
        let chunk = Chunk { source: &source, number, is_continued, columns: self.columns, links: self.links };
        let mut rendered = render::render(&chunk);
        self.out.append(&mut rendered.lines);
        self.blank = rendered.gap && kind == Kind::Item;
    }

    /// Adds a blank line between the last block and one of this kind, unless they are together in the source.
    fn separate(&mut self, kind: Kind) {
        let together = kind == Kind::Item && matches!(self.last, Some(Kind::Text | Kind::Item));
        if self.last.is_some() && (self.blank || !together) {
            self.out.push(Line::default());
        }
        if kind != Kind::Item {
            self.list = None;
        }
        self.last = Some(kind);
        self.blank = false;
    }
}

impl Item {
    fn new(marker: Marker, number: Option<u64>) -> Self {
        Self { marker, number, fence: None, blank: false, is_continued: false }
    }

    /// Returns true if a line belongs to the item. `chunk` is the item up to here.
    fn takes(&self, line: &str, chunk: &str) -> bool {
        if source::is_blank(line) {
            // An item that begins with a blank line has no second one.
            return !(self.marker.is_empty && self.blank && chunk.lines().nth(2).is_none());
        }
        if source::indentation(line).0 >= self.marker.content {
            return !(self.marker.is_empty && self.blank && chunk.lines().nth(2).is_none());
        }
        !self.blank
            && self.fence.is_none()
            && Marker::of(line).is_none()
            && !source::interrupts_paragraph(line)
            && is_paragraph(chunk.lines().next_back().unwrap_or_default())
    }

    /// Tracks fences in the item, because only indented lines continue code.
    fn track(&mut self, line: &str) {
        self.blank = source::is_blank(line);
        let inner = source::inner(line);
        match &self.fence {
            Some((fence, _)) if fence.is_closed_by(inner) => self.fence = None,
            Some(_) => {}
            None => self.fence = Fence::open(inner).map(|fence| (fence, inner.to_owned())),
        }
    }

    /// Begins the source of a further piece with a replacement for the marker that was given, and with the open fence.
    fn resume(&self, line: &str, chunk: &mut String) {
        let content = self.marker.content;
        if source::indentation(line).0 < content {
            chunk.push_str(line);
            return;
        }
        let digits = (content - 2).min(9);
        let marker = if digits == 0 { "-".to_owned() } else { format!("{}.", "1".repeat(digits)) };
        chunk.push_str(&marker);
        chunk.push_str(&" ".repeat(content - marker.len()));
        if let Some((_, open)) = &self.fence {
            chunk.push_str(open);
            chunk.push('\n');
            chunk.push_str(line);
        } else {
            chunk.push_str(&source::unindented(line, content));
        }
    }
}

/// Returns true if a line can be part of a paragraph that the next line continues without its markers.
fn is_paragraph(line: &str) -> bool {
    let inner = source::inner(line);
    !inner.is_empty() && !source::is_heading(inner) && !source::is_rule(inner) && Fence::open(inner).is_none()
}

/// Returns a line of source as it is.
fn plain(text: String) -> Line {
    if text.is_empty() {
        return Line::default();
    }
    Line { spans: line::printable_code(vec![Span { text, ..Span::default() }]) }
}
