//! The columns that a text takes on a terminal.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// Columns of characters whose width Unicode calls ambiguous, such as `→` or `é`, on a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ambiguous {
    /// A single column: the default of nearly all terminals.
    #[default]
    Narrow,
    /// Two columns: terminals set up for East Asian fonts.
    Wide,
}

impl Ambiguous {
    /// Columns of a text. Zero for an empty text.
    pub fn width(self, text: &str) -> usize {
        if text.is_ascii() {
            return text.len();
        }
        match self {
            Self::Narrow => text.width(),
            Self::Wide => text.width_cjk(),
        }
    }
}

/// Returns true if terminals differ in the columns of a grapheme. The position behind it has to be set, not counted.
pub(crate) fn is_uncertain(grapheme: &str) -> bool {
    !grapheme.is_ascii() && (grapheme.chars().nth(1).is_some() || grapheme.width() != grapheme.width_cjk())
}

/// Returns the graphemes of a text in the form of a terminal's cells: a mark without a base is on a dotted circle.
pub(crate) fn cells(
    text: &str,
    ambiguous: Ambiguous,
) -> impl Iterator<Item = (std::borrow::Cow<'_, str>, usize)> {
    text.graphemes(true).map(move |grapheme| match ambiguous.width(grapheme) {
        0 => (format!("\u{25cc}{grapheme}").into(), ambiguous.width("\u{25cc}").max(1)),
        width => (grapheme.into(), width),
    })
}
