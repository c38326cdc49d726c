//! The whole machine over the transcript of the other loops: worker file, gate, schema validation, streaming, and a
//! journal on the disk for every run.

use std::path::Path;
use std::sync::Arc;

use llm_do::core::engine::End;
use llm_do::core::function::{
    Body, Function, FunctionMeta, FunctionSource, Leaf, LeafCall, Risk, ToolError, ToolOutput,
};
use llm_do::core::gate::Policy;
use llm_do::core::schema::Schema;
use llm_do::core::send::BoxFuture;
use llm_do::core::toolset::{ToolsetContext, ToolsetKind, ToolsetRegistry};
use llm_do::{Input, Session, Settings};
use llm_do_bench::{Failure, MODEL, Meter, Options, RESULT, SYSTEM, USER, options, print, tool};
use serde_json::{Value, json};

/// A toolset with one tool, which costs nothing but its way through the machine.
struct Lookup {
    input: Arc<Schema>,
}

struct Constant;

impl ToolsetKind for Lookup {
    fn name(&self) -> &'static str {
        "lookup"
    }

    fn configuration(&self) -> Schema {
        Schema::built_in(json!({"type": "object", "additionalProperties": false}))
    }

    fn build<'a>(
        &'a self,
        _: &'a Value,
        context: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Result<Vec<Function>, String>> {
        let (name, description, _) = tool();
        let made = vec![Function {
            meta: FunctionMeta {
                source: FunctionSource::Toolset(self.name().into()),
                name: name.into(),
                tool_name: name.into(),
                aliases: &[],
                description: description.into(),
                input: Arc::clone(&self.input),
                output: None,
                risk: Risk::Read,
                parallel: false,
                timeout: None,
                contained: false,
                wildcard: false,
                policy: context.policy.as_ref().map(Arc::<Policy>::clone),
            },
            body: Body::Leaf(Arc::new(Constant)),
            rule: None,
        }];
        Box::pin(async { Ok(made) })
    }
}

impl Leaf for Constant {
    fn run<'a>(&'a self, _: LeafCall<'a>) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async { Ok(ToolOutput::text(RESULT)) })
    }
}

fn main() -> Result<(), Failure> {
    let options = options()?;
    let place = match &options.dir {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir()?,
    };
    let most = options.turns + 1;
    let worker = format!(
        "---\nmodel: openai:{MODEL}\ntoolsets:\n  lookup: {{}}\nlimits:\n  max_turns: {most}\n  max_tool_calls: {most}\n---\n{SYSTEM}\n"
    );
    std::fs::write(place.path().join("main.worker"), worker)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let meter = Meter::start();
    let runs_dir = runtime.block_on(async {
        let session = Arc::new(session(place.path(), &options)?);
        let loops: Vec<_> = (0..options.concurrency)
            .map(|_| tokio::spawn(run(Arc::clone(&session), options.clone())))
            .collect();
        for each in loops {
            each.await??;
        }
        Ok::<_, Failure>(session.runs_dir().to_owned())
    })?;
    let mut figures = meter.stop("llm_do_loop", &options);
    let turns = options.concurrency * options.repeat * most;
    figures["journal_bytes_per_turn"] = json!((bytes_below(&runs_dir)? as f64 / turns as f64).round());
    if options.dir.is_some() {
        // Whoever named the folder clears it: making files is slow where thousands were removed a moment ago.
        let _ = place.keep();
    }
    print(&figures)
}

fn session(place: &Path, options: &Options) -> Result<Session, Failure> {
    let base = format!("{}/v1", options.url);
    let (_, _, schema) = tool();
    let mut toolsets = ToolsetRegistry::built_in();
    toolsets.register(Arc::new(Lookup { input: Arc::new(Schema::new(schema)?) }));
    let settings = Settings {
        toolsets,
        home: place.join("home"),
        environment: Arc::new(move |name| match name {
            "OPENAI_BASE_URL" => Some(base.clone()),
            "OPENAI_API_KEY" => Some("none".into()),
            _ => None,
        }),
        ..Settings::for_target(&place.join("main.worker").to_string_lossy())
    };
    Ok(Session::open(settings)?)
}

async fn run(session: Arc<Session>, options: Options) -> Result<(), Failure> {
    let input = Input { message: Some(USER.into()), ..Input::default() };
    for _ in 0..options.repeat {
        let report = session.start(&input, None, None)?.finish().await;
        let turns = report.counts.requests as usize;
        match report.end {
            End::Done(_) if report.halt.is_none() && turns == options.turns + 1 => {}
            end => return Err(format!("after {turns} turns: {end:?}, {:?}", report.halt).into()),
        }
    }
    Ok(())
}

fn bytes_below(dir: &Path) -> Result<u64, Failure> {
    let mut sum = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        sum += if metadata.is_dir() { bytes_below(&entry.path())? } else { metadata.len() };
    }
    Ok(sum)
}
