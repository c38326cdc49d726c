//! Scenarios: a project of literal files, the real binary, and what it prints, writes and returns.

<<<<<<< HEAD
mod init;
=======
mod check;
>>>>>>> e1497cc (`check --fix` mends what is certain, `--explain` shows what a code means, `--output sarif` speaks to code hosts)
#[cfg(feature = "local")]
mod local;
mod migrate;
mod prompts;
mod runs;
mod schema;
mod session;
mod story;
mod wires;
