//! Runs as clients see them.

use super::Service;
use crate::{
    error::ApiError,
    events::Reader,
    listing::{Filter, Listed, Listing, MOST_SEARCHED, has_text, listed},
    live::{LiveRun, is_turn},
    program::Served,
    runs::Halted,
    token::{Scope, Token},
    views::{Findings, ProgramView, QuestionOfRun, QuestionView, RunView, Runs, State, WorkerView},
};
use llm_do::{
    Client, Session, client_schema,
    core::{
        journal::{Ending, RecordKind},
        worker::{WorkerDefinition, WorkerMode},
    },
    records::History,
    runs::{ReadError, RunSummary, read_ends, read_journal},
};
use serde_json::Value;
use std::{io, path::Path, sync::Arc};
use tokio::task::spawn_blocking;

/// Most runs on a page.
pub(crate) const LARGEST_PAGE: usize = 200;

impl Service {
    /// Returns the run with that ID, if the client may see it.
    pub(crate) async fn run(&self, token: &Token, id: &str) -> Result<RunView, ApiError> {
        if let Some(live) = self.live(token, id) {
            return Ok(live_view(&live));
        }
        let (program, summary) = self.stored(token, id).await?;
        self.continue_changed(&program, &summary).await;
        if let Some(live) = self.live(token, id) {
            return Ok(live_view(&live));
        }
        self.view(&program, summary).await
    }

    /// A page of the runs that the client may see, newest first.
    pub(crate) async fn runs(&self, token: &Arc<Token>, page: Page) -> Result<Runs, ApiError> {
        let (service, token) = (self.clone(), Arc::clone(token));
        let listed = spawn_blocking(move || service.page(&token, &page)).await;
        listed.map_err(ApiError::internal)?.map_err(ApiError::internal)
    }

    fn page(&self, token: &Token, page: &Page) -> io::Result<Runs> {
        let Page { before, limit, filter, previews } = page;
        let (mut runs, mut searched) = (Vec::new(), 0);
        let mut last: Option<String> = None;
        for (id, folder) in Listing::ids(&self.runs_dirs(token), before.as_deref())? {
            if runs.len() == *limit || searched == MOST_SEARCHED {
                return Ok(Runs { runs, next: last.map(Arc::from) });
            }
            if let Some(mut view) = self.in_list(token, &folder, &id)
                && filter.admits(&view.program, &view.worker, view.chat, view.state)
                && filter.text.as_deref().is_none_or(|text| {
                    let shown = id.contains(text) || view.worker.to_lowercase().contains(text);
                    shown || {
                        searched += 1;
                        has_text(&folder.join(&id), text)
                    }
                })
            {
                if view.usage.is_none() && matches!(view.state, State::Running | State::Waiting) {
                    view.usage = self.0.costs.usage(&folder.join(&id));
                }
                if !previews {
                    let questions = std::mem::take(&mut view.questions).into_iter();
                    view.questions = questions.map(QuestionView::without_preview).collect();
                }
                runs.push(view);
            }
            last = Some(id);
        }
        Ok(Runs { runs, next: None })
    }

    /// A run as lists show it, if the client may see it.
    pub(super) fn in_list(&self, token: &Token, folder: &Path, id: &str) -> Option<RunView> {
        if let Some(live) = self.live(token, id) {
            return Some(live_view(&live));
        }
        let listed = self.0.listing.get(folder, id, &self.0.owner)?;
        token.sees(&listed.program, &listed.client).then(|| self.listed_view(&listed))
    }

    fn listed_view(&self, listed: &Listed) -> RunView {
        let (state, reason) = match self.0.runs.halted(&listed.run) {
            Some(Halted::Changed(why)) => (State::Changed, Some(why)),
            Some(Halted::CutOff(why)) => (State::CutOff, Some(why)),
            None => (listed.state, listed.reason.clone()),
        };
        RunView {
            run: Arc::clone(&listed.run),
            program: Arc::clone(&listed.program),
            worker: Arc::clone(&listed.worker),
            chat: listed.chat,
            client: Arc::clone(&listed.client),
            outside: listed.outside,
            state,
            reason,
            title: listed.title.clone(),
            started_ms: listed.started_ms,
            took_ms: listed.took_ms,
            output: None,
            failure: listed.failure.clone(),
            usage: listed.usage,
            questions: Vec::new(),
        }
    }

    /// The questions that a client may see, with the effects of their calls if `previews`.
    pub(crate) fn questions(&self, token: &Token, previews: bool) -> Vec<QuestionOfRun> {
        let mut questions = Vec::new();
        for run in self.0.runs.all() {
            let Client { name, program, .. } = run.client();
            if token.sees(program, name) {
                questions.extend(run.questions().waiting().into_iter().map(|waiting| QuestionOfRun {
                    run: Arc::clone(&run.id),
                    program: Arc::clone(program),
                    client: Arc::clone(name),
                    question: match QuestionView::from(waiting) {
                        question if previews => question,
                        question => question.without_preview(),
                    },
                }));
            }
        }
        questions
    }

    /// The number of open questions that a client may see.
    pub(crate) fn question_count(&self, token: &Token) -> usize {
        let runs = self.0.runs.all();
        let seen = runs.iter().filter(|run| token.sees(&run.client().program, &run.client().name));
        seen.map(|run| run.questions().count()).sum()
    }

    /// Opens a reader of the events of a run after the record with that number, or from the first on.
    ///
    /// # Errors
    /// There is no such run, or too many streams are open.
    pub(crate) async fn reader(
        &self,
        token: &Token,
        id: &str,
        after: Option<u64>,
    ) -> Result<Reader, ApiError> {
        // Looked up before the journal: a run that ends in between is read from it.
        let live = self.0.runs.get(id);
        let (program, _) = self.stored(token, id).await?;
        let place = self.0.quotas.streams.take(token.name(), 1)?;
        let next = after.map_or(0, |after| after.saturating_add(1));
        Ok(Reader::new(&program.run_dir(id), live.and_then(|live| live.subscribe()), next, place))
    }

    /// The programs that a client may use.
    pub(crate) async fn programs(&self, token: &Token) -> Result<Vec<ProgramView>, ApiError> {
        let mut views = Vec::new();
        for program in self.programs_of(token) {
            let sessions = program.sessions();
            views.push(ProgramView {
                program: program.name().as_str().into(),
                description: sessions.first().and_then(|first| {
                    let of_entry = || first.entry().description.as_ref().map(ToString::to_string);
                    first.program().manifest().description.clone().or_else(of_entry)
                }),
                edit: token.has(Scope::Edit),
                findings: self.findings(program).await?,
            });
        }
        Ok(views)
    }

    /// The workers that a client may start.
    pub(crate) fn workers(&self, token: &Token) -> Vec<WorkerView> {
        self.programs_of(token).flat_map(workers_of).collect()
    }

    /// Counts the errors and warnings that `check` finds in a program.
    async fn findings(&self, program: &Arc<Served>) -> Result<Option<Findings>, ApiError> {
        let (of, host) = (Arc::clone(program), Arc::clone(&self.0.host));
        spawn_blocking(move || of.findings(&*host)).await.map_err(ApiError::internal)
    }

    /// A run that is not under way here, with its result.
    async fn view(&self, program: &Arc<Served>, summary: RunSummary) -> Result<RunView, ApiError> {
        let client = self
            .0
            .owner
            .started_by(program.runs_dir(), &summary)
            .ok_or_else(|| ApiError::no_run(&summary.run))?;
        let is_outside = self.0.owner.only_shows(&summary);
        let (dir, service) = (program.run_dir(&summary.run), self.clone());
        let read = spawn_blocking(move || {
            let view = service.listed_view(&listed(&summary, client, is_outside, &dir));
            let (ending, mut questions) = result_of(&dir, view.state)?;
            if is_outside {
                questions.clear();
            }
            Ok::<_, ReadError>((view, (ending, questions)))
        });
        let (mut view, (ending, questions)) =
            read.await.map_err(ApiError::internal)?.map_err(ApiError::internal)?;
        view.questions = questions;
        match ending {
            Some(Ending::Output(value)) => view.output = Some(value),
            Some(Ending::Failure(failure)) => view.failure = Some(failure),
            Some(Ending::Suspended) | None => {}
        }
        Ok(view)
    }
}

/// The selection of runs on a page of a list.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// Only runs that began before the run with this ID.
    pub(crate) before: Option<String>,
    /// The most that are listed.
    pub(crate) limit: usize,
    /// The filter of the runs.
    pub(crate) filter: Filter,
    /// True if the questions of the runs show the effects of their calls.
    pub(crate) previews: bool,
}

/// Returns the ending of the run in that folder, and the questions that it waits for.
fn result_of(dir: &Path, state: State) -> Result<(Option<Ending>, Vec<QuestionView>), ReadError> {
    if matches!(state, State::Waiting | State::Changed) {
        let waiting = History::of(read_journal(dir)?.records).waiting();
        return Ok((None, waiting.into_iter().map(QuestionView::from).collect()));
    }
    let last = read_ends(dir)?.map(|(_, last)| last.body);
    Ok(match last {
        Some(RecordKind::RunEnded { ending, .. }) => (Some(ending), Vec::new()),
        _ => (None, Vec::new()),
    })
}

fn live_view(live: &LiveRun) -> RunView {
    let (state, waiting) = live.waits();
    let mut questions: Vec<QuestionView> = waiting.into_iter().map(QuestionView::from).collect();
    // First what keeps a call waiting, then the turn of the chat.
    questions.sort_by_key(|question| is_turn(&question.waiting));
    RunView {
        run: Arc::clone(&live.id),
        program: Arc::clone(&live.client().program),
        worker: Arc::clone(&live.about.worker),
        chat: live.about.chat,
        client: Arc::clone(&live.client().name),
        outside: false,
        state,
        reason: None,
        title: live.about.title.clone(),
        started_ms: live.started_ms(),
        took_ms: None,
        output: None,
        failure: None,
        usage: None,
        questions,
    }
}

/// The schema of a worker's input, in which files and folders have the format `path`: they can be uploaded.
fn input_schema(worker: &WorkerDefinition) -> Value {
    let mut schema = client_schema(worker);
    for parameter in worker.signature.parameters.iter().filter(|parameter| parameter.path.is_some()) {
        if let Some(property) = schema.get_mut("properties").and_then(|all| all.get_mut(&*parameter.name)) {
            property["format"] = "path".into();
        }
    }
    schema.into()
}

fn workers_of(program: &Arc<Served>) -> Vec<WorkerView> {
    let view = |(number, session): (usize, &Session)| {
        let worker = session.entry();
        let reach = session.reach();
        WorkerView {
            program: program.name().as_str().into(),
            worker: Arc::clone(&worker.id),
            default: number == 0,
            description: worker.description.as_ref().map(ToString::to_string),
            input: input_schema(worker),
            output: worker.returns.as_ref().map(|schema| Arc::clone(schema.value())),
            chat: worker.mode == WorkerMode::Chat,
            model: session.model_name(),
            changes: reach.changes,
            network: reach.network,
        }
    };
    program.sessions().iter().enumerate().map(view).collect()
}
