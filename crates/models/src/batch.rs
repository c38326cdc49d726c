//! Batches at providers, over HTTP. `llm-do-wire` makes their requests and reads their answers.

use crate::{failure::Whom, providers::Providers, remote::Remote};
use llm_do_core::model::{Model as _, ModelError, ModelErrorKind, ModelName, ModelRequest, ModelResponse};
use llm_do_wire::{Batches, Outcome, Outgoing, Progress};
use serde_json::Value;
use std::collections::BTreeMap;

/// Most bytes of results that are read of one batch.
const MOST_BYTES: usize = 512 << 20;

/// A model behind its provider's batch interface.
pub struct BatchModel {
    remote: Remote,
}

/// The progress of a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum BatchState {
    /// The provider works on it.
    Running {
        /// Requests that have ended.
        ended: u64,
    },
    /// The results can be read.
    Ended,
    /// The provider failed the whole batch, and worked on none of its requests. If the error is transient, the same
    /// batch can be submitted again.
    Failed(ModelError),
}

/// The outcome of one request of a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum BatchOutcome {
    /// The provider's answer, for [`BatchModel::answer`].
    Answered(Value),
    /// The provider has refused or failed it.
    Failed(ModelError),
    /// The batch expired before the provider worked on the request.
    Expired,
}

impl Providers {
    /// Makes a model behind its provider's batch interface. Sends nothing.
    ///
    /// # Errors
    /// The provider has no such interface, or can't be used.
    pub fn batches(&self, name: &ModelName) -> Result<BatchModel, ModelError> {
        let unsupported = || {
            let what = format!(
                "{name} has no batch interface that llm-do speaks; the chat models of `openai:` and `anthropic:` have"
            );
            ModelError::new(ModelErrorKind::Unsupported, what)
        };
        if self.is_made_elsewhere(name) {
            return Err(unsupported());
        }
        let remote = self.remote_named(name)?;
        if remote.form.batches().is_some() { Ok(BatchModel { remote }) } else { Err(unsupported()) }
    }
}

impl BatchModel {
    fn whom(&self) -> &Whom {
        &self.remote.whom
    }

    fn wire(&self) -> Result<Batches<'_>, ModelError> {
        let what = "the provider has no batch interface";
        self.remote.form.batches().ok_or_else(|| self.whom().error(ModelErrorKind::Unsupported, what))
    }

    /// Returns true if answers follow a schema that is sent with the request.
    pub fn native_schema(&self) -> bool {
        self.remote.capabilities().native_schema
    }

    /// Makes the body of a request.
    ///
    /// # Errors
    /// The request has something that no batch can have: a second turn, a file, a tool of the provider.
    pub fn body(&self, request: &ModelRequest<'_>) -> Result<Value, ModelError> {
        self.wire()?.body(request).map_err(|what| {
            let what = format!("a batch can't send {what}: run it without --batch");
            self.whom().error(ModelErrorKind::Unsupported, &what)
        })
    }

    /// Reads the answer to that request.
    ///
    /// # Errors
    /// The answer can't be read, or reports an error.
    pub fn answer(&self, request: &ModelRequest<'_>, body: Value) -> Result<ModelResponse, ModelError> {
        self.wire()?.response(request, body).map_err(|failure| self.whom().failed(failure))
    }

    /// Submits requests, each with a unique name, and returns the name of the batch. `token` marks the batch if the
    /// interface has marks, so that [`BatchModel::find`] finds it.
    ///
    /// # Errors
    /// The provider does not take them.
    pub async fn submit(&self, token: &str, requests: &[(String, Value)]) -> Result<String, ModelError> {
        let wire = self.wire()?;
        let file = match wire.upload(requests) {
            Some(upload) => self.name(&self.json(upload).await?)?,
            None => String::new(),
        };
        self.name(&self.json(wire.submission(token, requests, &file)).await?)
    }

    /// Returns the batch with that mark among the last ones. `None` also if the interface has no marks.
    ///
    /// # Errors
    /// The request fails.
    pub async fn find(&self, token: &str) -> Result<Option<String>, ModelError> {
        let wire = self.wire()?;
        let Some(list) = wire.list() else { return Ok(None) };
        let list = self.json(list).await?;
        wire.marked(&list, token).map(|batch| self.name(batch)).transpose()
    }

    /// Returns the progress of a batch.
    ///
    /// # Errors
    /// The request fails.
    pub async fn state(&self, batch: &str) -> Result<BatchState, ModelError> {
        let wire = self.wire()?;
        let found = self.json(wire.look(batch).ok_or_else(no_name)?).await?;
        Ok(match wire.progress(&found) {
            Progress::Running { ended } => BatchState::Running { ended },
            Progress::Ended => BatchState::Ended,
            Progress::Failed { reason, is_full } => {
                let kind = if is_full { ModelErrorKind::RateLimited } else { ModelErrorKind::BadRequest };
                BatchState::Failed(self.whom().error(kind, &format!("the batch failed: {reason}")))
            }
        })
    }

    /// Returns the results of a batch that has ended, by the names of its requests. A request without a result was not
    /// worked on.
    ///
    /// # Errors
    /// The results can't be read.
    pub async fn results(&self, batch: &str) -> Result<BTreeMap<String, BatchOutcome>, ModelError> {
        let wire = self.wire()?;
        let mut outcomes = BTreeMap::new();
        let found = self.json(wire.look(batch).ok_or_else(no_name)?).await?;
        for file in wire.results(batch, &found).ok_or_else(no_name)? {
            let lines = self.text(file).await?;
            outcomes.extend(lines.lines().filter_map(|line| wire.outcome(line)).map(|(id, outcome)| {
                let outcome = match outcome {
                    Outcome::Answered(body) => BatchOutcome::Answered(body),
                    Outcome::Failed(error) => BatchOutcome::Failed(self.whom().event(&error)),
                    Outcome::Expired => BatchOutcome::Expired,
                };
                (id, outcome)
            }));
        }
        Ok(outcomes)
    }

    fn name(&self, made: &Value) -> Result<String, ModelError> {
        let named = made["id"].as_str().map(str::to_owned);
        named.ok_or_else(|| self.whom().garbled(&"it names nothing"))
    }

    async fn text(&self, sent: Outgoing) -> Result<String, ModelError> {
        // Uploads and downloads of many requests take their time.
        let patience = self.whom().idle * 5;
        let mut request = self.remote.outgoing(sent)?;
        request.within = Some(patience);
        let mut response = self.remote.send(request, patience).await?;
        let mut bytes = Vec::new();
        while let Some(chunk) = response.body.chunk().await.map_err(|error| self.whom().http(&error))? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MOST_BYTES {
                return Err(self.whom().garbled(&"it is longer than the results of a batch may be"));
            }
        }
        String::from_utf8(bytes).map_err(|error| self.whom().garbled(&error))
    }

    async fn json(&self, sent: Outgoing) -> Result<Value, ModelError> {
        let text = self.text(sent).await?;
        serde_json::from_str(&text).map_err(|error| self.whom().garbled(&error))
    }
}

/// Makes the error for a batch or file whose name, given by the server, is not valid.
fn no_name() -> ModelError {
    let what = "the server names a batch or a file with characters that no name has";
    ModelError::new(ModelErrorKind::Network, what)
}
