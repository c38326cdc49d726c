//! Confinement on this machine (SPEC §6.2, §6.6): the native file system, the names of real places, and processes.
//!
//! Nothing here checks a path and opens it afterwards. Every operation opens the base of what was located, walks from
//! descriptor to descriptor without following a symbolic link, resolves links itself inside the base, asks authority
//! about the place that is left, and acts on the last folder's descriptor and one name. Whoever swaps a part of the path
//! meanwhile makes the operation fail; it never lands elsewhere.
//!
//! Processes can't be judged path by path. The kernel holds them to the same view: see `confine`.

#[cfg(unix)]
pub mod confine;
mod file_system;
mod keep;
mod open;
mod place;
mod resolve;
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub mod shell;
mod tree;
#[cfg(target_os = "linux")]
mod warm;

pub use file_system::NativeFileSystem;
pub use place::place_of;
