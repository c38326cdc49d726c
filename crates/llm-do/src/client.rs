//! Paths that a client of a service may name: those that the worker that it starts sees by itself, with the mounts,
//! modes and rules of that worker (`docs/reference/http.md`).

use crate::{problem::Problem, session::Session, settings::Input};
use llm_do_core::{
    authority::{Access, Authority, Located, Place, Refusal, VirtualPath},
    driver::MemoryDriver,
    engine::Engine,
    gate::Rule,
    toolsets::filesystem::Read,
    vfs::FsError,
    worker::BoundPath,
};
use llm_do_program::{
    signature::{self, InputError},
    source::Kind,
};
use llm_do_sandbox::place_of;
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

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

impl Session {
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
        let models = Arc::clone(&self.opened.models);
        let engine = Engine::new(self.context("read".into(), crate::today(), driver, models));
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

    /// Locates the paths that an input names in the view of the entry, and that the operator has not typed: those of a
    /// client, and those that were read from a file. They grant nothing. They must be places in that view, files that
    /// the host hands over, or, for paths from a file, places that the operator has granted.
    ///
    /// # Errors
    /// The entry does not see a path with that access.
    pub(crate) fn located_in_view(
        &self,
        input: &Input,
        here: &Place,
        given: &Value,
    ) -> Result<Vec<BoundPath>, Problem> {
        let mut located = Vec::new();
        let by_client = self.options().client.is_some();
        let read = self.read_names(input, |_| true);
        let entry = self.entry();
        let wrong = |name: &str, why: &dyn std::fmt::Display| {
            let message = format!("`{name}`: {why}");
            Problem::Input(InputError { message, signature: signature::show(&entry.id, &entry.signature) })
        };
        for parameter in &entry.signature.parameters {
            let (name, Some(access)) = (&parameter.name, parameter.path) else { continue };
            if !by_client && !read.iter().any(|known| *known == **name) {
                continue;
            }
            let Some(path) = given.get(&**name).and_then(Value::as_str) else { continue };
            let as_given = match by_client {
                true => None,
                false => place_of(&Path::new(here.as_str()).join(path)).ok(),
            };
            let is_handed = |file: &&PathBuf| {
                file.as_os_str() == path || as_given.is_some() && place_of(file).ok() == as_given
            };
            if let Some(file) = input.handed.iter().find(is_handed) {
                if access == Access::Write {
                    return Err(wrong(name, &"the worker writes there, and this file is only read"));
                }
                let place = place_of(file).map_err(|error| wrong(name, &error))?;
                let parameter = Arc::clone(name);
                located.push(BoundPath { parameter, place, access, mounts: Vec::new(), untrusted: false });
                continue;
            }
            let bound = match by_client {
                true => self
                    .client_view()
                    .map_err(|refusal| refusal.to_string())
                    .and_then(|view| self.bound_in_view(&view, name, path, access)),
                false => self.bound_for_file(name, path, as_given, access),
            };
            located.push(bound.map_err(|why| wrong(name, &why))?);
        }
        Ok(located)
    }

    /// Binds a path that was read from a file: as the entry names it, or relative to the current directory
    /// (`as_given`).
    fn bound_for_file(
        &self,
        name: &Arc<str>,
        path: &str,
        as_given: Option<Place>,
        access: Access,
    ) -> Result<BoundPath, String> {
        let view = self.entry().own_authority(&self.authority()).map_err(|refusal| refusal.to_string())?;
        let refused = match self.bound_in_view(&view, name, path, access) {
            Ok(bound) => return Ok(bound),
            Err(refused) => refused,
        };
        let refused = format!("{refused}, and a file can't grant `{path}`");
        let place = as_given.ok_or_else(|| refused.clone())?;
        if let Some(seen) = view.path_to(&place, access) {
            return self.bound_in_view(&view, name, seen.as_str(), access);
        }
        match self.grants_place(&place, access) {
            true => Ok(BoundPath {
                parameter: Arc::clone(name),
                place,
                access,
                mounts: Vec::new(),
                untrusted: false,
            }),
            false => Err(refused),
        }
    }

    /// Binds a path of a view to a parameter, with the rules of the mounts that show it.
    fn bound_in_view(
        &self,
        view: &Authority,
        name: &Arc<str>,
        path: &str,
        access: Access,
    ) -> Result<BoundPath, String> {
        let mut at = view.locate(path, access).map_err(|refusal| refusal.to_string())?;
        let hidden = || format!("`{path}` does not exist here");
        let real = self.program().tree().locate(at.place().as_str()).map_err(|_| hidden())?;
        let rest = real.place.rest(&at.base).map(str::to_owned).ok_or_else(hidden)?;
        match real.kind {
            None if access == Access::Read => return Err(hidden()),
            Some(Kind::File) => at.admits_file(&rest),
            _ => at.admits(&rest),
        }
        .map_err(|refusal| refusal.to_string())?;
        // The mounts over a part of it are those at the place that links lead to.
        at.path = at.virtual_of(&rest);
        at.rest = rest;
        let mounts = view.view().handing(&at, &VirtualPath::root().join(name));
        let parameter = Arc::clone(name);
        Ok(BoundPath { parameter, place: real.place, access, mounts, untrusted: false })
    }
}
