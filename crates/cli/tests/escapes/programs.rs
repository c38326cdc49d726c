//! Programs that a model writes.

use crate::{
    attempt::{
        Attempt, Group,
        Layer::{self, Gate, Launcher},
        Need, Outcome, Tried,
        Who::{Document, Model},
        holds, must,
    },
    binary::{RunReport, call},
    world::World,
};
use serde_json::{Value, json};

const APPROVED: &[&str] = &[".", "--approval", "approve_all"];

fn row(
    who: crate::attempt::Who,
    layer: Layer,
    name: &'static str,
    mechanism: &'static str,
    attack: fn(&World) -> Tried,
) -> Attempt {
    Attempt::new(who, layer, name, mechanism, attack).needs(Need::Python).needs(Need::Tiers).tier("A")
}

fn program(code: &str) -> Value {
    call("run_program", json!({"code": code, "why": "To help."}))
}

/// A project whose model makes these calls, with file tools for `/rw` and `/ro`.
fn run(world: &World, programs: &str, calls: Vec<Value>, arguments: &[&str]) -> RunReport {
    world.put("ro/a.txt", "apples");
    world.put("rw/b.txt", "bananas");
    world.put(
        "main.worker",
        format!(
            "---\nmodel: script:script.json\ntoolsets: {{filesystem: {{}}, programs: {programs}}}\n\
             sandbox: {{paths: {{rw: {{root: ./rw, mode: rw}}, ro: {{root: ./ro, untrusted: true}}}}}}\n---\nGo.\n"
        ),
    );
    world.script(&[("main", calls)]);
    world.run(arguments)
}

/// A program that reaches the modules of its interpreter, which the check does not see.
fn reaching(body: &str) -> String {
    let lines: Vec<String> = body.lines().map(|line| format!("    {line}\n")).collect();
    format!("import collections\n\ndef main(input, ctx):\n    sys = collections._sys\n{}", lines.concat())
}

pub(crate) fn group() -> Group {
    Group {
        title: "Programs that a model writes",
        about: "Runs of the binary with scripted models that write programs (`run_program`). All calls are approved unless \
                the row says otherwise. The programs reach `sys` through a module, so that the check does not find them. \
                The control makes a call that the program may make.",
        attempts: vec![
            row(
                Model,
                Launcher,
                "a program reads files of the project and outside",
                "the process of a program sees no files",
                |world| {
                    let secret = world.put("ro/secret.txt", &world.secret);
                    let read = |path: &std::path::Path| {
                        format!(
                            "try:\n    return posix.read(posix.open({path:?}, 0), 99).decode()[::-1]\nexcept OSError as error:\n    return str(error)"
                        )
                    };
                    let of =
                        |path| program(&reaching(&format!("posix = sys.modules['posix']\n{}", read(path))));
                    let outside = world.outside("canary.txt");
                    let report = run(world, "{}", vec![of(&secret), of(&outside)], APPROVED);
                    holds(&report.ending("0/0.0")??, &["No such file"])?;
                    holds(&report.ending("0/1.0")??, &["No such file"])?;
                    Ok(Outcome::NotThere)
                },
            ),
            row(
                Model,
                Launcher,
                "a program connects to a socket",
                "the process of a program has no network",
                |world| {
                    let code = format!(
                        "import collections\n\ndef main(input, ctx):\n    find = collections._sys.modules['importlib._bootstrap'] if \
                         'importlib._bootstrap' in collections._sys.modules else collections._sys.modules['_frozen_importlib']\n    \
                         socket = find._gcd_import('_socket')\n    one = socket.socket()\n    try:\n        \
                         one.connect(('127.0.0.1', {}))\n    except OSError as error:\n        return f'refused: {{error}}'\n    return 'connected'\n",
                        world.port()
                    );
                    let report = run(world, "{}", vec![program(&code)], APPROVED);
                    let ending = report.ending("0/0.0")?;
                    must(ending.as_deref() != Ok("connected"), format!("ESCAPE: {ending:?}"))?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Model,
                Gate,
                "a program calls a function that its check did not find",
                "an execution makes only the calls that the question showed",
                |world| {
                    let code = reaching(
                        "here = sys._getframe().f_locals['ctx']\nreturn here.call('write_file', path='/rw/new.txt', content='x')",
                    );
                    let honest = "def main(input, ctx):\n    return ctx.call('write_file', path='/rw/control.txt', content='x')\n";
                    let report = run(world, "{}", vec![program(&code), program(honest)], APPROVED);
                    holds(&report.refusal("0/0.0")?, &["checked and approved for other calls"])?;
                    report.ending("0/1.0")??;
                    must(!world.project("rw/new.txt").exists(), "ESCAPE: the file was written")?;
                    must(world.project("rw/control.txt").exists(), "the control: nothing was written")?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Model,
                Launcher,
                "a program changes the interpreter for the next program",
                "a program has a process of its own, which ends with it",
                |world| {
                    let plant = reaching("sys.modules['builtins'].oct = lambda x: 666\nreturn oct(8)");
                    let look = "def main(input, ctx):\n    return len(oct(8))\n";
                    let report = run(world, "{}", vec![program(&plant), program(look)], APPROVED);
                    must(
                        report.ending("0/0.0")?? == "666",
                        "the control: it is not changed in its own process",
                    )?;
                    must(report.ending("0/1.0")?? == "4", "ESCAPE: the next program is changed")?;
                    Ok(Outcome::NotThere)
                },
            ),
            row(
                Model,
                Launcher,
                "a program leaves a process behind",
                "all processes of a program end with it",
                |world| {
                    let code = reaching(
                        "posix = sys.modules['posix']\nif posix.fork() == 0:\n    while True:\n        pass\nreturn 'forked'",
                    );
                    run(world, "{}", vec![program(&code)], APPROVED);
                    let left = world.processes();
                    must(left.is_empty(), format!("ESCAPE: {left:?}"))?;
                    Ok(Outcome::Ended)
                },
            ),
            row(
                Document,
                Gate,
                "words of a document write a program that is pre-approved",
                "a program of a tainted conversation asks",
                |world| {
                    let code = "def main(input, ctx):\n    return ctx.call('list_files', path='/rw')\n";
                    let read = call("read_file", json!({"path": "/ro/a.txt"}));
                    let approved = "{pre_approved: callees}";
                    let report = run(world, approved, vec![program(code), read, program(code)], &["."]);
                    report.ending("0/0.0")??;
                    holds(&report.refusal("0/2.0")?, &["needs an approval"])?;
                    Ok(Outcome::Asks)
                },
            ),
        ],
    }
}
