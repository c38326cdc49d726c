//! `llm-do run --cluster` and `llm-do runs resume pg:RUN`: a run on a cluster, followed from here.

use super::{LocalCopy, Opened, PREFIX, failed, local::database_of};
use crate::{
    args::{DatabaseArgs, ResumeArgs, RunArgs},
    commands::{resume::decisions, run::say},
    exit::{Complaint, Exit},
    interrupt::Interrupts,
    opening::{NotReady, given, said, settings, too_small},
    program::{complaint, home},
    render::{Output, Refuses, Renderer, show_report},
    visible,
};
use llm_do::{
    ClusterStart, PastRun, Problem, Report, ResumeError, Session,
    core::{
        engine::End,
        event::Event,
        gate::Mode,
        journal::{Record, RecordKind, RunStatus},
        launch::Counts,
        origin::Origins,
        question::Given,
    },
    runs::EventSink as _,
};
use llm_do_cluster::{Bundle, Dispatch};
use llm_do_records::{BlobSource, parse_line};
use std::{
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// The time between two looks for new records.
const INTERVAL: Duration = Duration::from_millis(50);
/// Most records that are read at once.
const PAGE: i32 = 500;

/// Starts a run on a cluster and follows it.
pub(crate) fn run(args: &RunArgs, database: &str, output: &Output) -> Exit {
    started(args, database, output).unwrap_or_else(|not_ready| said(not_ready, output))
}

fn started(args: &RunArgs, database: &str, output: &Output) -> Result<Exit, NotReady> {
    if args.approval.operator.is_some() {
        return Err(Complaint::wrong(
            "--operator is not available for a run on a cluster: its questions wait for `runs resume`",
        )
        .into());
    }
    let interrupts = listen()?;
    let mut settings = settings(args)?;
    settings.run.unattended = Mode::Defer;
    let session = Session::open(settings)?;
    if let Some(complaint) = too_small(&session) {
        return Err(complaint.into());
    }
    let input = given(args, &session, Some(output))?;
    let start: ClusterStart = session.cluster_start(&input)?;
    say(&session, output);
    let start = serde_json::to_string(&start).map_err(|error| Complaint::failed(error.to_string()))?;
    let packed = Bundle::pack(&session.cluster_root()?, &[]).map_err(failed)?;
    let opened = Opened::new(&DatabaseArgs { database: database.to_owned() })?;
    let dispatch = opened.dispatch(None)?;
    let bundle = opened.wait(packed.store(&dispatch))?;
    let id = opened.wait(dispatch.spawn(&bundle, &start))?;
    output.note(&format!("{PREFIX}{id} runs on the cluster"));
    Ok(follow(&opened, &dispatch, &id, 0, session.entry().returns.is_some(), &interrupts, output)?)
}

/// Answers questions of a run on a cluster, and follows it.
pub(crate) fn resume(args: &ResumeArgs, database: Option<&String>, output: &Output) -> Exit {
    resumed(args, database, output).unwrap_or_else(|not_ready| said(not_ready, output))
}

fn resumed(args: &ResumeArgs, database: Option<&String>, output: &Output) -> Result<Exit, NotReady> {
    if args.operator.is_some() {
        return Err(Complaint::wrong("--operator is not available for a run on a cluster").into());
    }
    let interrupts = listen()?;
    let opened = Opened::new(&database_of(&args.run, database)?)?;
    let dispatch = opened.dispatch(None)?;
    let copy = LocalCopy::fetch(&opened, &dispatch, args.run.strip_prefix(PREFIX).unwrap_or(&args.run))?;
    let past = PastRun::open(&copy.dir, &home()).map_err(Problem::from)?;
    let decisions = decisions(args, &past)?;
    let id = &copy.run.id;
    if copy.run.has_ended() && decisions.0.is_empty() {
        return Ok(shown(&past, id, copy.run.reason.as_deref(), output));
    }
    past.admits(&decisions).map_err(Problem::from)?;
    if decisions.0.is_empty()
        && !past.waiting().is_empty()
        && copy.run.state == "suspended"
        && copy.run.reason.is_none()
    {
        return Ok(shown(&past, id, None, output));
    }
    for (question, given) in decisions.0 {
        let text = serde_json::to_string(&given).map_err(|error| Complaint::failed(error.to_string()))?;
        let counts = opened.wait(dispatch.answer(id, &question.to_string(), &text))?;
        let counts = counts.ok_or_else(|| Complaint::wrong(format!("{PREFIX}{id} has ended already")))?;
        if counts != text {
            let first: Given =
                serde_json::from_str(&counts).map_err(|error| Complaint::failed(error.to_string()))?;
            let decided = ResumeError::AlreadyDecided { id: question, by: first.by, via: first.via };
            return Err(Problem::from(decided).into());
        }
    }
    opened.wait(dispatch.wake(id))?;
    let from = i64::try_from(past.records().len()).unwrap_or(i64::MAX);
    Ok(follow(&opened, &dispatch, id, from, false, &interrupts, output)?)
}

fn listen() -> Result<Interrupts, Complaint> {
    Interrupts::listen(None).map_err(|error| Complaint::failed(format!("cannot listen to signals: {error}")))
}

/// Shows a run's records from that number on until it ends or waits, and then its end.
fn follow(
    opened: &Opened,
    dispatch: &Dispatch,
    id: &str,
    from: i64,
    typed: bool,
    interrupts: &Interrupts,
    output: &Output,
) -> Result<Exit, Complaint> {
    let left = Arc::new(AtomicBool::new(false));
    let leave = {
        let left = Arc::clone(&left);
        move || left.store(true, Ordering::Release)
    };
    interrupts.on_first(leave.clone());
    let renderer = Renderer::new(output.clone(), Refuses::AsMeant, leave);
    renderer.expects(typed);
    let values = Values { opened, dispatch, id };
    let mut next = from;
    loop {
        // Asked before the records are read: those of its end are then among them.
        let run = opened.wait(dispatch.find(id))?;
        let rests = run.has_ended() || run.state == "suspended";
        let lines = opened.wait(dispatch.records(id, next, PAGE))?;
        next += i64::try_from(lines.len()).unwrap_or(i64::MAX);
        let is_last = lines.len() < usize::try_from(PAGE).unwrap_or(usize::MAX);
        for line in lines {
            let record = parse_line(line.as_bytes(), &values);
            let record = record.map_err(|problem| Complaint::failed(format!("{PREFIX}{id}: {problem}")))?;
            renderer.event(Event::Record { record: Arc::new(record) });
        }
        if rests && is_last {
            renderer.stop();
            if next == 0 {
                let reason = run.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
                return Err(Complaint::failed(format!("no node has begun {PREFIX}{id}{reason}")));
            }
            let copy = LocalCopy::fetch(opened, dispatch, id)?;
            let past = PastRun::open(&copy.dir, &home()).map_err(|error| complaint(&Problem::from(error)))?;
            return Ok(shown(&past, id, copy.run.reason.as_deref(), output));
        }
        if left.load(Ordering::Acquire) {
            renderer.stop();
            output.note(&format!(
                "{PREFIX}{id} continues on the cluster; `llm-do cluster cancel {id}` ends it, `llm-do runs resume {PREFIX}{id}` shows \
                 its result"
            ));
            return Ok(Exit::Interrupted);
        }
        if is_last {
            thread::sleep(INTERVAL);
        }
    }
}

/// Shows the end of a run, or the questions that it waits for.
fn shown(past: &PastRun, id: &str, reason: Option<&str>, output: &Output) -> Exit {
    if let Some(reason) = reason {
        output.warn(&format!("{PREFIX}{id} waits: {}", visible::line(reason)));
    }
    let mut report = past.report().unwrap_or_else(|| unfinished(past));
    report.run = format!("{PREFIX}{id}").into();
    // The copy is about to be removed.
    report.dir = PathBuf::new();
    show_report(output, &report, None);
    Exit::from(&report)
}

/// Returns the report of a run that waits or was interrupted.
fn unfinished(past: &PastRun) -> Report {
    let records = past.records();
    let end = records.iter().rev().find_map(|record| match &record.body {
        RecordKind::RunEnded { status, usage, .. } => Some((*status, *usage)),
        _ => None,
    });
    let (status, usage) = end.unwrap_or((RunStatus::Interrupted, Default::default()));
    let times = |record: Option<&Record>| record.map_or(0, |record| record.at_ms);
    Report {
        run: "".into(),
        dir: PathBuf::new(),
        status,
        end: End::Suspended(past.waiting()),
        origins: Origins::default(),
        usage,
        took: Duration::from_millis(times(records.last()).saturating_sub(times(records.first()))),
        counts: Counts::of(records.iter().map(|record| &record.body)),
        left: None,
        halt: None,
        over_budget: None,
    }
}

/// The long values of a run, in the database.
struct Values<'a> {
    opened: &'a Opened,
    dispatch: &'a Dispatch,
    id: &'a str,
}

impl BlobSource for Values<'_> {
    fn read(&self, hash: &str, most: u64) -> io::Result<Vec<u8>> {
        let name = format!("blobs/{hash}");
        let read = self.dispatch.blob(self.id, &name);
        let read = self.opened.runtime.block_on(read).map_err(|error| io::Error::other(error.to_string()))?;
        let mut content = read.ok_or(io::ErrorKind::NotFound)?;
        content.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        Ok(content)
    }
}
