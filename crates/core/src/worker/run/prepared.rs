//! A worker that is ready for its first turn.

use super::{
    context_limit::ContextLimit,
    handed::{Handed, translate_back},
    judges::Judging,
};
use crate::{
    call_path::CallPath,
    conversation::Setup,
    definition::WorkerDefinition,
    engine::Frame,
    estimate::estimate_text,
    event::Event,
    function::{CompositeCall, Function},
    model::{Message, Model, ModelName, ModelSettings, Terms, ToolSpec},
    outcome::End,
    partial::grows_into,
    server_tool::ServerTool,
};
use serde_json::Value;
use std::{ops::Deref, sync::Arc};

/// The partial value of an answer, as far as it was shown.
pub(super) struct Shown {
    pub(super) turn: u32,
    pub(super) value: Value,
}

/// A worker ready for its first turn.
pub(super) struct Prepared {
    pub(super) frame: Frame,
    pub(super) functions: Vec<Function>,
    /// The tools of `ensures`, in order.
    pub(super) judges: Vec<Judging>,
    pub(super) tools: Arc<[ToolSpec]>,
    pub(super) server_tools: Arc<[ServerTool]>,
    pub(super) setup: Arc<Setup>,
    pub(super) system: Arc<str>,
    pub(super) first: Arc<Message>,
    /// The model that answers.
    pub(super) model: AskedModel,
    pub(super) model_name: ModelName,
    /// The models that may answer, in the order in which they stand in for each other.
    pub(super) models: Vec<ModelName>,
    /// The number of times that a model was to stand in for another.
    pub(super) switches: u32,
    pub(super) worker: Arc<WorkerDefinition>,
    pub(super) settings: ModelSettings,
    pub(super) native_output: Option<Arc<Value>>,
    /// The partial value of the last answer, until it is the result or is withdrawn.
    pub(super) shown: Option<Shown>,
    pub(super) can_read_on: bool,
    pub(super) terms: Terms,
    /// The most tokens of a request, if they are known.
    pub(super) context: Option<ContextLimit>,
    pub(super) handed: Vec<Handed>,
    pub(super) returned_paths: Vec<String>,
}

/// A model that is asked by one conversation. The model is informed when the conversation ends or asks another.
pub(super) struct AskedModel {
    model: Arc<dyn Model>,
    run: Arc<str>,
    path: CallPath,
}

impl AskedModel {
    /// Creates the model of a call's conversation.
    pub(super) fn new(model: Arc<dyn Model>, call: &CompositeCall<'_>) -> Self {
        Self { model, run: Arc::clone(&call.engine.host().run), path: call.path.clone() }
    }
}

impl Deref for AskedModel {
    type Target = dyn Model;

    fn deref(&self) -> &Self::Target {
        &*self.model
    }
}

impl Drop for AskedModel {
    fn drop(&mut self) {
        self.model.forget(&self.run, &self.path);
    }
}

impl Prepared {
    /// Estimates the tokens that every request sends beside its messages. Nothing calls it where nothing is counted.
    pub(super) fn fixed_tokens(&self) -> u64 {
        let tools = self
            .tools
            .iter()
            .map(|tool| tool.name.len() + tool.description.len() + tool.input.to_string().len());
        let output = self.native_output.as_ref().map_or(0, |schema| schema.to_string().len());
        estimate_text(self.system.len() + tools.sum::<usize>() + output)
    }

    /// Translates paths in the output into those that the caller knows (`docs/reference/sandbox.md`).
    pub(super) fn translate_back(&self, end: End) -> End {
        translate_back(&self.returned_paths, &self.handed, end)
    }

    /// Discards the partial value that was shown, unless it has grown into the result.
    pub(super) fn withdraw_partial(&mut self, call: &CompositeCall<'_>, end: Option<&End>) {
        let Some(Shown { turn, value }) = self.shown.take() else { return };
        if !matches!(end, Some(End::Done(result)) if grows_into(&value, result)) {
            call.engine.host().driver.emit(Event::DiscardPartial { path: call.path.clone(), turn });
        }
    }
}
