//! Tests in which the process of a model ends or hangs while it works.

use super::*;
use crate::tiny_model::Gguf;
use llm_do_core::{
    call_path::CallPath,
    model::{Delta, Message, MessageId, Role},
};
use llm_do_sandbox::confine;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;

struct Nobody;

impl DeltaSink for Nobody {
    fn delta(&self, _: Delta) {}
}

fn model(bytes: &[u8], patience: Duration) -> (tempfile::TempDir, LocalModel) {
    let tests = std::env::current_exe().unwrap();
    confine::install_binary(tests.parent().unwrap().with_file_name("examples").join("model_process"));
    // Not below /tmp, which is another folder in a confined process.
    let folder = tempfile::tempdir_in(tests.parent().unwrap()).unwrap();
    let path = folder.path().join("x.gguf");
    fs::write(&path, bytes).unwrap();
    let model = LocalModel { patience, ..LocalModel::open(path, Arc::default()).unwrap() };
    (folder, model)
}

async fn ask(model: &LocalModel, max_tokens: u32) -> Result<ModelResponse, ModelError> {
    let (path, name) = (CallPath::root(), "local:test".parse().unwrap());
    let message = Message {
        id: MessageId(0),
        parent: None,
        role: Role::User,
        parts: vec![Part::text("Say something.")],
    };
    let settings = ModelSettings { max_tokens: Some(max_tokens), ..ModelSettings::default() };
    let request = ModelRequest {
        conversation: &path,
        run: "test",
        worker: "test",
        purpose: Default::default(),
        turn: 0,
        model: &name,
        system: &Arc::from(""),
        messages: &[Arc::new(message)],
        tools: &Arc::from([]),
        server_tools: &Arc::from([]),
        settings: &settings,
        output: None,
    };
    model.respond(request, &Nobody).await
}

/// Sends a signal to the process that has this file in its arguments.
fn signal(model: &LocalModel, signal: Signal) {
    let file = model.path.canonicalize().unwrap();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let arguments: Vec<_> = command.split(|byte| *byte == 0).collect();
        if arguments.get(1..3) == Some(&[b"llm-do-model".as_slice(), file.as_os_str().as_encoded_bytes()]) {
            let pid = entry.file_name().to_str().unwrap().parse().unwrap();
            kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
            return;
        }
    }
    panic!("the process of {} is not there", file.display());
}

#[tokio::test]
async fn a_file_that_aborts_the_library_is_an_error_that_names_it() {
    let (_folder, model) = model(&Gguf::that_aborts().bytes(), PATIENCE);
    let error = model.load().await.unwrap_err();
    let said = error.to_string();
    assert!(matches!(error, LoadError::Unusable { .. }), "{said}");
    assert!(said.contains("x.gguf") && said.contains("aborted"), "{said}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_process_that_is_killed_is_an_error_and_the_next_request_starts_another() {
    let (_folder, model) = model(&Gguf::tiny().bytes(), PATIENCE);
    assert_eq!(ask(&model, 4).await.unwrap().usage.output_tokens, Some(4));
    signal(&model, Signal::STOP);
    let (answer, ()) = tokio::join!(ask(&model, 4), async { signal(&model, Signal::KILL) });
    let error = answer.unwrap_err();
    assert!(error.message.contains("x.gguf") && error.message.contains("killed"), "{error}");
    assert!(!error.is_transient());
    assert_eq!(ask(&model, 4).await.unwrap().usage.output_tokens, Some(4));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_process_that_hangs_is_ended_and_told() {
    let (_folder, model) = model(&Gguf::tiny().bytes(), Duration::from_secs(5));
    assert_eq!(ask(&model, 4).await.unwrap().usage.output_tokens, Some(4));
    signal(&model, Signal::STOP);
    let error = ask(&model, 4).await.unwrap_err();
    assert!(
        error.message.contains("x.gguf") && error.message.contains("made no progress for 5 s"),
        "{error}"
    );
    assert_eq!(ask(&model, 4).await.unwrap().usage.output_tokens, Some(4));
}
