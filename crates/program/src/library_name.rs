//! Reserved library names that would be valid otherwise ([`dependency::check_name`](crate::dependency::check_name)).

/// Prefixes before `:` in references and models, and names of toolsets and programs.
const KEPT: [&str; 19] = [
    "builtin",
    "delegation",
    "file",
    "filesystem",
    "git",
    "http",
    "https",
    "lib",
    "llm-do",
    "local",
    "mcp",
    "program",
    "project",
    "python",
    "replay",
    "script",
    "self",
    "shell",
    "workers",
];

/// Windows devices: a file cannot have such a name, with any extension.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];

/// Checks that a name is allowed for a library: lower case, because some file systems ignore case, and not reserved.
///
/// # Errors
/// The problem with the name, as a sentence.
pub fn check(name: &str) -> Result<(), String> {
    let lower = name.to_lowercase();
    if lower != name {
        return Err(format!("a library name must be in lower case: `{lower}`"));
    }
    if KEPT.contains(&name) || is_device(name) {
        return Err(format!("a library cannot be named `{name}`: the name is reserved"));
    }
    Ok(())
}

fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name);
    let numbered = |prefix| {
        stem.strip_prefix(prefix)
            .is_some_and(|rest| rest.len() == 1 && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    DEVICES.contains(&stem) || numbered("com") || numbered("lpt")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dependency::check_name;

    #[test]
    fn names_mean_one_thing_everywhere() {
        for name in ["utils", "text-processing", "legal_2", "a.b", "7zip", "console", "com", "local-tools"] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        for name in ["Utils", "lib", "local", "script", "con", "nul.x", "com1", "lpt9.txt"] {
            assert!(check(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn kept_names_could_be_names() {
        assert!(KEPT.is_sorted());
        assert!(KEPT.iter().chain(&DEVICES).all(|name| check_name(name).is_ok()));
    }
}
