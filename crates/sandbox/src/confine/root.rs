//! Tier A's file system: a new root that contains only the given places.
//!
//! All visible places are first opened without following links, and each is cloned as a separate mount. The new root
//! is then filled from those descriptors, outer places before inner ones. A concurrent change of the paths makes the
//! start fail but never exposes another place.

use super::{
    kernel, landlock,
    plan::{Fault, HoleKind, Plan, Reach},
    resource_limits, system,
};
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{
        AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, fstat, mkdirat, open, openat, openat2,
        readlinkat, statat, symlinkat,
    },
    io::Errno,
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags,
        UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount_change, move_mount,
        open_tree, unmount,
    },
    process::{chdir, fchdir, pivot_root},
};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

const LAYER: &str = "mounts";

/// Files of `/proc` that describe the machine and not the processes on it. All others are masked.
const KEPT_OF_PROC: &[&str] = &["cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "uptime", "version"];

/// The place of the private temporary folder. It is `/dev/shm` if the view contains a mount at `/tmp`.
pub(super) const TEMPORARY: &str = "/tmp";
pub(super) const SHARED_MEMORY: &str = "/dev/shm";

/// An entry of the new root.
enum Node {
    /// A subtree or file of the machine.
    Bound { mount: OwnedFd, is_folder: bool },
    /// A link of the machine between system places, such as `/bin`.
    Link(PathBuf),
    /// A fresh, empty, writable folder of limited size.
    Fresh { bytes: u64 },
    /// Hides this place, except for places of the view `inside` it.
    Hidden { device: u64, inode: u64, inside: bool },
    /// Makes this place read-only.
    ReadOnly { device: u64, inode: u64 },
}

fn fault(reason: impl std::fmt::Display) -> Fault {
    Fault::new(LAYER, reason)
}

fn plain() -> MountAttrFlags {
    MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV
}

fn read_only() -> MountAttrFlags {
    plain() | MountAttrFlags::MOUNT_ATTR_RDONLY
}

/// Returns the private temporary folder of a program with this view.
pub(super) fn temporary_folder(plan: &Plan) -> &'static Path {
    let taken = plan.places.iter().any(|given| given.place == Path::new(TEMPORARY));
    Path::new(if taken { SHARED_MEMORY } else { TEMPORARY })
}

/// Tries everything that tier A needs. The calling process is in new namespaces and ends afterwards.
pub(super) fn try_out() -> Result<(), Fault> {
    keep_to_ourselves()?;
    new_proc()?;
    let root = new_tmpfs(1 << 20, plain())?;
    let usr = clone_tree(Path::new("/"), &open_system(Path::new("/"))?)?;
    kernel::set_mount_attributes(usr.as_fd(), read_only(), true)
        .map_err(|error| fault(format!("mounts can't be made read-only: {error}")))?;
    attach(&root, open_system(Path::new("/proc"))?.as_fd())
}

/// Builds the root and enters it. The calling process is the first of its process namespace. Returns true if the kernel
/// limits the number of processes in that namespace.
pub(super) fn enter(plan: &Plan) -> Result<bool, Fault> {
    keep_to_ourselves()?;
    let proc = new_proc()?;
    let limited = resource_limits::limit_pids(proc.as_fd(), plan.limits.processes)?;
    let nodes = collect(plan)?;

    let root = new_tmpfs(16 << 20, plain())?;
    // Any folder of the new root will do as the mount point: everything that is needed of the old root is open by now.
    attach(&root, open_system(Path::new("/proc"))?.as_fd())?;

    let masks = Masks::new(&root)?;
    write_settings(&root, plan)?;
    for (path, node) in nodes {
        place(&root, &path, node, &masks).map_err(|fault| fault.at(&path))?;
    }
    make_devices(&root)?;
    mount_proc(&root, &proc, &masks)?;
    drop(masks);

    kernel::set_mount_attributes(root.as_fd(), read_only(), false).map_err(fault)?;
    fchdir(&root).map_err(fault)?;
    pivot_root(".", ".").map_err(|error| fault(format!("the root can't be changed: {error}")))?;
    unmount(".", UnmountFlags::DETACH).map_err(fault)?;
    chdir("/").map_err(fault)?;
    Ok(limited)
}

fn keep_to_ourselves() -> Result<(), Fault> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(|error| fault(format!("mounts can't be made private: {error}")))
}

/// Mounts a `/proc` of this process namespace. Containers that mask parts of their own don't allow a new one.
fn new_proc() -> Result<OwnedFd, Fault> {
    let attributes = plain() | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    new_mount("proc", &[], attributes)
        .map_err(|error| fault(format!("a new /proc can't be mounted ({error}): containers often forbid it")))
}

fn new_tmpfs(bytes: u64, attributes: MountAttrFlags) -> Result<OwnedFd, Fault> {
    let size = bytes.to_string();
    // An empty file takes kernel memory too.
    let files = (bytes / 4096).clamp(1024, 1 << 20).to_string();
    let options = [("size", size.as_str()), ("nr_inodes", &files), ("mode", "0755")];
    new_mount("tmpfs", &options, attributes)
        .map_err(|error| fault(format!("a new tmpfs can't be mounted: {error}")))
}

fn new_mount(kind: &str, options: &[(&str, &str)], attributes: MountAttrFlags) -> Result<OwnedFd, Errno> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        fsconfig_set_string(&context, *key, *value)?;
    }
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Clones the mount at `at`, with everything that is mounted below.
fn clone_tree(path: &Path, at: &OwnedFd) -> Result<OwnedFd, Fault> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(at, "", flags).map_err(|error| fault(error).at(path))
}

fn attach(mount: &OwnedFd, to: BorrowedFd<'_>) -> Result<(), Fault> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mount, "", to, "", flags).map_err(fault)
}

fn open_system(path: &Path) -> Result<OwnedFd, Fault> {
    open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(|error| fault(error).at(path))
}

fn is_folder(fd: impl AsFd) -> Result<bool, Fault> {
    let found = fstat(fd).map_err(fault)?;
    Ok(FileType::from_raw_mode(found.st_mode) == FileType::Directory)
}

/// Collects the entries of the root, by path. The order of the map places outer places before inner ones.
fn collect(plan: &Plan) -> Result<BTreeMap<PathBuf, Node>, Fault> {
    let mut nodes = BTreeMap::new();
    // If `/etc` is in the view, its files are used as they are: a link among them can't be a mount point.
    let given = |path: &Path| plan.places.iter().any(|given| path.starts_with(&given.place));
    let settings = system::SETTINGS.iter().map(Path::new).filter(|path| !given(path));
    for path in system::PROGRAMS.iter().map(Path::new).chain(settings) {
        if let Some(node) = system_node(path)? {
            nodes.insert(path.to_owned(), node);
        }
    }
    for path in [TEMPORARY, SHARED_MEMORY] {
        nodes.insert(path.into(), Node::Fresh { bytes: plan.limits.temporary });
    }
    for hole in &plan.holes {
        let (device, inode) = (hole.device, hole.inode);
        let node = match hole.kind {
            HoleKind::Hidden => {
                let inside = plan.places.iter().any(|given| given.place.starts_with(&hole.place));
                Node::Hidden { device, inode, inside }
            }
            HoleKind::ReadOnly => Node::ReadOnly { device, inode },
        };
        nodes.insert(hole.place.clone(), node);
    }
    for given in &plan.places {
        let opened = landlock::open_real(&given.place)
            .map_err(|error| Fault::new("view", super::view::gone(error)).at(&given.place))?;
        let mount = clone_tree(&given.place, &opened)?;
        let attributes = if given.write { plain() } else { read_only() };
        kernel::set_mount_attributes(mount.as_fd(), attributes, true)
            .map_err(|error| fault(error).at(&given.place))?;
        nodes.insert(given.place.clone(), Node::Bound { is_folder: is_folder(&opened)?, mount });
    }
    for link in &plan.links {
        // What is in a place has its own links. The kernel's folders and those of llm-do have none of others.
        let is_taken = nodes.keys().any(|path| link.at.starts_with(path) && !is_fresh(path));
        if !is_taken && !system::is_never_given(&link.at) && !nodes.contains_key(&link.at) {
            nodes.insert(link.at.clone(), Node::Link(link.leads_to.clone()));
        }
    }
    Ok(nodes)
}

/// Returns true if a place of the new root is an empty folder at first.
fn is_fresh(path: &Path) -> bool {
    [TEMPORARY, SHARED_MEMORY].iter().any(|fresh| path == Path::new(fresh))
}

/// Returns the node of a system place, or `None` if the machine doesn't have it.
fn system_node(path: &Path) -> Result<Option<Node>, Fault> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(None) };
    // Links among the programs are kept, so that a merged `/usr` is mounted once.
    if found.is_symlink() && system::PROGRAMS.iter().any(|program| Path::new(program) == path) {
        let leads_to = readlinkat(CWD, path, Vec::new()).map_err(|error| fault(error).at(path))?;
        let leads_to = PathBuf::from(leads_to.to_string_lossy().into_owned());
        return Ok(Some(Node::Link(leads_to)));
    }
    let Ok(real) = fs::canonicalize(path) else { return Ok(None) };
    let opened = open_system(&real)?;
    let mount = clone_tree(&real, &opened)?;
    kernel::set_mount_attributes(mount.as_fd(), read_only(), true).map_err(|error| fault(error).at(path))?;
    Ok(Some(Node::Bound { is_folder: is_folder(&opened)?, mount }))
}

/// Puts one node into the new root.
fn place(root: &OwnedFd, path: &Path, node: Node, masks: &Masks) -> Result<(), Fault> {
    let inside = path.strip_prefix("/").map_err(fault)?;
    match node {
        Node::Bound { mount, is_folder } => {
            let target = make(root, inside, is_folder)?;
            attach(&mount, target.as_fd())
        }
        Node::Fresh { bytes } => {
            let target = make(root, inside, true)?;
            attach(&new_tmpfs(bytes, plain())?, target.as_fd())?;
            Ok(())
        }
        Node::Link(leads_to) => {
            if let Some(parent) = inside.parent() {
                make(root, parent, true)?;
            }
            symlinkat(leads_to, root, inside).map_err(fault)
        }
        Node::Hidden { device, inode, inside: holds } => {
            let Some(target) = find(root, inside, device, inode)? else { return Ok(()) };
            // Mount points for the places inside are made in it.
            let mask = if holds { new_tmpfs(1 << 20, plain())? } else { masks.copy(is_folder(&target)?)? };
            attach(&mask, target.as_fd())
        }
        Node::ReadOnly { device, inode } => {
            let Some(target) = find(root, inside, device, inode)? else { return Ok(()) };
            let mount = clone_tree(path, &target)?;
            kernel::set_mount_attributes(mount.as_fd(), read_only(), true).map_err(fault)?;
            attach(&mount, target.as_fd())
        }
    }
}

fn resolve(root: impl AsFd, inside: &Path) -> Result<OwnedFd, Errno> {
    let inside = if inside.as_os_str().is_empty() { Path::new(".") } else { inside };
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(root, inside, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), how)
}

/// Opens a mount point in the new root, and makes it if it does not exist.
fn make(root: &OwnedFd, inside: &Path, is_folder: bool) -> Result<OwnedFd, Fault> {
    match resolve(root, inside) {
        Ok(found) => return Ok(found),
        Err(Errno::NOENT) => {}
        Err(error) => return Err(fault(error)),
    }
    let parent = match inside.parent() {
        Some(parent) => make(root, parent, true)?,
        None => return Err(fault(Errno::NOENT)),
    };
    let name = inside.file_name().ok_or_else(|| fault(Errno::INVAL))?;
    if is_folder {
        mkdirat(&parent, name, Mode::from_raw_mode(0o755)).map_err(fault)?;
    } else {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        openat(&parent, name, flags, Mode::from_raw_mode(0o444)).map_err(fault)?;
    }
    resolve(root, inside).map_err(fault)
}

/// Finds the hole that was found when the view was made. Returns `None` if it was a temporary file that no longer
/// exists.
fn find(root: &OwnedFd, inside: &Path, device: u64, inode: u64) -> Result<Option<OwnedFd>, Fault> {
    let changed =
        || Fault::new("view", "it was moved or replaced while the process was being started; try again");
    let fleeting = inside
        .file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with(llm_do_core::authority::TEMPORARY_PREFIX));
    let target = match resolve(root, inside) {
        Ok(target) => target,
        Err(Errno::NOENT) if fleeting => return Ok(None),
        Err(_) => return Err(changed()),
    };
    let found = fstat(&target).map_err(fault)?;
    if (found.st_dev, found.st_ino) == (device, inode) || fleeting {
        Ok(Some(target))
    } else {
        Err(changed())
    }
}

/// An empty file and an empty folder, both read-only, which are mounted over hidden places.
struct Masks {
    file: OwnedFd,
    folder: OwnedFd,
}

impl Masks {
    fn new(root: &OwnedFd) -> Result<Self, Fault> {
        // The temporary folder covers them later.
        let tmpfs = new_tmpfs(1 << 16, plain())?;
        let place = make(root, Path::new("tmp"), true)?;
        attach(&tmpfs, place.as_fd())?;
        mkdirat(&tmpfs, "folder", Mode::from_raw_mode(0o555)).map_err(fault)?;
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
        drop(openat(&tmpfs, "file", flags, Mode::from_raw_mode(0o444)).map_err(fault)?);
        kernel::set_mount_attributes(tmpfs.as_fd(), read_only(), false).map_err(fault)?;
        // Copies are taken from a mount that is in its place: older kernels copy no other.
        let opened = |name| resolve(&tmpfs, Path::new(name)).map_err(fault);
        Ok(Self { file: opened("file")?, folder: opened("folder")? })
    }

    fn copy(&self, folder: bool) -> Result<OwnedFd, Fault> {
        clone_tree(Path::new("mask"), if folder { &self.folder } else { &self.file })
    }
}

/// Binds the machine's own devices, one by one. No other device can be made or opened.
fn make_devices(root: &OwnedFd) -> Result<(), Fault> {
    for device in system::DEVICES.iter().map(Path::new) {
        let Ok(opened) = open_system(device) else { continue };
        let mount = clone_tree(device, &opened)?;
        let target = make(root, device.strip_prefix("/").map_err(fault)?, false)?;
        attach(&mount, target.as_fd())?;
    }
    let links = [("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")];
    for (name, leads_to) in links {
        symlinkat(format!("/proc/self/{leads_to}"), root, format!("dev/{name}")).map_err(fault)?;
    }
    Ok(())
}

/// Mounts the new `/proc`, and masks the files that describe or change the machine.
fn mount_proc(root: &OwnedFd, proc: &OwnedFd, masks: &Masks) -> Result<(), Fault> {
    let target = make(root, Path::new("proc"), true)?;
    attach(proc, target.as_fd())?;
    let listing = openat(proc, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(fault)?;
    for entry in rustix::fs::Dir::new(listing).map_err(fault)? {
        let entry = entry.map_err(fault)?;
        let name = entry.file_name();
        let text = name.to_string_lossy();
        let is_process = text.bytes().all(|byte| byte.is_ascii_digit());
        if is_process || text.starts_with('.') || KEPT_OF_PROC.contains(&&*text) {
            continue;
        }
        let found = statat(proc, name, AtFlags::SYMLINK_NOFOLLOW).map_err(fault)?;
        let kind = FileType::from_raw_mode(found.st_mode);
        // Links lead to the process's own folder.
        if kind == FileType::Symlink {
            continue;
        }
        let over = openat(proc, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
            .map_err(fault)?;
        attach(&masks.copy(kind == FileType::Directory)?, over.as_fd())?;
    }
    Ok(())
}

/// Makes those files of `/etc` that would otherwise name the machine's users and hosts.
fn write_settings(root: &OwnedFd, plan: &Plan) -> Result<(), Fault> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let home = temporary_folder(plan).display();
    let mut files = vec![
        ("passwd", format!("user:x:{user}:{group}::{home}:/bin/sh\n")),
        ("group", format!("user:x:{group}:\n")),
    ];
    if plan.network == Reach::Everything {
        for path in system::NETWORK_SETTINGS {
            if let (Some(name), Ok(text)) = (path.strip_prefix("/etc/"), fs::read_to_string(path)) {
                files.push((name, text));
            }
        }
    } else {
        files.push(("hosts", "127.0.0.1 localhost\n::1 localhost\n".into()));
        files.push(("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n".into()));
    }
    let etc = make(root, Path::new("etc"), true)?;
    for (name, text) in files {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = openat(&etc, name, flags, Mode::from_raw_mode(0o644)).map_err(fault)?;
        std::io::Write::write_all(&mut fs::File::from(file), text.as_bytes()).map_err(fault)?;
    }
    Ok(())
}
