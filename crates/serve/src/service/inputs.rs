//! Files that clients give to runs: paths in the worker's view, and uploads.

use super::{Owner, Service};
use crate::{
    error::{ApiError, Code},
    token::{Scope, Token},
    uploads::{PREFIX, Upload},
    views::{StartRun, Uploaded},
};
use llm_do::{
    Input, NotReadable, Session,
    core::{
        attachment::Attachment,
        authority::Access,
        model::Blob,
        toolsets::filesystem::Read,
        vfs::{EntryKind, FsError},
        worker::media_type,
    },
};
use serde_json::Value;
use std::{path::PathBuf, sync::Arc};
use tokio::task::spawn_blocking;

/// Most files that one request attaches.
const MOST_ATTACHMENTS: usize = 64;

/// The input of a run with the files that a request names.
pub(super) struct Prepared {
    pub(super) input: Input,
    /// The uploads among the files.
    pub(super) uploads: Vec<Upload>,
}

impl Service {
    /// Stores a file for a run that the client starts later.
    pub(crate) async fn upload(
        &self,
        token: &Token,
        name: String,
        bytes: impl AsRef<[u8]> + Send + 'static,
    ) -> Result<Uploaded, ApiError> {
        let (service, by) = (self.clone(), Arc::clone(token.name()));
        let stored = spawn_blocking(move || service.0.uploads.store(&by, &name, bytes.as_ref()));
        let Upload { id, name, bytes, .. } = stored.await.map_err(ApiError::internal)??;
        Ok(Uploaded { upload: id, name, bytes })
    }

    /// Prepares the input of a run of that session from a request of that token. Reads files.
    pub(super) async fn input(
        &self,
        token: &Token,
        session: &Session,
        request: &mut StartRun,
    ) -> Result<Prepared, ApiError> {
        if let Owner::Client(_) = self.0.owner {
            // The operator names files of the machine, as on the command line.
            let attachments = request.attachments.drain(..).map(PathBuf::from).collect();
            let (message, json) = (request.message.take(), request.input.take());
            let input = Input { message, json, attachments, ..Input::default() };
            return Ok(Prepared { input, uploads: Vec::new() });
        }
        if request.attachments.len() > MOST_ATTACHMENTS {
            let detail = format!("attachments: at most {MOST_ATTACHMENTS} files");
            return Err(ApiError::new(Code::BadRequest, detail));
        }
        let mut prepared = Prepared { input: Input::default(), uploads: Vec::new() };
        let mut total = session.entry().attachments.max_total_bytes;
        for name in &request.attachments {
            let attachment = match name.strip_prefix(PREFIX) {
                Some(id) => {
                    let upload = self.0.uploads.get(token.name(), id)?;
                    let data = std::fs::read(self.0.uploads.file(&upload)).map_err(ApiError::internal)?;
                    let file = blob(&upload.name, data);
                    prepared.uploads.push(upload);
                    // Whether the client is trusted decides about its words, and about its files.
                    Attachment { file, places: Vec::new(), foreign: !token.has(Scope::Answer) }
                }
                None => seen(session, name, total).await?,
            };
            total = total.saturating_sub(attachment.file.data.len() as u64);
            prepared.input.contents.push(attachment);
        }
        let mut json = request.input.take();
        if let Some(Value::Object(arguments)) = &mut json {
            for parameter in &session.entry().signature.parameters {
                let (name, Some(access)) = (&parameter.name, parameter.path) else { continue };
                let Some(Value::String(path)) = arguments.get(&**name) else { continue };
                // Other paths are named in the view of the worker, which the session knows.
                let Some(id) = path.strip_prefix(PREFIX) else { continue };
                if access == Access::Write {
                    let detail = format!("`{name}`: the worker writes there, and an upload is only read");
                    return Err(ApiError::new(Code::BadInput, detail));
                }
                let upload = self.0.uploads.get(token.name(), id)?;
                let file = self.0.uploads.file(&upload);
                prepared.uploads.push(upload);
                arguments.insert(name.to_string(), file.to_string_lossy().into_owned().into());
                prepared.input.handed.push(file);
            }
        }
        prepared.input.json = json;
        prepared.input.message = request.message.take();
        prepared.uploads.dedup_by(|a, b| a.id == b.id);
        Ok(prepared)
    }
}

/// A file in the view of a session's entry.
async fn seen(session: &Session, path: &str, limit: u64) -> Result<Attachment, ApiError> {
    let fail = |error: FsError| ApiError::new(Code::BadInput, format!("attachments: {error}"));
    let at = session.readable(path, Read::File).await.map_err(|error| match error {
        NotReadable::File(error) => fail(error),
        error @ NotReadable::Rule { .. } => ApiError::new(Code::Forbidden, format!("attachments: {error}")),
    })?;
    match session.files().stat(&at).await.map_err(fail)? {
        None => return Err(fail(FsError::NotFound(at.path.clone()))),
        Some(found) if found.kind != EntryKind::File => {
            let (path, wanted) = (at.path.clone(), "a file");
            return Err(fail(FsError::WrongKind { path, is: "no file", wanted }));
        }
        Some(_) => {}
    }
    let (data, size) = session.files().read(&at, 0, limit.saturating_add(1)).await.map_err(fail)?;
    if size > limit || data.len() as u64 > limit {
        return Err(fail(FsError::TooLarge { path: at.path.clone(), size, limit }));
    }
    let rest = session.files().real(&at, true).await.map_err(fail)?;
    let mut places = vec![at.place(), at.base.join(&rest)];
    places.dedup();
    Ok(Attachment { file: blob(at.path.name(), data), places, foreign: false })
}

fn blob(name: &str, data: Vec<u8>) -> Blob {
    let media_type = media_type(&data).unwrap_or("application/octet-stream");
    Blob { name: name.into(), media_type: media_type.into(), data: data.into() }
}
