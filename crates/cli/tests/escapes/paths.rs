//! Paths that try to lead outside, given to every file tool in each of its path arguments.

use crate::{
    attempt::{Attempt, Escape, Group, Layer::Files, Need, Outcome, Tried, Who::Model, must},
    world::{World, corpus},
};
use llm_do_core::authority::{Access, Authority};
use serde_json::{Value, json};
use std::{fs, path::Path, sync::Arc};

const PARSER: &str = "virtual paths without `..`, `\\` and control characters";
const LITERAL: &str = "paths are neither decoded nor expanded";
const NAMES: &str = "protected and invisible names, compared case-folded";

/// A call of every tool, with `path` in each of its path arguments.
pub(crate) fn calls(path: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("read_file", json!({"path": path})),
        ("write_file", json!({"path": path, "content": "written"})),
        ("edit_file", json!({"path": path, "old_text": "canary", "new_text": "edited"})),
        ("append_file", json!({"path": path, "content": "appended"})),
        ("list_files", json!({"path": path})),
        ("list_files", json!({"pattern": path})),
        ("search_files", json!({"path": path, "pattern": "canary|root:"})),
        ("file_info", json!({"path": path})),
        ("file_exists", json!({"path": path})),
        ("copy_file", json!({"source": path, "destination": "/copied"})),
        ("copy_file", json!({"source": "/notes/plan.md", "destination": path})),
        ("move_file", json!({"source": path, "destination": "/moved"})),
        ("move_file", json!({"source": "/notes/plan.md", "destination": path})),
        ("delete_file", json!({"path": path})),
    ]
}

/// Numbers of calls that succeeded and failed.
#[derive(Default)]
struct Count {
    done: usize,
    refused: usize,
}

/// Makes every call with `path`. The attacker learns each file that a call brought into the project; it is then
/// deleted.
fn each_tool(world: &World, authority: &Arc<Authority>, path: &str, count: &mut Count) -> Result<(), Escape> {
    for (tool, input) in calls(path) {
        match world.tool(authority, tool, &input) {
            Ok(said) => {
                must(
                    !said.contains("root:x:0"),
                    format!("ESCAPE: {tool} {input} reads the machine: {said}"),
                )?;
                count.done += 1;
            }
            Err(_) => count.refused += 1,
        }
    }
    sweep(world);
    Ok(())
}

/// Reads new files of the project for the attacker, and restores the project.
fn sweep(world: &World) {
    for entry in fs::read_dir(world.project("")).unwrap().map(|entry| entry.unwrap().path()) {
        let name = entry.file_name().unwrap().to_string_lossy().into_owned();
        if ["notes", "main.worker", ".env", ".git", ".llm-do", "rw", "ro"].contains(&&*name) {
            continue;
        }
        if let Ok(text) = fs::read_to_string(&entry) {
            world.disclose(text);
        }
        let _ = fs::remove_file(&entry).or_else(|_| fs::remove_dir_all(&entry));
    }
    if !world.project("notes/plan.md").is_file() {
        world.put("notes/plan.md", "The plan\n");
    }
}

/// Every tool refuses each path.
fn all_refused(world: &World, paths: &[&str]) -> Tried {
    let authority = world.whole();
    for path in paths {
        for (tool, input) in calls(path) {
            // A pattern is not a path, and may match nothing.
            if let Ok(said) = world.tool(&authority, tool, &input)
                && !["No ", "Nothing ", "false"].iter().any(|nothing| said.starts_with(nothing))
            {
                return Err(format!("{tool} {input} was done: {said}").into());
            }
        }
        sweep(world);
    }
    Ok(Outcome::Refused)
}

/// Each name is an ordinary name in the project.
fn all_literal(world: &World, names: &[&str]) -> Tried {
    let authority = world.whole();
    for name in names {
        world.tool(&authority, "write_file", &json!({"path": name, "content": name}))?;
        let lies = world.project(name.trim_start_matches('/'));
        must(lies.is_file(), format!("{name:?} does not lie where it is named"))?;
        let read = world.tool(&authority, "read_file", &json!({"path": name}))?;
        must(read == **name, format!("{name:?} reads {read:?}"))?;
        each_tool(world, &authority, name, &mut Count::default())?;
    }
    Ok(Outcome::Literal)
}

/// The control: joining the path to the project's folder reads the canary outside.
fn joined_reads(world: &World, path: &str) -> Result<(), Escape> {
    let joined = format!("{}/{}", world.project("").display(), path.trim_start_matches('/'));
    let read = fs::read_to_string(&joined).unwrap_or_default();
    must(read.contains(&world.secret), format!("the control reads nothing: {joined}"))
}

/// The path that a naive decoder produces.
fn decoded(text: &str) -> String {
    let mut text = text.to_owned();
    loop {
        let mut next = text.clone();
        for (from, to) in [
            ("%25", "%"),
            ("%2e", "."),
            ("%2f", "/"),
            ("%5c", "/"),
            ("%32", "2"),
            ("%65", "e"),
            ("%66", "f"),
            ("%35", "5"),
            ("%63", "c"),
            ("%c0%ae", "."),
            ("%c0%2e", "."),
            ("%c0.", "."),
            ("%c0%af", "/"),
            ("%c0%2f", "/"),
            ("%c0/", "/"),
            ("%c0%5c", "/"),
            ("%c1%9c", "/"),
            ("%uff0e", "."),
            ("%u2215", "/"),
            ("%u2216", "/"),
            ("%uEFC8", "/"),
            ("%uF025", "/"),
            ("0x2f", "/"),
            ("0x5c", "/"),
            ("0x2e", "."),
            ("\\", "/"),
        ] {
            next = next.replace(from, to);
        }
        if next == text {
            return text;
        }
        text = next;
    }
}

/// A test that a string is of a class.
type Fits = fn(&str) -> bool;

/// The classes of the corpus; each string is in the first that it fits.
const CLASSES: [(&str, Fits); 7] = [
    ("nested", |line| line.contains("%%")),
    ("double", |line| line.contains("%25")),
    ("overlong", |line| line.contains("%c0") || line.contains("%c1")),
    ("unicode", |line| line.contains("%u")),
    ("percent", |line| line.contains('%')),
    ("hex", |line| line.contains("0x")),
    ("plain", |_| true),
];

/// Every string of one class, with every tool, for a file outside and for one of the machine.
fn class(name: &'static str) -> impl Fn(&World) -> Tried {
    move |world| {
        let corpus = corpus().unwrap();
        let authority = world.whole();
        let (mut strings, mut control, mut count) = (0, false, Count::default());
        for line in corpus.lines().filter(|line| !line.is_empty()) {
            if CLASSES.iter().find(|(_, fits)| fits(line)).is_none_or(|(found, _)| *found != name) {
                continue;
            }
            strings += 1;
            let outside = line.replace("{FILE}", "outside/canary.txt");
            control = control || joined_reads(world, &decoded(&outside)).is_ok();
            // Most strings differ only in the number of repetitions: every fourth goes to every tool.
            if strings % 4 == 1 {
                each_tool(world, &authority, &outside, &mut count)?;
            }
            for (tool, input) in [
                ("read_file", json!({"path": outside})),
                ("write_file", json!({"path": outside, "content": "x"})),
            ] {
                match world.tool(&authority, tool, &input) {
                    Ok(_) => count.done += 1,
                    Err(_) => count.refused += 1,
                }
            }
            let machine = json!({"path": line.replace("{FILE}", "etc/passwd")});
            let said = world.tool(&authority, "read_file", &machine).unwrap_or_default();
            must(!said.contains("root:x:0"), format!("ESCAPE: {machine} reads the machine"))?;
        }
        must(
            strings > 0 && control,
            format!("{strings} strings, of which a careless decoder reads one: {control}"),
        )?;
        Ok(if count.done > count.refused { Outcome::Literal } else { Outcome::Refused })
    }
}

fn corpus_row(name: &'static str, title: &'static str, mechanism: &'static str) -> Attempt {
    Attempt::new(Model, Files, title, mechanism, class(name)).needs(Need::Corpus)
}

fn model(
    name: &'static str,
    mechanism: &'static str,
    attack: impl Fn(&World) -> Tried + Send + Sync + 'static,
) -> Attempt {
    Attempt::new(Model, Files, name, mechanism, attack)
}

pub(crate) fn group() -> Group {
    Group {
        title: "Paths written by a model",
        about: "Each path goes to every file tool, in each argument that takes a path. The control is a \
                naive program, where one is known that would read the canary: it joins the path to the \
                project's folder, or decodes it first.",
        attempts: vec![
            corpus_row("plain", "dots, slashes and backslashes (collected list)", PARSER),
            corpus_row("percent", "percent-encoded dots and slashes (collected list)", LITERAL),
            corpus_row("double", "double percent-encoded dots and slashes (collected list)", LITERAL),
            corpus_row("nested", "nested percent signs (collected list)", LITERAL),
            corpus_row("overlong", "overlong UTF-8 (collected list)", LITERAL),
            corpus_row("unicode", "`%u` escapes and full-width characters (collected list)", LITERAL),
            corpus_row("hex", "`0x2f` and `0x5c` (collected list)", LITERAL),
            model("`..` at the start, in the middle and at the end", PARSER, |world| {
                joined_reads(world, "../outside/canary.txt")?;
                joined_reads(world, "notes/../../outside/canary.txt")?;
                all_refused(
                    world,
                    &[
                        "../outside/canary.txt",
                        "/../outside/canary.txt",
                        "notes/../../outside/canary.txt",
                        "notes/..",
                        "rw/inner/../../../outside",
                    ],
                )
            }),
            model(
                "the absolute path of the file outside",
                "paths are virtual: a real path is a name inside the project",
                |world| {
                    let (authority, mut count) = (world.whole(), Count::default());
                    let path = world.outside("canary.txt").display().to_string();
                    joined_reads(world, &format!("{}{path}", "../".repeat(40)))?;
                    each_tool(world, &authority, &path, &mut count)?;
                    each_tool(world, &authority, "/etc/passwd", &mut count)?;
                    Ok(Outcome::Literal)
                },
            ),
            model(
                "`/proc/self/root`, `/proc/self/cwd`, `/dev/fd`",
                "paths are virtual: a real path is a name inside the project",
                |world| {
                    let outside = world.outside("canary.txt").display().to_string();
                    let through = format!("/proc/self/root{outside}");
                    must(
                        fs::read_to_string(&through).is_ok_and(|read| read == world.secret),
                        "the control reads nothing",
                    )?;
                    let (authority, mut count) = (world.whole(), Count::default());
                    for path in [
                        through.as_str(),
                        "/proc/self/environ",
                        "/proc/1/root/etc/passwd",
                        "/dev/fd/0",
                        "/proc/self/cwd/../outside",
                    ] {
                        each_tool(world, &authority, path, &mut count)?;
                    }
                    Ok(Outcome::Literal)
                },
            ),
            model("backslashes, drive letters, UNC names", PARSER, naive_windows),
            model(
                "look-alikes of dots and slashes (`․․`, `‥`, `／`, `∕`, `。`)",
                LITERAL,
                |world| {
                    all_literal(
                        world,
                        &[
                            "․․／outside",
                            "‥∕outside∕canary.txt",
                            "。。⁄outside",
                            "．．",
                            "…",
                            "..\u{2044}outside",
                        ],
                    )
                },
            ),
            model("dot sequences that resemble `..` (`...`, `....//`, `..;`, `. .`)", LITERAL, |world| {
                all_literal(world, &["...", "....", "..;", ". .", ".. ", "..\u{a0}", "..."])
            }),
            model("trailing dots and spaces after a hidden name", NAMES, |world| {
                // Some file systems ignore trailing dots and spaces.
                joined_reads(world, ".env")?;
                all_refused(world, &[".env.", ".env ", ".env...", ".env. .", ".llm-do./journal"])
            }),
            model("a hidden name in another case (`.ENV`, `.LLM-DO`)", NAMES, |world| {
                all_refused(world, &[".ENV", ".Env.local", ".LLM-DO/journal", ".Llm-Do"])
            }),
            model("zero-width characters inside a hidden name", NAMES, |world| {
                all_refused(
                    world,
                    &[".\u{200c}env", ".e\u{feff}nv", ".llm\u{200d}-do/journal", ".llm-do\u{200e}"],
                )
            }),
            model("writing a file that defines the program, in any case", NAMES, |world| {
                let authority = world.whole();
                for path in [
                    "main.worker",
                    "MAIN.WORKER",
                    "new.Worker",
                    "workers/x.txt",
                    "Workers/x",
                    "tools.py",
                    "TOOLS.PY",
                    "templates/a",
                    "PROMPTS/a",
                    "project.yaml",
                    "Project.YAML",
                    "llm-do.lock",
                    "lib.yaml",
                    "toolſ.py",
                ] {
                    for (tool, input) in writes(path) {
                        if let Ok(said) = world.tool(&authority, tool, &input) {
                            return Err(format!("ESCAPE: {tool} {input}: {said}").into());
                        }
                    }
                    must(
                        path == "main.worker" || !world.project(path).exists(),
                        format!("ESCAPE: {path} was made"),
                    )?;
                }
                Ok(Outcome::Refused)
            }),
            model("a hook in `.git`, at the root or below it", NAMES, |world| {
                let authority = world.whole();
                for path in [
                    ".git/hooks/post-commit",
                    ".GIT/hooks/x",
                    "notes/.git/hooks/post-checkout",
                    ".git",
                    "notes/.git",
                ] {
                    for (tool, input) in writes(path) {
                        if let Ok(said) = world.tool(&authority, tool, &input) {
                            return Err(format!("ESCAPE: {tool} {input}: {said}").into());
                        }
                    }
                }
                must(!world.project("notes/.git").exists(), "ESCAPE: a .git was made")?;
                Ok(Outcome::Refused)
            }),
            model(
                "moving a folder onto a protected name, or moving a folder that contains one",
                NAMES,
                |world| {
                    let authority = world.whole();
                    for name in ["sub/.git/HEAD", "sub2/x.worker", "sub3/deep/.env.local", "workers/w.txt"] {
                        world.put(name, "held");
                    }
                    for (from, to) in [
                        ("/notes", "/Workers"),
                        ("/notes", "/tools"),
                        ("/notes", "/.git"),
                        ("/sub", "/away"),
                        ("/sub2", "/away"),
                        ("/sub3", "/away"),
                        ("/sub3/deep", "/away"),
                        ("/workers", "/away"),
                        ("/notes/plan.md", "/tools.py"),
                    ] {
                        let input = json!({"source": from, "destination": to});
                        if let Ok(said) = world.tool(&authority, "move_file", &input) {
                            return Err(format!("ESCAPE: {input}: {said}").into());
                        }
                    }
                    Ok(Outcome::Refused)
                },
            ),
            model("the name of the temporary file of a write", NAMES, |world| {
                all_refused(world, &[".llm-do-tmp-0123456789abcdef", "notes/.LLM-DO-TMP-x"])
            }),
            model("NUL, which terminates a name for the kernel", PARSER, |world| {
                all_refused(world, &["notes/plan.md\0.txt", "\0", "../outside/canary.txt\0", ".env\0.txt"])
            }),
            model("line breaks, escapes and other control characters", PARSER, |world| {
                all_refused(world, &["a\nb", "a\u{1b}[2Jb", "a\rb", "a\u{7f}", "\u{9b}31m"])
            }),
            model(
                "names of 256 bytes, paths of 6,000 bytes, 2,000 levels",
                "limits of the kernel, returned as errors",
                |world| {
                    let (long, deep) = ("n".repeat(256), "d/".repeat(2000) + "x");
                    let beyond = format!("{}outside/canary.txt", "../".repeat(2000));
                    all_refused(
                        world,
                        &[&long, &"x/".repeat(3000), &beyond, &format!("{deep}/../../outside")],
                    )
                },
            ),
            model(
                "deleting or replacing the empty path, `/` or `.`",
                "the root of a mount cannot be moved or deleted",
                |world| {
                    let authority = world.whole();
                    for path in ["", "/", ".", "//", "./."] {
                        for tool in ["delete_file", "write_file", "append_file"] {
                            let said = world.tool(&authority, tool, &json!({"path": path, "content": "x"}));
                            must(said.is_err(), format!("ESCAPE: {tool} {path:?}: {said:?}"))?;
                        }
                        let said = world.tool(
                            &authority,
                            "move_file",
                            &json!({"source": path, "destination": "/away"}),
                        );
                        must(said.is_err(), format!("ESCAPE: move {path:?}: {said:?}"))?;
                    }
                    Ok(Outcome::Refused)
                },
            ),
            model("`~`, `$HOME`, `${…}`, backticks, `$(…)`", LITERAL, |world| {
                all_literal(
                    world,
                    &["~", "~root", "$HOME", "${HOME}", "`id`", "$(id)", "%USERPROFILE%", "{{ 7*7 }}"],
                )
            }),
            model("URLs (`file://`, `http://`, `git+ssh://`)", LITERAL, |world| {
                let (authority, mut count) = (world.whole(), Count::default());
                let file = format!("file://{}", world.outside("canary.txt").display());
                let http = format!("http://127.0.0.1:{}/x", world.port());
                for path in
                    [file.as_str(), &http, "git+ssh://127.0.0.1/x", "data:,x", "jar:file:///etc/passwd!/x"]
                {
                    each_tool(world, &authority, path, &mut count)?;
                }
                Ok(Outcome::Literal)
            }),
            model("command-line options as names (`-rf`, `--help`, `@file`)", LITERAL, |world| {
                all_literal(world, &["-rf", "--help", "-", "@notes", "-o ProxyCommand=x"])
            }),
            model(
                "listing patterns that climb (`../**`, `{a,../b}`)",
                "patterns filter the entries of a walk that stays inside",
                |world| {
                    let authority = world.whole();
                    world.arm();
                    for pattern in [
                        "../**",
                        "/../*",
                        "{notes,../outside}/**",
                        "**/../../outside/*",
                        "[.][.]/**",
                        "/**/canary*",
                        "**/.env",
                    ] {
                        let said = world
                            .tool(&authority, "list_files", &json!({"pattern": pattern}))
                            .unwrap_or_else(|error| error);
                        must(
                            !said.contains("canary.txt") && !said.contains("/.env "),
                            format!("ESCAPE: {pattern}: {said}"),
                        )?;
                    }
                    Ok(Outcome::NotThere)
                },
            ),
            model(
                "a search pattern with exponential backtracking (`(a+)+$`)",
                "linear-time regular expressions of bounded size",
                |world| {
                    let authority = world.whole();
                    world.put("notes/a.txt", "a".repeat(20_000) + "!");
                    let found = world.tool(&authority, "search_files", &json!({"pattern": "(a+)+$"}))?;
                    must(found.starts_with("No "), found)?;
                    let huge = world.tool(
                        &authority,
                        "search_files",
                        &json!({"pattern": "((((a{1,300}){1,300}){1,300}){1,300})"}),
                    );
                    must(huge.is_err(), "a pattern of gigabytes was compiled")?;
                    Ok(Outcome::Bounded)
                },
            ),
            model("a file that another mount covers", "only the innermost mount applies", |world| {
                world.put("rw/inner/covered.txt", &world.secret);
                let authority = world.authority(vec![
                    world.mount("/", "project", Access::Write),
                    world.mount("/rw/inner", "project/ro", Access::Read),
                ]);
                joined_reads(world, "rw/inner/covered.txt")?;
                let mut count = Count::default();
                for path in ["rw/inner/covered.txt", "/rw/./inner/covered.txt", "rw//inner/covered.txt", "rw"]
                {
                    each_tool(world, &authority, path, &mut count)?;
                }
                Ok(Outcome::NotThere)
            }),
            model(
                "moving or deleting a folder that contains a mount",
                "a folder that contains a mount cannot be moved or deleted",
                |world| {
                    let authority = world.authority(vec![
                        world.mount("/", "project", Access::Write),
                        world.mount("/rw/inner", "project/rw/inner", Access::Read),
                    ]);
                    world.put("rw/inner/fixed.txt", "fixed");
                    for (tool, input) in [
                        ("move_file", json!({"source": "/rw", "destination": "/away"})),
                        ("move_file", json!({"source": "/rw/inner", "destination": "/away"})),
                        ("delete_file", json!({"path": "/rw/inner"})),
                        ("write_file", json!({"path": "/rw/inner/fixed.txt", "content": "x"})),
                    ] {
                        let said = world.tool(&authority, tool, &input);
                        must(said.is_err(), format!("ESCAPE: {tool} {input}: {said:?}"))?;
                    }
                    must(
                        world.text("rw/inner/fixed.txt") == "fixed",
                        "ESCAPE: the file for reading is gone",
                    )?;
                    Ok(Outcome::Refused)
                },
            ),
            model("changing a read-only mount, with every tool that writes", "the mount's mode", |world| {
                let authority = world.authority(vec![
                    world.mount("/ro", "project/ro", Access::Read),
                    world.mount("/rw", "project/rw", Access::Write),
                ]);
                for (tool, input) in
                    writes("/ro/theirs.txt").into_iter().chain(writes("/ro/new.txt")).chain([
                        ("delete_file", json!({"path": "/ro/theirs.txt"})),
                        ("move_file", json!({"source": "/ro/theirs.txt", "destination": "/rw/x"})),
                    ])
                {
                    let said = world.tool(&authority, tool, &input);
                    must(said.is_err(), format!("ESCAPE: {tool} {input}: {said:?}"))?;
                }
                must(
                    world.text("ro/theirs.txt") == "to be read"
                        && !Path::new(&world.project("ro/new.txt")).exists(),
                    "ESCAPE: it changed",
                )?;
                Ok(Outcome::Refused)
            }),
        ],
    }
}

fn naive_windows(world: &World) -> Tried {
    joined_reads(world, &decoded("..\\outside\\canary.txt"))?;
    all_refused(
        world,
        &[
            "..\\outside\\canary.txt",
            "notes\\..\\..\\outside",
            "C:\\x",
            "\\\\host\\share",
            "\\\\?\\C:\\x",
            "notes\\plan.md",
        ],
    )
}

/// The calls that create or change `path`.
pub(crate) fn writes(path: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("write_file", json!({"path": path, "content": "x"})),
        ("append_file", json!({"path": path, "content": "x"})),
        ("edit_file", json!({"path": path, "old_text": "model", "new_text": "x"})),
        ("copy_file", json!({"source": "/notes/plan.md", "destination": path})),
        ("move_file", json!({"source": "/notes/plan.md", "destination": path})),
    ]
}
