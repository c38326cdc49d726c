//! Failures of Python code, as messages for models and people.

use crate::{interpreter::Interpreter, view::Given, wire::PythonError};
use llm_do_core::authority::{Network, Place, Protection};
use llm_do_sandbox::confine::{self, Denial, denied, unseen};
use std::path::Path;

/// The subject of the messages about confinement.
const WHO: &str = "The tool's process";

/// A file as messages show it: relative to the root of its package if it lies there.
pub(crate) fn shown<'a>(file: &'a str, root: &Place) -> &'a str {
    file.strip_prefix(root.as_str()).and_then(|rest| rest.strip_prefix('/')).unwrap_or(file)
}

/// The message about a failed call: the exception, and the user's own frames.
pub(crate) fn failure(
    error: &PythonError,
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
    if error.kind == "denied" {
        text.push('\n');
        text.push_str(&denied(WHO, error.path.as_deref(), given.map(|given| &given.view)));
    } else if let (Some(path), Some(given)) = (&error.path, given) {
        text.push_str(&hidden(path, given));
    }
    for frame in &error.frames {
        text.push_str(&format!("\n  at {}:{} in {}", shown(&frame.file, root), frame.line, frame.function));
        if !frame.text.is_empty() {
            text.push_str(&format!(": {}", frame.text.trim()));
        }
    }
    text
}

/// What the network refused, and the keys that would allow it (`docs/reference/sandbox.md`).
pub(crate) fn network(error: &PythonError, allowed: &Network, denials: &[Denial]) -> String {
    // An exception that names a file is about that file.
    let refused = error.kind == "denied" && error.path.is_none();
    let told = confine::network(WHO, refused, is_unreachable(error), allowed, denials);
    told.iter().map(|told| format!("\n{told}")).collect()
}

/// Whether it is an error that a network without name servers, routes and servers causes.
fn is_unreachable(error: &PythonError) -> bool {
    const UNREACHABLE: &str = "[Errno 101]"; // ENETUNREACH, for which Python has no class
    ["gaierror", "ConnectionRefusedError"].iter().any(|class| error.class.ends_with(class))
        || error.message.contains(UNREACHABLE)
}

/// Why a file may not be visible to the process.
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

/// Why a module can't be imported, and where the error is.
pub(crate) fn import(error: &PythonError, root: &Place, interpreter: &Interpreter) -> String {
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
        text.push_str(&format!("\n{}", unread(path, root)));
    }
    text
}

/// Why the code of a module can't open a file while it is imported, and what to do. Says nothing about whether the file
/// exists.
fn unread(path: &str, root: &Place) -> String {
    let name = shown(path, root);
    if path.split('/').any(Protection::is_invisible) {
        return format!(
            "`{name}` is invisible to tools; for a secret, give them a variable with `sandbox.env`"
        );
    }
    if !Path::new(path).is_absolute() {
        return format!(
            "`{path}` is relative, and a module has no working directory while it is imported: open the file relative \
             to `__file__`, or in a function"
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

/// How to install a package that the interpreter lacks.
pub(crate) fn install(package: &str, interpreter: &Interpreter) -> String {
    let path = interpreter.path.display();
    let external = Path::new(&interpreter.path).starts_with("/usr");
    let way = match interpreter.origin {
        crate::Origin::Path if external => format!(
            "make an environment for the project and install it there: `{path} -m venv .venv && .venv/bin/pip install {package}`"
        ),
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

#[cfg(test)]
mod tests {
    use super::*;
    use llm_do_core::authority::{Domain, Host};

    #[test]
    fn refusals_of_the_network_name_the_key() {
        let error = |kind: &str, class: &str, message: &str, path: Option<&str>| PythonError {
            kind: kind.into(),
            class: class.into(),
            message: message.into(),
            path: path.map(str::to_owned),
            ..PythonError::default()
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
