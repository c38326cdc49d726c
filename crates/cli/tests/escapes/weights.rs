//! Files with weights: they are parsed by a library that was not written for hostile files, in a process of its own.

use crate::{
    attempt::{
        Attempt, Group,
        Layer::{Launcher, Loader},
        Need, Outcome, Tried,
        Who::{self, Project},
        holds, must,
    },
    tiny_model::Gguf,
    world::{TIMEOUT, World, eventually},
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    path::PathBuf,
    process::{Child, Stdio},
};

/// The attacker's file, as the worker names it.
const MODEL: &str = "local:./x.gguf";

pub(crate) fn group() -> Group {
    Group {
        title: "Files with weights",
        about: "A project brings a GGUF file that its worker names as the model. The control runs a harmless one to its \
                answer. Oracles: the exit code and the message of llm-do itself, what the kernel says of the process that \
                holds the file, and no process that outlives llm-do.",
        attempts: vec![
            row(Loader, "-", "weights of a project, without a grant", "needs the grant `weights=PATH`", no_grant),
            row(
                Launcher,
                "A, B",
                "a file that makes the library abort while it loads",
                "the file is parsed in a process of its own; its end is an error that names the file",
                |world| in_both_tiers(world, aborts),
            )
            .needs(Need::Tiers),
            row(
                Launcher,
                "A, B",
                "the process of the weights with the project's files, the network, the environment or capabilities",
                "a view of this one file, an empty environment, a system call filter; A: namespaces; B: Landlock",
                |world| in_both_tiers(world, sees_nothing),
            )
            .needs(Need::Tiers),
            row(
                Launcher,
                "A, B",
                "outliving llm-do, which is killed in the middle of an answer",
                "the process ends with its supervisor, and the supervisor with llm-do",
                |world| in_both_tiers(world, outlives),
            )
            .needs(Need::Tiers),
        ],
    }
}

fn row(
    layer: crate::attempt::Layer,
    tier: &'static str,
    name: &'static str,
    mechanism: &'static str,
    attack: fn(&World) -> Tried,
) -> Attempt {
    const WHO: Who = Project;
    Attempt::new(WHO, layer, name, mechanism, attack).tier(tier).needs(Need::LocalModels)
}

/// Makes an attack in tier A in this world, then in tier B in another.
fn in_both_tiers(world: &World, attack: fn(&World) -> Tried) -> Tried {
    attack(world)?;
    let other = World::new();
    other.forbid_namespaces();
    let outcome = attack(&other);
    other.check_oracles()?;
    outcome
}

fn bring(world: &World, file: &Gguf) -> PathBuf {
    world.put("main.worker", format!("---\nmodel: {MODEL}\n---\nAnswer.\n"));
    let file = world.put("x.gguf", file.bytes());
    world.rearm();
    file
}

fn no_grant(world: &World) -> Tried {
    for granted in [true, false] {
        let other = World::new();
        let world = if granted { &other } else { world };
        let grant = format!("weights={}", bring(world, &Gguf::tiny()).display());
        let mut arguments = vec![".", "hello", "--set", "max_tokens=8"];
        if granted {
            arguments.extend(["--grant", &grant]);
        }
        let report = world.run(&arguments);
        if granted {
            report.ended(0)?;
            must(report.stdout.trim().len() > 2, format!("the control: no answer: {report:?}"))?;
        } else {
            report.ended(3)?;
            holds(&report.stderr, &["--grant weights="])?;
        }
    }
    Ok(Outcome::Refused)
}

fn aborts(world: &World) -> Tried {
    let grant = format!("weights={}", bring(world, &Gguf::that_aborts()).display());
    let report = world.run(&[".", "hello", "--grant", &grant]);
    must(report.code == Some(1), format!("ESCAPE: llm-do itself ended: {report:?}"))?;
    holds(&report.stderr, &["x.gguf", "aborted", "The file may be damaged, or made to do harm"])?;
    must(!world.project("core").exists(), "ESCAPE: a core dump in the project")?;
    Ok(Outcome::Ended)
}

/// Starts a long answer, and stops the process of the weights in the middle of it.
fn stopped(world: &World) -> Result<(Child, Pid), crate::attempt::Escape> {
    let grant = format!("weights={}", bring(world, &Gguf::tiny()).display());
    let mut command = world.command(&[".", "hello", "--set", "max_tokens=4000", "--grant", &grant]);
    command.env("LLM_DO_CANARY_KEY", &world.secret);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut found = None;
    eventually(TIMEOUT, || {
        found = model_process(world);
        found.is_some() || child.try_wait().expect("a child").is_some()
    });
    let Some(process) = found else { return Err("the model's process was not seen".into()) };
    kill_process(process, Signal::STOP).expect("it is there");
    Ok((child, process))
}

/// The process that has loaded the attacker's file.
fn model_process(world: &World) -> Option<Pid> {
    let file = world.project("x.gguf").to_string_lossy().into_owned();
    let entries = fs::read_dir("/proc").ok()?;
    entries.flatten().find_map(|entry| {
        let command = fs::read(entry.path().join("cmdline")).ok()?;
        let arguments: Vec<_> = command.split(|byte| *byte == 0).collect();
        let is_model = arguments.get(1..3)? == [b"llm-do-model".as_slice(), file.as_bytes()];
        let is_loaded = fs::read_to_string(entry.path().join("maps")).ok()?.contains(&file);
        let pid = entry.file_name().to_str()?.parse().ok()?;
        Pid::from_raw(pid).filter(|_| is_model && is_loaded)
    })
}

fn sees_nothing(world: &World) -> Tried {
    let (mut child, process) = stopped(world)?;
    let of = |what: &str| PathBuf::from(format!("/proc/{}/{what}", process.as_raw_nonzero()));
    let text = |what: &str| {
        let bytes = fs::read(of(what)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (environment, status) = (text("environ"), text("status"));
    world.disclose(&environment);
    let opened: Vec<String> = fs::read_dir(of("fd"))
        .expect("its descriptors")
        .flatten()
        .filter_map(|entry| Some(fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned()))
        .collect();
    let in_network = |of: &str| fs::read_link(format!("/proc/{of}/ns/net")).expect("a namespace");
    let is_apart = in_network(&process.as_raw_nonzero().to_string()) != in_network("self");
    let beside = of("root").join(world.project(".env").strip_prefix("/").expect("an absolute path"));
    let sees_beside = beside.exists();
    child.kill().expect("it runs");
    child.wait().expect("a child");

    let names: Vec<&str> = environment
        .split('\0')
        .filter_map(|entry| entry.split('=').next())
        .filter(|it| !it.is_empty())
        .collect();
    must(
        names.iter().all(|name| ["GGML_NO_BACKTRACE", "HOME", "TMPDIR"].contains(name)),
        format!("ESCAPE: it has {names:?}"),
    )?;
    holds(&status, &["Seccomp:\t2", "NoNewPrivs:\t1", "CapEff:\t0000000000000000"])?;
    let top = world.top.to_string_lossy();
    let foreign = opened.iter().find(|path| path.contains(&*top) && !path.ends_with("/x.gguf"));
    must(foreign.is_none(), format!("ESCAPE: it has opened {foreign:?}"))?;
    if !world.has_no_namespaces() {
        must(is_apart, "ESCAPE: it is in the machine's network")?;
        must(!sees_beside, "ESCAPE: it sees the file beside its own")?;
    }
    Ok(Outcome::Refused)
}

fn outlives(world: &World) -> Tried {
    let (mut child, process) = stopped(world)?;
    // A process that is stopped can do nothing for its own end.
    child.kill().expect("it runs");
    child.wait().expect("a child");
    let path = PathBuf::from(format!("/proc/{}", process.as_raw_nonzero()));
    must(eventually(TIMEOUT, || !path.exists()), "ESCAPE: it is left")?;
    Ok(Outcome::Ended)
}
