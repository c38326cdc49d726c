//! A node: claims runs of its tenants and executes them.

use crate::{
    bundle::Bundle,
    copy::fetch_blob,
    database::{Database, Notes},
    dispatch::{Beat, Claim, Dispatch},
    error::ClusterError,
    lease::Lease,
    record_log::{BLOB_FOLDERS, RecordLog},
};
use llm_do::{
    ClusterStart, NodeLog, Problem, Report, Run, Settings,
    core::{
        authority::Place,
        engine::{End, Halt},
        journal::RunStatus,
        origin::{UntrustedPlaces, UntrustedSet},
        question::{Given, QuestionId},
    },
    first_expiry, recorded_mode,
    runs::{Canceller, SealKey},
};
use std::{
    collections::{BTreeMap, HashMap},
    fs,
    future::{Future, pending},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{runtime::Handle, sync::watch, task::JoinSet};

/// The time between two looks for runs that no notification announces: those whose lease has ended.
const POLL: Duration = Duration::from_millis(400);
/// The time between two signs of life.
const SIGN: Duration = Duration::from_secs(2);
/// The time between two attempts while the database can't be reached.
const AGAIN: Duration = Duration::from_millis(200);
/// A run that so many claims in succession began without a record waits until it is woken.
const MOST_FRUITLESS: i32 = 5;

/// Options of a node.
pub struct NodeOptions {
    /// The name, which no other node has.
    pub name: String,
    /// The version of llm-do.
    pub version: String,
    /// The length of a lease in seconds.
    pub lease: u32,
    /// The most runs at once.
    pub most: usize,
    /// The folder of the programs. It should have the same path on all nodes: records name files in it.
    pub programs: PathBuf,
    /// The time for which runs may continue after the node was stopped. Then they are handed over.
    pub grace: Duration,
    /// Makes the settings that depend on the node: environment, providers, toolsets.
    pub settings: Box<dyn Fn() -> Result<Settings, String> + Send + Sync>,
    /// Takes the events of the node.
    pub log: Box<dyn Fn(&NodeEvent<'_>) + Send + Sync>,
}

/// An event of a node.
#[derive(Clone, Copy, Debug)]
pub enum NodeEvent<'a> {
    /// The node takes runs.
    Ready {
        /// The name of the node.
        node: &'a str,
        /// The number of tenants whose runs it takes.
        tenants: usize,
    },
    /// A run was claimed.
    Claimed {
        /// The run.
        run: &'a str,
        /// The tenant.
        tenant: &'a str,
    },
    /// Records of a run are in the database.
    Wrote {
        /// The run.
        run: &'a str,
        /// The number of its records.
        records: i64,
    },
    /// A run left the node: it ended, waits, or was handed over.
    Left {
        /// The run.
        run: &'a str,
        /// The status of the run, or what happened to it.
        status: &'a str,
        /// The reason, if the node could not execute it.
        reason: Option<&'a str>,
    },
    /// The database can't be reached.
    Unreachable {
        /// The reason.
        reason: &'a str,
    },
    /// The database can be reached again.
    Reachable,
    /// The node takes no more runs.
    Draining {
        /// The number of its runs.
        running: usize,
    },
}

/// A run on this node.
#[derive(Clone, Default)]
struct Held {
    /// Set as soon as the run can be cut off.
    canceller: Arc<OnceLock<Canceller>>,
    /// True if the run was ended from outside.
    cancelled: Arc<AtomicBool>,
}

impl Held {
    fn cut_off(&self) {
        if let Some(canceller) = self.canceller.get() {
            canceller.cancel();
        }
    }

    fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.cut_off();
    }
}

struct Node {
    options: NodeOptions,
    held: Mutex<HashMap<String, Held>>,
    /// True after a failed call, until one succeeds.
    unreachable: AtomicBool,
}

impl Node {
    fn held(&self) -> MutexGuard<'_, HashMap<String, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self, event: NodeEvent<'_>) {
        (self.options.log)(&event);
    }

    /// Notes the result of a call to the database, and returns the value.
    fn noted<T>(&self, result: Result<T, ClusterError>) -> Option<T> {
        match result {
            Ok(value) => {
                if self.unreachable.swap(false, Ordering::AcqRel) {
                    self.log(NodeEvent::Reachable);
                }
                Some(value)
            }
            Err(error) => {
                if !self.unreachable.swap(true, Ordering::AcqRel) {
                    self.log(NodeEvent::Unreachable { reason: &error.to_string() });
                }
                None
            }
        }
    }
}

/// Executes runs until `stop` becomes true or the node is drained, and their last has left. While the database can't be
/// reached, the node waits for it.
///
/// # Errors
/// The database can't be reached at the beginning, or has no cluster that this program can use.
pub async fn work(
    database: Arc<Database>,
    options: NodeOptions,
    mut stop: watch::Receiver<bool>,
) -> Result<(), ClusterError> {
    let tenants = database.tenants().await?;
    if tenants.is_empty() {
        return Err(ClusterError::NoCluster);
    }
    let node = Arc::new(Node { options, held: Mutex::default(), unreachable: AtomicBool::new(false) });
    node.log(NodeEvent::Ready { node: &node.options.name, tenants: tenants.len() });
    let (mut running, mut notes): (JoinSet<()>, Option<Notes>) = (JoinSet::new(), None);
    let (mut draining, mut last_sign, mut next_tenant) = (false, None::<Instant>, 0);
    let mut deadline = None::<Instant>;
    loop {
        let mut drain = *stop.borrow();
        if drain && deadline.is_none() {
            deadline = Some(Instant::now() + node.options.grace);
        }
        if last_sign.is_none_or(|at| at.elapsed() > SIGN) {
            let count = i32::try_from(running.len()).unwrap_or(i32::MAX);
            let here = database.node_is_here(&node.options.name, &node.options.version, count).await;
            drain |= node.noted(here).unwrap_or(false);
            last_sign = Some(Instant::now());
        }
        if drain && !draining {
            draining = true;
            node.log(NodeEvent::Draining { running: running.len() });
        }
        if draining && running.is_empty() {
            break;
        }
        if deadline.is_some_and(|at| at <= Instant::now()) {
            node.held().values().for_each(Held::cut_off);
        }
        if notes.is_none() {
            notes = database.listen("listen llm_do_work; listen llm_do_cancel").await.ok();
        }
        // One run of each tenant at a time, so that many runs of one do not delay the first of another.
        let mut idle = 0;
        while !draining && running.len() < node.options.most && idle < tenants.len() {
            let dispatch = &tenants[next_tenant % tenants.len()];
            next_tenant += 1;
            let asked = Instant::now();
            match node.noted(dispatch.claim(&node.options.name, node.options.lease).await).flatten() {
                Some(claim) => {
                    idle = 0;
                    running.spawn(held(Arc::clone(&node), dispatch.clone(), claim, asked));
                }
                None => idle += 1,
            }
        }
        let next = async {
            match &mut notes {
                Some(notes) => notes.next().await,
                None => pending().await,
            }
        };
        tokio::select! {
            note = next => match note {
                Some((channel, run)) if channel == "llm_do_cancel" => {
                    if let Some(held) = node.held().get(&run) {
                        held.cancel();
                    }
                }
                Some(_) => last_sign = last_sign.filter(|_| !draining),
                None => notes = None,
            },
            _ = running.join_next(), if !running.is_empty() => {}
            changed = stop.changed(), if !draining => {
                if changed.is_err() {
                    draining = true;
                }
            }
            () = tokio::time::sleep(POLL) => {}
        }
    }
    node.noted(database.node_left(&node.options.name).await);
    Ok(())
}

/// Executes a claimed run, beside the heartbeats of its lease.
async fn held(node: Arc<Node>, dispatch: Dispatch, claim: Claim, asked: Instant) {
    node.log(NodeEvent::Claimed { run: &claim.run, tenant: dispatch.tenant() });
    let lease = Arc::new(Lease::new(Duration::from_secs(u64::from(node.options.lease)), asked));
    let held = Held::default();
    node.held().insert(claim.run.clone(), held.clone());
    let claim = Arc::new(claim);
    // A task of its own: the run may keep its thread busy for longer than a lease, with a large value for example.
    let beating = tokio::spawn(beat(
        Arc::clone(&node),
        dispatch.clone(),
        Arc::clone(&claim),
        Arc::clone(&lease),
        held.clone(),
    ));
    let left = execute(&node, &dispatch, &claim, &lease, &held).await;
    beating.abort();
    node.held().remove(&claim.run);
    node.log(NodeEvent::Left { run: &claim.run, status: &left.status, reason: left.reason.as_deref() });
}

/// Keeps the lease, and returns when it is lost.
async fn beat(node: Arc<Node>, dispatch: Dispatch, claim: Arc<Claim>, lease: Arc<Lease>, held: Held) {
    let mut pause = lease.interval();
    loop {
        tokio::time::sleep(pause).await;
        let asked = Instant::now();
        // A process that was stopped for long does not ask: another node may have taken over.
        let beat = match lease.holds() {
            true => {
                tokio::time::timeout(lease.interval(), dispatch.heartbeat(&claim, node.options.lease)).await
            }
            false => Ok(Ok(Beat::Lost)),
        };
        pause = lease.interval();
        match beat {
            Ok(Ok(Beat::Lost)) => {
                lease.lose();
                held.cut_off();
                return;
            }
            Ok(Ok(beat)) => {
                lease.confirm(asked);
                if beat == Beat::Cancelled {
                    held.cancel();
                }
            }
            Ok(Err(error)) => {
                node.noted::<()>(Err(error));
                pause = AGAIN.min(pause);
            }
            Err(_) => pause = AGAIN.min(pause),
        }
        if !lease.holds() {
            held.cut_off();
            return;
        }
    }
}

/// The way in which a run left a node.
struct Left {
    status: String,
    reason: Option<String>,
}

impl Left {
    fn with(status: &str, reason: Option<String>) -> Self {
        Self { status: status.to_owned(), reason }
    }
}

async fn execute(
    node: &Arc<Node>,
    dispatch: &Dispatch,
    claim: &Claim,
    lease: &Arc<Lease>,
    held: &Held,
) -> Left {
    if claim.cancelled {
        until_lost(node, lease, || dispatch.complete(claim, "interrupted")).await;
        return Left::with("interrupted", None);
    }
    if claim.fruitless >= MOST_FRUITLESS {
        let reason = format!("{MOST_FRUITLESS} claims in succession added no record");
        until_lost(node, lease, || dispatch.suspend(claim, &[], None, Some(&reason))).await;
        return Left::with("suspended", Some(reason));
    }
    // The journal's long values pass through files here on their way to the database.
    let scratch = match tempfile::Builder::new().prefix("llm-do-run-").tempdir() {
        Ok(scratch) => scratch,
        Err(error) => return handed_back(node, dispatch, claim, lease, error.to_string()).await,
    };
    let dir = scratch.path().join(&claim.run);
    let (run, seen) = match begin(node, dispatch, claim, lease, &dir).await {
        Ok(begun) => begun,
        Err(reason) => return handed_back(node, dispatch, claim, lease, reason).await,
    };
    // Set once, here.
    let _ = held.canceller.set(run.canceller());
    if held.cancelled.load(Ordering::Acquire) || !lease.holds() {
        held.cut_off();
    }
    let report = run.finish().await;
    if !lease.holds() {
        return Left::with("lost", Some("the lease ended: another node continues the run".to_owned()));
    }
    ended(node, dispatch, claim, lease, held, report, &seen).await
}

/// Tells the database how a run ended here.
async fn ended(
    node: &Node,
    dispatch: &Dispatch,
    claim: &Claim,
    lease: &Lease,
    held: &Held,
    report: Report,
    seen: &[String],
) -> Left {
    let status = status_name(report.status);
    match report.halt {
        Some(Halt::Journal(reason)) => return handed_back(node, dispatch, claim, lease, reason).await,
        Some(halt @ Halt::Diverged { .. }) => {
            let reason = halt.to_string();
            until_lost(node, lease, || dispatch.suspend(claim, &[], None, Some(&reason))).await;
            return Left::with("suspended", Some(reason));
        }
        _ => {}
    }
    let done = match report.status {
        RunStatus::Suspended => {
            let waiting = match &report.end {
                End::Suspended(waiting) => waiting.as_slice(),
                _ => &[],
            };
            let timeout = first_expiry(waiting).map(|seconds| i32::try_from(seconds).unwrap_or(i32::MAX));
            until_lost(node, lease, || dispatch.suspend(claim, seen, timeout, None)).await
        }
        RunStatus::Interrupted if !held.cancelled.load(Ordering::Acquire) => {
            until_lost(node, lease, || dispatch.release(claim, 0, None)).await;
            return Left::with("handed over", None);
        }
        _ => until_lost(node, lease, || dispatch.complete(claim, status)).await,
    };
    match done {
        true => Left::with(status, None),
        false => {
            Left::with("lost", Some("its end could not be stored: another node continues the run".to_owned()))
        }
    }
}

/// Gives a run back that this node can't execute. Another node, or this one, tries again after a while.
async fn handed_back(node: &Node, dispatch: &Dispatch, claim: &Claim, lease: &Lease, reason: String) -> Left {
    let delay = 1 << claim.fruitless.clamp(0, 5);
    until_lost(node, lease, || dispatch.release(claim, delay, Some(&reason))).await;
    Left::with("handed back", Some(reason))
}

/// Repeats an operation until it succeeds or the lease is lost. Returns the result, or false.
async fn until_lost<F: Future<Output = Result<bool, ClusterError>>>(
    node: &Node,
    lease: &Lease,
    operation: impl Fn() -> F,
) -> bool {
    while lease.holds() {
        if let Some(done) = node.noted(operation().await) {
            return done;
        }
        tokio::time::sleep(AGAIN).await;
    }
    false
}

/// Opens the program of a run and its records. Returns the run, and the questions whose answers it knows.
async fn begin(
    node: &Arc<Node>,
    dispatch: &Dispatch,
    claim: &Claim,
    lease: &Arc<Lease>,
    dir: &Path,
) -> Result<(Run, Vec<String>), String> {
    let failed = |error: ClusterError| error.to_string();
    let start: ClusterStart = serde_json::from_str(&claim.start)
        .map_err(|error| format!("the start of the run can't be read: {error}"))?;
    let program = Bundle::open(dispatch, &claim.bundle, &node.options.programs).await.map_err(failed)?;
    for folder in BLOB_FOLDERS {
        let path = dir.join(folder);
        fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let key = dispatch.seal_key().await.map_err(failed)?;
    let lines = dispatch.all_records(&claim.run).await.map_err(failed)?;
    let stored = dispatch.blob_names(&claim.run).await.map_err(failed)?;
    for name in &stored {
        fetch_blob(dispatch, &claim.run, name, dir).await.map_err(failed)?;
    }
    let mut answers = BTreeMap::new();
    let mut seen = Vec::new();
    for (question, given) in dispatch.answers(&claim.run).await.map_err(failed)? {
        if let (Ok(id), Ok(given)) = (question.parse::<QuestionId>(), serde_json::from_str::<Given>(&given)) {
            answers.insert(id, given);
        }
        seen.push(question);
    }
    let untrusted = UntrustedSet::default();
    let places: Vec<Place> =
        dispatch.untrusted().await.map_err(failed)?.iter().map(|place| Place::new(place)).collect();
    untrusted.add(&places)?;
    let untrusted = Arc::new(TenantPlaces { dispatch: dispatch.clone(), known: untrusted });
    let log = RecordLog {
        dispatch: dispatch.clone(),
        claim: claim.clone(),
        lease: Arc::clone(lease),
        next: i64::try_from(lines.len()).unwrap_or(i64::MAX),
        dir: dir.to_owned(),
        stored: stored.into_iter().collect(),
        wrote: {
            let (node, run) = (Arc::clone(node), claim.run.clone());
            Box::new(move |records| node.log(NodeEvent::Wrote { run: &run, records }))
        },
    };
    let opening = Opening {
        start,
        program,
        dir: dir.to_owned(),
        key,
        lines,
        answers,
        untrusted,
        log,
        id: claim.run.clone(),
    };
    let node = Arc::clone(node);
    // Opening a program reads files, and may start processes.
    let run = tokio::task::spawn_blocking(move || opening.open(&node)).await;
    Ok((run.map_err(|error| error.to_string())??, seen))
}

/// The parts of a run on a node.
struct Opening {
    id: String,
    start: ClusterStart,
    program: PathBuf,
    dir: PathBuf,
    key: SealKey,
    lines: Vec<String>,
    answers: BTreeMap<QuestionId, Given>,
    untrusted: Arc<TenantPlaces>,
    log: RecordLog,
}

impl Opening {
    fn open(self, node: &Node) -> Result<Run, String> {
        let text = |problem: Problem| problem.to_string();
        let first = self.lines.first().map(|line| recorded_mode(line.as_bytes(), &self.dir));
        let mode = first.transpose().map_err(text)?.flatten();
        let base = (node.options.settings)()?;
        let session = self.start.open(&self.program, &self.dir, base, mode).map_err(text)?;
        let log = NodeLog {
            id: self.id.into(),
            dir: self.dir.into(),
            log: Box::new(self.log),
            key: self.key,
            before: self.lines.into_iter().map(String::into_bytes).collect(),
            untrusted: self.untrusted,
        };
        session.run_on_node(log, &self.start.invocation.input, self.answers).map_err(text)
    }
}

/// The places that runs of a tenant wrote untrusted words to. Additions are in the database before the words are written.
struct TenantPlaces {
    dispatch: Dispatch,
    known: UntrustedSet,
}

impl UntrustedPlaces for TenantPlaces {
    fn hold(&self, place: &Place) -> bool {
        self.known.hold(place)
    }
    fn touch(&self, place: &Place) -> bool {
        self.known.touch(place)
    }
    fn within(&self, place: &Place) -> Vec<Place> {
        self.known.within(place)
    }
    fn add(&self, places: &[Place]) -> Result<(), String> {
        let new: Vec<&str> =
            places.iter().filter(|place| !self.known.hold(place)).map(Place::as_str).collect();
        if !new.is_empty() {
            let stored = || Handle::current().block_on(self.dispatch.add_untrusted(&new));
            tokio::task::block_in_place(stored).map_err(|error| error.to_string())?;
        }
        self.known.add(places)
    }
}

fn status_name(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Done => "done",
        RunStatus::Failed => "failed",
        RunStatus::Limit => "limit",
        RunStatus::Refused => "refused",
        RunStatus::Suspended => "suspended",
        RunStatus::Interrupted => "interrupted",
    }
}
