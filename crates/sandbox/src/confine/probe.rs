//! Detects the confinement that this machine supports.

use super::Tier;
use std::sync::OnceLock;

/// The result of the probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The best available tier; `None`: processes can only run unconfined, if the operator grants that.
    pub tier: Option<Tier>,
    /// All layers, in display order.
    pub layers: Vec<Layer>,
}

/// A layer of confinement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// `namespaces`, `landlock`, `seccomp`, `cgroup`; on macOS `sandbox-exec`.
    pub name: &'static str,
    /// True if the layer works.
    pub works: bool,
    /// The details of the layer, or the reason why it is missing.
    pub found: String,
}

/// Detects the machine's capabilities by using them in a separate process. The first call blocks for some
/// milliseconds; later calls return the cached result.
pub fn probe() -> &'static Probe {
    static PROBE: OnceLock<Probe> = OnceLock::new();
    PROBE.get_or_init(find_out)
}

impl Probe {
    /// Returns true if a tier can be used here.
    pub fn has(&self, tier: Tier) -> bool {
        let works = |name| self.layers.iter().any(|layer| layer.name == name && layer.works);
        match tier {
            Tier::Namespaces => works("namespaces") && works("seccomp"),
            Tier::Landlock => works("landlock") && works("seccomp"),
            Tier::Seatbelt => works("sandbox-exec"),
        }
    }
}

#[cfg(target_os = "macos")]
fn find_out() -> Probe {
    let (works, found) = match super::process::try_out() {
        Ok(()) => (true, "macOS's own sandbox (unverified: no test of llm-do has run it)".to_owned()),
        Err(reason) => (false, reason),
    };
    Probe {
        tier: works.then_some(Tier::Seatbelt),
        layers: vec![Layer { name: "sandbox-exec", works, found }],
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn find_out() -> Probe {
    let found = format!("not used on {} yet, so nothing can confine a process here", std::env::consts::OS);
    Probe { tier: None, layers: vec![Layer { name: "confinement", works: false, found }] }
}

#[cfg(target_os = "linux")]
fn find_out() -> Probe {
    use super::{Limits, cgroup::ControlGroup, landlock, plan::Task, process};
    let namespaces = match process::try_out(Task::TryNamespaces) {
        Ok(()) => Ok("user, mount, process, IPC, host name and network namespaces".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    let landlock = match landlock::version() {
        Some(version) if version >= landlock::LEAST_ALONE => Ok(format!("version {version}")),
        Some(version) => Err(format!(
            "version {version}, which can't stop a process from truncating files; it is {} or later that confines alone",
            landlock::LEAST_ALONE
        )),
        None => Err("the kernel has none, or it is not switched on (`lsm=` on its command line)".into()),
    };
    let seccomp = match std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail") {
        Ok(actions) if actions.contains("errno") => Ok("system call filters".to_owned()),
        _ => Err("the kernel has no system call filters".into()),
    };
    let cgroup = match ControlGroup::new(&Limits::default()) {
        Ok(_) => Ok("limits the memory and number of all processes of a tool together".to_owned()),
        Err(reason) => Err(format!(
            "no control group can be made ({reason}): memory is limited for each process alone, and shared mappings and \
             files in memory (`memfd_create`) are not limited"
        )),
    };
    let layer = |name, result: Result<String, String>| {
        let works = result.is_ok();
        Layer { name, works, found: result.unwrap_or_else(|reason| reason) }
    };
    let mut probe = Probe {
        tier: None,
        layers: vec![
            layer("namespaces", namespaces),
            layer("landlock", landlock),
            layer("seccomp", seccomp),
            layer("cgroup", cgroup),
        ],
    };
    probe.tier = [Tier::Namespaces, Tier::Landlock].into_iter().find(|tier| probe.has(*tier));
    probe
}
