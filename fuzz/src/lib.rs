//! The bodies of the fuzz targets.
//!
//! Each `run` takes any bytes and asserts invariants about them. `crates/program/tests/corpus.rs` includes these same
//! files to run the kept corpora without a fuzzer, so they refer to each other by `super`, and use only dependencies of
//! that crate.

pub mod answer;
pub mod completions;
mod findings;
pub mod front_matter;
pub mod manifest;
pub mod reference;
pub mod rule;
pub mod shell_words;
pub mod template;
/// The source of one module of `llm-do-sandbox`: the crate brings 27 dependencies that only it needs here.
#[path = "../../crates/sandbox/src/shell/words.rs"]
#[allow(dead_code, unreachable_pub, reason = "the crate uses more of it than a fuzz target does")]
mod words;

/// A line that separates the texts of one input.
const PART: &str = "\n===\n";

/// Returns the texts of an input, in order; a missing one is `None`.
fn parts<const N: usize>(bytes: &[u8]) -> [Option<&[u8]>; N] {
    let mut rest = Some(bytes);
    std::array::from_fn(|_| {
        let text = rest?;
        match text.windows(PART.len()).position(|window| window == PART.as_bytes()) {
            // The newline before the line belongs to the text.
            Some(at) => {
                rest = Some(&text[at + PART.len()..]);
                Some(&text[..=at])
            }
            None => rest.take(),
        }
    })
}
