//! Confinement on this machine (`docs/reference/sandbox.md`): the native file system, the names of real places, and
//! processes.
//!
//! No operation checks a path and opens it afterwards. Every operation opens the base of the located path, walks from
//! descriptor to descriptor without following a symbolic link, resolves links itself inside the base, checks the
//! resolved place with authority, and acts on the last folder's descriptor and one name. A concurrent change of a path
//! component makes the operation fail; it never reaches another place.
//!
//! A process can't be checked path by path. The kernel confines it to the same view: see `confine`.

mod below;
#[cfg(unix)]
pub mod confine;
mod file_system;
mod git;
mod keep;
mod new_file;
mod open;
mod place;
mod private;
mod regular;
mod resolve;
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub mod shell;
mod tree;
#[cfg(target_os = "linux")]
mod warm;

pub use below::{check_below, make_folder_below, read_below, write_below, write_whole};
pub use file_system::NativeFileSystem;
pub use new_file::{NewFile, put_private, write_private};
pub use place::place_of;
pub use private::private_dir;
pub use regular::read_regular;
