//! A model that the host asks outside of runs, such as for the title of a chat. Budgets over time count its requests too.

use llm_do_core::{
    call_path::CallPath,
    model::{
        Capabilities, DeltaSink, Model, ModelError, ModelErrorKind, ModelRequest, ModelResponse,
        ModelSettings, Part, Terms,
    },
    send::BoxFuture,
    server_tool::ServerTool,
    spending::{Spending, WantedRequest},
};
use std::sync::Arc;

/// Maximum tokens of an answer, if neither the request nor the model has a maximum.
const UNSTATED: u32 = 4096;

/// A model whose requests are counted.
pub(crate) struct CountedModel {
    pub(crate) inner: Arc<dyn Model>,
    pub(crate) spending: Arc<dyn Spending>,
    pub(crate) terms: Terms,
}

impl Model for CountedModel {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn refused_settings(&self, settings: &ModelSettings) -> Vec<String> {
        self.inner.refused_settings(settings)
    }

    fn refused_server_tools(&self, tools: &[ServerTool]) -> Vec<String> {
        self.inner.refused_server_tools(tools)
    }

    fn context(&self) -> Option<u64> {
        self.inner.context()
    }

    fn default_output(&self) -> Option<u32> {
        self.inner.default_output()
    }

    fn respond<'a>(
        &'a self,
        request: ModelRequest<'a>,
        deltas: &'a dyn DeltaSink,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            let parts = request.messages.iter().flat_map(|message| &message.parts);
            let text: usize = parts.filter_map(Part::as_text).map(str::len).sum();
            // As for the requests of runs: a token for 3 bytes.
            let input = (text + request.system.len()).div_ceil(3) as u64 + 100;
            let price = self.terms.price;
            let most = request.settings.max_tokens.or(self.default_output()).or(self.terms.max_output);
            let output = most.unwrap_or(UNSTATED).into();
            let wanted = WantedRequest { name: request.run, input, output, least: 1, price };
            let refused = |what| ModelError::new(ModelErrorKind::BadRequest, what);
            let held = self.spending.reserve(wanted).await.map_err(refused)?;
            let output = held.output_tokens().min(output);
            let max_tokens = Some(u32::try_from(output).unwrap_or(u32::MAX));
            let settings = ModelSettings { max_tokens, ..request.settings.clone() };
            let answered = self.inner.respond(ModelRequest { settings: &settings, ..request }, deltas).await;
            let worst = || price.map(|price| price.at_most(input, output)).unwrap_or_default();
            match &answered {
                Ok(response) => {
                    let usage = response.usage.priced(price.as_ref());
                    let (sent, produced) = (usage.input_tokens.unwrap_or(input), usage.output_tokens);
                    let tokens = sent.saturating_add(produced.unwrap_or(output));
                    held.settle(tokens, usage.cost_usd.unwrap_or_else(worst)).await;
                }
                Err(error) if matches!(error.kind, ModelErrorKind::Timeout | ModelErrorKind::Network) => {
                    held.settle(input.saturating_add(output), worst()).await;
                }
                Err(_) => held.settle(0, llm_do_core::price::Usd::ZERO).await,
            }
            answered
        })
    }

    fn answered_before(&self, request: ModelRequest<'_>) {
        self.inner.answered_before(request);
    }

    fn forget(&self, run: &str, conversation: &CallPath) {
        self.inner.forget(run, conversation);
    }
}
