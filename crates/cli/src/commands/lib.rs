//! `llm-do lib`: installed libraries (docs/guides/libraries.md). The package manager does the work; this shows it.

use crate::{
    args::{Format, LibArgs, LibCommand, LibExportArgs, ProgramArgs, ProgramFlags},
    exit::{Complaint, Exit},
    paint::Paint,
    program::{findings, home, looked_at, quoted, reading_host, surroundings},
    render::Output,
    screen::Row,
    visible,
};
use llm_do::{
    Problem, check_named,
    core::toolset::ToolsetRegistry,
    make_named_folder,
    program::{
        Diagnostic, Program,
        contents::Difference,
        diagnostics::json::to_json,
        lock::LOCK_FILE,
        manifest::Manifest,
        skills::SKILL_FILE,
        target::{self, Surroundings},
    },
    toolset_kinds,
};
use llm_do_packages::{
    Change, Error, Host, Info, Installation, Listed, Message, PackageManager, Pinning, Placed, Removed, User,
    short_commit,
};
use serde_json::{Value, json};
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Instant,
};

/// Runs the command.
pub(crate) fn run(arguments: &LibArgs, output: &Output) -> Result<Exit, Complaint> {
    let around =
        surroundings().map_err(|error| Complaint::wrong(format!("no current directory: {error}")))?;
    if let LibCommand::Export(args) = &arguments.command {
        return shown(export(args, &arguments.lib, &around, output), output);
    }
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
    let projects = home().join("library-projects");
    let manager = PackageManager { here: around.here, roots, project, projects, host: output };
    let done = match &arguments.command {
        LibCommand::Install { spec: Some(spec), force, .. } => {
            manager.install(spec, *force).map(|done| show_installation(&done, output))
        }
        LibCommand::Install { spec: None, force, locked, .. } => {
            manager.install_dependencies(*force, *locked).map(|done| show_installation(&done, output))
        }
        LibCommand::Export(_) => Ok(()),
        LibCommand::List => manager.list().map(|all| show_list(&all, &manager.roots, output)),
        LibCommand::Info { library } => manager.info(library).map(|info| show_info(&info, output)),
        LibCommand::Remove { library, force } => {
            manager.remove(library, *force).map(|removed| show_removed(&removed, output))
        }
    };
    shown(done, output)
}

/// Shows the error of a command.
fn shown(done: Result<(), Error>, output: &Output) -> Result<Exit, Complaint> {
    match done {
        Ok(()) => Ok(Exit::Done),
        Err(Error::Message(message)) => Err((*message).into()),
        Err(Error::Found(found)) => {
            output.screen.line(&findings(&found, output.err));
            if output.format != Format::Text {
                output.print_json(&to_json(&found));
            }
            Ok(Exit::Wrong)
        }
    }
}

impl From<Message> for Complaint {
    fn from(message: Message) -> Self {
        let exit = if message.is_mistake { Exit::Wrong } else { Exit::Failed };
        Self { exit, message: message.text, hints: message.hints }
    }
}

impl Host for Output {
    fn toolsets(&self) -> ToolsetRegistry {
        toolset_kinds(&home())
    }

    fn make_folder(&self, path: &Path) -> io::Result<PathBuf> {
        make_named_folder(path)
    }

    fn note(&self, text: &str) {
        Output::note(self, text);
    }

    fn warn(&self, found: &[Diagnostic]) {
        self.screen.line(&findings(found, self.err));
    }

    fn fetching(&self, url: &str) {
        let doing = format!("fetching {url}");
        if self.err_terminal && !self.quiet {
            self.screen.go_live();
            let text = visible::line(&doing).into_owned();
            self.screen.live(vec![Row { indent: 0, text, since: Instant::now() }]);
        } else {
            Output::note(self, &doing);
        }
    }

    fn fetched(&self) {
        self.screen.live(Vec::new());
    }
}

/// Writes a worker as a skill. `libraries` are the folders of `--lib`.
fn export(
    args: &LibExportArgs,
    libraries: &[PathBuf],
    around: &Surroundings,
    output: &Output,
) -> Result<(), Error> {
    let program = ProgramFlags {
        entry: Some(args.skill.clone()),
        project: args.project.clone(),
        lib: libraries.to_vec(),
        ..ProgramFlags::default()
    };
    let request = looked_at(&ProgramArgs { target: None, program });
    let loaded = target::find(&request, around).map_err(Problem::Program).and_then(|target| {
        let root = PathBuf::from(target.source.tree.root().as_str());
        let host = reading_host(&request, around, &target)?;
        Ok((root, Program::load(target.source, host).map_err(Problem::Program)?.program))
    });
    let (root, program) = loaded.map_err(|problem| match problem {
        Problem::Program(found) => Error::Found(found.0),
        problem => Error::mistake(problem.to_string()),
    })?;
    // The agents that find a skill in a project work in its folder.
    let project = |to: &Path| match to.starts_with(&root) {
        true => ".".to_owned(),
        false => quoted(&root.display().to_string()),
    };
    let to = around.here.join(&args.to);
    check_named(&to)
        .map_err(|error| Error::mistake(format!("`{}` can't be written: {error}", to.display())))?;
    let done = llm_do_packages::export(program.entry(), &args.skill, &to, project)?;
    match output.format {
        Format::Text => output.print(&format!("{}  written\n", done.folder.join(SKILL_FILE).display())),
        _ => output.print_json(&json!({"skill": done.name, "folder": done.folder})),
    }
    Ok(())
}

/// Shows the result on stdout: one line for each library, then the changes of the lock file.
fn show_installation(done: &Installation, output: &Output) {
    let state = |placed: Placed| match placed {
        Placed::Installed => "installed",
        Placed::Already => "already installed",
        Placed::Replaced => "replaced",
    };
    if output.format == Format::Text {
        let mut text = String::new();
        for one in &done.outcomes {
            let state = match one.placed {
                Placed::Already => output.out.dim(state(one.placed)).to_string(),
                Placed::Installed | Placed::Replaced => output.out.green(state(one.placed)).to_string(),
            };
            let commit = one
                .commit
                .as_deref()
                .map(|commit| output.out.dim(format!("  {}", short_commit(commit))).to_string());
            let folder = one.folder.display().to_string();
            text.push_str(&format!(
                "{}  {state}{}  {}\n",
                output.out.bold(&one.label),
                commit.unwrap_or_default(),
                output.out.dim(visible::line(&folder))
            ));
        }
        text.extend(done.pinning.as_ref().map(|pinning| pinning_text(pinning, output.out)));
        output.print(&text);
    } else {
        let installed = done.outcomes.iter().map(|one| {
            json!({"library": one.label, "state": state(one.placed).replace(' ', "_"), "folder": one.folder,
                "files": one.files, "commit": one.commit})
        });
        let lock = done.pinning.as_ref().map(pinning_json);
        output.print_json(&json!({"installed": installed.collect::<Vec<_>>(), "lock": lock}));
    }
    done.notes.iter().for_each(|note| output.note(note));
}

/// Formats the changes, a line each, and the state of the lock file.
fn pinning_text(pinning: &Pinning, paint: Paint) -> String {
    let line = |change: &Change| {
        let mark = match change.mark() {
            '+' => paint.green("+"),
            '-' => paint.red("-"),
            _ => paint.yellow("~"),
        };
        format!("{mark} {}\n", visible::line(&change.text()))
    };
    let mut text: String = pinning.changes.iter().map(line).collect();
    if pinning.libraries > 0 || pinning.written {
        let noun = if pinning.libraries == 1 { "library" } else { "libraries" };
        let state = if pinning.written { "pins" } else { "is as it was and pins" };
        text.push_str(&format!("{LOCK_FILE} {state} {} {noun}\n", pinning.libraries));
    }
    text
}

fn pinning_json(pinning: &Pinning) -> Value {
    let changes = pinning.changes.iter().map(|change| {
        json!({"library": change.name, "before": change.before, "after": change.after,
            "files": differences(&change.files)})
    });
    json!({"path": pinning.path, "libraries": pinning.libraries, "written": pinning.written,
        "changes": changes.collect::<Vec<_>>()})
}

fn differences(all: &[Difference]) -> Value {
    all.iter().map(|one| json!({"path": one.path, "change": one.change.to_string()})).collect()
}

fn show_list(all: &[Listed], roots: &[PathBuf], output: &Output) {
    if output.format != Format::Text {
        let libraries: Vec<Value> = all.iter().map(listed_json).collect();
        output.print_json(&json!({"roots": roots, "libraries": libraries}));
        return;
    }
    if all.is_empty() {
        let roots: Vec<String> = roots.iter().map(|root| root.display().to_string()).collect();
        output.note(&format!("no libraries in {}", roots.join(", ")));
    }
    let width = all.iter().map(|one| visible::line(&one.entry).chars().count()).max().unwrap_or(0);
    let text: String = all.iter().map(|one| listed_line(one, width, output.out)).collect();
    output.print(&text);
}

fn listed_line(one: &Listed, width: usize, paint: Paint) -> String {
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

fn listed_json(one: &Listed) -> Value {
    let mut out = json!({"library": one.entry, "folder": one.folder, "name": null, "version": null,
        "description": null, "exports": [], "problem": null});
    match &one.manifest {
        Ok(manifest) => {
            out["name"] = json!(manifest.name);
            out["version"] = json!(manifest.version);
            out["description"] = json!(manifest.description);
            out["exports"] = json!(exports(manifest));
        }
        Err(problem) => out["problem"] = json!(problem),
    }
    out
}

fn exports(manifest: &Manifest) -> Vec<&str> {
    manifest.exports.iter().map(|(export, _)| export.as_str()).collect()
}

fn show_info(info: &Info, output: &Output) {
    let Info { name, version, folder, manifest, contents, bytes, users, pinned } = info;
    let dependencies: Vec<&str> =
        manifest.dependencies.iter().map(|dependency| dependency.text.as_str()).collect();
    if output.format != Format::Text {
        let lock = pinned.as_ref().map(|(pinned, changed)| {
            json!({"version": pinned.version, "sources": pinned.sources, "commit": pinned.commit,
                "differences": differences(changed)})
        });
        output.print_json(&json!({"name": name, "version": version, "description": manifest.description,
            "folder": folder, "exports": exports(manifest), "dependencies": dependencies,
            "files": contents.len(), "bytes": bytes, "hash": contents.hash(), "used_by": users_json(users),
            "pinned": lock}));
        return;
    }
    let paint = output.out;
    let mut text = format!("{}\n", paint.bold(format!("{name}@{version}")));
    let mut fact = |key: &str, value: &str| {
        if !value.is_empty() {
            text.push_str(&format!("{}{}\n", paint.dim(format!("{key:<14}")), visible::line(value)));
        }
    };
    fact("description", manifest.description.as_deref().unwrap_or_default().trim());
    fact("folder", &folder.display().to_string());
    let exported = exports(manifest);
    fact("exports", if exported.is_empty() { "nothing" } else { "" });
    fact("exports", &exported.join(", "));
    fact("dependencies", &dependencies.join(", "));
    fact("files", &format!("{}, {bytes} bytes", contents.len()));
    fact("hash", &contents.hash());
    for user in users {
        fact("used by", &user.to_string());
    }
    if let Some((pinned, differences)) = pinned {
        fact("source", &pinned.sources.join(", "));
        fact("commit", pinned.commit.as_deref().unwrap_or_default());
        if pinned.version != *version {
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
}

fn users_json(users: &[User]) -> Value {
    users.iter().map(|user| json!({"who": user.who, "how": user.how})).collect()
}

fn show_removed(removed: &Removed, output: &Output) {
    let Removed { entry, folder, users } = removed;
    if output.format != Format::Text {
        output.print_json(&json!({"removed": entry, "folder": folder, "was_used_by": users_json(users)}));
        return;
    }
    if !users.is_empty() {
        let users: String = users.iter().map(|user| format!("\n  {user}")).collect();
        output.warn(&format!("`{entry}` was in use:{users}"));
    }
    output.print(&format!("{}  removed\n", output.out.bold(entry)));
}
