//! The owner of a service's process, and the clients of its runs.

use crate::{program::Programs, token::OPERATOR};
use llm_do::{Client, runs::RunSummary};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// The owner of the process.
pub(crate) enum Owner {
    /// The operator of a server of many clients.
    Host {
        /// The operator as the client of the runs that name none, such as those of a terminal, by the folder of a project's
        /// runs.
        projects: BTreeMap<PathBuf, Client>,
    },
    /// The one client, who is the operator: its runs are the operator's own.
    Client(Client),
    /// The operator of a server of tools, whose clients are all recorded as this one. Their words are untrusted, and the operator
    /// answers by continuing a suspended run in another process.
    Tools(Client),
}

impl Owner {
    /// The operator of a server of these programs.
    pub(crate) fn host(programs: &Programs) -> Self {
        let mut projects = BTreeMap::new();
        for program in programs.iter().filter(|program| program.is_project()) {
            let client = Client { name: OPERATOR.into(), program: program.name().as_str().into(), key: None };
            projects.entry(program.runs_dir().to_owned()).or_insert(client);
        }
        Self::Host { projects }
    }

    /// The channel through which answers and messages come, as records name it.
    pub(crate) fn via(&self) -> &'static str {
        match self {
            Self::Host { .. } => "http",
            Self::Client(_) => "stdio",
            Self::Tools(_) => "mcp",
        }
    }

    /// The client of a run that is under way here, which its journal names. `None`: clients do not see it.
    pub(crate) fn client(&self, recorded: Option<Client>) -> Option<Client> {
        match self {
            Self::Host { .. } => recorded,
            Self::Client(own) => Some(own.clone()),
            Self::Tools(own) => {
                recorded.filter(|client| (&client.name, &client.program) == (&own.name, &own.program))
            }
        }
    }

    /// The client of a run in that folder. A run of a project that names no client is one of the operator's own. `None`:
    /// clients do not see the run.
    pub(crate) fn started_by(&self, folder: &Path, run: &RunSummary) -> Option<Client> {
        match self {
            Self::Host { projects } => client_of(run).or_else(|| {
                // A client that can't be read is not the operator.
                let is_named = run.invocation.get("client").is_some_and(|client| !client.is_null());
                projects.get(folder).filter(|_| !is_named).cloned()
            }),
            Self::Client(_) | Self::Tools(_) => self.client(client_of(run)),
        }
    }

    /// Returns true if a run was started outside of the service, so that clients can look at it and nothing else.
    pub(crate) fn only_shows(&self, run: &RunSummary) -> bool {
        matches!(self, Self::Host { .. }) && client_of(run).is_none()
    }
}

/// The client that started a run, as the run's journal names it.
pub(crate) fn client_of(run: &RunSummary) -> Option<Client> {
    Client::deserialize(run.invocation.get("client")?).ok()
}
