//! The shared parts of the benchmark loops: options, transcript and the printed line.
//!
//! Four programs make the same K tool turns against the same server: `bare_loop` (the exchange and nothing else),
//! `genai_loop` and `genai_mimalloc_loop` ([`alone`]) and `llm_do_loop` (the whole machine). [`soak`] makes runs of the
//! same transcript for minutes, many at once, against a server that fails from time to time.

pub mod alone;
pub mod audit;
pub mod machine;
pub mod soak;

use std::error::Error;
use std::io::Write;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// Any error, able to leave a task.
pub type Failure = Box<dyn Error + Send + Sync>;

/// Name of the model, which the server ignores.
pub const MODEL: &str = "loopback";
/// The system text.
pub const SYSTEM: &str = "You read the files you are asked for, one by one, and say when all are read.";
/// The first message.
pub const USER: &str = "Read all files in input/.";
/// The result of every tool call.
pub const RESULT: &str =
    "Line one of the file, with some words in it.\nLine two of the file, with some more words in it.\n";
/// The last answer, which is the server's own default.
pub const FINAL: &str = "All of it is read.";

/// Name of the only tool.
pub const TOOL: &str = "read_file";
/// Description of the tool.
pub const DESCRIPTION: &str = "Reads a text file.";

/// The schema of its arguments.
pub fn schema() -> Value {
    let path = json!({"type": "string", "description": "The file's path"});
    json!({"type": "object", "properties": {"path": path}, "required": ["path"]})
}

/// The task of a loop: R times K tool turns in each of N parallel loops.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server's root, `http://127.0.0.1:PORT`.
    pub url: String,
    /// K, the number that the server was started with.
    pub turns: usize,
    /// N.
    pub concurrency: usize,
    /// R.
    pub repeat: usize,
    /// True if answers are streamed; only llm-do can be told not to stream.
    pub stream: bool,
    /// Time in which the soak begins new runs, in seconds.
    pub seconds: u64,
    /// The folder for the files that a loop leaves. If absent, they are written to the system's folder for temporary
    /// files and removed.
    pub dir: Option<String>,
}

/// Reads `--url URL [--turns K] [--concurrency N] [--repeat R] [--stream true|false] [--seconds S] [--dir DIR]` from
/// the command line.
pub fn options() -> Result<Options, Failure> {
    let mut options = Options {
        url: String::new(),
        turns: 10,
        concurrency: 1,
        repeat: 1,
        stream: true,
        seconds: 10,
        dir: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} wants a value"))?;
        match word.as_str() {
            "--url" => options.url = value.trim_end_matches('/').to_owned(),
            "--turns" => options.turns = value.parse()?,
            "--concurrency" => options.concurrency = value.parse()?,
            "--repeat" => options.repeat = value.parse()?,
            "--stream" => options.stream = value.parse()?,
            "--seconds" => options.seconds = value.parse()?,
            "--dir" => options.dir = Some(value),
            _ => return Err(format!("unknown option {word}").into()),
        }
    }
    if options.url.is_empty() {
        return Err("--url is missing".into());
    }
    Ok(options)
}

/// Wall and CPU time since the meter was started.
pub struct Meter {
    wall: Instant,
    cpu: Duration,
}

impl Meter {
    /// Starts now.
    pub fn start() -> Self {
        Self { wall: Instant::now(), cpu: cpu() }
    }

    /// Seconds by the clock and of CPU.
    pub(crate) fn elapsed(&self) -> (f64, f64) {
        (self.wall.elapsed().as_secs_f64(), (cpu() - self.cpu).as_secs_f64())
    }

    /// The figures of the loops. A turn is one request with its answer, so K tool turns make K + 1 turns.
    pub fn stop(&self, program: &str, options: &Options) -> Value {
        let (wall, cpu) = self.elapsed();
        let requests = (options.concurrency * options.repeat * (options.turns + 1)) as f64;
        let round = |value: f64| (value * 1e4).round() / 1e4;
        json!({
            "program": program,
            "turns": options.turns,
            "concurrency": options.concurrency,
            "repeat": options.repeat,
            "requests": requests as u64,
            "wall_ms": round(wall * 1e3),
            "wall_ms_per_turn": round(wall * 1e3 / requests),
            "cpu_ms_per_turn": round(cpu * 1e3 / requests),
            "turns_per_second": (requests / wall).round(),
            "peak_rss_kb": peak_rss_kb(),
        })
    }
}

/// Prints one line.
pub fn print(figures: &Value) -> Result<(), Failure> {
    Ok(writeln!(std::io::stdout(), "{figures}")?)
}

/// The CPU time of this process, all threads.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn peak_rss_kb() -> Option<u64> {
    memory_kb("VmHWM:")
}

/// A line of `/proc/self/status` about memory, in KB.
fn memory_kb(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
