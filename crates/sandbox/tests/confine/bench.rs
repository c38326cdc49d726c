//! A project beside a folder that must not be reached, and processes that are confined to parts of it.

use llm_do_core::authority::{
    Access, Authority, Bounds, Extent, Mount, Network, Origin, Place, Protection, View, VirtualPath,
};
use llm_do_sandbox::confine::{
    Confinement, Exit, Process, ProcessView, Running, Tier, env_allowlist, install_binary, probe,
};
use std::{
    ffi::OsString,
    fs,
    future::Future,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, LazyLock},
    time::Duration,
};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt};

pub(crate) const A: Confinement = Confinement::Tier(Tier::Namespaces);
pub(crate) const B: Confinement = Confinement::Tier(Tier::Landlock);
pub(crate) const NONE: Confinement = Confinement::Unconfined;

/// Content that must never leave its file, nor change.
pub(crate) const CANARY: &str = "CANARY-91c4: outside of every mount";

/// Timeout of everything in these tests, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes a test of each tier out of an `async fn(Confinement)`.
macro_rules! both_tiers {
    ($($name:ident),+ $(,)?) => {
        mod a {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { crate::bench::in_tier(crate::bench::A, super::$name).await; })+
        }
        mod b {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { crate::bench::in_tier(crate::bench::B, super::$name).await; })+
        }
    };
}
pub(crate) use both_tiers;

/// Runs a test if the machine has the tier, and says so if not.
pub(crate) async fn in_tier<F: Future<Output = ()>>(
    confinement: Confinement,
    test: impl FnOnce(Confinement) -> F,
) {
    supervise();
    let Confinement::Tier(tier) = confinement else { panic!("only tiers are tested so") };
    if !probe().has(tier) {
        println!("skipped: this machine has no tier {}: {:?}", tier.letter(), probe().layers);
        return;
    }
    tokio::time::timeout(PATIENCE * 2, test(confinement)).await.expect("it takes too long");
}

/// Names the binary that supervises: a test has no `main` of its own.
pub(crate) fn supervise() {
    install_binary(env!("CARGO_BIN_EXE_llm-do-confine"));
}

/// The Python that the probes are written for, with the folder that it needs.
static PYTHON: LazyLock<(PathBuf, PathBuf)> = LazyLock::new(|| {
    let script = "import sys; print(sys.executable); print(sys.base_prefix)";
    let asked = Command::new("python3").args(["-c", script]).output().expect("the tests need python3");
    let said = String::from_utf8(asked.stdout).unwrap();
    let mut lines = said.lines().map(PathBuf::from);
    (lines.next().unwrap(), lines.next().unwrap())
});

/// Functions that the Python probes use.
const PRELUDE: &str = r#"
import ctypes, errno, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
ARM = os.uname().machine == "aarch64"
def syscall(x86, arm, *args):
    "A system call by its number; the name of the error, or 'ok'."
    number = arm if ARM else x86
    if number is None:
        return "ENOSYS"
    args = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    ctypes.set_errno(0)
    if libc.syscall(ctypes.c_long(number), *args) == -1:
        return errno.errorcode[ctypes.get_errno()]
    return "ok"
def attempt(name, action):
    "Does something and says what came of it: one line, `name: ok …` or `name: ERRNO`."
    try:
        print(f"{name}: ok {action()}", flush=True)
    except OSError as error:
        print(f"{name}: {errno.errorcode.get(error.errno, error)}", flush=True)
    except Exception as error:
        print(f"{name}: {type(error).__name__} {error}", flush=True)
def read(path):
    with open(path, "rb") as file:
        return file.read(4096)
def write(path, text="written by a confined process", how="w"):
    with open(path, how) as file:
        file.write(text)
"#;

/// The result of a program and its output.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) exit: Exit,
}

impl Ran {
    /// Returns the result of an attempt, by name.
    #[track_caller]
    pub(crate) fn of(&self, name: &str) -> &str {
        let prefix = format!("{name}: ");
        self.out
            .lines()
            .find_map(|line| line.strip_prefix(&prefix))
            .unwrap_or_else(|| panic!("nothing is said of {name}: {self:?}"))
    }

    /// Asserts that an attempt has failed, and that the script has reached its end.
    #[track_caller]
    pub(crate) fn refused(&self, name: &str) {
        let said = self.of(name);
        assert!(!said.starts_with("ok"), "{name} succeeded: {self:?}");
    }

    #[track_caller]
    pub(crate) fn succeeded(&self, name: &str) {
        let said = self.of(name);
        assert!(said.starts_with("ok"), "{name} failed: {self:?}");
    }
}

/// A folder `project` with a mount for reading and one for writing, beside a folder `outside`.
pub(crate) struct Bench {
    _dir: TempDir,
    pub(crate) top: PathBuf,
}

impl Bench {
    pub(crate) fn new() -> Self {
        supervise();
        // Not below /tmp, which is another folder inside.
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        for folder in ["project/rw/inner", "project/ro/inner", "project/.git", "project/.llm-do", "outside"] {
            fs::create_dir_all(top.join(folder)).unwrap();
        }
        for (file, text) in [
            ("project/rw/mine.txt", "to be changed"),
            ("project/ro/theirs.txt", "to be read"),
            ("project/main.worker", "---\nname: main\n---\nProtected\n"),
            ("project/.git/config", "[core]\n"),
            ("project/.llm-do/journal", CANARY),
            ("project/.env", CANARY),
            ("project/plan.md", "The plan\n"),
            ("outside/canary.txt", CANARY),
        ] {
            fs::write(top.join(file), text).unwrap();
        }
        Self { _dir: dir, top }
    }

    pub(crate) fn path(&self, rest: &str) -> PathBuf {
        self.top.join(rest)
    }

    /// Returns the first folder on the way from the machine's temporary folder to this, if it lies in there.
    pub(crate) fn in_temporary(&self) -> Option<String> {
        let below = self.top.strip_prefix("/tmp").ok()?;
        Some(below.iter().next()?.to_str()?.to_owned())
    }

    pub(crate) fn place(&self, rest: &str) -> Place {
        Place::new(self.path(rest).to_str().unwrap())
    }

    pub(crate) fn read(&self, rest: &str) -> String {
        fs::read_to_string(self.path(rest)).unwrap()
    }

    /// Returns authority over the project with these mounts, which the program declares.
    pub(crate) fn authority(&self, mounts: &[(&str, &str, Access)]) -> Authority {
        let mounts: Vec<Mount> = mounts
            .iter()
            .map(|(at, rest, access)| {
                let mut mount = Mount::new(VirtualPath::parse(at).unwrap(), self.place(rest), *access);
                mount.origin = Origin::Declared;
                mount
            })
            .collect();
        self.authority_of(mounts)
    }

    pub(crate) fn authority_of(&self, mounts: Vec<Mount>) -> Authority {
        let extents = [Extent { place: self.place("project"), access: Access::Write }]
            .into_iter()
            .chain(mounts.iter().map(|m| Extent { place: m.place.clone(), access: m.access }))
            .collect();
        let protection = Arc::new(Protection::new(self.place("project"), ["workers".to_owned()]));
        Authority::new(Bounds::new(extents, Network::Off), View::new(mounts), protection)
    }

    /// Returns a view with `rw` for writing and `ro` for reading.
    pub(crate) fn view(&self, confinement: Confinement) -> ProcessView {
        let authority =
            self.authority(&[("/rw", "project/rw", Access::Write), ("/ro", "project/ro", Access::Read)]);
        ProcessView::of(&authority, tier_of(confinement)).unwrap()
    }

    /// Returns a view of the whole project for writing, including the files that define it, and its secrets.
    pub(crate) fn whole(&self, confinement: Confinement) -> ProcessView {
        let authority = self.authority(&[("/", "project", Access::Write)]);
        ProcessView::of(&authority, tier_of(confinement)).unwrap()
    }

    /// Creates a Python probe with arguments, in the usual view.
    pub(crate) fn python(&self, confinement: Confinement, script: &str, args: &[&Path]) -> Process {
        python(self.view(confinement), confinement, script, args)
    }

    /// Runs a Python probe in the usual view.
    pub(crate) async fn run(&self, confinement: Confinement, script: &str, args: &[&Path]) -> Ran {
        run(self.python(confinement, script, args)).await
    }
}

pub(crate) fn tier_of(confinement: Confinement) -> Tier {
    match confinement {
        Confinement::Tier(tier) => tier,
        Confinement::Unconfined => Tier::Namespaces,
    }
}

/// Creates a process with the environment that any process may have.
pub(crate) fn process(view: ProcessView, confinement: Confinement, program: impl Into<PathBuf>) -> Process {
    supervise();
    let mut process = Process::new(program, view, confinement);
    let env = env_allowlist(|_| None);
    process.env = env.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    process
}

pub(crate) fn python(view: ProcessView, confinement: Confinement, script: &str, args: &[&Path]) -> Process {
    let (program, prefix) = &*PYTHON;
    let mut process = process(view.with_readable([prefix.clone()]), confinement, program);
    process.args = ["-I", "-c"].into_iter().map(OsString::from).collect();
    process.args.push(format!("{PRELUDE}\n{script}").into());
    process.args.extend(args.iter().map(|arg| arg.as_os_str().to_owned()));
    process
}

pub(crate) fn shell(view: ProcessView, confinement: Confinement, script: &str) -> Process {
    let mut process = process(view, confinement, "/bin/sh");
    process.args = vec!["-c".into(), script.into()];
    process
}

/// Starts a process and waits for its end.
pub(crate) async fn run(process: Process) -> Ran {
    finish(process.start().await.expect("it starts")).await
}

pub(crate) async fn finish(mut running: Running) -> Ran {
    let (out, err) = (all_of(running.stdout()), all_of(running.stderr()));
    let all = tokio::time::timeout(PATIENCE, async { tokio::join!(out, err, running.wait()) }).await;
    let (out, err, exit) = all.expect("it ends");
    Ran { out, err, exit }
}

pub(crate) async fn all_of(from: Option<impl AsyncRead + Unpin>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut from) = from {
        from.read_to_end(&mut bytes).await.unwrap();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits until a condition holds.
#[track_caller]
pub(crate) fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let started = std::time::Instant::now();
    while !is() {
        assert!(started.elapsed() < PATIENCE, "{what} never became true");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Lists the processes of this machine with `mark` in their arguments.
pub(crate) fn processes_with(mark: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(arguments) = fs::read(entry.path().join("cmdline")) else { continue };
        if String::from_utf8_lossy(&arguments).contains(mark) {
            found.push(pid);
        }
    }
    found
}
