//! Continuing the runs that an earlier process has left.

use super::{Inner, Service, starting::about};
use crate::{
    listing::{Listing, cut_off_because, title_of},
    live::{About, LiveRun, Ports},
    log::LogEntry,
    owner::client_of,
    program::Served,
    runs::{Halted, MOST_KEYS, Stuck},
    views::State,
};
use llm_do::{
    Client, Decisions, PastRun, Problem, ResumeError, Run,
    core::journal::RunStatus,
    records::{OpenRun, RunState},
    runs::{RunSummary, newest_and_unfinished, summary_of},
};
use std::{io, sync::Arc};
use tokio::task::spawn_blocking;

/// A run of an earlier process.
struct Earlier {
    id: Arc<str>,
    client: Client,
    /// True if the run is suspended or cut off, so that it is to be continued.
    is_left: bool,
}

/// The runs that the program's service had in earlier processes, oldest first: at least the newest [`MOST_KEYS`], whose
/// idempotency keys this process remembers, and all older ones that are not over.
fn left_by_earlier(program: &Served, listing: &Listing) -> io::Result<Vec<Earlier>> {
    let client =
        |run: &RunSummary| client_of(run).filter(|client| *client.program == *program.name().as_str());
    let is_own = |run: &RunSummary| client(run).is_some() && listing.has_begun(&program.run_dir(&run.run));
    let runs = newest_and_unfinished(program.runs_dir(), MOST_KEYS, is_own)?;
    let earlier = runs.iter().rev().filter_map(|run| {
        let is_left = match run.state {
            RunState::Ended(RunStatus::Suspended) | RunState::Open(OpenRun::CutOff) => true,
            RunState::Ended(_) => cut_off_because(run, &program.run_dir(&run.run)).is_some(),
            RunState::Open(OpenRun::Running | OpenRun::Damaged) => false,
        };
        Some(Earlier { id: run.run.as_str().into(), client: client(run)?, is_left })
    });
    Ok(earlier.collect())
}

impl Service {
    /// Continues the runs of an earlier process that are not over, and remembers the keys of its requests.
    pub(super) async fn continue_all(&self) {
        for program in self.0.programs.iter() {
            let (of, service) = (Arc::clone(program), self.clone());
            let found = match spawn_blocking(move || left_by_earlier(&of, &service.0.listing)).await {
                Ok(Ok(found)) => found,
                Ok(Err(error)) => {
                    self.log(&format!("{}: cannot read the runs of before: {error}", program.name()));
                    continue;
                }
                Err(_) => continue,
            };
            for Earlier { id, client, is_left } in found {
                self.0.runs.remember(&client, &id);
                if is_left {
                    self.continue_one(program, id, &client.name).await;
                }
            }
        }
    }

    /// Tries again to continue the runs of a program that were begun with other definitions.
    pub(super) async fn continue_stuck(&self, program: &Arc<Served>) {
        for id in self.0.runs.take_stuck(program.name().as_str()) {
            let (of, run) = (Arc::clone(program), Arc::clone(&id));
            let found = spawn_blocking(move || summary_of(of.runs_dir(), &run)).await;
            let Some(client) = found.ok().and_then(Result::ok).and_then(|found| client_of(&found)) else {
                continue;
            };
            self.continue_one(program, id, &client.name).await;
        }
    }

    /// Tries again to continue a run that was begun with other definitions, if somebody looks at it and a moment has passed since
    /// the last try: its files may be again what they were.
    pub(super) async fn continue_changed(&self, program: &Arc<Served>, found: &RunSummary) {
        if self.0.runs.is_due(&found.run)
            && let Some(client) = client_of(found)
        {
            self.continue_one(program, found.run.as_str().into(), &client.name).await;
        }
    }

    pub(super) async fn continue_one(&self, program: &Arc<Served>, id: Arc<str>, client: &Arc<str>) {
        let Some(room) = self.0.runs.room_in_line(client) else { return };
        let (of, dir, service) = (Arc::clone(program), program.run_dir(&id), self.clone());
        let continued = spawn_blocking(move || {
            let past = of.past(&dir)?;
            service.continued(&of, past, Decisions::default())
        });
        match continued.await {
            Ok(Ok((live, run))) => {
                self.log_entry(LogEntry { text: "continued".into(), ..live.entry("run_continued") });
                self.set_off(live, run, room);
            }
            // A request has continued it meanwhile.
            Ok(Err(_)) if self.0.runs.get(&id).is_some() => {}
            Ok(Err(problem)) => {
                let is_known = matches!(self.0.runs.halted(&id), Some(Halted::Changed(why)) if why == problem.to_string());
                if !is_known {
                    self.log_entry(LogEntry {
                        event: "run_changed",
                        run: Some(id.to_string()),
                        program: Some(program.name().to_string()),
                        state: Some(State::Changed.name()),
                        text: format!("cannot be continued: {problem}"),
                        ..LogEntry::default()
                    });
                }
                let program = program.name().as_str().into();
                self.0.runs.set_stuck(id, Stuck::now(program, Halted::Changed(problem.to_string())));
            }
            Err(_) => {}
        }
    }

    /// Prepares to continue a run that an earlier process has left.
    pub(super) fn continued(
        &self,
        program: &Served,
        past: PastRun,
        decisions: Decisions,
    ) -> Result<(Arc<LiveRun>, Run), Problem> {
        let Inner { host, notices, owner, chats_expire, .. } = &*self.0;
        let session = program.for_past(&past, &**host)?;
        let foreign = || Problem::from(ResumeError::Unknown("no client of this service started it".into()));
        let client = owner.client(past.invocation().client.clone()).ok_or_else(foreign)?;
        let input = serde_json::to_value(past.input()).unwrap_or_default();
        let about = About { title: title_of(&input), ..about(&session, client) };
        let ports = Ports::continued(owner.via(), *chats_expire, &past);
        decisions.0.iter().for_each(|(id, given)| ports.was_answered(id, &given.by));
        let run = session.resume(past, decisions, Some(ports.operator()), Some(ports.events()))?;
        Ok((LiveRun::new(&run, ports, about, notices), run))
    }
}
