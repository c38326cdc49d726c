//! The default model, used if no setting names one (`docs/guides/models.md`).

use crate::{
    known::{KNOWN, KnownProvider},
    providers::{KeySource, Providers},
};
use llm_do_core::model::ModelName;
#[cfg(not(target_arch = "wasm32"))]
use serde_json::Value;
#[cfg(not(target_arch = "wasm32"))]
use std::{
    io::{Read as _, Write as _},
    net::{TcpStream, ToSocketAddrs as _},
    time::Duration,
};

/// The order of providers: those with their own key, each with a small model that handles tools well.
const ORDER: &[(&str, &str)] = &[
    ("anthropic", "claude-haiku-4-5"),
    ("openai", "gpt-5-mini"),
    ("gemini", "gemini-2.5-flash"),
    ("openrouter", "openai/gpt-5-mini"),
    ("mistral", "mistral-small-latest"),
    ("groq", "openai/gpt-oss-20b"),
    ("xai", "grok-4-fast"),
    ("deepseek", "deepseek-chat"),
];

/// Returns the model of that provider in [`ORDER`].
pub(crate) fn usual(provider: &str) -> Option<String> {
    let (name, model) = ORDER.iter().find(|(name, _)| *name == provider)?;
    Some(format!("{name}:{model}"))
}

#[cfg(not(target_arch = "wasm32"))]
/// Timeout of the request to a running Ollama. The request goes to this machine, before every run without a model.
const PATIENCE: Duration = Duration::from_millis(if cfg!(test) { 300_000 } else { 200 });

#[cfg(not(target_arch = "wasm32"))]
/// Maximum size of Ollama's list of models.
const LIST: u64 = 1 << 20;

/// A model chosen by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultModel {
    /// The model.
    pub name: ModelName,
    /// The reason for the choice, for display: `OPENAI_API_KEY is set`.
    pub because: String,
}

impl Providers {
    /// Returns the model to use if no setting names one: a model of the first provider with a key in the environment
    /// (Anthropic, OpenAI, Gemini, OpenRouter, Mistral, Groq, xAI, DeepSeek), or a stored one, otherwise a model of an
    /// Ollama that runs on this machine. `None` if there is neither.
    ///
    /// May block for up to half a second if no key is set.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn default_model(&self) -> Option<DefaultModel> {
        self.model_by_key().or_else(|| self.model_of_ollama())
    }

    /// Returns the known providers that have a key, each with the variable that holds it or would hold it; never the
    /// key.
    pub fn with_keys(&self) -> Vec<(&'static str, &'static str, KeySource)> {
        let with_key = |known: &'static KnownProvider| {
            let found = self.key(known.keys)?;
            Some((known.name, found.variable, found.source))
        };
        KNOWN.iter().filter_map(with_key).collect()
    }

    /// Returns the model to use if no setting names one, by the keys alone.
    pub fn model_by_key(&self) -> Option<DefaultModel> {
        ORDER.iter().find_map(|(provider, model)| {
            // Only the provider's own variable: `GOOGLE_API_KEY` says little about models.
            let found = self.key(KnownProvider::named(provider)?.keys.get(..1)?)?;
            let name = format!("{provider}:{model}").parse().ok()?;
            let because = match found.source {
                KeySource::Environment => format!("{} is set", found.variable),
                KeySource::Stored => format!("a key of {provider} is stored"),
            };
            Some(DefaultModel { name, because })
        })
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn model_of_ollama(&self) -> Option<DefaultModel> {
        let address = self.var("OLLAMA_HOST").or_else(|| self.var("OLLAMA_BASE_URL"));
        let host = local_host(address.as_deref().unwrap_or("127.0.0.1:11434"))?;
        let model = first_model(&host)?;
        let name = format!("ollama:{model}").parse().ok()?;
        Some(DefaultModel { name, because: format!("Ollama runs at {host}") })
    }
}

#[cfg(not(target_arch = "wasm32"))]
/// Returns `host:port` of an Ollama on this machine. A remote one must be configured: a run doesn't search the network.
fn local_host(address: &str) -> Option<String> {
    let host = address.strip_prefix("http://").unwrap_or(address).trim_end_matches('/');
    let (name, port) = host.rsplit_once(':').unwrap_or((host, "11434"));
    let local = matches!(name, "127.0.0.1" | "localhost" | "0.0.0.0" | "[::1]" | "");
    let name = if matches!(name, "0.0.0.0" | "") { "127.0.0.1" } else { name };
    (local && port.parse::<u16>().is_ok()).then(|| format!("{name}:{port}"))
}

#[cfg(not(target_arch = "wasm32"))]
/// Returns the first model in Ollama's list, which is the most recently used. Written by hand: one request to this
/// machine does not justify an HTTP client during startup.
fn first_model(host: &str) -> Option<String> {
    let address = host.to_socket_addrs().ok()?.next()?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    let request = format!("GET /api/tags HTTP/1.0\r\nHost: {host}\r\nAccept: application/json\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.take(LIST).read_to_string(&mut answer).ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    let list: Value = serde_json::from_str(body).ok()?;
    Some(list.pointer("/models/0/name")?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Starts an Ollama that answers one request and has these models, in JSON.
    fn ollama(models: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let read = stream.read(&mut request).unwrap();
            assert!(request[..read].starts_with(b"GET /api/tags "));
            write!(stream, "HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n{models}", models.len()).unwrap();
        });
        host
    }

    #[test]
    fn the_first_provider_with_a_key_is_chosen_and_says_why() {
        let providers =
            Providers::new(|name| matches!(name, "OPENAI_API_KEY" | "XAI_API_KEY").then(|| "k".to_owned()));
        let chosen = providers.default_model().unwrap();
        assert_eq!(chosen.name.as_str(), "openai:gpt-5-mini");
        assert_eq!(chosen.because, "OPENAI_API_KEY is set");
    }

    #[test]
    fn the_environment_takes_precedence_over_a_stored_key() {
        let stored = |variable: &str| [(variable.to_owned(), "stored".to_owned())];
        let providers = Providers::new(|_| None).stored_keys(stored("OPENAI_API_KEY"));
        assert_eq!(providers.default_model().unwrap().because, "a key of openai is stored");
        let env = |name: &str| (name == "OPEN_ROUTER_API_KEY").then(|| "k".to_owned());
        let both = Providers::new(env).stored_keys(stored("OPENROUTER_API_KEY"));
        assert_eq!(both.with_keys(), [("openrouter", "OPEN_ROUTER_API_KEY", KeySource::Environment)]);
        let found = both.key(&["OPENROUTER_API_KEY"]).unwrap();
        assert_eq!((found.source, found.variable), (KeySource::Stored, "OPENROUTER_API_KEY"));
    }

    #[test]
    fn every_provider_of_the_order_is_known_and_opens() {
        use llm_do_core::model::Models as _;
        for (provider, _) in ORDER {
            let var = KnownProvider::named(provider).unwrap().keys[0];
            let providers = Providers::new(move |name| (name == var).then(|| "k".to_owned()));
            let chosen = providers.default_model().unwrap();
            assert_eq!(chosen.name.provider(), *provider);
            assert!(providers.open(&chosen.name).is_ok());
        }
    }

    #[test]
    fn without_a_key_a_running_ollama_is_chosen_if_it_has_a_model() {
        let host = ollama(r#"{"models":[{"name":"qwen3:4b"},{"name":"old"}]}"#);
        let providers = Providers::new(move |name| (name == "OLLAMA_HOST").then(|| host.clone()));
        let chosen = providers.default_model().unwrap();
        assert_eq!(chosen.name.as_str(), "ollama:qwen3:4b");
        assert!(chosen.because.starts_with("Ollama runs at 127.0.0.1:"));

        let host = ollama(r#"{"models":[]}"#);
        let providers = Providers::new(move |name| (name == "OLLAMA_HOST").then(|| host.clone()));
        assert_eq!(providers.default_model(), None);
    }

    #[test]
    fn no_key_and_no_ollama_is_no_model() {
        // No program listens on port 1.
        let providers = Providers::new(move |name| (name == "OLLAMA_HOST").then(|| "127.0.0.1:1".to_owned()));
        assert_eq!(providers.default_model(), None);
    }

    #[test]
    fn only_this_machine_is_asked() {
        assert_eq!(local_host("http://localhost:11434/").as_deref(), Some("localhost:11434"));
        assert_eq!(local_host("0.0.0.0").as_deref(), Some("127.0.0.1:11434"));
        for other in ["http://192.168.0.2:11434", "https://ollama.example", "box", "127.0.0.1:x"] {
            assert_eq!(local_host(other), None, "{other}");
        }
    }
}
