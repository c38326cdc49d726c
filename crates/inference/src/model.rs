//! A GGUF file as a [`Model`].

use crate::{
    chat, llama,
    session::{Event, Job, Session},
};
use llama_cpp_2::model::{LlamaModel, params::LlamaModelParams};
use llm_do_core::{
    model::{
        Capabilities, DeltaSink, Model, ModelError, ModelErrorKind, ModelRequest, ModelResponse,
        ModelSettings, Sees,
    },
    send::BoxFuture,
};
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
};
use tokio::sync::{OnceCell, mpsc::unbounded_channel, oneshot};

/// A model in a GGUF file, run inside the process (`docs/guides/local-models.md`).
///
/// Opening one is cheap. The first request loads it on a thread of its own, which answers one request after the other
/// and keeps the evaluated prefix of the last conversation. Dropping a request's future stops it at the next token;
/// dropping the model ends the thread.
#[derive(Debug)]
pub struct LocalModel {
    path: PathBuf,
    jobs: OnceCell<Result<mpsc::Sender<Job>, LoadError>>,
    evaluated: Arc<AtomicU64>,
}

/// Why a file can't be used as a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// It can't be read.
    #[error("{}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        reason: String,
        /// Whether there is none.
        missing: bool,
    },
    /// It is something else.
    #[error("{} is not a GGUF file: models for local use come in this format, see docs/guides/local-models.md", .0.display())]
    NotGguf(PathBuf),
    /// It is a GGUF file that can't be run: cut short, damaged, or of an unknown architecture.
    #[error("{} can't be loaded: {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
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
/// The library recurses while it splits text and builds graphs; memory is taken only as it is used.
const STACK: usize = 16 << 20;

impl LocalModel {
    /// Opens the file without loading it.
    ///
    /// # Errors
    /// When it can't be read or is no GGUF file.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, LoadError> {
        let path = path.into();
        let mut magic = [0; 4];
        let unreadable = |error: io::Error| LoadError::Unreadable {
            path: path.clone(),
            reason: error.to_string(),
            missing: error.kind() == io::ErrorKind::NotFound,
        };
        // Opening a FIFO would wait for a writer.
        if std::fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
            return Err(LoadError::NotGguf(path));
        }
        match File::open(&path).map_err(unreadable)?.read_exact(&mut magic) {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(unreadable(error)),
            Ok(()) if &magic == MAGIC => Ok(Self { path, jobs: OnceCell::new(), evaluated: Arc::default() }),
            _ => Err(LoadError::NotGguf(path)),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many tokens were evaluated since it was opened, of prompts and of answers. What a dropped request still
    /// costs shows here.
    pub fn evaluated_tokens(&self) -> u64 {
        self.evaluated.load(Ordering::Relaxed)
    }

    /// Loads the model unless it is loaded; the first request does so by itself.
    ///
    /// # Errors
    /// See [`LoadError`]. A failed load is not tried again.
    pub async fn load(&self) -> Result<(), LoadError> {
        self.jobs().await.map(|_| ())
    }

    async fn jobs(&self) -> Result<&mpsc::Sender<Job>, LoadError> {
        let start = || async {
            let (jobs, inbox) = mpsc::channel();
            let (ready, loaded) = oneshot::channel();
            let (path, evaluated) = (self.path.clone(), self.evaluated.clone());
            let unusable = |reason: String| LoadError::Unusable { path: self.path.clone(), reason };
            thread::Builder::new()
                .name("local-model".into())
                .stack_size(STACK)
                .spawn(move || serve(&path, evaluated, ready, &inbox))
                .map_err(|error| unusable(error.to_string()))?;
            loaded.await.map_err(|_| unusable("the library gave up".into()))??;
            Ok(jobs)
        };
        self.jobs.get_or_init(start).await.as_ref().map_err(Clone::clone)
    }

    async fn answer(
        &self,
        request: ModelRequest<'_>,
        deltas: &dyn DeltaSink,
    ) -> Result<ModelResponse, ModelError> {
        let next = request.messages.last().map_or(0, |last| last.id.0 + 1);
        let (events, mut told) = unbounded_channel();
        let job = Job {
            turns: chat::turns(&request)?,
            tools: request.tools.clone(),
            output: request.output.cloned(),
            settings: request.settings.clone(),
            call_id: format!("call_{next}"),
            events,
        };
        let gone = || ModelError::new(ModelErrorKind::BadRequest, "local model: its thread has stopped");
        self.jobs().await?.send(job).map_err(|_| gone())?;
        loop {
            match told.recv().await.ok_or_else(gone)? {
                Event::Delta(delta) => deltas.delta(delta),
                Event::Done(outcome) => return outcome,
            }
        }
    }
}

impl Model for LocalModel {
    fn capabilities(&self) -> Capabilities {
        Capabilities { native_schema: true, tools: true, sees: Sees::default() }
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

/// The thread: loads, says so, then answers until the model is dropped.
fn serve(
    path: &Path,
    evaluated: Arc<AtomicU64>,
    ready: oneshot::Sender<Result<(), LoadError>>,
    inbox: &mpsc::Receiver<Job>,
) {
    let model = match load(path) {
        Ok(model) => model,
        Err(error) => {
            let _ = ready.send(Err(error));
            return;
        }
    };
    let mut session = Session::new(&model, evaluated);
    let _ = ready.send(Ok(()));
    while let Ok(job) = inbox.recv() {
        if !job.events.is_closed() {
            let outcome = session.answer(&job);
            let _ = job.events.send(Event::Done(outcome));
        }
    }
}

fn load(path: &Path) -> Result<LlamaModel, LoadError> {
    let missing = llama::missing_cpu_features();
    if !missing.is_empty() {
        return Err(LoadError::Processor(missing));
    }
    let unusable = |reason: String| LoadError::Unusable { path: path.to_owned(), reason };
    let model = LlamaModel::load_from_file(llama::backend(), path, &LlamaModelParams::default())
        .map_err(|error| unusable(llama::take_complaint().unwrap_or_else(|| error.to_string())))?;
    // These load but can't continue a text; asking them to would end the process.
    let meta = |key: &str| model.meta_val_str(key).unwrap_or_default();
    let architecture = meta("general.architecture");
    let causal = meta(&format!("{architecture}.attention.causal")) != "false";
    if !causal || architecture.starts_with("t5") || architecture.contains("bert") || architecture == "clip" {
        return Err(unusable(format!("a model of architecture `{architecture}` does not generate text")));
    }
    if model.n_vocab() == 0 || model.n_ctx_train() == 0 {
        return Err(unusable("it holds no vocabulary".into()));
    }
    Ok(model)
}
