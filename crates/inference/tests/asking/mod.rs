//! Requests to a local model, made by tests.

use llm_do_core::{
    call_path::CallPath,
    model::{
        Delta, DeltaSink, Message, MessageId, Model, ModelError, ModelRequest, ModelResponse, ModelSettings,
        Part, Role, ToolSpec,
    },
};
use llm_do_inference::{LoadError, LocalModel, Store, catalogue};
use llm_do_sandbox::confine;
use serde_json::Value;
use std::{
    fs::File,
    ops::Deref,
    path::PathBuf,
    sync::{Arc, Mutex},
};
use tokio::sync::Notify;

/// Returns the path of the weights, if the machine has them: `LLM_DO_TEST_GGUF`, or else a file of the models folder.
pub(crate) fn weights() -> Option<PathBuf> {
    let home = std::env::var_os("LLM_DO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".llm-do")));
    let found = match std::env::var_os("LLM_DO_TEST_GGUF") {
        Some(path) => Some(PathBuf::from(path)),
        None => home.and_then(|home| Store::new(home.join("models")).locate(catalogue::DEFAULT).ok()),
    };
    if found.is_none() {
        println!(
            "skipped: no weights; run `llm-do models pull {}` or set LLM_DO_TEST_GGUF",
            catalogue::DEFAULT
        );
    }
    found
}

/// A model, with the exclusive right to use it: only one of these tests has it at a time, in this process and in any
/// other, since concurrent answers would compete for the cores.
pub(crate) struct Turn {
    model: LocalModel,
    _lock: File,
}

impl Deref for Turn {
    type Target = LocalModel;

    fn deref(&self) -> &LocalModel {
        &self.model
    }
}

/// Opens a model whose process is confined as well as this machine can.
pub(crate) fn open(path: impl Into<PathBuf>) -> Result<LocalModel, LoadError> {
    let tests = std::env::current_exe().unwrap();
    // Cargo puts it beside the folder of the test binary.
    let process = tests.parent().unwrap().with_file_name("examples").join("model_process");
    assert!(process.is_file(), "cargo builds {}", process.display());
    confine::install_binary(process);
    LocalModel::open(path, Arc::default())
}

/// Opens the model with real weights.
pub(crate) fn real_model() -> Option<Turn> {
    let path = weights()?;
    let lock = File::create(concat!(env!("CARGO_TARGET_TMPDIR"), "/local-model.lock")).expect("a lock file");
    lock.lock().expect("a turn");
    Some(Turn { model: open(path).expect("a GGUF file"), _lock: lock })
}

/// The deltas of an answer.
#[derive(Default)]
pub(crate) struct Deltas {
    pub(crate) told: Mutex<Vec<Delta>>,
    pub(crate) more: Notify,
}

impl DeltaSink for Deltas {
    fn delta(&self, delta: Delta) {
        self.told.lock().unwrap().push(delta);
        self.more.notify_one();
    }
}

/// A request that a test builds.
#[derive(Clone, Default)]
pub(crate) struct Ask {
    pub(crate) system: String,
    pub(crate) parts: Vec<(Role, Vec<Part>)>,
    pub(crate) tools: Vec<ToolSpec>,
    pub(crate) output: Option<Value>,
    pub(crate) settings: ModelSettings,
}

impl Ask {
    pub(crate) fn user(text: &str) -> Self {
        let settings = ModelSettings { max_tokens: Some(24), ..ModelSettings::default() };
        Self { parts: vec![(Role::User, vec![Part::text(text)])], settings, ..Self::default() }
    }

    pub(crate) async fn of(&self, model: &LocalModel, deltas: &Deltas) -> Result<ModelResponse, ModelError> {
        let (path, name) = (CallPath::root(), "local:test".parse().unwrap());
        let messages: Vec<Arc<Message>> = (0..)
            .zip(&self.parts)
            .map(|(id, (role, parts))| {
                Arc::new(Message { id: MessageId(id), parent: None, role: *role, parts: parts.clone() })
            })
            .collect();
        let (system, tools) = (Arc::from(self.system.as_str()), Arc::from(self.tools.clone()));
        let output = self.output.clone().map(Arc::new);
        let request = ModelRequest {
            conversation: &path,
            run: "test",
            worker: "test",
            purpose: Default::default(),
            turn: 0,
            model: &name,
            system: &system,
            messages: &messages,
            tools: &tools,
            server_tools: &Arc::from([]),
            settings: &self.settings,
            output: output.as_ref(),
        };
        model.respond(request, deltas).await
    }

    /// Returns the answer, which must not fail.
    pub(crate) async fn answer(&self, model: &LocalModel) -> ModelResponse {
        self.of(model, &Deltas::default()).await.unwrap()
    }
}
