//! Input from a terminal: keys, pasted text, changes of focus.

mod decode;

pub use decode::Decoder;

/// A key with its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The key.
    pub code: Code,
    /// Modifier keys held down with the key.
    pub modifiers: Modifiers,
}

/// A key without its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// A character. With [`Modifiers::control`] it is a lower-case letter or a sign; a capital letter has no
    /// [`Modifiers::shift`].
    Char(char),
    /// Enter.
    Enter,
    /// Tab. Shift-Tab has [`Modifiers::shift`].
    Tab,
    /// Deletes backwards.
    Backspace,
    /// Deletes forwards.
    Delete,
    /// Inserts.
    Insert,
    /// Escape.
    Escape,
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    /// Arrow left.
    Left,
    /// Arrow right.
    Right,
    /// Start of the line.
    Home,
    /// End of the line.
    End,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// A function key, from 1.
    Function(u8),
}

/// Keys held down with another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Modifiers {
    /// Control.
    pub control: bool,
    /// Alt, or Meta.
    pub alt: bool,
    /// Shift, with keys that make no character.
    pub shift: bool,
}

/// Input from a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A key.
    Key(Key),
    /// Pasted text, as it is: line breaks are `\n`, and control characters may be in it.
    Paste(String),
    /// The window got the focus (`true`) or lost it.
    Focus(bool),
    /// The terminal answers that it has the keyboard protocol of kitty.
    KeyboardProtocol,
}

impl Key {
    /// Enter without modifiers.
    pub const ENTER: Self = Self::plain(Code::Enter);

    /// Returns a key without modifiers.
    pub const fn plain(code: Code) -> Self {
        Self { code, modifiers: Modifiers { control: false, alt: false, shift: false } }
    }
    /// Returns the key of a character.
    pub const fn char(c: char) -> Self {
        Self::plain(Code::Char(c))
    }
    /// Returns Control with a character.
    pub const fn control(c: char) -> Self {
        Self { code: Code::Char(c), modifiers: Modifiers { control: true, alt: false, shift: false } }
    }
    /// Returns Alt with a character.
    pub const fn alt(c: char) -> Self {
        Self { code: Code::Char(c), modifiers: Modifiers { control: false, alt: true, shift: false } }
    }
    /// Returns the character that the key types, if it types one.
    pub fn typed(self) -> Option<char> {
        match self.code {
            Code::Char(c) if !self.modifiers.control && !self.modifiers.alt => Some(c),
            _ => None,
        }
    }
}
