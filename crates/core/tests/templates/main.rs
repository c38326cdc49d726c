//! The rendering held against the Python library's own cases, and against `docs/reference/templates.md`, which lists
//! every difference.
#![expect(clippy::disallowed_methods, reason = "the cases and the documentation are files")]

mod errors;
mod files;
mod hostile;
mod inspecting;
mod python_cases;
mod rendering;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

use llm_do_core::template::{
    Origin, Settings, TemplateError, TemplateErrorKind, TemplateFacts, TemplateName, TemplateRefusal,
    TemplateSource, TemplateText, Undefined, confine, inspect, render, render_with,
};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

/// Files by path, in the order of the roots they would be looked up in, and what was asked for.
#[derive(Default)]
struct Files {
    texts: BTreeMap<String, String>,
    refused: BTreeMap<String, String>,
    asked: Mutex<Vec<String>>,
}

impl Files {
    fn of<const N: usize>(texts: [(&str, &str); N]) -> Arc<Self> {
        let texts = texts.map(|(name, text)| (name.to_owned(), text.to_owned()));
        Arc::new(Self { texts: texts.into(), ..Self::default() })
    }
}

impl TemplateSource for Files {
    fn template(&self, name: &TemplateName) -> Result<Option<TemplateText>, TemplateRefusal> {
        let name = name.to_string();
        self.asked.lock().expect("no test panics with it").push(name.clone());
        if let Some(reason) = self.refused.get(&name) {
            return Err(TemplateRefusal { name, reason: reason.clone() });
        }
        let text = self.texts.get(&name);
        Ok(text.map(|text| TemplateText {
            text: text.as_str().into(),
            origin: format!("templates/{name}"),
            place: None,
        }))
    }

    fn file(&self, name: &TemplateName) -> Result<Option<TemplateText>, TemplateRefusal> {
        self.template(name)
    }
}

/// The instructions of a worker whose front matter ends in line 4.
fn instructions() -> Origin {
    Origin { file: "workers/greeter.worker".to_owned(), line: 5 }
}

fn rendered(text: &str, variables: &Json, files: &Arc<Files>) -> String {
    match render(text, &instructions(), variables, Arc::<Files>::clone(files)) {
        Ok(text) => text.into_owned(),
        Err(error) => panic!("{text:?}: {error}"),
    }
}

fn refused(text: &str, variables: &Json, files: &Arc<Files>) -> TemplateError {
    match render(text, &instructions(), variables, Arc::<Files>::clone(files)) {
        Ok(rendered) => panic!("{text:?} rendered {rendered:?}"),
        Err(error) => error,
    }
}

fn alone(text: &str) -> TemplateError {
    refused(text, &json!({}), &Files::of([]))
}

fn crate_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A corpus that is not ours, beside the checkout; CI always has it.
fn corpus(name: &str) -> Option<String> {
    let path = crate_dir().join("../../../shared/corpora").join(name);
    let text = std::fs::read_to_string(&path).ok();
    assert!(text.is_some() || std::env::var_os("CI").is_none(), "CI has {}", path.display());
    text
}
