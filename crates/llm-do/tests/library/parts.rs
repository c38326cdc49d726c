//! Parts that an embedding program implements: models, drivers, operators.

use crate::Folder;
use llm_do::{
    Options, Program,
    driver::Driver,
    model::{
        BoxFuture, Capabilities, DeltaSink, FinishReason, Model, ModelError, ModelErrorKind, ModelName,
        ModelRequest, ModelResponse, Models, Part, Usage,
    },
};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// A model whose answer is the number of messages in the request, and the name by which it was opened.
struct Counting(String);

impl Model for Counting {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }
    fn respond<'a>(
        &'a self,
        request: ModelRequest<'a>,
        _: &'a dyn DeltaSink,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        let text = format!("{}: {} message", self.0, request.messages.len());
        Box::pin(async move {
            let usage = Usage { input_tokens: Some(7), ..Usage::default() };
            Ok(ModelResponse {
                parts: vec![Part::text(text)],
                finish: FinishReason::Stop,
                usage,
                unknown_finish: None,
            })
        })
    }
}

#[tokio::test]
async fn a_provider_of_its_own_opens_models_by_name() {
    let folder = Folder::of("model: house:small");
    let open = |name: &ModelName| -> Result<Arc<dyn Model>, ModelError> {
        match name.model() {
            "small" | "large" => Ok(Arc::new(Counting(name.model().to_owned()))),
            other => Err(ModelError::new(ModelErrorKind::NotFound, format!("the house has no `{other}`"))),
        }
    };
    let builder = Program::builder(folder.program()).home(folder.path().join("home")).temporary_journals();
    let worker = builder.provider("house", open).open().unwrap().entry().unwrap();
    let completed = worker.call("x").result().await.unwrap();
    assert_eq!((completed.output, completed.usage.input_tokens), ("small: 1 message".into(), Some(7)));
    let large = worker.call("x").options(Options::new().model("house:large"));
    assert_eq!(large.await.unwrap(), "large: 1 message");
    let huge = worker.call("x").options(Options::new().model("house:huge")).await.err().unwrap().to_string();
    assert!(huge.contains("the house has no `huge`"), "{huge}");
}

struct House;

impl Models for House {
    fn open(&self, name: &ModelName) -> Result<Arc<dyn Model>, ModelError> {
        Ok(Arc::new(Counting(name.as_str().to_owned())))
    }
}

#[tokio::test]
async fn models_of_its_own_take_the_place_of_all_providers() {
    let folder = Folder::of("model: anthropic:claude-haiku-4-5");
    let builder = Program::builder(folder.program()).home(folder.path().join("home")).temporary_journals();
    let worker = builder.models(House).open().unwrap().entry().unwrap();
    assert_eq!(worker.call("x").await.unwrap(), "anthropic:claude-haiku-4-5: 1 message");
}

#[tokio::test]
async fn a_driver_is_made_of_the_one_that_keeps_the_journal() {
    let folder = Folder::of("");
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let options = Options::new().driver(move |local| {
        count.fetch_add(1, Ordering::Relaxed);
        local as Arc<dyn Driver>
    });
    let program =
        folder.builder("answers: [{text: hi}]").temporary_journals().options(options).open().unwrap();
    let worker = program.entry().unwrap();
    for _ in 0..2 {
        assert_eq!(worker.call("x").await.unwrap(), "hi");
    }
    assert_eq!(made.load(Ordering::Relaxed), 2);
}
