//! Resolves a command's first word to a file.

use std::{
    fs,
    io::Read,
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

/// Returns the reason why a script can't be executed, with the command that runs it: `word` is its name in the command.
/// `None` if the file may be executed, or is no regular file.
pub(crate) fn not_executable(file: &Path, word: &str) -> Option<String> {
    let meta = fs::metadata(file).ok().filter(fs::Metadata::is_file)?;
    if meta.permissions().mode() & 0o111 != 0 {
        return None;
    }
    let run = match interpreter(file) {
        Some(interpreter) => format!("run it with its interpreter: `{interpreter} {word}`"),
        None => "name the program that runs it before it".to_owned(),
    };
    Some(format!("`{word}` lacks the permission to be executed: {run}."))
}

/// Returns the interpreter of a script, by its first line or its name.
fn interpreter(file: &Path) -> Option<String> {
    let mut first = Vec::new();
    fs::File::open(file).ok()?.take(256).read_to_end(&mut first).ok()?;
    let first = String::from_utf8_lossy(&first);
    if let Some(line) = first.lines().next().and_then(|line| line.strip_prefix("#!")) {
        let mut words = line.split_whitespace().map(|word| word.rsplit('/').next().unwrap_or(word));
        let named = words.next().filter(|word| *word != "env").or_else(|| words.next())?;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        return (named.chars().all(plain) && !named.starts_with('-')).then(|| named.to_owned());
    }
    let interpreter = match file.extension()?.to_str()? {
        "py" => "python3",
        "sh" => "sh",
        "bash" => "bash",
        "js" | "mjs" | "ts" => "node",
        "rb" => "ruby",
        "pl" => "perl",
        _ => return None,
    };
    Some(interpreter.to_owned())
}

fn is_program(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::{find, not_executable};
    use std::fs;

    #[test]
    fn the_interpreter_of_a_script_without_a_run_bit_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let said = |name: &str, text: &str| {
            let file = folder.path().join(name);
            fs::write(&file, text).unwrap();
            not_executable(&file, &format!("/skills/x/{name}")).unwrap()
        };
        assert!(said("a.py", "print(1)").ends_with("`python3 /skills/x/a.py`."));
        assert!(said("b", "#!/usr/bin/env bash\nls").ends_with("`bash /skills/x/b`."));
        assert!(said("c.py", "#!/bin/sh\n").ends_with("`sh /skills/x/c.py`."));
        assert!(said("d", "#!/usr/bin/env -S evil;rm\n").ends_with("before it."));
        assert!(said("e", "").ends_with("before it."));
        assert_eq!(not_executable(std::path::Path::new("/bin/sh"), "/bin/sh"), None);
        assert_eq!(not_executable(folder.path(), "."), None);
    }

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
