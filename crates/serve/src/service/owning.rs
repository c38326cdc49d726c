//! The runs of the one client that owns the process and is its operator.

use super::{Limits, Service, starting::either, triggers::Triggers};
use crate::{
    error::{ApiError, Code},
    events::Reader,
    live::LiveRun,
    owner::Owner,
    program::{BadPrograms, Host, Programs, Served, Starter},
    runs::Room,
    token::{OPERATOR, TOOLS, Token, Tokens},
    views::StartRun,
};
use llm_do::Client;
use std::sync::Arc;

/// A run of the owner that has begun.
pub(crate) struct Begun {
    pub(crate) live: Arc<LiveRun>,
    /// A reader that follows the run from its first event on, if the request wants one.
    pub(crate) reader: Option<Reader>,
    /// True if the run may make calls that need an approval, and refuses them because no questions are taken.
    pub(crate) denies_unattended: bool,
}

impl Service {
    /// A service of one program for the client that owns the process. Runs that an earlier process has left wait until they
    /// are resumed.
    ///
    /// # Errors
    /// As [`Service::open`].
    pub(crate) fn of_owner(
        program: Served,
        limits: Limits,
        host: Arc<dyn Host>,
    ) -> Result<Self, BadPrograms> {
        let owner = Client { name: OPERATOR.into(), program: program.name().as_str().into(), key: None };
        let programs = Programs::new(vec![program])?;
        Ok(Self::of(
            programs,
            Tokens::default(),
            (Triggers::default(), None),
            limits,
            host,
            Owner::Client(owner),
        ))
    }

    /// A service of one program whose clients call its workers as tools. Runs that an earlier process has left wait until they
    /// are resumed.
    ///
    /// # Errors
    /// As [`Service::open`].
    pub(crate) fn of_tools(
        program: Served,
        tokens: Tokens,
        limits: Limits,
        host: Arc<dyn Host>,
    ) -> Result<Self, BadPrograms> {
        let clients = Client { name: TOOLS.into(), program: program.name().as_str().into(), key: None };
        Ok(Self::of(
            Programs::new(vec![program])?,
            tokens,
            (Triggers::default(), None),
            limits,
            host,
            Owner::Tools(clients),
        ))
    }

    /// Waits for room for a run of the owner.
    ///
    /// # Errors
    /// The service ends.
    pub(crate) async fn own_room(&self, token: &Token) -> Result<Room, ApiError> {
        let room = self.0.runs.room(token.name()).await;
        room.ok_or_else(|| ApiError::new(Code::ShuttingDown, "the server is shutting down"))
    }

    /// Starts a run of the owner in that room. `attended`: its questions are taken. `follows`: its reader is wanted.
    pub(crate) async fn start_own(
        &self,
        token: &Token,
        request: StartRun,
        room: Room,
        attended: bool,
        follows: bool,
    ) -> Result<Begun, ApiError> {
        either(&request)?;
        let program = self.program(token, request.program.as_deref())?;
        let name = program.name().as_str().into();
        let client = Client { name: Arc::clone(token.name()), program: name, key: None };
        let place = follows.then(|| self.0.quotas.streams.take(token.name(), 1)).transpose()?;
        let starter = Starter::Owner { client, attended };
        let ready = self.prepare(&program, request, Vec::new(), starter, room, token).await?;
        let denies_unattended = ready.denies_unattended;
        // Before the run begins, which asks its model for deltas only if they are wanted.
        let reader = place
            .map(|place| Reader::of_new(&program.run_dir(&ready.live.id), ready.live.subscribe(), place));
        Ok(Begun { live: self.begin(ready).await?, reader, denies_unattended })
    }

    /// The run with that ID, if it is under way here.
    pub(crate) fn under_way(&self, id: &str) -> Option<Arc<LiveRun>> {
        self.0.runs.get(id)
    }
}
