//! The files of a program that a server executes: its command, and the scripts among its arguments. Data files such as
//! a database are not among them, so that a worker may write them.

use crate::configuration::Command;
use llm_do_core::{authority::Place, toolset::Executed};
use llm_do_sandbox::place_of;
use std::path::Path;

/// Programs whose first argument is a script, whatever its name. Versions may follow: `python3.12`.
const INTERPRETERS: &[&str] =
    &["python", "node", "deno", "bun", "ruby", "perl", "php", "lua", "bash", "dash", "sh", "zsh", "java"];

/// Suffixes of files that interpreters execute.
const SCRIPTS: &[&str] = &[
    "py", "pyc", "pyz", "pyw", "js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx", "sh", "bash", "zsh",
    "rb", "pl", "pm", "php", "lua", "jar", "class", "wasm", "so", "node", "exe",
];

/// Names beside a JavaScript file that decide what it loads.
const BESIDE_JAVASCRIPT: &[&str] = &["package.json", "node_modules"];

/// Returns the files that a server of a program or library in `root` executes, if its process begins in one of
/// `folders`.
pub(crate) fn of(server: &Command, root: &Place, folders: &[Place]) -> Executed {
    let mut executed = Executed::default();
    let folders = || std::iter::once(root).chain(folders);
    if server.command.contains('/') {
        executed.files.extend(places(root, &server.command));
    }
    for script in scripts(server) {
        for folder in folders() {
            let files = places(folder, script);
            let is_there = files.iter().any(|file| Path::new(file.as_str()).exists());
            for around in files.iter().filter(|_| is_there).filter_map(parent) {
                executed.files.extend(BESIDE_JAVASCRIPT.iter().map(|name| around.join(name)));
                executed.importing.push(around);
            }
            executed.files.extend(files.iter().filter_map(packages));
            // Also where it does not exist: another process may begin there.
            executed.files.extend(files);
        }
    }
    // The working directory is the first folder from which a module imports others.
    if runs_module(server) {
        executed.importing.extend(folders().cloned());
    }
    executed
}

/// Returns the arguments that name scripts.
fn scripts(server: &Command) -> impl Iterator<Item = &str> {
    let interpreted = is_interpreter(&server.command);
    let first = server.args.iter().position(|word| !word.starts_with('-')).filter(|_| interpreted);
    let words = server.args.iter().enumerate();
    words.filter_map(move |(at, word)| {
        // `--import=./hooks.mjs`
        let path =
            word.split_once('=').filter(|_| word.starts_with('-')).map_or(word.as_str(), |(_, path)| path);
        let suffix = Path::new(path).extension().and_then(|suffix| suffix.to_str()).unwrap_or_default();
        let is_script = SCRIPTS.iter().any(|known| suffix.eq_ignore_ascii_case(known));
        ((is_script && !word.contains("://")) || Some(at) == first).then_some(path)
    })
}

/// Returns true if the server runs a Python module by its name: `python3 -m notes.server`.
fn runs_module(server: &Command) -> bool {
    server.args.iter().any(|word| word == "-m" || word.starts_with("-m"))
        && Path::new(&server.command)
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("python"))
}

fn is_interpreter(command: &str) -> bool {
    let name = Path::new(command).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS.contains(&name)
}

/// Returns the place that a path names, and the place that it resolves to.
fn places(folder: &Place, path: &str) -> Vec<Place> {
    let path = Path::new(folder.as_str()).join(path);
    let named = path.to_str().map(Place::new);
    // The folder may be a link, and the file too.
    let in_folder = || Some(place_of(path.parent()?).ok()?.join(path.file_name()?.to_str()?));
    let mut places: Vec<Place> = named.into_iter().chain(in_folder()).chain(place_of(&path).ok()).collect();
    places.dedup();
    places
}

/// Returns the folder of packages that contains a file of a package.
fn packages(file: &Place) -> Option<Place> {
    let at = file.as_str().find("/node_modules/")?;
    Some(Place::new(&file.as_str()[..at + "/node_modules".len()]))
}

fn parent(file: &Place) -> Option<Place> {
    Path::new(file.as_str()).parent()?.to_str().map(Place::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn named(command: &str, args: &[&str]) -> Vec<String> {
        let server: Command = serde_json::from_value(json!({"command": command, "args": args})).unwrap();
        scripts(&server).map(str::to_owned).collect()
    }

    #[test]
    fn scripts_are_told_from_data() {
        assert_eq!(named("python3", &["servers/notes.py", "--db", "data/notes.db"]), ["servers/notes.py"]);
        assert_eq!(named("/usr/bin/python3.12", &["-u", "start", "notes.sqlite"]), ["start"]);
        assert_eq!(
            named("node", &["--import=./hooks.mjs", "dist/index.js"]),
            ["./hooks.mjs", "dist/index.js"]
        );
        assert_eq!(named("uv", &["run", "server.py"]), ["server.py"]);
        assert_eq!(named("mcp-server-sqlite", &["--db-path", "notes.db"]), Vec::<String>::new());
        assert_eq!(named("fetch", &["https://a.example/x.js"]), Vec::<String>::new());
    }

    #[test]
    fn installed_packages_are_protected_as_a_whole() {
        let server = json!({"command": "node", "args": ["servers/a/node_modules/@b/c/dist/index.js"]});
        let server: Command = serde_json::from_value(server).unwrap();
        let executed = of(&server, &Place::new("/p"), &[]);
        assert!(executed.files.contains(&Place::new("/p/servers/a/node_modules")), "{executed:?}");
    }

    #[test]
    fn a_script_is_protected_with_what_it_loads() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("lib")).unwrap();
        std::fs::write(root.path().join("lib/start.py"), "").unwrap();
        let root = place_of(root.path()).unwrap();
        let server = json!({"command": "./bin/serve", "args": ["./lib/start.py"]});
        let server: Command = serde_json::from_value(server).unwrap();
        let output = root.join("output");
        let executed = of(&server, &root, std::slice::from_ref(&output));
        for file in
            ["bin/serve", "lib/start.py", "lib/package.json", "lib/node_modules", "output/lib/start.py"]
        {
            assert!(executed.files.contains(&root.join(file)), "{file} in {executed:?}");
        }
        assert!(executed.importing.iter().all(|folder| *folder == root.join("lib")), "{executed:?}");
        assert!(!executed.importing.is_empty());
        let module: Command =
            serde_json::from_value(json!({"command": "python3", "args": ["-m", "serve"]})).unwrap();
        assert_eq!(of(&module, &Place::new("/p"), &[]).importing.last(), Some(&Place::new("/p")));
    }
}
