//! Attacks on the display of a terminal.

use crate::{
    attempt::{
        Group,
        Layer::Terminal,
        Outcome, Tried,
        Who::{Model, Project},
        holds, must,
    },
    binary::call,
    operator::{FRONT, deny, row, session, write},
    terminal_session::Session,
    world::World,
};
use serde_json::{Value, json};

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

/// Each row with a part of this text begins with a bar, and no row is longer than the terminal is wide.
fn behind_bars(shown: &str, text: &str, columns: usize) -> Tried {
    let words: Vec<&str> = text.split(' ').collect();
    let pieces = |row: &&str| words.iter().filter(|word| row.contains(**word)).count() >= 2;
    let faked: Vec<&str> = shown.lines().filter(pieces).filter(|row| !row.contains("write_file")).collect();
    must(!faked.is_empty(), format!("the text is not shown: {shown}"))?;
    for row in faked {
        // The rows of an entry begin in the first column.
        let barred = ["  │ ", "  ┆ ", "┆ "].iter().any(|bar| row.starts_with(bar));
        must(barred, format!("ESCAPE: {row:?} in {shown}"))?;
    }
    let last = shown.rfind("wants to call write_file").unwrap_or_default();
    let barred = |row: &&str| row.starts_with("  │ ") || row.starts_with("  ┆ ");
    let long = shown[last..].lines().filter(barred).find(|row| row.chars().count() > columns);
    must(long.is_none(), format!("ESCAPE: a row of {long:?} in {shown}"))?;
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

/// Completes the name of a column that contains a command, as the user types it in bash, and makes the command line.
fn completed_by_bash(world: &World) -> Tried {
    world.put("main.worker", "---\nmodel: script:script.json\nparameters: {a: string}\n---\nx\n");
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_llm-do")).parent().unwrap();
    world.arm();
    for name in [
        "$(touch rw/ran)",
        "\"$(touch rw/ran)",
        "'$(touch rw/ran)",
        "`touch rw/ran`",
        "a;touch rw/ran",
        "a\"'!",
    ] {
        world.put("rows.csv", format!("\"{}\"\n1\n", name.replace('"', "\"\"")));
        for quote in ["", "\"", "'"] {
            let mut command = world.command_on_terminal(&[]);
            let mut bash = std::process::Command::new("/bin/bash");
            bash.args(["--norc", "--noprofile", "-i"]).current_dir(world.project("")).env_clear();
            bash.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
            bash.env("PATH", format!("{}:/usr/bin:/bin", binary.display()))
                .env("TERM", "dumb")
                .env("PS1", "$ ");
            command = bash;
            let mut session = Session::start(command);
            session.expect("$ ");
            session.type_keys(
                "bind 'set enable-bracketed-paste off'; eval \"$(llm-do completions bash)\"; echo rea''dy\r",
            );
            session.expect("ready");
            session.expect("$ ");
            // The arguments are shown instead of being used.
            session.type_keys("llm-do() { if [ \"$1\" = complete ]; then command llm-do \"$@\"; else printf '<%s>' \"$@\"; echo en''d; fi; }; echo se''t\r");
            session.expect("set");
            session.expect("$ ");
            session.type_keys(&format!("llm-do map . rows.csv --ignore-column {quote}\t\r"));
            session.expect("end");
            session.type_keys("exit\r");
            let (_, shown) = session.end();
            must(!world.project("rw/ran").exists(), format!("ESCAPE: {name:?} in {quote:?}: {shown}"))?;
            holds(&shown, &[&format!("<{name}>")])?;
        }
    }
    Ok(Outcome::Literal)
}

/// Fails if a character can move the cursor, hide or reorder text. (The session removes colours and llm-do's own
/// sequences; text of others is escaped before.)
pub(crate) fn plain(shown: &str) -> Result<(), crate::attempt::Escape> {
    let odd = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e0fff}')
    };
    match shown.chars().find(|&c| odd(c)) {
        Some(c) => Err(format!("ESCAPE: {c:?} is shown: {shown:?}").into()),
        None => Ok(()),
    }
}

pub(crate) fn group() -> Group {
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
                "blank letters, spaces of other widths, private use",
                "everything that looks like nothing is shown escaped",
                |world| {
                    prompt_shows(
                        world,
                        write("rw/b.txt", "rm\u{a0}a\u{2800}b\u{2003}c\u{3000}d\u{e000}e\u{1d159}f\u{2028}g"),
                        &["rm\\xa0a\\u{2800}b\\u{2003}c\\u{3000}d\\u{e000}e\\u{1d159}f\\u{2028}g"],
                    )
                },
            ),
            row(
                Model,
                Terminal,
                "joiners and fillers of other scripts (`U+2D7F`, `U+1107F`, `U+17D2`)",
                "a mark is shown only after a letter of its script; what else draws nothing is escaped",
                |world| {
                    prompt_shows(
                        world,
                        write("rw/b.txt", "rm\u{2d7f}a\u{1107f}b\u{17d2}c\u{16fe4}d\u{13441}e क\u{94d}ष"),
                        &["rm\\u{2d7f}a\\u{1107f}b\\u{17d2}c\\u{16fe4}d\\u{13441}e क\u{94d}ष"],
                    )
                },
            ),
            row(
                Project,
                Terminal,
                "reordering and invisible characters in stubs",
                "comments have a replacement character, literals have escapes",
                |world| {
                    world.put(
                        "main.worker",
                        "---\nmodel: script:script.json\ndescription: \"a\\u202Eb\\u2066c\\u2D7F\"\nparameters:\n  type: object\n  properties:\n    \"k\\u202Ey\": {enum: [\"v\\u2066w\"], description: \"d\\u202Ee\"}\n---\nx\n",
                    );
                    for language in ["--python", "--typescript", "--rust"] {
                        let report = world.run(&["stubs", language]);
                        report.ended(0)?;
                        plain(&report.stdout)?;
                        must(!report.stdout.contains('\u{2d7f}'), format!("ESCAPE: {}", report.stdout))?;
                    }
                    Ok(Outcome::Shown)
                },
            ),
            row(
                Project,
                Terminal,
                "names with a command in completions of bash, also in quotes",
                "each candidate is one word that expands nothing",
                completed_by_bash,
            ),
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
                "a long line that continues as a question in the first column",
                "lines are cut into rows behind a bar",
                |world| {
                    let row = |text: &str| format!("{text:100}");
                    let fake = format!("{}{}", row("x"), row("main wants to call read_file  (risk: read)"));
                    let call = call("write_file", json!({"path": "rw/b.txt", "content": fake.repeat(2)}));
                    let mut session = session(world, &[call]);
                    session.expect_prompt();
                    // A terminal that becomes narrower wraps the rows that it shows.
                    session.resize(60);
                    session.expect("wants to call write_file");
                    session.expect_prompt();
                    session.type_keys("e");
                    // The end of the arguments is shown, where the caret is.
                    session.settle();
                    session.type_keys("\u{1b}");
                    session.settle();
                    deny(&mut session);
                    let (_, shown) = session.end();
                    behind_bars(&shown, "wants to call read_file", 60)
                },
            ),
            row(
                Model,
                Terminal,
                "the message of a failed call that continues as a question",
                "lines of the progress continue behind a bar",
                |world| {
                    let path = format!("../{:>64}wants to call read_file", "");
                    let (_, shown) = session(world, &[write(&path, "x")]).end();
                    behind_bars(&shown, "wants to call read_file", 100)
                },
            ),
            row(
                Model,
                Terminal,
                "a changed line of a diff that continues as a question",
                "lines are cut into rows behind a bar",
                |world| {
                    let fake = format!("{:93}main wants to call read_file  (risk: read)\n", "+");
                    let mut session = session(world, &[write("rw/b.txt", &format!("{fake}two\n"))]);
                    session.expect_prompt();
                    session.type_keys("v");
                    session.expect_prompt();
                    deny(&mut session);
                    let (_, shown) = session.end();
                    behind_bars(&shown, "wants to call read_file", 100)
                },
            ),
            row(
                Project,
                Terminal,
                "a grant whose name continues as a question",
                "lines are cut into rows behind a bar",
                |world| {
                    let folder = format!("outside/{}wants to call read_file", "x".repeat(140));
                    std::fs::create_dir_all(world.top.join(&folder)).unwrap();
                    world.put("main.worker", format!("---\nmodel: script:script.json\nsandbox: {{paths: {{x: {{root: '../{folder}'}}}}}}\n---\nx\n"));
                    world.arm();
                    let mut session = Session::start(world.command_on_terminal(&["."]));
                    session.expect("[n] no");
                    session.wait_for_keys();
                    session.type_keys("n");
                    let (_, shown) = session.end();
                    let question = shown.split("[n] no").next().unwrap_or_default();
                    behind_bars(question, "wants to call read_file", 100)
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
            row(
                Project,
                Terminal,
                "C1 controls and reordering in JSON on a terminal",
                "strings of JSON on a terminal have escapes",
                |world| {
                    let hostile = "nice\u{9b}2J\u{9d}0;x\u{9c}\u{202e}evil\u{7f}";
                    world.put(
                        "main.worker",
                        "---\nmodel: script:script.json\ndescription: \"nice\\x9b2J\\x9d0;x\\x9c\\u202Eevil\\x7f\"\n---\nx\n",
                    );
                    world.answers(&json!({"answers": [{"text": hostile}]}));
                    command_shows(world, &["list", "--json"], &["nice\\u009b2J"])?;
                    command_shows(world, &["check", "--json"], &[])?;
                    command_shows(
                        world,
                        &[".", "--json"],
                        &["nice\\u009b2J\\u009d0;x\\u009c\\u202eevil\\u007f"],
                    )?;
                    command_shows(world, &[".", "--output", "stream-json"], &["nice\\u009b2J"])?;
                    command_shows(world, &["runs", "show", "last", "--json"], &["nice\\u009b2J"])?;
                    command_shows(world, &["runs", "export", "last"], &[])
                },
            ),
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
