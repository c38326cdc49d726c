//! Python functions as tools (docs/guides/python-tools.md): real programs and hosts, faulty and hostile code.

mod agreement;
mod discovery;
mod documentation;
mod domain_lists;
mod effects;
mod ensures;
mod examples;
mod files;
pub(crate) mod fixture;
mod hostile;
mod import_errors;
mod interrupts;
mod nested_calls;
mod packages;
mod results;
mod sharing;
mod tool_failures;
mod variables;
mod walls;
pub(crate) mod without_namespaces;

pub(crate) use fixture::has_python;
