//! Answers one request of the wasm test natively: `run.mjs` compares the report with the one of the module.

use std::io::{self, Read, Write};

fn main() -> io::Result<()> {
    let mut request = String::new();
    io::stdin().read_to_string(&mut request)?;
    io::stdout().write_all(llm_do_wasm_test::answer(&request).as_bytes())
}
