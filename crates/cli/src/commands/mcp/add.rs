//! `llm-do mcp add` and `remove`: the servers in a project's manifest.

use super::{
    import,
    package::{self, Fetched},
};
use crate::{
    args::{AddArgs, Format},
    commands::check::replace,
    exit::{Complaint, Exit},
    program::{home, quoted, surroundings},
    render::Output,
    visible,
};
use llm_do::{
    core::authority::variable_refused,
    program::{
        diagnostics::Diagnostic,
        keys::MCP_SERVERS,
        manifest::MANIFESTS,
        manifest_edit::{self, NotEdited},
        manifest_names::older_that_is_read,
        source::{DiskTree, LARGEST_DEFINITION},
        span::SourceFile,
        target, toolsets, yaml,
    },
    read_below, toolset_kinds,
};
use serde_json::{Map, Value, json};
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A server to declare.
pub(super) struct New {
    pub(super) name: String,
    pub(super) definition: Map<String, Value>,
    /// The package that its command line would fetch, until it is installed.
    pub(super) fetched: Option<Fetched>,
    /// Notes for the user about the server.
    pub(super) notes: Vec<String>,
}

/// Declares servers.
pub(crate) fn run(args: &AddArgs, output: &Output) -> Result<Exit, Complaint> {
    let root = project(args.project.as_deref())?;
    let mut new = match &args.from {
        Some(file) => import::read(file, args.name.as_deref())?,
        None => vec![given(args)?],
    };
    // Nothing is fetched for a server that could not be declared.
    for server in &new {
        check(server)?;
        let (name, file) = manifest(&root)?;
        manifest_edit::add(&file, &server.name, &server.definition)
            .map_err(|error| not_edited(name, &error, server))?;
    }
    let fetched: Vec<&Fetched> = new.iter().filter_map(|server| server.fetched.as_ref()).collect();
    let installed = package::installed(&fetched, &args.grant, output)?;
    let fetching = new.iter_mut().filter(|server| server.fetched.is_some());
    for (server, mut keys) in fetching.zip(installed) {
        let rest = std::mem::take(&mut server.definition).into_iter();
        keys.extend(rest.filter(|(key, _)| !["command", "args"].contains(&key.as_str())));
        server.definition = keys;
        check(server)?;
    }
    for server in &mut new {
        server.notes.extend(grants(server));
    }
    let (path, before) = manifest(&root)?;
    let mut changed = Arc::clone(&before);
    for server in &new {
        let added = manifest_edit::add(&changed, &server.name, &server.definition);
        let added = added.and_then(|fix| fix.apply(changed.text()).ok_or(NotEdited::Layout));
        changed = SourceFile::new(path, added.map_err(|error| not_edited(path, &error, server))?);
    }
    // All servers at once: a process that is killed has added none of them.
    write(&root, path, &before, changed.text())?;
    if output.format != Format::Text {
        let added = new.iter().map(
            |server| json!({"name": server.name, "definition": server.definition, "notes": server.notes}),
        );
        output.print_json(&json!({"manifest": root.join(path), "added": added.collect::<Vec<_>>()}));
        return Ok(Exit::Done);
    }
    for server in &new {
        let line = format!("{} {} in {path}\n", output.out.green("added"), visible::line(&server.name));
        output.print(&line);
        server.notes.iter().for_each(|note| output.note(&visible::line(note)));
    }
    let names: Vec<&str> = new.iter().map(|server| server.name.as_str()).collect();
    output.note(&format!("a worker gets its tools with `toolsets: {{mcp: [{}]}}`", names.join(", ")));
    output.note("`llm-do mcp inspect NAME` starts a server, shows its tools and remembers them");
    Ok(Exit::Done)
}

/// Removes a server.
pub(crate) fn remove(name: &str, project_dir: Option<&Path>, output: &Output) -> Result<Exit, Complaint> {
    let root = project(project_dir)?;
    let (path, file) = manifest(&root)?;
    match manifest_edit::remove(&file, name) {
        Ok(fix) => {
            let text = fix.apply(file.text()).ok_or(NotEdited::Layout);
            let text = text.map_err(|error| Complaint::wrong(format!("{path}: {error}")))?;
            write(&root, path, &file, &text)?;
        }
        Err(error @ NotEdited::Missing(_)) => {
            return Err(Complaint::wrong(format!("{path}: {error}"))
                .hint("`llm-do mcp list` lists the servers of the program"));
        }
        Err(error) => {
            return Err(Complaint::wrong(format!("{path}: {error}")).hint("remove the server by hand"));
        }
    }
    if output.format != Format::Text {
        output.print_json(&json!({"manifest": root.join(path), "removed": name}));
        return Ok(Exit::Done);
    }
    output.print(&format!("{} {} from {path}\n", output.out.green("removed"), visible::line(name)));
    output.note("`llm-do check` finds the workers that still list it");
    Ok(Exit::Done)
}

/// The server that the arguments describe.
fn given(args: &AddArgs) -> Result<New, Complaint> {
    let Some((command, rest)) = args.command.split_first() else {
        return Err(Complaint::wrong(
            "the command of the server is missing: `llm-do mcp add NAME -- COMMAND`",
        ));
    };
    let mut definition = Map::new();
    definition.insert("command".into(), command.as_str().into());
    if !rest.is_empty() {
        definition.insert("args".into(), rest.into());
    }
    let mut env = Map::new();
    for name in &args.env {
        if name.contains('=') {
            return Err(Complaint::wrong(format!("--env {name}: values are not written to files"))
                .hint("give the name of the variable, and set the variable in your environment"));
        }
        if let Some(reason) = variable_refused(name) {
            return Err(Complaint::wrong(format!("--env {name}: {reason}")));
        }
        env.insert(name.clone(), format!("${{{name}}}").into());
    }
    if !env.is_empty() {
        definition.insert("env".into(), env.into());
    }
    if !args.path.is_empty() {
        definition.insert("paths".into(), args.path.clone().into());
    }
    let fetched = Fetched::read(&args.command).map_err(Complaint::wrong)?;
    Ok(New { name: args.name.clone().unwrap_or_default(), definition, fetched, notes: Vec::new() })
}

/// The grants that a server needs at a run.
fn grants(server: &New) -> Option<String> {
    let words = server.definition.get("args").and_then(Value::as_array).into_iter().flatten();
    let command = server.definition.get("command").and_then(Value::as_str)?;
    let package = server.definition.get("package").and_then(Value::as_str);
    let words = package.into_iter().chain([command]).chain(words.filter_map(Value::as_str));
    let command = words.map(quoted).collect::<Vec<_>>().join(" ");
    let process = quoted(&format!("process={command}"));
    let env = server.definition.get("env").and_then(Value::as_object).into_iter().flatten();
    let variables = env.filter_map(|(_, value)| value.as_str()?.strip_prefix("${")?.strip_suffix('}'));
    let variables: String = variables.map(|name| format!(" --grant env={name}")).collect();
    Some(format!("a run needs `--grant {process}{variables}`, or your answer when it asks"))
}

/// Checks a definition as the loader would.
fn check(server: &New) -> Result<(), Complaint> {
    let text =
        Value::Object(Map::from_iter([(server.name.clone(), server.definition.clone().into())])).to_string();
    let node = yaml::parse(&SourceFile::new("the server", text.as_str()), text.len());
    let mut found: Vec<Diagnostic> = Vec::new();
    match node {
        Ok(node) => {
            let section = |key: &str| (key == MCP_SERVERS).then_some(&node);
            toolsets::declared(section, &toolset_kinds(&home()), &mut found);
        }
        Err(error) => found.push(*error),
    }
    if found.is_empty() {
        return Ok(());
    }
    let reasons: Vec<String> = found.iter().map(|found| found.message.clone()).collect();
    Err(Complaint::wrong(format!("`{}` cannot be declared: {}", server.name, reasons.join("; "))))
}

/// The folder of the project.
pub(super) fn project(named: Option<&Path>) -> Result<PathBuf, Complaint> {
    let around =
        surroundings().map_err(|error| Complaint::wrong(format!("no current directory: {error}")))?;
    let folder = match named.map(Path::to_owned).or(around.project.clone()) {
        Some(named) => Some(around.here.join(named)),
        None => target::nearest_project(&around.here, &around),
    };
    match folder {
        Some(folder) if folder.is_dir() => Ok(folder),
        Some(folder) => Err(Complaint::wrong(format!("`{}` is not a folder", folder.display()))),
        None => Err(Complaint::wrong("there is no project here")
            .hint("name its folder with --project DIR, or make one: `llm-do init NAME`")),
    }
}

/// The manifest of a project, by its name; without one, the empty text of a new one.
pub(super) fn manifest(root: &Path) -> Result<(&'static str, Arc<SourceFile>), Complaint> {
    let tree = DiskTree::open(root).map_err(|error| Complaint::failed(error.to_string()))?;
    for name in MANIFESTS.into_iter().chain(older_that_is_read(&tree)) {
        let read = read_below(root, Path::new(name), LARGEST_DEFINITION).and_then(|bytes| {
            String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
        });
        match read {
            Ok(text) => return Ok((name, SourceFile::new(name, text))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Complaint::failed(format!("`{name}` cannot be read: {error}"))),
        }
    }
    Ok((MANIFESTS[0], SourceFile::new(MANIFESTS[0], "")))
}

/// Changes the manifest, which is created if it does not exist.
fn write(root: &Path, path: &str, before: &SourceFile, text: &str) -> Result<(), Complaint> {
    replace(root, path, before.text(), text)
        .map_err(|reason| Complaint::failed(format!("`{path}` is left as it is: {reason}")))
}

fn not_edited(path: &str, error: &NotEdited, server: &New) -> Complaint {
    let complaint = Complaint::wrong(format!("{path}: {error}"));
    match error {
        NotEdited::Exists(name) => {
            complaint.hint(format!("`llm-do mcp remove {}` removes it, or take another name", quoted(name)))
        }
        NotEdited::Missing(_) | NotEdited::Layout => complaint
            .hint(format!("add it by hand:\n{}", manifest_edit::as_yaml(&server.name, &server.definition))),
    }
}
