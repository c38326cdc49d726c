//! Opening the program of a session from the session's folder.

use crate::host::Host;
use agent_client_protocol::{Error, v1::schema::ErrorCode};
use llm_do::{
    ClientServers, Decisions, Effects, Located, ModelSource, PastRun, Problem, Session, Settings, place_of,
    runs::{RunSummary, SealKey, began_here, is_run_id, list_runs},
};
use std::path::Path;

/// Returns an error with a message that says what is wrong and what to do. Clients show the message.
pub(crate) fn wrong(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::InvalidParams, message)
}

/// Returns an error for an answer that could not be made, with the reason.
pub(crate) fn failed(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::InternalError, message)
}

/// Returns an error for a session that does not exist. Clients then open a new one.
pub(crate) fn not_found(message: impl Into<String>) -> Error {
    Error::new(ErrorCode::ResourceNotFound, message)
}

/// Opens the program for a new session in that folder, with the servers of the client.
pub(crate) fn new(host: &dyn Host, folder: &Path, servers: ClientServers) -> Result<Session, Error> {
    let mut settings = settings(host, folder)?;
    settings.run.chat = true;
    settings.client_servers = servers;
    open(host, folder, settings)
}

/// Opens the program of a chat that was begun before, in the folder that it was begun in, with the servers that the client has
/// now.
pub(crate) fn past(
    host: &dyn Host,
    folder: &Path,
    id: &str,
    servers: ClientServers,
) -> Result<(Session, PastRun), Error> {
    let base = settings(host, folder)?;
    let home = base.home.clone();
    let explained = |problem: Problem| wrong(host.explain(&problem));
    let dir = Located::find(base).map_err(explained)?.runs_dir().join(id);
    if !is_run_id(id) || !dir.is_dir() {
        return Err(not_found(format!("there is no chat {id} of the program in `{}`", folder.display())));
    }
    let past = PastRun::open(&dir, &home).map_err(|error| explained(error.into()))?;
    if !past.invocation().chat {
        return Err(wrong(format!("run {id} is no chat: `llm-do runs resume {id}` continues it")));
    }
    past.admits(&Decisions::default()).map_err(|error| explained(error.into()))?;
    let mut settings = past.settings(settings(host, folder)?).map_err(|error| explained(error.into()))?;
    settings.run.can_ask = true;
    settings.client_servers = servers;
    Ok((open(host, folder, settings)?, past))
}

/// Lists the chats of the program that a session in that folder would use, newest first.
pub(crate) fn list(host: &dyn Host, folder: &Path) -> Result<Vec<RunSummary>, Error> {
    let settings = settings(host, folder)?;
    // Without a key no run is known to be the user's own. A cloned project may bring runs along.
    let key = SealKey::read(&settings.home).ok();
    let located = Located::find(settings).map_err(|problem| wrong(host.explain(&problem)))?;
    own_folder(&located, folder)?;
    let dir = located.runs_dir();
    let runs = list_runs(dir, usize::MAX)
        .map_err(|error| wrong(format!("cannot read {}: {error}", dir.display())))?;
    // The runs of lone workers are kept together, whatever their folder.
    let is_here = |run: &RunSummary| {
        run.here.as_deref().is_some_and(|here| place_of(here).is_ok_and(|here| here == *located.folder()))
    };
    let is_own = |run: &RunSummary| key.as_ref().is_some_and(|key| began_here(&dir.join(&run.run), key));
    Ok(runs.into_iter().filter(|run| run.chat && is_here(run) && is_own(run)).collect())
}

fn settings(host: &dyn Host, folder: &Path) -> Result<Settings, Error> {
    if !folder.is_absolute() {
        return Err(wrong(format!("`cwd` is `{}`, which is not an absolute path", folder.display())));
    }
    if !folder.is_dir() {
        return Err(wrong(format!("`cwd` is `{}`, which is not a folder", folder.display())));
    }
    let mut settings = host.settings(folder).map_err(wrong)?;
    settings.run.can_ask = true;
    Ok(settings)
}

fn open(host: &dyn Host, folder: &Path, settings: Settings) -> Result<Session, Error> {
    let options = settings.run.clone();
    let explained = |problem: Problem| wrong(host.explain(&problem));
    let located = Located::find(settings).map_err(explained)?;
    own_folder(&located, folder)?;
    let loaded = located.load(Effects::Allowed, &options).map_err(explained)?;
    let session =
        loaded.grant(options, ModelSource::Providers).map_err(explained)?.open().map_err(explained)?;
    if session.entry().code.is_some() {
        let id = &session.entry().id;
        return Err(wrong(format!(
            "`{id}` is code, and holds no conversation: name another worker with --entry"
        )));
    }
    host.opened(&session);
    Ok(session)
}

/// Checks that the session's folder is the one that the program's workers see: the folder that the user reads in the
/// editor and the one that a worker calls its own must be the same.
fn own_folder(located: &Located, folder: &Path) -> Result<(), Error> {
    match place_of(folder) {
        Ok(place) if place == *located.folder() => Ok(()),
        _ => Err(wrong(format!(
            "`cwd` is `{}`, but the program is the project `{}`: open that folder in the editor, or start `llm-do acp` \
             without a target, for the project of each session's folder",
            folder.display(),
            located.folder().as_str()
        ))),
    }
}
