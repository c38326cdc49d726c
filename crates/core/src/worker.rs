//! Workers: functions whose body is a conversation with a model.

mod retry;
mod run;

pub use crate::{code::*, definition::*, limits::*};
pub use run::{explain, function, media_type};
