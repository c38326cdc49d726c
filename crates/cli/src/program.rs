//! The program that a command line refers to, and messages about its problems.

use crate::{
    args::{Format, ProgramArgs, ProgramFlags, RunArgs},
    exit::{Complaint, Exit},
    paint::Paint,
    render::Output,
    whole_file,
};
use llm_do::{
    Environment, Grant, MissingGrant, Problem, PythonFor, ResumeError, code_reader,
    models::Providers,
    program::{
        Diagnostic, LoadOptions,
        diagnostics::{
            json::to_json,
            render::{Colour, render},
        },
        target::{Request, Surroundings, Target},
    },
    toolset_kinds, user_config,
};
use llm_do_migrate::Migration;
use llm_do_records::Problem as Line;
use llm_do_runs::{ReadError, ReopenError};
use serde_json::{Value, json};
use std::{
    env, fs, io,
    path::{self, PathBuf},
    sync::Arc,
};

/// Returns the request that the words and flags of a command line express.
fn request(positionals: Vec<String>, flags: &ProgramFlags) -> Request {
    let ProgramFlags { entry, project, no_project, lib, no_import_tools, allow_module_imports } = flags;
    Request {
        positionals,
        project: project.clone(),
        entry: entry.clone(),
        no_project: *no_project,
        libraries: lib.clone(),
        no_import_tools: *no_import_tools,
        module_imports: *allow_module_imports,
    }
}

impl From<&RunArgs> for Request {
    fn from(run: &RunArgs) -> Self {
        let positionals = [&run.first, &run.second].into_iter().flatten().cloned().collect();
        request(positionals, &run.program)
    }
}

impl From<&RunArgs> for ProgramArgs {
    /// Returns the arguments for looking at a program without running it.
    fn from(run: &RunArgs) -> Self {
        Self { target: run.first.clone(), program: run.program.clone() }
    }
}

/// Returns the request of a command that runs nothing.
pub(crate) fn looked_at(program: &ProgramArgs) -> Request {
    request(only_target(program.target.as_deref()), &program.program)
}

/// Returns the words that name a target and nothing else: with an empty message after it, a word is never the message.
pub(crate) fn only_target(target: Option<&str>) -> Vec<String> {
    target.map(|target| vec![target.to_owned(), String::new()]).unwrap_or_default()
}

/// Returns the options for loading a program only to look at it: every kind of toolset, the reader of its Python, and
/// the user's configuration.
///
/// # Errors
/// The user's configuration is wrong.
pub(crate) fn reading_host(
    request: &Request,
    around: &Surroundings,
    target: &Target,
) -> Result<LoadOptions, Problem> {
    let user = user_config(&home())?;
    let mut providers: Vec<String> =
        Providers::new(|_| None).names().into_iter().map(str::to_owned).collect();
    providers.push("local".into());
    providers.extend(user.providers.into_keys());
    let environment: Environment = Arc::new(|name| env::var(name).ok());
    let python = PythonFor {
        project: target.source.tree.root(),
        home: &home(),
        environment: &environment,
        confiner: Arc::default(),
        only_looks: true,
    };
    let mut host = request.host(around, toolset_kinds(&home()), providers, Arc::new(Migration));
    host.code = Some(code_reader(python.python()));
    host.limits = user.limits;
    Ok(host)
}

/// Returns the surroundings of the command line.
pub(crate) fn surroundings() -> io::Result<Surroundings> {
    Ok(Surroundings {
        here: env::current_dir()?,
        home: env::home_dir(),
        project: env::var_os("LLM_DO_PROJECT").filter(|project| !project.is_empty()).map(PathBuf::from),
        registry: env::var("LLM_DO_PATH").ok(),
        libraries: env::var("LLM_DO_LIBS").ok().filter(|libraries| !libraries.is_empty()),
        own: Some(home()),
    })
}

/// Returns the folder of the user's own files, which belong to no project: `LLM_DO_HOME`, by default `~/.llm-do`. It is
/// absolute, because processes with other current directories get paths in it. A `~` at its beginning is the user's
/// home, as in a shell.
pub(crate) fn home() -> PathBuf {
    let of_user = env::home_dir().unwrap_or_default();
    let home = match env::var_os("LLM_DO_HOME").filter(|home| !home.is_empty()).map(PathBuf::from) {
        Some(home) => match home.strip_prefix("~") {
            Ok(rest) => of_user.join(rest),
            Err(_) => home,
        },
        None => of_user.join(".llm-do"),
    };
    path::absolute(&home).unwrap_or(home)
}

/// Formats findings.
pub(crate) fn findings(found: &[Diagnostic], paint: Paint) -> String {
    render(found, if paint.is_on() { Colour::Always } else { Colour::Never })
}

/// Returns the path of a worker that is part of llm-do, in a folder of the user's, after writing the file if it is missing
/// or different: a run of it is recorded, listed, resumed and replayed like any other.
pub(crate) fn shipped_worker(folder: &str, name: &str, text: &str) -> Result<PathBuf, Complaint> {
    let folder = home().join(folder);
    let path = folder.join(format!("{name}.worker"));
    if fs::read(&path).is_ok_and(|found| found == text.as_bytes()) {
        return Ok(path);
    }
    let written = llm_do::private_dir(&folder).and_then(|()| whole_file::write(&path, text.as_bytes()));
    written.map(|()| path.clone()).map_err(|error| {
        Complaint::failed(format!("cannot write {}: {error}", path.display()))
            .hint("set LLM_DO_HOME to a folder that you may write to")
    })
}

/// Shows the problem that prevents a run: on stderr, and on stdout if a program waits for an answer.
pub(crate) fn show_problem(problem: &Problem, output: &Output) -> Exit {
    if let Problem::Program(found) = problem {
        output.screen.line(&findings(&found.0, output.err));
        let mut report = not_started(&problem.to_string(), &[]);
        report["diagnostics"] = to_json(&found.0)["diagnostics"].take();
        tell(&report, output);
        return Exit::Wrong;
    }
    show_complaint(&complaint(problem), output)
}

/// Returns the problem that prevents a run as an error with solutions.
pub(crate) fn complaint(problem: &Problem) -> Complaint {
    match problem {
        Problem::Program(found) => Complaint::wrong(findings(&found.0, Paint::NEVER)),
        Problem::Grants(missing) => missing_grants(missing),
        Problem::GrantsFile(_) => Complaint::wrong(problem.to_string())
            .hint("mend the file, or remove it: then every program asks again"),
        Problem::Resume(ResumeError::Changed { .. } | ResumeError::ChangedCode { .. }) => {
            Complaint::wrong(problem.to_string()).hint("put the file back as it was, or start a new run")
        }
        Problem::Resume(ResumeError::Key(_)) => foreign_run(problem),
        Problem::Resume(
            ResumeError::Read(ReadError::Line { problem: Line::Foreign, .. })
            | ResumeError::Reopen(ReopenError::Read(ReadError::Line { problem: Line::Foreign, .. })),
        ) => foreign_run(problem),
        Problem::Resume(ResumeError::Reopen(ReopenError::Running { .. })) => Complaint::wrong(
            problem.to_string(),
        )
        .hint("wait for its end, or stop that process; `llm-do runs show --follow RUN` shows what it does"),
        Problem::Resume(ResumeError::Halt(_) | ResumeError::Reopen(_) | ResumeError::Read(_)) => {
            Complaint::failed(problem.to_string())
        }
        Problem::Resume(ResumeError::NotAsked(_)) => Complaint::wrong(problem.to_string())
            .hint("`llm-do runs resume RUN` without decisions says what it waits for"),
        Problem::Journal(_) | Problem::Key(_) | Problem::Untrusted(_) => Complaint::failed(problem.to_string()),
        Problem::NoModel => Complaint::wrong(problem.to_string())
            .hint("name one with --model PROVIDER:MODEL, or set a provider's key, such as ANTHROPIC_API_KEY")
            .hint(if cfg!(feature = "local") {
                "or run one on this machine: `llm-do models pull` fetches a model, `--model local:PATH.gguf` uses a file"
                    .to_owned()
            } else {
                format!("or run one on this machine, with a build that has local models: `{WITH_LOCAL_MODELS}`")
            }),
        Problem::Input(wrong) if wrong.takes_no_message() => Complaint::wrong(problem.to_string())
            .hint("write `--param NAME=VALUE` for each, or `--input JSON`"),
        _ => Complaint::wrong(problem.to_string()),
    }
}

/// The command that installs a build with local models.
pub(crate) const WITH_LOCAL_MODELS: &str =
    "cargo install --locked --path crates/cli   # in the sources of llm-do";

/// Returns an error for a run that was begun elsewhere, as far as this can be known.
fn foreign_run(problem: &Problem) -> Complaint {
    Complaint::wrong(problem.to_string()).hint(format!(
        "start the program again; to resume a run from another machine of yours, copy that machine's journal.key to {}",
        home().join("journal.key").display()
    ))
}

/// Shows an error of llm-do's own.
pub(crate) fn show_complaint(complaint: &Complaint, output: &Output) -> Exit {
    output.screen.line(&complaint.render(output.err));
    tell(&not_started(&complaint.message, &complaint.hints), output);
    complaint.exit
}

fn not_started(message: &str, hints: &[String]) -> Value {
    json!({"run": null, "status": "not_started", "output": null, "error": {"message": message, "hints": hints}})
}

fn tell(report: &Value, output: &Output) {
    if [Format::Json, Format::StreamJson].contains(&output.format) {
        output.print_json(report);
    }
}

fn missing_grants(missing: &[MissingGrant]) -> Complaint {
    let mut message = "the program asks for more than its own folder:".to_owned();
    for grant in missing {
        message.push_str(&format!("\n  {grant} (asked for at {})", grant.asked_at));
    }
    let flags: Vec<String> =
        missing.iter().map(|missing| format!("--grant {}", quoted(&missing.grant.to_string()))).collect();
    let unconfined = missing.iter().any(|missing| missing.grant == Grant::Unconfined);
    let complaint = Complaint { exit: Exit::Refused, ..Complaint::wrong(message) }
        .hint(format!("if you trust it with that, run it again with {}", flags.join(" ")));
    if unconfined {
        return complaint.hint("`llm-do doctor` says why this system can't confine processes");
    }
    complaint
}

/// Quotes a word for a shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/:=.,_-+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
