//! The files of the page, as tools open them: every operation is an effect of the host.
//!
//! A page's files have no symbolic links. [`Located::admits`] decides as on disk.

use crate::{
    bridge::Bridge,
    message::{Bytes, Done, Effect, EffectError, ErrorKind, FileKind},
};
use llm_do_core::{
    authority::{Located, Place},
    send::BoxFuture,
    vfs::{Entry, EntryKind, FileSystem, FsError},
};
use std::sync::Arc;

/// The most entries that the host lists at once.
const MOST_ENTRIES: u64 = 100_000;
/// The largest file that is read to be copied or appended to.
const LARGEST: u64 = 256 << 20;

/// The files of the page.
pub(crate) struct PageFiles {
    pub(crate) bridge: Bridge,
    /// The run whose records must be written before its changes.
    pub(crate) run: Option<Arc<str>>,
}

/// Returns the path of a place in the page's files.
pub(crate) fn path_of(place: &Place) -> String {
    place.as_str().trim_start_matches('/').to_owned()
}

/// A file or folder at a path.
struct Found {
    kind: FileKind,
    bytes: u64,
    modified_ms: Option<u64>,
}

impl PageFiles {
    async fn find(&self, at: &Located, path: String) -> Result<Option<Found>, FsError> {
        match self.bridge.perform(|id| Effect::Stat { id, path }).await {
            Ok(Done { kind: Some(kind), bytes, modified_ms, .. }) => {
                Ok(Some(Found { kind, bytes: bytes.unwrap_or(0), modified_ms }))
            }
            Ok(_) => {
                Err(failed(at, &EffectError { kind: ErrorKind::Other, message: "no kind is given".into() }))
            }
            Err(EffectError { kind: ErrorKind::Missing | ErrorKind::WrongKind, .. }) => Ok(None),
            Err(error) => Err(failed(at, &error)),
        }
    }

    /// Checks that a place can be created: its base exists or may be created, and no parent is a file.
    async fn can_make(&self, at: &Located) -> Result<(), FsError> {
        let base = self.find(at, path_of(&at.base)).await?;
        if base.is_none() && !at.may_make_base() {
            return Err(FsError::NotFound(at.mount.at.clone()));
        }
        let mut parts: Vec<&str> = at.rest.split('/').filter(|part| !part.is_empty()).collect();
        parts.pop();
        let mut above = String::new();
        for part in parts {
            above = if above.is_empty() { part.to_owned() } else { format!("{above}/{part}") };
            match self.find(at, path_of(&at.base.join(&above))).await? {
                Some(Found { kind: FileKind::File, .. }) => {
                    let path = at.virtual_of(&above);
                    return Err(FsError::WrongKind { path, is: "a file", wanted: "a folder" });
                }
                Some(_) => {}
                None => break,
            }
        }
        at.admits(&at.rest)?;
        Ok(())
    }

    /// Returns the size of a file that may be read.
    async fn file(&self, at: &Located) -> Result<u64, FsError> {
        match self.find(at, path_of(&at.place())).await? {
            None => {
                at.admits(&at.rest)?;
                Err(FsError::NotFound(at.path.clone()))
            }
            Some(Found { kind: FileKind::Folder, .. }) => Err(not_a_file(at)),
            Some(Found { bytes, .. }) => {
                at.admits_file(&at.rest)?;
                at.within_size(bytes)?;
                Ok(bytes)
            }
        }
    }

    async fn content(&self, at: &Located, from: u64, most: u64) -> Result<(Vec<u8>, u64), FsError> {
        let path = path_of(&at.place());
        let read = self.bridge.perform(|id| Effect::Read { id, path, from, most }).await;
        let Done { base64, bytes, .. } = read.map_err(|error| failed(at, &error))?;
        let Bytes(content) = base64.unwrap_or_default();
        let size = bytes.unwrap_or(content.len() as u64);
        // It may have grown since it was looked at.
        at.within_size(size)?;
        Ok((content, size))
    }

    async fn replace(&self, at: &Located, content: Vec<u8>, new: bool) -> Result<(), FsError> {
        self.can_make(at).await?;
        at.admits_file(&at.rest)?;
        let path = path_of(&at.place());
        if let Some(Found { kind: FileKind::Folder, .. }) = self.find(at, path.clone()).await? {
            return Err(not_a_file(at));
        }
        at.within_size(content.len() as u64)?;
        let run = self.run.clone();
        let written =
            self.bridge.perform(|id| Effect::Write { id, run, path, base64: Bytes(content), new }).await;
        written.map(drop).map_err(|error| failed(at, &error))
    }

    async fn entries(&self, at: &Located, folder: &Place) -> Result<Vec<crate::message::FileEntry>, FsError> {
        let path = path_of(folder);
        let listed =
            self.bridge.perform(|id| Effect::List { id, path, deep: true, most: MOST_ENTRIES }).await;
        match listed {
            Ok(Done { mut entries, .. }) => {
                // Each folder's names sorted, depth first.
                entries.sort_by(|a, b| a.path.split('/').cmp(b.path.split('/')));
                Ok(entries)
            }
            Err(EffectError { kind: ErrorKind::Missing, .. }) => Ok(Vec::new()),
            Err(error) => Err(failed(at, &error)),
        }
    }
}

fn not_a_file(at: &Located) -> FsError {
    FsError::WrongKind { path: at.path.clone(), is: "a folder", wanted: "a file" }
}

fn failed(at: &Located, error: &EffectError) -> FsError {
    let path = at.path.clone();
    match error.kind {
        ErrorKind::Missing => FsError::NotFound(path),
        ErrorKind::Exists => FsError::Exists(path),
        ErrorKind::NotEmpty => FsError::NotEmpty(path),
        ErrorKind::WrongKind => FsError::WrongKind { path, is: "of another kind", wanted: "this kind" },
        ErrorKind::Quota => FsError::Io { path, reason: "no room is left in the browser's storage".into() },
        ErrorKind::Denied => FsError::Io { path, reason: "the page may not access it any more".into() },
        ErrorKind::Held | ErrorKind::Network | ErrorKind::Aborted | ErrorKind::Other => {
            FsError::Io { path, reason: error.message.clone() }
        }
    }
}

fn entry(at: &Located, rest: &str, kind: FileKind, bytes: u64, modified_ms: Option<u64>) -> Entry {
    let (kind, size) = match kind {
        FileKind::File => (EntryKind::File, bytes),
        FileKind::Folder => (EntryKind::Directory, 0),
    };
    Entry { path: at.virtual_of(rest), kind, size: Some(size), modified_ms }
}

impl FileSystem for PageFiles {
    fn read<'a>(
        &'a self,
        at: &'a Located,
        offset: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<(Vec<u8>, u64), FsError>> {
        Box::pin(async move {
            self.file(at).await?;
            self.content(at, offset, limit).await
        })
    }

    fn write<'a>(&'a self, at: &'a Located, content: &'a [u8]) -> BoxFuture<'a, Result<(), FsError>> {
        Box::pin(self.replace(at, content.to_vec(), false))
    }

    fn append<'a>(&'a self, at: &'a Located, content: &'a [u8]) -> BoxFuture<'a, Result<(), FsError>> {
        Box::pin(async move {
            let mut whole = match self.find(at, path_of(&at.place())).await? {
                Some(Found { kind: FileKind::File, bytes, .. }) => {
                    at.admits_file(&at.rest)?;
                    at.within_size(bytes.saturating_add(content.len() as u64))?;
                    self.content(at, 0, LARGEST).await?.0
                }
                _ => Vec::new(),
            };
            whole.extend_from_slice(content);
            self.replace(at, whole, false).await
        })
    }

    fn delete<'a>(&'a self, at: &'a Located) -> BoxFuture<'a, Result<(), FsError>> {
        Box::pin(async move {
            at.admits(&at.rest)?;
            let path = path_of(&at.place());
            match self.find(at, path.clone()).await? {
                None => return Err(FsError::NotFound(at.path.clone())),
                Some(Found { kind: FileKind::File, .. }) => at.admits_file(&at.rest)?,
                Some(_) if at.rest.is_empty() => return Err(FsError::root_of_mount(at)),
                Some(_) => {}
            }
            let run = self.run.clone();
            let removed = self.bridge.perform(|id| Effect::Remove { id, run, path, deep: false }).await;
            removed.map(drop).map_err(|error| failed(at, &error))
        })
    }

    fn rename<'a>(&'a self, from: &'a Located, to: &'a Located) -> BoxFuture<'a, Result<(), FsError>> {
        Box::pin(async move {
            from.admits(&from.rest)?;
            let (old, new) = (from.place(), to.place());
            let found = match self.find(from, path_of(&old)).await? {
                None => return Err(FsError::NotFound(from.path.clone())),
                Some(Found { kind: FileKind::Folder, .. }) if from.rest.is_empty() => {
                    return Err(FsError::root_of_mount(from));
                }
                Some(found) => found,
            };
            self.can_make(to).await?;
            let is_folder = found.kind == FileKind::Folder;
            if is_folder && new.is_within(&old) && new != old {
                return Err(FsError::into_itself(from));
            }
            if self.find(to, path_of(&new)).await?.is_some() {
                return Err(FsError::Exists(to.path.clone()));
            }
            let size = (!is_folder).then_some(found.bytes);
            from.may_move(to, &from.rest, &to.rest, "", size)?;
            if is_folder {
                for below in self.entries(from, &old).await? {
                    let size = (below.kind == FileKind::File).then_some(below.bytes);
                    from.may_move(to, &from.rest, &to.rest, &below.path, size)?;
                }
            }
            let (run, path, target) = (self.run.clone(), path_of(&old), path_of(&new));
            let moved = self.bridge.perform(|id| Effect::Move { id, run, path, to: target }).await;
            moved.map(drop).map_err(|error| failed(to, &error))
        })
    }

    fn copy<'a>(&'a self, from: &'a Located, to: &'a Located) -> BoxFuture<'a, Result<(), FsError>> {
        Box::pin(async move {
            let size = self.file(from).await?;
            if size > LARGEST {
                return Err(FsError::TooLarge { path: from.path.clone(), size, limit: LARGEST });
            }
            let (content, _) = self.content(from, 0, LARGEST).await?;
            self.can_make(to).await?;
            if self.find(to, path_of(&to.place())).await?.is_some() {
                return Err(FsError::Exists(to.path.clone()));
            }
            self.replace(to, content, true).await
        })
    }

    fn stat<'a>(&'a self, at: &'a Located) -> BoxFuture<'a, Result<Option<Entry>, FsError>> {
        Box::pin(async move {
            at.admits(&at.rest)?;
            let Some(found) = self.find(at, path_of(&at.place())).await? else { return Ok(None) };
            if found.kind == FileKind::File {
                at.admits_file(&at.rest)?;
            }
            Ok(Some(entry(at, &at.rest, found.kind, found.bytes, found.modified_ms)))
        })
    }

    fn walk<'a>(&'a self, at: &'a Located, limit: usize) -> BoxFuture<'a, Result<Vec<Entry>, FsError>> {
        Box::pin(async move {
            at.admits(&at.rest)?;
            let root = at.place();
            if let Some(found) = self.find(at, path_of(&root)).await?
                && found.kind == FileKind::File
            {
                at.admits_file(&at.rest)?;
                return Ok(vec![entry(at, &at.rest, found.kind, found.bytes, found.modified_ms)]);
            }
            let below = self.entries(at, &root).await?.into_iter().filter_map(|found| {
                let place = root.join(&found.path);
                let rest = place.rest(&at.base)?;
                let wanted = match found.kind {
                    FileKind::File => at.shows_file(rest),
                    FileKind::Folder => at.shows(rest),
                };
                wanted.then(|| entry(at, rest, found.kind, found.bytes, found.modified_ms))
            });
            Ok(below.take(limit).collect())
        })
    }

    fn make_directory<'a>(&'a self, at: &'a Located) -> BoxFuture<'a, Result<(), FsError>> {
        Box::pin(async move {
            self.can_make(at).await?;
            let path = path_of(&at.place());
            if let Some(Found { kind: FileKind::File, .. }) = self.find(at, path.clone()).await? {
                return Err(FsError::WrongKind { path: at.path.clone(), is: "a file", wanted: "a folder" });
            }
            let run = self.run.clone();
            let made = self.bridge.perform(|id| Effect::Folder { id, run, path }).await;
            made.map(drop).map_err(|error| failed(at, &error))
        })
    }
}
