//! Links, special files and huge files in the project, met by the file tools.

use crate::{
    attempt::{
        Attempt, Escape, Group,
        Layer::Files,
        Need, Outcome, Tried,
        Who::{self, Model, Project},
        must,
    },
    paths::{calls, writes},
    world::World,
};
use llm_do_core::authority::Access;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;
use std::{
    fs::{self, File},
    os::unix::{
        fs::{MetadataExt, PermissionsExt, symlink},
        net::UnixListener,
    },
    time::{Duration, Instant},
};

const DESCRIPTORS: &str =
    "path components are opened one by one below a descriptor; links resolve inside the project";

/// Makes every call on a link and on paths behind it. A link that was moved or deleted is restored.
fn behind(world: &World, link: &str, target: &str, below: &[&str]) -> Tried {
    let authority = world.whole();
    let path = world.project(link);
    symlink(target, &path).map_err(|error| error.to_string())?;
    // The control: opening the path directly reaches the target.
    let reaches = below.iter().any(|rest| fs::metadata(format!("{}{rest}", path.display())).is_ok());
    for rest in below {
        for (tool, input) in calls(&format!("{link}{rest}")) {
            let _ = world.tool(&authority, tool, &input);
            for made in ["copied", "moved"] {
                let made = world.project(made);
                if let Ok(meta) = fs::symlink_metadata(&made) {
                    if !meta.is_symlink() {
                        world.disclose(fs::read_to_string(&made).unwrap_or_default());
                    }
                    let _ = fs::remove_file(&made).or_else(|_| fs::remove_dir_all(&made));
                }
            }
            if fs::symlink_metadata(&path).is_err() {
                symlink(target, &path).unwrap();
            }
            if !world.project("notes/plan.md").exists() {
                world.put("notes/plan.md", "The plan\n");
            }
            world.check_files().map_err(|escape| Escape(format!("{tool} {input}: {escape}")))?;
        }
    }
    must(reaches, format!("the control: {link} leads nowhere"))?;
    Ok(Outcome::Refused)
}

/// A link of the project with this name, to a target in the world.
fn link(
    name: &'static str,
    at: &'static str,
    target: fn(&World) -> String,
    below: &'static [&'static str],
) -> Attempt {
    Attempt::new(Project, Files, name, DESCRIPTORS, move |world| behind(world, at, &target(world), below))
}

fn on_files(who: Who, name: &'static str, mechanism: &'static str, attack: fn(&World) -> Tried) -> Attempt {
    Attempt::new(who, Files, name, mechanism, attack)
}

/// A program that answers, with one case and one run.
fn program_with_cases(world: &World) {
    world.put("main.worker", "---\ndescription: Goes.\nmodel: script:script.json\n---\nGo.\n");
    world.put("project.yaml", "name: x\n");
    world.answers(&json!({"answers": [{"text": "done"}]}));
    world.put("main.cases.yaml", "cases:\n- name: a\n  input: hi\n  expect: {output: done}\n");
}

/// Commands for which the operator names output files, with links of the project on the way.
fn commands_write_nothing_outside(world: &World) -> Tried {
    program_with_cases(world);
    world.run(&[".", "hi"]).ended(0)?;
    world.put("library/lib.yaml", "name: texts\nversion: 1.0.0\nexports: [a]\n");
    world.put("library/workers/a.worker", "---\n---\nHi.\n");
    let commands: [&[&str]; 15] = [
        &["skill", "install"],
        &["skill", "install", "--to", "out"],
        &["lib", "export", "--skill", "main", "-o", "out/skills"],
        &["runs", "export", "last", "--cases", "main"],
        &["runs", "export", "last", "--html", "-o", "out/page.html"],
        &["runs", "export", "last", "--html", "-o", "file"],
        &["test", "--junit", "file"],
        &["test", "--summary", "out/new.md"],
        &["test", "--html", "out/pages"],
        &["stubs", "--python", "-o", "file"],
        &[".", "hi", "-o", "file"],
        &["runs", "resume", "last", "-o", "file"],
        &["lib", "install", "./library", "--lib", "out/libraries"],
        &["init", "out/project"],
        &["migrate", "library/workers", "--into", "out/migrated", "--write"],
    ];
    let links = [
        ("../outside", "out"),
        ("../outside", ".agents"),
        ("../outside/canary.txt", "file"),
        ("../../outside", "cases/main"),
    ];
    fs::create_dir(world.project("cases")).unwrap();
    for (target, name) in links {
        symlink(target, world.project(name)).unwrap();
    }
    world.rearm();
    for command in commands {
        let report = world.run(command);
        must(report.code != Some(0), format!("ESCAPE: {command:?}: {report:?}"))?;
        world.check_files()?;
    }
    // The control: the same without links.
    for (_, name) in links {
        fs::remove_file(world.project(name)).unwrap();
    }
    fs::create_dir(world.project("out")).unwrap();
    for command in commands {
        world.run(command).ended(0)?;
    }
    Ok(Outcome::Refused)
}

pub(crate) fn group() -> Group {
    let outside = |world: &World| world.outside("").display().to_string();
    Group {
        title: "Links and special files in a project",
        about: "The files came with the project, or a tool left them there. Every file tool meets them. The \
                control opens the path directly and reaches the target.",
        attempts: vec![
            link("a link to a file outside, relative", "link", |_| "../outside/canary.txt".into(), &[""]),
            link(
                "a link to a file outside, absolute",
                "link",
                |world| world.outside("canary.txt").display().to_string(),
                &[""],
            ),
            link(
                "a link to a folder outside",
                "folder",
                outside,
                &["", "/canary.txt", "/new.txt", "/etc/passwd"],
            ),
            link(
                "a link to the parent folder or to the root",
                "notes/up",
                |_| "../..".into(),
                &["/outside/canary.txt", "/outside", "/project/.env"],
            ),
            link(
                "a link that leaves the project and returns",
                "winding",
                |_| "../project/../outside/canary.txt".into(),
                &["", "/"],
            ),
            on_files(
                Project,
                "a chain of links, the last of which leaves the project",
                DESCRIPTORS,
                |world| {
                    symlink("notes/second", world.project("first")).unwrap();
                    symlink("../../outside", world.project("notes/third")).unwrap();
                    behind(world, "notes/second", "third/canary.txt", &[""])?;
                    let _ = fs::remove_file(world.project("first"));
                    behind(world, "first", "notes/second", &[""])
                },
            ),
            link(
                "a link into `/proc` (`self/root`, `self/cwd`)",
                "magic",
                |_| "/proc/self/root".into(),
                &["/etc/passwd", "/proc/self/environ"],
            ),
            link("a link to a hidden file", "notes/env", |_| "../.env".into(), &[""]),
            link(
                "a write through a link to a file that defines the program",
                "notes/worker",
                |_| "../main.worker".into(),
                &[""],
            ),
            link(
                "a link to `.git` that would plant a hook",
                "notes/git",
                |_| "../.git".into(),
                &["/config", "/hooks"],
            ),
            on_files(Project, "a dangling link whose target would be created", DESCRIPTORS, |world| {
                let authority = world.whole();
                for (name, target) in [("a", "../outside/new.txt"), ("b", "../outside/new/deeper.txt")] {
                    symlink(target, world.project(name)).unwrap();
                    for (tool, input) in writes(name) {
                        let said = world.tool(&authority, tool, &input);
                        must(said.is_err(), format!("ESCAPE: {tool} {input}: {said:?}"))?;
                    }
                }
                Ok(Outcome::Refused)
            }),
            on_files(
                Project,
                "links where commands of the operator write (`runs export --cases`, `test`, `stubs`, `skill install`, `-o`)",
                "a path in a project leads to a place in the project",
                commands_write_nothing_outside,
            ),
            on_files(
                Project,
                "a FIFO and an endless file where `test --update` keeps its recordings",
                "only regular files are opened",
                |world| {
                    program_with_cases(world);
                    let recorded = world.project("main.recorded");
                    fs::create_dir(&recorded).unwrap();
                    let place = recorded.join("a.1.jsonl");
                    mknodat(CWD, &place, FileType::Fifo, Mode::RWXU, 0).unwrap();
                    world.run(&["test"]).ended(1)?;
                    world.run(&["test", "--update"]).ended(1)?;
                    fs::remove_file(&place).unwrap();
                    symlink("/dev/zero", &place).unwrap();
                    let report = world.run(&["test", "--update"]);
                    must(report.code == Some(1), format!("ESCAPE: {report:?}"))?;
                    must(
                        fs::symlink_metadata("/dev/zero").is_ok_and(|found| !found.is_file()),
                        "ESCAPE: the device is gone",
                    )?;
                    fs::remove_file(&place).unwrap();
                    // The control.
                    world.run(&["test", "--update"]).ended(0)?;
                    Ok(Outcome::Refused)
                },
            ),
            on_files(Project, "a cycle of links", "at most 40 links", |world| {
                let authority = world.whole();
                symlink("loop2", world.project("loop1")).unwrap();
                symlink("loop1", world.project("loop2")).unwrap();
                symlink(".", world.project("notes/self")).unwrap();
                for path in ["loop1", "loop1/x", &("notes".to_owned() + &"/self".repeat(100) + "/plan.md")] {
                    let said = world.tool(&authority, "read_file", &json!({"path": path}));
                    must(said.is_err(), format!("{path}: {said:?}"))?;
                }
                let listed = world.tool(&authority, "list_files", &json!({}))?;
                must(!listed.contains("self/"), format!("a circle is walked: {listed}"))?;
                Ok(Outcome::Bounded)
            }),
            on_files(
                Project,
                "a link from a writable folder to a read-only one",
                "the mode of the mount that the link resolves to",
                |world| {
                    let authority = world.authority(vec![
                        world.mount("/", "project", Access::Write),
                        world.mount("/ro", "project/ro", Access::Read),
                    ]);
                    symlink("ro/theirs.txt", world.project("file")).unwrap();
                    symlink("ro", world.project("folder")).unwrap();
                    for path in ["file", "folder/theirs.txt", "folder/new.txt"] {
                        for (tool, input) in writes(path) {
                            let said = world.tool(&authority, tool, &input);
                            must(said.is_err(), format!("ESCAPE: {tool} {input}: {said:?}"))?;
                        }
                    }
                    must(
                        world.text("ro/theirs.txt") == "to be read" && !world.project("ro/new.txt").exists(),
                        "ESCAPE: it changed",
                    )?;
                    Ok(Outcome::Refused)
                },
            ),
            on_files(
                Project,
                "a link with an allowed suffix to a file without one",
                "the suffix of the resolved path",
                |world| {
                    let mut texts = world.mount("/texts", "project/rw", Access::Write);
                    texts.suffixes = vec![".txt".into()];
                    let authority = world.authority(vec![texts]);
                    world.put("rw/key.pem", &world.secret);
                    symlink("key.pem", world.project("rw/key.txt")).unwrap();
                    for (tool, input) in calls("/texts/key.txt").into_iter().chain(calls("/texts/key.pem")) {
                        let _ = world.tool(&authority, tool, &input);
                        symlink("key.pem", world.project("rw/key.txt")).unwrap_or_default();
                    }
                    must(world.text("rw/key.pem") == world.secret, "ESCAPE: it changed")?;
                    Ok(Outcome::Refused)
                },
            ),
            on_files(
                Model,
                "changing the suffix by moving and copying",
                "suffixes are checked at both ends",
                |world| {
                    let mut texts = world.mount("/texts", "project/rw", Access::Write);
                    texts.suffixes = vec![".txt".into()];
                    let authority = world.authority(vec![texts, world.mount("/", "project", Access::Write)]);
                    world.put("rw/key.pem", &world.secret);
                    world.put("rw/sub/inner.pem", &world.secret);
                    for (tool, from, to) in [
                        ("move_file", "/texts/key.pem", "/texts/key.txt"),
                        ("copy_file", "/texts/key.pem", "/key.txt"),
                        ("move_file", "/texts/sub", "/sub"),
                        ("move_file", "/texts/mine.txt", "/texts/run.sh"),
                        ("copy_file", "/notes/plan.md", "/texts/plan.md"),
                        ("move_file", "/notes", "/texts/notes.txt"),
                    ] {
                        let said = world.tool(&authority, tool, &json!({"source": from, "destination": to}));
                        must(said.is_err(), format!("ESCAPE: {tool} {from} {to}: {said:?}"))?;
                    }
                    Ok(Outcome::Refused)
                },
            ),
            on_files(
                Project,
                "a mount root replaced by a link",
                "the mount root is opened without following links",
                |world| {
                    let authority = world.authority(vec![
                        world.mount("/rw", "project/rw", Access::Write),
                        world.mount("/notes", "project/notes", Access::Write),
                    ]);
                    fs::rename(world.project("rw"), world.project("was")).unwrap();
                    symlink("../outside", world.project("rw")).unwrap();
                    for path in ["/rw/canary.txt", "/rw/new.txt", "/rw", "/rw/etc/passwd"] {
                        for (tool, input) in calls(path) {
                            let _ = world.tool(&authority, tool, &input);
                        }
                    }
                    Ok(Outcome::Refused)
                },
            ),
            on_files(
                Project,
                "a folder above a mount root replaced by a link",
                "the mount root is opened without following links",
                |world| {
                    fs::create_dir_all(world.project("a/data")).unwrap();
                    fs::create_dir_all(world.outside("data")).unwrap();
                    fs::write(world.outside("data/canary.txt"), &world.secret).unwrap();
                    let authority = world.authority(vec![
                        world.mount("/data", "project/a/data", Access::Write),
                        world.mount("/notes", "project/notes", Access::Write),
                    ]);
                    fs::remove_dir_all(world.project("a")).unwrap();
                    symlink("../outside", world.project("a")).unwrap();
                    for path in ["/data/canary.txt", "/data/new.txt", "/data"] {
                        for (tool, input) in calls(path) {
                            let _ = world.tool(&authority, tool, &input);
                        }
                    }
                    Ok(Outcome::Refused)
                },
            ),
            on_files(
                Model,
                "moving, copying and deleting the target through its link",
                "moves and deletes act on the link itself",
                |world| {
                    let authority = world.whole();
                    symlink("../outside/canary.txt", world.project("link")).unwrap();
                    symlink("../outside", world.project("folder")).unwrap();
                    world.tool(
                        &authority,
                        "move_file",
                        &json!({"source": "/link", "destination": "/link2"}),
                    )?;
                    must(
                        fs::symlink_metadata(world.project("link2")).unwrap().is_symlink(),
                        "the file was moved",
                    )?;
                    must(
                        world
                            .tool(
                                &authority,
                                "copy_file",
                                &json!({"source": "/link2", "destination": "/copy"}),
                            )
                            .is_err(),
                        "ESCAPE: copied",
                    )?;
                    world.tool(&authority, "delete_file", &json!({"path": "/link2"}))?;
                    world.tool(&authority, "delete_file", &json!({"path": "/folder"}))?;
                    Ok(Outcome::Literal)
                },
            ),
            on_files(
                Project,
                "listing and searching through links to folders",
                "linked folders are listed, not entered",
                |world| {
                    symlink("../outside", world.project("notes/out")).unwrap();
                    symlink("../../outside/canary.txt", world.project("notes/canary")).unwrap();
                    let authority = world.whole();
                    let listed = world.tool(&authority, "list_files", &json!({}))?;
                    must(!listed.contains("passwd"), format!("ESCAPE: {listed}"))?;
                    let found = world.tool(&authority, "search_files", &json!({"pattern": "canary-"}))?;
                    must(found.starts_with("No "), format!("ESCAPE: {found}"))?;
                    Ok(Outcome::NotThere)
                },
            ),
            on_files(
                Model,
                "writing through a hard link to a file outside",
                "a write creates a new file and renames it into place",
                |world| {
                    fs::hard_link(world.outside("canary.txt"), world.project("hard")).unwrap();
                    let authority = world.whole();
                    world.arm();
                    for (tool, input) in [
                        ("append_file", json!({"path": "/hard", "content": "x"})),
                        ("edit_file", json!({"path": "/hard", "old_text": "canary-", "new_text": "x"})),
                        ("write_file", json!({"path": "/hard", "content": "mine"})),
                    ] {
                        world.tool(&authority, tool, &input)?;
                        must(
                            fs::read_to_string(world.outside("canary.txt")).unwrap() == world.secret,
                            format!("ESCAPE: {tool}"),
                        )?;
                        // Replacing the name changes the link count of the file outside; nothing else may change.
                        world.rearm();
                        fs::remove_file(world.project("hard")).unwrap();
                        fs::hard_link(world.outside("canary.txt"), world.project("hard")).unwrap();
                        world.rearm();
                    }
                    Ok(Outcome::Inside)
                },
            ),
            on_files(
                Project,
                "reading through a hard link to a file outside",
                "a hard link is indistinguishable from the file",
                |world| {
                    let other = world.outside("other.txt");
                    fs::write(&other, "of somebody else").unwrap();
                    fs::hard_link(&other, world.project("hard")).unwrap();
                    let said = world.tool(&world.whole(), "read_file", &json!({"path": "/hard"}))?;
                    must(
                        said == "of somebody else",
                        format!("it is refused now; change the outcome: {said}"),
                    )?;
                    Ok(Outcome::Undefended(
                        "creating one needs write access outside already; confined processes have none",
                    ))
                },
            ),
            on_files(
                Project,
                "writing through a hard link to a file that defines the program",
                "a write creates a new file and renames it into place",
                |world| {
                    fs::hard_link(world.project("project.txt"), world.project("notes/x")).unwrap_or_default();
                    let worker = world.put("workers/x.worker", "---\n---\nas it was\n");
                    fs::hard_link(&worker, world.project("notes/hard")).unwrap();
                    let authority = world.whole();
                    for tool in ["append_file", "write_file"] {
                        world.tool(
                            &authority,
                            tool,
                            &json!({"path": "/notes/hard", "content": "changed"}),
                        )?;
                    }
                    must(
                        world.text("workers/x.worker").ends_with("as it was\n"),
                        "ESCAPE: the worker has changed",
                    )?;
                    Ok(Outcome::Inside)
                },
            ),
            on_files(Project, "a FIFO, whose reader would block", "only regular files are opened", |world| {
                mknodat(CWD, world.project("fifo"), FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
                symlink("fifo", world.project("to-fifo")).unwrap();
                special(world, &["/fifo", "/to-fifo"])
            }),
            on_files(Project, "a socket", "only regular files are opened", |world| {
                let socket = UnixListener::bind(world.project("socket")).unwrap();
                socket.set_nonblocking(true).unwrap();
                let done = special(world, &["/socket"])?;
                must(socket.accept().is_err(), "ESCAPE: the socket got a connection")?;
                Ok(done)
            }),
            on_files(
                Project,
                "an endless device (`/dev/zero`), and a link to one",
                "only regular files are opened",
                |world| {
                    mknodat(
                        CWD,
                        world.project("zero"),
                        FileType::CharacterDevice,
                        Mode::from_raw_mode(0o666),
                        rustix::fs::makedev(1, 5),
                    )
                    .unwrap();
                    symlink("/dev/zero", world.project("to-zero")).unwrap();
                    special(world, &["/zero", "/to-zero"])
                },
            )
            .needs(Need::Root),
            on_files(
                Project,
                "a sparse file of a terabyte, read by the file tools",
                "reads return slices; searches and edits have a size limit",
                |world| {
                    File::create(world.project("sparse")).unwrap().set_len(1 << 40).unwrap();
                    let authority = world.whole();
                    let start = Instant::now();
                    for (tool, input) in [
                        ("read_file", json!({"path": "/sparse"})),
                        ("read_file", json!({"path": "/sparse", "offset": 1_000_000_000_000_u64})),
                        ("search_files", json!({"path": "/", "pattern": "x"})),
                        ("edit_file", json!({"path": "/sparse", "old_text": "x", "new_text": "y"})),
                        ("file_info", json!({"path": "/sparse"})),
                    ] {
                        let said = world.tool(&authority, tool, &input).unwrap_or_else(|error| error);
                        must(said.len() < 100_000, format!("{tool} gives {} bytes", said.len()))?;
                    }
                    must(start.elapsed() < Duration::from_secs(60), "it was read whole")?;
                    Ok(Outcome::Bounded)
                },
            ),
            on_files(
                Project,
                "a folder of 5,000 files, a line of 2 MB",
                "listings and searches have a limit",
                |world| {
                    fs::create_dir(world.project("many")).unwrap();
                    for n in 0..5_000 {
                        File::create(world.project(&format!("many/{n}"))).unwrap();
                    }
                    world.put("line", "x".repeat(2_000_000));
                    let authority = world.whole();
                    for (tool, input) in [
                        ("list_files", json!({})),
                        ("search_files", json!({"pattern": "x"})),
                        ("read_file", json!({"path": "/line"})),
                    ] {
                        let said = world.tool(&authority, tool, &input).unwrap_or_else(|error| error);
                        must(said.len() < 300_000, format!("{tool} gives {} bytes", said.len()))?;
                    }
                    Ok(Outcome::Bounded)
                },
            ),
            on_files(
                Project,
                "200 nested folders, more than a walk keeps descriptors for",
                "a walk holds at most 32 descriptors and does not recurse",
                |world| {
                    let mut at = fs::File::open(world.project("")).unwrap();
                    for _ in 0..200 {
                        rustix::fs::mkdirat(&at, "d", Mode::from_raw_mode(0o755)).unwrap();
                        let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::RDONLY;
                        at = rustix::fs::openat(&at, "d", flags, Mode::empty()).unwrap().into();
                    }
                    let authority = world.whole();
                    for (tool, input) in [
                        ("list_files", json!({})),
                        ("search_files", json!({"pattern": "x"})),
                        ("move_file", json!({"source": "/d", "destination": "/e"})),
                        ("delete_file", json!({"path": "/d"})),
                    ] {
                        let said = world.tool(&authority, tool, &input).unwrap_or_else(|error| error);
                        must(said.len() < 5_000_000, format!("{tool} gives {} bytes", said.len()))?;
                    }
                    Ok(Outcome::Bounded)
                },
            ),
            on_files(
                Model,
                "a file larger than its mount allows, in one write or in pieces",
                "`max_file_bytes`",
                |world| {
                    let mut small = world.mount("/small", "project/rw", Access::Write);
                    small.max_file_bytes = Some(1000);
                    let authority = world.authority(vec![small, world.mount("/", "project", Access::Write)]);
                    world.put("big", "x".repeat(2000));
                    must(
                        world
                            .tool(
                                &authority,
                                "write_file",
                                &json!({"path": "/small/a", "content": "x".repeat(1001)}),
                            )
                            .is_err(),
                        "ESCAPE: written",
                    )?;
                    must(
                        world
                            .tool(
                                &authority,
                                "copy_file",
                                &json!({"source": "/big", "destination": "/small/b"}),
                            )
                            .is_err(),
                        "ESCAPE: copied",
                    )?;
                    must(
                        world
                            .tool(
                                &authority,
                                "move_file",
                                &json!({"source": "/big", "destination": "/small/c"}),
                            )
                            .is_err(),
                        "ESCAPE: moved",
                    )?;
                    let mut refused = 0;
                    for _ in 0..20 {
                        let piece = json!({"path": "/small/d", "content": "x".repeat(100)});
                        refused += usize::from(world.tool(&authority, "append_file", &piece).is_err());
                    }
                    let size = fs::metadata(world.project("rw/d")).unwrap().len();
                    must(
                        refused == 10 && size == 1000,
                        format!("ESCAPE: {size} bytes after {refused} refusals"),
                    )?;
                    Ok(Outcome::Bounded)
                },
            ),
            on_files(
                Model,
                "replacing the content of a set-user-ID program of the project",
                "the new file keeps only the permission bits",
                |world| {
                    let program = world.put("tool", "#!/bin/sh\n");
                    fs::set_permissions(&program, fs::Permissions::from_mode(0o6755)).unwrap();
                    let authority = world.whole();
                    world.tool(
                        &authority,
                        "copy_file",
                        &json!({"source": "/tool", "destination": "/tool2"}),
                    )?;
                    world.tool(&authority, "write_file", &json!({"path": "/tool", "content": "evil"}))?;
                    for name in ["tool", "tool2"] {
                        let mode = fs::metadata(world.project(name)).unwrap().mode();
                        must(
                            mode & 0o7000 == 0 && mode & 0o777 == 0o755,
                            format!("ESCAPE: {name} has mode {mode:o}"),
                        )?;
                    }
                    Ok(Outcome::Inside)
                },
            ),
            on_files(
                Project,
                "names that no virtual path can express (`\\`, line breaks, invalid UTF-8)",
                "such names are not listed or searched",
                |world| {
                    for name in [b"back\\slash".as_slice(), b"new\nline", b"\xff\xfe", b"esc\x1b[2J"] {
                        let name = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name);
                        fs::write(world.project("").join(name), &world.secret).unwrap();
                    }
                    let authority = world.whole();
                    let listed = world.tool(&authority, "list_files", &json!({}))?;
                    must(
                        !listed.contains("slash") && !listed.contains('\u{1b}') && !listed.contains("new"),
                        listed,
                    )?;
                    let found = world.tool(&authority, "search_files", &json!({"pattern": "canary-"}))?;
                    must(found.starts_with("No "), format!("ESCAPE: {found}"))?;
                    Ok(Outcome::NotThere)
                },
            ),
        ],
    }
}

/// Special files: every call returns at once, with no content and without a change.
fn special(world: &World, paths: &[&str]) -> Tried {
    let authority = world.whole();
    for path in paths {
        for (tool, input) in calls(path) {
            if ["move_file", "delete_file"].contains(&tool) && path.starts_with("/to-") {
                continue;
            }
            let said = world.tool(&authority, tool, &input).unwrap_or_else(|error| error);
            must(said.len() < 2000, format!("ESCAPE: {tool} {input} gives {} bytes", said.len()))?;
        }
    }
    Ok(Outcome::Refused)
}
