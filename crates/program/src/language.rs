//! The language of definition files, for editors: completion, hover, navigation, outline.
//!
//! All functions take the text of one file as it is being edited, valid or not, and positions in bytes. [`Symbols`] are
//! those of the program as of its last check. The language server (`llm-do-lsp`) converts the results to its protocol.

mod code_names;
mod complete;
mod cursor;
mod file_kind;
mod format;
mod hover;
pub mod jinja;
mod markdown;
mod navigate;
mod outline;
mod rename;
mod symbols;
mod tokens;

pub use code_names::CodeName;
pub use complete::{Candidate, CandidateKind, complete};
pub use cursor::{Cursor, Step, cursor};
pub use file_kind::FileKind;
pub use format::format;
pub use hover::{Hint, Hover, hints, hover};
pub use navigate::{Named, Target, definition, named, references};
pub use outline::{Fold, Item, ItemKind, folds, outline};
pub use rename::{Renamed, rename};
pub use symbols::{Symbols, Worker};
pub use tokens::{Token, TokenKind, tokens};
