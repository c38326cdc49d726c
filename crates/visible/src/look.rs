//! The decision whether a character is visible, by its properties in the Unicode Character Database.

use icu_properties::{
    CodePointMapData, CodePointSetData,
    props::{
        CanonicalCombiningClass, DefaultIgnorableCodePoint, Emoji, ExtendedPictographic, GeneralCategory,
        IndicSyllabicCategory, JoiningType, PrependedConcatenationMark, Script, VariationSelector,
    },
};

/// Blank symbols and letters, for which the database has no property: of Braille, of Khitan, of hieroglyphs, and a note
/// without a head.
const BLANK: [char; 5] = [BRAILLE, '\u{13441}', '\u{13442}', '\u{16fe4}', '\u{1d159}'];

/// The empty pattern of Braille, which occurs in pictures made of dots.
const BRAILLE: char = '\u{2800}';

/// The circle that represents a letter where a mark is explained.
const ANY_LETTER: char = '\u{25cc}';

/// Examines the characters of a text one after another.
///
/// A screen shows a hidden character as nothing, as mere space, or in a form that depends on the font, or moves the
/// cursor or reorders other characters because of it. Some characters are visible only in their proper place: a joiner
/// in an emoji or between letters that change their forms, and a mark that joins consonants (a virama) after a letter
/// of its own script.
pub(crate) struct Look {
    of: Of,
    /// The previous character.
    before: Option<char>,
    /// The last character that is not a mark, a joiner or a selector.
    base: Option<char>,
}

/// The kind of text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// Names, paths, commands: the only white space is the space, and no joiner or selector is needed.
    Names,
    /// Text in a language. It may be the continuation of another text.
    Prose,
}

impl Look {
    pub(crate) fn at_names() -> Self {
        Self { of: Of::Names, before: None, base: None }
    }

    pub(crate) fn at_prose() -> Self {
        Self { of: Of::Prose, before: None, base: None }
    }

    /// Returns true if the next character is hidden.
    pub(crate) fn hides(&mut self, c: char) -> bool {
        let hidden = if c.is_ascii() { c.is_control() } else { self.hides_foreign(c) };
        if hidden || c == ' ' {
            self.base = None;
        } else if c.is_ascii() || !is_mark(c) && !is_joiner(c) && !is_selector(c) {
            self.base = Some(c);
        }
        self.before = Some(c);
        hidden
    }

    fn hides_foreign(&self, c: char) -> bool {
        let is_name = self.of == Of::Names;
        let category = category(c);
        match category {
            GeneralCategory::SpaceSeparator | GeneralCategory::PrivateUse => is_name,
            GeneralCategory::Control
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
            | GeneralCategory::Surrogate => true,
            // Reserved for emoji that are newer than the database.
            GeneralCategory::Unassigned => !CodePointSetData::new::<ExtendedPictographic>().contains(c),
            _ if is_joiner(c) => is_name || !self.joins(c),
            _ if is_selector(c) => is_name || !self.selects(),
            // Signs of Arabic and other scripts that enclose the digits after them are of this category, and are seen.
            GeneralCategory::Format => !CodePointSetData::new::<PrependedConcatenationMark>().contains(c),
            _ if CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c) => true,
            _ if BLANK.contains(&c) => is_name || c != BRAILLE,
            GeneralCategory::NonspacingMark | GeneralCategory::SpacingMark if is_virama(c) => {
                !self.follows_a_letter_of_its_script(c)
            }
            _ => false,
        }
    }

    /// Returns true if a joiner has an effect here: in an emoji, in an Indic script, or between cursive letters.
    fn joins(&self, joiner: char) -> bool {
        let Some(base) = self.base.filter(|_| !self.before.is_some_and(is_joiner)) else { return false };
        let is_emoji = || !base.is_ascii() && is_emoji(base);
        (joiner == '\u{200d}' && is_emoji())
            || CodePointMapData::<IndicSyllabicCategory>::new().get(base) != IndicSyllabicCategory::Other
            || ![JoiningType::NonJoining, JoiningType::Transparent]
                .contains(&CodePointMapData::<JoiningType>::new().get(base))
    }

    /// Returns true if the previous character has other forms to select. Letters with cases have none. Each character
    /// can have one selector: several in sequence can spell out a hidden text.
    fn selects(&self) -> bool {
        self.before.is_some_and(|before| {
            let may = if before.is_ascii() {
                is_emoji(before)
            } else {
                !before.is_lowercase() && !before.is_uppercase()
            };
            may && self.base == Some(before)
        })
    }

    fn follows_a_letter_of_its_script(&self, virama: char) -> bool {
        let script = |c| CodePointMapData::<Script>::new().get(c);
        match (self.base, self.before) {
            (_, Some(before)) if is_virama(before) => false,
            (Some(base), _) => base == ANY_LETTER || script(base) == script(virama),
            // The letter may stand at the end of the text that came before.
            (None, None) => self.of == Of::Prose,
            (None, _) => false,
        }
    }
}

fn category(c: char) -> GeneralCategory {
    CodePointMapData::<GeneralCategory>::new().get(c)
}

fn is_mark(c: char) -> bool {
    use GeneralCategory::{EnclosingMark, NonspacingMark, SpacingMark};
    matches!(category(c), NonspacingMark | SpacingMark | EnclosingMark)
}

/// Returns true for the zero-width joiner and non-joiner.
fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

/// Returns true for characters that select the form of the previous character.
fn is_selector(c: char) -> bool {
    CodePointSetData::new::<VariationSelector>().contains(c)
}

fn is_emoji(c: char) -> bool {
    CodePointSetData::new::<Emoji>().contains(c)
        || CodePointSetData::new::<ExtendedPictographic>().contains(c)
}

/// Returns true for characters that join consonants, or remove the vowel of one. Many have no form of their own.
fn is_virama(c: char) -> bool {
    use IndicSyllabicCategory as Indic;
    CodePointMapData::<CanonicalCombiningClass>::new().get(c) == CanonicalCombiningClass::Virama
        || [Indic::InvisibleStacker, Indic::NumberJoiner]
            .contains(&CodePointMapData::<IndicSyllabicCategory>::new().get(c))
}
