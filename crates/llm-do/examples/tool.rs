//! Async functions as tools: with the attribute, and as a closure that holds state.
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use llm_do::{Program, Tool, ToolContext, schemars::JsonSchema};
use serde::{Deserialize, Serialize};
use std::{
    error::Error,
    fs,
    sync::{Arc, Mutex},
};

const WORKER: &str = "---
toolsets: [rust]
---
Answer questions about the shop, and order what the user wants.
";

const SCRIPT: &str = "
answers:
  - when: {turn: 0}
    calls:
      - {tool: price, arguments: {sku: A-1, quantity: 3}}
      - {tool: price, arguments: {sku: B-9}}
      - {tool: order, arguments: {sku: A-1}}
  - text: 'The tools said: {{ last }}'
";

#[derive(Serialize)]
struct Price {
    cents: u64,
}

/// The price of a product.
#[llm_do::tool(reads)]
async fn price(
    /// The product's number.
    sku: String,
    /// How many; one if it is left out.
    quantity: Option<u64>,
) -> Result<Price, String> {
    match sku.as_str() {
        "A-1" => Ok(Price { cents: 1290 * quantity.unwrap_or(1) }),
        _ => Err(format!("there is no product `{sku}`: the only one is A-1")),
    }
}

#[derive(Deserialize, JsonSchema)]
struct Order {
    sku: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("main.worker"), WORKER)?;

    let orders = Arc::new(Mutex::new(Vec::new()));
    let placed = Arc::clone(&orders);
    let order =
        Tool::with_context("order", "Orders a product.", move |context: ToolContext, order: Order| {
            let placed = Arc::clone(&placed);
            async move {
                // The key is the same after a crash and a resume, so that nothing is ordered twice.
                placed.lock().map_err(|_| "the orders are lost")?.push((order.sku, context.idempotency_key));
                Ok::<_, &str>("ordered")
            }
        })
        .writes();

    // `order` changes something: without this rule, each call of it would need an approval.
    let program = Program::builder(folder.path())
        .tool(price::tool())
        .tool(order)
        .options(llm_do::Options::new().allow("order"))
        .script(SCRIPT)
        .temporary_journals()
        .open()?;
    println!("{}", program.entry()?.returns::<String>()?.call("What do three A-1 cost? Order one.").await?);
    println!("orders: {}", orders.lock().map_err(|_| "the orders are lost")?.len());

    // The function is still a function.
    println!("{}", price("A-1".into(), None).await?.cents);
    Ok(())
}
