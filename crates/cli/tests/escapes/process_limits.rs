//! Confined processes against their own limits and termination.

use crate::{
    attempt::{Attack, Attempt, Group, Layer::Launcher, Need, Outcome, Tried, Who::Process, must},
    probe::{A, B, Probe, Victim, finish, launched, parts, python, python_in, run},
    processes::in_tier,
    world::{TIMEOUT, World, eventually, wait},
};
use llm_do::confine::{Confinement, ProcessView, Tier};
use llm_do_core::authority::{Access, Place};
use std::{fs, os::unix::fs::symlink, process::Command, time::Duration};

pub(crate) fn group() -> Group {
    let mut attempts: Vec<Attempt> = vec![
        Probe::new(
            "more memory than its limit",
            ("`RLIMIT_DATA`", "MemoryError"),
            ("`RLIMIT_DATA`", "MemoryError"),
            "return len(bytearray(1 << 30))",
        )
        .limits(|limits| limits.memory = 256 << 20)
        .outcome(Outcome::Bounded),
        Probe::new(
            "a sparse file of a terabyte",
            ("`RLIMIT_FSIZE`", "EFBIG"),
            ("`RLIMIT_FSIZE`", "EFBIG"),
            "with open(RW + '/sparse', 'wb') as file:\n  return file.truncate(1 << 40)",
        )
        .outcome(Outcome::Bounded),
        Probe::new(
            "opening descriptors without bound",
            ("`RLIMIT_NOFILE`", "EMFILE"),
            ("`RLIMIT_NOFILE`", "EMFILE"),
            "return len([open('/dev/null') for _ in range(200)])",
        )
        .limits(|limits| limits.open_files = 64)
        .outcome(Outcome::Bounded),
        Probe::new(
            "raising its own limits",
            ("no capabilities", "EPERM"),
            ("no capabilities", "EPERM"),
            "return syscall(302, 261, 0, 7, (ctypes.c_ulong * 2)(64, 1 << 20 if not FREE else 64), 0)",
        )
        .limits(|limits| limits.open_files = 64),
        Probe::new(
            "using processor time without bound",
            ("`RLIMIT_CPU`", "signal 24|signal 9"),
            ("`RLIMIT_CPU`", "signal 24|signal 9"),
            "import time\nwhile time.process_time() < (0.1 if FREE else 60):\n  pass",
        )
        .limits(|limits| limits.processor_seconds = Some(1))
        .outcome(Outcome::Ended),
        Probe::new(
            "filling its temporary folder with one file",
            ("size of a tmpfs", "ENOSPC"),
            ("`RLIMIT_FSIZE`", "EFBIG"),
            "return write(os.environ['TMPDIR'] + '/full', 'x' * (8 << 20))",
        )
        .limits(|limits| {
            limits.temporary = 1 << 20;
            limits.file_size = 4 << 20;
        })
        .outcome(Outcome::Bounded),
        Probe::new(
            "filling an `rw` mount",
            ("each file: `RLIMIT_FSIZE`", "ok"),
            ("each file: `RLIMIT_FSIZE`", "ok"),
            "for n in range(8):\n  write(f'{RW}/{n}', 'x' * (1 << 20))",
        )
        .limits(|limits| limits.file_size = 1 << 20)
        .outcome(Outcome::Undefended(
            "the size of each file is limited, the number is not; use a mount on a separate disk",
        )),
    ]
    .into_iter()
    .map(Probe::attempt)
    .collect();
    let more: [(&'static str, &'static str, &'static str, Attack); 10] = [
        (
            "creating processes without bound (a fork bomb)",
            "A, B",
            "a control group; without one, A: `pid_max` of the namespace, `RLIMIT_NPROC`; B: the supervisor counts",
            fork_bomb,
        ),
        (
            "filling its temporary folder with many files",
            "B",
            "only the size of each file is limited",
            many_files,
        ),
        ("probing the existence and size of a file outside", "B", "Landlock does not hide names", exists),
        (
            "a daemonised child (own session, double fork)",
            "A, B",
            "A: the process namespace ends; B: the supervisor, a subreaper, kills it",
            daemon,
        ),
        ("ignoring every signal when its call is stopped", "A, B", "the supervisor sends `SIGKILL`", ignores),
        ("suspending itself when its call is stopped", "A, B", "the supervisor sends `SIGKILL`", stopped),
        (
            "leaving shared memory behind (`/dev/shm`)",
            "A, B",
            "A: a private file system; B: Landlock",
            shared_memory,
        ),
        (
            "replacing a mount by a link before the start",
            "A, B",
            "mounts are opened without following links",
            swapped_place,
        ),
        (
            "moving a hidden file away before the start",
            "A",
            "the launcher scans for hidden files again at the start",
            moved_hidden,
        ),
        ("a mount of `/`, `/proc`, `/sys` or `/dev`", "A, B", "these places are never mounted", never_given),
    ];
    attempts.extend(more.map(|(name, tier, mechanism, attack)| {
        launched(Attempt::new(Process, Launcher, name, mechanism, attack), tier)
    }));
    attempts.push(
        launched(
            Attempt::new(
                Process,
                Launcher,
                "more memory through shared mappings, files in memory (`memfd_create`) and many processes",
                "a control group",
                shared_memory_of_all,
            ),
            "A, B",
        )
        .needs(Need::ControlGroup),
    );
    attempts.push(launched(
        Attempt::new(
            Process,
            Launcher,
            "planting a hook in a mount without a `.git`",
            "the mount is scanned after the process ends",
            planted,
        ),
        "A, B",
    ));
    Group {
        title: "Limits, start and end of processes",
        about: "After each attempt, no process that sees the folder of the attempt may be left.",
        attempts,
    }
}

const FORK_BOMB: &str = "import time\nmade = 0\nwhile made < 600:\n  try:\n    if os.fork() == 0:\n      time.sleep(1000)\n      os._exit(0)\n    made += 1\n    time.sleep(0.001)\n  except OSError as error:\n    print('made', made, flush=True)\n    raise";

fn fork_bomb(world: &World) -> Tried {
    let victim = Victim::new(world);
    for tier in [A, B] {
        let mut process = python(world, &parts(world), tier, FORK_BOMB, &victim);
        process.limits.processes = 32;
        let ran = run(world, process);
        let counted = tier == B && ran.exit.reason.as_deref().unwrap_or("").contains("more processes");
        must(counted || ran.verdict() == "EAGAIN", format!("ESCAPE: {tier:?}: {ran:?}"))?;
    }
    let other = World::new();
    let free = run(&other, python(&other, &parts(&other), Confinement::Unconfined, FORK_BOMB, &victim));
    must(free.verdict() == "ok", format!("the control can't fork: {free:?}"))?;
    Ok(Outcome::Bounded)
}

fn many_files(world: &World) -> Tried {
    let script =
        "for n in range(8):\n  write(f\"{os.environ['TMPDIR']}/{n}\", 'x' * (1 << 20))\nreturn 'filled'";
    let victim = Victim::new(world);
    let mut process = python(world, &parts(world), B, script, &victim);
    process.limits.temporary = 1 << 20;
    let ran = run(world, process);
    must(ran.verdict() == "ok", format!("it is bounded now; change the outcome: {ran:?}"))?;
    let mut process = python(world, &parts(world), A, script, &victim);
    process.limits.temporary = 1 << 20;
    let ran = run(world, process);
    must(ran.verdict() == "ENOSPC", format!("ESCAPE: in tier A: {ran:?}"))?;
    Ok(Outcome::Undefended(
        "tier B limits only the size of each file, and removes the files at the end; tier A limits the folder",
    ))
}

fn exists(world: &World) -> Tried {
    let ran = in_tier(world, B, "return os.stat(CANARY).st_size");
    must(ran.verdict() == "ok", format!("it is hidden now; change the outcome: {ran:?}"))?;
    let ran = in_tier(world, A, "return os.stat(CANARY).st_size");
    must(ran.verdict() == "ENOENT", format!("ESCAPE: in tier A: {ran:?}"))?;
    Ok(Outcome::Undefended(
        "in tier B, a known path reveals its existence and size, no content; in tier A it does not exist",
    ))
}

const DAEMON: &str = "import time\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0:\n    while True:\n      time.sleep(1000)\n  os._exit(0)\nos.wait()\nreturn 'left'";

fn daemon(world: &World) -> Tried {
    for tier in [A, B] {
        // Its output is closed too, although the child held it.
        let ran = in_tier(world, tier, DAEMON);
        must(ran.verdict() == "ok", format!("{tier:?}: {ran:?}"))?;
        let gone = eventually(Duration::from_secs(20), || {
            world.processes().iter().all(|process| process.contains("(sleep)"))
        });
        must(gone, format!("ESCAPE: {tier:?} leaves {:?}", world.processes()))?;
    }
    // The control: without a supervisor, the process remains.
    let other = World::new();
    let mark = other.project("rw").display().to_string();
    let script =
        format!("import os, sys\nmark = {mark:?}\ndef left():\n  {}\nleft()", DAEMON.replace('\n', "\n  "));
    let ran = Command::new("/usr/bin/python3").args(["-I", "-c", &script]).status().unwrap();
    let left = other.processes();
    for stat in &left {
        let id =
            stat.split(' ').next().and_then(|id| id.parse().ok()).and_then(rustix::process::Pid::from_raw);
        let _ = rustix::process::kill_process(id.unwrap(), rustix::process::Signal::KILL);
    }
    must(ran.success() && left.len() == 1, format!("the control leaves {left:?}"))?;
    Ok(Outcome::Ended)
}

fn ends(world: &World, script: &str) -> Tried {
    for tier in [A, B] {
        let victim = Victim::new(world);
        let process = python(world, &parts(world), tier, script, &victim);
        world.arm();
        wait(async {
            let mut running = process.start().await.expect("it starts");
            let mut out = tokio::io::BufReader::new(running.stdout().expect("a pipe"));
            let mut line = String::new();
            tokio::io::AsyncBufReadExt::read_line(&mut out, &mut line).await.expect("a line");
            running.interrupt();
            running.kill();
            let ended = tokio::time::timeout(TIMEOUT / 2, running.wait()).await;
            must(ended.is_ok(), format!("ESCAPE: {tier:?}: it does not end"))
        })?;
        drop(victim);
        world.check_oracles()?;
    }
    Ok(Outcome::Ended)
}

fn ignores(world: &World) -> Tried {
    ends(
        world,
        "import signal, time\nfor s in range(1, 32):\n  try: signal.signal(s, signal.SIG_IGN)\n  except (OSError, ValueError): pass\nprint('ready', flush=True)\nwhile True:\n  try: time.sleep(100)\n  except BaseException: pass",
    )
}

fn stopped(world: &World) -> Tried {
    ends(
        world,
        "import signal\nprint('ready', flush=True)\nif os.fork() == 0:\n  os.kill(os.getpid(), signal.SIGSTOP)\nos.kill(os.getpid(), signal.SIGSTOP)",
    )
}

fn shared_memory(world: &World) -> Tried {
    let script = format!("return write('/dev/shm/{}')", world.abstract_socket());
    let left = format!("/dev/shm/{}", world.abstract_socket());
    for tier in [A, B] {
        let ran = in_tier(world, tier, &script);
        must(ran.verdict() == if tier == A { "ok" } else { "EACCES" }, format!("{tier:?}: {ran:?}"))?;
        must(!fs::exists(&left).unwrap(), format!("ESCAPE: {tier:?} leaves {left}"))?;
    }
    let other = World::new();
    let free =
        run(&other, python(&other, &parts(&other), Confinement::Unconfined, &script, &Victim::new(&other)));
    must(
        free.verdict() == "ok" && fs::remove_file(&left).is_ok(),
        format!("the control leaves nothing: {free:?}"),
    )?;
    Ok(Outcome::Inside)
}

fn shared_memory_of_all(world: &World) -> Tried {
    let shared = "import mmap\nblocks = [mmap.mmap(-1, 16 << 20) for _ in range(40)]\nfor block in blocks:\n  block.write(bytes(16 << 20))\nreturn 'much'";
    let files = "for number in range(40):\n  file = os.memfd_create('x')\n  os.write(file, bytes(16 << 20))\nreturn 'much'";
    let many = "import time\nfor number in range(6):\n  if os.fork() == 0:\n    block = bytearray(b'x') * (100 << 20)\n    time.sleep(1)\n    os._exit(0)\nif any(os.wait()[1] for number in range(6)):\n  raise MemoryError()\nreturn 'much'";
    let victim = Victim::new(world);
    for script in [shared, files, many] {
        for tier in [A, B] {
            let mut process = python(world, &parts(world), tier, script, &victim);
            process.limits.memory = 200 << 20;
            let ran = run(world, process);
            // The first process that finds no memory may be the supervisor, whose end ends the others.
            let supervisor = ran.verdict() == "signal 6" && ran.err.starts_with("memory allocation of ");
            must(
                supervisor || ["signal 9", "MemoryError"].contains(&ran.verdict().as_str()),
                format!("ESCAPE: {tier:?}: {ran:?}"),
            )?;
        }
        let other = World::new();
        let free = run(&other, python(&other, &parts(&other), Confinement::Unconfined, script, &victim));
        must(free.verdict() == "ok", format!("the control: {free:?}"))?;
    }
    Ok(Outcome::Bounded)
}

fn swapped_place(world: &World) -> Tried {
    for (tier, name) in [(A, Tier::Namespaces), (B, Tier::Landlock)] {
        let view = ProcessView::of(&parts(world), name).unwrap();
        fs::rename(world.project("rw"), world.project("away")).unwrap();
        symlink(world.outside(""), world.project("rw")).unwrap();
        world.arm();
        let victim = Victim::new(world);
        let script =
            "return each(lambda: read(RW + '/canary.txt'), lambda: read(CANARY), lambda: write(RW + '/new'))";
        let process = python_in(world, view, tier, script, &victim);
        let started = wait(async {
            match process.start().await {
                Ok(running) => Some(finish(running).await),
                Err(_) => None,
            }
        });
        if let Some(ran) = started {
            world.disclose(&ran.out);
            must(ran.verdict() != "ok", format!("ESCAPE: {tier:?}: {ran:?}"))?;
        }
        fs::remove_file(world.project("rw")).unwrap();
        fs::rename(world.project("away"), world.project("rw")).unwrap();
    }
    Ok(Outcome::Refused)
}

fn moved_hidden(world: &World) -> Tried {
    let hidden = world.put("sub/.env", &world.secret);
    let view = ProcessView::of(&world.whole(), Tier::Namespaces).unwrap();
    fs::rename(&hidden, world.project("sub/found.txt")).unwrap();
    fs::write(&hidden, "a decoy").unwrap();
    world.arm();
    let process = python_in(world, view, A, "return read(PROJECT + '/sub/found.txt')", &Victim::new(world));
    match wait(process.start()) {
        Ok(_) => Err("ESCAPE: it was started".into()),
        Err(error) => {
            must(error.to_string().contains(".env"), error.to_string())?;
            Ok(Outcome::Refused)
        }
    }
}

fn never_given(world: &World) -> Tried {
    for place in ["/", "/proc", "/proc/self", "/sys", "/dev"] {
        for tier in [Tier::Namespaces, Tier::Landlock] {
            let mut mount = world.mount("/m", "project/ro", Access::Read);
            mount.place = Place::new(place);
            let view = ProcessView::of(&world.authority(vec![mount]), tier).unwrap();
            // Only the part within the bounds may be visible, which is the project.
            let within = view.shown().iter().all(|shown| shown.place.starts_with(world.project("")));
            must(
                within && view.left_out().len() == 1 + usize::from(place == "/" && tier == Tier::Landlock),
                format!("ESCAPE: {place} is given: {view:?}"),
            )?;
        }
    }
    Ok(Outcome::Refused)
}

fn planted(world: &World) -> Tried {
    for tier in [A, B] {
        let Confinement::Tier(name) = tier else { continue };
        let rw = world.authority(vec![world.mount("/rw", "project/rw", Access::Write)]);
        let before = ProcessView::of(&rw, name).unwrap();
        let script = "os.makedirs(RW + '/.git/hooks')\nwrite(RW + '/new.worker')\nreturn write(RW + '/.git/hooks/post-commit')";
        let ran = in_tier(world, tier, script);
        must(ran.verdict() == "ok", format!("it is refused now; change the outcome: {ran:?}"))?;
        let found = before.set_aside_planted(&rw).unwrap();
        let places: Vec<_> = found.iter().map(|planted| &planted.place).collect();
        must(
            places == [&world.project("rw/.git"), &world.project("rw/new.worker")],
            format!("ESCAPE: found {found:?}"),
        )?;
        fs::remove_dir_all(world.project("rw/.git")).unwrap();
        must(!world.project("rw/new.worker").exists(), "ESCAPE: the worker is not set aside".to_owned())?;
        fs::remove_file(world.project("rw/new.worker.set-aside")).unwrap();
    }
    Ok(Outcome::Shown)
}
