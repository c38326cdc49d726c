//! Measures the time of a tool's call in its confined host: a tool in Python, or in TypeScript. Prints JSON on stdout.
//!
//! `python_calls [--calls N] [--bytes N] [--starts N] [--language python|typescript]`: starts hosts like a run, and the
//! bare interpreter, each confined and not; then calls `echo(text)` N times with a text of that many bytes. `LLM_DO_NODE`
//! names the Node.

use llm_do::{
    PythonFor, RunOptions, Session, Settings,
    confine::{self, Confinement, Process, ProcessView},
    core::{
        authority::{Authority, Network},
        function::{Function, Implementation, LeafCall},
        shared::Results,
        toolset::{ToolsetContext, ToolsetRegistry, ToolsetRuntime},
        vfs::FileSystem,
        worker::{Definitions, Language},
    },
    program::target::{Request, Surroundings},
    python_tools::{Custom, Interpreter},
};
use llm_do_bench::{Failure, print};
use serde_json::{Value, json};
use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::process::Command;

const TOOLS: &str = r#"
from pathlib import Path

def echo(text: str) -> str:
    """Gives the text back."""
    return text

async def later(text: str) -> str:
    """Gives the text back from a coroutine."""
    return text

def size(path: Path) -> int:
    """Size of a file."""
    return path.stat().st_size
"#;

const SCRIPT: &str = "
/** Gives the text back.
 * @param {string} text */
export const echo = (text: string): string => text;

/** Gives the text back from a promise.
 * @param {string} text */
export const later = async (text: string): Promise<string> => text;
";

fn main() -> Result<(), Failure> {
    confine::install();
    let mut calls = 1000;
    let mut bytes = 1024;
    let mut starts = 10;
    let mut language = Language::Python;
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        let value = arguments.next().ok_or("a flag without its value")?;
        if flag == "--language" {
            language = match value.as_str() {
                "python" => Language::Python,
                "typescript" => Language::Script,
                other => return Err(format!("no language `{other}`").into()),
            };
            continue;
        }
        let number = value.parse()?;
        match flag.as_str() {
            "--calls" => calls = number,
            "--bytes" => bytes = number,
            "--starts" => starts = number,
            other => return Err(format!("no flag `{other}`").into()),
        }
    }
    let place = tempfile::tempdir()?;
    match language {
        Language::Python => std::fs::write(place.path().join("tools.py"), TOOLS)?,
        Language::Script => std::fs::write(place.path().join("tools.ts"), SCRIPT)?,
    }
    std::fs::write(place.path().join("main.worker"), "---\n---\nYou call tools.\n")?;
    std::fs::write(place.path().join("none.yaml"), "answers:\n  - text: done\n")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    print(&runtime.block_on(measure(place.path(), language, calls, bytes, starts))?)
}

async fn measure(
    place: &Path,
    language: Language,
    calls: usize,
    bytes: usize,
    starts: usize,
) -> Result<Value, Failure> {
    let settings = || Settings {
        request: Request {
            positionals: vec![place.display().to_string(), String::new()],
            ..Request::default()
        },
        around: Surroundings { here: place.to_owned(), ..Surroundings::default() },
        home: place.join("home"),
        run: RunOptions {
            model: format!("script:{}", place.join("none.yaml").display()).parse().ok(),
            ..RunOptions::default()
        },
        ..Settings::for_target(".")
    };
    // The first finds out what there is to know of the interpreter and the tools, the second remembers.
    let found_out = Instant::now();
    Session::open(settings())?;
    let found_out = found_out.elapsed();
    let opened = Instant::now();
    let session = Session::open(settings())?;
    let opened = opened.elapsed();

    let authority = session.program().authority(&[], Network::Off, &[]);
    let project = llm_do::place_of(place)?;
    let environment: llm_do::Environment = Arc::new(|name| std::env::var(name).ok());
    let python_for = PythonFor {
        project: &project,
        home: &place.join("home"),
        environment: &environment,
        confiner: Arc::default(),
        only_looks: false,
    };
    let interpreter = python_for.python().interpreter(language).await?;
    let definitions = Arc::clone(session.program()) as Arc<dyn Definitions>;
    let mut first = Vec::new();
    let mut bare = Vec::new();
    let mut confined = Vec::new();
    let text = json!({"text": "x".repeat(bytes)});
    let run: Arc<str> = "bench".into();
    let kinds = ToolsetRegistry::built_in();
    let context = ToolsetContext {
        run: &run,
        worker: session.entry(),
        authority: &authority,
        definitions: &definitions,
        kinds: &kinds,
        policy: None,
        client_tools: &[],
        listing: None,
    };
    let configuration = json!({});
    let caller = Caller { authority: &authority, files: session.files(), results: Results::default() };
    let mut functions = Vec::new();
    for _ in 0..starts.max(1) {
        let began = Instant::now();
        Command::new(&interpreter.path).args(nothing(language)).status().await?;
        bare.push(millis(began.elapsed()));
        let began = Instant::now();
        just_interpreter(&interpreter).await?;
        confined.push(millis(began.elapsed()));
        let began = Instant::now();
        // A new pool: nothing is warm.
        functions = Custom::new(python_for.python()).build(&configuration, &context).await?;
        caller.call(&functions, "echo", &text).await?;
        first.push(millis(began.elapsed()));
    }
    let warm = caller.many(&functions, "echo", &text, calls).await?;
    let warm_async = caller.many(&functions, "later", &text, calls).await?;
    Ok(json!({
        "language": language.name(),
        "version": interpreter.version,
        "tier": confine::probe().tier,
        "calls": calls,
        "bytes": bytes,
        "found_out_ms": millis(found_out),
        "opened_ms": millis(opened),
        "bare_ms": bare,
        "confined_bare_ms": confined,
        "first_ms": first,
        "call_us": warm,
        "async_call_us": warm_async,
        "host_kib": resident(&interpreter.path),
    }))
}

/// The arguments with which an interpreter does nothing.
fn nothing(language: Language) -> &'static [&'static str] {
    match language {
        Language::Python => &["-I", "-c", "pass"],
        Language::Script => &["-e", "0"],
    }
}

/// Returns the resident memory of the hosts that this interpreter runs, in KiB.
fn resident(interpreter: &Path) -> Vec<u64> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let real = interpreter.canonicalize().unwrap_or_else(|_| interpreter.to_owned());
    let hosts = processes.filter(|process| {
        let own = std::fs::read(process.join("cmdline")).unwrap_or_default();
        std::fs::read_link(process.join("exe")).is_ok_and(|exe| exe == real)
            && String::from_utf8_lossy(&own).contains("/host.")
    });
    let status = hosts.filter_map(|process| std::fs::read_to_string(process.join("status")).ok());
    let memory = status.filter_map(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().trim_end_matches(" kB").trim().parse().ok()
    });
    memory.collect()
}

/// Starts the interpreter alone, confined like a host.
async fn just_interpreter(interpreter: &Interpreter) -> Result<(), Failure> {
    let tier = confine::probe().tier.ok_or("nothing confines here")?;
    let view = ProcessView::empty().with_readable(interpreter.places.iter().cloned());
    let mut process = Process::new(&interpreter.path, view, Confinement::Tier(tier));
    process.args = nothing(interpreter.language).iter().map(Into::into).collect();
    let exit = process.start().await?.wait().await;
    if exit.code == Some(0) {
        Ok(())
    } else {
        Err(format!("{} ended with {exit:?}", interpreter.language.name()).into())
    }
}

struct Caller<'a> {
    authority: &'a Authority,
    files: &'a dyn FileSystem,
    results: Results<'a>,
}

impl Caller<'_> {
    async fn call(&self, functions: &[Function], name: &str, input: &Value) -> Result<Duration, Failure> {
        let function = functions.iter().find(|f| &*f.meta.name == name).ok_or("no such tool")?;
        let Implementation::Leaf(leaf) = &function.body else { return Err("no leaf".into()) };
        let began = Instant::now();
        let _turn = leaf.turn().await;
        let output = leaf
            .run(LeafCall {
                redact: &llm_do::core::redact::NoSecrets,
                run: "run",
                input,
                places: &[],
                authority: self.authority,
                files: self.files,
                results: self.results,
                untrusted: &llm_do::core::origin::UntrustedSet::default(),
                idempotency_key: "bench:0",
            })
            .await?;
        let took = began.elapsed();
        if output.value != input["text"] {
            return Err(format!("`{name}` gave {}", output.value).into());
        }
        Ok(took)
    }

    /// Microseconds of each call.
    async fn many(
        &self,
        functions: &[Function],
        name: &str,
        input: &Value,
        count: usize,
    ) -> Result<Vec<f64>, Failure> {
        self.call(functions, name, input).await?;
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            times.push(self.call(functions, name, input).await?.as_secs_f64() * 1e6);
        }
        Ok(times)
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
