//! Runs a worker over many inputs: each row of a table, or each file of a folder (`docs/reference/map.md`).
//!
//! [`Map::open`] reads the input once and compares it with the state of an earlier command, [`Map::work`] runs the rows
//! that are missing, and [`Map::publish`] writes the output. The state lies beside the output: `MapFolder` holds an end for
//! each row that has ended, and the records of all runs. Memory does not grow with the rows: tables on disk (`slots`)
//! find the data of a row.

mod batch;
mod board;
mod columns;
mod estimate;
mod input;
mod journal;
mod kept;
mod key;
mod map;
mod options;
mod order;
mod pace;
mod paced_model;
mod problem;
mod publish;
mod published;
mod results;
mod row;
mod slots;
mod state;
mod stop;
mod survey;

pub use board::{Board, Counts, Waiting};
pub use columns::Renamed;
pub use estimate::{Estimate, Range};
pub use input::column_names;
pub use journal::row_run;
pub use kept::{KeptMap, KeptRow, KeptRows, Progress, RowState};
pub use map::Map;
pub use options::{MapOptions, MaxFailures, Stopped, Summary, Survey};
pub use problem::Problem;
pub use stop::Stop;
