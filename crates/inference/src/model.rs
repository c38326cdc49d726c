//! A GGUF file as a [`Model`].

use crate::{
    chat, gguf, llama,
    process::{Event, ModelProcess, PATIENCE},
    session::{MAX_TOKENS, MOST_CONTEXT},
    wire::{Answer, Ask},
};
use llm_do_core::{
    model::{
        Capabilities, DeltaSink, FinishReason, Model, ModelError, ModelErrorKind, ModelRequest,
        ModelResponse, ModelSettings, Part, Sees, ToolCall, Usage,
    },
    send::BoxFuture,
};
use llm_do_sandbox::confine::Confiner;
use rustix::fs::OFlags;
use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Mutex;

/// A model in a GGUF file, run in a confined process (`docs/guides/local-models.md`).
///
/// Opening one is cheap. The first request starts the process, which sees nothing but the file. A process that ends is
/// an error of the requests that it worked on, and the next request starts another. Dropping a request's future stops
/// it at the next token; dropping the model ends the process.
#[derive(Debug)]
pub struct LocalModel {
    path: PathBuf,
    confiner: Arc<Confiner>,
    process: Mutex<Option<Arc<ModelProcess>>>,
    evaluated: Arc<AtomicU64>,
    patience: Duration,
    /// The size of the context window in tokens, if the file's header has it.
    window: Option<u64>,
}

/// The reason for which a file can't be used as a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The file can't be read.
    #[error("{}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        reason: String,
        /// True if the file does not exist.
        missing: bool,
    },
    /// The file is no GGUF file.
    #[error("{} is not a GGUF file: models for local use come in this format, see `llm-do docs local-models`", .0.display())]
    NotGguf(PathBuf),
    /// The file is a GGUF file that can't be run: cut short, damaged, or of an unknown architecture.
    #[error("{} can't be loaded: {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The process that would run it can't be started.
    #[error("{} can't be run: {reason}", path.display())]
    NotStarted {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The processor is too old for this build.
    #[error("local models need a processor with {}, which this one lacks: use a provider", .0.join(", "))]
    Processor(Vec<&'static str>),
}

impl From<LoadError> for ModelError {
    fn from(error: LoadError) -> Self {
        let kind = match error {
            LoadError::Unreadable { missing: true, .. } => ModelErrorKind::NotFound,
            LoadError::Unreadable { .. } => ModelErrorKind::BadRequest,
            _ => ModelErrorKind::Unsupported,
        };
        Self::new(kind, error.to_string())
    }
}

/// The magic number of GGUF files.
const MAGIC: &[u8; 4] = b"GGUF";

impl LocalModel {
    /// Opens the file without loading it. `confiner` confines the process that will run it.
    ///
    /// # Errors
    /// The file can't be read or is no GGUF file.
    pub fn open(path: impl Into<PathBuf>, confiner: Arc<Confiner>) -> Result<Self, LoadError> {
        let path = path.into();
        let mut magic = [0; 4];
        let unreadable = |error: io::Error| LoadError::Unreadable {
            path: path.clone(),
            reason: error.to_string(),
            missing: error.kind() == io::ErrorKind::NotFound,
        };
        // Opening a FIFO would otherwise wait for a writer.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let mut file = File::options().read(true).custom_flags(flags).open(&path).map_err(unreadable)?;
        if !file.metadata().map_err(unreadable)?.is_file() {
            return Err(LoadError::NotGguf(path));
        }
        match file.read_exact(&mut magic) {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(unreadable(error)),
            Ok(()) if &magic == MAGIC => Ok(Self {
                path,
                window: gguf::context_length(file).map(|trained| trained.min(MOST_CONTEXT)),
                confiner,
                process: Mutex::default(),
                evaluated: Arc::default(),
                patience: PATIENCE,
            }),
            _ => Err(LoadError::NotGguf(path)),
        }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of tokens of prompts and answers that were evaluated since the model was opened. It includes
    /// tokens that dropped requests still cost.
    pub fn evaluated_tokens(&self) -> u64 {
        self.evaluated.load(Ordering::Relaxed)
    }

    /// Loads the model unless it is loaded. The first request does this, too. Needs a tokio runtime.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub async fn load(&self) -> Result<(), LoadError> {
        self.process().await.map(|_| ())
    }

    async fn process(&self) -> Result<Arc<ModelProcess>, LoadError> {
        let mut process = self.process.lock().await;
        if let Some(process) = process.as_ref().filter(|process| !process.is_gone()) {
            return Ok(Arc::clone(process));
        }
        let missing = llama::missing_cpu_features();
        if !missing.is_empty() {
            return Err(LoadError::Processor(missing));
        }
        let confinement = self
            .confiner
            .confinement()
            .map_err(|error| LoadError::NotStarted { path: self.path.clone(), reason: error.to_string() })?;
        let evaluated = Arc::clone(&self.evaluated);
        let started = ModelProcess::start(&self.path, confinement, self.patience, evaluated).await?;
        Ok(Arc::clone(process.insert(Arc::new(started))))
    }

    async fn answer(
        &self,
        request: ModelRequest<'_>,
        deltas: &dyn DeltaSink,
    ) -> Result<ModelResponse, ModelError> {
        let ask = Ask {
            turns: chat::turns(&request)?,
            tools: request.tools.clone(),
            output: request.output.cloned(),
            settings: request.settings.clone(),
        };
        let mut asked = self.process().await?.ask(ask);
        loop {
            match asked.next().await {
                Event::Delta(delta) => deltas.delta(delta),
                Event::Done(outcome) => {
                    let next = request.messages.last().map_or(0, |last| last.id.0 + 1);
                    return outcome.map(|answer| response(answer, &format!("call_{next}")));
                }
            }
        }
    }
}

fn response(answer: Answer, call_id: &str) -> ModelResponse {
    let finish = match (answer.cut_off, &answer.call) {
        (true, _) => FinishReason::Length,
        (false, Some(_)) => FinishReason::ToolCalls,
        (false, None) => FinishReason::Stop,
    };
    let mut parts = Vec::new();
    if !answer.text.trim().is_empty() {
        parts.push(Part::text(answer.text));
    }
    parts.extend(answer.call.map(|call| {
        Part::Call(ToolCall { id: call_id.into(), name: call.name.into(), arguments: call.arguments })
    }));
    let usage = Usage {
        input_tokens: Some(answer.input_tokens),
        cached_tokens: Some(answer.cached_tokens),
        output_tokens: Some(answer.output_tokens),
        ..Usage::default()
    };
    ModelResponse { parts, finish, usage, unknown_finish: None }
}

impl Model for LocalModel {
    fn capabilities(&self) -> Capabilities {
        Capabilities { native_schema: true, tools: true, sees: Sees::default() }
    }

    fn context(&self) -> Option<u64> {
        self.window
    }

    fn default_output(&self) -> Option<u32> {
        Some(MAX_TOKENS)
    }

    fn refused_settings(&self, settings: &ModelSettings) -> Vec<String> {
        let mut refused = Vec::new();
        if settings.reasoning_effort.as_deref().is_some_and(|effort| effort != "none") {
            refused.push("reasoning_effort: local models have no such setting".to_owned());
        }
        if settings.temperature.is_some_and(|it| !(0.0..=10.0).contains(&it)) {
            refused.push("temperature: must be between 0 and 10".to_owned());
        }
        if settings.top_p.is_some_and(|it| !(0.0..=1.0).contains(&it)) {
            refused.push("top_p: must be between 0 and 1".to_owned());
        }
        refused
    }

    fn respond<'a>(
        &'a self,
        request: ModelRequest<'a>,
        deltas: &'a dyn DeltaSink,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(self.answer(request, deltas))
    }
}

#[cfg(test)]
mod tests;
