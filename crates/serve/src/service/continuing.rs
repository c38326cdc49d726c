//! Continuing the runs that an earlier process has left.

use super::{Inner, Service, starting::about};
use crate::{
    listing::{cut_off_because, title_of},
    live::{About, LiveRun, Ports},
    log::LogEntry,
    owner::client_of,
    program::Served,
    runs::{Halted, MOST_KEYS, Stuck},
    views::State,
};
use llm_do::{
    Decisions, PastRun, Problem, ResumeError, Run,
    core::journal::RunStatus,
    records::{Open, RunState},
    runs::{RunSummary, list_runs_before, summary_of},
};
use std::sync::Arc;
use tokio::task::spawn_blocking;

impl Service {
    /// Continues the runs of an earlier process that are not over, and remembers the keys of its requests.
    pub(super) async fn continue_all(&self) {
        for program in self.0.programs.iter() {
            let of = Arc::clone(program);
            let listed = spawn_blocking(move || {
                let is_own = |run: &RunSummary| {
                    client_of(run).is_some_and(|client| *client.program == *of.name().as_str())
                };
                list_runs_before(of.runs_dir(), None, MOST_KEYS, is_own)
            });
            let runs = match listed.await {
                Ok(Ok(runs)) => runs,
                Ok(Err(error)) => {
                    self.log(&format!("{}: cannot read the runs of before: {error}", program.name()));
                    continue;
                }
                Err(_) => continue,
            };
            for summary in runs.into_iter().rev() {
                let id: Arc<str> = summary.run.as_str().into();
                if let Some(client) = client_of(&summary) {
                    self.0.runs.remember(&client, &id);
                }
                let is_left = match summary.state {
                    RunState::Ended(RunStatus::Suspended) => true,
                    RunState::Ended(_) => {
                        let (dir, of) = (program.run_dir(&id), summary.clone());
                        spawn_blocking(move || cut_off_because(&of, &dir).is_some()).await.unwrap_or(false)
                    }
                    RunState::Open(open) => open == Open::CutOff,
                };
                if is_left {
                    let client = client_of(&summary).map(|client| client.name).unwrap_or_default();
                    self.continue_one(program, id, &client).await;
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

    pub(super) async fn continue_one(&self, program: &Arc<Served>, id: Arc<str>, client: &Arc<str>) {
        let Some(room) = self.0.runs.room(client).await else { return };
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
            Ok(Err(problem)) => {
                self.log_entry(LogEntry {
                    event: "run_changed",
                    run: Some(id.to_string()),
                    program: Some(program.name().to_string()),
                    state: Some(State::Changed.name()),
                    text: format!("cannot be continued: {problem}"),
                    ..LogEntry::default()
                });
                let program = program.name().as_str().into();
                self.0.runs.set_stuck(id, Stuck { program, how: Halted::Changed(problem.to_string()) });
            }
            Err(_) => {}
        }
    }

    /// A run that an earlier process has left, about to be continued.
    pub(super) fn continued(
        &self,
        program: &Served,
        past: PastRun,
        decisions: Decisions,
    ) -> Result<(Arc<LiveRun>, Run), Problem> {
        let Inner { host, notices, owner, .. } = &*self.0;
        let session = program.for_past(&past, &**host)?;
        let foreign = || Problem::from(ResumeError::Unknown("no client of this service started it".into()));
        let client = owner.client(past.invocation().client.clone()).ok_or_else(foreign)?;
        let started_ms = past.records().first().map_or(0, |first| first.at_ms);
        let input = serde_json::to_value(past.input()).unwrap_or_default();
        let about = About { title: title_of(&input), started_ms, ..about(&session, client) };
        let ports = Ports::new(owner.via());
        let run = session.resume(past, decisions, Some(ports.operator()), Some(ports.events()))?;
        Ok((LiveRun::new(&run, ports, about, notices), run))
    }
}
