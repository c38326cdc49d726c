//! The files of a run, in the view of the worker that it started with.

use crate::{problem::ApiError, service::Service};
use llm_do_core::{
    authority::VirtualPath,
    toolsets::filesystem::Read,
    vfs::{Entry, EntryKind, FsError},
};
use llm_do_host::NotReadable;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The most entries of a folder that are looked at.
const LOOKED_AT: usize = 10_000;
/// The largest file that the app gets.
const LARGEST: u64 = 64 << 20;

fn failed(error: &FsError) -> ApiError {
    match error {
        FsError::NotFound(_) | FsError::Refused(_) => ApiError::not_found(error.to_string()),
        FsError::TooLarge { .. } => ApiError::new(413, "too_large", error.to_string()),
        FsError::WrongKind { .. } | FsError::Exists(_) | FsError::NotEmpty(_) => {
            ApiError::bad(error.to_string())
        }
        FsError::Io { .. } => ApiError::new(500, "internal", error.to_string()),
    }
}

fn unreadable(error: NotReadable) -> ApiError {
    match error {
        NotReadable::File(error) => failed(&error),
        error @ NotReadable::Rule { .. } => ApiError::new(403, "forbidden", error.to_string()),
    }
}

fn path_of(path: &str) -> Result<VirtualPath, ApiError> {
    VirtualPath::parse(path).map_err(|error| ApiError::bad(error.to_string()))
}

impl Service {
    /// Lists a folder.
    ///
    /// # Errors
    /// The worker does not see it, or a rule refuses the read.
    pub(crate) async fn folder_of_run(&self, run: &str, path: &str) -> Result<Value, ApiError> {
        let (session, path) = (self.session_of_run(run).await?, path_of(path)?);
        let authority = session.client_view().map_err(|error| failed(&error.into()))?;
        let parts = authority.locate_tree(path.as_str()).map_err(|error| failed(&error.into()))?;
        let (mut found, mut cut) = (BTreeMap::new(), false);
        for at in &parts {
            if at.path != path {
                // A mount below the folder: its first part is what the folder shows.
                let below = at.path.rest(&path).unwrap_or_default();
                let name = below.split('/').next().unwrap_or_default().to_owned();
                found.entry(name.clone()).or_insert_with(|| json!({"name": name, "kind": "folder"}));
                continue;
            }
            session.readable(path.as_str(), Read::Folder).await.map_err(unreadable)?;
            match session.files().stat(at).await.map_err(|error| failed(&error))? {
                // A mount's own folder may be missing and then counts as empty.
                None if at.rest.is_empty() => continue,
                None => return Err(failed(&FsError::NotFound(path))),
                Some(entry) if entry.kind != EntryKind::Directory => {
                    return Err(ApiError::bad(format!("`{path}` is no folder")));
                }
                Some(_) => {}
            }
            let entries = session.files().walk(at, LOOKED_AT).await.map_err(|error| failed(&error))?;
            cut |= entries.len() >= LOOKED_AT;
            for Entry { path: of, kind, size, .. } in entries {
                let Some(name) = of.rest(&path).filter(|name| !name.is_empty() && !name.contains('/')) else {
                    continue;
                };
                let mut entry = match kind {
                    EntryKind::File => json!({"name": name, "kind": "file", "bytes": size}),
                    EntryKind::Directory => json!({"name": name, "kind": "folder"}),
                    EntryKind::Other => continue,
                };
                if at.is_untrusted(&at.place().join(name)) {
                    entry["untrusted"] = true.into();
                }
                found.insert(name.to_owned(), entry);
            }
        }
        let entries: Vec<Value> = found.into_values().collect();
        Ok(json!({"path": path.as_str(), "entries": entries, "cut": cut}))
    }

    /// Returns the bytes and the name of a file.
    ///
    /// # Errors
    /// The worker does not see it, or a rule refuses the read.
    pub(crate) async fn file_of_run(&self, run: &str, path: &str) -> Result<(Vec<u8>, String), ApiError> {
        let (session, path) = (self.session_of_run(run).await?, path_of(path)?);
        let at = session.readable(path.as_str(), Read::File).await.map_err(unreadable)?;
        let (bytes, size) = session.files().read(&at, 0, LARGEST).await.map_err(|error| failed(&error))?;
        if size > LARGEST {
            return Err(failed(&FsError::TooLarge { path, size, limit: LARGEST }));
        }
        let name = path.name().chars().filter(|c| !c.is_control() && *c != '"' && *c != '\\').collect();
        Ok((bytes, name))
    }
}
