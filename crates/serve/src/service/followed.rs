//! The operations of the interfaces of OpenAI, AG-UI and MCP on a service: runs that they follow, and the model that
//! answers requests for titles.

use super::{Service, TitleModel, starting::Ready};
use crate::{
    error::ApiError,
    events::Reader,
    live::{Attached, LiveRun},
    token::Token,
    views::StartRun,
};
use llm_do::{
    Client, Session,
    core::{
        attachment::Attachment,
        journal::Record,
        model::{Model, ModelName},
    },
    records::RunView,
    runs::read_journal,
};
use std::sync::Arc;
use tokio::{sync::watch, task::spawn_blocking};

impl Service {
    /// Uses that model for auxiliary requests of chat clients, for example for a title. The first one stays.
    pub fn answer_titles_with(&self, name: ModelName, model: Arc<dyn Model>) {
        // A second one would be a mistake of the host, and changes nothing.
        let _ = self.0.titles.set((name, model));
    }

    pub(crate) fn title_model(&self) -> Option<&TitleModel> {
        self.0.titles.get()
    }

    /// Starts a run that its client follows from the first event on.
    pub(crate) async fn start_followed(
        &self,
        token: &Token,
        request: StartRun,
        files: Vec<Attachment>,
    ) -> Result<(Arc<LiveRun>, Reader), ApiError> {
        let program = self.program(token, request.program.as_deref())?;
        let name = program.name().as_str().into();
        let client = Client { name: Arc::clone(token.name()), program: name, key: None };
        let place = self.0.quotas.streams.take(token.name(), 1)?;
        let room = self.admit_run(&client).await?;
        let starter = self.starter(token, client);
        let Ready { live, run, room, .. } =
            self.prepare(&program, request, files, starter, room, token).await?;
        let reader = Reader::of_new(&program.run_dir(&live.id), live.subscribe(), place);
        self.set_off(Arc::clone(&live), run, room);
        Ok((live, reader))
    }

    /// Starts a run that this request waits for, and returns what is under way in it.
    pub(crate) async fn start_awaited(
        &self,
        token: &Token,
        request: StartRun,
    ) -> Result<(Arc<LiveRun>, Attached, watch::Receiver<RunView>), ApiError> {
        let program = self.program(token, request.program.as_deref())?;
        let name = program.name().as_str().into();
        let client = Client { name: Arc::clone(token.name()), program: name, key: None };
        let room = self.admit_run(&client).await?;
        let starter = self.starter(token, client);
        let Ready { live, run, room, .. } =
            self.prepare(&program, request, Vec::new(), starter, room, token).await?;
        let (attached, progress) = (live.attach(), live.progress());
        self.set_off(Arc::clone(&live), run, room);
        Ok((live, attached, progress))
    }

    /// A run that is under way, with a reader of its events from the record with that number on.
    pub(crate) async fn follow(
        &self,
        token: &Token,
        id: &str,
        next: u64,
    ) -> Result<(Option<Arc<LiveRun>>, Reader), ApiError> {
        let live = self.live(token, id);
        let events = live.as_ref().and_then(|live| live.subscribe());
        let (program, _) = self.stored(token, id).await?;
        let place = self.0.quotas.streams.take(token.name(), 1)?;
        Ok((live, Reader::new(&program.run_dir(id), events, next, place)))
    }

    /// The records of a run so far.
    pub(crate) async fn records(&self, token: &Token, id: &str) -> Result<Vec<Record>, ApiError> {
        let (program, _) = self.stored(token, id).await?;
        let dir = program.run_dir(id);
        let read = spawn_blocking(move || read_journal(&dir)).await;
        Ok(read.map_err(ApiError::internal)?.map_err(ApiError::internal)?.records)
    }

    /// The session of a worker that the client may start.
    pub(crate) fn session(&self, token: &Token, program: &str, worker: &str) -> Result<Session, ApiError> {
        self.program(token, Some(program))?.session(Some(worker))
    }

    /// The sessions of a program's workers, if the client may use it.
    pub(crate) fn sessions(&self, token: &Token, program: &str) -> Result<Vec<Session>, ApiError> {
        Ok(self.program(token, Some(program))?.sessions().to_vec())
    }

    /// The name of the server for clients of the Model Context Protocol.
    pub(crate) fn server_name(&self) -> String {
        self.0.programs.only().map_or_else(|| "llm-do".to_owned(), |program| program.own_name())
    }

    /// The name of the program, if there is one only and the client may use it.
    pub(crate) fn only_program(&self, token: &Token) -> Option<String> {
        let name = self.0.programs.only()?.name().to_string();
        token.may_use(&name).then_some(name)
    }
}
