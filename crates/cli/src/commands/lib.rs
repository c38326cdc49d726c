//! `llm-do lib`: installed libraries (docs/guides/libraries.md).

mod export;
mod git;
mod package;
mod project;
mod remove;
mod resolver;
mod root;
mod show;
mod trouble;
mod users;

use crate::{
    args::{Format, LibArgs, LibCommand},
    exit::{Complaint, Exit},
    program::{home, surroundings},
    render::Output,
    visible,
};
use llm_do::program::{
    dependency::DependencyKind,
    library::{DiskLibraries, Libraries},
    lock::Lock,
    target,
};
use project::{Pinning, pin};
use resolver::{Keep, Outcome, Resolver};
pub(crate) use root::write_whole;
use root::{Placed, Root};
use serde_json::{Value, json};
use std::{fs, path::PathBuf};
use trouble::Trouble;

/// Folders of libraries and projects.
struct Places {
    here: PathBuf,
    /// `--lib`, then `LLM_DO_LIBS`: absolute, at least one.
    roots: Vec<PathBuf>,
    /// The project around the current directory, or the named one.
    project: Option<PathBuf>,
    /// The list of projects that pin libraries.
    projects: PathBuf,
}

/// Runs the command.
pub(crate) fn run(arguments: &LibArgs, output: &Output) -> Result<Exit, Complaint> {
    let around =
        surroundings().map_err(|error| Complaint::wrong(format!("no current directory: {error}")))?;
    let named = match &arguments.command {
        LibCommand::Install { project, .. } => project.clone().or(around.project.clone()),
        _ => around.project.clone(),
    };
    let project = match named {
        Some(project) => {
            let project = around.here.join(project);
            Some(fs::canonicalize(&project).unwrap_or(project))
        }
        None => target::nearest_project(&around.here, &around),
    };
    let roots = target::library_roots(&arguments.lib, &around);
    if roots.is_empty() {
        return Err(Complaint::wrong("there is no folder for libraries")
            .hint("set LLM_DO_HOME or HOME, or give --lib DIR"));
    }
    let places = Places { here: around.here, roots, project, projects: home().join("library-projects") };
    let done = match &arguments.command {
        LibCommand::Install { spec: Some(spec), force, .. } => install(spec, *force, &places, output),
        LibCommand::Install { spec: None, force, locked, .. } => {
            install_all(*force, *locked, &places, output)
        }
        LibCommand::Export(args) => export::run(args, &arguments.lib, output),
        LibCommand::List => show::list(&places, output),
        LibCommand::Info { library } => show::info(library, &places, output),
        LibCommand::Remove { library, force } => remove::run(library, *force, &places, output),
    };
    match done {
        Ok(()) => Ok(Exit::Done),
        Err(trouble) => trouble.show(output),
    }
}

/// Installs one library, and updates its pin in the project here if the project depends on it.
fn install(spec: &str, force: bool, places: &Places, output: &Output) -> Result<(), Trouble> {
    let kind = DependencyKind::parse(spec).map_err(|reason| {
        Complaint::wrong(format!("`{spec}` cannot be installed: {reason}"))
            .hint("name a folder (./PATH) or a repository (git+URL[@REF][#SUBDIR])")
    })?;
    let root = Root::open(&places.roots[0], output)?;
    let mut resolver = Resolver::new(&root, &places.roots, Lock::default(), output);
    resolver.force = force;
    let packages = resolver.install(&kind, &places.here)?;
    let outcomes = resolver.finish()?;
    let mut notes = Vec::new();
    let mut concerned: Vec<&str> = Vec::new();
    for package in &packages {
        let concern = match &places.project {
            Some(project) => project::concern(project, &package.name)?,
            None => project::Concern::NoProject,
        };
        match concern {
            project::Concern::Not(ref manifest) => {
                notes.push(format!(
                    "to use it here, add `{}` to `dependencies` in {manifest}",
                    package.label()
                ));
            }
            _ if package.exports.is_empty() && !package.is_skill => {
                notes.push("it exports nothing, so none of its workers can be called".to_owned());
            }
            _ => {}
        }
        if matches!(concern, project::Concern::Depends) {
            concerned.push(&package.name);
        }
    }
    let pinning = match &places.project {
        Some(project) if !concerned.is_empty() => {
            Some(pin(project, Keep::Installed, &concerned, force, &root, places, output)?.1)
        }
        _ => None,
    };
    show_outcomes(&outcomes, pinning.as_ref(), output);
    notes.iter().for_each(|note| output.note(note));
    Ok(())
}

/// Installs the project's dependencies, and writes its lock file.
fn install_all(force: bool, locked: bool, places: &Places, output: &Output) -> Result<(), Trouble> {
    let Some(project) = &places.project else {
        return Err(Complaint::wrong("there is no project here whose dependencies could be installed")
            .hint("name its folder with --project DIR, or a library: `llm-do lib install PATH`")
            .into());
    };
    let root = Root::open(&places.roots[0], output)?;
    let keep = if locked { Keep::Everything } else { Keep::Nothing };
    let (outcomes, pinning) = pin(project, keep, &[], force, &root, places, output)?;
    show_outcomes(&outcomes, Some(&pinning), output);
    if pinning.libraries == 0 {
        output.note("this project names no dependencies");
    }
    Ok(())
}

/// Shows the result on stdout: one line for each library, then the changes of the lock file.
fn show_outcomes(outcomes: &[Outcome], pinning: Option<&Pinning>, output: &Output) {
    let state = |placed: Placed| match placed {
        Placed::Installed => "installed",
        Placed::Already => "already installed",
        Placed::Replaced => "replaced",
    };
    if output.format != Format::Text {
        let installed = outcomes.iter().map(|one| {
            json!({"library": one.label, "state": state(one.placed).replace(' ', "_"), "folder": one.folder,
                "files": one.files, "commit": one.commit})
        });
        let lock = pinning.map_or(Value::Null, Pinning::as_json);
        output.print_json(&json!({"installed": installed.collect::<Vec<_>>(), "lock": lock}));
        return;
    }
    let mut text = String::new();
    for one in outcomes {
        let state = match one.placed {
            Placed::Already => output.out.dim(state(one.placed)).to_string(),
            Placed::Installed | Placed::Replaced => output.out.green(state(one.placed)).to_string(),
        };
        let commit = one
            .commit
            .as_deref()
            .map(|commit| output.out.dim(format!("  {}", git::short(commit))).to_string());
        let folder = one.folder.display().to_string();
        text.push_str(&format!(
            "{}  {state}{}  {}\n",
            output.out.bold(&one.label),
            commit.unwrap_or_default(),
            output.out.dim(visible::line(&folder))
        ));
    }
    if let Some(pinning) = pinning {
        text.push_str(&pinning.as_text(output.out));
    }
    output.print(&text);
}

/// An installed library that a command names.
struct Installed {
    folder: PathBuf,
    /// Name of the folder in its root.
    entry: String,
}

/// Finds an installed library: `NAME`, which must then have one folder only unless `newest` will do, or
/// `NAME@VERSION`.
fn installed(library: &str, newest: bool, places: &Places) -> Result<Installed, Trouble> {
    let Ok(DependencyKind::Named { name, version }) = DependencyKind::parse(library) else {
        return Err(Complaint::wrong(format!("`{library}` is not the name of an installed library"))
            .hint("`llm-do lib list` shows their names")
            .into());
    };
    let mut there = Vec::new();
    for root in &places.roots {
        for entry in root::folders(root).map_err(|error| {
            Complaint::failed(format!("the libraries' folder `{}` cannot be read: {error}", root.display()))
        })? {
            let (its, its_version) = entry.split_once('@').unwrap_or((&entry, ""));
            if its == name && version.as_deref().is_none_or(|version| version == its_version) {
                there.push(Installed { folder: root.join(&entry), entry });
            }
        }
    }
    if there.len() > 1 && (newest || version.is_some()) {
        let libraries = DiskLibraries { roots: places.roots.clone() };
        let found = libraries.find(&name, version.as_deref()).ok().flatten();
        let place = found.map(|tree| tree.root().to_string());
        let same = |one: &Installed| {
            one.folder.canonicalize().ok().and_then(|f| f.to_str().map(str::to_owned)) == place
        };
        if let Some(at) = there.iter().position(same) {
            return Ok(there.swap_remove(at));
        }
    }
    match there.len() {
        1 => Ok(there.remove(0)),
        0 => {
            let names: Vec<String> =
                places.roots.iter().flat_map(|root| root::folders(root).unwrap_or_default()).collect();
            let near = llm_do::program::diagnostics::nearest(library, names.iter().map(String::as_str));
            let mut complaint = Complaint::wrong(format!("the library `{library}` is not installed"));
            if let Some(near) = near.first() {
                complaint = complaint.hint(format!("did you mean `{near}`?"));
            }
            Err(complaint.hint("`llm-do lib list` shows those that are").into())
        }
        _ => {
            let all: Vec<String> = there.iter().map(|one| format!("`{}`", one.entry)).collect();
            Err(Complaint::wrong(format!("`{library}` is installed more than once: {}", all.join(", ")))
                .hint("name one of them with its version")
                .into())
        }
    }
}
