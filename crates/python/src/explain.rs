//! Failures of code, as messages for models and people.

use crate::{
    interpreter::Interpreter,
    view::Given,
    wire::{CodeError, MountGiven},
};
use llm_do_core::{
    authority::{Network, Place, Protection},
    worker::Language,
};
use llm_do_sandbox::confine::{self, Denial, denied, unseen};
use std::path::Path;

/// The subject of the messages about confinement.
const WHO: &str = "The tool's process";

/// Returns a file as messages show it: relative to the root of its package if it lies there.
pub(crate) fn shown<'a>(file: &'a str, root: &Place) -> &'a str {
    file.strip_prefix(root.as_str()).and_then(|rest| rest.strip_prefix('/')).unwrap_or(file)
}

/// Formats the message about a failed call: the exception, and the user's own frames.
pub(crate) fn failure(
    error: &CodeError,
    root: &Place,
    interpreter: &Interpreter,
    given: Option<&Given>,
) -> String {
    let mut text = match error.kind.as_str() {
        // Written by the tool's author for the model.
        "retry" => return error.message.clone(),
        "arguments" | "result" | "refused" | "cancelled" | "exit" => error.message.clone(),
        "missing" | "import" => return import(error, root, interpreter),
        _ if error.message.is_empty() => error.class.clone(),
        _ => format!("{}: {}", error.class, error.message),
    };
    match (&error.path, given) {
        (Some(path), Some(given)) if named_as_mount(path, given, interpreter.language).is_some() => {
            text.push_str(&named_as_mount(path, given, interpreter.language).unwrap_or_default());
        }
        _ if error.kind == "denied" => {
            text.push('\n');
            text.push_str(&denied(WHO, error.path.as_deref(), given.map(|given| &given.view)));
        }
        (Some(path), Some(given)) => text.push_str(&hidden(path, given)),
        _ => {}
    }
    if let (Some(path), Some(given)) = (&error.path, given) {
        text.push_str(&beside_mounts(path, given, interpreter.language));
    }
    if let Some(given) = given {
        text.push_str(&database(error, given));
    }
    text.push_str(&variable(error));
    for frame in &error.frames {
        text.push_str(&format!("\n  at {}:{} in {}", shown(&frame.file, root), frame.line, frame.function));
        if !frame.text.is_empty() {
            text.push_str(&format!(": {}", frame.text.trim()));
        }
    }
    text
}

/// Describes the requests that the network refused, and the keys that would allow them (`docs/reference/sandbox.md`).
pub(crate) fn network(error: &CodeError, allowed: &Network, denials: &[Denial]) -> String {
    // An exception that names a file is about that file.
    let refused = error.kind == "denied" && error.path.is_none();
    let told = confine::network(WHO, refused, is_unreachable(error), allowed, denials);
    told.iter().map(|told| format!("\n{told}")).collect()
}

/// Returns true if a network without name servers, routes and servers causes this error.
fn is_unreachable(error: &CodeError) -> bool {
    // ENETUNREACH, for which Python has no class, what clients of HTTP quote from the error below theirs, and Node's codes.
    const UNREACHABLE: [&str; 9] = [
        "[Errno 101]",
        "Network is unreachable",
        "Name or service not known",
        "Temporary failure in name resolution",
        "nodename nor servname",
        "ENOTFOUND",
        "EAI_AGAIN",
        "ENETUNREACH",
        "ECONNREFUSED",
    ];
    ["gaierror", "ConnectionRefusedError"].iter().any(|class| error.class.ends_with(class))
        || UNREACHABLE.iter().any(|said| error.message.contains(said))
}

/// Explains why a file may not be visible to the process.
fn hidden(path: &str, given: &Given) -> String {
    let file = Path::new(path);
    let shown = given.mounts.iter().any(|mount| file.starts_with(&mount.path));
    // Its own temporary files are there.
    let own = file.parent() == Some(Path::new("/tmp"));
    if shown || own || !file.is_absolute() {
        return String::new();
    }
    format!("\n{}", unseen(WHO, path, Some(&given.view)))
}

/// Explains a path that begins with the name by which the worker's tools know a mount: Python finds the mounts in its
/// working directory.
fn named_as_mount(path: &str, given: &Given, language: Language) -> Option<String> {
    let of = |mount: &&MountGiven| {
        let rest = path.strip_prefix(mount.at.as_str())?;
        let is_below = mount.at != "/" && (rest.is_empty() || rest.starts_with('/'));
        (is_below && !Path::new(path).starts_with(&mount.path)).then(|| rest.to_owned())
    };
    let (mount, rest) = given.mounts.iter().find_map(|mount| Some((mount, of(&mount)?)))?;
    let name = mount.at.trim_start_matches('/');
    let mut text = format!(
        "\n`{}` is how the worker's other tools name this mount. In {} it is `{name}` in the working directory: \
         open `{name}{rest}`.",
        mount.at,
        language.name()
    );
    text.push_str(if mount.mode == "rw" { "" } else { " To write there, the mount needs `mode: rw`." });
    Some(text)
}

/// Explains how to open a relative path outside of the mounts: a tool's working directory holds the mounts of its
/// worker.
fn beside_mounts(path: &str, given: &Given, language: Language) -> String {
    let file = Path::new(path);
    let is_mounted = |mount: &MountGiven| file.starts_with(mount.at.trim_start_matches('/'));
    if file.is_absolute() || given.mounts.iter().any(is_mounted) {
        return String::new();
    }
    let or = match language {
        Language::Python => "; or take the file as a parameter of the type `path`.",
        Language::Script => ".",
    };
    format!(
        "\nA relative path begins in the tool's working directory, which holds the mounts of its worker ({}). Declare \
         the folder of `{path}` under `sandbox.paths`, such as `data: {{root: ./data, mode: rw}}`, and open `data/…`{or}",
        names(given)
    )
}

/// Lists the mounts under the names that they have in a tool's working directory.
fn names(given: &Given) -> String {
    let name = |mount: &MountGiven| match mount.at.trim_start_matches('/') {
        "" => format!("the whole of it, {}", mount.mode),
        name => format!("{name}, {}", mount.mode),
    };
    let names: Vec<String> = given.mounts.iter().map(name).collect();
    if names.is_empty() { "none".to_owned() } else { names.join("; ") }
}

/// Explains the mount that SQLite needs to open or write a database. SQLite's error does not name the file.
fn database(error: &CodeError, given: &Given) -> String {
    const REFUSED: [&str; 3] = ["unable to open database file", "readonly database", "disk I/O error"];
    let is_refused = REFUSED.iter().any(|refused| error.message.contains(refused));
    if !error.class.ends_with("OperationalError") || !is_refused {
        return String::new();
    }
    format!(
        "\nSQLite makes files beside a database, so its folder must be a mount with `mode: rw`: \
         `sandbox: {{paths: {{data: {{root: ./data, mode: rw}}}}}}`, and `sqlite3.connect(\"data/NAME.db\")`. The mounts of this \
         worker: {}.",
        names(given)
    )
}

/// Explains how to grant an environment variable that the code reads.
fn variable(error: &CodeError) -> String {
    let name = error.message.trim_matches(['\'', '"']);
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let reads = error.frames.last().is_some_and(|frame| frame.text.contains("environ"));
    if error.class != "KeyError" || !is_name || !reads {
        return String::new();
    }
    format!(
        "\n{WHO} gets no variable of llm-do's environment that nobody gives it: list it in the worker, \
         `sandbox: {{env: [{name}]}}`, and run with `--grant env={name}`."
    )
}

/// Describes why a module can't be imported, with the place of the error.
pub(crate) fn import(error: &CodeError, root: &Place, interpreter: &Interpreter) -> String {
    let place = match (&error.file, error.line) {
        (Some(file), Some(line)) => Some((file.as_str(), line)),
        _ => error.frames.last().map(|frame| (frame.file.as_str(), frame.line)),
    };
    let mut text = match place {
        Some((file, line)) => format!("{}:{line}: ", shown(file, root)),
        None => String::new(),
    };
    text.push_str(&error.class);
    if !error.message.is_empty() {
        text.push_str(&format!(": {}", error.message));
    }
    if let (Some(line), Some(column)) = (&error.text, error.column) {
        let line = line.trim_end();
        let indent = line.len() - line.trim_start().len();
        let before = (column as usize).saturating_sub(1 + indent);
        text.push_str(&format!("\n  {}\n  {}^", line.trim_start(), " ".repeat(before)));
    }
    if let Some(missing) = &error.missing {
        text.push_str(&format!("\n{}", install(missing, interpreter)));
    } else if let Some(path) = &error.path {
        text.push_str(&format!("\n{}", unread(path, root, interpreter.language)));
    }
    text
}

/// Describes why the code of a module can't open a file during its import, and the solution. The message does not
/// reveal whether the file exists.
fn unread(path: &str, root: &Place, language: Language) -> String {
    let name = shown(path, root);
    if path.split('/').any(Protection::is_invisible) {
        return format!(
            "`{name}` is invisible to tools; for a secret, give them a variable with `sandbox.env`"
        );
    }
    if !Path::new(path).is_absolute() {
        let file = match language {
            Language::Python => "__file__",
            Language::Script => "import.meta.dirname",
        };
        return format!(
            "`{path}` is relative, and a module has no working directory while it is imported: open the file relative \
             to `{file}`, or in a function"
        );
    }
    if !Path::new(path).starts_with(root.as_str()) {
        return format!(
            "an import sees only the files of its package: open `{name}` in a function, from a mount"
        );
    }
    format!(
        "an import sees the files in the folders of its tools, and what `tools.data` of the manifest names: if `{name}` \
         exists, move it into such a folder, or add `tools: {{data: [{name}]}}` to the manifest"
    )
}

/// Describes how to install a package that the interpreter lacks.
pub(crate) fn install(package: &str, interpreter: &Interpreter) -> String {
    if interpreter.language == Language::Script {
        return format!(
            "`{package}` is not in the `node_modules` at the root of the package: run `npm install {package}` there. A \
             `node_modules` that is a link out of the package is not read"
        );
    }
    let path = interpreter.path.display();
    let way = match interpreter.origin {
        crate::Origin::Path | crate::Origin::Variable if is_of_the_system(&interpreter.path) => {
            let instead = match interpreter.origin {
                crate::Origin::Variable => ", and unset LLM_DO_PYTHON",
                _ => "",
            };
            format!(
                "make an environment for the project and install it there: \
                 `{path} -m venv .venv && .venv/bin/pip install {package}`{instead}"
            )
        }
        _ => format!("install it: `{path} -m pip install {package}`"),
    };
    let left_out: String = interpreter.left_out.iter().map(|folder| {
        let folder = folder.display();
        format!(
            "\n{} adds the packages in `{folder}`, which lies outside the project: if `{package}` is one of them, run with \
             `--grant {folder}:ro`",
            interpreter.origin
        )
    }).collect();
    format!("`{package}` is not installed for {interpreter}; {way}{left_out}")
}

/// Returns true if the system or another manager keeps the packages of that interpreter: pip refuses to install there
/// (PEP 668), or would write among the files of the system.
fn is_of_the_system(interpreter: &Path) -> bool {
    let real = interpreter.canonicalize().unwrap_or_else(|_| interpreter.to_owned());
    let Some(prefix) = real.parent().and_then(Path::parent) else { return false };
    let Ok(folders) = std::fs::read_dir(prefix.join("lib")) else { return prefix == Path::new("/usr") };
    let marked = |folder: std::fs::DirEntry| {
        folder.file_name().to_string_lossy().starts_with("python3")
            && folder.path().join("EXTERNALLY-MANAGED").exists()
    };
    prefix == Path::new("/usr") || folders.flatten().any(marked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use llm_do_core::authority::{Domain, Host};

    #[test]
    fn refusals_of_the_network_name_the_key() {
        let error = |kind: &str, class: &str, message: &str, path: Option<&str>| CodeError {
            kind: kind.into(),
            class: class.into(),
            message: message.into(),
            path: path.map(str::to_owned),
            ..CodeError::default()
        };
        let denied = error("denied", "PermissionError", "[Errno 1]", None);
        let file = error("denied", "PermissionError", "[Errno 13]", Some("/etc/shadow"));
        let unknown = error("exception", "gaierror", "[Errno -2]", None);
        let unreachable = error("exception", "OSError", "[Errno 101] Network is unreachable", None);
        let other = error("exception", "ValueError", "no", None);
        let list = Network::domains(Domain::parse("example.org"));
        assert!(network(&denied, &Network::Off, &[]).contains("the operator's grant `network`"));
        for error in [&denied, &unknown, &unreachable] {
            assert!(network(error, &list, &[]).contains("HTTPS_PROXY"), "{error:?}");
            assert_eq!(network(error, &Network::On, &[]), "");
        }
        for error in [&file, &other] {
            assert_eq!(network(error, &list, &[]) + &network(error, &Network::Off, &[]), "");
        }
        let host = |text: &str| Host::with_port(text).unwrap().0;
        let missing = Denial::NotListed { host: host("x.example"), port: 8080 };
        assert_eq!(
            network(&other, &list, &[missing]),
            "\nRefused by the network: `x.example:8080` is not on the list of this worker's `sandbox.network_enabled`. \
             To allow it, list `x.example:8080` there and let the operator grant `network=x.example:8080`."
        );
        let elsewhere = Denial::OtherServer { host: host("example.org"), named: Some("evil.net".into()) };
        let told = network(&unknown, &list, &[elsewhere]);
        assert!(told.contains("`evil.net`") && !told.contains("--grant"), "{told}");
    }
}
