//! The engine as a native program: one message a line in, the effects of each step out. `run.mjs` compares it with the
//! module.

use llm_do_page::Engine;
use std::io::{self, BufRead as _, Write as _};

fn main() -> io::Result<()> {
    let mut engine = Engine::default();
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        writeln!(out, "{}", engine.step(&line?))?;
        out.flush()?;
    }
    Ok(())
}
