//! What went wrong in Python, in words for models and for people.

use crate::{interpreter::Interpreter, python::Given, wire::Trouble};
use llm_do_core::authority::{Network, Place};
use llm_do_sandbox::confine::{self, Denial, denied, unseen};
use std::path::Path;

/// What the kernel confines.
const WHO: &str = "The tool's process";

/// Where code stands, as people read it: relative to the root of its package where it lies inside.
pub(crate) fn shown<'a>(file: &'a str, root: &Place) -> &'a str {
    file.strip_prefix(root.as_str()).and_then(|rest| rest.strip_prefix('/')).unwrap_or(file)
}

/// What a caller is told of a call that failed: the exception, and the user's own frames.
pub(crate) fn failure(
    trouble: &Trouble,
    root: &Place,
    interpreter: &Interpreter,
    given: Option<&Given>,
) -> String {
    let mut text = match trouble.kind.as_str() {
        // The author's own words for the model.
        "retry" => return trouble.message.clone(),
        "arguments" | "result" | "refused" | "cancelled" | "exit" => trouble.message.clone(),
        "missing" | "import" => return import(trouble, root, interpreter),
        _ if trouble.message.is_empty() => trouble.class.clone(),
        _ => format!("{}: {}", trouble.class, trouble.message),
    };
    if trouble.kind == "denied" {
        text.push('\n');
        text.push_str(&denied(WHO, trouble.path.as_deref(), given.map(|given| &given.view)));
    } else if let (Some(path), Some(given)) = (&trouble.path, given) {
        text.push_str(&hidden(path, given));
    }
    for frame in &trouble.frames {
        text.push_str(&format!("\n  at {}:{} in {}", shown(&frame.file, root), frame.line, frame.function));
        if !frame.text.is_empty() {
            text.push_str(&format!(": {}", frame.text.trim()));
        }
    }
    text
}

/// What the network had to do with it, and the keys that would allow it (SPEC §6.6).
pub(crate) fn network(trouble: &Trouble, allowed: &Network, denials: &[Denial]) -> String {
    // An exception that names a file is about that.
    let refused = trouble.kind == "denied" && trouble.path.is_none();
    let told = confine::network(WHO, refused, found_nobody(trouble), allowed, denials);
    told.iter().map(|told| format!("\n{told}")).collect()
}

/// What a program hears in a network without names, routes and servers, where Landlock does not refuse it first.
fn found_nobody(trouble: &Trouble) -> bool {
    const UNREACHABLE: &str = "[Errno 101]"; // ENETUNREACH, for which Python has no class
    ["gaierror", "ConnectionRefusedError"].iter().any(|class| trouble.class.ends_with(class))
        || trouble.message.contains(UNREACHABLE)
}

/// What may be the reason that a file is not there.
fn hidden(path: &str, given: &Given) -> String {
    let file = Path::new(path);
    let shown = given.mounts.iter().any(|mount| file.starts_with(&mount.path));
    // Its own temporary files lie there.
    let own = file.parent() == Some(Path::new("/tmp"));
    if shown || own || !file.is_absolute() {
        return String::new();
    }
    format!("\n{}", unseen(WHO, path, Some(&given.view)))
}

/// Why a module can't be imported, with the place.
pub(crate) fn import(trouble: &Trouble, root: &Place, interpreter: &Interpreter) -> String {
    let place = match (&trouble.file, trouble.line) {
        (Some(file), Some(line)) => Some((file.as_str(), line)),
        _ => trouble.frames.last().map(|frame| (frame.file.as_str(), frame.line)),
    };
    let mut text = match place {
        Some((file, line)) => format!("{}:{line}: ", shown(file, root)),
        None => String::new(),
    };
    text.push_str(&trouble.class);
    if !trouble.message.is_empty() {
        text.push_str(&format!(": {}", trouble.message));
    }
    if let (Some(line), Some(column)) = (&trouble.text, trouble.column) {
        let line = line.trim_end();
        let indent = line.len() - line.trim_start().len();
        let before = (column as usize).saturating_sub(1 + indent);
        text.push_str(&format!("\n  {}\n  {}^", line.trim_start(), " ".repeat(before)));
    }
    if let Some(missing) = &trouble.missing {
        text.push_str(&format!("\n{}", install(missing, interpreter)));
    }
    text
}

/// How to get a package for the interpreter that lacks it.
pub(crate) fn install(package: &str, interpreter: &Interpreter) -> String {
    let path = interpreter.path.display();
    let external = Path::new(&interpreter.path).starts_with("/usr");
    let way = match interpreter.origin {
        crate::Origin::Path if external => format!(
            "make an environment for the project and install it there: `{path} -m venv .venv && .venv/bin/pip install {package}`"
        ),
        _ => format!("install it: `{path} -m pip install {package}`"),
    };
    format!("`{package}` is not installed for {interpreter}; {way}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use llm_do_core::authority::{Domain, Host};

    #[test]
    fn what_the_network_refused_is_told_with_its_key() {
        let trouble = |kind: &str, class: &str, message: &str, path: Option<&str>| Trouble {
            kind: kind.into(),
            class: class.into(),
            message: message.into(),
            path: path.map(str::to_owned),
            ..Trouble::default()
        };
        let denied = trouble("denied", "PermissionError", "[Errno 1]", None);
        let file = trouble("denied", "PermissionError", "[Errno 13]", Some("/etc/shadow"));
        let unknown = trouble("exception", "gaierror", "[Errno -2]", None);
        let nobody = trouble("exception", "OSError", "[Errno 101] Network is unreachable", None);
        let other = trouble("exception", "ValueError", "no", None);
        let list = Network::domains(Domain::parse("example.org"));
        assert!(network(&denied, &Network::Off, &[]).contains("`--grant network`"));
        for trouble in [&denied, &unknown, &nobody] {
            assert!(network(trouble, &list, &[]).contains("HTTPS_PROXY"), "{trouble:?}");
            assert_eq!(network(trouble, &Network::On, &[]), "");
        }
        for trouble in [&file, &other] {
            assert_eq!(network(trouble, &list, &[]) + &network(trouble, &Network::Off, &[]), "");
        }
        let host = |text: &str| Host::with_port(text).unwrap().0;
        let missing = Denial::NotListed { host: host("x.example"), port: 8080 };
        assert_eq!(
            network(&other, &list, &[missing]),
            "\nRefused by the network: `x.example:8080` is not on the list of this worker's `sandbox.network_enabled`. \
             To allow it, list `x.example:8080` there and run with `--grant network=x.example:8080`."
        );
        let elsewhere = Denial::OtherServer { host: host("example.org"), named: Some("evil.net".into()) };
        let told = network(&unknown, &list, &[elsewhere]);
        assert!(told.contains("`evil.net`") && !told.contains("--grant"), "{told}");
    }
}
