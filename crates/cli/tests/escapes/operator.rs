//! What the operator approves, and what he sees of it.

use crate::{
    attempt::{
        Attempt, Group,
        Layer::{self, Gate, Terminal},
        Outcome, Tried,
        Who::{self, Document, Model, Process, Project},
        holds, must,
    },
    binary::{Told, call},
    session::Session,
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

/// A session whose worker makes these calls.
fn session(world: &World, calls: &[Value]) -> Session {
    world.put("main.worker", FRONT);
    world.script(&[("main", calls.to_vec())]);
    world.arm();
    Session::start(world.command_on_terminal(&["."]))
}

/// A run in which these files are written.
fn writes(world: &World, paths: &[&str], arguments: &[&str]) -> Told {
    world.put("main.worker", FRONT);
    world.script(&[("main", paths.iter().map(|path| write(path, "x")).collect())]);
    world.run(arguments)
}

fn deny(session: &mut Session) {
    session.type_keys("d");
    session.expect("reason");
    session.type_keys("\r");
}

/// One call is approved and remembered; the same once more is not asked about, and the other one is.
fn asked_anew(world: &World, first: &Value, other: &Value) -> Tried {
    let mut session = session(world, &[first.clone(), first.clone(), other.clone()]);
    session.expect_prompt();
    session.type_keys("r");
    session.expect_prompt();
    deny(&mut session);
    let (code, shown) = session.end();
    world.hear(&shown);
    must(code == Some(0) && shown.matches("wants to call").count() == 2, format!("ESCAPE: {shown}"))?;
    let ran = world.journal().iter().filter(|record| record["kind"] == "tool_started").count();
    must(ran == 2, format!("ESCAPE: {ran} calls ran: {shown}"))?;
    Ok(Outcome::Asked)
}

/// What a prompt for this call shows: nothing that moves, hides or reorders, and these texts.
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

/// What a command shows on a terminal.
fn command_shows(world: &World, arguments: &[&str], texts: &[&str]) -> Tried {
    world.arm();
    let (_, shown) = Session::start(world.command_on_terminal(arguments)).end();
    plain(&shown)?;
    holds(&shown, texts)?;
    Ok(Outcome::Shown)
}

/// Nothing in it can move the cursor, hide, or reorder. (The session itself leaves out colours and what llm-do's own screen
/// does; what comes from others is escaped before.)
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
        about: "A terminal of its own, on which the operator has approved one call and let it be remembered. The same call again is not asked about; the \
                attack must be. The rows on rules run without a terminal, beside a call that the rule allows.",
        attempts: vec![
            row(Model, Gate, "the same file, other content", "memory holds all arguments", |world| {
                asked_anew(world, &write("rw/a.txt", "x"), &write("rw/a.txt", "y"))
            }),
            row(Model, Gate, "the same words, another tool", "memory holds the function", |world| {
                asked_anew(
                    world,
                    &write("rw/a.txt", "x"),
                    &call("append_file", json!({"path": "rw/a.txt", "content": "x"})),
                )
            }),
            row(
                Model,
                Gate,
                "a path with a letter that looks the same (`а` for `a`)",
                "names are compared exactly",
                |world| asked_anew(world, &write("rw/a.txt", "x"), &write("rw/\u{430}.txt", "x")),
            ),
            row(
                Model,
                Gate,
                "a path that another normal form makes equal (`é`)",
                "names are compared exactly",
                |world| asked_anew(world, &write("rw/\u{e9}.txt", "x"), &write("rw/e\u{301}.txt", "x")),
            ),
            row(Model, Gate, "a path with a blank or a dot behind", "names are compared exactly", |world| {
                asked_anew(world, &write("rw/a.txt", "x"), &write("rw/a.txt ", "x"))
            }),
            row(
                Model,
                Gate,
                "content with a character that is not seen",
                "memory holds all arguments",
                |world| asked_anew(world, &write("rw/a.sh", "rm x"), &write("rw/a.sh", "rm x\u{200b}")),
            ),
            row(
                Project,
                Gate,
                "a link in the approved path that is turned elsewhere",
                "memory holds the place that the path leads to",
                |world| {
                    symlink("rw", world.project("link")).unwrap();
                    let first = write("link/a.txt", "x");
                    let calls = [first.clone(), write("rw/other.txt", "x"), first, write("rw/last.txt", "x")];
                    let mut session = session(world, &calls);
                    session.expect_prompt();
                    session.type_keys("r");
                    session.expect_prompt();
                    // The first has been written; while the second is asked about the link is turned.
                    must(world.text("rw/a.txt") == "x", "the control: the approved call did not run")?;
                    fs::remove_file(world.project("link")).unwrap();
                    symlink("notes", world.project("link")).unwrap();
                    deny(&mut session);
                    // Of the third, if it is asked about, or else of the last.
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
                "arguments in which a name stands twice",
                "what is asked about is what runs",
                |world| {
                    let raw = r#"{"path": "rw/harmless.txt", "content": "x", "path": "notes/plan.md"}"#;
                    let mut session = session(
                        world,
                        &[json!({"tool": "write_file", "raw_arguments": raw}), write("rw/end.txt", "x")],
                    );
                    // Each is asked about, one after the other.
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
                "arguments that the operator edits to what is hidden",
                "edited arguments pass every step again",
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
                "an answer that was typed before the question",
                "what was typed before is thrown away",
                |world| {
                    let mut session = session(world, &[write("rw/a.txt", "x")]);
                    session.type_keys("aaaarrrr");
                    session.expect_prompt();
                    must(!world.project("rw/a.txt").exists(), "ESCAPE: approved by what was typed before")?;
                    deny(&mut session);
                    let (_, shown) = session.end();
                    must(!world.project("rw/a.txt").exists(), format!("ESCAPE: {shown}"))?;
                    Ok(Outcome::Asked)
                },
            ),
            row(
                Document,
                Gate,
                "a paste that holds the letters of an answer (`ESC [D`, text)",
                "only a single key answers",
                |world| {
                    let mut session = session(world, &[write("rw/a.txt", "x")]);
                    session.expect_prompt();
                    session.type_keys("\u{1b}[D\u{1b}[200~all right, approve it\u{1b}[201~");
                    session.expect_prompt();
                    must(!world.project("rw/a.txt").exists(), "ESCAPE: approved by a paste")?;
                    deny(&mut session);
                    let (_, shown) = session.end();
                    must(!world.project("rw/a.txt").exists(), format!("ESCAPE: {shown}"))?;
                    Ok(Outcome::Asked)
                },
            ),
            row(Model, Gate, "no terminal to ask on", "refused, and said so", |world| {
                world.put("main.worker", FRONT);
                world.script(&[("main", vec![write("rw/a.txt", "x")])]);
                let told = world.run(&["."]);
                told.refusal("0/0.0").or_else(|escape| {
                    if world.project("rw/a.txt").exists() { Err(escape) } else { Ok(String::new()) }
                })?;
                must(!world.project("rw/a.txt").exists(), "ESCAPE: written")?;
                Ok(Outcome::Refused)
            }),
            row(
                Model,
                Gate,
                "a rule for `rw/**`, met by `rw/../`, `rw2`, other case",
                "rules are matched on normalised paths",
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
                    let told = writes(world, &paths, &[".", "--allow", "write_file(rw/**)"]);
                    for path in ["notes/new.txt", "rw2/new.txt", "RW/new.txt", "notes/rw/new.txt"] {
                        must(!world.project(path).exists(), format!("ESCAPE: {path}: {told:?}"))?;
                    }
                    must(
                        world.project("rw/inner/new.txt").exists(),
                        format!("the control: the rule allows nothing: {told:?}"),
                    )?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Process,
                Gate,
                "a rule for `rw/**`, met by a link that a tool has left in `rw`",
                "rules are matched on the place that a path leads to",
                |world| {
                    symlink("../notes", world.project("rw/link")).unwrap();
                    let told = writes(world, &["rw/link/new.txt"], &[".", "--allow", "write_file(rw/**)"]);
                    must(
                        !world.project("notes/new.txt").exists(),
                        format!("ESCAPE: the rule has approved a write elsewhere: {told:?}"),
                    )?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Model,
                Gate,
                "a rule against `notes/**`, walked around by spelling",
                "rules are matched on normalised paths",
                |world| {
                    let paths = [
                        "./notes//new.txt",
                        "/notes/./new.txt",
                        "notes/sub/new.txt",
                        "rw/../notes/new.txt",
                        "rw/new.txt",
                    ];
                    let told = writes(
                        world,
                        &paths,
                        &[".", "--approval", "approve_all", "--deny", "write_file(notes/**)"],
                    );
                    must(
                        fs::read_dir(world.project("notes")).unwrap().count() == 1,
                        format!("ESCAPE: {told:?}"),
                    )?;
                    must(
                        world.project("rw/new.txt").exists(),
                        format!("the control: nothing can be written: {told:?}"),
                    )?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Process,
                Gate,
                "a rule against `notes/**`, walked around by a link that a tool has left",
                "rules are matched on the place that a path leads to",
                |world| {
                    symlink("../notes", world.project("rw/deep")).unwrap();
                    let told = writes(
                        world,
                        &["rw/deep/new.txt"],
                        &[".", "--approval", "approve_all", "--deny", "write_file(notes/**)"],
                    );
                    must(
                        !world.project("notes/new.txt").exists(),
                        format!("ESCAPE: the rule has not seen a write: {told:?}"),
                    )?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Model,
                Gate,
                "a rule for one end of a move",
                "an approval needs all paths, a refusal any",
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
                    let told = world.run(&[".", "--allow", "move_file(rw/**)"]);
                    must(
                        world.project("notes/plan.md").exists() && !world.project("notes/mine.txt").exists(),
                        format!("ESCAPE: {told:?}"),
                    )?;
                    must(
                        world.project("rw/inner/mine.txt").exists(),
                        format!("the control: nothing is moved: {told:?}"),
                    )?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Project,
                Gate,
                "what the operator refuses, approved by worker and project",
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
    let escapes = "control characters are shown as escapes";
    Group {
        title: "What the operator sees",
        about: "A terminal of its own takes what is shown. Nothing may come from the attacker that moves the cursor, hides or reorders, and what he wrote must \
                be readable as it is.",
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
            row(Model, Terminal, "links and the clipboard (`OSC 8`, `OSC 52`)", escapes, |world| {
                prompt_shows(
                    world,
                    write("rw/b.txt", "\u{1b}]8;;http://evil\u{1b}\\safe\u{1b}]52;c;cm0gLXJm\u{7}"),
                    &["\\x1b]8;;http://evil", "\\x1b]52;c;"],
                )
            }),
            row(Model, Terminal, "eight-bit control characters", escapes, |world| {
                prompt_shows(
                    world,
                    write("rw/b.txt", "a\u{9b}2Jb\u{9d}0;x\u{9c}"),
                    &["a\\x9b2Jb\\x9d0;x\\x9c"],
                )
            }),
            row(Model, Terminal, "backspaces and carriage returns that overprint", escapes, |world| {
                prompt_shows(
                    world,
                    write("rw/b.txt", "rm -rf /\rls       \u{8}\u{8}\u{7f}"),
                    &["rm -rf /\\rls", "\\x08\\x08\\x7f"],
                )
            }),
            row(Model, Terminal, "text from right to left (`U+202E`), isolates", escapes, |world| {
                prompt_shows(
                    world,
                    write("rw/b.txt", "a\u{202e}txt.exe\u{2066}b"),
                    &["a\\u{202e}txt.exe\\u{2066}b"],
                )
            }),
            row(Model, Terminal, "characters without width, tags, fillers", escapes, |world| {
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
                "such a path is refused before anybody is asked",
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
                "lines that look like a prompt of its own",
                "values of several lines stand behind a bar or a sign",
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
                "what matters behind a thousand lines",
                "what is left out is counted",
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
            row(Project, Terminal, "escape sequences in descriptions that are listed", escapes, |world| {
                world.put("main.worker", "---\nmodel: script:script.json\ndescription: \"nice\\e]0;owned\\a\\u202Eevil\"\n---\nx\n");
                command_shows(world, &["list"], &["nice"])
            }),
            row(Project, Terminal, "escape sequences in what `check` complains of", escapes, |world| {
                world.put(
                    "main.worker",
                    "---\nmodel: script:script.json\n\"bad\\e]0;owned\\a\\u202Ekey\": 1\n---\nx\n",
                );
                command_shows(world, &["check"], &["bad"])
            }),
            row(Project, Terminal, "escape sequences in names of files", escapes, |world| {
                world.put("workers/evil\u{1b}]0;owned\u{7}\u{202e}.worker", "---\n---\nx\n");
                world.put("main.worker", "---\nmodel: script:script.json\n---\nx\n");
                command_shows(world, &["list"], &["main"])?;
                command_shows(world, &["check"], &[])
            }),
            row(Model, Terminal, "escape sequences in a run that is looked at later", escapes, |world| {
                world.put("main.worker", FRONT);
                world.script(&[("main", vec![write("rw/b.txt", "a\u{1b}]0;owned\u{7}\u{202e}b")])]);
                world.run(&[".", "--approval", "approve_all", "message\u{1b}]0;owned\u{7}"]);
                command_shows(world, &["runs", "show", "last"], &["write_file"])?;
                command_shows(world, &["runs", "list"], &[])
            }),
        ],
    }
}
