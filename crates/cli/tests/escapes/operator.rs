//! Attacks on the operator's approvals and on the terminal.

use crate::{
    attempt::{
        Attempt, Group,
        Layer::{self, Gate, Terminal},
        Outcome, Tried,
        Who::{self, Document, Model, Process, Project},
        holds, must,
    },
    binary::{RunReport, call},
    terminal_session::Session,
    world::World,
};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::symlink};

const FRONT: &str = "---\nmodel: script:script.json\ntoolsets: [filesystem]\n---\nWrite.\n";

fn row(
    who: Who,
    layer: Layer,
    name: &'static str,
    mechanism: &'static str,
    attack: fn(&World) -> Tried,
) -> Attempt {
    Attempt::new(who, layer, name, mechanism, attack)
}

fn write(path: &str, content: &str) -> Value {
    call("write_file", json!({"path": path, "content": content}))
}

/// A terminal session of a worker that makes these calls.
fn session(world: &World, calls: &[Value]) -> Session {
    world.put("main.worker", FRONT);
    world.script(&[("main", calls.to_vec())]);
    world.arm();
    Session::start(world.command_on_terminal(&["."]))
}

/// A run that writes these files.
fn writes(world: &World, paths: &[&str], arguments: &[&str]) -> RunReport {
    world.put("main.worker", FRONT);
    world.script(&[("main", paths.iter().map(|path| write(path, "x")).collect())]);
    world.run(arguments)
}

fn deny(session: &mut Session) {
    session.type_keys("d");
    session.expect("reason");
    session.type_keys("\r");
}

/// The first call is approved and remembered. Its repetition does not prompt; the other call does.
fn asked_again(world: &World, first: &Value, other: &Value) -> Tried {
    let mut session = session(world, &[first.clone(), first.clone(), other.clone()]);
    session.expect_prompt();
    session.type_keys("r");
    session.expect_prompt();
    deny(&mut session);
    let (code, shown) = session.end();
    world.disclose(&shown);
    must(code == Some(0) && shown.matches("wants to call").count() == 2, format!("ESCAPE: {shown}"))?;
    let ran = world.journal().iter().filter(|record| record["kind"] == "tool_started").count();
    must(ran == 2, format!("ESCAPE: {ran} calls ran: {shown}"))?;
    Ok(Outcome::AskedAgain)
}

/// The prompt for this call shows these texts, without characters that move the cursor, hide or reorder.
fn prompt_shows(world: &World, call: Value, texts: &[&str]) -> Tried {
    let mut session = session(world, &[call]);
    session.expect_prompt();
    deny(&mut session);
    let (_, shown) = session.end();
    plain(&shown)?;
    holds(&shown, texts)?;
    must(
        !world.journal().iter().any(|record| record["kind"] == "tool_started"),
        "ESCAPE: it ran though it was denied",
    )?;
    Ok(Outcome::Shown)
}

/// The output of a command on a terminal, likewise.
fn command_shows(world: &World, arguments: &[&str], texts: &[&str]) -> Tried {
    world.arm();
    let (_, shown) = Session::start(world.command_on_terminal(arguments)).end();
    plain(&shown)?;
    holds(&shown, texts)?;
    Ok(Outcome::Shown)
}

/// Fails if a character can move the cursor, hide or reorder text. (The session removes colours and llm-do's own
/// sequences; text of others is escaped before.)
fn plain(shown: &str) -> Result<(), crate::attempt::Escape> {
    let odd = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e0fff}')
    };
    match shown.chars().find(|&c| odd(c)) {
        Some(c) => Err(format!("ESCAPE: {c:?} is shown: {shown:?}").into()),
        None => Ok(()),
    }
}

pub(crate) fn approvals() -> Group {
    Group {
        title: "Approvals",
        about: "Runs on a pseudo-terminal, on which the operator has approved one call and had the approval \
                remembered. The same call does not prompt again; the attack must. The rows about rules run \
                without a terminal, beside a call that the rule allows.",
        attempts: vec![
            row(
                Model,
                Gate,
                "the same file with other content",
                "a remembered approval covers all arguments exactly",
                |world| asked_again(world, &write("rw/a.txt", "x"), &write("rw/a.txt", "y")),
            ),
            row(
                Model,
                Gate,
                "the same arguments for another tool",
                "a remembered approval covers one function",
                |world| {
                    asked_again(
                        world,
                        &write("rw/a.txt", "x"),
                        &call("append_file", json!({"path": "rw/a.txt", "content": "x"})),
                    )
                },
            ),
            row(
                Model,
                Gate,
                "a path with a look-alike letter (`а` for `a`)",
                "names are compared exactly",
                |world| asked_again(world, &write("rw/a.txt", "x"), &write("rw/\u{430}.txt", "x")),
            ),
            row(
                Model,
                Gate,
                "a path that differs in Unicode normalisation (`é`)",
                "names are compared exactly",
                |world| asked_again(world, &write("rw/\u{e9}.txt", "x"), &write("rw/e\u{301}.txt", "x")),
            ),
            row(Model, Gate, "a path with a trailing space", "names are compared exactly", |world| {
                asked_again(world, &write("rw/a.txt", "x"), &write("rw/a.txt ", "x"))
            }),
            row(
                Model,
                Gate,
                "content with an invisible character",
                "a remembered approval covers all arguments exactly",
                |world| asked_again(world, &write("rw/a.sh", "rm x"), &write("rw/a.sh", "rm x\u{200b}")),
            ),
            row(
                Project,
                Gate,
                "retargeting a link in the approved path",
                "a remembered approval covers the real place of a path",
                |world| {
                    symlink("rw", world.project("link")).unwrap();
                    let first = write("link/a.txt", "x");
                    let calls = [first.clone(), write("rw/other.txt", "x"), first, write("rw/last.txt", "x")];
                    let mut session = session(world, &calls);
                    session.expect_prompt();
                    session.type_keys("r");
                    session.expect_prompt();
                    // The first call has written. The link is retargeted while the second call is at its prompt.
                    must(world.text("rw/a.txt") == "x", "the control: the approved call did not run")?;
                    fs::remove_file(world.project("link")).unwrap();
                    symlink("notes", world.project("link")).unwrap();
                    deny(&mut session);
                    // The prompt of the third call, or of the last one if the third does not prompt.
                    session.expect_prompt();
                    let escaped = world.project("notes/a.txt").exists();
                    deny(&mut session);
                    if !escaped {
                        session.expect_prompt();
                        deny(&mut session);
                    }
                    session.end();
                    must(!escaped, "ESCAPE: the approval of one place has served for another")?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Model,
                Gate,
                "duplicate keys in the arguments",
                "the call that is shown is the call that runs",
                |world| {
                    let raw = r#"{"path": "rw/harmless.txt", "content": "x", "path": "notes/plan.md"}"#;
                    let mut session = session(
                        world,
                        &[json!({"tool": "write_file", "raw_arguments": raw}), write("rw/end.txt", "x")],
                    );
                    // Both calls prompt, one after the other.
                    session.expect_prompt();
                    session.type_keys("r");
                    session.expect_prompt();
                    session.type_keys("r");
                    let (_, shown) = session.end();
                    let asked = |path: &str| shown.contains(&format!("path \"{path}\""));
                    let changed = world.text("notes/plan.md") != "The plan\n";
                    must(!changed || asked("notes/plan.md"), format!("ESCAPE: {shown}"))?;
                    must(
                        !world.project("rw/harmless.txt").exists() || asked("rw/harmless.txt"),
                        format!("ESCAPE: {shown}"),
                    )?;
                    Ok(Outcome::Shown)
                },
            ),
            row(
                Model,
                Gate,
                "arguments that the operator edits to a hidden path",
                "edited arguments are checked again from the start",
                |world| {
                    let mut session = session(world, &[write("rw/a.txt", "x")]);
                    session.expect_prompt();
                    session.type_keys("e");
                    session.expect("arguments: {");
                    session.type_keys("\u{15}{\"path\":\"/.env\",\"content\":\"x\"}\r");
                    let (_, shown) = session.end();
                    must(!world.project("rw/a.txt").exists(), format!("the first ran: {shown}"))?;
                    must(world.text(".env").contains(&world.secret), "ESCAPE: written")?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Document,
                Gate,
                "an answer typed before the question",
                "earlier input is discarded",
                |world| {
                    let mut session = session(world, &[write("rw/a.txt", "x")]);
                    session.type_keys("aaaarrrr");
                    session.expect_prompt();
                    must(!world.project("rw/a.txt").exists(), "ESCAPE: approved by what was typed before")?;
                    deny(&mut session);
                    let (_, shown) = session.end();
                    must(!world.project("rw/a.txt").exists(), format!("ESCAPE: {shown}"))?;
                    Ok(Outcome::AskedAgain)
                },
            ),
            row(
                Document,
                Gate,
                "a paste that contains the keys of an answer (`ESC [D`, text)",
                "only single key presses are answers",
                |world| {
                    let mut session = session(world, &[write("rw/a.txt", "x")]);
                    session.expect_prompt();
                    session.type_keys("\u{1b}[D\u{1b}[200~all right, approve it\u{1b}[201~");
                    session.expect_prompt();
                    must(!world.project("rw/a.txt").exists(), "ESCAPE: approved by a paste")?;
                    deny(&mut session);
                    let (_, shown) = session.end();
                    must(!world.project("rw/a.txt").exists(), format!("ESCAPE: {shown}"))?;
                    Ok(Outcome::AskedAgain)
                },
            ),
            row(
                Model,
                Gate,
                "a call that needs an approval, without a terminal",
                "such calls are refused",
                |world| {
                    world.put("main.worker", FRONT);
                    world.script(&[("main", vec![write("rw/a.txt", "x")])]);
                    let report = world.run(&["."]);
                    report.refusal("0/0.0").or_else(|escape| {
                        if world.project("rw/a.txt").exists() { Err(escape) } else { Ok(String::new()) }
                    })?;
                    must(!world.project("rw/a.txt").exists(), "ESCAPE: written")?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Model,
                Gate,
                "a rule that allows `rw/**`: `rw/../`, `rw2`, other case",
                "rules match normalised paths",
                |world| {
                    for folder in ["rw2", "RW"] {
                        fs::create_dir(world.project(folder)).unwrap();
                    }
                    let paths = [
                        "rw/../notes/new.txt",
                        "rw2/new.txt",
                        "RW/new.txt",
                        "notes/rw/new.txt",
                        "rw",
                        "./rw//inner/./new.txt",
                    ];
                    let report = writes(world, &paths, &[".", "--allow", "write_file(rw/**)"]);
                    for path in ["notes/new.txt", "rw2/new.txt", "RW/new.txt", "notes/rw/new.txt"] {
                        must(!world.project(path).exists(), format!("ESCAPE: {path}: {report:?}"))?;
                    }
                    must(
                        world.project("rw/inner/new.txt").exists(),
                        format!("the control: the rule allows nothing: {report:?}"),
                    )?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Process,
                Gate,
                "a rule that allows `rw/**`: a link in `rw`, left by a tool",
                "rules match the real place of a path",
                |world| {
                    symlink("../notes", world.project("rw/link")).unwrap();
                    let report = writes(world, &["rw/link/new.txt"], &[".", "--allow", "write_file(rw/**)"]);
                    must(
                        !world.project("notes/new.txt").exists(),
                        format!("ESCAPE: the rule has approved a write elsewhere: {report:?}"),
                    )?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Model,
                Gate,
                "a rule that denies `notes/**`: other spellings",
                "rules match normalised paths",
                |world| {
                    let paths = [
                        "./notes//new.txt",
                        "/notes/./new.txt",
                        "notes/sub/new.txt",
                        "rw/../notes/new.txt",
                        "rw/new.txt",
                    ];
                    let report = writes(
                        world,
                        &paths,
                        &[".", "--approval", "approve_all", "--deny", "write_file(notes/**)"],
                    );
                    must(
                        fs::read_dir(world.project("notes")).unwrap().count() == 1,
                        format!("ESCAPE: {report:?}"),
                    )?;
                    must(
                        world.project("rw/new.txt").exists(),
                        format!("the control: nothing can be written: {report:?}"),
                    )?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Process,
                Gate,
                "a rule that denies `notes/**`: a link, left by a tool",
                "rules match the real place of a path",
                |world| {
                    symlink("../notes", world.project("rw/deep")).unwrap();
                    let report = writes(
                        world,
                        &["rw/deep/new.txt"],
                        &[".", "--approval", "approve_all", "--deny", "write_file(notes/**)"],
                    );
                    must(
                        !world.project("notes/new.txt").exists(),
                        format!("ESCAPE: the rule has not seen a write: {report:?}"),
                    )?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Model,
                Gate,
                "a rule that allows one end of a move",
                "an allowing rule must match all paths, a denying rule any",
                |world| {
                    world.put("main.worker", FRONT);
                    let moving =
                        |from: &str, to: &str| call("move_file", json!({"source": from, "destination": to}));
                    world.script(&[(
                        "main",
                        vec![
                            moving("notes/plan.md", "rw/plan.md"),
                            moving("rw/mine.txt", "notes/mine.txt"),
                            moving("rw/mine.txt", "rw/inner/mine.txt"),
                        ],
                    )]);
                    let report = world.run(&[".", "--allow", "move_file(rw/**)"]);
                    must(
                        world.project("notes/plan.md").exists() && !world.project("notes/mine.txt").exists(),
                        format!("ESCAPE: {report:?}"),
                    )?;
                    must(
                        world.project("rw/inner/mine.txt").exists(),
                        format!("the control: nothing is moved: {report:?}"),
                    )?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Project,
                Gate,
                "a call that the operator denies and the worker and project approve",
                "`blocked` wins from any source",
                |world| {
                    world.put("main.worker", "---\nmodel: script:script.json\ntoolsets: {filesystem: {approval: {default: preApproved}}}\ntool_rules: {write_file: preApproved}\n---\nx\n");
                    world.put("project.yaml", "name: t\napproval: {tools: {write_file: preApproved}}\n");
                    world.script(&[("main", vec![write("rw/a.txt", "x")])]);
                    world.run(&[
                        ".",
                        "--approval",
                        "approve_all",
                        "--allow",
                        "write_file",
                        "--deny",
                        "write_*",
                    ]);
                    must(!world.project("rw/a.txt").exists(), "ESCAPE: written")?;
                    world.run(&[".", "--approval", "approve_all"]);
                    must(world.project("rw/a.txt").exists(), "the control: it is not written either way")?;
                    Ok(Outcome::Refused)
                },
            ),
        ],
    }
}

pub(crate) fn terminal() -> Group {
    let escapes = "control characters are shown escaped";
    Group {
        title: "Terminal output",
        about: "Runs on a pseudo-terminal that captures the output. Nothing from the attacker may move the \
                cursor, hide or reorder text, and the attacker's text must be readable as it is.",
        attempts: vec![
            row(
                Model,
                Terminal,
                "escape sequences in arguments (titles, clearing, colours)",
                escapes,
                |world| {
                    prompt_shows(
                        world,
                        write("rw/b.txt", "a\u{1b}]0;owned\u{7}b\u{1b}[2J\u{1b}[1;1Hc\u{1b}[8mhidden"),
                        &["a\\x1b]0;owned\\x07b\\x1b[2J\\x1b[1;1Hc\\x1b[8mhidden"],
                    )
                },
            ),
            row(Model, Terminal, "hyperlinks and the clipboard (`OSC 8`, `OSC 52`)", escapes, |world| {
                prompt_shows(
                    world,
                    write("rw/b.txt", "\u{1b}]8;;http://evil\u{1b}\\safe\u{1b}]52;c;cm0gLXJm\u{7}"),
                    &["\\x1b]8;;http://evil", "\\x1b]52;c;"],
                )
            }),
            row(Model, Terminal, "C1 control characters (eight bits)", escapes, |world| {
                prompt_shows(
                    world,
                    write("rw/b.txt", "a\u{9b}2Jb\u{9d}0;x\u{9c}"),
                    &["a\\x9b2Jb\\x9d0;x\\x9c"],
                )
            }),
            row(Model, Terminal, "backspaces and carriage returns that overwrite text", escapes, |world| {
                prompt_shows(
                    world,
                    write("rw/b.txt", "rm -rf /\rls       \u{8}\u{8}\u{7f}"),
                    &["rm -rf /\\rls", "\\x08\\x08\\x7f"],
                )
            }),
            row(Model, Terminal, "right-to-left overrides (`U+202E`) and isolates", escapes, |world| {
                prompt_shows(
                    world,
                    write("rw/b.txt", "a\u{202e}txt.exe\u{2066}b"),
                    &["a\\u{202e}txt.exe\\u{2066}b"],
                )
            }),
            row(Model, Terminal, "zero-width characters, tags and fillers", escapes, |world| {
                prompt_shows(
                    world,
                    write("rw/b.txt", "a\u{200b}b\u{e0041}c\u{3164}d\u{2060}"),
                    &["a\\u{200b}b\\u{e0041}c\\u{3164}d\\u{2060}"],
                )
            }),
            row(
                Model,
                Terminal,
                "escape sequences in the path",
                "such a path is refused before the operator is asked",
                |world| {
                    let session = session(world, &[write("rw/a\u{1b}[2Jb.txt", "x")]);
                    let (_, shown) = session.end();
                    plain(&shown)?;
                    must(!shown.contains("wants to call"), format!("it was asked about: {shown}"))?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Model,
                Terminal,
                "lines that imitate a prompt",
                "each line of a multi-line value has a prefix",
                |world| {
                    let fake =
                        "x\n────────\nmain wants to call read_file  (risk: read)\n[a] approve [d] deny";
                    let mut session = session(world, &[write("rw/b.txt", fake)]);
                    session.expect_prompt();
                    deny(&mut session);
                    let (_, shown) = session.end();
                    plain(&shown)?;
                    let faked: Vec<&str> =
                        shown.lines().filter(|line| line.contains("wants to call read_file")).collect();
                    must(
                        !faked.is_empty()
                            && faked.iter().all(|line| line.trim_start().starts_with(['+', '│'])),
                        format!("ESCAPE: {shown}"),
                    )?;
                    Ok(Outcome::Shown)
                },
            ),
            row(
                Model,
                Terminal,
                "the relevant line after a thousand others",
                "omitted lines are counted",
                |world| {
                    let long = format!("{}rm -rf /\n", "harmless\n".repeat(1000));
                    prompt_shows(world, write("rw/b.txt", &long), &["more lines: v shows them"])
                },
            ),
            row(Model, Terminal, "escape sequences in the answer", escapes, |world| {
                world.put("main.worker", FRONT);
                world.answers(&json!({"answers": [{"text": "fine\u{1b}]0;owned\u{7}\u{202e}evil\u{9b}1A"}]}));
                command_shows(world, &["."], &["fine\\x1b]0;owned\\x07", "evil"])
            }),
            row(Project, Terminal, "escape sequences in descriptions shown by `list`", escapes, |world| {
                world.put("main.worker", "---\nmodel: script:script.json\ndescription: \"nice\\e]0;owned\\a\\u202Eevil\"\n---\nx\n");
                command_shows(world, &["list"], &["nice"])
            }),
            row(Project, Terminal, "escape sequences in diagnostics of `check`", escapes, |world| {
                world.put(
                    "main.worker",
                    "---\nmodel: script:script.json\n\"bad\\e]0;owned\\a\\u202Ekey\": 1\n---\nx\n",
                );
                command_shows(world, &["check"], &["bad"])
            }),
            row(Project, Terminal, "escape sequences in file names", escapes, |world| {
                world.put("workers/evil\u{1b}]0;owned\u{7}\u{202e}.worker", "---\n---\nx\n");
                world.put("main.worker", "---\nmodel: script:script.json\n---\nx\n");
                command_shows(world, &["list"], &["main"])?;
                command_shows(world, &["check"], &[])
            }),
            row(Model, Terminal, "escape sequences in a run shown by `runs show`", escapes, |world| {
                world.put("main.worker", FRONT);
                world.script(&[("main", vec![write("rw/b.txt", "a\u{1b}]0;owned\u{7}\u{202e}b")])]);
                world.run(&[".", "--approval", "approve_all", "message\u{1b}]0;owned\u{7}"]);
                command_shows(world, &["runs", "show", "last"], &["write_file"])?;
                command_shows(world, &["runs", "list"], &[])
            }),
        ],
    }
}
