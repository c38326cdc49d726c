//! A worker whose output is a Rust type. The type is compared with the worker's `returns` before the first call.
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use llm_do::{Program, schemars::JsonSchema};
use serde::Deserialize;
use std::{error::Error, fs};

const WORKER: &str = "---
description: Extracts an invoice.
returns:
  number: string
  total: number
  lines: array<string>
---
Extract the invoice.
";

/// A script that answers in place of a model, so that the example needs no key.
const SCRIPT: &str = "
answers:
  - json: {number: '17', total: 614.5, lines: [Paper, Ink]}
";

#[derive(Debug, Deserialize, JsonSchema)]
struct Invoice {
    number: String,
    total: f64,
    lines: Vec<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Order {
    /// The worker returns no customer.
    #[allow(dead_code)]
    customer: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("main.worker"), WORKER)?;
    let program = Program::builder(folder.path()).script(SCRIPT).temporary_journals().open()?;

    let extractor = program.entry()?.returns::<Invoice>()?;
    let invoice = extractor.call("INVOICE 17: paper, ink. Total 614.50").await?;
    println!("invoice {}: {} for {}", invoice.number, invoice.total, invoice.lines.join(" and "));

    // A type that can't hold the outputs is an error at once, and costs nothing.
    if let Err(problem) = program.entry()?.returns::<Order>() {
        println!("{}", problem.to_string().lines().next().unwrap_or_default());
    }
    Ok(())
}
