//! `llm-do migrate`: converts older layouts and worker files into a project (docs/guides/migrating.md). Prints a diff, or
//! writes.

use crate::{
    args::{Format, MigrateArgs},
    exit::{Complaint, Exit},
    program::{home, quoted},
    render::Output,
    visible,
};
use llm_do::program::{
    manifest::is_project,
    source::{DiskTree, SourceError, SourceTree},
};
use llm_do::{check_named, read_below};
use llm_do_migrate::{Change, Content, KEPT, Note, Plan, Scope, Weight, plan};
use llm_do_packages::transaction::{self, Move, Moves, Staged};
use llm_do_records::diff::unified_diff;
use serde_json::{Value, json};
use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

/// The most notes that are shown if nothing was recognised.
const MOST_NOTES_ON_NOTHING: usize = 5;

/// Runs the command: exit code 2 if nothing was recognised.
pub(crate) fn run(args: &MigrateArgs, output: &Output) -> Result<Exit, Complaint> {
    let path = args.path.clone().unwrap_or_else(|| PathBuf::from("."));
    let settled = settle(args, &path, output)?;
    if settled && fs::symlink_metadata(&path).is_err() {
        return Ok(Exit::Done); // That was the file.
    }
    let (folder, scope) = scope(&path)?;
    if scope != Scope::Folder && args.into.is_some() {
        return Err(Complaint::wrong("--into makes a project of a folder, and PATH is a file"));
    }
    if let Some(into) = args.into.as_deref().filter(|into| fs::symlink_metadata(into).is_ok()) {
        return Err(Complaint::wrong(format!("`{}` already exists", into.display()))
            .hint("nothing is overwritten: name a folder that does not exist"));
    }
    let tree = DiskTree::open(&folder)
        .map_err(|error| Complaint::wrong(format!("`{}` can't be opened: {error}", folder.display())))?;
    let plan = match plan(&tree, &scope) {
        Ok(plan) => plan,
        Err(nothing) => {
            // Of a folder that holds something else altogether a few words say enough.
            let few = &nothing.notes[..nothing.notes.len().min(MOST_NOTES_ON_NOTHING)];
            tell_notes(few, output);
            return Err(Complaint::wrong(format!("`{}`: {nothing}", path.display())).hint(
                "workers are files that end in .worker, .agent or .yaml; manifests are project.yaml, program.yaml, \
                 workshop.yaml or golem-forge.config.yaml",
            ));
        }
    };
    let root = PathBuf::from(tree.root().as_str());
    let elsewhere = plan.is_registry && args.into.is_none();
    if args.write && elsewhere {
        return Err(not_in_place(&path, &root));
    }
    let mut originals = None;
    if args.write && !(plan.is_empty() && args.into.is_none()) {
        match &args.into {
            Some(into) => write_into(&root, into, &plan)?,
            None => originals = write_in_place(&root, &plan)?,
        }
    }
    let originals = originals.map(|kept| shown_in(&folder, &kept));
    let place = match (&args.into, &scope, plan.changes.first()) {
        (Some(into), ..) => into.clone(),
        (None, Scope::File(_), Some(change)) => folder.join(&change.to),
        _ => path.clone(),
    };
    if output.format != Format::Text {
        output.print_json(&as_json(&plan, args.write, originals.as_deref()));
        return Ok(Exit::Done);
    }
    if !args.write {
        output.print(&diff(&plan, output));
    }
    tell_notes(&plan.notes, output);
    if !output.quiet {
        output.screen.line(&summary(args, &path, &place, &plan, originals.as_deref(), output));
        if elsewhere && !plan.is_empty() {
            for hint in not_in_place(&path, &root).hints {
                output.screen.line(&format!("{} {}", output.err.hint("hint:"), visible::text(&hint)));
            }
        }
    }
    Ok(Exit::Done)
}

/// Completes a migration in the folder that was cut off. Returns true if there was one.
fn settle(args: &MigrateArgs, path: &Path, output: &Output) -> Result<bool, Complaint> {
    let folder = if path.is_dir() { path } else { around(path) };
    if args.write && args.into.is_none() {
        let unsettled = transaction::is_unsettled(folder);
        let moved = transaction::settle(folder, &home()).map_err(|error| {
            Complaint::failed(format!(
                "a change to `{}` was cut off, and can't be finished: {error}",
                folder.display()
            ))
        })?;
        if unsettled {
            output.note("a change to this folder that was cut off is finished now");
        }
        show_moves(&moved, output);
        return Ok(unsettled);
    }
    if transaction::is_unsettled(folder) {
        let shown = path.display().to_string();
        return Err(Complaint::wrong(format!(
            "a change to `{}` was cut off, so that only a part of it is made",
            folder.display()
        ))
        .hint(format!("to finish it: llm-do migrate {} --write", quoted(&shown))));
    }
    Ok(false)
}

/// Shows the moves that completed a change.
pub(crate) fn show_moves(moved: &[Move], output: &Output) {
    for (from, to) in moved {
        output.note(&format!("moved `{}` to `{}`", visible::line(from), visible::line(to)));
    }
}

/// Returns the folder that contains a path.
fn around(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns a path in a folder, as people write it.
fn shown_in(folder: &Path, name: &str) -> String {
    let path = if folder == Path::new(".") { PathBuf::from(name) } else { folder.join(name) };
    path.display().to_string()
}

/// Returns the folder to migrate, and the part of it that the command names.
fn scope(path: &Path) -> Result<(PathBuf, Scope), Complaint> {
    let shown = path.display();
    let found = fs::metadata(path).map_err(|error| {
        Complaint::wrong(format!("`{shown}` can't be opened: {}", SourceError::from(error)))
    })?;
    if found.is_dir() {
        return Ok((path.to_owned(), Scope::Folder));
    }
    let folder = around(path);
    match path.file_name().and_then(|name| name.to_str()) {
        Some(name) if found.is_file() => Ok((folder.to_owned(), Scope::File(name.to_owned()))),
        _ => Err(Complaint::wrong(format!("`{shown}` is neither a folder nor a file"))),
    }
}

fn not_in_place(path: &Path, root: &Path) -> Complaint {
    let shown = path.display().to_string();
    let complaint = Complaint::wrong(format!(
        "`{shown}` is a registry, in which runs find workers by name: it stays, and the project is made elsewhere"
    ));
    let around = root.parent().filter(|parent| DiskTree::open(parent).is_ok_and(|tree| is_project(&tree)));
    match around {
        Some(project) => complaint.hint(format!(
            "to migrate the project around it: llm-do migrate {}",
            quoted(&project.display().to_string())
        )),
        None => complaint.hint(format!("llm-do migrate {} --into my-workers --write", quoted(&shown))),
    }
}

/// Writes the whole migrated project into a folder that does not exist yet.
fn write_into(root: &Path, into: &Path, plan: &Plan) -> Result<(), Complaint> {
    let write = || -> io::Result<()> {
        check_named(into)?;
        let staged = Staged::beside(around(into))?;
        let moved = plan.changes.iter().filter(|change| change.content == Content::Moved);
        let moved = moved.filter_map(|change| Some((change.from.as_deref()?, change.to.as_str())));
        for (from, to) in moved.chain(plan.kept.iter().map(|path| (path.as_str(), path.as_str()))) {
            staged.copy(&root.join(from), to)?;
        }
        stage(&staged, root, plan)?;
        staged.become_folder(into)
    };
    write().map_err(|error| Complaint::failed(format!("`{}` can't be made: {error}", into.display())))
}

/// Changes the folder, and keeps the originals in a new folder. Returns its name.
fn write_in_place(root: &Path, plan: &Plan) -> Result<Option<String>, Complaint> {
    let write = || -> io::Result<Option<String>> {
        let staged = Staged::inside(root)?;
        stage(&staged, root, plan)?;
        let kept = (1..)
            .map(|n| if n == 1 { KEPT.to_owned() } else { format!("{KEPT}-{n}") })
            .find(|name| fs::symlink_metadata(root.join(name)).is_err())
            .unwrap_or_else(|| KEPT.to_owned());
        let (moved, written): (Vec<&Change>, Vec<&Change>) =
            plan.changes.iter().partition(|change| change.content == Content::Moved);
        let originals: Vec<&str> = written
            .iter()
            .filter_map(|change| change.from.as_deref())
            .chain(plan.absorbed.iter().map(|one| one.path.as_str()))
            .collect();
        let mut moves = Moves::new(root, &home())?;
        for path in &originals {
            moves.add(path, &format!("{kept}/{path}"));
        }
        for change in moved {
            moves.add(change.from.as_deref().unwrap_or(&change.to), &change.to);
        }
        for change in written {
            moves.add_staged(&staged, &change.to);
        }
        moves.make(&staged)?;
        Ok((!originals.is_empty()).then_some(kept))
    };
    write().map_err(|error| {
        Complaint::failed(format!("`{}` can't be migrated: {error}", root.display()))
            .hint("everything is as it was before")
    })
}

/// Writes all new texts, after a check that the original files have not changed since they were read.
fn stage(staged: &Staged, root: &Path, plan: &Plan) -> io::Result<()> {
    let unchanged = |path: &str, text: &str| -> io::Result<()> {
        if read_below(root, Path::new(path), text.len() as u64)? == text.as_bytes() {
            return Ok(());
        }
        Err(io::Error::other(format!("{path} has changed in between")))
    };
    for one in &plan.absorbed {
        unchanged(&one.path, &one.text)?;
    }
    for Change { from, to, content } in &plan.changes {
        let Content::Text { before, after } = content else { continue };
        let place = staged.write(to, after.as_bytes())?;
        if let Some(from) = from {
            unchanged(from, before)?;
            fs::set_permissions(place, fs::metadata(root.join(from))?.permissions())?;
        }
    }
    Ok(())
}

fn tell_notes(notes: &[Note], output: &Output) {
    for note in notes {
        match note.weight {
            Weight::Lost => output.warn(&note.to_string()),
            Weight::Info => output.note(&note.to_string()),
        }
    }
}

fn summary(
    args: &MigrateArgs,
    path: &Path,
    place: &Path,
    plan: &Plan,
    originals: Option<&str>,
    output: &Output,
) -> String {
    let paint = output.err;
    let many = |number: usize| format!("{number} file{}", if number == 1 { "" } else { "s" });
    let shown = |path: &Path| quoted(&path.display().to_string());
    if plan.is_empty() && !(args.write && args.into.is_some()) {
        return match plan.notes.iter().any(|note| note.weight == Weight::Lost) {
            true => "nothing can be migrated: see the warnings above".into(),
            false => format!("{} nothing to migrate", paint.green("canonical already:")),
        };
    }
    let forms: Vec<String> = plan.forms.iter().map(ToString::to_string).collect();
    let mut text = String::new();
    if !forms.is_empty() {
        // Writing to a `String` does not fail.
        let _ = writeln!(text, "found {}", forms.join(", "));
    }
    let lost = plan.notes.iter().filter(|note| note.weight == Weight::Lost).count();
    if lost > 0 {
        let things = if lost == 1 { "1 thing needs".to_owned() } else { format!("{lost} things need") };
        let _ = writeln!(text, "{things} a look: see the warnings above");
    }
    let number = many(plan.changes.len());
    if !args.write {
        let mut command = "llm-do migrate".to_owned();
        if args.path.is_some() {
            let _ = write!(command, " {}", shown(path));
        }
        if let Some(into) = &args.into {
            let _ = write!(command, " --into {}", shown(into));
        }
        let _ = write!(text, "{number} would be written; nothing has been");
        if !(plan.is_registry && args.into.is_none()) {
            let _ = write!(text, "\n{} {command} --write", paint.hint("next:"));
        }
        return text;
    }
    let _ = write!(text, "{} {number}", paint.green("wrote"));
    if let Some(kept) = originals {
        let _ = write!(text, "; the originals are in {}", visible::line(kept));
    } else if args.into.is_some() {
        let _ = write!(text, " in {}; {} is as it was", shown(place), shown(path));
    }
    let _ = write!(text, "\n{} llm-do check {}", paint.hint("next:"), shown(place));
    text
}

/// Formats the changes as git would show them.
fn diff(plan: &Plan, output: &Output) -> String {
    let mut text = String::new();
    for Change { from, to, content } in &plan.changes {
        let old = from.as_deref().unwrap_or(to);
        head(&mut text, old, to);
        match (content, from.as_deref()) {
            (Content::Text { before, after }, Some(from)) => {
                if from != to {
                    let _ = writeln!(text, "rename from {from}\nrename to {to}");
                }
                hunks(&mut text, &format!("a/{from}"), &format!("b/{to}"), before, after);
            }
            (Content::Text { before, after }, None) => {
                text.push_str("new file mode 100644\n");
                hunks(&mut text, "/dev/null", &format!("b/{to}"), before, after);
            }
            (Content::Moved, _) => {
                let _ = writeln!(text, "similarity index 100%\nrename from {old}\nrename to {to}");
            }
        }
    }
    for one in &plan.absorbed {
        head(&mut text, &one.path, &one.path);
        text.push_str("deleted file mode 100644\n");
        hunks(&mut text, &format!("a/{}", one.path), "/dev/null", &one.text, "");
    }
    let shown = if output.out_terminal { visible::text(&text).into_owned() } else { text };
    if !output.out.is_on() {
        return shown;
    }
    let paint = output.out;
    let mut in_hunks = false;
    shown
        .split_inclusive('\n')
        .map(|line| {
            let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
            if line.starts_with("diff --git ") {
                in_hunks = false;
            }
            in_hunks |= line.starts_with("@@");
            let painted = match line.chars().next() {
                Some('@') if in_hunks => paint.cyan(line),
                Some('+') if in_hunks => paint.green(line),
                Some('-') if in_hunks => paint.red(line),
                _ if in_hunks => paint.plain(line),
                _ => paint.bold(line),
            };
            format!("{painted}{end}")
        })
        .collect()
}

fn head(text: &mut String, old: &str, new: &str) {
    let _ = writeln!(text, "diff --git a/{old} b/{new}");
}

fn hunks(text: &mut String, old: &str, new: &str, before: &str, after: &str) {
    text.push_str(&unified_diff(old, new, before, after));
}

fn as_json(plan: &Plan, written: bool, originals: Option<&str>) -> Value {
    let change = |change: &Change| {
        let (before, after) = match &change.content {
            Content::Text { before, after } => (json!(&**before), json!(after)),
            Content::Moved => (Value::Null, Value::Null),
        };
        json!({"from": change.from, "to": change.to, "before": before, "after": after})
    };
    let note = |note: &Note| {
        let weight = if note.weight == Weight::Lost { "warning" } else { "note" };
        json!({"severity": weight, "file": note.file, "line": note.line, "message": note.message})
    };
    json!({
        "written": written && !plan.is_empty(),
        "originals": originals,
        "forms": plan.forms.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "changes": plan.changes.iter().map(change).collect::<Vec<_>>(),
        "absorbed": plan.absorbed.iter().map(|one| json!({"file": one.path, "into": one.into})).collect::<Vec<_>>(),
        "notes": plan.notes.iter().map(note).collect::<Vec<_>>(),
    })
}
