//! Joins the sections of the Python host (`host/src`) into the one file that the binary holds and every interpreter
//! runs.

use std::{env, error::Error, fs, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let sources = Path::new("host/src");
    let read = |name: &str| -> Result<String, Box<dyn Error>> {
        let path = sources.join(name);
        println!("cargo:rerun-if-changed={}", path.display());
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()).into())
    };
    // `host/join.py` does the same for the tests and linters of the Python code.
    let order = read("ORDER")?;
    let mut below = "";
    let names = order.lines().filter(|line| {
        if line.starts_with('[') {
            below = line;
        }
        below == "[host]" && !line.is_empty() && !line.starts_with(['#', '['])
    });
    let sections = names.map(|name| Ok(read(&format!("{name}.py"))?.trim_matches('\n').to_owned()));
    let host = sections.collect::<Result<Vec<_>, Box<dyn Error>>>()?.join("\n\n\n") + "\n";
    let out = env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?;
    fs::write(Path::new(&out).join("host.py"), host)?;
    Ok(())
}
