//! A question to the user, above the composer.
//!
//! A question takes no key until the user gives it the focus with Ctrl-G ([`FOCUS`]). With the focus, it takes all keys,
//! and the draft in the composer stays as it is. Ctrl-G, Escape and Ctrl-C give the focus back, and an entry that was begun
//! waits. After an answer the focus is with the composer again, so that no key meant for one question answers the next.

mod entry;
mod view;

pub(crate) use entry::{Asking, Taken};

use crate::{keys::Key, style::Line};

/// Gives the focus to a question, and back.
pub(crate) const FOCUS: Key = Key::control('g');

/// A question to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Names it in [`crate::Action::Answered`].
    pub id: String,
    /// What is asked. Rows that do not fit above the composer are left out, so a long text belongs into the transcript.
    pub text: Vec<Line>,
    /// How it can be answered.
    pub kind: Kind,
}

/// How a question can be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// With one of these keys.
    Keys(Vec<Choice>),
    /// With a text. Ctrl-J breaks its lines.
    Text,
    /// With one of these options, at least one.
    Pick(Vec<String>),
    /// With the fields of a form, at least one.
    Form(Vec<Field>),
}

/// A key that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The character that the key types.
    pub key: char,
    /// What it does: `approve`.
    pub label: String,
    /// The line of text that follows the key, if one does.
    pub text: Option<KeyText>,
    /// The options of which one follows the key. Empty: none does.
    pub options: Vec<String>,
}

/// A line of text that follows a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyText {
    /// What it says, such as the reason of a refusal.
    pub label: String,
    /// The text to start from.
    pub start: String,
}

/// A field of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name, as in the answer.
    pub name: String,
    /// What belongs there.
    pub note: String,
    /// What it takes.
    pub kind: FieldKind,
    /// It can't be left empty.
    pub required: bool,
}

/// What a field takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A line of text, or a number as text.
    Text,
    /// One of these.
    Pick(Vec<String>),
}

/// Why an answer is not usable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// What is wrong.
    pub problem: String,
    /// The field of a form that is wrong, if it is one of them.
    pub field: Option<String>,
}

impl From<String> for Rejection {
    fn from(problem: String) -> Self {
        Self { problem, field: None }
    }
}

impl From<&str> for Rejection {
    fn from(problem: &str) -> Self {
        problem.to_owned().into()
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A key of [`Kind::Keys`], and the text that it asks for.
    Key(char, Option<String>),
    /// A key of [`Kind::Keys`], and the number of its option, from zero.
    Option(char, usize),
    /// A text.
    Text(String),
    /// The number of an option, from zero.
    Pick(usize),
    /// The fields that were filled in: name and value.
    Form(Vec<(String, String)>),
}
