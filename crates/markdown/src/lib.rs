//! Markdown of a streamed answer as styled lines for a terminal.
//!
//! [`Blocks`] takes the pieces of an answer as they arrive and gives the lines of each block once it is complete. It
//! never revises a line that it gave, so that lines can be appended to a transcript. The cuts between pieces make no
//! difference.
//!
//! ```
//! use llm_do_markdown::Blocks;
//!
//! let mut blocks = Blocks::new(80);
//! assert!(blocks.push("Two **wo").is_empty());
//! let lines = blocks.push("rds**\n\nNext");
//! assert_eq!(lines[0].text(), "Two words");
//! // A blank line between blocks, then the block.
//! assert_eq!(blocks.finish()[1].text(), "Next");
//! ```
//!
//! A paragraph is one line, however long, and the terminal wraps it. Lines of code keep their characters, without a bar
//! or an indentation, so that they can be copied.
//!
//! All text is foreign. Characters that could move the cursor, reorder text or hide are escaped
//! ([`llm_do_visible::prose`]). The only control character that a line can hold is a tab, in code.

mod blocks;
mod code;
#[cfg(feature = "highlight")]
mod highlight;
mod inline;
mod line;
mod link;
mod render;
mod source;
mod table;

pub use blocks::Blocks;
pub use line::{Line, Span};

#[cfg(test)]
mod tests;
