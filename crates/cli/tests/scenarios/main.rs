//! Scenarios: a project of literal files, the real binary, and its output, files and exit code.

mod approval_prompts;
#[cfg(target_os = "linux")]
mod atomic_changes;
mod budget;
mod chat;
mod check;
mod conditions;
mod faults;
mod gate_explain;
mod grants;
mod guide_untrusted_content;
mod harden;
mod init;
mod inputs;
mod libraries;
mod list_and_show;
#[cfg(feature = "local")]
mod local_models;
mod mcp;
mod migrate;
mod operator_channel;
mod origins;
mod python;
mod readme_commands;
mod recorded_examples;
mod replay;
mod resume;
mod resume_after_kill;
mod run_output;
mod runs_command;
mod scenario;
mod schema;
mod secrets;
mod server_side_tools;
mod shell;
mod terminal_session;
mod tool_rules;
mod untrusted_content;
mod wire_formats;
