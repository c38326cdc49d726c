//! Colours of code, from the terminal's own sixteen.

use crate::line::{self, Span};
use anstyle::{AnsiColor, Color, Effects, Style};
use std::{fmt, sync::LazyLock};
use syntect::{
    highlighting::{self, FontStyle, HighlightIterator, HighlightState, Highlighter, Theme},
    parsing::{ParseState, ScopeStack, SyntaxSet},
};
use two_face::theme::EmbeddedThemeName;

/// Longest line with colours: grammars search the rest of a line repeatedly.
const MAX_LINE: usize = 1000;
/// Most lines of a block that have colours.
const MAX_LINES: usize = 5000;
/// Most nested scopes. With deeper ones, each further character takes longer.
const MAX_DEPTH: usize = 100;

/// The syntaxes, read with the first block that names a language.
static SYNTAXES: LazyLock<SyntaxSet> = LazyLock::new(two_face::syntax::extra_newlines);
static THEME: LazyLock<Theme> =
    LazyLock::new(|| two_face::theme::extra().get(EmbeddedThemeName::Ansi).clone());
static HIGHLIGHTER: LazyLock<Highlighter<'static>> = LazyLock::new(|| Highlighter::new(&THEME));

/// The colours of one block, from its first line on.
pub(crate) struct Highlight {
    parser: ParseState,
    colours: HighlightState,
    lines: usize,
}

impl fmt::Debug for Highlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Highlight").field("lines", &self.lines).finish_non_exhaustive()
    }
}

impl Highlight {
    /// Begins the colours of a block in that language, if it is known.
    pub(crate) fn new(language: &str) -> Option<Self> {
        if language.is_empty() {
            return None;
        }
        let syntax = SYNTAXES.find_syntax_by_token(language)?;
        let colours = HighlightState::new(&HIGHLIGHTER, ScopeStack::new());
        Some(Self { parser: ParseState::new(syntax), colours, lines: 0 })
    }

    /// Returns the spans of the next line. `None`: this line and those after it have no colours.
    pub(crate) fn line(&mut self, text: &str) -> Option<Vec<Span>> {
        self.lines += 1;
        if text.len() > MAX_LINE || self.lines > MAX_LINES || self.colours.path.len() > MAX_DEPTH {
            return None;
        }
        // The grammars expect the end of the line.
        let source = format!("{text}\n");
        let operations = self.parser.parse_line(&source, &SYNTAXES).ok()?;
        let mut spans = Vec::new();
        for (style, piece) in HighlightIterator::new(&mut self.colours, &operations, &source, &HIGHLIGHTER) {
            line::append(&mut spans, piece.trim_end_matches('\n'), terminal_style(style), None);
        }
        Some(spans)
    }
}

/// Converts a style of the theme `ansi`, which writes the number of a terminal's colour into `r` if `a` is 0. All else
/// is the default colour.
fn terminal_style(style: highlighting::Style) -> Style {
    let colour = match style.foreground {
        highlighting::Color { r, a: 0, .. } => match r {
            0 => Some(AnsiColor::Black),
            1 => Some(AnsiColor::Red),
            2 => Some(AnsiColor::Green),
            3 => Some(AnsiColor::Yellow),
            4 => Some(AnsiColor::Blue),
            5 => Some(AnsiColor::Magenta),
            6 => Some(AnsiColor::Cyan),
            7 => Some(AnsiColor::White),
            _ => None,
        },
        _ => None,
    };
    let mut effects = Effects::new();
    for (font, effect) in [
        (FontStyle::BOLD, Effects::BOLD),
        (FontStyle::ITALIC, Effects::ITALIC),
        (FontStyle::UNDERLINE, Effects::UNDERLINE),
    ] {
        if style.font_style.contains(font) {
            effects |= effect;
        }
    }
    Style::new().fg_color(colour.map(Color::Ansi)).effects(effects)
}
