//! The engine of a page over a page in memory.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

mod findings;
mod page;
mod runs;
