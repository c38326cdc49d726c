//! Renders a complete block as lines.

use crate::{
    code::Code,
    inline::Inline,
    line::{self, Line, Span},
    link::OpenLink,
    table::Table,
};
use anstyle::Style;
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, LinkType, Options, Parser, Tag, TagEnd};
use std::{borrow::Cow, mem};
use unicode_width::UnicodeWidthStr as _;

/// Most nested containers that are indented. Deeper ones would make each of their lines longer than its text.
const MAX_DEPTH: usize = 16;

/// The source of a block.
pub(crate) struct Chunk<'a> {
    pub(crate) source: &'a str,
    /// The number of an item in an ordered list.
    pub(crate) number: Option<u64>,
    /// A further piece of an item: without its marker.
    pub(crate) is_continued: bool,
    /// The width of the terminal.
    pub(crate) columns: usize,
    /// The terminal can follow links.
    pub(crate) links: bool,
}

/// A block as lines.
pub(crate) struct Rendered {
    pub(crate) lines: Vec<Line>,
    /// True if the block ends with a part that a blank line follows, such as code or the paragraph of a loose list.
    pub(crate) gap: bool,
}

/// Returns the lines of a block.
pub(crate) fn render(chunk: &Chunk<'_>) -> Rendered {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_MATH;
    let source = without_definitions(chunk.source, options);
    let mut renderer = Renderer {
        columns: chunk.columns,
        links: chunk.links,
        given: chunk.number,
        is_continued: chunk.is_continued,
        lines: Vec::new(),
        inline: Inline::default(),
        containers: Vec::new(),
        lists: Vec::new(),
        gap: false,
        code: None,
        table: None,
    };
    for event in Parser::new_ext(&source, options) {
        renderer.event(event);
    }
    Rendered { lines: renderer.lines, gap: renderer.gap }
}

/// Returns the source with each definition of a link as text. The parser would drop it, although links in other blocks
/// use it.
fn without_definitions(source: &str, options: Options) -> Cow<'_, str> {
    let mut source = Cow::Borrowed(source);
    // A second definition of the same name counts only once the first is text.
    for _ in 0..8 {
        let parser = Parser::new_ext(&source, options);
        let mut starts: Vec<usize> =
            parser.reference_definitions().iter().map(|(_, definition)| definition.span.start).collect();
        if starts.is_empty() {
            break;
        }
        starts.sort_unstable();
        let mut text = String::with_capacity(source.len() + starts.len());
        let mut done = 0;
        for start in starts {
            text.push_str(&source[done..start]);
            text.push('\\');
            done = start;
        }
        text.push_str(&source[done..]);
        source = Cow::Owned(text);
    }
    source
}

/// A container of lines.
enum Container {
    Quote,
    Item {
        /// The marker, before the first line.
        marker: Option<String>,
        /// Columns before further lines.
        width: usize,
    },
}

struct Renderer {
    columns: usize,
    links: bool,
    /// The number of the first item ([`Chunk::number`]), until that item.
    given: Option<u64>,
    /// True until the first item, if that item is a further piece ([`Chunk::is_continued`]).
    is_continued: bool,
    lines: Vec<Line>,
    inline: Inline,
    containers: Vec<Container>,
    /// The number of the next item of each open list.
    lists: Vec<Option<u64>>,
    /// True if a blank line comes before the next block.
    gap: bool,
    /// The language and the text of the open block of code.
    code: Option<(String, String)>,
    table: Option<Table>,
}

impl Renderer {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(&text),
                None => self.text(&text),
            },
            Event::Code(text) => {
                self.separate();
                self.inline.code(&text);
            }
            Event::InlineMath(text) => self.text(&format!("${text}$")),
            Event::DisplayMath(text) => self.text(&format!("$${text}$$")),
            Event::Html(text) => {
                for line in text.lines() {
                    self.text(line);
                    self.end_line();
                }
            }
            Event::InlineHtml(text) => self.text(&text),
            Event::FootnoteReference(name) => self.text(&format!("[^{name}]")),
            Event::SoftBreak => self.text(" "),
            Event::HardBreak if self.table.is_some() => self.text(" "),
            Event::HardBreak => self.end_line(),
            Event::Rule => {
                self.start_block();
                self.inline.begin(|_| Style::new().dimmed());
                self.inline.text("────────────────");
                self.inline.end();
                self.end_line();
                self.gap = true;
            }
            Event::TaskListMarker(done) => self.text(if done { "[x] " } else { "[ ] " }),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { level, .. } => {
                self.start_block();
                self.inline.begin(|style| match level {
                    HeadingLevel::H1 => style.bold().underline(),
                    HeadingLevel::H2 => style.bold(),
                    _ => style.bold().italic(),
                });
            }
            Tag::BlockQuote(_) => {
                self.start_block();
                self.containers.push(Container::Quote);
            }
            Tag::CodeBlock(kind) => {
                self.end_text();
                let language = match &kind {
                    CodeBlockKind::Fenced(info) => info.split_whitespace().next().unwrap_or_default(),
                    CodeBlockKind::Indented => "",
                };
                self.code = Some((language.to_owned(), String::new()));
            }
            Tag::List(number) => {
                self.end_text();
                // Within an item it follows its text directly, unless that is a paragraph.
                self.lists.push(number);
            }
            Tag::Item => self.start_item(),
            Tag::Table(alignments) => {
                self.start_block();
                self.table = Some(Table::new(alignments));
            }
            Tag::TableHead => self.inline.begin(Style::bold),
            Tag::Emphasis => self.inline.begin(Style::italic),
            Tag::Strong => self.inline.begin(Style::bold),
            Tag::Strikethrough => self.inline.begin(Style::strikethrough),
            Tag::Link { link_type, dest_url, .. } => {
                self.separate();
                let scheme = if link_type == LinkType::Email { "mailto:" } else { "" };
                self.inline.begin_link(OpenLink::new(format!("{scheme}{dest_url}"), false, self.links));
            }
            Tag::Image { dest_url, .. } => {
                self.separate();
                self.inline.begin_link(OpenLink::new(dest_url.into_string(), true, self.links));
            }
            Tag::Paragraph | Tag::HtmlBlock => self.end_text(),
            Tag::TableRow | Tag::TableCell => {}
            // The parser makes none of these: their options are off.
            Tag::FootnoteDefinition(_)
            | Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::Superscript
            | Tag::Subscript
            | Tag::MetadataBlock(_) => {}
        }
    }

    fn start_item(&mut self) {
        self.separate();
        let given = self.given.take();
        let number = match self.lists.last_mut() {
            Some(Some(next)) => {
                let own = given.unwrap_or(*next);
                *next = own.saturating_add(1);
                Some(own)
            }
            _ => None,
        };
        let mut marker = match number {
            Some(number) => format!("{number}. "),
            None if self.lists.len() % 2 == 1 => "• ".to_owned(),
            None => "◦ ".to_owned(),
        };
        let width = marker.width();
        if mem::take(&mut self.is_continued) {
            marker = " ".repeat(width);
        }
        self.containers.push(Container::Item { marker: Some(marker), width });
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.end_block(),
            TagEnd::Heading(_) => {
                self.inline.end();
                self.end_block();
            }
            TagEnd::BlockQuote(_) => {
                self.containers.pop();
                self.gap = true;
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::List(_) => {
                self.lists.pop();
                // A list in a quote. One at the top level is given item by item.
                self.gap |= self.lists.is_empty() && !self.containers.is_empty();
            }
            TagEnd::Item => {
                self.end_text();
                if self.has_marker() {
                    self.end_line();
                }
                self.containers.pop();
            }
            TagEnd::Table => {
                let room = self.columns.saturating_sub(line::width(&self.prefix(false)));
                for spans in self.table.take().into_iter().flat_map(|table| table.lines(room)) {
                    self.push_line(spans);
                }
                self.gap = true;
            }
            TagEnd::TableHead => {
                self.inline.end();
                self.end_row();
            }
            TagEnd::TableRow => self.end_row(),
            TagEnd::TableCell => {
                let cell = self.inline.take();
                if let Some(table) = &mut self.table {
                    table.push_cell(cell);
                }
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => self.inline.end(),
            TagEnd::Link | TagEnd::Image => self.inline.end_link(),
            TagEnd::FootnoteDefinition
            | TagEnd::DefinitionList
            | TagEnd::DefinitionListTitle
            | TagEnd::DefinitionListDefinition
            | TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::MetadataBlock(_) => {}
        }
    }

    fn end_row(&mut self) {
        if let Some(table) = &mut self.table {
            table.end_row();
        }
    }

    /// Adds a block of code. It begins in the first column even in a list or a quote, between blank lines.
    fn end_code(&mut self) {
        let Some((language, text)) = self.code.take() else { return };
        if self.has_marker() {
            self.end_line();
        }
        if !self.lines.is_empty() {
            self.gap = true;
        }
        self.separate();
        let mut code = Code::new(&language);
        self.lines.extend(text.lines().map(|line| code.line(line)));
        self.gap = true;
    }

    fn text(&mut self, text: &str) {
        self.separate();
        self.inline.text(text);
    }

    /// Adds a blank line, if one is due here.
    fn separate(&mut self) {
        if mem::take(&mut self.gap) {
            let mut spans = self.prefix(false);
            line::trim_end(&mut spans);
            self.lines.push(Line { spans });
        }
    }

    /// Ends text of an item that has no paragraph of its own, because a block begins.
    fn end_text(&mut self) {
        if !self.inline.is_empty() {
            self.end_line();
        }
    }

    fn start_block(&mut self) {
        self.end_text();
        self.separate();
    }

    fn end_block(&mut self) {
        self.end_text();
        self.gap = true;
    }

    fn end_line(&mut self) {
        let spans = self.inline.take();
        self.push_line(spans);
    }

    fn push_line(&mut self, spans: Vec<Span>) {
        let mut line = self.prefix(true);
        line.extend(spans);
        line::trim_end(&mut line);
        self.lines.push(Line { spans: line });
    }

    fn has_marker(&self) -> bool {
        self.containers.iter().any(|it| matches!(it, Container::Item { marker: Some(_), .. }))
    }

    /// Returns the text before a line. Markers of items are written once: `markers` takes them.
    fn prefix(&mut self, markers: bool) -> Vec<Span> {
        let mut spans = Vec::new();
        for container in self.containers.iter_mut().take(MAX_DEPTH) {
            match container {
                Container::Quote => line::append(&mut spans, "│ ", Style::new().dimmed(), None),
                Container::Item { marker, width } => {
                    let taken = if markers { marker.take() } else { None };
                    let text = taken.unwrap_or_else(|| " ".repeat(*width));
                    line::append(&mut spans, &text, Style::new(), None);
                }
            }
        }
        for container in self.containers.iter_mut().skip(MAX_DEPTH) {
            if let Container::Item { marker, .. } = container
                && markers
            {
                *marker = None;
            }
        }
        spans
    }
}
