//! Workers: functions whose body is a conversation with a model.

pub(crate) mod caller;
mod retry;
mod run;

pub use crate::{code::*, definition::*, limits::*};
pub(crate) use caller::called_by;
pub use caller::make_from_spec;
pub use retry::wait_before_retry;
pub(crate) use run::{attached, fixing};
pub use run::{explain, function, media_type};
