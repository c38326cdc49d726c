//! Names of manifests, current and older ones, and the notes about older forms while a program is loaded. `migrate`
//! converts them (`docs/guides/migrating.md`).

use crate::{
    diagnostics::{Diagnostic, codes},
    front_matter,
    keys::MANIFEST,
    shape::snake_case,
    source::{Kind, SourceTree},
    yaml::Node,
};

/// Names of a manifest.
pub const MANIFESTS: [&str; 2] = ["project.yaml", "llm-do.yaml"];

/// Names of older manifests, in order of precedence.
pub const OLDER: [&str; 9] = [
    "project.yml",
    "llm-do.yml",
    "workshop.yaml",
    "workshop.yml",
    "program.yaml",
    "program.yml",
    "golem-forge.config.yaml",
    "golem-forge.config.yml",
    "project.json",
];

/// Older manifests that are read if every key in them has a meaning in the current format.
const READ: [&str; 3] = ["golem-forge.config.yaml", "program.yaml", "workshop.yaml"];

/// Returns the older manifest that a program reads in place of [`MANIFESTS`], which it does not have.
pub fn older_that_is_read(tree: &dyn SourceTree) -> Option<&'static str> {
    older_manifest(tree).filter(|name| READ.contains(name))
}

/// Returns true if a file has the name of a manifest, current or older.
pub fn is_named_so(path: &str) -> bool {
    MANIFESTS.contains(&path) || OLDER.contains(&path)
}

/// Returns true if a folder with a file of this name is a project of its own.
pub fn makes_project(name: &str) -> bool {
    name == "main.worker" || name == "main.agent" || (is_named_so(name) && !name.ends_with(".json"))
}

/// The key under which a migration keeps values that it could not convert.
pub const LEFT_OVER: &str = "x-not-carried-over";

/// Returns the older manifest of a tree that has no other one. A `program.yaml` or `project.json` counts only if it
/// sets a key of a manifest, because other programs have files of these names.
pub(crate) fn older_manifest(tree: &dyn SourceTree) -> Option<&'static str> {
    let is_file = |name: &str| matches!(tree.kind(name), Ok(Some(Kind::File)));
    if MANIFESTS.into_iter().any(is_file) {
        return None;
    }
    OLDER.into_iter().filter(|name| is_file(name)).find(|name| match *name {
        "program.yaml" | "program.yml" | "project.json" => sets_something(tree, name),
        _ => true,
    })
}

fn sets_something(tree: &dyn SourceTree, name: &str) -> bool {
    let json = name.ends_with(".json");
    let Ok(document) = front_matter::read(tree, name).and_then(front_matter::yaml_only) else {
        return !json;
    };
    if json {
        return is_project_json(&document.keys);
    }
    let descriptive = ["name", "version", "description"];
    let mut keys = document.keys.entries().iter().map(|entry| snake_case(&entry.key));
    keys.any(|key| {
        key == "workshop" || (!descriptive.contains(&&*key) && MANIFEST.iter().any(|k| k.name == key))
    })
}

/// Returns true if a `project.json` has the keys of our manifests. Many programs have a file of this name.
pub fn is_project_json(keys: &Node) -> bool {
    keys.get("entry").is_some() && keys.get("runtime").is_some()
}

/// Warns of values that a migration kept in a file without an effect: the tools or restrictions that they stated are
/// gone.
pub(crate) fn warn_of_left_over(whole: &Node, found: &mut Vec<Diagnostic>) {
    for entry in whole.entries().iter().filter(|entry| entry.key.starts_with(LEFT_OVER)) {
        let names: Vec<String> = entry.value.entries().iter().map(|left| format!("`{}`", left.key)).collect();
        let what = if names.is_empty() { "these values".to_owned() } else { names.join(", ") };
        found.push(
            Diagnostic::warning(
                codes::NOT_CARRIED_OVER,
                format!("{what} in an older form could not be converted, and llm-do does not read it"),
            )
            .at(&entry.key_span)
            .help(format!(
                "write the parts that the program needs in the current form, then remove `{}`",
                entry.key
            )),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_manifest_that_is_read_is_protected() {
        for name in MANIFESTS.iter().chain(&READ) {
            assert!(llm_do_core::authority::MANIFESTS.contains(name), "{name}");
        }
    }
}
