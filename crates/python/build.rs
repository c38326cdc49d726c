//! Joins the sections of the Python host (`host/src`) into the one file that the binary holds and every interpreter
//! runs.

use std::{env, error::Error, fs, path::Path};

/// The package that tools import, and the line from which on it is a section of the host.
const PACKAGE: (&str, &str) =
    ("../../python/llm_do/__init__.py", "# The host's section `llm_do` begins here.\n");

fn main() -> Result<(), Box<dyn Error>> {
    let read = |path: &Path| -> Result<String, Box<dyn Error>> {
        println!("cargo:rerun-if-changed={}", path.display());
        fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()).into())
    };
    // `host/join.py` does the same for the tests and linters of the Python code.
    let sources = Path::new("host/src");
    let section = |name: &str| -> Result<String, Box<dyn Error>> {
        let text = match name {
            "llm_do" => {
                let (package, mark) = PACKAGE;
                let text = read(Path::new(package))?;
                let section =
                    text.split_once(mark).ok_or_else(|| format!("{package} has no line `{mark}`"))?.1;
                section.to_owned()
            }
            _ => read(&sources.join(format!("{name}.py")))?,
        };
        Ok(text.trim_matches('\n').to_owned())
    };
    let order = read(&sources.join("ORDER"))?;
    let names = order.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let host = names.map(section).collect::<Result<Vec<_>, Box<dyn Error>>>()?.join("\n\n\n") + "\n";
    let out = env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?;
    fs::write(Path::new(&out).join("host.py"), host)?;
    Ok(())
}
