//! `/help`.

use super::{Arguments, COMMANDS, Command, Talk, candidate, unknown};
use llm_do_terminal::{Candidate, fuzzy};

pub(super) const HELP: Command = Command {
    name: "/help",
    alias: None,
    arguments: Arguments::Optional { shown: "[COMMAND]", complete },
    does: "show the commands, or one of them",
    more: "",
    run: |talk, name| match name {
        "" => talk.face.page(&all()),
        name => one(talk, name),
    },
};

const KEYS: &str = "\
Ctrl-J breaks a line · Ctrl-R searches the history · Ctrl-X Ctrl-E opens your editor
Ctrl-C clears the draft, or stops the answer · Ctrl-D leaves · Ctrl-G goes to a question and back";

fn all() -> String {
    let usages: Vec<String> = COMMANDS.iter().map(|command| command.usage()).collect();
    let width = usages.iter().map(String::len).max().unwrap_or(0);
    let lines =
        COMMANDS.iter().zip(usages).map(|(command, usage)| format!("{usage:width$}  {}", command.does));
    format!("{}\n\n{KEYS}", lines.collect::<Vec<_>>().join("\n"))
}

/// The name may be given with or without its slash.
fn one(talk: &mut Talk<'_>, name: &str) {
    let name = format!("/{}", name.trim_start_matches('/'));
    let Some(command) = Command::named(&name) else {
        talk.face.problem(&unknown(&name));
        return;
    };
    let alias = command.alias.map(|alias| format!(" (also {alias})")).unwrap_or_default();
    let more = if command.more.is_empty() { String::new() } else { format!("\n\n{}", command.more) };
    talk.face.page(&format!("{}{alias}  {}{more}", command.usage(), command.does));
}

fn complete(before: &str, word: &str) -> Vec<Candidate> {
    if !before.is_empty() {
        return Vec::new();
    }
    let fitting = fuzzy::rank(word.trim_start_matches('/'), COMMANDS, |command| command.name);
    fitting.into_iter().map(|command| candidate(command.name.trim_start_matches('/'), command.does)).collect()
}
