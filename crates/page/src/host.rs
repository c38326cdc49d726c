//! The means of one program in a page.

use crate::{bridge::Bridge, files::PageFiles, kinds, message::Options, transport::PageTransport};
use llm_do_core::{
    attachment::Attachment,
    authority::Place,
    model::{ModelName, Models},
    origin::{UntrustedPlaces, UntrustedSet},
    toolset::ToolsetRegistry,
    vfs::FileSystem,
    worker::WorkerDefinition,
};
use llm_do_host::{Ambient, DetectedModel, Grant, Host, MissingGrant, Obstacle};
use llm_do_models::{Api, CustomProvider, Providers, Transport, scripted_over};
use llm_do_program::{Program, UserConfig, manifest::Provider};
use llm_do_records::Redactor;
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The address of models inside the page, a name that no server has. The transport replaces it.
pub(crate) const IN_PAGE: &str = "https://page.invalid/";

/// A program of the page: its files, and the models of the visitor.
pub(crate) struct PageHost {
    bridge: Bridge,
    toolsets: Arc<ToolsetRegistry>,
    files: Arc<dyn FileSystem>,
    redactor: Arc<Redactor>,
    providers: Arc<Providers>,
    declared: BTreeMap<String, Provider>,
    user: UserConfig,
    options: Arc<Options>,
    root: PathBuf,
    untrusted: Arc<UntrustedSet>,
}

/// The means with which a program is opened.
pub(crate) struct Means {
    pub(crate) bridge: Bridge,
    pub(crate) options: Arc<Options>,
    /// The run whose records precede its effects.
    pub(crate) run: Option<Arc<str>>,
    /// The scripts of the program that replace models, by path.
    pub(crate) scripts: BTreeMap<String, String>,
    pub(crate) untrusted: Arc<UntrustedSet>,
}

impl Means {
    /// Returns the providers with the keys of the visitor.
    pub(crate) fn providers(&self) -> Providers {
        let options = Arc::clone(&self.options);
        let variable =
            move |name: &str| options.keys.get(name).or_else(|| options.variables.get(name)).cloned();
        let transport: Arc<dyn Transport> =
            Arc::new(PageTransport { bridge: self.bridge.clone(), run: self.run.clone() });
        let (timer, scripts) = (Arc::clone(&transport), self.scripts.clone());
        let script = move |name: &ModelName| {
            let path = name.model();
            let text = scripts.get(path.trim_start_matches("./")).cloned().unwrap_or_default();
            scripted_over(&timer, path, &text)
        };
        Providers::over(transport, variable)
            .with("script", script)
            .custom("page", CustomProvider::new(format!("{IN_PAGE}v1")))
    }

    /// Makes the means of a loaded program.
    pub(crate) fn host(self, program: &Program) -> PageHost {
        let declared = program.providers().clone();
        let custom =
            |all: Providers, (name, provider): (&String, &Provider)| all.custom(name, endpoint(provider));
        let providers = declared.iter().fold(self.providers(), custom);
        let Self { bridge, options, run, untrusted, .. } = self;
        PageHost {
            toolsets: Arc::new(kinds::kinds()),
            files: Arc::new(PageFiles { bridge: bridge.clone(), run }),
            redactor: Arc::new(Redactor::new(options.keys.clone())),
            providers: Arc::new(providers),
            declared,
            user: UserConfig::default(),
            root: PathBuf::from(program.root().as_str()),
            bridge,
            options,
            untrusted,
        }
    }
}

fn endpoint(declared: &Provider) -> CustomProvider {
    CustomProvider {
        api: match declared.api.as_str() {
            "anthropic" => Api::Anthropic,
            "openai_resp" => Api::OpenAiResponses,
            "gemini" => Api::Gemini,
            "ollama" => Api::Ollama,
            _ => Api::OpenAi,
        },
        api_key_env: declared.api_key_env.clone(),
        headers: declared.headers.iter().cloned().collect(),
        stream: declared.stream,
        ..CustomProvider::new(declared.base_url.clone())
    }
}

impl Host for PageHost {
    type Problem = Obstacle;

    fn toolsets(&self) -> &Arc<ToolsetRegistry> {
        &self.toolsets
    }

    fn files(&self) -> &Arc<dyn FileSystem> {
        &self.files
    }

    fn redactor(&self) -> &Arc<Redactor> {
        &self.redactor
    }

    fn ambient(&self) -> Arc<dyn Ambient> {
        Arc::new(self.bridge.clone())
    }

    fn today(&self) -> Arc<str> {
        self.bridge.today()
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.options.variables.get(name).cloned()
    }

    fn user(&self) -> &UserConfig {
        &self.user
    }

    fn current_dir(&self) -> &Path {
        &self.root
    }

    fn real(&self, path: &Path) -> io::Result<Place> {
        let text = path.to_str().ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Place::new(&format!(
            "{}/{text}",
            if path.is_absolute() { "" } else { self.root.to_str().unwrap_or("") }
        )))
    }

    fn models(&self) -> Arc<dyn Models> {
        Arc::clone(&self.providers) as _
    }

    fn declared(&self) -> &BTreeMap<String, Provider> {
        &self.declared
    }

    fn detected_model(&self) -> Option<DetectedModel> {
        if let Some(name) = self.options.default_model.as_ref().and_then(|name| name.parse().ok()) {
            return Some(DetectedModel { name, because: "it is chosen in this page".into() });
        }
        let found = self.providers.model_by_key()?;
        Some(DetectedModel { name: found.name, because: found.because })
    }

    /// Returns false: the visitor grants in the options, before a run.
    fn grant(&self, _: &Place, _: &[MissingGrant]) -> Result<bool, Obstacle> {
        Ok(false)
    }

    fn missing(&self, _: &[Arc<WorkerDefinition>], _: &[Grant]) -> Vec<MissingGrant> {
        Vec::new()
    }

    fn attachment(&self, path: &Path, _: &WorkerDefinition) -> Result<Attachment, String> {
        Err(format!("`{}` was not read before the run", path.display()))
    }

    fn untrusted_places(&self) -> Result<Arc<dyn UntrustedPlaces>, Obstacle> {
        Ok(Arc::clone(&self.untrusted) as _)
    }
}
