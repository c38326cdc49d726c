//! Models with given answers.

use llm_do_core::{
    call_path::CallPath,
    model::{
        Capabilities, DeltaSink, Model, ModelError, ModelErrorKind, ModelName, ModelRequest, ModelResponse,
        Models, Sees,
    },
    send::BoxFuture,
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

/// The answers of every worker's model.
pub(crate) struct Scripts(Arc<Script>);

struct Script {
    answers: HashMap<String, Vec<ModelResponse>>,
    /// The number of answers that each conversation has had.
    given: Mutex<HashMap<CallPath, usize>>,
}

impl Scripts {
    pub(crate) fn new(answers: HashMap<String, Vec<ModelResponse>>) -> Self {
        Self(Arc::new(Script { answers, given: Mutex::default() }))
    }
}

impl Models for Scripts {
    fn open(&self, _: &ModelName) -> Result<Arc<dyn Model>, ModelError> {
        Ok(self.0.clone())
    }
}

impl Model for Script {
    fn capabilities(&self) -> Capabilities {
        Capabilities { native_schema: false, tools: true, sees: Sees::default() }
    }

    fn respond<'a>(
        &'a self,
        request: ModelRequest<'a>,
        _: &'a dyn DeltaSink,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let line = given.entry(request.conversation.clone()).or_default();
        let answer = self.answers.get(request.worker).and_then(|answers| answers.get(*line)).cloned();
        *line += 1;
        let answer = answer.ok_or_else(|| {
            let message = format!("nothing is left for `{}` to say", request.worker);
            ModelError::new(ModelErrorKind::NotFound, message)
        });
        Box::pin(async move { answer })
    }
}
