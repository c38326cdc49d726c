//! Attacks from inside a confined process: a Python function, run in both tiers and, as the control, in none.

use crate::{
    attempt::{Attempt, Escape, Layer::Launcher, Need, Outcome, Tried, Who::Process, must},
    world::{World, wait},
};
use llm_do::confine::{
    Confinement, Exit, Limits, Process as Confined, ProcessView, Running, Tier, env_allowlist, install_binary,
};
use llm_do_core::authority::{Access, Authority, Network};
use serde_json::{Value, json};
use std::{
    ffi::OsString,
    fs::{self, File},
    io::Read as _,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, LazyLock, atomic::Ordering},
};
use tokio::io::{AsyncRead, AsyncReadExt};

pub(crate) const A: Confinement = Confinement::Tier(Tier::Namespaces);
pub(crate) const B: Confinement = Confinement::Tier(Tier::Landlock);

/// The expected result of a probe without a tier, which shows that the probe works.
#[derive(Clone, Copy)]
pub(crate) enum Control {
    /// Any of these verdicts, for every user.
    Says(&'static str),
    /// Any of these verdicts, for root; an ordinary user lacks the right anyway.
    AsRoot(&'static str),
    /// An error of the kernel itself and not of a filter: any error but `EPERM`.
    Reaches,
    /// The same as `Reaches`, for root.
    ReachesAsRoot,
}

/// An attack and its expected verdicts.
pub(crate) struct Probe {
    name: &'static str,
    /// The body of a Python function; its return value or its error is the verdict.
    script: &'static str,
    /// The mechanism that stops it in tier A, and the verdicts that show it (`ENOENT|EACCES`).
    a: (&'static str, &'static str),
    b: (&'static str, &'static str),
    control: Control,
    whole: bool,
    network: bool,
    limits: Limits,
    outcome: Outcome,
    prepare: fn(&World),
    afterwards: fn(&World) -> Result<(), Escape>,
    /// The Node that runs it, if it is not run directly.
    node: Option<PathBuf>,
}

impl Probe {
    pub(crate) fn new(
        name: &'static str,
        a: (&'static str, &'static str),
        b: (&'static str, &'static str),
        script: &'static str,
    ) -> Self {
        Self {
            name,
            script,
            a,
            b,
            control: Control::Says("ok"),
            whole: false,
            network: false,
            limits: Limits::default(),
            outcome: Outcome::Refused,
            prepare: |_| {},
            afterwards: |_| Ok(()),
            node: None,
        }
    }

    /// A Node host's process makes the probe: the launcher confines Node, which starts the same code.
    pub(crate) fn under_node(mut self, node: &Path) -> Self {
        self.node = Some(node.to_owned());
        self
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// The system call filter stops it in both tiers, with `EPERM`.
    pub(crate) fn filtered(name: &'static str, script: &'static str) -> Self {
        Self::new(name, ("seccomp", "EPERM"), ("seccomp", "EPERM"), script)
    }

    /// A target outside: absent in tier A, denied in tier B.
    pub(crate) fn outside(name: &'static str, script: &'static str) -> Self {
        Self::new(name, ("mount namespace", "ENOENT"), ("Landlock", "EACCES"), script)
    }

    pub(crate) fn control_as_root(mut self, verdicts: &'static str) -> Self {
        self.control = Control::AsRoot(verdicts);
        self
    }

    pub(crate) fn reaches(mut self) -> Self {
        self.control = Control::Reaches;
        self
    }

    pub(crate) fn reaches_as_root(mut self) -> Self {
        self.control = Control::ReachesAsRoot;
        self
    }

    /// The whole project is mounted for writing, with its hidden files.
    pub(crate) fn whole(mut self) -> Self {
        self.whole = true;
        self
    }

    pub(crate) fn network(mut self) -> Self {
        self.network = true;
        self
    }

    pub(crate) fn limits(mut self, change: fn(&mut Limits)) -> Self {
        change(&mut self.limits);
        self
    }

    pub(crate) fn outcome(mut self, outcome: Outcome) -> Self {
        self.outcome = outcome;
        self
    }

    pub(crate) fn prepare(mut self, prepare: fn(&World)) -> Self {
        self.prepare = prepare;
        self
    }

    pub(crate) fn afterwards(mut self, afterwards: fn(&World) -> Result<(), Escape>) -> Self {
        self.afterwards = afterwards;
        self
    }

    pub(crate) fn attempt(self) -> Attempt {
        let mechanism = match (self.a.0, self.b.0) {
            (a, b) if a == b => a.to_owned(),
            (a, b) => format!("A: {a}; B: {b}"),
        };
        launched(Attempt::new(Process, Launcher, self.name, mechanism, move |world| self.run(world)), "A, B")
    }

    pub(crate) fn run(&self, world: &World) -> Tried {
        self.control_holds()?;
        (self.prepare)(world);
        for (tier, (_, verdicts)) in [(A, self.a), (B, self.b)] {
            let ran = self.once(world, tier);
            let verdict = ran.verdict();
            must(
                verdicts.split('|').any(|expected| expected == verdict),
                format!("{tier:?} says {verdict}, not {verdicts}: {ran:?}"),
            )?;
            (self.afterwards)(world)?;
            world.check_files()?;
        }
        Ok(self.outcome.clone())
    }

    /// Runs the probe unconfined in a world of its own.
    fn control_holds(&self) -> Result<(), Escape> {
        let root = rustix::process::geteuid().is_root();
        let expected = match self.control {
            Control::AsRoot(_) | Control::ReachesAsRoot if !root => return Ok(()),
            Control::Says(verdicts) | Control::AsRoot(verdicts) => Some(verdicts),
            Control::Reaches | Control::ReachesAsRoot => None,
        };
        let world = World::new();
        (self.prepare)(&world);
        let ran = self.once(&world, Confinement::Unconfined);
        let verdict = ran.verdict();
        let works = match expected {
            Some(verdicts) => verdicts.split('|').any(|expected| expected == verdict),
            None => verdict.split('+').all(|name| name == "ok" || (name.starts_with('E') && name != "EPERM")),
        };
        must(
            works,
            format!(
                "the control, unconfined, says {verdict}, not {}: {ran:?}",
                expected.unwrap_or("what the kernel says")
            ),
        )
    }

    fn once(&self, world: &World, confinement: Confinement) -> Ran {
        let mut victim = Victim::new(world);
        let authority = if self.whole { world.whole() } else { parts(world) };
        let mut process = python(world, &authority, confinement, self.script, &victim);
        if let Some(node) = &self.node {
            process = in_node(process, node);
        }
        process.limits = match confinement {
            Confinement::Tier(_) => self.limits,
            // An unconfined process has limits too: these are as good as none.
            Confinement::Unconfined => Limits {
                memory: 1 << 42,
                file_size: 1 << 42,
                open_files: 1 << 12,
                processes: 1 << 12,
                ..Limits::default()
            },
        };
        process.network = if self.network { Network::On } else { Network::Off };
        let ran = run(world, process);
        if confinement != Confinement::Unconfined {
            assert!(victim.lives(), "ESCAPE: the victim is dead: {ran:?}");
        }
        ran
    }
}

/// An attempt that starts confined processes.
pub(crate) fn launched(attempt: Attempt, tier: &'static str) -> Attempt {
    attempt.tier(tier).needs(Need::Tiers).needs(Need::Python)
}

/// `rw` for writing and `ro` for reading.
pub(crate) fn parts(world: &World) -> Arc<Authority> {
    world.authority(vec![
        world.mount("/rw", "project/rw", Access::Write),
        world.mount("/ro", "project/ro", Access::Read),
    ])
}

/// A process outside that the probes attack. It has the canary open and the secret in its environment.
pub(crate) struct Victim(Child);

impl Victim {
    pub(crate) fn new(world: &World) -> Self {
        let mut command = Command::new("sleep");
        command.arg("1000").env("VICTIM_KEY", &world.secret).current_dir(world.outside("")).process_group(0);
        command.stdin(Stdio::from(File::open(world.outside("canary.txt")).unwrap()));
        Self(command.spawn().unwrap())
    }

    /// A victim in which these signals stay pending.
    pub(crate) fn counting(world: &World) -> Self {
        let script = "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGURG, signal.SIGUSR1])\nprint(1, flush=True)\ntime.sleep(1000)";
        let mut command = Command::new("/usr/bin/python3");
        command
            .args(["-I", "-c", script])
            .current_dir(world.outside(""))
            .process_group(0)
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let ready = child.stdout.take().unwrap().read_exact(&mut [0; 2]);
        let victim = Self(child);
        ready.unwrap();
        victim
    }

    /// Returns true if a signal is pending.
    pub(crate) fn was_hit(&self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:")).unwrap();
        pending.trim().bytes().any(|digit| digit != b'0')
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    fn lives(&mut self) -> bool {
        self.0.try_wait().is_ok_and(|ended| ended.is_none())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The output and the exit of a process.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) exit: Exit,
}

impl Ran {
    /// `ok`, the name of an error, a signal or an exit code.
    pub(crate) fn verdict(&self) -> String {
        let last = self.out.lines().last().unwrap_or_default();
        let said: Value = serde_json::from_str(last).unwrap_or_default();
        match (said["verdict"].as_str(), self.exit.signal) {
            (_, Some(signal)) => format!("signal {signal}"),
            (Some(verdict), None) => verdict.to_owned(),
            (None, None) => match self.exit.code {
                Some(code) => format!("code {code}"),
                None => "ended".into(),
            },
        }
    }
}

/// The Python interpreter, and the folder of its standard library.
static PYTHON: LazyLock<(PathBuf, PathBuf)> = LazyLock::new(|| {
    let script = "import sys; print(sys.executable); print(sys.base_prefix)";
    let asked = Command::new("/usr/bin/python3").args(["-c", script]).output().expect("it starts");
    let said = String::from_utf8(asked.stdout).expect("paths of an interpreter are text");
    let mut lines = said.lines().map(PathBuf::from);
    (lines.next().expect("a program"), lines.next().expect("a folder"))
});

/// A process that runs the body of a Python function in a view of this authority.
pub(crate) fn python(
    world: &World,
    authority: &Authority,
    confinement: Confinement,
    script: &str,
    victim: &Victim,
) -> Confined {
    let tier = match confinement {
        Confinement::Tier(tier) => tier,
        Confinement::Unconfined => Tier::Namespaces,
    };
    let view = ProcessView::of(authority, tier).expect("a view");
    python_in(world, view, confinement, script, victim)
}

/// The same in a view that was created before.
pub(crate) fn python_in(
    world: &World,
    view: ProcessView,
    confinement: Confinement,
    script: &str,
    victim: &Victim,
) -> Confined {
    install_binary(env!("CARGO_BIN_EXE_llm-do"));
    world.launched.store(true, Ordering::Relaxed);
    let (program, prefix) = &*PYTHON;
    let mut process = Confined::new(program, view.with_readable([prefix.clone()]), confinement);
    let env = env_allowlist(|_| None);
    process.env = env.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    let facts = json!({
        "OUTSIDE": world.outside(""), "CANARY": world.outside("canary.txt"), "PROJECT": world.project(""),
        "RW": world.project("rw"), "RO": world.project("ro"), "PORT": world.port(), "DOOR": world.abstract_socket(),
        "VICTIM": victim.id(), "FREE": confinement == Confinement::Unconfined,
    });
    let prelude = include_str!("prelude.py");
    process.args =
        ["-I", "-c", prelude, script, &facts.to_string()].into_iter().map(OsString::from).collect();
    process
}

/// Starts a program, with this process's output, and ends as it ends.
const RELAY: &str = "const { spawnSync } = require('node:child_process');\n\
                     const { status, signal } = spawnSync(process.argv[1], process.argv.slice(2), { stdio: 'inherit' });\n\
                     if (signal) process.kill(process.pid, signal); else process.exitCode = status;";

/// The same process, started by a Node in its place.
fn in_node(process: Confined, node: &Path) -> Confined {
    let program = process.program.clone();
    let start = ["-e".into(), RELAY.into(), "--".into(), program.into()];
    let view = process.view.clone().with_readable([node.to_owned()]);
    let args = start.into_iter().chain(process.args.clone()).collect();
    Confined { args, env: process.env.clone(), ..Confined::new(node, view, process.confinement) }
}

/// Runs a process to its end. The attacker learns the output of a confined process.
pub(crate) fn run(world: &World, process: Confined) -> Ran {
    let confined = process.confinement != Confinement::Unconfined;
    if confined {
        world.arm();
    }
    let ran = wait(async {
        let running = process.start().await.expect("it starts");
        finish(running).await
    });
    if confined {
        world.disclose(&ran.out);
        world.disclose(&ran.err);
    }
    ran
}

pub(crate) async fn finish(mut running: Running) -> Ran {
    let (out, err) = (all_of(running.stdout()), all_of(running.stderr()));
    let (out, err, exit) = tokio::join!(out, err, running.wait());
    Ran { out, err, exit }
}

async fn all_of(from: Option<impl AsyncRead + Unpin>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut from) = from {
        from.read_to_end(&mut bytes).await.expect("a pipe can be read");
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
