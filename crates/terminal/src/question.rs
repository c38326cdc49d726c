//! A question to the user, above the composer.
//!
//! A question takes no key until the user gives it the focus with Ctrl-G ([`FOCUS`]). With the focus, it takes all
//! keys, and the draft in the composer stays as it is. Ctrl-G, Escape and Ctrl-C give the focus back, and keep an entry
//! that was begun. After an answer the focus is with the composer again, so that no key that was typed for one question
//! answers the next.

mod entry;
mod view;

pub(crate) use entry::{Asking, Taken};

use crate::{keys::Key, style::Line};

/// The key that gives the focus to a question, and back.
pub(crate) const FOCUS: Key = Key::control('g');

/// A question to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The identifier of the question in [`crate::Action::Answered`].
    pub id: String,
    /// The text of the question. Rows that do not fit above the composer are left out, so a long text belongs into the
    /// transcript.
    pub text: Vec<Line>,
    /// The form of the answer.
    pub kind: Kind,
}

/// A form of answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A choice among these keys.
    Keys(Vec<Choice>),
    /// A text. Ctrl-J breaks its lines.
    Text,
    /// A choice among these options. There is at least one.
    Pick(Vec<String>),
    /// The fields of a form. There is at least one.
    Form(Vec<Field>),
}

/// A key that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The character that the key types.
    pub key: char,
    /// The action of the key, such as `approve`.
    pub label: String,
    /// The line of text that follows the key, if one does.
    pub text: Option<KeyText>,
    /// Options from which the user chooses one after the key. Empty: the key is the whole answer.
    pub options: Vec<String>,
}

/// A line of text that follows a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyText {
    /// The label of the text, such as the reason of a refusal.
    pub label: String,
    /// The text to start from.
    pub start: String,
}

/// A field of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name of the field, as in the answer.
    pub name: String,
    /// A description of the value.
    pub note: String,
    /// The kind of value.
    pub kind: FieldKind,
    /// True if the field can't be left empty.
    pub required: bool,
}

/// The kind of value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A line of text, or a number as text.
    Text,
    /// A choice among these options.
    Pick(Vec<String>),
}

/// The reason why an answer is not usable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// A description of the problem.
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
