//! `llm-do schema`: the published JSON Schemas (SPEC §3).

use crate::{args::SchemaOf, render::Output};
use llm_do::{core::event, program::json_schema, toolset_kinds};

/// Prints one, indented whoever reads it: it becomes a file.
pub(crate) fn run(what: SchemaOf, output: &Output) {
    let toolsets = toolset_kinds();
    let schema = match what {
        SchemaOf::Worker => json_schema::worker(&toolsets),
        SchemaOf::Project => json_schema::manifest(&toolsets),
        SchemaOf::Lib => json_schema::library(),
        SchemaOf::Events => event::json_schema(),
    };
    output.print(&format!("{schema:#}\n"));
}
