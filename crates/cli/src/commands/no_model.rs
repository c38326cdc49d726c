//! A placeholder for a model that is not chosen, for commands that send nothing.

use llm_do::{
    Settings,
    core::{
        model::{
            Capabilities, DeltaSink, Model, ModelError, ModelErrorKind, ModelName, ModelRequest,
            ModelResponse, Terms,
        },
        price::Price,
        send::BoxFuture,
        server_tool::ServerTool,
    },
};
use std::sync::Arc;

const PROVIDER: &str = "no-model";

/// Returns true if a model is this placeholder.
pub(crate) fn is_unchosen(model: &ModelName) -> bool {
    model.provider() == PROVIDER
}

/// Returns settings with which a program opens although no model is named.
pub(crate) fn without_model(mut settings: Settings) -> Settings {
    settings.fallback_model = format!("{PROVIDER}:chosen").parse().ok();
    let providers = settings.providers;
    settings.providers = Box::new(move |all, confiner| {
        let free = Terms { price: Some(Price::FREE), ..Terms::default() };
        providers(all, confiner)
            .with(PROVIDER, |_| Ok(Arc::new(Unchosen) as Arc<dyn Model>))
            .price(format!("{PROVIDER}:*"), free)
    });
    settings
}

/// A model with every capability, which is never asked.
struct Unchosen;

impl Model for Unchosen {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn refused_server_tools(&self, _: &[ServerTool]) -> Vec<String> {
        Vec::new()
    }

    fn respond<'a>(
        &'a self,
        _: ModelRequest<'a>,
        _: &'a dyn DeltaSink,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async { Err(ModelError::new(ModelErrorKind::Unsupported, "no model is chosen")) })
    }
}
