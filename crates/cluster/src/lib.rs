//! Runs on many machines: records, leases and programs in Postgres (`docs/guides/cluster.md`).
//!
//! [`Database`] connects to a cluster and installs its schema. [`Dispatch`] hands runs of a tenant to nodes: spawn, claim,
//! heartbeat, complete, suspend, wake, cancel. [`work`] is a node: it claims runs, opens the program of each from its
//! [`Bundle`], and records its steps in the database. A record is written only while the node holds the lease of the run. The
//! engine that keeps queues and leases is Absurd, SQL functions in the same database; nothing of it shows outside this package.

mod bundle;
mod copy;
mod database;
mod dispatch;
mod error;
mod lease;
mod node;
#[cfg(test)]
#[path = "../tests/cluster/postgres.rs"]
mod postgres;
mod record_log;
#[cfg(test)]
mod tests;
mod tls;

pub use bundle::{Bundle, Packed};
pub use copy::{copy_program, copy_run};
pub use database::{Database, NodeInfo, TenantInfo};
pub use dispatch::{Claim, Dispatch, RunInfo};
pub use error::ClusterError;
pub use node::{NodeEvent, NodeOptions, work};
