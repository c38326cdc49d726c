//! `llm-do lib remove`: removes a library that is not in use.

use super::{
    Places, installed,
    root::{Root, clear},
    trouble::Trouble,
    users,
};
use crate::{args::Format, exit::Complaint, render::Output};
use llm_do::program::{manifest::Manifest, source::DiskTree};
use serde_json::json;
use std::path::Path;

/// Runs the command. A library that is in use stays, unless `force`.
pub(crate) fn run(library: &str, force: bool, places: &Places, output: &Output) -> Result<(), Trouble> {
    places.roots.iter().for_each(|root| clear(root, output));
    let one = installed(library, false, places)?;
    let root = Root::open(one.folder.parent().unwrap_or(Path::new("/")), output)?;
    let (name, version) = named(&one.folder, &one.entry);
    let users = users::users(
        &one.folder,
        &name,
        &version,
        &places.roots,
        places.project.as_deref(),
        &places.projects,
    );
    let told: String = users.iter().map(|user| format!("\n  {} ({})", user.who, user.how)).collect();
    if !users.is_empty() && !force {
        return Err(Complaint::wrong(format!("`{}` is in use:{told}", one.entry))
            .hint("to remove it anyway: --force")
            .into());
    }
    root.take(&one.entry)?;
    if output.format == Format::Text {
        if !users.is_empty() {
            output.warn(&format!("`{}` was in use:{told}", one.entry));
        }
        output.print(&format!("{}  removed\n", output.out.bold(&one.entry)));
    } else {
        let users: Vec<_> = users.iter().map(|user| json!({"who": user.who, "how": user.how})).collect();
        output.print_json(&json!({"removed": one.entry, "folder": one.folder, "was_used_by": users}));
    }
    Ok(())
}

/// Returns the name and version from the library's manifest, or else from the name of the folder.
fn named(folder: &Path, entry: &str) -> (String, String) {
    let tree = DiskTree::open(folder).ok();
    let manifest = tree.and_then(|tree| Manifest::load_library(&tree, &mut Vec::new()));
    match manifest.map(|manifest| (manifest.name, manifest.version)) {
        Some((Some(name), Some(version))) => (name, version),
        _ => {
            let (name, version) = entry.split_once('@').unwrap_or((entry, ""));
            (name.to_owned(), version.to_owned())
        }
    }
}
