//! Paths that a client of a service may name: those that the worker that it starts sees by itself, with the mounts,
//! modes and rules of that worker (`docs/reference/http.md`).

use crate::{host::Host, session::Session};
use llm_do_core::{
    authority::{Access, Authority, Located, Refusal},
    driver::MemoryDriver,
    engine::Engine,
    gate::Rule,
    toolsets::filesystem::Read,
    vfs::FsError,
};
use std::sync::Arc;

/// The reason why a client can't read a path.
#[derive(Debug, thiserror::Error)]
pub enum NotReadable {
    /// The worker does not see the path, or the path is of another kind.
    #[error(transparent)]
    File(#[from] FsError),
    /// A rule refuses the read, or asks about it. A read of a client is no call of a run, so nothing can be asked.
    #[error("`{path}` can't be read by a client: {why}")]
    Rule {
        /// The path as the client wrote it.
        path: String,
        /// The rule, and the solution.
        why: String,
    },
}

impl From<Refusal> for NotReadable {
    fn from(refusal: Refusal) -> Self {
        Self::File(refusal.into())
    }
}

impl<H: Host> Session<H> {
    /// Returns the authority that the entry has by itself in a run of a client. A client may name only paths in it.
    ///
    /// # Errors
    /// The entry can't have the mounts that it declares.
    pub fn client_view(&self) -> Result<Authority, Refusal> {
        self.entry().own_authority(&self.authority_of_client())
    }

    /// Locates a path in the view of the entry for a client that reads it, if the rules let the entry's own tool read there.
    ///
    /// # Errors
    /// See [`NotReadable`].
    pub async fn readable(&self, path: &str, read: Read) -> Result<Located, NotReadable> {
        let authority = Arc::new(self.client_view()?);
        let mut at = authority.locate(path, Access::Read)?;
        let driver = Arc::new(MemoryDriver::new(0, None));
        let models = Arc::clone(&self.opened().models);
        let engine = Engine::new(self.context("read".into(), self.host().today(), driver, models));
        let refused = |why: String| NotReadable::Rule { path: path.to_owned(), why };
        let verdict = engine.judge_read(self.entry(), &authority, read, &mut at).await;
        let verdict = verdict.map_err(|failure| refused(failure.message))?;
        let (tool, by) = (read.tool(), verdict.decided_by);
        match verdict.rule {
            Rule::PreApproved => Ok(at),
            Rule::Blocked => Err(refused(format!("`{tool}` is blocked ({by})"))),
            Rule::Ask => Err(refused(format!(
                "`{tool}` needs an approval ({by}), which only a run of the worker can ask for"
            ))),
        }
    }
}
