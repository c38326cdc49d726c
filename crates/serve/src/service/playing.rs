//! The first request that a worker would send its model. Unsaved texts may define the worker.

use super::{Service, inputs::Prepared, starting::either};
use crate::{
    error::{ApiError, Code},
    program::Starter,
    token::{Scope, Token},
    views::StartRun,
};
use llm_do::{Client, core::journal::RecordKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};
use tokio::{runtime::Handle, task::spawn_blocking};

/// A worker and an input whose first request is wanted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RenderPrompt {
    /// One of the program's exported workers; for tokens with `edit` any of its workers.
    pub(crate) worker: String,
    /// A plain message, in place of `input`.
    #[serde(default)]
    pub(crate) message: Option<String>,
    /// The whole input.
    #[serde(default)]
    pub(crate) input: Option<Value>,
    /// Texts in the place of definition files, by path. They need the scope `edit`.
    #[serde(default)]
    pub(crate) files: BTreeMap<String, String>,
}

/// The first request of a worker.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct RenderedPrompt {
    /// The model.
    pub(crate) model: String,
    /// The rendered instructions.
    pub(crate) system: String,
    /// The first message.
    pub(crate) message: String,
    /// The names of the tools that are offered.
    pub(crate) tools: Vec<String>,
}

impl Service {
    /// The first request of a worker for that input. Nothing is sent, asked or run.
    ///
    /// # Errors
    /// There is no such worker, the input does not fit, or a run would fail before its first request.
    pub(crate) async fn rendered(
        &self,
        token: &Token,
        program: &str,
        given: RenderPrompt,
    ) -> Result<RenderedPrompt, ApiError> {
        let RenderPrompt { worker, message, input, files } = given;
        // What is not saved may change what the worker can see.
        if !files.is_empty() && !token.has(Scope::Edit) {
            return Err(ApiError::without_scope(Scope::Edit));
        }
        let program = self.program(token, Some(program))?;
        let mut request = StartRun { worker: Some(worker.clone()), message, input, ..StartRun::default() };
        either(&request)?;
        let (service, token) = (self.clone(), token.clone());
        let (host, runtime) = (Arc::clone(&self.0.host), Handle::current());
        // It is never closed.
        let _turn = self.0.starting.acquire().await.map_err(ApiError::internal)?;
        let rendered = spawn_blocking(move || {
            let client =
                Client { name: Arc::clone(token.name()), program: program.name().as_str().into(), key: None };
            let starter =
                Starter::Client { client, via: service.0.owner.via(), trusted: token.has(Scope::Answer) };
            // Who may change the program may look at any worker of it.
            let session = match token.has(Scope::Edit) {
                false => program.for_request(&request, starter)?,
                true => program.edited(&*host, &worker, starter, files)?,
            };
            if session.entry().code.is_some() {
                return Err(ApiError::new(Code::Conflict, "the worker is code, which has no prompt"));
            }
            runtime.block_on(async {
                let Prepared { input, .. } = service.input(&token, &session, &mut request).await?;
                match session.preview(&input).await? {
                    RecordKind::ConversationStarted { model, system, tools, message, .. } => {
                        Ok(RenderedPrompt {
                            model: model.to_string(),
                            // As the journal of a run would have them.
                            system: session.redacted(&system),
                            message: session.redacted(&message.text()),
                            tools: tools.iter().map(|tool| tool.name.to_string()).collect(),
                        })
                    }
                    _ => Err(ApiError::new(Code::Conflict, "the worker sends no request")),
                }
            })
        });
        rendered.await.map_err(ApiError::internal)?
    }
}
