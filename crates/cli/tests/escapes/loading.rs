//! Projects and libraries from elsewhere: references, links, YAML, grants, libraries, git.

mod endpoint;
mod git_config;

use crate::{
    attempt::{
        Attempt, Group,
        Layer::{self, Authority, Gate, Loader},
        Need, Outcome, Tried,
        Who::{self, Library, Project},
        holds, must,
    },
    binary::call,
    world::World,
};
use endpoint::endpoint;
use git_config::git_config;
use serde_json::json;
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

pub(crate) const RUN: &[&str] = &[".", "--approval", "approve_all"];

pub(crate) fn row(
    who: Who,
    layer: Layer,
    name: &'static str,
    mechanism: &'static str,
    attack: fn(&World) -> Tried,
) -> Attempt {
    Attempt::new(who, layer, name, mechanism, attack)
}

pub(crate) fn main_worker(world: &World, front: &str, instructions: &str) {
    world.put("main.worker", format!("---\nmodel: script:script.json\n{front}\n---\n{instructions}\n"));
    world.script(&[]);
}

/// The program loads with none of these entries. With the control entry it does.
pub(crate) fn none_loads(world: &World, programs: &[(&str, &str)], control: (&str, &str)) -> Tried {
    for (front, instructions) in programs {
        main_worker(world, front, instructions);
        world.rearm();
        let report = world.run(RUN);
        must(
            report.code == Some(2) || report.code == Some(1),
            format!("ESCAPE: it runs with {front:?} {instructions:?}: {report:?}"),
        )?;
    }
    main_worker(world, control.0, control.1);
    world.rearm();
    world.run(RUN).ended(0)?;
    Ok(Outcome::Refused)
}

/// The program asks for access outside its folder: it starts with a grant, in another world, and not without.
fn needs_grant(world: &World, prepare: impl Fn(&World), grant: impl Fn(&World) -> String) -> Tried {
    let other = World::new();
    for granted in [true, false] {
        let world = if granted { &other } else { world };
        prepare(world);
        let grant = grant(world);
        let mut arguments = RUN.to_vec();
        if granted {
            arguments.extend(["--grant", &grant]);
        }
        let report = world.run(&arguments);
        if granted {
            report.ended(0)?;
        } else {
            must(report.code == Some(3) || report.code == Some(2), format!("ESCAPE: {report:?}"))?;
            holds(&report.stderr, &["--grant"])?;
        }
    }
    Ok(Outcome::Refused)
}

pub(crate) fn group() -> Group {
    Group {
        title: "Loading projects and libraries",
        about: "Programs cloned from elsewhere. A program that must not load ends with exit code 2, one that \
                asks for more than its own tree with 3. The control is the same program with the bad part \
                corrected, or with the grant: it runs.",
        attempts: vec![
            row(
                Project,
                Loader,
                "references to workers outside (`../`, absolute)",
                "references stay below the root",
                |world| {
                    fs::write(
                        world.outside("evil.worker"),
                        format!("---\nmodel: script:script.json\n---\n{}\n", world.secret),
                    )
                    .unwrap();
                    world.put("workers/good.worker", "---\nmodel: script:script.json\n---\nHi.\n");
                    let absolute = format!("allow_workers: [\"{}\"]", world.outside("evil.worker").display());
                    none_loads(
                        world,
                        &[
                            ("allow_workers: [../outside/evil]", "x"),
                            ("allow_workers: [./../outside/evil.worker]", "x"),
                            (&absolute, "x"),
                            ("imports: {workers: [../outside/evil.worker]}", "x"),
                            ("allow_workers: [good/../../outside/evil]", "x"),
                        ],
                        ("allow_workers: [good]", "x"),
                    )
                },
            ),
            row(
                Project,
                Loader,
                "an entry outside, from `--entry` and from the manifest",
                "references stay below the root",
                |world| {
                    fs::write(
                        world.outside("evil.worker"),
                        format!("---\nmodel: script:script.json\n---\n{}\n", world.secret),
                    )
                    .unwrap();
                    world.script(&[]);
                    for entry in
                        ["../outside/evil.worker", "./../outside/evil", "workers/../../outside/evil.worker"]
                    {
                        world.run(&[".", "--entry", entry]).ended(2)?;
                        world.put("project.yaml", format!("entry: {entry}\n"));
                        world.run(&["."]).ended(2)?;
                        fs::remove_file(world.project("project.yaml")).unwrap();
                    }
                    world.run(&["."]).ended(0)?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Project,
                Loader,
                "a worker, a prompt and a schema that are links to outside",
                "links that leave the root are refused",
                |world| {
                    for (name, text) in [
                        ("evil.worker", "---\nmodel: script:script.json\n---\nHi {{ 1 }}\n"),
                        ("evil.md", "text"),
                        ("evil.json", "{\"type\":\"object\"}"),
                    ] {
                        fs::write(
                            world.outside(name),
                            format!("{text}{}", if name == "evil.json" { "" } else { world.secret.as_str() }),
                        )
                        .unwrap();
                    }
                    for folder in ["workers", "prompts", "schemas"] {
                        fs::create_dir(world.project(folder)).unwrap();
                    }
                    symlink("../../outside/evil.worker", world.project("workers/evil.worker")).unwrap();
                    symlink("../../outside/evil.md", world.project("prompts/linked.md")).unwrap();
                    symlink("../../outside/evil.json", world.project("schemas/evil.json")).unwrap();
                    world.put("workers/linked.worker", "---\nmodel: script:script.json\n---\n");
                    world.put("workers/good.worker", "---\nmodel: script:script.json\n---\nHi.\n");
                    none_loads(
                        world,
                        &[
                            ("allow_workers: [evil]", "x"),
                            ("allow_workers: [linked]", "x"),
                            ("schema_in_ref: evil.json", "x"),
                            ("schema_in_ref: ../../outside/evil.json", "x"),
                        ],
                        ("allow_workers: [good]", "x"),
                    )
                },
            ),
            row(
                Project,
                Loader,
                "another user's manifest in a world-writable parent folder",
                "world-writable folders are not searched for a project",
                |world| {
                    let shared = world.top.join("shared");
                    fs::create_dir_all(shared.join("mine")).unwrap();
                    fs::write(shared.join("project.yaml"), "name: planted\nlimits: {max_turns: 7}\n")
                        .unwrap();
                    fs::write(shared.join("mine/a.worker"), "---\nmodel: script:script.json\n---\nHi.\n")
                        .unwrap();
                    let shown = |world: &World| {
                        world.run(&["show", &shared.join("mine/a.worker").display().to_string()])
                    };
                    let report = shown(world);
                    holds(&report.stdout, &["7"])?;
                    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
                    let report = shown(world);
                    must(
                        report.code == Some(0)
                            && !report.stdout.contains("max_turns: 7")
                            && !report.stdout.contains("project.yaml"),
                        format!("ESCAPE: {report:?}"),
                    )?;
                    Ok(Outcome::NotThere)
                },
            ),
            row(
                Project,
                Loader,
                "YAML tags that construct objects (`!!python/object/apply`)",
                "such tags are refused",
                |world| {
                    none_loads(
                        world,
                        &[
                            ("description: !!python/object/apply:os.system [\"touch pwned\"]", "x"),
                            ("description: !!python/object/new:os.system [\"touch pwned\"]", "x"),
                        ],
                        ("description: plain", "x"),
                    )?;
                    must(!world.project("pwned").exists(), "ESCAPE: it ran")?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Project,
                Loader,
                "exponential YAML aliases, 200,000 levels, two megabytes",
                "limits of the YAML reader",
                |world| {
                    let mut bomb = "x-a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
                    for (from, to) in ('a'..='i').zip('b'..='j') {
                        bomb += &format!(
                            "x-{to}: &{to} [*{from}, *{from}, *{from}, *{from}, *{from}, *{from}, *{from}, *{from}, *{from}]\n"
                        );
                    }
                    bomb += "description: *j";
                    let deep = format!("x-deep: {}1{}", "[".repeat(200_000), "]".repeat(200_000));
                    let long = format!("description: \"{}\"", "x".repeat(2 << 20));
                    none_loads(
                        world,
                        &[(&bomb, "x"), (&deep, "x"), (&long, "x")],
                        ("description: plain", "x"),
                    )?;
                    Ok(Outcome::Bounded)
                },
            ),
            row(
                Project,
                Loader,
                "a schema of 40 definitions that each refer twice to the next",
                "a limit for the work of a validation",
                |world| {
                    let mut definitions: serde_json::Map<_, _> = (0..40)
                        .map(|level| {
                            let next = json!({"$ref": format!("#/elsewhere/d{}", level + 1)});
                            (format!("d{level}"), json!({"anyOf": [next, next]}))
                        })
                        .collect();
                    definitions.insert("d40".into(), json!({"type": "null"}));
                    let schema = json!({"$ref": "#/elsewhere/d0", "elsewhere": definitions});
                    world.put("out.json", schema.to_string());
                    world.put(
                        "main.worker",
                        "---\nmodel: script:script.json\nschema_out_ref: out.json\n---\nx\n",
                    );
                    world.answers(&json!({"answers": [{"text": "\"x\""}]}));
                    let start = std::time::Instant::now();
                    let report = world.run(&["."]);
                    must(
                        start.elapsed() < std::time::Duration::from_secs(60),
                        "ESCAPE: it validates for ever",
                    )?;
                    must(
                        report.code == Some(1) && report.stderr.contains("too many comparisons"),
                        format!("{report:?}"),
                    )?;
                    Ok(Outcome::Bounded)
                },
            ),
            row(Project, Loader, "a duplicate key", "duplicate keys are errors", |world| {
                none_loads(
                    world,
                    &[
                        ("sandbox: {readonly: true, readonly: false}", "x"),
                        ("tool_rules: {write_file: blocked}\ntool_rules: {write_file: preApproved}", "x"),
                    ],
                    ("sandbox: {readonly: true}", "x"),
                )
            }),
            row(
                Project,
                Loader,
                "keys that resemble others (look-alike letters, spelling)",
                "unknown keys are errors",
                |world| {
                    none_loads(
                        world,
                        &[
                            ("sаndbox: {readonly: true}", "x"),
                            ("sandbox: {readоnly: true}", "x"),
                            ("sandbox: {read_only: true}", "x"),
                        ],
                        ("sandbox: {readonly: true}", "x"),
                    )
                },
            ),
            row(
                Project,
                Loader,
                "a schema with a `$ref` to a file or to the network",
                "references are never fetched",
                |world| {
                    let http = format!(
                        "parameters: {{type: object, properties: {{a: {{$ref: \"http://127.0.0.1:{}/x\"}}}}}}",
                        world.port()
                    );
                    let file = format!(
                        "parameters: {{type: object, properties: {{a: {{$ref: \"file://{}\"}}}}}}",
                        world.outside("canary.txt").display()
                    );
                    none_loads(
                        world,
                        &[(&http, "x"), (&file, "x")],
                        ("parameters: {type: object, properties: {a: {type: string}}}", "x"),
                    )
                },
            ),
            row(
                Project,
                Authority,
                "a mount outside the project, absolute or by `..`",
                "needs a grant of the operator",
                |world| {
                    needs_grant(
                        world,
                        |world| {
                            main_worker(
                                world,
                                &format!(
                                    "toolsets: [filesystem]\nsandbox: {{paths: {{x: {{root: \"{}\", mode: rw}}}}}}",
                                    world.outside("").display()
                                ),
                                "x",
                            );
                        },
                        |world| format!("{}:rw", world.outside("").display()),
                    )?;
                    main_worker(world, "toolsets: [filesystem]\nsandbox: {root: ..}", "x");
                    world.rearm();
                    let report = world.run(RUN);
                    must(report.code != Some(0), format!("ESCAPE: {report:?}"))?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Project,
                Authority,
                "a mount in the project that is a link to outside",
                "needs a grant for the real place",
                |world| {
                    needs_grant(
                        world,
                        |world| {
                            symlink(world.outside(""), world.project("data")).unwrap();
                            main_worker(world, "toolsets: [filesystem]\nsandbox: {paths: {x: ./data}}", "x");
                        },
                        |world| format!("{}:ro", world.outside("").display()),
                    )
                },
            ),
            row(
                Project,
                Authority,
                "a binding of a parameter to a place outside",
                "needs a grant of the operator",
                |world| {
                    needs_grant(
                        world,
                        |world| {
                            main_worker(
                                world,
                                "parameters: {dir: path}\ntoolsets: [filesystem]\nsandbox: {read: [\"${dir}\"]}",
                                "x",
                            );
                            world.put(
                                "project.yaml",
                                format!("name: t\nbindings: {{dir: \"{}\"}}\n", world.outside("").display()),
                            );
                        },
                        |world| format!("{}:ro", world.outside("").display()),
                    )
                },
            ),
            row(Project, Authority, "writing with a grant for reading", "grants include the mode", |world| {
                main_worker(
                    world,
                    &format!(
                        "toolsets: [filesystem]\nsandbox: {{paths: {{x: {{root: \"{}\", mode: rw}}}}}}",
                        world.outside("").display()
                    ),
                    "x",
                );
                world.script(&[(
                    "main",
                    vec![call("write_file", json!({"path": "/x/new.txt", "content": "x"}))],
                )]);
                let grant = format!("{}:ro", world.outside("").display());
                let report = world.run(&[".", "--approval", "approve_all", "--grant", &grant]);
                must(
                    report.code == Some(3) || report.refusal("0/0.0").is_ok(),
                    format!("ESCAPE: {report:?}"),
                )?;
                Ok(Outcome::Refused)
            }),
            row(
                Project,
                Authority,
                "an endpoint of the project, to which the operator's key would be sent",
                "needs a grant for the host and the variable",
                endpoint,
            ),
            row(
                Project,
                Gate,
                "a manifest that approves everything",
                "files can only tighten the operator's mode, and pre-approve only their own files",
                |world| {
                    let write = |path: &str| call("write_file", json!({"path": path, "content": "x"}));
                    world.put("project.yaml", "name: t\napproval: {mode: approve_all}\n");
                    main_worker(world, "toolsets: [filesystem]", "x");
                    world.script(&[("main", vec![write("/rw/new.txt")])]);
                    world.run(&[".", "--approval", "auto_deny"]);
                    must(!world.project("rw/new.txt").exists(), "ESCAPE: written")?;
                    // Files may pre-approve writes in their own project, but not to what other programs execute.
                    world.put("project.yaml", "name: t\napproval: {mode: approve_all, default: preApproved, risks: {write: preApproved}}\n");
                    main_worker(world, "toolsets: [filesystem]\ntool_rules: {write_file: preApproved}", "x");
                    world.script(&[("main", vec![write("/.github/x.yml"), write("/rw/new.txt")])]);
                    world.run(&[".", "--approval", "auto_deny"]);
                    must(!world.project(".github/x.yml").exists(), "ESCAPE: written")?;
                    must(world.project("rw/new.txt").exists(), "the control: nothing is written")?;
                    world.rearm();
                    world.run(&[".", "--approval", "approve_all"]);
                    must(
                        world.project(".github/x.yml").exists(),
                        "the control: it is not written either way",
                    )?;
                    Ok(Outcome::Refused)
                },
            ),
            row(Project, Loader, "settings in the project's `.env`", "the file is not read", |world| {
                world.put(".env", format!("LLM_DO_MODEL=script:evil.json\nSECRET={}\n", world.secret));
                world.put("evil.json", json!({"answers": [{"text": "the evil model"}]}).to_string());
                world.put("main.worker", "---\ndescription: x\n---\nHi.\n");
                world.answers(&json!({"answers": [{"text": "the operator's model"}]}));
                let mut command = world.command(&[".", "go"]);
                command.env("LLM_DO_MODEL", "script:script.json");
                holds(&world.run_command(command).stdout, &["the operator's model"])?;
                let report = world.run(&[".", "go", "--model", "script:script.json"]);
                holds(&report.stdout, &["the operator's model"])?;
                Ok(Outcome::NotThere)
            }),
            row(
                Library,
                Loader,
                "a library that changed after it was pinned",
                "hashes in `llm-do.lock`",
                |world| {
                    let lib = world.top.join("library");
                    fs::create_dir_all(lib.join("workers")).unwrap();
                    fs::write(lib.join("lib.yaml"), "name: foreign\nversion: \"1.0.0\"\nexports: [a]\n")
                        .unwrap();
                    fs::write(lib.join("workers/a.worker"), "---\nmodel: script:script.json\n---\nHi.\n")
                        .unwrap();
                    main_worker(world, "allow_workers: [\"foreign:a\"]", "x");
                    world.put("project.yaml", "name: t\ndependencies: [foreign]\n");
                    world.run(&["lib", "install", &lib.display().to_string()]).ended(0)?;
                    world.run(&["lib", "install"]).ended(0)?;
                    world.run(RUN).ended(0)?;
                    let installed = world.top.join("home/.llm-do/libs/foreign@1.0.0/workers/a.worker");
                    fs::write(
                        installed,
                        "---\nmodel: script:script.json\ntoolsets: [filesystem]\n---\nEvil.\n",
                    )
                    .unwrap();
                    let report = world.run(RUN);
                    report.ended(2)?;
                    holds(&report.stderr, &["E0608"])?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Library,
                Loader,
                "a library with links that leave it",
                "links that leave the root are refused",
                |world| {
                    let lib = world.top.join("library");
                    fs::create_dir_all(lib.join("workers")).unwrap();
                    fs::write(lib.join("lib.yaml"), "name: foreign\nversion: \"1.0.0\"\nexports: [a]\n")
                        .unwrap();
                    fs::write(
                        world.outside("a.worker"),
                        format!("---\nmodel: script:script.json\n---\n{}\n", world.secret),
                    )
                    .unwrap();
                    symlink(world.outside("a.worker"), lib.join("workers/a.worker")).unwrap();
                    let report = world.run(&["lib", "install", &lib.display().to_string()]);
                    let copied = world.top.join("home/.llm-do/libs/foreign@1.0.0/workers/a.worker");
                    world.disclose(fs::read_to_string(copied).unwrap_or_default());
                    must(report.code != Some(0), format!("ESCAPE: {report:?}"))?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Library,
                Loader,
                "a library whose name or version is a path",
                "library names and versions cannot contain paths",
                |world| {
                    let lib = world.top.join("library");
                    fs::create_dir_all(lib.join("workers")).unwrap();
                    fs::write(lib.join("workers/a.worker"), "---\n---\nHi.\n").unwrap();
                    for (name, version) in [
                        ("../../../outside/x", "1.0.0"),
                        ("x", "../../../outside/x"),
                        ("/etc", "1"),
                        (".", "1"),
                        ("x/y", "1"),
                        ("filesystem", "1"),
                        ("x\\ny", "1"),
                    ] {
                        fs::write(
                            lib.join("lib.yaml"),
                            format!("name: \"{name}\"\nversion: \"{version}\"\nexports: [a]\n"),
                        )
                        .unwrap();
                        let report = world.run(&["lib", "install", &lib.display().to_string()]);
                        must(report.code != Some(0), format!("ESCAPE: {name}@{version}: {report:?}"))?;
                    }
                    for name in ["../outside", "..", "/etc/passwd", "x/../../y", "~"] {
                        world.put("project.yaml", format!("name: t\ndependencies: [\"{name}\"]\n"));
                        world.run(RUN).ended(2)?;
                        must(world.run(&["lib", "remove", name]).code != Some(0), "ESCAPE: removed")?;
                    }
                    fs::write(lib.join("lib.yaml"), "name: fine\nversion: \"1.0.0\"\nexports: [a]\n")
                        .unwrap();
                    world.run(&["lib", "install", &lib.display().to_string()]).ended(0)?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Project,
                Loader,
                "a git URL that is a command or an option",
                "known transports; no arguments that begin with `-`",
                |world| {
                    let touch = world.outside("new").display().to_string();
                    for spec in [
                        format!("git+ext::sh -c 'touch {touch}'"),
                        format!("git+--upload-pack=touch {touch}"),
                        format!("git+ssh://-oProxyCommand=touch%20{touch}/x"),
                        format!("git+file:///x@--upload-pack=touch {touch}"),
                        format!("ext::sh -c touch% {touch}"),
                        "git+fd::17".to_owned(),
                        format!("git+https://x@-oProxyCommand=touch {touch}:y"),
                    ] {
                        world.put(
                            "project.yaml",
                            format!("name: t\ndependencies: ['{}']\n", spec.replace('\'', "''")),
                        );
                        for arguments in [vec!["lib", "install", &spec], vec!["lib", "install"]] {
                            let report = world.run(&arguments);
                            must(report.code != Some(0), format!("ESCAPE: {spec}: {report:?}"))?;
                        }
                    }
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Project,
                Loader,
                "the project's `.git/config`, while git fetches a library",
                "git runs outside the project's repository",
                git_config,
            )
            .needs(Need::Git),
        ],
    }
}
