//! The few system calls that no crate wraps, and those that are only safe in a single-threaded process. All of the
//! launcher's `unsafe` is here.

#![allow(unsafe_code, reason = "system calls without a safe wrapper")]

use rustix::{
    io::{Errno, Result},
    mount::MountAttrFlags,
    process::Pid,
    thread::UnshareFlags,
};
use std::{
    ffi::CStr,
    mem,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
};

fn checked(result: libc::c_long) -> Result<libc::c_long> {
    if result == -1 {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    }
    Ok(result)
}

/// Forks this process; returns `None` in the child. Only the supervisor calls it. It has one thread, so the child has
/// no restrictions.
pub(super) fn fork() -> Result<Option<Pid>> {
    // SAFETY: there is one thread, so no lock is held by another that is missing in the child.
    let pid = checked(unsafe { libc::fork() }.into())?;
    Ok(Pid::from_raw(i32::try_from(pid).map_err(|_| Errno::RANGE)?))
}

/// Moves this process (its children, for the process namespace) into new namespaces.
pub(super) fn unshare(flags: UnshareFlags) -> Result<()> {
    debug_assert!(!flags.contains(UnshareFlags::FILES));
    // SAFETY: the table of descriptors stays shared, which is what would be unsafe to part.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

/// Sets attributes of a mount and, with `recursive`, of all mounts below it (`mount_setattr`, Linux 5.12). A plain
/// remount would leave those below as they are.
pub(super) fn set_mount_attributes(
    mount: BorrowedFd<'_>,
    set: MountAttrFlags,
    recursive: bool,
) -> Result<()> {
    const EMPTY: &CStr = c"";
    let attributes =
        libc::mount_attr { attr_set: set.bits().into(), attr_clr: 0, propagation: 0, userns_fd: 0 };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the descriptor is open, both pointers are valid for the call, and the size is that of the structure.
    checked(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            EMPTY.as_ptr(),
            flags,
            &raw const attributes,
            mem::size_of::<libc::mount_attr>(),
        )
    })?;
    Ok(())
}

/// Closes every descriptor from `first` on: those that the starting process leaked.
pub(super) fn close_from(first: RawFd) -> Result<()> {
    // SAFETY: the supervisor calls it before it opens anything, so nothing here owns one of them.
    close_range(first, 0)
}

/// Marks every descriptor from `first` on to be closed when a program is executed.
pub(super) fn close_on_exec_from(first: RawFd) -> Result<()> {
    close_range(first, libc::CLOSE_RANGE_CLOEXEC)
}

fn close_range(first: RawFd, flags: libc::c_uint) -> Result<()> {
    let first = libc::c_uint::try_from(first).map_err(|_| Errno::BADF)?;
    // SAFETY: no pointers; see the callers for whose descriptors these are.
    checked(unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, flags) })?;
    Ok(())
}

/// Resets every signal to its default action, because children inherit the signals that the starting process ignores.
pub(super) fn default_signals() {
    for signal in 1..=64 {
        // SAFETY: no handler is set. The two signals that can't be changed fail, and so do those that don't exist.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Switches on the loopback interface of this network namespace, which is off in a new namespace.
pub(super) fn switch_loopback_on() -> Result<()> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: the structure is plain data, for which zeros are valid; its name ends with the zeros behind it.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_UP).map_err(|_| Errno::RANGE)?;
    // SAFETY: the request reads one such structure, which lives through the call.
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) }.into())?;
    Ok(())
}

/// Returns a descriptor that becomes readable when a child changes state; the signal itself is blocked from then on.
pub(super) fn child_events() -> Result<OwnedFd> {
    // SAFETY: the set is initialised before use and lives through all calls; the new descriptor has no other owner.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        checked(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()).into())?;
        let fd = checked(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK).into())?;
        Ok(OwnedFd::from_raw_fd(i32::try_from(fd).map_err(|_| Errno::BADF)?))
    }
}

/// Returns the Landlock ABI version of the kernel, or `None` if it lacks Landlock or it is disabled.
pub(super) fn landlock_version() -> Option<u32> {
    const ASK_VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the call takes no structure.
    let version = checked(unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, ASK_VERSION)
    });
    version.ok().and_then(|version| u32::try_from(version).ok())
}
