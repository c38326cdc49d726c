//! Joins the sections of each host (`host/src` in Python, `node/src` in JavaScript) into the one file that the binary
//! holds and every interpreter runs.

use std::{collections::BTreeSet, env, error::Error, fs, path::Path};

/// The package that Python tools import, and the line from which on it is a section of the host.
const PACKAGE: (&str, &str) =
    ("../../python/llm_do/__init__.py", "# The host's section `llm_do` begins here.\n");

fn main() -> Result<(), Box<dyn Error>> {
    // `host/join.py` does the same for the tests and linters of the Python code.
    let package = || {
        let (package, mark) = PACKAGE;
        let text = read(Path::new(package))?;
        let section = text.split_once(mark).ok_or_else(|| format!("{package} has no line `{mark}`"))?.1;
        Ok(section.to_owned())
    };
    join("host/src", "py", "\n\n\n", "host.py", &|name| (name == "llm_do").then(package))?;
    join("node/src", "js", "\n\n", "host.cjs", &|_| None)
}

fn read(path: &Path) -> Result<String, Box<dyn Error>> {
    println!("cargo:rerun-if-changed={}", path.display());
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Returns a section that lies elsewhere.
type Elsewhere<'a> = &'a dyn Fn(&str) -> Option<Result<String, Box<dyn Error>>>;

/// Joins the sections in a folder, in the order of its file `ORDER`, to a file in `OUT_DIR`.
fn join(
    folder: &str,
    extension: &str,
    between: &str,
    to: &str,
    elsewhere: Elsewhere<'_>,
) -> Result<(), Box<dyn Error>> {
    let sources = Path::new(folder);
    let section = |name: &str| -> Result<String, Box<dyn Error>> {
        let own = || read(&sources.join(format!("{name}.{extension}")));
        let text = elsewhere(name).unwrap_or_else(own)?;
        Ok(text.trim_matches('\n').to_owned())
    };
    let order = read(&sources.join("ORDER"))?;
    let names = order.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let host = names.map(section).collect::<Result<Vec<_>, Box<dyn Error>>>()?.join(between) + "\n";
    unique(&host)
        .map_err(|name| format!("{folder}: two sections define `{name}`, and the later one would win"))?;
    let out = env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?;
    fs::write(Path::new(&out).join(to), host)?;
    Ok(())
}

/// Checks that the sections define each function and class once, since they share one scope.
///
/// # Errors
/// The name that is defined twice.
fn unique(host: &str) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for line in host.lines() {
        let line = line.strip_prefix("async ").unwrap_or(line);
        let rest = ["function ", "def ", "class "].iter().find_map(|keyword| line.strip_prefix(keyword));
        let Some(rest) = rest else { continue };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let name = &rest[..rest.find(|c| !is_name(c)).unwrap_or(rest.len())];
        if !name.is_empty() && !seen.insert(name) {
            return Err(name.to_owned());
        }
    }
    Ok(())
}
