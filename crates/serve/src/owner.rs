//! The owner of a service's process, and the clients of its runs.

use llm_do::{Client, runs::RunSummary};
use serde::Deserialize;

/// The owner of the process.
pub(crate) enum Owner {
    /// The operator of a server of many clients, who is not among them.
    Host,
    /// The one client, who is the operator: its runs are the operator's own.
    Client(Client),
    /// The operator of a server of tools, whose clients are all recorded as this one. Their words are untrusted, and the operator
    /// answers by continuing a suspended run in another process.
    Tools(Client),
}

impl Owner {
    /// The channel through which answers and messages come, as records name it.
    pub(crate) fn via(&self) -> &'static str {
        match self {
            Self::Host => "http",
            Self::Client(_) => "stdio",
            Self::Tools(_) => "mcp",
        }
    }

    /// The client of a run whose journal names `recorded` as its client. `None`: clients do not see the run.
    pub(crate) fn client(&self, recorded: Option<Client>) -> Option<Client> {
        match self {
            Self::Host => recorded,
            Self::Client(own) => Some(own.clone()),
            Self::Tools(own) => {
                recorded.filter(|client| (&client.name, &client.program) == (&own.name, &own.program))
            }
        }
    }

    /// The client of a run on disk. `None`: clients do not see the run.
    pub(crate) fn started_by(&self, run: &RunSummary) -> Option<Client> {
        self.client(client_of(run))
    }
}

/// The client that started a run, as the run's journal names it.
pub(crate) fn client_of(run: &RunSummary) -> Option<Client> {
    Client::deserialize(run.invocation.get("client")?).ok()
}
