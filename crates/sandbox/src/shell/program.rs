//! Resolves a command's first word to a file.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Shell built-ins, and the alternatives to each.
const OF_A_SHELL: &[(&[&str], &str)] = &[
    (&["cd", "pushd", "popd"], "each command runs in the same folder; write paths from there"),
    (
        &["export", "set", "unset", "declare", "local", "readonly", "alias"],
        "variables are not kept between commands",
    ),
    (&["exec", "eval", "source", ".", "command", "builtin"], "write the program itself and its arguments"),
    (&["exit", "return", "wait", "jobs", "bg", "fg"], "each command ends by itself"),
    (
        &["if", "for", "while", "until", "case", "function", "do", "done", "then", "fi", "!"],
        "call shell once for each command, and decide what to do next",
    ),
];

/// Finds the file of a program given by name, in the folders of `path`.
///
/// # Errors
/// The program does not exist. The message is for a model.
pub(crate) fn find(name: &str, path: &str) -> Result<PathBuf, String> {
    let found = path.split(':').map(|folder| Path::new(folder).join(name)).find(|file| is_program(file));
    found.ok_or_else(|| match OF_A_SHELL.iter().find(|(words, _)| words.contains(&name)) {
        Some((_, instead)) => {
            format!("`{name}` is a word of a shell, and no shell runs the command: {instead}.")
        }
        None => format!("There is no program `{name}` on this machine (in {}).", path.replace(':', ", ")),
    })
}

fn is_program(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn programs_are_found_by_name_and_what_is_none_is_told() {
        let path = "/usr/local/bin:/usr/bin:/bin";
        assert!(find("ls", path).unwrap().ends_with("bin/ls"));
        assert!(find("cd", path).unwrap_err().contains("write paths from there"));
        let said = find("no-such-program", path).unwrap_err();
        assert!(said.contains("no program `no-such-program`") && said.contains("/usr/bin, /bin"), "{said}");
        // A folder is not a program.
        assert!(find("bin", "/usr").is_err());
    }
}
