//! The files of a run, read-only, and a run as one page.

use super::{Service, apart};
use crate::{
    app,
    error::{ApiError, Code},
    program::Served,
    token::Token,
    views::{FileKind, Folder, FolderEntry},
};
use futures_util::{Stream, stream::unfold};
use llm_do::{
    NotReadable, Session,
    core::{
        authority::{Located, Place, VirtualPath},
        origin::UntrustedPlaces,
        toolsets::filesystem::Read,
        vfs::{Entry, EntryKind, FsError},
    },
    records,
    runs::read_run,
};
use std::{collections::BTreeMap, io, sync::Arc};
use tokio::task::spawn_blocking;

/// Most entries of a folder, with all below it, that are looked at.
const LOOKED_AT: usize = 20_000;
/// Bytes that are read at once.
const PIECE: u64 = 1 << 20;

/// A file that is being read.
pub(crate) struct FileContent {
    /// The name of the file.
    pub(crate) name: String,
    /// The size of the file when it was opened.
    pub(crate) bytes: u64,
    /// True if the file begins as text.
    pub(crate) is_text: bool,
    session: Session,
    at: Located,
    first: Vec<u8>,
}

impl Service {
    /// A folder in the view of a run's worker.
    pub(crate) async fn folder(&self, token: &Token, id: &str, path: &str) -> Result<Folder, ApiError> {
        let session = self.session_of(token, id).await?;
        let path = path_of(path)?;
        apart(async move { folder(&session, path).await }).await
    }

    /// A file in the view of a run's worker.
    pub(crate) async fn file(&self, token: &Token, id: &str, path: &str) -> Result<FileContent, ApiError> {
        let session = self.session_of(token, id).await?;
        let path = path_of(path)?;
        apart(opened(session, path)).await
    }

    /// A run as one page of HTML that needs no other file.
    pub(crate) async fn export(&self, token: &Token, id: &str) -> Result<String, ApiError> {
        let (program, summary) = self.stored(token, id).await?;
        let dir = program.run_dir(&summary.run);
        let page = spawn_blocking(move || {
            let run = read_run(&dir).map_err(ApiError::internal)?;
            Ok(records::page(&run, app::export_template()))
        });
        page.await.map_err(ApiError::internal)?
    }

    /// The session of the worker that a run started with.
    async fn session_of(&self, token: &Token, id: &str) -> Result<Session, ApiError> {
        let (program, summary) = self.stored(token, id).await?;
        let sessions = Served::sessions(&program);
        let found = sessions.iter().find(|session| *session.entry().id == *summary.entry);
        found.cloned().ok_or_else(|| {
            let detail = format!("the program no longer exports `{}`, whose files these are", summary.entry);
            ApiError::new(Code::NotFound, detail)
        })
    }
}

impl FileContent {
    /// The bytes of the file, piece by piece.
    pub(crate) fn pieces(self) -> impl Stream<Item = io::Result<Vec<u8>>> + Send {
        let Self { bytes, session, at, first, .. } = self;
        let session = Arc::new(session);
        unfold((first, 0, Arc::new(at)), move |(piece, from, at)| {
            let session = Arc::clone(&session);
            async move {
                if piece.is_empty() {
                    return None;
                }
                let next = from + piece.len() as u64;
                let rest = match next < bytes {
                    true => session.files().read(&at, next, PIECE).await,
                    false => Ok((Vec::new(), bytes)),
                };
                match rest {
                    Ok((rest, _)) => Some((Ok(piece), (rest, next, at))),
                    Err(error) => Some((Err(io::Error::other(error.to_string())), (Vec::new(), bytes, at))),
                }
            }
        })
    }
}

async fn opened(session: Session, path: VirtualPath) -> Result<FileContent, ApiError> {
    let at = session.readable(path.as_str(), Read::File).await.map_err(unreadable)?;
    match session.files().stat(&at).await.map_err(failed)? {
        None => return Err(failed(FsError::NotFound(at.path.clone()))),
        Some(found) if found.kind != EntryKind::File => {
            return Err(ApiError::new(Code::BadRequest, format!("`{path}` is no file")));
        }
        Some(_) => {}
    }
    let (first, bytes) = session.files().read(&at, 0, PIECE).await.map_err(failed)?;
    let is_text = match str::from_utf8(&first) {
        Ok(text) => !text.contains('\0'),
        // The piece may end in the middle of a character.
        Err(error) => error.error_len().is_none() && first.len() as u64 == PIECE,
    };
    Ok(FileContent { name: path.name().to_owned(), bytes, is_text, session, at, first })
}

fn unreadable(error: NotReadable) -> ApiError {
    match error {
        NotReadable::File(error) => failed(error),
        error @ NotReadable::Rule { .. } => ApiError::new(Code::Forbidden, error.to_string()),
    }
}

fn failed(error: FsError) -> ApiError {
    let code = match &error {
        FsError::NotFound(_) | FsError::Refused(_) => Code::NotFound,
        FsError::TooLarge { .. } => Code::TooLarge,
        FsError::WrongKind { .. } | FsError::Exists(_) | FsError::NotEmpty(_) => Code::BadRequest,
        FsError::Io { .. } => Code::Internal,
    };
    ApiError::new(code, error.to_string())
}

fn path_of(path: &str) -> Result<VirtualPath, ApiError> {
    VirtualPath::parse(path).map_err(|error| ApiError::new(Code::BadRequest, error.to_string()))
}

async fn folder(session: &Session, path: VirtualPath) -> Result<Folder, ApiError> {
    let authority = session.client_view().map_err(|error| failed(error.into()))?;
    let untrusted = session.untrusted_places()?;
    let parts = authority.locate_tree(path.as_str()).map_err(|error| failed(error.into()))?;
    let mut found: BTreeMap<String, FolderEntry> = BTreeMap::new();
    let mut cut = false;
    for at in &parts {
        if at.path != path {
            // A mount below the folder: its first part is what the folder shows.
            let below = at.path.rest(&path).unwrap_or_default();
            let (name, is_deeper) = below.split_once('/').map_or((below, false), |(name, _)| (name, true));
            let is_file = !is_deeper
                && session
                    .files()
                    .stat(at)
                    .await
                    .is_ok_and(|entry| entry.is_some_and(|e| e.kind == EntryKind::File));
            let kind = if is_file { FileKind::File } else { FileKind::Folder };
            let entry = FolderEntry {
                name: name.to_owned(),
                kind,
                bytes: None,
                untrusted: is_untrusted(at, &at.place(), &*untrusted),
            };
            found.entry(name.to_owned()).or_insert(entry);
            continue;
        }
        session.readable(path.as_str(), Read::Folder).await.map_err(unreadable)?;
        match session.files().stat(at).await.map_err(failed)? {
            // A mount's own folder may be missing and then counts as empty (`docs/reference/sandbox.md`).
            None if at.rest.is_empty() => continue,
            None => return Err(failed(FsError::NotFound(path))),
            Some(entry) if entry.kind != EntryKind::Directory => {
                return Err(ApiError::new(Code::BadRequest, format!("`{path}` is no folder")));
            }
            Some(_) => {}
        }
        let entries = session.files().walk(at, LOOKED_AT).await.map_err(failed)?;
        cut |= entries.len() >= LOOKED_AT;
        for Entry { path: of, kind, size, .. } in entries {
            let Some(name) = of.rest(&path).filter(|name| !name.is_empty() && !name.contains('/')) else {
                continue;
            };
            let kind = match kind {
                EntryKind::File => FileKind::File,
                EntryKind::Directory => FileKind::Folder,
                EntryKind::Other => continue,
            };
            let real = at.place().join(name);
            let entry = FolderEntry {
                name: name.to_owned(),
                kind,
                bytes: size.filter(|_| kind == FileKind::File),
                untrusted: is_untrusted(at, &real, &*untrusted),
            };
            found.insert(name.to_owned(), entry);
        }
    }
    if parts.is_empty() {
        return Err(failed(FsError::NotFound(path)));
    }
    Ok(Folder { path: path.as_str().to_owned(), entries: found.into_values().collect(), cut })
}

fn is_untrusted(at: &Located, place: &Place, listed: &dyn UntrustedPlaces) -> bool {
    at.is_untrusted(place) || listed.hold(place)
}
