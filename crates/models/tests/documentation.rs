//! Tests every block of `docs/guides/models.md`.
#![allow(clippy::unwrap_used, reason = "a test may panic, also in its helpers")]

use llm_do_core::model::Models as _;
use llm_do_models::{CustomProvider, Providers};
use serde::Deserialize;
use std::{collections::BTreeMap, fs};

const MODELS: &str = include_str!("../../../docs/guides/models.md");

#[derive(Deserialize)]
struct Manifest {
    providers: BTreeMap<String, CustomProvider>,
}

/// Returns the fenced blocks, each with the words after its fence.
fn blocks() -> Vec<(&'static str, &'static str)> {
    let mut pieces = MODELS.split("```");
    let mut blocks = Vec::new();
    while let (Some(_), Some(block)) = (pieces.next(), pieces.next()) {
        blocks.push(block.split_once('\n').unwrap());
    }
    blocks
}

#[test]
fn every_block_parses_as_what_it_shows() {
    let dir = tempfile::tempdir().unwrap();
    let mut seen = BTreeMap::<_, usize>::new();
    for (kind, block) in blocks() {
        *seen.entry(kind).or_default() += 1;
        match kind {
            "yaml script" => {
                let path = dir.path().join("demo.yaml");
                fs::write(&path, block).unwrap();
                let name = format!("script:{}", path.display()).parse().unwrap();
                let opened = Providers::new(|_| None).open(&name);
                assert!(opened.is_ok(), "{block}\n{:?}", opened.err());
            }
            "yaml manifest" => {
                let manifest: Manifest = serde_saphyr::from_str(block).unwrap();
                let mut providers = Providers::new(|name| (name == "GATEWAY_KEY").then(|| "k".to_owned()));
                for (name, provider) in manifest.providers {
                    providers = providers.custom(name, provider);
                }
                assert!(providers.open(&"gateway:some-model".parse().unwrap()).is_ok());
            }
            // Read by the package whose file it is, in its own test of the pages.
            "yaml config" => {}
            // Commands, which the scenarios of the command line run.
            "console" => {}
            other => panic!("what is a `{other}` block?"),
        }
    }
    assert!(seen["yaml script"] >= 3 && seen["yaml manifest"] == 1, "{seen:?}");
}

#[test]
fn every_provider_and_every_default_is_documented() {
    let providers = Providers::new(|_| None);
    for name in providers.names() {
        assert!(MODELS.contains(&format!("`{name}`")), "{name}");
    }
    for var in ["ANTHROPIC", "OPENAI", "GEMINI", "OPENROUTER", "MISTRAL", "GROQ", "XAI", "DEEPSEEK"] {
        let var = format!("{var}_API_KEY");
        let set = var.clone();
        let chosen =
            Providers::new(move |name| (name == set).then(|| "k".to_owned())).default_model().unwrap();
        assert!(MODELS.contains(&format!("`{}`, if `{var}` is set", chosen.name)), "{}", chosen.name);
    }
}
