//! Workers: functions whose body is a conversation with a model.

mod code;
mod definition;
mod retry;
mod run;

pub use code::*;
pub use definition::*;
pub use run::{ModelChoice, explain, function, media_type};
pub(crate) use run::{show, show_failure};
