//! What the subcommands do, one file each.

pub(crate) mod acp;
pub(crate) mod cases;
pub(crate) mod check;
pub(crate) mod complete;
pub(crate) mod doctor;
pub(crate) mod gate;
pub(crate) mod grants;
pub(crate) mod harden;
pub(crate) mod init;
pub(crate) mod lib;
pub(crate) mod list;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod migrate;
#[cfg(feature = "local")]
pub(crate) mod models;
pub(crate) mod no_model;
pub(crate) mod replay;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod schema;
pub(crate) mod serve;
pub(crate) mod show;
pub(crate) mod stubs;
