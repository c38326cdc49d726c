//! Measures parallel children and a caller's turn after its callee's: `bench/conversations FILE.gguf`.
#![allow(clippy::print_stdout)]

use llm_do_core::{
    call_path::CallPath,
    model::{
        Delta, DeltaSink, Message, MessageId, Model, ModelName, ModelRequest, ModelResponse, ModelSettings,
        Part, Role,
    },
};
use llm_do_inference::LocalModel;
use std::{error::Error, fs, sync::Arc, time::Instant};

struct Nobody;

impl DeltaSink for Nobody {
    fn delta(&self, _: Delta) {}
}

/// Children that are asked at once or one after the other.
const CHILDREN: usize = 4;
/// Tokens of each answer.
const ANSWER: u32 = 64;

fn main() -> Result<(), Box<dyn Error>> {
    llm_do_sandbox::confine::install();
    llm_do_inference::install();
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(measure())
}

async fn measure() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: conversations FILE.gguf")?;
    let open = async || {
        let model = LocalModel::open(&path, Arc::default())?;
        model.load().await?;
        Ok::<_, Box<dyn Error>>(model)
    };
    let system = "You answer questions about rivers, and give the reasons for your answer. ".repeat(24);
    let questions: Vec<String> = (0..CHILDREN)
        .map(|number| format!("Tell me all about the river with the number {number}."))
        .collect();

    let model = open().await?;
    let start = Instant::now();
    for question in &questions {
        ask(&model, &system, &[question]).await?;
    }
    report("one by one", start, &model);

    let model = open().await?;
    let start = Instant::now();
    let [a, b, c, d] = [0, 1, 2, 3].map(|index| [questions[index].as_str()]);
    let answers = tokio::join!(
        ask(&model, &system, &a),
        ask(&model, &system, &b),
        ask(&model, &system, &c),
        ask(&model, &system, &d)
    );
    let (_, _, _, _) = (answers.0?, answers.1?, answers.2?, answers.3?);
    report("at once", start, &model);

    let model = open().await?;
    let planner = "You plan the work of others, step by step, and wait for what they find. ".repeat(24);
    let first = ask(&model, &planner, &["Plan a journey."]).await?;
    ask(&model, &system, &[questions[0].as_str()]).await?;
    let said: String = first.parts.iter().filter_map(Part::as_text).collect();
    let before = model.evaluated_tokens();
    let start = Instant::now();
    let second = ask(&model, &planner, &["Plan a journey.", &said, "The river is the Nile."]).await?;
    report("caller again", start, &model);
    println!(
        "{:<13} prompt {} tokens, held {}, evaluated {}",
        "",
        second.usage.input_tokens.unwrap_or(0),
        second.usage.cached_tokens.unwrap_or(0),
        model.evaluated_tokens() - before
    );
    Ok(())
}

fn report(what: &str, start: Instant, model: &LocalModel) {
    let seconds = start.elapsed().as_secs_f64();
    let processor = processor_seconds().unwrap_or_default();
    let evaluated = model.evaluated_tokens();
    println!(
        "{what:<13} {seconds:7.3} s; since the start of the process {processor:7.2} s CPU, {evaluated} tokens"
    );
}

/// Returns the processor time of the newest process of a model, which is that of this program.
fn processor_seconds() -> Option<f64> {
    let stats = fs::read_dir("/proc").ok()?.flatten().filter_map(|entry| {
        let command = fs::read(entry.path().join("cmdline")).ok()?;
        let is_model = command.split(|byte| *byte == 0).nth(1) == Some(b"llm-do-model");
        is_model.then(|| fs::read_to_string(entry.path().join("stat")).ok())?
    });
    // The second field is the program's name in brackets and may hold anything.
    let stat = stats.last()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks = fields.next()?.parse::<u32>().ok()? + fields.next()?.parse::<u32>().ok()?;
    // Linux shows user programs hundredths of a second, whatever its own clock.
    Some(f64::from(ticks) / 100.0)
}

/// Asks with messages of user and model in turn.
async fn ask(model: &LocalModel, system: &str, messages: &[&str]) -> Result<ModelResponse, Box<dyn Error>> {
    let (path, name) = (CallPath::root(), "local:bench".parse::<ModelName>()?);
    let messages: Vec<Arc<Message>> = (0..)
        .zip(messages)
        .map(|(id, text)| {
            let role = if id % 2 == 0 { Role::User } else { Role::Assistant };
            Arc::new(Message { id: MessageId(id), parent: None, role, parts: vec![Part::text(*text)] })
        })
        .collect();
    let settings =
        ModelSettings { max_tokens: Some(ANSWER), temperature: Some(0.0), ..ModelSettings::default() };
    let request = ModelRequest {
        conversation: &path,
        run: "bench",
        worker: "bench",
        purpose: Default::default(),
        turn: 0,
        model: &name,
        system: &Arc::from(system),
        messages: &messages,
        tools: &Arc::from([]),
        server_tools: &Arc::from([]),
        settings: &settings,
        output: None,
    };
    Ok(model.respond(request, &Nobody).await?)
}
