//! Arguments of `cluster`, and the database of a cluster.

use clap::{Args, Subcommand};
use std::{num::NonZeroUsize, path::PathBuf, time::Duration};

/// The database of a cluster.
#[derive(Clone, Debug, Args)]
pub(crate) struct DatabaseArgs {
    /// The database, such as `postgres://user@host/name?sslmode=require`
    #[arg(long, value_name = "URL", env = "LLM_DO_DATABASE", hide_env_values = true)]
    pub(crate) database: String,
}

#[derive(Debug, Subcommand)]
#[command(after_help = "\
`llm-do docs cluster` leads from an empty database to three nodes.

Examples:
  llm-do cluster init --database postgres://owner@db/llm_do
  llm-do cluster work --database postgres://node@db/llm_do
  llm-do run my-project \"Summarise the notes\" --cluster postgres://node@db/llm_do
  llm-do runs resume pg:last --approve 0/2.0 --database postgres://node@db/llm_do")]
pub(crate) enum ClusterCommand {
    /// Install the schema in a database; does nothing if it is there
    #[command(after_help = "Examples:\n  llm-do cluster init --database postgres://owner@db/llm_do")]
    Init(DatabaseArgs),
    /// Bring the schema to the version of this program
    #[command(after_help = "Examples:\n  llm-do cluster migrate --database postgres://owner@db/llm_do")]
    Migrate(DatabaseArgs),
    /// Be a node: claim runs and execute them
    Work(WorkArgs),
    /// List the nodes, the tenants and the newest runs
    #[command(after_help = "Examples:\n  llm-do cluster status\n  llm-do cluster status -n 5")]
    Status(StatusArgs),
    /// Let nodes take no more runs, and end when theirs have ended
    #[command(after_help = "Examples:\n  llm-do cluster drain west-1\n  llm-do cluster drain")]
    Drain {
        /// The name of a node [default: all]
        node: Option<String>,
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// End a run
    #[command(after_help = "Examples:\n  llm-do cluster cancel 20260101-120000-0a1b")]
    Cancel {
        /// The run, as `cluster status` names it
        run: String,
        #[command(flatten)]
        tenant: TenantArgs,
    },
    /// Make a tenant, or change it
    #[command(
        after_help = "Examples:\n  llm-do cluster tenant reports --member reports_role --max-running 20"
    )]
    Tenant(MakeTenantArgs),
    /// Remove runs that have ended, and the programs that no run needs
    #[command(after_help = "Examples:\n  llm-do cluster clean --older-than 30d")]
    Clean {
        /// Remove runs that ended longer ago than this, such as 30d
        #[arg(long, value_name = "AGE", value_parser = super::looking::age)]
        older_than: Duration,
        #[command(flatten)]
        database: DatabaseArgs,
    },
}

/// A tenant in a database.
#[derive(Clone, Debug, Args)]
pub(crate) struct TenantArgs {
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    /// The tenant [default: the only one that the database's role may use]
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    /// Most runs of each tenant that are listed
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: i32,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct MakeTenantArgs {
    /// The name
    pub(crate) name: String,
    /// Most runs of the tenant at once on all nodes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) max_running: Option<i32>,
    /// A role of the database whose sessions may spawn, execute and read the tenant's runs; may be repeated
    #[arg(long, value_name = "ROLE")]
    pub(crate) member: Vec<String>,
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
}

#[derive(Clone, Debug, Args)]
#[command(after_help = "\
A node executes the runs of all tenants that its role may use. It opens the program of each run from the database. Models, keys and \
files outside of programs are those of the node's machine.

Examples:
  llm-do cluster work --database postgres://node@db/llm_do
  llm-do cluster work --name west-1 --max-runs 50")]
pub(crate) struct WorkArgs {
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    /// The name of the node, which no other node has [default: the host's name and the process's number]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Most runs at once
    #[arg(long, value_name = "N", default_value = "100")]
    pub(crate) max_runs: NonZeroUsize,
    /// How long a run stays with a node without a sign of life; then another node takes it over
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) lease: u32,
    /// How many seconds runs may take to end when the node ends; then other nodes continue them
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(crate) grace: u64,
    /// The folder for the programs of runs, at the same path on all nodes [default: llm-do/programs in the cache folder]
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) programs: Option<PathBuf>,
    /// How the log is written to stderr
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: super::LogFormat,
}
