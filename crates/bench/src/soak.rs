//! A soak: many runs at once, for minutes, in one process. It looks for lost runs, incomplete journals and growing
//! memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::client::conn::http1::handshake;
use hyper::header::HOST;
use hyper_util::rt::TokioIo;
use llm_do::runs::SealKey;
use llm_do::{Report, Session};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{interval, timeout};

use crate::audit::{Audited, audit};
use crate::{Failure, Meter, machine, memory_kb};

/// Further attempts at a failed request: few, so that some runs fail and their ends are looked at, too.
const RETRIES: u32 = 1;
/// Maximum number of complaints kept in full.
const COMPLAINTS: usize = 50;

/// The plan of a soak.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The server's root, `http://127.0.0.1:PORT`. No other client may use it during the soak, because its counts are
    /// compared.
    pub url: String,
    /// Tool turns of a run, the number that the server was started with.
    pub turns: u64,
    /// Runs at once.
    pub concurrency: usize,
    /// Time in which runs are begun. Runs under way may then end; at least `concurrency` are begun.
    pub lasts: Duration,
    /// Time after that in which a run may end before it counts as lost.
    pub patience: Duration,
    /// The folder that keeps runs until they have been audited.
    pub dir: PathBuf,
}

/// The process at one moment.
#[derive(Clone, Copy, Debug)]
struct Sample {
    seconds: f64,
    rss_kb: u64,
    descriptors: usize,
    /// Runs under way, and those that have ended.
    open: usize,
    ended: u64,
}

/// The outcome of a soak.
#[derive(Debug)]
pub struct Outcome {
    /// Runs that were begun.
    pub started: u64,
    /// Runs that ended and whose journal is whole.
    pub ended: u64,
    /// The counts of all their journals.
    pub audited: Audited,
    /// The server's counts.
    pub served: Value,
    /// Violations found; only the first of many.
    pub wrong: Vec<String>,
    figures: Value,
    samples: Vec<Sample>,
}

impl Outcome {
    /// Everything, for the raw results.
    pub fn figures(&self) -> Value {
        let failed: BTreeMap<&String, u64> =
            self.audited.failed.iter().map(|(what, times)| (what, *times)).collect();
        let samples: Vec<Value> = (self.samples.iter())
            .map(|s| json!([s.seconds, s.rss_kb, s.descriptors, s.open, s.ended]))
            .collect();
        let mut figures = self.figures.clone();
        figures["runs"] = json!({"started": self.started, "ended": self.ended, "done": self.audited.done});
        figures["journals"] = json!({
            "requested": self.audited.requested,
            "answered": self.audited.answered,
            "failed": failed,
            "tools": self.audited.tools,
        });
        figures["server"] = self.served.clone();
        figures["wrong"] = json!(self.wrong);
        figures["samples_seconds_rss_kb_descriptors_open_ended"] = json!(samples);
        figures
    }
}

/// The shared notes of the runs' tasks.
#[derive(Default)]
struct Ledger {
    started: u64,
    ended: u64,
    open: BTreeSet<Arc<str>>,
    audited: Audited,
    wrong: Vec<String>,
}

struct Soak {
    session: Session,
    key: SealKey,
    turns: u64,
    until: Instant,
    host: String,
    ledger: Mutex<Ledger>,
}

/// Runs the soak.
///
/// # Errors
/// The soak can't start, or the server can't be reached. Failures of runs are part of the outcome.
pub async fn soak(plan: &Plan) -> Result<Outcome, Failure> {
    let limits = json!({
        "max_turns": plan.turns + 1, "max_tool_calls": plan.turns + 1, "request_retries": RETRIES,
    });
    let begun = Instant::now();
    let host = plan.url.trim_start_matches("http://").to_owned();
    let soak = Arc::new(Soak {
        session: machine::session(&plan.dir, &plan.url, &limits, true)?,
        key: SealKey::of(&machine::home(&plan.dir))?,
        turns: plan.turns,
        until: begun + plan.lasts,
        host: host.clone(),
        ledger: Mutex::default(),
    });
    stats(&host).await?;
    let meter = Meter::start();
    let samples = Arc::new(Mutex::new(Vec::new()));
    let sampling = tokio::spawn(sample(Arc::clone(&soak), begun, Arc::clone(&samples)));
    let mut slots: JoinSet<Result<(), Failure>> =
        (0..plan.concurrency).map(|_| Arc::clone(&soak).fill()).collect();
    let ended = timeout(plan.lasts + plan.patience, async {
        while let Some(slot) = slots.join_next().await {
            match slot {
                Ok(Ok(())) => {}
                Ok(Err(error)) => soak.ledger().complain(&"a run could not begin", &error),
                Err(panic) => soak.ledger().complain(&"a task", &panic),
            }
        }
    });
    let in_time = ended.await.is_ok();
    sampling.abort();
    let (wall, cpu) = meter.elapsed();
    let served = stats(&host).await?;
    let mut ledger = std::mem::take(&mut *soak.ledger());
    if !in_time {
        for run in std::mem::take(&mut ledger.open) {
            ledger.complain(&run, &"it has not ended: lost");
        }
    }
    compare(&mut ledger, &served, soak.session.runs_dir())?;
    let samples = std::mem::take(&mut *samples.lock().unwrap_or_else(PoisonError::into_inner));
    let Ledger { started, ended, audited, wrong, .. } = ledger;
    let figures = json!({
        "turns": plan.turns,
        "concurrency": plan.concurrency,
        "lasts_seconds": plan.lasts.as_secs_f64(),
        "wall_seconds": wall,
        "cpu_seconds": cpu,
        "peak_rss_kb": memory_kb("VmHWM:"),
    });
    Ok(Outcome { started, ended, audited, served, wrong, figures, samples })
}

impl Soak {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes one run after another, until the time is over.
    async fn fill(self: Arc<Self>) -> Result<(), Failure> {
        let input = machine::input();
        loop {
            let run = self.session.start(&input, None, None)?;
            let id = Arc::clone(run.id());
            {
                let mut ledger = self.ledger();
                ledger.started += 1;
                ledger.open.insert(Arc::clone(&id));
            }
            let report = run.finish().await;
            let soak = Arc::clone(&self);
            spawn_blocking(move || soak.close(&report)).await?;
            self.ledger().open.remove(&id);
            if Instant::now() >= self.until {
                return Ok(());
            }
        }
    }

    /// Audits a run that has ended, and removes it. A run with a violation stays.
    fn close(&self, report: &Report) {
        let audited = audit(report, &self.key, self.turns);
        let removed = match audited {
            Ok(_) => std::fs::remove_dir_all(&report.dir),
            Err(_) => Ok(()),
        };
        let mut ledger = self.ledger();
        match audited {
            Ok(audited) => {
                ledger.ended += 1;
                // The port is another one each time, and the line would not fit a table.
                let failed =
                    audited.failed.iter().map(|(what, n)| (what.replace(&self.host, "[server]"), *n));
                ledger.audited += Audited { failed: failed.collect(), ..audited };
            }
            Err(what) => ledger.complain(&report.run, &what),
        }
        if let Err(error) = removed {
            ledger.complain(&report.run, &error);
        }
    }
}

impl Ledger {
    fn complain(&mut self, of: &dyn std::fmt::Display, what: &dyn std::fmt::Display) {
        if self.wrong.len() < COMPLAINTS {
            self.wrong.push(format!("{of}: {what}"));
        }
    }
}

/// Compares the totals once all runs have ended.
fn compare(ledger: &mut Ledger, served: &Value, runs_dir: &Path) -> Result<(), Failure> {
    let mut same = |what: &str, ours: u64, other: &str, theirs: u64| {
        if ours != theirs {
            ledger.wrong.push(format!("{ours} {what}, but {theirs} {other}"));
        }
    };
    let failed: u64 = ledger.audited.failed.values().sum();
    let faults: u64 =
        served["faults"].as_object().into_iter().flatten().filter_map(|(_, n)| n.as_u64()).sum();
    same("runs were begun", ledger.started, "ended with a whole journal", ledger.ended);
    same(
        "requests are in the journals",
        ledger.audited.requested,
        "came to the server",
        served["requests"].as_u64().unwrap_or(0),
    );
    same("requests failed by the journals", failed, "answers were faulty", faults);
    let left = std::fs::read_dir(runs_dir)?.count() as u64;
    same("runs are not yet removed", left, "should be", 0);
    let open = descriptors(|place| place.starts_with(runs_dir)) as u64;
    same("files of runs are still open", open, "should be", 0);
    Ok(())
}

/// Samples the process each second.
async fn sample(soak: Arc<Soak>, begun: Instant, samples: Arc<Mutex<Vec<Sample>>>) {
    let mut seconds = interval(Duration::from_secs(1));
    loop {
        seconds.tick().await;
        let (rss_kb, descriptors) = (memory_kb("VmRSS:").unwrap_or(0), descriptors(|_| true));
        let (open, ended) = {
            let ledger = soak.ledger();
            (ledger.open.len(), ledger.ended)
        };
        let seconds = (begun.elapsed().as_secs_f64() * 1000.0).round() / 1000.0;
        let sample = Sample { seconds, rss_kb, descriptors, open, ended };
        samples.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
    }
}

/// Open descriptors of this process that lead to such places.
fn descriptors(to: impl Fn(&Path) -> bool) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    open.filter(|each| std::fs::read_link(each.path()).is_ok_and(|place| to(&place))).count()
}

/// The server's counts since the last query.
async fn stats(host: &str) -> Result<Value, Failure> {
    let stream = TcpStream::connect(host).await?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::get("/stats").header(HOST, host).body(Empty::<Bytes>::new())?;
    let answer = sender.send_request(request).await?.into_body().collect().await?.to_bytes();
    Ok(serde_json::from_slice(&answer)?)
}
