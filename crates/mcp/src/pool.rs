//! The connections of each run: one for equal servers with equal views.

use crate::{
    client_servers::SessionPins,
    connection::Connection,
    known::{Definition, LastList, Lifecycle},
    launch::Launch,
    resources::Listed,
    starter::Starter,
};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{sync::watch, task::JoinSet};

/// Most time for a server to start and list its tools. It is more than a conversation waits, so that a slow server is
/// ready for the next conversation.
const START_LIMIT: Duration = Duration::from_secs(120);

/// A server that runs, with the tools that it listed.
pub(crate) struct Live {
    pub(crate) connection: Connection,
    tools: Mutex<Arc<[Definition]>>,
    /// True if the server has said that these are no longer its tools.
    outdated: AtomicBool,
    /// The resources that the server listed last.
    resources: Mutex<Arc<[Listed]>>,
}

impl Live {
    /// Returns the tools that the server listed last.
    pub(crate) fn tools(&self) -> Arc<[Definition]> {
        Arc::clone(&self.tools.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the resources that the server listed last. It may have others now.
    pub(crate) fn resources(&self) -> Arc<[Listed]> {
        Arc::clone(&self.resources.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Remembers the resources that the server has listed.
    pub(crate) fn remember_resources(&self, listed: Arc<[Listed]>) {
        *self.resources.lock().unwrap_or_else(PoisonError::into_inner) = listed;
    }

    /// Asks for the tools again if the server has said that they have changed, and returns true if it did.
    ///
    /// # Errors
    /// The server does not list its tools.
    pub(crate) async fn refresh(&self) -> Result<bool, String> {
        if self.connection.has_changed() {
            self.outdated.store(true, Ordering::Release);
        }
        if !self.outdated.load(Ordering::Acquire) {
            return Ok(false);
        }
        let listed: Arc<[Definition]> = self.connection.list().await?.into();
        // Only now: a list that fails or is given up leaves the next conversation to ask again.
        self.outdated.store(false, Ordering::Release);
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let has_changed = *tools != listed;
        *tools = listed;
        Ok(has_changed)
    }
}

/// The result of a server's start. Clones share it.
type Start = watch::Receiver<Option<Result<Arc<Live>, Arc<str>>>>;

/// The servers of all runs.
#[derive(Default)]
pub(crate) struct Pool {
    runs: Mutex<HashMap<Arc<str>, HashMap<String, Start>>>,
    /// Servers over HTTP of runs that have ended.
    closing: Mutex<HashMap<Arc<str>, Vec<Arc<Live>>>>,
    pub(crate) pins: SessionPins,
}

impl Pool {
    fn runs(&self) -> MutexGuard<'_, HashMap<Arc<str>, HashMap<String, Start>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn closing(&self) -> MutexGuard<'_, HashMap<Arc<str>, Vec<Arc<Live>>>> {
        self.closing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the server that the launch describes: the one that runs already, or one that starts now.
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
        self.pins.end(run);
        let Some(servers) = self.runs().remove(run) else { return };
        let live = servers.into_values().filter_map(|start| start.borrow().clone()?.ok());
        let remote: Vec<Arc<Live>> = live.filter(|live| live.connection.is_remote()).collect();
        if !remote.is_empty() {
            self.closing().insert(run.into(), remote);
        }
    }

    /// Waits until the servers over HTTP of a run that has ended know that their sessions have ended.
    pub(crate) async fn ended(&self, run: &str) {
        let remote = self.closing().remove(run).unwrap_or_default();
        let mut closing = JoinSet::new();
        for live in remote {
            closing.spawn(async move { live.connection.close().await });
        }
        closing.join_all().await;
    }
}

/// A server that starts, or runs.
pub(crate) struct Starting(Start);

impl Starting {
    /// Returns the result of the start, if it is over.
    pub(crate) fn now(&self) -> Option<Result<Arc<Live>, Arc<str>>> {
        self.0.borrow().clone()
    }

    /// Waits until the server runs.
    ///
    /// # Errors
    /// The server can't be used.
    pub(crate) async fn live(&mut self) -> Result<Arc<Live>, Arc<str>> {
        match self.0.wait_for(Option::is_some).await {
            Ok(started) => started.clone().unwrap_or_else(|| Err("it did not start".into())),
            Err(_) => Err("the run has ended".into()),
        }
    }
}

/// Connects to a server by the lifecycle that was negotiated before, or else tries one after another.
async fn connect(run: &str, launch: &Launch, starter: &Starter) -> Result<Connection, String> {
    let known = starter.known.last_list(&launch.server).map(|last| last.lifecycle);
    // The server may speak another revision than it did.
    if known.is_some()
        && let Ok(connection) = launch.open(run, starter, known).await
    {
        return Ok(connection);
    }
    let opened = match launch.open(run, starter, None).await {
        Err(unopened) if unopened.may_be_older => {
            launch.open(run, starter, Some(Lifecycle::Initialize)).await
        }
        opened => opened,
    };
    opened.map_err(|unopened| unopened.reason)
}

async fn open(run: &str, launch: &Launch, starter: &Starter) -> Result<Live, String> {
    let connection = connect(run, launch, starter).await?;
    let tools = connection.list().await?;
    let list = LastList { lifecycle: connection.lifecycle(), tools: tools.clone() };
    let (known, server) = (starter.known.clone(), launch.server.clone());
    let _ = tokio::task::spawn_blocking(move || known.remember(&server, &list)).await;
    Ok(Live {
        connection,
        tools: Mutex::new(tools.into()),
        outdated: AtomicBool::new(false),
        resources: Mutex::new(Arc::new([])),
    })
}
