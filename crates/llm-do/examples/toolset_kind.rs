//! A kind of toolset: a family of tools with a configuration in worker files.
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use llm_do::{
    Program, Tool,
    schemars::JsonSchema,
    serde_json::{Value, json},
    toolset::{BoxFuture, Function, Risk, Schema, ToolsetContext, ToolsetKind, ToolsetRuntime},
};
use serde::Deserialize;
use std::{error::Error, fs};

const WORKER: &str = "---
toolsets:
  calendar:
    holidays: ['2026-12-25', '2026-12-26']
---
Answer questions about dates.
";

const SCRIPT: &str = "
answers:
  - when: {turn: 0}
    calls:
      - {tool: is_holiday, arguments: {date: '2026-12-25'}}
      - {tool: is_holiday, arguments: {date: '2026-12-24'}}
  - text: '{{ last }}'
";

/// The toolset `calendar`.
struct Calendar;

#[derive(Deserialize)]
struct Configuration {
    #[serde(default)]
    holidays: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Day {
    /// As YYYY-MM-DD.
    date: String,
}

impl ToolsetKind for Calendar {
    fn name(&self) -> &'static str {
        "calendar"
    }

    fn tools(&self) -> &[&'static str] {
        &["is_holiday"]
    }

    fn risk(&self, _tool: &str) -> Option<Risk> {
        Some(Risk::Read)
    }

    /// The schema of the configuration in a worker file. A violation is an error with its place in the file.
    fn configuration(&self) -> Schema {
        Schema::of_keys(json!({"holidays": {"type": "array", "items": {"type": "string"}}}))
    }
}

impl ToolsetRuntime for Calendar {
    fn build<'a>(
        &'a self,
        configuration: &'a Value,
        context: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Result<Vec<Function>, String>> {
        Box::pin(async move {
            let Configuration { holidays } =
                Deserialize::deserialize(configuration).map_err(|error| error.to_string())?;
            let is_holiday = Tool::new("is_holiday", "Whether a day is a holiday.", move |day: Day| {
                let is_holiday = holidays.contains(&day.date);
                async move { Ok::<_, String>(is_holiday) }
            });
            Ok(vec![is_holiday.reads().function(self.name(), context)])
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("main.worker"), WORKER)?;
    let open = || Program::builder(folder.path()).toolset_kind(Calendar).script(SCRIPT).temporary_journals();
    let worker = open().open()?.entry()?.returns::<String>()?;
    println!("{}", worker.call("Are these holidays?").await?);

    // A wrong configuration is found by `check`, and when the program is opened.
    fs::write(folder.path().join("main.worker"), WORKER.replace("holidays:", "hollidays:"))?;
    for finding in open().check()? {
        println!("{}: {}", finding.code, finding.message);
    }
    Ok(())
}
