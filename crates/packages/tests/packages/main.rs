//! Installing, pinning, listing and removing libraries, over folders and repositories on this machine.

mod git;
mod libraries;
mod world;
