//! The models of a world: each worker has a script.

use futures_util::future::poll_fn;
use llm_do_core::{
    call_path::CallPath,
    model::{
        Capabilities, DeltaSink, Message, Model, ModelError, ModelName, ModelRequest, ModelResponse, Models,
        Purpose, Terms,
    },
    send::BoxFuture,
    server_tool::ServerTool,
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    task::Poll,
};

/// The answers of a model, in order; each conversation of the worker follows the script from its beginning.
pub(crate) type Script = Vec<Result<ModelResponse, ModelError>>;

/// A request, as a model saw it.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) path: CallPath,
    pub(crate) purpose: Purpose,
    pub(crate) worker: String,
    pub(crate) model: String,
    pub(crate) temperature: Option<f64>,
    pub(crate) system: String,
    pub(crate) messages: Vec<Arc<Message>>,
    pub(crate) tools: Vec<String>,
    pub(crate) server_tools: Vec<ServerTool>,
    pub(crate) max_tokens: Option<u32>,
    pub(crate) output: bool,
}

/// The one model, on which every worker plays its script.
pub(crate) struct Stage {
    pub(super) scripts: HashMap<String, Script>,
    pub(super) told: Mutex<HashMap<CallPath, usize>>,
    pub(crate) seen: Mutex<Vec<Seen>>,
    /// The answer to requests for summaries, instead of the script.
    pub(super) summaries: Option<Result<ModelResponse, ModelError>>,
    pub(super) capabilities: Capabilities,
    pub(super) server_tools: bool,
    pub(super) delay: fn(&CallPath) -> usize,
}

/// Opens the one model under every name.
pub(super) struct Stages(pub(super) Arc<Stage>, pub(super) Terms, pub(super) Option<ModelName>);

impl Models for Stages {
    fn open(&self, _: &ModelName) -> Result<Arc<dyn Model>, ModelError> {
        Ok(self.0.clone())
    }

    fn terms(&self, name: &ModelName) -> Terms {
        if self.2.as_ref() == Some(name) { Terms::default() } else { self.1 }
    }
}

impl Model for Stage {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn refused_server_tools(&self, tools: &[ServerTool]) -> Vec<String> {
        let refused = tools.iter().filter(|_| !self.server_tools);
        refused.map(|tool| format!("the model has no `{}` of its own", tool.name())).collect()
    }

    fn respond<'a>(
        &'a self,
        request: ModelRequest<'a>,
        _: &'a dyn DeltaSink,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        self.seen.lock().unwrap().push(Seen {
            path: request.conversation.clone(),
            purpose: request.purpose,
            worker: request.worker.to_owned(),
            model: request.model.to_string(),
            temperature: request.settings.temperature,
            system: request.system.to_string(),
            messages: request.messages.to_vec(),
            tools: request.tools.iter().map(|tool| tool.name.to_string()).collect(),
            server_tools: request.server_tools.to_vec(),
            max_tokens: request.settings.max_tokens,
            output: request.output.is_some(),
        });
        if let (Purpose::Summary, Some(summary)) = (request.purpose, &self.summaries) {
            let answer = summary.clone();
            return Box::pin(async { answer });
        }
        let line = {
            let mut told = self.told.lock().unwrap();
            let line = told.entry(request.conversation.clone()).or_default();
            *line += 1;
            *line - 1
        };
        let delay = (self.delay)(request.conversation);
        Box::pin(async move {
            yields(delay).await;
            let script = &self.scripts[request.worker];
            script.get(line).unwrap_or_else(|| panic!("`{}` is asked once too often", request.worker)).clone()
        })
    }
}

/// Comes back after so many polls.
pub(super) async fn yields(mut left: usize) {
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(());
        }
        left -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
