//! What it takes to begin with a server, wherever it is.

use crate::{
    configuration::{At, Server},
    connection::{Connection, OtherEnd, Unopened},
    http,
    known::Lifecycle,
    process,
    starter::Starter,
};
use llm_do_core::{authority::Authority, worker::WorkerDefinition};
use std::{path::PathBuf, sync::Arc};

/// A server that can be started or reached, and what for.
pub(crate) struct Launch {
    pub(crate) server: Server,
    at: Prepared,
}

enum Prepared {
    Process(Box<process::Launch>),
    Remote(Box<http::Launch>),
}

impl Launch {
    /// Looks at what the server may see, or whether it may be reached.
    ///
    /// # Errors
    /// Why it can't be used there.
    pub(crate) async fn prepare(
        server: Server,
        worker: &WorkerDefinition,
        workers: Arc<Authority>,
        starter: &Starter,
    ) -> Result<Self, String> {
        let at = match &server.at {
            At::Process(command) => {
                let launch = process::Launch::prepare(command.clone(), worker, workers, starter).await?;
                Prepared::Process(Box::new(launch))
            }
            At::Remote(remote) => Prepared::Remote(Box::new(http::Launch::prepare(remote.clone(), workers)?)),
        };
        Ok(Self { server, at })
    }

    /// The same, if it is a process, with further places that it can read.
    #[must_use]
    pub(crate) fn seeing(mut self, places: Vec<PathBuf>) -> Self {
        if let Prepared::Process(launch) = &mut self.at {
            launch.view = launch.view.clone().with_readable(places);
        }
        self
    }

    /// Equal for servers that are started or reached in the same way and may touch the same.
    pub(crate) fn key(&self) -> String {
        match &self.at {
            Prepared::Process(launch) => format!("{} {}", self.server.key(), launch.key()),
            Prepared::Remote(_) => self.server.key(),
        }
    }

    /// Starts or reaches it, and negotiates a protocol. `known` is what was negotiated with it before.
    ///
    /// # Errors
    /// Why it can't be used.
    pub(crate) async fn open(
        &self,
        run: &str,
        starter: &Starter,
        known: Option<Lifecycle>,
    ) -> Result<Connection, Unopened> {
        match &self.at {
            Prepared::Process(launch) => {
                let started = launch.start(run, starter).await?;
                Connection::with_process(started, known).await
            }
            Prepared::Remote(launch) => {
                let (transport, reached) = launch.transport(starter)?;
                Connection::negotiate(transport, known, OtherEnd::Remote(Box::new(reached))).await
            }
        }
    }

    /// What it takes to start its process, if it is one.
    pub(crate) fn process(&self) -> Option<&process::Launch> {
        match &self.at {
            Prepared::Process(launch) => Some(launch),
            Prepared::Remote(_) => None,
        }
    }
}
