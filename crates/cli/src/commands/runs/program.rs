//! `llm-do runs export --program`: makes a project of a program that a model wrote (`docs/guides/programs.md`).

mod manifest;

use crate::{
    args::{ExportArgs, Format, ProgramArgs, ProgramFlags},
    exit::Complaint,
    past_runs::{find, folders},
    program::{looked_at, reading_host, surroundings},
    render::Output,
    whole_file,
};
use llm_do::{
    Problem, check_named,
    core::{
        call_path::CallPath,
        definition::{Definitions, WorkerDefinition},
        engine::Principal,
        function::FunctionSource,
        journal::{Ending, Record, RecordKind},
        template,
    },
    program::{Program, target},
};
use llm_do_records::WholeRun;
use llm_do_runs::read_run;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The file of a program in Python.
const PYTHON: &str = "flow.py";

/// The file of a program in TypeScript.
const SCRIPT: &str = "flow.ts";

/// The toolset and the tool of programs.
const PROGRAMS: (&str, &str) = ("programs", "run_program");

/// A program of a run, with the calls that it made.
struct Exported {
    code: String,
    /// The file of the code, in its language.
    file: &'static str,
    input: Value,
    /// The worker whose model wrote it.
    worker: Arc<str>,
    ending: Ending,
    calls: Vec<Made>,
    /// True if the program was written in a tainted conversation.
    is_untrusted: bool,
}

/// A call that the program made.
struct Made {
    function: Arc<str>,
    source: FunctionSource,
    ending: Ending,
}

/// Runs the command.
pub(super) fn export(export: &ExportArgs, project: Option<&Path>, output: &Output) -> Result<(), Complaint> {
    let (run, call, target) = match export.runs.as_slice() {
        [run, call] => (run, call, None),
        [run, call, target] => (run, call, Some(target.as_str())),
        _ => {
            return Err(Complaint::wrong("--program needs a run and the call of `run_program` in it")
                .hint("for example `llm-do runs export --program last 0/0.0 -o flow`"));
        }
    };
    let Some(folder) = export.to.as_deref() else {
        return Err(Complaint::wrong("--program needs -o DIR, the folder of the new project"));
    };
    let dir = find(&folders(target, project)?, run)?;
    let run = read_run(&dir).map_err(|error| Complaint::wrong(error.to_string()))?;
    let exported = Exported::of(&run, call)?;
    let program = load(target, project)?;
    let files = exported.files(&run, &program)?;
    if fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Complaint::wrong(format!("{} is not empty", folder.display()))
            .hint("name a folder that does not exist yet"));
    }
    for (name, text) in &files {
        let path = folder.join(name);
        write(&path, text)
            .map_err(|error| Complaint::failed(format!("cannot write {}: {error}", path.display())))?;
    }
    if exported.is_untrusted {
        output.warn("the program was written after untrusted content was read: read it before you run it");
    }
    if output.format == Format::Text {
        output.print(&format!(
            "{} files in {}: `llm-do check` and `llm-do test` check them\n",
            files.len(),
            folder.display()
        ));
    } else {
        output.print_json(&json!({"folder": folder, "files": files.keys().collect::<Vec<_>>()}));
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    check_named(path)?;
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    whole_file::write(path, text.as_bytes())
}

/// Loads the program of the run, whose toolsets and mounts the new project gets.
fn load(target: Option<&str>, project: Option<&Path>) -> Result<Arc<Program>, Complaint> {
    let flags = ProgramFlags { project: project.map(Path::to_owned), ..ProgramFlags::default() };
    let request = looked_at(&ProgramArgs { target: target.map(str::to_owned), program: flags });
    let around =
        surroundings().map_err(|error| Complaint::wrong(format!("no current directory: {error}")))?;
    let loaded = target::find(&request, &around).map_err(Problem::Program).and_then(|target| {
        let host = reading_host(&request, &around, &target)?;
        Program::load(target.source, host).map_err(Problem::Program)
    });
    match loaded {
        Ok(loaded) => Ok(loaded.program),
        Err(problem) => Err(Complaint::wrong(format!("the program of the run can't be loaded: {problem}"))
            .hint("name its project after the call: `llm-do runs export --program RUN CALL TARGET -o DIR`")),
    }
}

impl Exported {
    /// Finds a program in a run.
    fn of(run: &WholeRun, call: &str) -> Result<Self, Complaint> {
        let records = run.records();
        let started = |record: &Record| match &record.body {
            RecordKind::CallStarted { function, source: FunctionSource::Toolset(toolset), .. } => {
                (&**toolset, &**function) == PROGRAMS
            }
            _ => false,
        };
        let named = |record: &&Record| started(record) && record.path.to_string() == call;
        let Some(record) = records.iter().find(named) else {
            let all: Vec<String> = records
                .iter()
                .filter(|record| started(record))
                .map(|record| record.path.to_string())
                .collect();
            let there =
                if all.is_empty() { "it has none".to_owned() } else { format!("it has {}", all.join(", ")) };
            return Err(Complaint::wrong(format!(
                "`{call}` is not the call of a program in this run; {there}"
            )));
        };
        let RecordKind::CallStarted { input, principal: Principal::Worker(worker), origins, .. } =
            &record.body
        else {
            return Err(Complaint::wrong(format!("`{call}` was not made by a worker")));
        };
        let refused = records.iter().find_map(|other| match &other.body {
            RecordKind::Checked { failure: Some(failure), .. } if other.path == record.path => Some(failure),
            _ => None,
        });
        if let Some(failure) = refused {
            return Err(Complaint::wrong(format!(
                "the check refused the program `{call}`, so it never ran and is not exported: {}",
                failure.message
            ))
            .hint("export a program that ran: `llm-do runs show` prints the calls of a run"));
        }
        let ended = ending(records, &record.path).filter(|ending| *ending != Ending::Suspended);
        let ending = ended.ok_or_else(|| {
            Complaint::wrong(format!("the program `{call}` has not ended")).hint("resume the run first")
        })?;
        let made = records.iter().filter(|inner| inner.path.parent().as_ref() == Some(&record.path));
        let calls = made.filter_map(|inner| match &inner.body {
            RecordKind::CallStarted { function, source, .. } => Some(Made {
                function: Arc::clone(function),
                source: source.clone(),
                ending: self::ending(records, &inner.path)?,
            }),
            _ => None,
        });
        let file = match input.get("language").and_then(Value::as_str) {
            Some("typescript") => SCRIPT,
            Some(_) => PYTHON,
            // The default of the worker's toolset.
            None => "",
        };
        Ok(Self {
            file,
            code: input.get("code").and_then(Value::as_str).unwrap_or_default().to_owned(),
            input: input.get("input").cloned().unwrap_or(Value::Null),
            worker: Arc::clone(worker),
            ending,
            calls: calls.collect(),
            is_untrusted: !origins.is_trusted(),
        })
    }

    /// The files of the new project.
    fn files(&self, run: &WholeRun, program: &Program) -> Result<BTreeMap<PathBuf, String>, Complaint> {
        let source = FunctionSource::Program;
        let worker = program.named_by(&source, &self.worker).map_err(|error| {
            Complaint::wrong(format!("the worker of the program can't be loaded: {}", error.message))
        })?;
        let file = if self.file.is_empty() { default_file(&worker) } else { self.file };
        let mut files = BTreeMap::new();
        files.insert(PathBuf::from("project.yaml"), self.manifest(file, run, program, &worker));
        files.insert(PathBuf::from("main.cases.jsonl"), self.case());
        let mut code = self.code.clone();
        let mut workers: Vec<Arc<str>> = Vec::new();
        for made in &self.calls {
            match &made.source {
                FunctionSource::Program => {
                    let tool = llm_do::core::function::tool_name(&made.function);
                    for quote in ['"', '\'', '`'] {
                        code = code.replace(
                            &format!("{quote}{tool}{quote}"),
                            &format!("{quote}{}{quote}", made.function),
                        );
                    }
                    workers.push(Arc::clone(&made.function));
                }
                FunctionSource::Toolset(toolset) if **toolset == *"custom" => {
                    return Err(Complaint::wrong(format!(
                        "the program calls `{}`, a function of the project's own code, which is not exported",
                        made.function
                    ))
                    .hint("copy the program's text from `llm-do runs show` into the project instead"));
                }
                _ => {}
            }
        }
        // The function that a project begins with is one that its module exports.
        let is_exported =
            ["export function main", "export async function main", "export const main", "export {"]
                .iter()
                .any(|head| code.contains(head));
        if file == SCRIPT && !is_exported {
            code.push_str("\nexport { main };\n");
        }
        files.insert(PathBuf::from(file), code);
        let mut seen = BTreeSet::new();
        while let Some(name) = workers.pop() {
            let Ok(callee) = program.named_by(&source, &name) else { continue };
            if !seen.insert(Arc::clone(&callee.id)) {
                continue;
            }
            workers.extend(callee.allow_workers.iter().map(|name| name.as_str().into()));
            add_templates(&callee, &mut files)?;
            files.insert(Path::new("workers").join(format!("{}.worker", callee.id)), text(run, &callee));
        }
        Ok(files)
    }

    /// The recorded execution as a case, whose stubs return the recorded results.
    fn case(&self) -> String {
        let mut given: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for made in &self.calls {
            let result = match &made.ending {
                Ending::Output(value) => (**value).clone(),
                Ending::Failure(failure) => json!({"error": failure.message}),
                Ending::Suspended => continue,
            };
            given.entry(&made.function).or_default().push(result);
        }
        let expect = match &self.ending {
            Ending::Output(value) => json!({ "output": value }),
            Ending::Failure(failure) => json!({ "fails": failure.kind }),
            Ending::Suspended => json!({}),
        };
        let mut case = json!({"name": "recorded", "input": self.input, "expect": expect});
        if !given.is_empty() {
            case["given"] = json!(given);
        }
        format!("{case}\n")
    }
}

/// The end of a call.
fn ending(records: &[Record], path: &CallPath) -> Option<Ending> {
    records.iter().rev().filter(|record| record.path == *path).find_map(|record| match &record.body {
        RecordKind::CallEnded { ending, .. } | RecordKind::ToolEnded { ending, .. } => Some(ending.clone()),
        _ => None,
    })
}

/// The text of a worker in the run, or else its text now.
fn text(run: &WholeRun, worker: &WorkerDefinition) -> String {
    let recorded = run.records().iter().find_map(|record| match &record.body {
        RecordKind::RunStarted { definitions, .. } => definitions
            .iter()
            .find(|definition| definition.worker == worker.id)
            .map(|one| Arc::clone(&one.text)),
        RecordKind::Definition(one) => (one.worker == worker.id).then(|| Arc::clone(&one.text)),
        _ => None,
    });
    recorded.unwrap_or_else(|| Arc::clone(&worker.text)).to_string()
}

/// The file of a program whose call names no language: the first one of the toolset's configuration.
fn default_file(worker: &WorkerDefinition) -> &'static str {
    let of = |configuration: &Value| {
        let language = configuration.get("language")?;
        language.as_str().or_else(|| language.get(0)?.as_str()).map(|name| name == "typescript")
    };
    let toolset = worker.toolsets.iter().find(|(name, _)| **name == *PROGRAMS.0);
    let is_script = toolset.and_then(|(_, configuration)| of(configuration)).unwrap_or(false);
    if is_script { SCRIPT } else { PYTHON }
}

/// Adds the templates and files that a worker's instructions insert. All of them lie in `templates/`, where every name of a
/// worker is looked up.
fn add_templates(worker: &WorkerDefinition, files: &mut BTreeMap<PathBuf, String>) -> Result<(), Complaint> {
    let failed = |name: &str, reason: String| {
        Complaint::wrong(format!(
            "`{name}`, which the worker `{}` inserts, is not exported: {reason}",
            worker.id
        ))
    };
    let source = &worker.instructions.templates;
    let mut left = vec![Arc::clone(&worker.instructions.text)];
    while let Some(text) = left.pop() {
        // A worker whose instructions have an error was not run.
        let Ok(facts) = template::inspect(&text, &template::Origin::file(&*worker.instructions.file)) else {
            continue;
        };
        let named = [(facts.templates, true), (facts.files, false)];
        let named = named
            .into_iter()
            .flat_map(|(all, is_template)| all.into_iter().map(move |one| (one, is_template)));
        for (reference, is_template) in named {
            let Some(name) = reference.name else {
                let reason = "its name is computed when the worker runs".to_owned();
                return Err(failed("a template", reason).hint("copy the worker's templates into the project"));
            };
            let Ok(confined) = template::confine(&name) else { continue };
            let found = match is_template {
                true => source.template(&confined),
                false => source.file(&confined),
            };
            let Some(found) = found.map_err(|refusal| failed(&name, refusal.to_string()))? else { continue };
            if confined.library().is_some() {
                return Err(failed(&name, "it belongs to a library".to_owned()));
            }
            if files.insert(Path::new("templates").join(confined.path()), found.text.to_string()).is_none()
                && is_template
            {
                left.push(found.text);
            }
        }
    }
    Ok(())
}
