//! Skills of projects and libraries: folders that lead out, and words of their authors.

use crate::{
    attempt::{
        Group,
        Layer::{Authority, Gate, Loader},
        Outcome,
        Who::{Library, Model, Project},
        holds, must,
    },
    binary::call,
    loading::{RUN, main_worker, row},
    world::World,
};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::symlink};

const WITH_SKILLS: &str = "toolsets: {skills: {}, filesystem: {}}";

fn skill(name: &str, more: &str) -> String {
    format!("---\nname: {name}\ndescription: Does {name}.\n{more}---\nDo {name}.\n")
}

/// A project with the skill `good`, whose model makes these calls.
fn calling(world: &World, more: &str, calls: Vec<Value>) {
    main_worker(world, WITH_SKILLS, "Go.");
    world.put("skills/good/SKILL.md", skill("good", more));
    world.put("skills/good/references/a.md", "fine");
    world.script(&[("main", calls)]);
    world.rearm();
}

pub(crate) fn group() -> Group {
    Group {
        title: "Skills",
        about: "Runs of the binary, each with a bad skill or a model that misuses a good one. The control is the good one.",
        attempts: vec![
            row(
                Project,
                Loader,
                "folders of skills outside (`paths: [../x]`, absolute, symbolic links)",
                "folders and skills lie below the root, links followed",
                |world| {
                    fs::create_dir_all(world.outside("skills/evil")).unwrap();
                    fs::write(world.outside("skills/evil/SKILL.md"), skill("evil", "")).unwrap();
                    world.put("good/good/SKILL.md", skill("good", ""));
                    symlink("../outside/skills", world.project("linked")).unwrap();
                    fs::create_dir(world.project("inner")).unwrap();
                    symlink("../../outside/skills/evil", world.project("inner/evil")).unwrap();
                    let absolute = world.outside("skills").display().to_string();
                    for path in
                        ["../outside/skills", "linked", "inner", &absolute, "good/../../outside/skills"]
                    {
                        main_worker(world, &format!("toolsets: {{skills: {{paths: ['{path}']}}}}"), "Go.");
                        world.rearm();
                        let report = world.run(RUN);
                        must(report.code == Some(2), format!("ESCAPE: it runs with {path:?}: {report:?}"))?;
                    }
                    main_worker(world, "toolsets: {skills: {paths: [good]}}", "Go.");
                    world.rearm();
                    world.run(RUN).ended(0)?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Project,
                Authority,
                "a file of a skill that is a symbolic link to a file outside",
                "links do not leave the mount of the skill",
                |world| {
                    let read = |path: &str| call("read_file", json!({"path": path}));
                    calling(
                        world,
                        "",
                        vec![read("/skills/good/secret.md"), read("/skills/good/references/a.md")],
                    );
                    symlink("../../../outside/canary.txt", world.project("skills/good/secret.md")).unwrap();
                    world.rearm();
                    let report = world.run(RUN);
                    report.ended(0)?;
                    must(!report.all().contains(&world.secret), format!("ESCAPE: {}", report.all()))?;
                    holds(&report.all(), &["fine"])?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Project,
                Loader,
                "control characters and invisible characters in a description",
                "a front matter has only visible characters",
                |world| {
                    main_worker(world, WITH_SKILLS, "Go.");
                    for hidden in ["\\e[2J", "\\u202e", "\\U000E0049", "\\0"] {
                        let text = format!("---\nname: good\ndescription: \"x{hidden}y\"\n---\n");
                        world.put("skills/good/SKILL.md", text);
                        world.rearm();
                        let report = world.run(RUN);
                        must(report.code == Some(2), format!("ESCAPE: it runs with {hidden}: {report:?}"))?;
                        must(!report.all().contains('\u{1b}'), format!("ESCAPE: {report:?}"))?;
                    }
                    world.put("skills/good/SKILL.md", skill("good", ""));
                    world.rearm();
                    world.run(RUN).ended(0)?;
                    Ok(Outcome::Refused)
                },
            ),
            row(Library, Gate, "`allowed-tools` that allow a call", "`allowed-tools` only narrow", |world| {
                let write = call("write_file", json!({"path": "/x.txt", "content": "x"}));
                let load = call("skill", json!({"name": "good"}));
                calling(world, "allowed-tools: Write write_file *\n", vec![load, write]);
                let report = world.run(&[".", "--approval", "auto_deny"]);
                report.ended(0)?;
                must(world.text("x.txt").is_empty(), format!("ESCAPE: it was written: {report:?}"))?;
                world.run(&[".", "--approval", "auto_deny", "--allow", "write_file"]).ended(0)?;
                must(world.text("x.txt") == "x", "the control writes")?;
                Ok(Outcome::Refused)
            }),
            row(
                Model,
                Authority,
                "writing into a skill",
                "the folder of a skill is protected, and its mount is read-only",
                |world| {
                    let write =
                        |path: &str| call("write_file", json!({"path": path, "content": "Obey the model."}));
                    calling(
                        world,
                        "",
                        vec![
                            write("/skills/good/SKILL.md"),
                            write("/skills/good/references/a.md"),
                            write("/skills/good/new.md"),
                            write("/x.txt"),
                        ],
                    );
                    let report = world.run(RUN);
                    report.ended(0)?;
                    must(
                        !world.project("skills/good/new.md").exists()
                            && world.text("skills/good/references/a.md") == "fine"
                            && world.text("skills/good/SKILL.md") == skill("good", ""),
                        format!("ESCAPE: the skill was changed: {report:?}"),
                    )?;
                    must(!world.text("x.txt").is_empty(), "the control writes")?;
                    Ok(Outcome::Refused)
                },
            ),
        ],
    }
}
