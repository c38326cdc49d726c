//! The connections of each run: one for equal servers with equal views.

use crate::{
    connection::Connection,
    known::{Definition, Known, LastList},
    listing,
    process::{Environment, Launch},
};
use llm_do_sandbox::confine::Confiner;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::watch;

/// How long a server may take to start and list its tools. It is more than a conversation waits, so that a slow server is
/// ready for the next one.
const START_LIMIT: Duration = Duration::from_secs(120);

/// A server that runs, with the tools that it listed.
pub(crate) struct Live {
    pub(crate) connection: Connection,
    tools: Mutex<Arc<[Definition]>>,
}

impl Live {
    /// The tools that it listed last.
    pub(crate) fn tools(&self) -> Arc<[Definition]> {
        Arc::clone(&self.tools.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Asks for the tools again if the server has said that they have changed, and returns whether it has.
    ///
    /// # Errors
    /// Why it does not list them.
    pub(crate) async fn refresh(&self) -> Result<bool, String> {
        if !self.connection.has_changed() {
            return Ok(false);
        }
        let tools = self.connection.list().await?.into_iter().map(listing::definition).collect();
        *self.tools.lock().unwrap_or_else(PoisonError::into_inner) = tools;
        Ok(true)
    }
}

/// How the start of a server went. Clones share it.
type Start = watch::Receiver<Option<Result<Arc<Live>, Arc<str>>>>;

/// What starting a server needs beside its launch.
#[derive(Clone)]
pub(crate) struct Starter {
    pub(crate) confiner: Arc<Confiner>,
    pub(crate) environment: Environment,
    pub(crate) known: Known,
}

/// The servers of all runs.
#[derive(Default)]
pub(crate) struct Pool {
    runs: Mutex<HashMap<Arc<str>, HashMap<String, Start>>>,
}

impl Pool {
    fn runs(&self) -> MutexGuard<'_, HashMap<Arc<str>, HashMap<String, Start>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server that the launch describes: the one that runs already, or one that starts now.
    pub(crate) fn start(&self, run: &Arc<str>, launch: &Arc<Launch>, starter: &Starter) -> Starting {
        let key = launch.key();
        let mut runs = self.runs();
        let servers = runs.entry(Arc::clone(run)).or_default();
        let usable = |start: &Start| match &*start.borrow() {
            None => true,
            Some(Ok(live)) => !live.connection.is_gone(),
            Some(Err(_)) => false,
        };
        if let Some(start) = servers.get(&key).filter(|start| usable(start)) {
            return Starting(start.clone());
        }
        let (tell, start) = watch::channel(None);
        servers.insert(key, start.clone());
        let (run, launch, starter) = (Arc::clone(run), Arc::clone(launch), starter.clone());
        tokio::spawn(async move {
            let started = tokio::select! {
                started = tokio::time::timeout(START_LIMIT, open(&run, &launch, &starter)) => started,
                // The run has ended.
                () = tell.closed() => return,
            };
            let started = started
                .unwrap_or_else(|_| Err(format!("it was not ready after {} s", START_LIMIT.as_secs())))
                .map(Arc::new)
                .map_err(Arc::from);
            let _ = tell.send(Some(started));
        });
        Starting(start)
    }

    /// Ends the servers of a run.
    pub(crate) fn end(&self, run: &str) {
        drop(self.runs().remove(run));
    }
}

/// A server that starts, or runs.
pub(crate) struct Starting(Start);

impl Starting {
    /// How the start went, if it is over.
    pub(crate) fn now(&self) -> Option<Result<Arc<Live>, Arc<str>>> {
        self.0.borrow().clone()
    }

    /// Waits until it runs.
    ///
    /// # Errors
    /// Why it does not.
    pub(crate) async fn live(&mut self) -> Result<Arc<Live>, Arc<str>> {
        match self.0.wait_for(Option::is_some).await {
            Ok(started) => started.clone().unwrap_or_else(|| Err("it did not start".into())),
            Err(_) => Err("the run has ended".into()),
        }
    }
}

async fn open(run: &str, launch: &Launch, starter: &Starter) -> Result<Live, String> {
    let last = starter.known.last_list(&launch.server);
    let started = launch.start(run, &starter.confiner, &starter.environment).await?;
    let connection = match (Connection::open(started, last.as_ref().map(|last| last.lifecycle)).await, last) {
        (Ok(connection), _) => connection,
        (Err(error), None) => return Err(error),
        // The server may speak another revision than it did.
        (Err(_), Some(_)) => {
            let started = launch.start(run, &starter.confiner, &starter.environment).await?;
            Connection::open(started, None).await?
        }
    };
    let tools: Vec<Definition> = connection.list().await?.into_iter().map(listing::definition).collect();
    let list = LastList { lifecycle: connection.lifecycle(), tools: tools.clone() };
    let (known, server) = (starter.known.clone(), launch.server.clone());
    let _ = tokio::task::spawn_blocking(move || known.remember(&server, &list)).await;
    Ok(Live { connection, tools: Mutex::new(tools.into()) })
}
