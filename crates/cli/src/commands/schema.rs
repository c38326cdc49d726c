//! `llm-do schema`: prints the JSON Schemas of the file formats and of events.

use crate::{args::SchemaOf, program::home, render::Output};
use llm_do::{core::event, program::json_schema, toolset_kinds};

/// Prints a schema, always indented, because users save it to a file.
pub(crate) fn run(what: SchemaOf, output: &Output) {
    let toolsets = toolset_kinds(&home());
    let schema = match what {
        SchemaOf::Worker => json_schema::worker(&toolsets),
        SchemaOf::Project => json_schema::manifest(&toolsets),
        SchemaOf::Lib => json_schema::library(&toolsets),
        SchemaOf::Cases => json_schema::cases(&toolsets),
        SchemaOf::Events => event::json_schema(),
        SchemaOf::Serve => llm_do_serve::settings_schema(),
        SchemaOf::Budgets => json_schema::budgets(),
    };
    output.print(&format!("{schema:#}\n"));
}
