//! The native file system.

use crate::{
    keep,
    new_file::NewFile,
    open::{file, keep_mode, rename_new},
    resolve::{How, Spot, failed, resolve, resolve_rest},
    tree::{Tree, join},
};
use cap_fs_ext::DirExt;
use cap_std::fs::{File, Metadata};
use llm_do_core::{
    authority::{Located, Place},
    send::BoxFuture,
    vfs::{Entry, EntryKind, FileSystem, FsError},
};
use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    io::{self, Read, Seek, SeekFrom, Write},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::UNIX_EPOCH,
};

/// Bytes copied between two checks for cancellation.
const SLICE: u64 = 16 << 20;

/// Files of this machine, confined to located places. Needs a tokio runtime: system calls that may wait for a disk
/// run on its blocking threads.
#[derive(Clone, Debug, Default)]
pub struct NativeFileSystem {
    locks: Arc<Locks>,
}

/// Locks for appending, which reads, extends and replaces a file. Concurrent appends to one file must not lose data.
/// One lock per file would grow without limit, so files share a few locks.
#[derive(Debug, Default)]
struct Locks {
    by_place: [Mutex<()>; 16],
    hasher: RandomState,
}

impl Locks {
    fn of(&self, place: &Place) -> MutexGuard<'_, ()> {
        // The remainder of a division by 16 is an index.
        let index = self.hasher.hash_one(place) as usize % self.by_place.len();
        self.by_place[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NativeFileSystem {
    /// Creates the file system of this machine.
    pub fn new() -> Self {
        Self::default()
    }
}

/// A flag that is true when a piece of work has been abandoned: its call was cancelled or timed out. Long operations
/// check it periodically, since a blocking thread can't be stopped from outside.
#[derive(Clone, Debug, Default)]
struct Abandoned(Arc<AtomicBool>);

impl Abandoned {
    fn yes(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The waiting side: dropping it before the end of the work abandons the work.
struct Waiting(Abandoned);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

fn blocking<'a, T: Send + 'static>(
    work: impl FnOnce(&Abandoned) -> Result<T, FsError> + Send + 'static,
) -> BoxFuture<'a, Result<T, FsError>> {
    Box::pin(async move {
        let waiting = Waiting(Abandoned::default());
        let abandoned = waiting.0.clone();
        match tokio::task::spawn_blocking(move || work(&abandoned)).await {
            Ok(done) => done,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    })
}

impl FileSystem for NativeFileSystem {
    fn read<'a>(
        &'a self,
        at: &'a Located,
        offset: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<(Vec<u8>, u64), FsError>> {
        Box::pin(async move {
            #[cfg(target_os = "linux")]
            if let Some(read) = crate::warm::read(at, offset, limit) {
                return Ok(read);
            }
            let at = at.clone();
            blocking(move |_| read(&at, offset, limit)).await
        })
    }

    fn real<'a>(&'a self, at: &'a Located, last: bool) -> BoxFuture<'a, Result<String, FsError>> {
        Box::pin(async move {
            #[cfg(target_os = "linux")]
            if crate::warm::is_plain(at) {
                return Ok(at.rest.clone());
            }
            let at = at.clone();
            let how = if last { How::Follow } else { How::Entry };
            blocking(move |_| {
                // Also where the path leads elsewhere than when the call was decided about.
                let spot = resolve_rest(&at, &at.rest, how)?;
                Ok(spot.map_or_else(|| at.rest.clone(), |spot| spot.rest))
            })
            .await
        })
    }

    fn write<'a>(&'a self, at: &'a Located, content: &'a [u8]) -> BoxFuture<'a, Result<(), FsError>> {
        let (locks, at, content) = (Arc::clone(&self.locks), at.clone(), content.to_vec());
        blocking(move |_| write(&locks, &at, &content))
    }

    fn keep<'a>(&'a self, below: &'a str, text: &'a str) -> BoxFuture<'a, Result<Option<String>, String>> {
        let (below, text) = (below.to_owned(), text.to_owned());
        Box::pin(async move {
            let kept = tokio::task::spawn_blocking(move || keep::keep(&std::env::temp_dir(), &below, &text));
            match kept.await {
                Ok(kept) => kept.map(Some),
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            }
        })
    }

    fn append<'a>(&'a self, at: &'a Located, content: &'a [u8]) -> BoxFuture<'a, Result<(), FsError>> {
        let (locks, at, content) = (Arc::clone(&self.locks), at.clone(), content.to_vec());
        blocking(move |abandoned| append(&locks, &at, &content, abandoned))
    }

    fn delete<'a>(&'a self, at: &'a Located) -> BoxFuture<'a, Result<(), FsError>> {
        let at = at.clone();
        blocking(move |_| delete(&at))
    }

    fn rename<'a>(&'a self, from: &'a Located, to: &'a Located) -> BoxFuture<'a, Result<(), FsError>> {
        let (from, to) = (from.clone(), to.clone());
        blocking(move |abandoned| rename(&from, &to, abandoned))
    }

    fn copy<'a>(&'a self, from: &'a Located, to: &'a Located) -> BoxFuture<'a, Result<(), FsError>> {
        let (from, to) = (from.clone(), to.clone());
        blocking(move |abandoned| copy(&from, &to, abandoned))
    }

    fn stat<'a>(&'a self, at: &'a Located) -> BoxFuture<'a, Result<Option<Entry>, FsError>> {
        let at = at.clone();
        blocking(move |_| stat(&at))
    }

    fn walk<'a>(&'a self, at: &'a Located, limit: usize) -> BoxFuture<'a, Result<Vec<Entry>, FsError>> {
        let at = at.clone();
        blocking(move |abandoned| walk(&at, limit, abandoned))
    }

    fn make_directory<'a>(&'a self, at: &'a Located) -> BoxFuture<'a, Result<(), FsError>> {
        let at = at.clone();
        blocking(move |_| make_directory(&at))
    }
}

fn not_found(at: &Located) -> FsError {
    FsError::NotFound(at.path.clone())
}

/// Returns the error for an entry that is not a regular file.
fn not_a_file(at: &Located, found: &Metadata) -> FsError {
    let is = if found.is_dir() { "a folder" } else { "a special file" };
    FsError::WrongKind { path: at.path.clone(), is, wanted: "a file" }
}

/// Resolves for writing. Authority checks the resolved place before anything is created in the base.
fn resolve_to_make(at: &Located, how: How) -> Result<Spot, FsError> {
    let spot = resolve(at, how)?.ok_or_else(|| not_found(at))?;
    at.admits(&spot.rest)?;
    Ok(spot)
}

/// Opens a regular file for reading, and returns it with the metadata of its descriptor.
fn source(at: &Located) -> Result<(File, Metadata), FsError> {
    let spot = resolve(at, How::Follow)?.ok_or_else(|| not_found(at))?;
    at.admits(&spot.rest)?;
    let found = spot.found.as_ref().ok_or_else(|| not_found(at))?;
    // The first check avoids opening a device; the descriptor is checked again.
    let name = match &spot.name {
        Some(name) if found.is_file() => name,
        _ => return Err(not_a_file(at, found)),
    };
    at.admits_file(&spot.rest)?;
    let opened = file(spot.folder(), name).map_err(|error| failed(at, &error))?;
    let file = opened.ok_or_else(|| not_a_file(at, found))?;
    let found = file.metadata().map_err(|error| failed(at, &error))?;
    at.within_size(found.len())?;
    Ok((file, found))
}

fn read(at: &Located, offset: u64, limit: u64) -> Result<(Vec<u8>, u64), FsError> {
    let (mut file, found) = source(at)?;
    let size = found.len();
    let mut bytes = Vec::new();
    let mut take = || -> io::Result<()> {
        if offset > 0 {
            file.seek(SeekFrom::Start(offset))?;
        }
        bytes.reserve_exact(usize::try_from(size.saturating_sub(offset).min(limit)).unwrap_or(0));
        Read::by_ref(&mut file).take(limit).read_to_end(&mut bytes)?;
        Ok(())
    };
    take().map_err(|error| failed(at, &error))?;
    // A file that grew in the meantime is at least as long as the bytes read.
    let read_to = offset.saturating_add(bytes.len() as u64);
    Ok((bytes, if read_to > offset { size.max(read_to) } else { size }))
}

/// Writes a new file, which replaces the target when it is complete ([`NewFile`]), so that readers never see a part of
/// it and a crash leaves the old content or the new. The file is not synced to disk: a power failure may lose the
/// newest writes of a run, as for any other program, and a sync costs more than the rest of a tool call.
///
/// A hard link is not written through: the new file is a different one, and other links to the old file outside the
/// sandbox keep the old content.
fn put(
    at: &Located,
    spot: &mut Spot,
    replace: bool,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), FsError> {
    let name = spot.name.clone().ok_or_else(|| FsError::root_of_mount(at))?;
    spot.make_folders().map_err(|error| failed(at, &error))?;
    let whole = || {
        let mut new = NewFile::begin(spot.folder())?;
        fill(new.file())?;
        if replace { new.replace(&name) } else { new.put(&name) }
    };
    whole().map_err(|error| failed(at, &error))
}

/// Resolves a file to be replaced or made.
fn target(at: &Located) -> Result<Spot, FsError> {
    let spot = resolve_to_make(at, How::FollowAndMake)?;
    at.admits_file(&spot.rest)?;
    match &spot.found {
        Some(found) if !found.is_file() => Err(not_a_file(at, found)),
        // Replacing needs no permission on the file itself, so the file's own permission is checked here.
        Some(found) if found.permissions().readonly() => {
            Err(FsError::Io { path: at.path.clone(), reason: "its permissions make it read-only".into() })
        }
        _ => Ok(spot),
    }
}

fn write(locks: &Locks, at: &Located, content: &[u8]) -> Result<(), FsError> {
    let mut spot = target(at)?;
    at.within_size(content.len() as u64)?;
    let _one = locks.of(&at.base.join(&spot.rest));
    let mode_of = spot.found.clone();
    put(at, &mut spot, true, |file| {
        file.write_all(content)?;
        mode_of.map_or(Ok(()), |found| keep_mode(file, &found))
    })
}

fn append(locks: &Locks, at: &Located, content: &[u8], abandoned: &Abandoned) -> Result<(), FsError> {
    let mut spot = target(at)?;
    let whole = |old: Option<&Metadata>| old.map_or(0, Metadata::len).saturating_add(content.len() as u64);
    at.within_size(whole(spot.found.as_ref()))?;
    let _one = locks.of(&at.base.join(&spot.rest));
    let name = spot.name.clone().ok_or_else(|| FsError::root_of_mount(at))?;
    spot.make_folders().map_err(|error| failed(at, &error))?;
    // Opened under the lock and not during resolution, because another append may have replaced the file since then.
    let old = match file(spot.folder(), &name) {
        Ok(Some(old)) => Some(old),
        Ok(None) => {
            return Err(FsError::WrongKind { path: at.path.clone(), is: "a special file", wanted: "a file" });
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(at, &error)),
    };
    let found = old.as_ref().map(File::metadata).transpose().map_err(|error| failed(at, &error))?;
    at.within_size(whole(found.as_ref()))?;
    put(at, &mut spot, true, |file| {
        if let Some(mut old) = old {
            pour(&mut old, file, abandoned)?;
        }
        file.write_all(content)?;
        found.map_or(Ok(()), |found| keep_mode(file, &found))
    })
}

fn delete(at: &Located) -> Result<(), FsError> {
    let spot = resolve(at, How::Entry)?.ok_or_else(|| not_found(at))?;
    at.admits(&spot.rest)?;
    let found = spot.found.as_ref().ok_or_else(|| not_found(at))?;
    let Some(name) = &spot.name else { return Err(FsError::root_of_mount(at)) };
    let removed = if found.is_dir() {
        spot.folder().remove_dir(name)
    } else if found.is_file() || found.is_symlink() {
        at.admits_file(&spot.rest)?;
        spot.folder().remove_file(name)
    } else {
        return Err(not_a_file(at, found));
    };
    removed.map_err(|error| failed(at, &error))
}

fn rename(from: &Located, to: &Located, abandoned: &Abandoned) -> Result<(), FsError> {
    let old = resolve(from, How::Entry)?.ok_or_else(|| not_found(from))?;
    from.admits(&old.rest)?;
    let found = old.found.as_ref().ok_or_else(|| not_found(from))?;
    let Some(name) = &old.name else { return Err(FsError::root_of_mount(from)) };
    if !(found.is_dir() || found.is_file() || found.is_symlink()) {
        return Err(not_a_file(from, found));
    }
    let mut new = resolve_to_make(to, How::EntryAndMake)?;
    let (old_place, new_place) = (from.base.join(&old.rest), to.base.join(&new.rest));
    if found.is_dir() && new_place != old_place && new_place.is_within(&old_place) {
        return Err(FsError::into_itself(from));
    }
    let Some(new_name) = new.name.clone().filter(|_| new.found.is_none()) else {
        return Err(FsError::Exists(to.path.clone()));
    };
    let size = |found: &Metadata| (!found.is_dir()).then(|| if found.is_file() { found.len() } else { 0 });
    from.may_move(to, &old.rest, &new.rest, "", size(found))?;
    if found.is_dir() {
        let dir = old.folder().open_dir_nofollow(name).map_err(|error| failed(from, &error))?;
        let mut tree = Tree::new(dir, usize::MAX, |_: &str, _| true).map_err(|error| failed(from, &error))?;
        while let Some(below) = tree.next().map_err(|error| failed(from, &error))? {
            if abandoned.yes() {
                return Err(failed(from, &cut_off()));
            }
            from.may_move(to, &old.rest, &new.rest, &below.rest, size(&below.found))?;
        }
    }
    new.make_folders().map_err(|error| failed(to, &error))?;
    match rename_new(old.folder(), name.as_ref(), new.folder(), new_name.as_ref(), found.is_dir()) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices && found.is_file() => {
            copy(from, to, abandoned)?;
            old.folder().remove_file(name).map_err(|error| failed(from, &error))
        }
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => Err(FsError::Io {
            path: from.path.clone(),
            reason: "its destination is on another disk; copy its files one by one".into(),
        }),
        moved => moved.map_err(|error| failed(to, &error)),
    }
}

fn copy(from: &Located, to: &Located, abandoned: &Abandoned) -> Result<(), FsError> {
    let (mut file, found) = source(from)?;
    let mut new = resolve_to_make(to, How::EntryAndMake)?;
    if new.found.is_some() {
        return Err(FsError::Exists(to.path.clone()));
    }
    to.admits_file(&new.rest)?;
    to.within_size(found.len())?;
    put(to, &mut new, false, |copy| {
        pour(&mut file, copy, abandoned)?;
        keep_mode(copy, &found)
    })
}

/// Copies the rest of a file, slice by slice.
fn pour(from: &mut File, to: &mut File, abandoned: &Abandoned) -> io::Result<()> {
    while io::copy(&mut Read::by_ref(from).take(SLICE), to)? > 0 {
        if abandoned.yes() {
            return Err(cut_off());
        }
    }
    Ok(())
}

/// Returns the error of abandoned work. It reaches no caller, because the caller has gone.
fn cut_off() -> io::Error {
    io::Error::other("it was cut off")
}

fn stat(at: &Located) -> Result<Option<Entry>, FsError> {
    let Some(spot) = resolve(at, How::Follow)? else { return Ok(None) };
    at.admits(&spot.rest)?;
    let Some(found) = &spot.found else { return Ok(None) };
    if found.is_file() {
        at.admits_file(&spot.rest)?;
    }
    Ok(Some(entry(at, &at.rest, found)))
}

fn walk(at: &Located, limit: usize, abandoned: &Abandoned) -> Result<Vec<Entry>, FsError> {
    let Some(spot) = resolve(at, How::Follow)? else { return Ok(Vec::new()) };
    at.admits(&spot.rest)?;
    let Some(found) = &spot.found else { return Ok(Vec::new()) };
    let dir = match &spot.name {
        _ if !found.is_dir() => {
            if found.is_file() {
                at.admits_file(&spot.rest)?;
            }
            return Ok(std::iter::once(entry(at, &at.rest, found)).take(limit).collect());
        }
        None => spot.folder().try_clone(),
        Some(name) => spot.folder().open_dir_nofollow(name),
    }
    .map_err(|error| failed(at, &error))?;
    // A folder reached through a link is checked at its real place and shown at the requested path.
    let wanted = |rest: &str, is_folder: bool| {
        let real = join(&spot.rest, rest);
        let seen = join(&at.rest, rest);
        match is_folder {
            // A huge folder's names are passed over quickly then.
            _ if abandoned.yes() => false,
            true => at.shows(&real) && at.shows(&seen),
            false => at.shows_file(&real) && at.shows_file(&seen),
        }
    };
    let mut tree = Tree::new(dir, limit, wanted).map_err(|error| failed(at, &error))?;
    let mut entries = Vec::new();
    while let Some(below) = tree.next().map_err(|error| failed(at, &error))? {
        if abandoned.yes() {
            return Err(failed(at, &cut_off()));
        }
        let seen = join(&at.rest, &below.rest);
        let linked =
            if below.found.is_symlink() { linked_file(at, &join(&spot.rest, &below.rest)) } else { None };
        entries.push(entry(at, &seen, linked.as_ref().unwrap_or(&below.found)));
    }
    Ok(entries)
}

/// Returns the metadata of the target of a link, if the target is a file that may be read through the link.
fn linked_file(at: &Located, rest: &str) -> Option<Metadata> {
    let spot = resolve_rest(at, rest, How::Follow).ok()??;
    let found = spot.found.filter(Metadata::is_file)?;
    (at.admits(&spot.rest).is_ok() && at.shows_file(&spot.rest)).then_some(found)
}

fn make_directory(at: &Located) -> Result<(), FsError> {
    let mut spot = resolve_to_make(at, How::FollowAndMake)?;
    match (&spot.found, spot.name.clone()) {
        (Some(found), _) if found.is_dir() => Ok(()),
        (Some(_), _) => Err(FsError::WrongKind { path: at.path.clone(), is: "a file", wanted: "a folder" }),
        (None, name) => {
            let name = name.ok_or_else(|| not_found(at))?;
            spot.make_folders()
                .and_then(|()| crate::open::make_folder(spot.folder(), &name).map(drop))
                .map_err(|error| failed(at, &error))
        }
    }
}

fn entry(at: &Located, rest: &str, found: &Metadata) -> Entry {
    let (kind, size) = match () {
        () if found.is_file() => (EntryKind::File, found.len()),
        () if found.is_dir() => (EntryKind::Directory, 0),
        () => (EntryKind::Other, 0),
    };
    let modified_ms = found
        .modified()
        .ok()
        .and_then(|time| time.into_std().duration_since(UNIX_EPOCH).ok())
        .and_then(|since| u64::try_from(since.as_millis()).ok());
    Entry { path: at.virtual_of(rest), kind, size: Some(size), modified_ms }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{future::poll_fn, sync::mpsc, task::Poll};

    #[tokio::test]
    async fn work_that_nobody_waits_for_learns_of_it() {
        let (told, tells) = mpsc::channel();
        let mut work = blocking(move |abandoned| {
            while !abandoned.yes() {
                std::thread::yield_now();
            }
            told.send("it ends").unwrap();
            Ok(())
        });
        let begun = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
        assert!(begun.is_pending());
        drop(work);
        assert_eq!(tells.recv(), Ok("it ends"));
    }

    #[test]
    fn an_abandoned_copy_stops_after_a_slice() {
        let mut from = tempfile::tempfile().unwrap();
        from.write_all(b"beginning").unwrap();
        from.set_len(3 * SLICE).unwrap();
        from.rewind().unwrap();
        let to = tempfile::tempfile().unwrap();
        let [mut from, mut copy] = [from, to.try_clone().unwrap()].map(File::from_std);
        let abandoned = Abandoned::default();
        drop(Waiting(abandoned.clone()));
        assert!(pour(&mut from, &mut copy, &abandoned).is_err());
        assert_eq!(to.metadata().unwrap().len(), SLICE);
        assert!(pour(&mut from, &mut copy, &Abandoned::default()).is_ok());
        assert_eq!(to.metadata().unwrap().len(), 3 * SLICE);
    }
}
