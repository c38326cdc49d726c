//! `llm-do init`: creates a project from a template (docs/guides/projects.md).

use crate::{
    args::{Cli, Format, InitArgs},
    exit::{Complaint, Exit},
    program::{home, quoted},
    render::Output,
    visible,
};
use clap::CommandFactory;
use llm_do::{
    check_named,
    program::init::{NewFile, ProjectName, TEMPLATES, Template, template},
};
use llm_do_packages::transaction::{self, Moves, Staged};
use serde_json::json;
use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

/// Runs the command.
pub(crate) fn run(args: &InitArgs, output: &Output) -> Result<Exit, Complaint> {
    if args.list_templates {
        list(output);
        return Ok(Exit::Done);
    }
    let template = template(&args.template).expect("the command line accepts only existing templates");
    let given = args.name.as_deref().unwrap_or(".");
    let (path, files) =
        if Path::new(given) == Path::new(".") { here(template, output)? } else { new(given, template)? };
    if output.format == Format::Text {
        if !output.quiet {
            output.screen.line(&made(&path, &files, template, output));
        }
    } else {
        let paths: Vec<&str> = files.iter().map(|file| file.path).collect();
        output.print_json(&json!({"project": path, "template": template.name, "files": paths}));
    }
    Ok(Exit::Done)
}

fn list(output: &Output) {
    if output.format != Format::Text {
        let all: Vec<_> = TEMPLATES
            .iter()
            .map(|t| json!({"name": t.name, "description": t.about, "needs": t.needs}))
            .collect();
        output.print_json(&json!({"templates": all}));
        return;
    }
    let width = TEMPLATES.iter().map(|template| template.name.len()).max().unwrap_or(0);
    let lines: String = TEMPLATES
        .iter()
        .map(|t| format!("{}{:gap$}  {}\n", output.out.bold(t.name), "", t.about, gap = width - t.name.len()))
        .collect();
    output.print(&lines);
}

/// Creates a project in a new folder.
fn new(given: &str, template: &Template) -> Result<(PathBuf, Vec<NewFile>), Complaint> {
    let path = PathBuf::from(given);
    let last = path.file_name().and_then(|name| name.to_str());
    let Some(last) = last.filter(|_| !given.ends_with("..")) else {
        return Err(Complaint::wrong(format!("`{given}` has no last part that could be a project's name")));
    };
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let name = ProjectName::parse(last).map_err(|bad| {
        let complaint = Complaint::wrong(bad.to_string());
        match bad.suggestion {
            Some(better) => {
                let better = if parent == Path::new(".") {
                    better.to_string()
                } else {
                    parent.join(better.as_str()).display().to_string()
                };
                complaint.hint(format!("llm-do init {}", quoted(&better)))
            }
            None => complaint.hint("for example: llm-do init my-project"),
        }
    })?;
    if let Ok(found) = fs::symlink_metadata(&path) {
        let what = if found.is_dir() { describe(&path) } else { "a file".into() };
        return Err(Complaint::wrong(format!("`{given}` already exists: {what}"))
            .hint("nothing is overwritten: take another name, or make it of the empty folder that you are in: llm-do init ."));
    }
    if !parent.is_dir() {
        let shown = parent.display().to_string();
        return Err(Complaint::wrong(format!("there is no folder `{shown}`"))
            .hint(format!("mkdir -p {}", quoted(&shown))));
    }
    let files = template.files(&name);
    let made = check_named(&path).and_then(|()| Staged::beside(parent)).and_then(|staged| {
        write(&staged, &files)?;
        staged.become_folder(&path)
    });
    made.map_err(|error| Complaint::failed(format!("`{given}` can't be made: {error}")))?;
    Ok((path, files))
}

/// Creates a project in the current folder.
fn here(template: &Template, output: &Output) -> Result<(PathBuf, Vec<NewFile>), Complaint> {
    let folder =
        env::current_dir().map_err(|error| Complaint::wrong(format!("no current folder: {error}")))?;
    let moved = transaction::settle(&folder, &home())
        .map_err(|error| Complaint::failed(format!("the current folder can't be made a project: {error}")))?;
    super::migrate::show_moves(&moved, output);
    let others = entries(&folder)
        .map_err(|error| Complaint::wrong(format!("the current folder can't be read: {error}")))?;
    if !others.is_empty() {
        return Err(Complaint::wrong(format!(
            "the current folder is not empty: it holds {}",
            some_of(&others)
        ))
        .hint("llm-do init overwrites nothing: make the project in a new folder, llm-do init NAME"));
    }
    let called = folder.file_name().and_then(|name| name.to_str()).and_then(ProjectName::suggest);
    let name = called.unwrap_or_else(|| ProjectName::parse("my-project").expect("it is in kebab-case"));
    let files = template.files(&name);
    let made = Staged::inside(&folder).and_then(|staged| {
        write(&staged, &files)?;
        let mut moves = Moves::new(&folder, &home())?;
        for top in fs::read_dir(staged.path())? {
            moves.add_staged(&staged, top?.file_name().to_str().expect("a template's names are text"));
        }
        moves.make(&staged)
    });
    made.map_err(|error| Complaint::failed(format!("the project can't be made: {error}")))?;
    Ok((PathBuf::from("."), files))
}

fn write(staged: &Staged, files: &[NewFile]) -> io::Result<()> {
    files.iter().try_for_each(|file| staged.write(file.path, file.text.as_bytes()).map(drop))
}

/// Returns the names in a folder, sorted. A repository without files counts as an empty folder.
fn entries(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != ".git" {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn describe(folder: &Path) -> String {
    match entries(folder) {
        Ok(names) if names.is_empty() => "an empty folder".into(),
        Ok(names) => format!("a folder that holds {}", some_of(&names)),
        Err(_) => "a folder".into(),
    }
}

fn some_of(names: &[String]) -> String {
    let first: Vec<&str> = names.iter().take(3).map(String::as_str).collect();
    match names.len() - first.len() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// Formats the created files as a small tree, and the next steps.
fn made(path: &Path, files: &[NewFile], template: &Template, output: &Output) -> String {
    let paint = output.err;
    let shown = path.display().to_string();
    let mut text = format!(
        "{} {}\n",
        paint.green("made"),
        paint.bold(visible::line(&format!("{}/", shown.trim_end_matches('/'))))
    );
    let mut folder = "";
    for file in files.iter().filter(|file| !file.path.contains('/')) {
        text.push_str(&format!("  {}\n", file.path));
    }
    for (inside, name) in files.iter().filter_map(|file| file.path.split_once('/')) {
        if inside != folder {
            text.push_str(&format!("  {inside}/\n"));
            folder = inside;
        }
        if name != ".gitkeep" {
            text.push_str(&format!("    {name}\n"));
        }
    }
    let is_command = Cli::command().find_subcommand(&shown).is_some();
    let target = if is_command { format!("./{shown}") } else { shown };
    let mut command = format!("llm-do {}", quoted(&target));
    if let Some(message) = template.first_message {
        command.push_str(&format!(" \"{message}\""));
    }
    text.push_str(&format!("{} {}\n", paint.hint("needs:"), template.needs));
    text.push_str(&format!("{} {}\n", paint.hint("next:"), visible::line(&command)));
    text
}
