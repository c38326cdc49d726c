//! A control group for each program: it limits the memory of all processes of the program together, with shared
//! mappings and files in memory, which no resource limit covers, and the number of processes.
//!
//! The permission to make a control group depends on the machine: root has it, and a user to whom systemd has delegated
//! a part of the tree (`user@UID.service`). Without a control group only the limits of each process apply, and `llm-do
//! doctor` reports this.

use super::Limits;
use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, Mode, OFlags, unlinkat},
    io::Errno,
};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// The folder at which the hierarchies are mounted.
const MOUNT: &str = "/sys/fs/cgroup";
/// The number of attempts to remove a group whose last process has just ended, a few milliseconds apart.
const TRIES: u32 = 20;

/// The control groups of one program: one in the unified hierarchy (version 2), or one for each controller (version 1).
#[derive(Debug)]
pub(super) struct ControlGroup(Vec<Group>);

/// A control group. Both descriptors are opened before the program has a root of its own, which contains no tree of
/// control groups.
#[derive(Debug)]
struct Group {
    parent: OwnedFd,
    name: String,
    /// The open file `cgroup.procs` of the group.
    members: File,
}

/// A place where a group may be made, and the files that set its limits.
struct Candidate {
    parent: PathBuf,
    memory: Option<&'static str>,
    processes: bool,
    /// Files that keep the memory from moving to the swap, if the kernel has them.
    swap: Option<(&'static str, bool)>,
}

impl ControlGroup {
    /// Makes the groups.
    ///
    /// # Errors
    /// The reason why no group limits the memory.
    pub(super) fn new(limits: &Limits) -> Result<Self, String> {
        let own = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
        let mut groups = Self(Vec::new());
        let (mut memory, mut processes) = (false, false);
        let mut reason = "no controller for memory is mounted".to_owned();
        for candidate in candidates(&own, Path::new(MOUNT)) {
            if (candidate.memory.is_some() && memory) || (candidate.memory.is_none() && processes) {
                continue;
            }
            match Group::new(&candidate, limits) {
                Ok(group) => {
                    memory |= candidate.memory.is_some();
                    processes |= candidate.processes;
                    groups.0.push(group);
                }
                Err(error) if candidate.memory.is_some() => {
                    reason = format!("{}: {error}", candidate.parent.display());
                }
                Err(_) => {}
            }
        }
        if memory { Ok(groups) } else { Err(reason) }
    }

    /// Moves the calling process into the groups. The processes that it starts stay in them.
    pub(super) fn join(&self) -> io::Result<()> {
        // 0 is the process that writes.
        self.0.iter().try_for_each(|group| (&group.members).write_all(b"0"))
    }
}

impl Group {
    fn new(candidate: &Candidate, limits: &Limits) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = rustix::fs::open(&candidate.parent, flags, Mode::empty())?;
        let name = format!("llm-do-{}", std::process::id());
        let folder = candidate.parent.join(&name);
        match fs::create_dir(&folder) {
            // Left by a supervisor that was killed and had the same number.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        let made = || {
            if let Some(file) = candidate.memory {
                fs::write(folder.join(file), limits.memory.to_string())?;
            }
            if let Some((file, is_sum)) = candidate.swap {
                let most = if is_sum { limits.memory } else { 0 };
                // Kernels without accounting of the swap have no such file.
                let _ = fs::write(folder.join(file), most.to_string());
            }
            if candidate.processes {
                fs::write(folder.join("pids.max"), limits.processes.to_string())?;
            }
            OpenOptions::new().write(true).open(folder.join("cgroup.procs"))
        };
        match made() {
            Ok(members) => Ok(Self { parent, name, members }),
            Err(error) => {
                let _ = fs::remove_dir(&folder);
                Err(error)
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..TRIES {
            match unlinkat(&self.parent, &self.name, AtFlags::REMOVEDIR) {
                Err(Errno::BUSY) => thread::sleep(Duration::from_millis(5)),
                _ => return,
            }
        }
    }
}

/// Returns the places where groups may be made, best first, from the text of `/proc/self/cgroup`: lines
/// `ID:CONTROLLERS:PATH`, without controllers for version 2. The hierarchies are mounted in `all_mounts`.
fn candidates(own: &str, all_mounts: &Path) -> Vec<Candidate> {
    let mut all = Vec::new();
    for line in own.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let path = Path::new(path.trim_start_matches('/'));
        if controllers.is_empty() {
            let mounts = [all_mounts.to_owned(), all_mounts.join("unified")];
            let Some(mount) = mounts.into_iter().find(|mount| mount.join("cgroup.controllers").exists())
            else {
                continue;
            };
            // A group with processes can't have controllers for groups below it, so the new group stands beside the
            // group of this process.
            let parent = path.parent().unwrap_or(path);
            let (memory, swap) = (Some("memory.max"), Some(("memory.swap.max", false)));
            all.push(Candidate { parent: mount.join(parent), memory, processes: true, swap });
            continue;
        }
        let has = |name: &str| controllers.split(',').any(|controller| controller == name);
        let mount = all_mounts.join(controllers);
        // In a container the mount may already be the group of this process.
        let parent = [mount.join(path), mount].into_iter().find(|parent| parent.is_dir());
        let Some(parent) = parent else { continue };
        if has("memory") {
            let swap = Some(("memory.memsw.limit_in_bytes", true));
            let memory = Some("memory.limit_in_bytes");
            all.push(Candidate { parent, memory, processes: has("pids"), swap });
        } else if has("pids") {
            all.push(Candidate { parent, memory: None, processes: true, swap: None });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_of_version_1_has_a_group_of_its_own() {
        let own = "8:pids:/\n4:memory:/not/there\n1:cpu,cpuacct:/\nwrong\n";
        let found = candidates(own, Path::new(MOUNT));
        for candidate in &found {
            assert!(candidate.parent.starts_with(MOUNT), "{:?}", candidate.parent);
            assert!(candidate.memory.is_some() || candidate.processes);
        }
        assert!(found.len() <= 2);
        assert!(candidates("", Path::new(MOUNT)).is_empty());
    }

    /// The test needs a machine without controllers of version 1, for the kernel's own files of version 2.
    #[test]
    fn a_group_of_version_2_is_made_beside_the_own_one() {
        let mounts = tempfile::tempdir().unwrap();
        let own = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run.scope\n";
        assert!(candidates(own, mounts.path()).is_empty(), "nothing is mounted");
        for mount in [mounts.path().join("unified"), mounts.path().to_owned()] {
            fs::create_dir_all(&mount).unwrap();
            fs::write(mount.join("cgroup.controllers"), "memory pids\n").unwrap();
            let found = candidates(own, mounts.path());
            let [candidate] = found.as_slice() else { panic!("{} candidates", found.len()) };
            let beside = mount.join("user.slice/user-1000.slice/user@1000.service/app.slice");
            assert_eq!(candidate.parent, beside);
            assert_eq!((candidate.memory, candidate.processes), (Some("memory.max"), true));
        }
        let [container] = &candidates("0::/\n", mounts.path())[..] else { panic!() };
        assert_eq!(container.parent, mounts.path().join(""));
    }
}
