//! `/help`.

use super::{Arguments, COMMANDS, Command, Talk, candidate, run::about, unknown};
use crate::chat::known::Known;
use llm_do::program::signature::show;
use llm_do_terminal::{Candidate, fuzzy};

pub(super) const HELP: Command = Command {
    name: "/help",
    alias: None,
    arguments: Arguments::Optional { shown: "[COMMAND]", complete },
    of_chat: false,
    does: "show the commands, or one of them",
    more: "",
    run: |talk, name| match name {
        "" => {
            let text = all(talk.known);
            talk.face.page(&text);
        }
        name => one(talk, name),
    },
};

/// The most columns of a command with its arguments, after which its help begins.
const WIDEST: usize = 24;

const KEYS: &str = "\
Ctrl-J breaks a line · Ctrl-R searches the history · Ctrl-X Ctrl-E opens your editor
Ctrl-C clears the draft, or stops the answer · Ctrl-D leaves · Ctrl-G goes to a question and back";

fn all(known: &Known) -> String {
    let usages: Vec<String> = COMMANDS.iter().map(|command| command.usage()).collect();
    let width = usages.iter().map(String::len).max().unwrap_or(0).min(WIDEST);
    let lines =
        COMMANDS.iter().zip(usages).map(|(command, usage)| format!("{usage:width$}  {}", command.does));
    let workers = known.workers().iter().map(|worker| format!("/{}  {}", worker.id, about(worker)));
    let workers = workers.collect::<Vec<_>>().join("\n");
    let workers =
        if workers.is_empty() { workers } else { format!("\n\nworkers of the program:\n{workers}") };
    format!("{}{workers}\n\n{KEYS}", lines.collect::<Vec<_>>().join("\n"))
}

/// Shows the help of one command. The name may be given with or without its slash.
fn one(talk: &mut Talk<'_>, name: &str) {
    let name = format!("/{}", name.trim_start_matches('/'));
    let Some(command) = Command::named(&name) else {
        match talk.known.exported(&name[1..]).cloned() {
            Some(worker) => {
                let usage = show(&worker.id, &worker.signature);
                talk.face.page(&format!("/{usage}  {}", about(&worker)));
            }
            None => {
                let why = unknown(talk.known, &name);
                talk.face.problem(&why);
            }
        }
        return;
    };
    let alias = command.alias.map(|alias| format!(" (also {alias})")).unwrap_or_default();
    let more = if command.more.is_empty() { String::new() } else { format!("\n\n{}", command.more) };
    talk.face.page(&format!("{}{alias}  {}{more}", command.usage(), command.does));
}

fn complete(_: &Known, before: &str, word: &str) -> Vec<Candidate> {
    if !before.is_empty() {
        return Vec::new();
    }
    let fitting = fuzzy::rank(word.trim_start_matches('/'), COMMANDS, |command| command.name);
    fitting.into_iter().map(|command| candidate(command.name.trim_start_matches('/'), command.does)).collect()
}
