//! A worker that is ready for its first turn.

use super::{
    context_limit::ContextLimit,
    handed::{Handed, translate_back},
    judges::Judging,
};
use crate::{
    conversation::Setup,
    engine::Frame,
    estimate::estimate_text,
    function::Function,
    model::{Message, Model, ModelName, ModelSettings, Terms, ToolSpec},
    outcome::End,
    server_tool::ServerTool,
};
use serde_json::Value;
use std::sync::Arc;

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
    pub(super) model: Arc<dyn Model>,
    pub(super) model_name: ModelName,
    pub(super) settings: ModelSettings,
    pub(super) native_output: Option<Arc<Value>>,
    pub(super) can_read_on: bool,
    pub(super) terms: Terms,
    /// The most tokens of a request, if they are known.
    pub(super) context: Option<ContextLimit>,
    pub(super) handed: Vec<Handed>,
    pub(super) returned_paths: Vec<String>,
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
}
