//! Resolves a located path to a folder's descriptor and a name in it.

use crate::{
    git,
    open::{folder_at, make_folder, nearest_folder},
};
use cap_fs_ext::DirExt;
use cap_std::fs::{Dir, Metadata};
use llm_do_core::{authority::Located, os_error, vfs::FsError};
use std::{io, path::Path};

/// Maximum number of symbolic links in one resolution, as on Linux.
const MOST_LINKS: u32 = 40;
const LEAVES: &str = "a symbolic link that leaves the sandbox";
const ENDLESS: &str = "a symbolic link that never ends";

/// The result of a resolution.
pub(crate) struct Spot {
    /// The innermost folder that exists.
    parent: Dir,
    /// Missing folders below it.
    missing: Vec<String>,
    /// The last name; `None` for the base folder itself, which `parent` is then.
    pub(crate) name: Option<String>,
    /// The path from the base, free of links.
    pub(crate) rest: String,
    /// The entry's metadata. Only a first check; the metadata of a descriptor is authoritative.
    pub(crate) found: Option<Metadata>,
}

/// The purpose for which a path is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// Reading the target.
    Follow,
    /// Writing the target. The base is created if it is missing and may be created.
    FollowAndMake,
    /// Using the entry itself, even if it is a link.
    Entry,
    /// Creating the entry itself.
    EntryAndMake,
}

impl How {
    fn follows(self) -> bool {
        matches!(self, Self::Follow | Self::FollowAndMake)
    }
    fn makes(self) -> bool {
        matches!(self, Self::FollowAndMake | Self::EntryAndMake)
    }
}

impl Spot {
    /// Returns the folder that holds the name.
    pub(crate) fn folder(&self) -> &Dir {
        &self.parent
    }

    /// Creates the missing folders above the name.
    pub(crate) fn make_folders(&mut self) -> io::Result<()> {
        for name in std::mem::take(&mut self.missing) {
            self.parent = make_folder(&self.parent, &name)?;
        }
        Ok(())
    }
}

/// Resolves a located path, which must lead to the place for which the call was permitted. Returns `None` if its base
/// does not exist.
pub(crate) fn resolve(at: &Located, how: How) -> Result<Option<Spot>, FsError> {
    let spot = resolve_rest(at, &at.rest, how)?;
    if let Some(Spot { rest, found, .. }) = &spot {
        at.leads_as_decided(rest, how.follows(), found.is_some())?;
    }
    Ok(spot)
}

/// Resolves another path within the same base like [`resolve`].
pub(crate) fn resolve_rest(at: &Located, rest: &str, how: How) -> Result<Option<Spot>, FsError> {
    let base = at.base.as_str();
    let root = match folder_at(base) {
        Ok(root) => root,
        Err(error) if is_link(&error) => return Err(wrong(at, LEAVES)),
        Err(error) if rest.is_empty() && is_not_a_folder(&error) => return single(at, how),
        Err(error) if is_not_a_folder(&error) && how.makes() => return Err(base_is_a_file(at)),
        Err(error) if is_not_a_folder(&error) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !how.makes() => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return to_be_made(at, rest).map(Some),
        Err(error) => return Err(failed(at, &error)),
    };
    Walk { at, root, folders: Vec::new(), pending: Vec::new(), steps: 0 }.run(rest, how).map(Some)
}

/// Refuses a change inside a folder that git takes for a repository, or one that would make a folder a repository: git
/// runs the programs that its settings name. `inside` are the folders from the base to the entry, `names` the name that
/// the path has in each. A base that is a repository was mounted by name, which lifts this protection.
fn outside_repositories(at: &Located, inside: &[&Dir], names: &[&str]) -> Result<(), FsError> {
    for (index, (folder, name)) in inside.iter().zip(names).enumerate() {
        let exists = |part: &str| folder.symlink_metadata(part).is_ok();
        let is_repository = git::is_repository(|part| name.eq_ignore_ascii_case(part) || exists(part));
        if is_repository && !(index == 0 && git::is_repository(exists)) {
            let reason = "git takes that folder for a repository (`HEAD`, `objects`, `refs`), and runs programs that \
                          its settings name";
            return Err(FsError::Io { path: at.path.clone(), reason: reason.into() });
        }
    }
    Ok(())
}

fn base_is_a_file(at: &Located) -> FsError {
    FsError::WrongKind { path: at.mount.at.clone(), is: "a file", wanted: "a folder" }
}

/// Resolves a path whose base does not exist yet. Nothing is created before authority has checked the place and the
/// operation is certain to proceed.
fn to_be_made(at: &Located, rest: &str) -> Result<Spot, FsError> {
    if !at.may_make_base() {
        return Err(FsError::NotFound(at.mount.at.clone()));
    }
    let (parent, mut missing) = match nearest_folder(at.base.as_str()) {
        Ok(nearest) => nearest,
        Err(error) if is_link(&error) => return Err(wrong(at, LEAVES)),
        Err(error) => return Err(failed(at, &error)),
    };
    missing.extend(rest.split('/').filter(|part| !part.is_empty()).map(str::to_owned));
    let name = missing.pop();
    Ok(Spot { parent, missing, name, rest: rest.to_owned(), found: None })
}

/// Resolves a path whose base is one file.
fn single(at: &Located, how: How) -> Result<Option<Spot>, FsError> {
    let Some((above, name)) = at.base.as_str().rsplit_once('/') else { return Ok(None) };
    let parent = match folder_at(above) {
        Ok(parent) => parent,
        Err(error) if is_link(&error) => return Err(wrong(at, LEAVES)),
        Err(error) if is_not_a_folder(&error) && how.makes() => return Err(base_is_a_file(at)),
        Err(error) if is_not_a_folder(&error) => return Ok(None),
        Err(error) => return Err(failed(at, &error)),
    };
    let found = match parent.symlink_metadata(name) {
        Ok(found) if found.is_symlink() => return Err(wrong(at, LEAVES)),
        Ok(found) => Some(found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(at, &error)),
    };
    Ok(Some(Spot { parent, missing: Vec::new(), name: Some(name.to_owned()), rest: String::new(), found }))
}

/// The walk from the base, one component at a time.
struct Walk<'a> {
    at: &'a Located,
    root: Dir,
    /// The folders that were entered, with their names.
    folders: Vec<(Dir, String)>,
    /// The remaining components, last first.
    pending: Vec<String>,
    /// Followed links and components that changed during the walk.
    steps: u32,
}

impl Walk<'_> {
    fn run(mut self, rest: &str, how: How) -> Result<Spot, FsError> {
        self.push(rest);
        while let Some(part) = self.pending.pop() {
            if part == ".." {
                if self.folders.pop().is_none() {
                    return Err(wrong(self.at, LEAVES));
                }
                continue;
            }
            let here = self.here();
            let found = match here.symlink_metadata(&part) {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return self.missing(part, how),
                Err(error) => return Err(failed(self.at, &error)),
            };
            let last = self.pending.is_empty();
            if found.is_symlink() && (!last || how.follows()) {
                self.step()?;
                match self.here().read_link_contents(&part) {
                    Ok(target) => self.follow(&target)?,
                    // It is no longer a link, or it is gone: retry.
                    Err(_) => self.pending.push(part),
                }
            } else if last {
                return self.end(part, Some(found), how);
            } else if found.is_dir() {
                match here.open_dir_nofollow(&part) {
                    Ok(dir) => self.folders.push((dir, part)),
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                        return Err(failed(self.at, &error));
                    }
                    // It was replaced in the meantime: retry.
                    Err(_) => {
                        self.step()?;
                        self.pending.push(part);
                    }
                }
            } else if !how.makes() {
                // Nothing can be below a file.
                return self.missing(part, how);
            } else {
                let path = self.at.virtual_of(&self.rest(&part));
                let is = if found.is_file() { "a file" } else { "a special file" };
                return Err(FsError::WrongKind { path, is, wanted: "a folder" });
            }
        }
        // It ends in a folder that was entered: the last name is that folder's.
        match self.folders.pop() {
            Some((dir, name)) => {
                let found = dir.dir_metadata().map_err(|error| failed(self.at, &error))?;
                self.end(name, Some(found), how)
            }
            None => {
                let found = self.root.dir_metadata().map_err(|error| failed(self.at, &error))?;
                Ok(Spot {
                    parent: self.root,
                    missing: Vec::new(),
                    name: None,
                    rest: String::new(),
                    found: Some(found),
                })
            }
        }
    }

    fn push(&mut self, path: &str) {
        self.pending
            .extend(path.split('/').rev().filter(|part| !matches!(*part, "" | ".")).map(str::to_owned));
    }

    fn here(&self) -> &Dir {
        self.folders.last().map_or(&self.root, |(dir, _)| dir)
    }

    /// Returns the path from the base to `name` in the current folder of the walk.
    fn rest(&self, name: &str) -> String {
        let mut rest = String::new();
        for part in self.folders.iter().map(|(_, name)| name.as_str()).chain([name]) {
            if !rest.is_empty() {
                rest.push('/');
            }
            rest.push_str(part);
        }
        rest
    }

    fn step(&mut self) -> Result<(), FsError> {
        self.steps += 1;
        if self.steps > MOST_LINKS { Err(wrong(self.at, ENDLESS)) } else { Ok(()) }
    }

    /// Continues with a link's target: relative to the folder that holds the link, or absolute and inside the base,
    /// which has no links in its own path. `..` is not resolved in the text but during the walk, where it stops at
    /// the base.
    fn follow(&mut self, target: &Path) -> Result<(), FsError> {
        let inside = if target.is_absolute() {
            self.folders.clear();
            target.strip_prefix(self.at.base.as_str()).map_err(|_| wrong(self.at, LEAVES))?
        } else {
            target
        };
        let inside = inside.to_str().ok_or_else(|| wrong(self.at, LEAVES))?;
        self.push(inside);
        Ok(())
    }

    /// Ends at `name` in the current folder; `name` has several parts if the first of them is missing.
    fn end(mut self, name: String, found: Option<Metadata>, how: How) -> Result<Spot, FsError> {
        if how.makes() {
            let inside: Vec<&Dir> =
                std::iter::once(&self.root).chain(self.folders.iter().map(|(dir, _)| dir)).collect();
            let first = name.split('/').next().unwrap_or_default();
            let names: Vec<&str> =
                self.folders.iter().map(|(_, name)| name.as_str()).chain([first]).collect();
            outside_repositories(self.at, &inside, &names)?;
        }
        let rest = self.rest(&name);
        let parent = self.folders.pop().map_or(self.root, |(dir, _)| dir);
        Ok(Spot { parent, missing: Vec::new(), name: Some(name), rest, found })
    }

    /// Ends at a missing entry, possibly several folders deep.
    fn missing(mut self, part: String, how: How) -> Result<Spot, FsError> {
        let mut names = vec![part];
        names.extend(self.pending.drain(..).rev());
        if names.iter().any(|name| name == "..") {
            return Err(FsError::NotFound(self.at.path.clone()));
        }
        let whole = names.join("/");
        let name = names.pop().expect("it holds at least the missing part");
        let spot = self.end(whole, None, how)?;
        Ok(Spot { missing: names, name: Some(name), ..spot })
    }
}

fn wrong(at: &Located, is: &'static str) -> FsError {
    FsError::WrongKind { path: at.path.clone(), is, wanted: "a file or folder in it" }
}

#[cfg(unix)]
fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

#[cfg(not(unix))]
fn is_link(_: &io::Error) -> bool {
    false
}

fn is_not_a_folder(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotADirectory
}

/// Converts a system error to one about a virtual path. System messages name no path; our own errors are unchanged.
pub(crate) fn failed(at: &Located, error: &io::Error) -> FsError {
    let path = at.path.clone();
    let reason = match error.kind() {
        io::ErrorKind::NotFound => return FsError::NotFound(path),
        io::ErrorKind::AlreadyExists => return FsError::Exists(path),
        io::ErrorKind::DirectoryNotEmpty => return FsError::NotEmpty(path),
        io::ErrorKind::IsADirectory => return FsError::WrongKind { path, is: "a folder", wanted: "a file" },
        io::ErrorKind::PermissionDenied => "the system does not permit it".into(),
        _ if is_link(error) || is_not_a_folder(error) => {
            "it changed while it was being opened; try again".into()
        }
        _ => os_error::reason(error),
    };
    FsError::Io { path, reason }
}
