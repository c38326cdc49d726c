//! Reading what the kernel holds in memory, at once and without another thread.
//!
//! Handing a read to a thread that may wait costs more than reading 64 KB that are in memory already. Linux can say no
//! instead of waiting: `RESOLVE_CACHED` (openat2(2)) looks names up only in memory, and `RWF_NOWAIT` (preadv2(2)) reads only
//! from there. Whatever is not plain (a link on the way, a device, a rule that refuses, an error) is left to the careful way,
//! which also finds the words for it.

use llm_do_core::authority::Located;
use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat2, statat},
    io::{ReadWriteFlags, preadv2},
};
use std::io::IoSliceMut;

/// From memory alone, and without links.
const PLAIN: ResolveFlags = ResolveFlags::CACHED.union(ResolveFlags::NO_SYMLINKS);
/// The most that is read at once, in bytes: copying more would keep others waiting.
const MOST: u64 = 1 << 20;

/// Whether there is something at that path and no link on the way, as far as that is known without waiting.
pub(crate) fn is_plain(at: &Located) -> bool {
    let look = OFlags::PATH | OFlags::CLOEXEC;
    openat2(CWD, at.place().as_str(), look, Mode::empty(), PLAIN).is_ok()
}

/// The bytes and the file's size as [`FileSystem::read`](llm_do_core::vfs::FileSystem::read) gives them; `None` if they are
/// not to be had without waiting.
pub(crate) fn read(at: &Located, offset: u64, limit: u64) -> Option<(Vec<u8>, u64)> {
    at.admits(&at.rest).ok()?;
    at.admits_file(&at.rest).ok()?;
    let place = at.place();
    // Opening a device can have an effect, so it is looked at first; the descriptor that is read from is looked at again.
    let is_file = |stat: &Stat| FileType::from_raw_mode(stat.st_mode).is_file();
    statat(CWD, place.as_str(), AtFlags::SYMLINK_NOFOLLOW).ok().filter(is_file)?;
    // Without links the normalised path leads where its names say, and nowhere else.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat2(CWD, place.as_str(), flags, Mode::empty(), PLAIN).ok()?;
    let found = fstat(&file).ok().filter(is_file)?;
    let size = u64::try_from(found.st_size).ok()?;
    at.within_size(size).ok()?;
    let wanted = size.saturating_sub(offset).min(limit);
    if wanted > MOST {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(wanted).ok()?];
    let mut read = 0;
    while read < bytes.len() {
        let rest = &mut [IoSliceMut::new(&mut bytes[read..])];
        match preadv2(&file, rest, offset + read as u64, ReadWriteFlags::NOWAIT).ok()? {
            0 => break,
            count => read += count,
        }
    }
    bytes.truncate(read);
    Some((bytes, size))
}
