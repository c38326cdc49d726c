//! `llm-do lib list` and `llm-do lib info`: shows installed libraries.

use super::{Places, installed, root::folders, trouble::Trouble, users};
use crate::{args::Format, exit::Complaint, paint::Paint, render::Output, visible};
use llm_do::program::{
    contents::{Contents, Difference},
    lock::{LOCK_FILE, Lock, Pinned},
    manifest::Manifest,
    source::{DiskTree, SourceTree},
};
use serde_json::{Value, json};
use std::{fs, path::Path, sync::Arc};

/// An installed folder, as it is shown.
struct Listed {
    entry: String,
    folder: std::path::PathBuf,
    manifest: Result<Box<Manifest>, String>,
}

/// Lists all installed libraries, by root and name.
pub(crate) fn list(places: &Places, output: &Output) -> Result<(), Trouble> {
    let mut all = Vec::new();
    for root in &places.roots {
        let entries = folders(root).map_err(|error| {
            Complaint::failed(format!("the libraries' folder `{}` cannot be read: {error}", root.display()))
        })?;
        all.extend(entries.into_iter().map(|entry| listed(root, entry)));
    }
    if output.format != Format::Text {
        let libraries: Vec<Value> = all.iter().map(as_json).collect();
        output.print_json(&json!({"roots": places.roots, "libraries": libraries}));
        return Ok(());
    }
    if all.is_empty() {
        let roots: Vec<String> = places.roots.iter().map(|root| root.display().to_string()).collect();
        output.note(&format!("no libraries in {}", roots.join(", ")));
    }
    let width = all.iter().map(|one| visible::line(&one.entry).chars().count()).max().unwrap_or(0);
    let text: String = all.iter().map(|one| line(one, width, output.out)).collect();
    output.print(&text);
    Ok(())
}

fn listed(root: &Path, entry: String) -> Listed {
    let folder = root.join(&entry);
    let manifest = load(&folder).and_then(|(_, manifest)| {
        let label = format!(
            "{}@{}",
            manifest.name.as_deref().unwrap_or_default(),
            manifest.version.as_deref().unwrap_or_default()
        );
        if entry == label || Some(&*entry) == manifest.name.as_deref() {
            Ok(Box::new(manifest))
        } else {
            Err(format!("the folder holds `{label}`"))
        }
    });
    Listed { entry, folder, manifest }
}

fn load(folder: &Path) -> Result<(DiskTree, Manifest), String> {
    let tree = DiskTree::open(folder).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    match Manifest::load_library(&tree, &mut found) {
        Some(manifest) => Ok((tree, manifest)),
        None => Err(found.iter().find(|one| one.is_error()).map(ToString::to_string).unwrap_or_default()),
    }
}

fn line(one: &Listed, width: usize, paint: Paint) -> String {
    let entry = visible::line(&one.entry);
    let gap = " ".repeat(width.saturating_sub(entry.chars().count()));
    let about = match &one.manifest {
        Ok(manifest) => {
            visible::line(manifest.description.as_deref().unwrap_or_default().trim()).into_owned()
        }
        Err(problem) => paint.red(visible::line(problem)).to_string(),
    };
    let folder = one.folder.parent().unwrap_or(&one.folder).display().to_string();
    let line = format!("{}{gap}  {about}  {}", paint.bold(entry), paint.dim(visible::line(&folder)));
    format!("{line}\n")
}

fn as_json(one: &Listed) -> Value {
    let mut out = json!({"library": one.entry, "folder": one.folder, "name": null, "version": null,
        "description": null, "exports": [], "problem": null});
    match &one.manifest {
        Ok(manifest) => {
            out["name"] = json!(manifest.name);
            out["version"] = json!(manifest.version);
            out["description"] = json!(manifest.description);
            out["exports"] = exports(manifest);
        }
        Err(problem) => out["problem"] = json!(problem),
    }
    out
}

fn exports(manifest: &Manifest) -> Value {
    manifest.exports.iter().map(|(export, _)| export.as_str()).collect()
}

/// Shows all data about one library: its description, its contents, its users, and whether the current project pins it
/// in this form.
pub(crate) fn info(library: &str, places: &Places, output: &Output) -> Result<(), Trouble> {
    let one = installed(library, true, places)?;
    let (tree, manifest) = load(&one.folder).map_err(|problem| {
        Complaint::wrong(format!("`{}` is not a usable library: {problem}", one.folder.display()))
    })?;
    let contents = Contents::of(&tree).map_err(|error| {
        Complaint::wrong(format!("`{}` is not a usable library: {error}", one.folder.display()))
    })?;
    let name = manifest.name.clone().unwrap_or_default();
    let version = manifest.version.clone().unwrap_or_default();
    let bytes: u64 = contents
        .files()
        .filter_map(|(path, _)| fs::symlink_metadata(one.folder.join(path)).ok())
        .map(|metadata| metadata.len())
        .sum();
    let users = users::users(
        &one.folder,
        &name,
        &version,
        &places.roots,
        places.project.as_deref(),
        &places.projects,
    );
    let pinned = pinned(places, &name);
    let differences = pinned.as_ref().map(|pinned| pinned.contents.compare(&contents));
    let dependencies: Vec<&str> =
        manifest.dependencies.iter().map(|dependency| dependency.text.as_str()).collect();
    if output.format != Format::Text {
        let lock = pinned.as_ref().map(|pinned| {
            json!({"version": pinned.version, "sources": pinned.sources, "commit": pinned.commit,
                "differences": differences_json(differences.as_deref().unwrap_or_default())})
        });
        let users: Vec<Value> = users.iter().map(|user| json!({"who": user.who, "how": user.how})).collect();
        output.print_json(&json!({"name": name, "version": version, "description": manifest.description,
            "folder": one.folder, "exports": exports(&manifest), "dependencies": dependencies,
            "files": contents.len(), "bytes": bytes, "hash": contents.hash(), "used_by": users, "pinned": lock}));
        return Ok(());
    }
    let paint = output.out;
    let mut text = format!("{}\n", paint.bold(format!("{name}@{version}")));
    let mut fact = |key: &str, value: &str| {
        if !value.is_empty() {
            text.push_str(&format!("{}{}\n", paint.dim(format!("{key:<14}")), visible::line(value)));
        }
    };
    fact("description", manifest.description.as_deref().unwrap_or_default().trim());
    fact("folder", &one.folder.display().to_string());
    let exported: Vec<&str> = manifest.exports.iter().map(|(export, _)| export.as_str()).collect();
    fact("exports", if exported.is_empty() { "nothing" } else { "" });
    fact("exports", &exported.join(", "));
    fact("dependencies", &dependencies.join(", "));
    fact("files", &format!("{}, {bytes} bytes", contents.len()));
    fact("hash", &contents.hash());
    for user in &users {
        fact("used by", &format!("{} ({})", user.who, user.how));
    }
    if let (Some(pinned), Some(differences)) = (&pinned, &differences) {
        fact("source", &pinned.sources.join(", "));
        fact("commit", pinned.commit.as_deref().unwrap_or_default());
        if pinned.version != version {
            fact("lock file", &format!("{LOCK_FILE} pins {}", pinned.label()));
        } else if differences.is_empty() {
            fact("lock file", &format!("it matches {LOCK_FILE}"));
        } else {
            fact("lock file", &format!("it differs from {LOCK_FILE}:"));
            for difference in differences {
                fact("", &difference.to_string());
            }
        }
    }
    output.print(&text);
    Ok(())
}

/// Returns the current project's pin of that name.
fn pinned(places: &Places, name: &str) -> Option<Arc<Pinned>> {
    let tree = DiskTree::open(places.project.as_deref()?).ok()?;
    let tree: &dyn SourceTree = &tree;
    Lock::load(tree, &mut Vec::new())?.get(name).cloned()
}

fn differences_json(differences: &[Difference]) -> Value {
    differences.iter().map(|one| json!({"path": one.path, "change": one.change.to_string()})).collect()
}
