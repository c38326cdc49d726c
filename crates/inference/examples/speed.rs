//! Measures a local model: `cargo run --release -p llm-do-inference --example speed -- FILE.gguf`.
#![allow(clippy::print_stdout)]

use llm_do_core::{
    call_path::CallPath,
    model::{
        Delta, DeltaSink, Message, MessageId, Model, ModelName, ModelRequest, ModelSettings, Part, Role,
    },
};
use llm_do_inference::LocalModel;
use serde_json::{Value, json};
use std::{
    error::Error,
    fs,
    sync::{Arc, OnceLock},
    time::Instant,
};

/// Notes when the first piece of an answer came.
#[derive(Default)]
struct FirstDelta(OnceLock<Instant>);

impl DeltaSink for FirstDelta {
    fn delta(&self, _: Delta) {
        let _ = self.0.set(Instant::now());
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    llm_do_sandbox::confine::install();
    llm_do_inference::install();
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(measure_all())
}

async fn measure_all() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: speed FILE.gguf")?;
    let start = Instant::now();
    let model = LocalModel::open(&path, Arc::default())?;
    model.load().await?;
    println!("load            {:8.3} s", start.elapsed().as_secs_f64());

    let text = "The quick brown fox jumps over the lazy dog while seven wizards brew tea in the old tower. "
        .repeat(24);
    measure(&model, "warm-up", "Hello.", None, 8).await?;
    measure(&model, "free text", &format!("{text}\nRetell this at length."), None, 128).await?;
    let schema = json!({
        "type": "object",
        "properties": {
            "people": {"type": "array", "minItems": 8, "maxItems": 8, "items": {
                "type": "object",
                "properties": {"name": {"type": "string", "maxLength": 40}, "age": {"type": "integer", "minimum": 1, "maximum": 99}},
                "required": ["name", "age"], "additionalProperties": false
            }}
        },
        "required": ["people"], "additionalProperties": false
    });
    measure(&model, "by schema", &format!("Eight people. {text}"), Some(schema), 128).await?;

    println!("peak memory     {}", peak_of_child().as_deref().unwrap_or("unknown here"));
    Ok(())
}

/// Returns the most memory that the process of the model has had.
fn peak_of_child() -> Option<String> {
    let statuses = fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| {
        let command = fs::read(entry.path().join("cmdline")).ok()?;
        let is_model = command.split(|byte| *byte == 0).nth(1) == Some(b"llm-do-model");
        is_model.then(|| fs::read_to_string(entry.path().join("status")).ok())?
    });
    // The newest is that of this program.
    let status = statuses.last()?;
    Some(status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().to_owned())
}

async fn measure(
    model: &LocalModel,
    what: &str,
    prompt: &str,
    output: Option<Value>,
    max_tokens: u32,
) -> Result<(), Box<dyn Error>> {
    let (path, system, tools, name) =
        (CallPath::root(), Arc::from(""), Arc::from([]), "local:speed".parse::<ModelName>()?);
    let messages = [Arc::new(Message {
        id: MessageId(0),
        parent: None,
        role: Role::User,
        parts: vec![Part::text(prompt)],
    })];
    let settings =
        ModelSettings { max_tokens: Some(max_tokens), temperature: Some(0.0), ..ModelSettings::default() };
    let output = output.map(Arc::new);
    let request = ModelRequest {
        conversation: &path,
        run: "speed",
        worker: "speed",
        purpose: Default::default(),
        turn: 0,
        model: &name,
        system: &system,
        messages: &messages,
        tools: &tools,
        server_tools: &Arc::from([]),
        settings: &settings,
        output: output.as_ref(),
    };
    let (start, first) = (Instant::now(), FirstDelta::default());
    let response = model.respond(request, &first).await?;
    let (end, first) = (Instant::now(), first.0.get().copied().ok_or("no answer")?);
    #[allow(clippy::cast_precision_loss)]
    let (fed, made) = (
        (response.usage.input_tokens.unwrap_or(0) - response.usage.cached_tokens.unwrap_or(0)) as f64,
        response.usage.output_tokens.unwrap_or(0) as f64,
    );
    println!(
        "{what:<15} prefill {fed:4} tokens, {:6.1} tokens/s; decode {made:4} tokens, {:6.1} tokens/s; {:?}",
        fed / (first - start).as_secs_f64(),
        (made - 1.0) / (end - first).as_secs_f64(),
        response.finish
    );
    if std::env::var_os("SHOW").is_some() {
        println!("{:?}", response.parts);
    }
    Ok(())
}
