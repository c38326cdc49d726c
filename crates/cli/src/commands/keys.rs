//! `llm-do keys`: stores, lists and removes the keys of providers (docs/guides/models.md).

use crate::{
    args::{Format, KeysCommand},
    exit::{Complaint, Exit},
    program::home,
    render::Output,
    terminal::Terminal,
    visible,
};
use llm_do::{
    BadKeysFile, StoredKeys,
    models::Providers,
    program::{UserConfig, diagnostics::nearest},
    records::SHORTEST_SECRET,
    user_config,
};
use serde_json::json;
use std::{
    env,
    io::{self, IsTerminal as _, Read as _},
};

/// The most bytes that are read as a key.
const LONGEST: u64 = 64 << 10;

/// Runs the command.
pub(crate) fn run(command: &KeysCommand, output: &Output) -> Result<(), Complaint> {
    match command {
        KeysCommand::Set { provider } => set(provider, output),
        KeysCommand::List => list(output),
        KeysCommand::Remove { provider } => remove(provider, output),
    }
}

fn set(provider: &str, output: &Output) -> Result<(), Complaint> {
    let variables = variables(provider)?;
    let Some(variable) = variables.first() else {
        return Err(Complaint::wrong(format!("the provider `{provider}` takes no key")));
    };
    let key = read_key(provider)?;
    StoredKeys::set(&home(), variable, &key).map_err(unusable)?;
    let file = StoredKeys::file(&home());
    if output.format != Format::Text {
        output.print_json(&json!({"provider": provider, "variable": variable, "stored": true, "file": file}));
        return Ok(());
    }
    output.note(&format!("stored the key in {}, which only you can read", file.display()));
    if let Some(set) = variables.iter().find(|variable| is_set(variable)) {
        output
            .warn(&format!("the environment variable {set} is set and takes precedence over the stored key"));
    }
    Ok(())
}

/// Lists the keys, each with its source. The keys themselves are never shown.
fn list(output: &Output) -> Result<(), Complaint> {
    let stored = StoredKeys::read(&home()).map_err(unusable)?;
    let file = StoredKeys::file(&home());
    let providers = Providers::new(|name| env::var(name).ok());
    let mut keys: Vec<(String, String, bool)> = Vec::new();
    for (provider, variable, _) in providers.with_keys() {
        keys.push((provider.to_owned(), variable.to_owned(), true));
    }
    let of_environment: Vec<String> = keys.iter().map(|(_, variable, _)| variable.clone()).collect();
    for variable in stored.variables() {
        let names = names(variable);
        keys.push((names, variable.to_owned(), false));
    }
    if output.format != Format::Text {
        let keys = keys.iter().map(|(provider, variable, environment)| {
            let source = if *environment { "environment" } else { "file" };
            json!({"provider": provider, "variable": variable, "source": source})
        });
        output.print_json(&json!({"file": file, "keys": keys.collect::<Vec<_>>()}));
        return Ok(());
    }
    if keys.is_empty() {
        output.note("there are no keys; `llm-do keys set PROVIDER` stores one");
    }
    for (provider, variable, environment) in &keys {
        let source = match environment {
            true => "environment".to_owned(),
            false if of_environment.contains(variable) => {
                format!("{} (not used: the environment has a key)", file.display())
            }
            false => file.display().to_string(),
        };
        output.print(&visible::line(&format!("{provider:<14}  {variable:<22}  {source}")));
        output.print("\n");
    }
    Ok(())
}

fn remove(provider: &str, output: &Output) -> Result<(), Complaint> {
    let variables = variables(provider)?;
    let names: Vec<&str> = variables.iter().map(String::as_str).collect();
    let removed = StoredKeys::remove(&home(), &names).map_err(unusable)?;
    if removed.is_empty() {
        return Err(Complaint::wrong(format!("no key is stored for `{provider}`"))
            .hint("`llm-do keys list` lists the keys"));
    }
    match output.format {
        Format::Text => output.note(&format!("removed the stored key of {provider}")),
        _ => output.print_json(&json!({"provider": provider, "removed": removed})),
    }
    if let Some(set) = variables.iter().find(|variable| is_set(variable)) {
        output.warn(&format!("the environment variable {set} still holds a key"));
    }
    Ok(())
}

/// Reads the key from the terminal, unseen, or from standard input. It is no argument, because other users can read
/// those.
fn read_key(provider: &str) -> Result<String, Complaint> {
    let text = if io::stdin().is_terminal() {
        let terminal = Terminal::open()
            .ok_or_else(|| Complaint::wrong("there is no terminal; pass the key on standard input"))?;
        let typed = terminal.hidden(&format!("Key of {provider} (not shown): "));
        let typed = typed.map_err(|error| Complaint::failed(format!("cannot read the key: {error}")))?;
        let ended = Complaint {
            exit: Exit::Interrupted,
            ..Complaint::wrong("no key was entered; nothing is stored")
        };
        typed.ok_or(ended)?
    } else {
        let mut text = String::new();
        let read = io::stdin().lock().take(LONGEST).read_to_string(&mut text);
        read.map_err(|error| Complaint::wrong(format!("standard input can't be read: {error}")))?;
        text
    };
    let key = text.trim();
    let problem = if key.is_empty() {
        "the key is empty"
    } else if key.chars().any(|c| c.is_whitespace() || c.is_control()) {
        "the key has white space or control characters in it"
    } else if key.len() < SHORTEST_SECRET {
        "the key is shorter than 8 bytes, so it could not be kept out of records"
    } else {
        return Ok(key.to_owned());
    };
    Err(Complaint::wrong(problem)
        .hint(format!("llm-do keys set {provider} < FILE   # or type it when asked")))
}

/// Returns the variables that may hold the key of that provider: one of the user's configuration, or a known one. A
/// name in capital letters is a variable, such as the `api_key_env` of a manifest.
fn variables(provider: &str) -> Result<Vec<String>, Complaint> {
    let config: UserConfig = user_config(&home()).map_err(|problem| Complaint::wrong(problem.to_string()))?;
    if let Some(declared) = config.providers.get(provider) {
        return Ok(declared.api_key_env.clone().into_iter().collect());
    }
    if let Some(known) = Providers::key_variables(provider) {
        return Ok(known.iter().map(|name| (*name).to_owned()).collect());
    }
    let is_variable = provider.starts_with(|c: char| c.is_ascii_uppercase())
        && provider.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    if is_variable {
        return Ok(vec![provider.to_owned()]);
    }
    let providers = Providers::new(|_| None);
    let all = providers.names().into_iter().filter(|name| Providers::key_variables(name).is_some());
    let all: Vec<&str> = all.chain(config.providers.keys().map(String::as_str)).collect();
    let mut complaint = Complaint::wrong(format!("there is no provider `{}`", visible::line(provider)));
    for name in nearest(provider, all.iter().copied()) {
        complaint = complaint.hint(format!("did you mean `{name}`?"));
    }
    Err(complaint.hint(format!("providers: {}", all.join(", "))).hint(
        "for a provider of a manifest, name the variable of its `api_key_env`: `llm-do keys set GATEWAY_KEY`",
    ))
}

/// Returns the names of known providers that take the key under that variable.
fn names(variable: &str) -> String {
    let providers = Providers::new(|_| None);
    let takes = |name: &&str| Providers::key_variables(name).is_some_and(|keys| keys.contains(&variable));
    let names: Vec<&str> = providers.names().into_iter().filter(takes).collect();
    if names.is_empty() { "-".to_owned() } else { names.join(", ") }
}

fn is_set(variable: &str) -> bool {
    env::var(variable).is_ok_and(|value| !value.trim().is_empty())
}

fn unusable(error: BadKeysFile) -> Complaint {
    Complaint::wrong(error.to_string())
}
