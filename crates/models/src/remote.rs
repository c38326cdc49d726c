//! A model behind an HTTP endpoint.

use crate::{failure::Whom, transport::Transport};
use http::HeaderMap;
use llm_do_core::{
    model::{Capabilities, DeltaSink, Model, ModelError, ModelRequest, ModelResponse, ModelSettings},
    send::BoxFuture,
    server_tool::ServerTool,
};
use llm_do_wire::Form;
use std::sync::{Arc, atomic::Ordering};
use url::Url;

/// A model behind an endpoint.
pub(crate) struct Remote {
    pub(crate) transport: Arc<dyn Transport>,
    /// The base address.
    pub(crate) base: Url,
    /// The headers of every request.
    pub(crate) headers: HeaderMap,
    pub(crate) form: Form,
    pub(crate) whom: Whom,
    /// True if answers are streamed.
    pub(crate) stream: bool,
}

impl Model for Remote {
    fn capabilities(&self) -> Capabilities {
        self.form.capabilities()
    }

    fn refused_settings(&self, settings: &ModelSettings) -> Vec<String> {
        self.form.refused_settings(settings)
    }

    fn refused_server_tools(&self, tools: &[ServerTool]) -> Vec<String> {
        self.form.refused_server_tools(tools)
    }

    fn respond<'a>(
        &'a self,
        request: ModelRequest<'a>,
        deltas: &'a dyn DeltaSink,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            // Thousands of runs may wait. To ask takes more room than to wait, and to read is not yet due then.
            let response = Box::pin(self.ask(&request)).await?;
            let answer = Box::pin(self.read(response, &request, deltas)).await?;
            self.whom.reached.store(true, Ordering::Relaxed);
            Ok(answer)
        })
    }
}
