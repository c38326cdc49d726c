//! Hardening: a test of a Python function as a replacement for a worker, against the worker's recorded calls. See
//! `docs/guides/replay.md`.

use crate::{cases::Cases, located::Located, problem::Problem, session::Session, settings::Settings};
use llm_do_core::{
    conversation::problem,
    driver::MemoryDriver,
    engine::{Failure, FailureKind, LEAF_TIMEOUT},
    function::FunctionSource,
    launch::{Launch, RunRecords},
    ledger::Budget,
    model::{Model, ModelError, ModelErrorKind, ModelName, Models},
    origin::{Origin, Origins},
    schema::Schema,
    worker::{CodeEntry, CodeModule, CodePackage, Language, Signature, WorkerDefinition},
};
use llm_do_host::{Effects, ModelSource};
use llm_do_records::{Compare, Hardened, Tried, Verdict};
use serde_json::{Value, json};
use std::sync::Arc;

/// Runs a function of the program in the place of `settings`' entry, a worker, on the inputs of the cases. It runs in the
/// confinement of any Python tool, and beyond that it can change nothing and has neither network nor models.
///
/// `with` is `FILE:FUNCTION`, the file relative to the current directory or to the program's root.
///
/// # Errors
/// The program can't be loaded, or there is no such function.
pub async fn harden(
    settings: Settings,
    with: &str,
    cases: &Cases,
    compare: Compare,
) -> Result<Hardened, Problem> {
    let here = settings.around.here.clone();
    let options = settings.run.clone();
    let models: Arc<dyn Models> = Arc::new(NoModels);
    let source = ModelSource::Given { models: Arc::clone(&models), default: "replay:none".parse().ok() };
    let loaded = Located::find(settings)?.load(Effects::Denied, &options)?;
    let session = loaded.grant(options, source)?.open()?;
    let definition = Arc::new(in_place_of(&session, with, &here)?);
    let run: Arc<str> = "harden".into();
    let mut tried = Vec::new();
    for case in cases.list() {
        let verdict = match (&case.output, &case.failure) {
            (Some(output), _) => {
                let driver = Arc::new(MemoryDriver::new(0, None));
                let models = Arc::clone(&models);
                let context = session.context(Arc::clone(&run), "1970-01-01".into(), driver, models);
                let launch = Launch {
                    context,
                    entry: Arc::clone(&definition),
                    input: Arc::clone(&case.input),
                    input_origins: Origins::TRUSTED,
                    user: Origin::Trusted,
                    attachments: Vec::new(),
                    authority: session.authority(),
                    budget: Budget::default(),
                    records: RunRecords::None,
                    held: None,
                    tally: Arc::default(),
                };
                let ended = tokio::time::timeout(LEAF_TIMEOUT, launch.call()).await;
                Verdict::of(output, ended.ok(), compare)
            }
            (None, failure) => {
                let why = failure.as_ref().map_or("it has no output", |failure| &failure.message);
                Verdict::NotCovered { reason: format!("the recorded call failed: {why}") }
            }
        };
        tried.push(Tried { case: case.clone(), verdict });
    }
    session.toolsets().ended(&run).await;
    Ok(Hardened { worker: Arc::clone(&definition.id), cases: tried })
}

/// Calls a Python function of the session's program with an output, as a condition on it: `{output: OUTPUT}`. Returns
/// `None` if the output is good, else a description of the problem. The function runs in the confinement of any Python
/// tool.
///
/// # Errors
/// The function does not exist, or it doesn't decide.
pub async fn ask_function(
    session: &Session,
    file: &str,
    function: &str,
    output: &Value,
) -> Result<Option<String>, Failure> {
    let root = std::path::PathBuf::from(session.program().root().as_str());
    let named = format!("{file}:{function}");
    let definition = in_place_of(session, &named, &root).map_err(|problem| match problem {
        Problem::Preview(failure) => failure,
        other => Failure::new(FailureKind::Definition, other.to_string()),
    })?;
    let takes = json!({
        "type": "object",
        "properties": {"output": {}},
        "required": ["output"],
        "additionalProperties": false,
    });
    let signature = Signature { schema: Arc::new(Schema::built_in(takes)), ..definition.signature.clone() };
    let definition = WorkerDefinition {
        signature: Signature { declared: true, message: None, parameters: Vec::new(), ..signature },
        returns: None,
        ensures: Arc::new([]),
        returned_paths: Vec::new(),
        ..definition
    };
    let run: Arc<str> = "ensures".into();
    let driver = Arc::new(MemoryDriver::new(0, None));
    let context = session.context(Arc::clone(&run), "1970-01-01".into(), driver, Arc::new(NoModels));
    let launch = Launch {
        context,
        entry: Arc::new(definition),
        input: Arc::new(json!({"output": output})),
        input_origins: Origins::TRUSTED,
        user: Origin::Trusted,
        attachments: Vec::new(),
        authority: session.authority(),
        budget: Budget::default(),
        records: RunRecords::None,
        held: None,
        tally: Arc::default(),
    };
    let ended = tokio::time::timeout(LEAF_TIMEOUT, launch.call()).await;
    session.toolsets().ended(&run).await;
    let ending = match ended {
        Ok(Ok(outcome)) => outcome.end.to_ending(),
        Ok(Err(halt)) => return Err(Failure::new(FailureKind::Tool, halt.to_string())),
        Err(_) => {
            let message = format!("`{named}` does not end within {} s", LEAF_TIMEOUT.as_secs());
            return Err(Failure::new(FailureKind::Timeout, message));
        }
    };
    problem(&named, &ending)
}

/// Returns the entry with the function in the place of its prompt: name, signature, files and limits stay.
fn in_place_of(session: &Session, with: &str, here: &std::path::Path) -> Result<WorkerDefinition, Problem> {
    let entry = session.entry();
    let refuse = |message: String| Problem::Preview(Failure::new(FailureKind::Definition, message));
    let Some((file, function)) = with.rsplit_once(':').filter(|(file, _)| Language::of_file(file).is_some())
    else {
        return Err(refuse(format!("`{with}` is not FILE:FUNCTION, such as tools.py:main or tools.ts:main")));
    };
    let root = session.program().root().clone();
    let found = [here.join(file), std::path::Path::new(root.as_str()).join(file)]
        .into_iter()
        .find(|path| path.is_file())
        .ok_or_else(|| refuse(format!("there is no file `{file}`")))?;
    let place = llm_do_sandbox::place_of(&found).map_err(|error| refuse(format!("`{file}`: {error}")))?;
    if !place.is_within(&root) {
        return Err(refuse(format!("`{file}` is not in the program, `{root}`")));
    }
    // The program's own functions have the same package, and so the same data.
    let known = entry.tools.iter().map(|level| &level.package);
    let known = known.chain(entry.code.iter().map(|code| &code.package)).find(|package| package.root == root);
    let data = known.map(|package| package.data.clone()).unwrap_or_default();
    let package = CodePackage { source: FunctionSource::Program, root, data };
    let code =
        CodeEntry { package: Arc::new(package), module: CodeModule::File(place), function: function.into() };
    Ok(WorkerDefinition { code: Some(code), ..(**entry).clone() })
}

/// Models for code under test, which has none: the cases do not record requests that code would make.
struct NoModels;

impl Models for NoModels {
    fn open(&self, _: &ModelName) -> Result<Arc<dyn Model>, ModelError> {
        let message = "no model answers where a function is tried against cases";
        Err(ModelError::new(ModelErrorKind::Unsupported, message))
    }
}
