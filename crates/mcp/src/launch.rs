//! The launch of a server: starting its process or reaching its address.

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

/// A server that can be started or reached, with all that is needed for it.
pub(crate) struct Launch {
    pub(crate) server: Server,
    at: Prepared,
}

enum Prepared {
    Process(Box<process::Launch>),
    Remote(Box<http::Launch>),
}

impl Launch {
    /// Determines the places that the server may see, or checks that it may be reached.
    ///
    /// # Errors
    /// The server can't be used there.
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

    /// Adds further places that the server can read, if it is a process.
    #[must_use]
    pub(crate) fn seeing(mut self, places: Vec<PathBuf>) -> Self {
        if let Prepared::Process(launch) = &mut self.at {
            launch.view = launch.view.clone().with_readable(places);
        }
        self
    }

    /// Returns a key that is equal for servers that are started or reached in the same way and may touch the same
    /// places.
    pub(crate) fn key(&self) -> String {
        match &self.at {
            Prepared::Process(launch) => format!("{} {}", self.server.key(), launch.key()),
            Prepared::Remote(_) => self.server.key(),
        }
    }

    /// Starts or reaches the server, and negotiates a protocol. `known` is the lifecycle that was negotiated with it
    /// before.
    ///
    /// # Errors
    /// The server can't be used.
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

    /// Returns the launch of the server's process, if it is one.
    pub(crate) fn process(&self) -> Option<&process::Launch> {
        match &self.at {
            Prepared::Process(launch) => Some(launch),
            Prepared::Remote(_) => None,
        }
    }
}
