//! Python functions as tools (SPEC §8.5): real programs, real hosts, and what bad and hostile code comes to.

mod bad;
mod directions;
mod discovery;
mod documentation;
mod ended;
mod ensured;
mod examples;
mod hostile;
mod importing;
mod network;
mod packages;
mod results;
pub(crate) mod tale;
mod tiers;

pub(crate) use tale::has_python;
