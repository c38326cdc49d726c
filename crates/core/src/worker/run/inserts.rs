//! The texts that make up a worker's instructions. A text of a toolset, such as a prompt of an MCP server, is fetched
//! before the conversation begins. Each fetch is a step.

use crate::{
    authority::Place,
    definition::WorkerDefinition,
    driver::{CutOff, Step, StepEnd},
    engine::{Frame, RunContext},
    function::CompositeCall,
    journal::RecordKind,
    origin::{self, Trail},
    outcome::{Ending, Failure, FailureKind, Halt, Stop},
    step_name::StepName,
    template::{
        self, Insert, Inserting, MOST_INSERTS, Noting, Origin, Rendered, TemplateError, TemplateSource,
    },
    toolset::ToolsetContext,
};
use serde_json::{Map, Value};
use std::{collections::BTreeSet, sync::Arc};

/// The texts of one rendering of a worker's instructions.
pub(super) struct Texts {
    noting: Arc<Noting>,
    inserting: Arc<Inserting>,
    variables: Value,
    /// The names of the variables that differ between calls.
    inputs: BTreeSet<String>,
}

impl Texts {
    pub(super) fn new(
        worker: &WorkerDefinition,
        host: &RunContext,
        variables: Map<String, Value>,
        inputs: BTreeSet<String>,
    ) -> Self {
        let noting = Arc::new(Noting::new(Arc::clone(&worker.instructions.templates)));
        let source = Arc::clone(&noting) as Arc<dyn TemplateSource>;
        let inserting = Arc::new(Inserting::new(source, host.toolsets.inserting()));
        Self { noting, inserting, variables: Value::Object(variables), inputs }
    }

    fn attempt(&self, worker: &WorkerDefinition) -> Result<Rendered, TemplateError> {
        let instructions = &worker.instructions;
        let origin =
            Origin { file: instructions.file.to_string(), line: instructions.line_offset as usize + 1 };
        let source = Arc::clone(&self.inserting) as Arc<dyn TemplateSource>;
        template::render_showing(&instructions.text, &origin, &self.variables, self.inputs.clone(), source)
    }

    /// The instructions.
    ///
    /// # Errors
    /// An error of the template, for people.
    pub(super) fn render(&self, worker: &WorkerDefinition) -> Result<Rendered, String> {
        let rendered = self.attempt(worker);
        match (rendered, self.inserting.wanted()) {
            (Ok(rendered), _) => Ok(rendered),
            // What the worker's toolsets have was fetched.
            (Err(error), Some(insert)) => {
                Err(format!("{}: `{}` does not have the toolset `{}`", error.place, worker.id, insert.kind))
            }
            (Err(error), None) => Err(error.to_string()),
        }
    }

    /// Returns true if any of the texts come from toolsets.
    pub(super) fn has_inserts(&self) -> bool {
        self.inserting.count() > 0
    }

    /// The files that were read.
    pub(super) fn places(&self) -> Vec<Place> {
        self.noting.places()
    }
}

/// Fetches the texts that a worker's instructions need from its toolsets. For that purpose the instructions are
/// rendered until no text is missing. Other errors of the template are reported when the conversation begins.
///
/// # Errors
/// A text is not available. `trail` becomes untrusted if the failure may repeat words of others.
pub(super) async fn fetch(
    worker: &Arc<WorkerDefinition>,
    call: &CompositeCall<'_>,
    frame: &Frame,
    texts: &Texts,
    trail: &mut Trail,
) -> Result<(), Stop> {
    let host = call.engine.host();
    let kinds = host.toolsets.inserting();
    let has_any = worker.toolsets.iter().any(|(name, _)| kinds.iter().any(|kind| **kind == **name));
    if !has_any || !template::has_syntax(&worker.instructions.text) {
        return Ok(());
    }
    for number in 0.. {
        let rendered = texts.attempt(worker);
        let (Err(TemplateError { place, .. }), Some(insert)) = (rendered, texts.inserting.wanted()) else {
            break;
        };
        if number == MOST_INSERTS {
            let message = format!("{place}: instructions insert at most {MOST_INSERTS} texts of toolsets");
            return Err(Stop::failed(FailureKind::Definition, message));
        }
        let name = StepName::Insert(number);
        let step = Step {
            path: call.path,
            name: name.clone(),
            intent: None,
            deadline: frame.remaining(&*host.driver).await,
            cut_off: CutOff::Again,
            run: Box::pin(async {
                let context = ToolsetContext {
                    run: &host.run,
                    worker,
                    authority: frame.authority(),
                    definitions: &host.definitions,
                    kinds: &host.toolsets,
                    client_tools: &host.client_tools,
                    policy: None,
                    listing: None,
                };
                let Insert { kind, name, arguments } = insert.clone();
                let ending = match host.toolsets.insert(&context, &insert).await {
                    Ok(text) => Ending::Output(Arc::new(host.redact.text(&text).into_owned().into())),
                    Err(reason) => {
                        let message = format!("{place}: `{kind}:{name}`: {reason}");
                        let message = host.redact.text(&message).into_owned();
                        Ending::Failure(Failure::new(FailureKind::Tool, message))
                    }
                };
                RecordKind::TextInserted { toolset: kind, name, arguments, ending }
            }),
        };
        let ending = match host.driver.step(step).await?.end {
            StepEnd::Done(RecordKind::TextInserted { toolset, name: text, arguments, ending }) => {
                if insert != (Insert { kind: toolset, name: text, arguments }) {
                    let reason = format!("the instructions now insert `{}:{}`", insert.kind, insert.name);
                    return Err(Halt::Diverged { path: call.path.clone(), step: name, reason }.into());
                }
                ending
            }
            StepEnd::Done(other) => return Err(Halt::unexpected(call.path, &name, &other).into()),
            StepEnd::TimedOut => {
                let message =
                    format!("`{}` ran out of time before its instructions were complete", worker.id);
                return Err(Stop::failed(FailureKind::Timeout, message));
            }
        };
        match ending {
            Ending::Output(text) => {
                let text = text.as_str().unwrap_or_default().into();
                texts.inserting.put(insert, text);
            }
            Ending::Failure(failure) => {
                *trail = trail.clone().begun(origin::Origin::Untrusted, call.path, &worker.id);
                return Err(failure.into());
            }
            Ending::Suspended => break,
        }
    }
    Ok(())
}
