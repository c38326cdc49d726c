//! A file system that combines files with the places that toolsets serve.

use super::ToolsetRegistry;
use crate::{
    authority::{Located, Refusal},
    send::BoxFuture,
    vfs::{Entry, FileSystem, FsError},
};
use std::sync::Arc;

/// Largest content that is copied from a served place to a file, in bytes.
const LARGEST_COPY: u64 = 64 << 20;

/// A file system that also reads [served](crate::authority::Place::served) places, each through its kind of toolset.
pub struct WithServed {
    files: Arc<dyn FileSystem>,
    toolsets: Arc<ToolsetRegistry>,
}

impl WithServed {
    /// Combines these files with the places that these toolsets serve.
    pub fn new(files: Arc<dyn FileSystem>, toolsets: Arc<ToolsetRegistry>) -> Self {
        Self { files, toolsets }
    }

    /// The file system that reads at that place.
    fn reader(&self, at: &Located) -> Result<&dyn FileSystem, FsError> {
        let place = at.place();
        let Some(served) = place.server() else { return Ok(&*self.files) };
        self.toolsets.runtime(served.kind).ok().and_then(|kind| kind.served()).ok_or_else(|| FsError::Io {
            path: at.path.clone(),
            reason: format!("nothing here reads what toolsets of the kind `{}` serve", served.kind),
        })
    }

    /// The file system that writes at that place.
    fn writer(&self, at: &Located) -> Result<&dyn FileSystem, FsError> {
        match at.place().server() {
            None => Ok(&*self.files),
            Some(_) => Err(FsError::Refused(Refusal::ReadOnly {
                path: at.path.to_string(),
                reason: "a server has it, and it can only be read".to_owned(),
            })),
        }
    }

    /// Copies the content of a served place to a file.
    async fn fetch(&self, from: &Located, to: &Located) -> Result<(), FsError> {
        let files = self.writer(to)?;
        if files.stat(to).await?.is_some() {
            return Err(FsError::Exists(to.path.clone()));
        }
        let (content, size) = self.reader(from)?.read(from, 0, LARGEST_COPY).await?;
        if size > LARGEST_COPY {
            return Err(FsError::TooLarge { path: from.path.clone(), size, limit: LARGEST_COPY });
        }
        files.write(to, &content).await
    }
}

impl FileSystem for WithServed {
    fn read<'a>(
        &'a self,
        at: &'a Located,
        offset: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<(Vec<u8>, u64), FsError>> {
        Box::pin(async move { self.reader(at)?.read(at, offset, limit).await })
    }

    fn real<'a>(&'a self, at: &'a Located, last: bool) -> BoxFuture<'a, Result<String, FsError>> {
        match at.place().server() {
            None => self.files.real(at, last),
            // Nothing there is a link.
            Some(_) => Box::pin(async { Ok(at.rest.clone()) }),
        }
    }

    fn write<'a>(&'a self, at: &'a Located, content: &'a [u8]) -> BoxFuture<'a, Result<(), FsError>> {
        Box::pin(async move { self.writer(at)?.write(at, content).await })
    }

    fn append<'a>(&'a self, at: &'a Located, content: &'a [u8]) -> BoxFuture<'a, Result<(), FsError>> {
        Box::pin(async move { self.writer(at)?.append(at, content).await })
    }

    fn delete<'a>(&'a self, at: &'a Located) -> BoxFuture<'a, Result<(), FsError>> {
        Box::pin(async move { self.writer(at)?.delete(at).await })
    }

    fn rename<'a>(&'a self, from: &'a Located, to: &'a Located) -> BoxFuture<'a, Result<(), FsError>> {
        Box::pin(async move {
            self.writer(to)?;
            self.writer(from)?.rename(from, to).await
        })
    }

    fn copy<'a>(&'a self, from: &'a Located, to: &'a Located) -> BoxFuture<'a, Result<(), FsError>> {
        Box::pin(async move {
            match from.place().server() {
                Some(_) => self.fetch(from, to).await,
                None => self.writer(to)?.copy(from, to).await,
            }
        })
    }

    fn stat<'a>(&'a self, at: &'a Located) -> BoxFuture<'a, Result<Option<Entry>, FsError>> {
        Box::pin(async move { self.reader(at)?.stat(at).await })
    }

    fn walk<'a>(&'a self, at: &'a Located, limit: usize) -> BoxFuture<'a, Result<Vec<Entry>, FsError>> {
        Box::pin(async move { self.reader(at)?.walk(at, limit).await })
    }

    fn make_directory<'a>(&'a self, at: &'a Located) -> BoxFuture<'a, Result<(), FsError>> {
        Box::pin(async move { self.writer(at)?.make_directory(at).await })
    }

    fn keep<'a>(&'a self, below: &'a str, text: &'a str) -> BoxFuture<'a, Result<Option<String>, String>> {
        self.files.keep(below, text)
    }
}
