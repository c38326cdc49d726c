//! The toolsets that need only ports.

pub mod filesystem;
pub mod workers;
