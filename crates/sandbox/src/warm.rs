//! Reads from the page cache, synchronously and without another thread.
//!
//! Passing a read to a blocking thread costs more than reading 64 KB from the page cache. Linux can refuse instead of
//! waiting: `RESOLVE_CACHED` (openat2(2)) looks names up only in memory, and `RWF_NOWAIT` (preadv2(2)) reads only
//! from there. Every other case (a link in the path, a device, a refusing rule, an error) is left to the slow path,
//! which also makes the error message.

use llm_do_core::authority::Located;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat2, statat};
use std::os::fd::{AsRawFd, OwnedFd};

/// Flags for resolving a path from memory alone, and without links.
const PLAIN: ResolveFlags = ResolveFlags::CACHED.union(ResolveFlags::NO_SYMLINKS);
/// Maximum bytes of one read. A larger copy would delay other tasks.
const MOST: u64 = 1 << 20;

/// Returns true if the path exists without a link on the way, as far as that is known without waiting.
pub(crate) fn is_plain(at: &Located) -> bool {
    let look = OFlags::PATH | OFlags::CLOEXEC;
    openat2(CWD, at.place().as_str(), look, Mode::empty(), PLAIN).is_ok()
}

/// Returns the bytes and the file's size like [`FileSystem::read`](llm_do_core::vfs::FileSystem::read), or `None` if
/// they can't be read from memory in this way.
pub(crate) fn read(at: &Located, offset: u64, limit: u64) -> Option<(Vec<u8>, u64)> {
    if !at.admits_as_named() {
        return None;
    }
    let place = at.place();
    // Opening a device can have an effect, so it is looked at first; the descriptor that is read from is looked at
    // again.
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
    let mut bytes = Vec::with_capacity(usize::try_from(wanted).ok()?);
    while (bytes.len() as u64) < wanted {
        let at = offset + bytes.len() as u64;
        if read_now(&file, &mut bytes, wanted, at)? == 0 {
            break;
        }
    }
    Some((bytes, size))
}

/// Appends the bytes at that offset that are in memory, until `bytes` holds `wanted`. Returns the number of appended
/// bytes.
fn read_now(file: &OwnedFd, bytes: &mut Vec<u8>, wanted: u64, offset: u64) -> Option<usize> {
    let room = usize::try_from(wanted).ok()?.saturating_sub(bytes.len());
    let spare = &mut bytes.spare_capacity_mut()[..room];
    let slice = libc::iovec { iov_base: spare.as_mut_ptr().cast(), iov_len: spare.len() };
    let offset = libc::off_t::try_from(offset).ok()?;
    // SAFETY: the kernel writes at most `iov_len` bytes to spare capacity that nothing else refers to.
    let read = unsafe { libc::preadv2(file.as_raw_fd(), &raw const slice, 1, offset, libc::RWF_NOWAIT) };
    let read = usize::try_from(read).ok()?;
    // SAFETY: the kernel has written so many bytes there, and they fit, since `read <= room`.
    unsafe { bytes.set_len(bytes.len() + read) };
    Some(read)
}
