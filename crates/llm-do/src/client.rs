//! What others than the operator may name, a client of a service or a file of inputs: what the worker that runs sees by itself,
//! with the mounts, modes and rules of that worker (`docs/reference/http.md`, `docs/reference/origins.md`).

use crate::{problem::Problem, session::Session, settings::Input};
use llm_do_core::{
    authority::{Access, Authority, Extent, Located, Place, Refusal, VirtualPath},
    driver::MemoryDriver,
    engine::{Engine, Read},
    gate::Rule,
    vfs::FsError,
    worker::{BoundPath, own_authority},
};
use llm_do_program::{
    signature::{self, InputError},
    source::Kind,
};
use llm_do_sandbox::place_of;
use serde_json::Value;
use std::{path::Path, sync::Arc};

/// Why a client can't read a path.
#[derive(Debug, thiserror::Error)]
pub enum NotReadable {
    /// The worker does not see it, or it is something else.
    #[error(transparent)]
    File(#[from] FsError),
    /// A rule refuses the read, or asks about it. A read of a client is no call of a run, so nothing can be asked.
    #[error("`{path}` can't be read by a client: {why}")]
    Rule {
        /// As the client wrote it.
        path: String,
        /// The rule, and what to do.
        why: String,
    },
}

impl From<Refusal> for NotReadable {
    fn from(refusal: Refusal) -> Self {
        Self::File(refusal.into())
    }
}

impl Session {
    /// What the entry sees by itself in a run of a client, which is what a client may name.
    ///
    /// # Errors
    /// The entry can't have the mounts that it declares.
    pub fn client_view(&self) -> Result<Authority, Refusal> {
        own_authority(self.entry(), &self.authority_of_client())
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

    /// The paths of an input that are not the operator's own word: those of a client, and those that were read from a file. They
    /// name places in the view of the entry, or files that the host hands over. `here` is the folder of relative paths.
    ///
    /// # Errors
    /// The entry does not see a path with that access, and the operator has not granted it either.
    pub(crate) fn located_for_others(
        &self,
        input: &Input,
        here: &Place,
        given: &Value,
    ) -> Result<Vec<BoundPath>, Problem> {
        let mut located = Vec::new();
        let by_client = self.options().client.is_some();
        let read = self.read_names(input, |_| true);
        if !by_client && read.is_empty() {
            return Ok(located);
        }
        let entry = self.entry();
        let wrong = |name: &str, why: &dyn std::fmt::Display| {
            let message = format!("`{name}`: {why}");
            Problem::Input(InputError { message, signature: signature::show(&entry.id, &entry.signature) })
        };
        let handed: Vec<Place> = input.handed.iter().filter_map(|file| place_of(file).ok()).collect();
        let granted = self.granted_places();
        for parameter in &entry.signature.parameters {
            let (name, Some(access)) = (&parameter.name, parameter.path) else { continue };
            if !by_client && !read.iter().any(|read| *read == **name) {
                continue;
            }
            let Some(path) = given.get(&**name).and_then(Value::as_str) else { continue };
            let real = place_of(&Path::new(here.as_str()).join(path)).ok();
            if let Some(place) = real.as_ref().filter(|place| handed.contains(place)).cloned() {
                if access == Access::Write {
                    return Err(wrong(
                        name,
                        &"the worker writes there, and the host hands over files to be read",
                    ));
                }
                let parameter = Arc::clone(name);
                located.push(BoundPath { parameter, place, access, mounts: Vec::new(), untrusted: false });
                continue;
            }
            match self.bound_in_view(name, path, access) {
                Ok(bound) => located.push(bound),
                // The operator's grant says it for the file. The path is bound like the operator's own.
                Err(_) if !by_client && real.is_some_and(|place| covers(&granted, &place, access)) => {}
                Err(why) => return Err(wrong(name, &why)),
            }
        }
        Ok(located)
    }

    /// A path of the entry's view, bound to a parameter with the rules of the mounts that show it.
    fn bound_in_view(&self, name: &Arc<str>, path: &str, access: Access) -> Result<BoundPath, String> {
        let view = own_authority(self.entry(), &self.authority()).map_err(|refusal| refusal.to_string())?;
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
        Ok(BoundPath { parameter: Arc::clone(name), place: real.place, access, mounts, untrusted: false })
    }
}

fn covers(granted: &[Extent], place: &Place, access: Access) -> bool {
    granted.iter().any(|extent| place.is_within(&extent.place) && extent.access >= access)
}
