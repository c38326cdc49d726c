//! The model server of the benchmarks: K tool turns, then a text, at little cost of its own.
//!
//! `llm-do-testserver [--turns K] [--tool NAME] [--arguments JSON] [--final TEXT] [--threads N] [--delay MS]
//! [--faults PER_MILLE] [--limit PER_SECOND]`
//!
//! Prints its URL and serves until its standard input ends (so not with `</dev/null`). In the arguments `{turn}`
//! becomes the turn's number, so that no two calls are the same. Each answer waits for the delay, so that many clients
//! can be held at once. So many of a thousand answers fail, in the ways of `Fault`. More requests a second than the
//! limit are refused. `GET /stats` returns the counts of `FixedServer`.

use std::error::Error;
use std::io::{Read, Write};
use std::time::Duration;

use llm_do_testserver::{Faults, FixedServer, Reply, net};

struct Options {
    turns: usize,
    tool: String,
    arguments: String,
    text: String,
    threads: usize,
    delay: u64,
    faults: u16,
    limit: Option<f64>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    let call = |turn: usize| {
        Reply::empty().and_raw_tool(&options.tool, &options.arguments.replace("{turn}", &turn.to_string()))
    };
    let replies: Vec<_> = (0..options.turns).map(call).chain([Reply::text(&options.text)]).collect();
    let server = FixedServer::new(&replies)
        .delay(Duration::from_millis(options.delay))
        .faults(Faults::per_mille(options.faults));
    let server = match options.limit {
        Some(limit) => server.limit(limit),
        None => server,
    };

    let mut runtime = match options.threads {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = runtime.worker_threads(options.threads).enable_all().build()?;
    let listener = {
        let _context = runtime.enter();
        net::listen()?
    };
    writeln!(std::io::stdout(), "http://{}", listener.local_addr()?)?;
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    runtime.block_on(server.serve(listener));
    Ok(())
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options {
        turns: 10,
        tool: "read_file".into(),
        arguments: r#"{"path":"input/{turn}.txt"}"#.into(),
        text: "All of it is read.".into(),
        threads: 1,
        delay: 0,
        faults: 0,
        limit: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} wants a value"))?;
        match word.as_str() {
            "--turns" => options.turns = value.parse()?,
            "--tool" => options.tool = value,
            "--arguments" => options.arguments = value,
            "--final" => options.text = value,
            "--threads" => options.threads = value.parse()?,
            "--delay" => options.delay = value.parse()?,
            "--limit" => options.limit = Some(value.parse()?),
            "--faults" => options.faults = value.parse()?,
            _ => return Err(format!("unknown option {word}").into()),
        }
    }
    Ok(options)
}
