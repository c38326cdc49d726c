//! Landlock: file access rights that the kernel enforces for a process and its descendants.

use super::{
    kernel,
    plan::{Fault, Plan, Reach},
    proxy, system,
};
use ::landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope, make_bitflags,
};
use rustix::{
    fd::OwnedFd,
    fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2},
    io::Errno,
};
use std::path::{Path, PathBuf};

/// The newest version that this file was written for.
const WRITTEN_FOR: ABI = ABI::V7;

/// The oldest version that confines on its own. Earlier versions allow truncating files outside.
pub(super) const LEAST_ALONE: u32 = 3;

/// The first version in which signals can't leave the domain.
pub(super) const SCOPES_SIGNALS: u32 = 6;

/// Returns the kernel's version.
pub(super) fn version() -> Option<u32> {
    kernel::landlock_version()
}

/// Returns the rights for read access. They include execution, because an interpreter could execute a readable file
/// anyway.
fn reading() -> BitFlags<AccessFs> {
    make_bitflags!(AccessFs::{Execute | ReadFile | ReadDir})
}

/// Returns the rights for write access. They exclude creating devices and, in mounts, sockets and pipes, at which other
/// processes could wait.
fn writing() -> BitFlags<AccessFs> {
    reading()
        | make_bitflags!(AccessFs::{WriteFile | RemoveDir | RemoveFile | MakeDir | MakeReg | MakeSym | Refer | Truncate})
}

/// Returns the rights in a private temporary folder. A place that is given below it (a project below `/tmp`, in tier A)
/// has all rights of the folder too, whatever its own rule says, so in that case the folder gets no more rights than a
/// mount.
fn temporary(folder: &Path, plan: &Plan) -> BitFlags<AccessFs> {
    if plan.places.iter().any(|given| given.place.starts_with(folder)) {
        return writing();
    }
    writing() | make_bitflags!(AccessFs::{MakeFifo | MakeSock})
}

/// Returns the rights on the devices that every program expects.
fn device() -> BitFlags<AccessFs> {
    make_bitflags!(AccessFs::{ReadFile | WriteFile})
}

/// A rule: a place, the rights on it, and the origin of the place.
struct Rule {
    place: PathBuf,
    rights: BitFlags<AccessFs>,
    from: From,
}

/// The origin of a rule's place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    /// The machine: the place may be absent, or a link to another place of the machine.
    System,
    /// The view or the launcher: the place must exist, and its path may contain no link.
    View,
}

/// Confines this process permanently. In tier A (`root` built) everything may be read, since the root contains only
/// the given places. In tier B the rules are the only barrier between the program and the machine.
pub(super) fn confine(plan: &Plan, temporary_folders: &[PathBuf], alone: bool) -> Result<(), Fault> {
    let mut rules = Vec::new();
    if alone {
        for place in system::places(plan.network == Reach::Everything) {
            rules.push(Rule { place, rights: reading(), from: From::System });
        }
    } else {
        rules.push(Rule { place: "/".into(), rights: reading(), from: From::View });
    }
    for device_name in system::DEVICES {
        rules.push(Rule { place: device_name.into(), rights: device(), from: From::System });
    }
    for folder in temporary_folders {
        rules.push(Rule { place: folder.clone(), rights: temporary(folder, plan), from: From::View });
    }
    for given in &plan.places {
        let rights = if given.write { writing() } else { reading() };
        if alone || given.write {
            rules.push(Rule { place: given.place.clone(), rights, from: From::View });
        }
    }
    let mut set = empty_set(plan.network)?;
    for rule in rules {
        set = add(set, &rule)?;
    }
    set.restrict_self().map_err(|error| Fault::new("landlock", error))?;
    Ok(())
}

/// Creates a ruleset without file rules. Its network rules allow only the reach in `network`.
fn empty_set(network: Reach) -> Result<RulesetCreated, Fault> {
    let fault = |error| Fault::new("landlock", error);
    let mut set = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(WRITTEN_FOR))
        .map_err(fault)?
        .scope(Scope::from_all(WRITTEN_FOR))
        .map_err(fault)?;
    if network != Reach::Everything {
        set = set.handle_access(AccessNet::from_all(WRITTEN_FOR)).map_err(fault)?;
    }
    let set = set.create().map_err(fault)?;
    if network == Reach::Proxy {
        return set.add_rule(NetPort::new(proxy::PORT, AccessNet::ConnectTcp)).map_err(fault);
    }
    Ok(set)
}

fn add(set: RulesetCreated, rule: &Rule) -> Result<RulesetCreated, Fault> {
    let opened = match rule.from {
        From::System => open(&rule.place, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()),
        From::View => open_real(&rule.place),
    };
    let fd = match opened {
        Ok(fd) => fd,
        Err(Errno::NOENT) if rule.from == From::System => return Ok(set),
        Err(error) => return Err(Fault::new("view", error).at(&rule.place)),
    };
    let found = fstat(&fd).map_err(|error| Fault::new("view", error).at(&rule.place))?;
    let is_folder = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
    let rights = if is_folder { rule.rights } else { rule.rights & AccessFs::from_file(WRITTEN_FOR) };
    set.add_rule(PathBeneath::new(fd, rights)).map_err(|error| Fault::new("landlock", error).at(&rule.place))
}

/// Opens a place without following any link in its path, because the operator did not put one there.
pub(super) fn open_real(place: &Path) -> Result<OwnedFd, Errno> {
    openat2(
        CWD,
        place,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    )
}
