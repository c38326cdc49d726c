//! The file system of a replay.

use llm_do_core::{
    authority::Located,
    send::{BoxFuture, MaybeSend},
    vfs::{Entry, FileSystem, FsError},
};

/// The file system of a replay: every file is empty, and none can be changed. The contents that the run read are in its
/// record.
#[derive(Clone, Copy, Debug)]
pub struct NoFiles;

impl FileSystem for NoFiles {
    fn read<'a>(&'a self, _: &'a Located, _: u64, _: u64) -> BoxFuture<'a, Result<(Vec<u8>, u64), FsError>> {
        Box::pin(async { Ok((Vec::new(), 0)) })
    }
    fn write<'a>(&'a self, at: &'a Located, _: &'a [u8]) -> BoxFuture<'a, Result<(), FsError>> {
        refused(at)
    }
    fn append<'a>(&'a self, at: &'a Located, _: &'a [u8]) -> BoxFuture<'a, Result<(), FsError>> {
        refused(at)
    }
    fn delete<'a>(&'a self, at: &'a Located) -> BoxFuture<'a, Result<(), FsError>> {
        refused(at)
    }
    fn rename<'a>(&'a self, at: &'a Located, _: &'a Located) -> BoxFuture<'a, Result<(), FsError>> {
        refused(at)
    }
    fn copy<'a>(&'a self, at: &'a Located, _: &'a Located) -> BoxFuture<'a, Result<(), FsError>> {
        refused(at)
    }
    fn stat<'a>(&'a self, _: &'a Located) -> BoxFuture<'a, Result<Option<Entry>, FsError>> {
        Box::pin(async { Ok(None) })
    }
    fn walk<'a>(&'a self, _: &'a Located, _: usize) -> BoxFuture<'a, Result<Vec<Entry>, FsError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
    fn make_directory<'a>(&'a self, at: &'a Located) -> BoxFuture<'a, Result<(), FsError>> {
        refused(at)
    }
}

fn refused<'a, T: MaybeSend + 'a>(at: &Located) -> BoxFuture<'a, Result<T, FsError>> {
    let error = FsError::Io { path: at.path.clone(), reason: "a replay touches no files".into() };
    Box::pin(async { Err(error) })
}
