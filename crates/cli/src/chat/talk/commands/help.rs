//! `/help`.

use super::{COMMANDS, Talk, Usage, candidate, run::about, unknown};
use crate::chat::known::Known;
use llm_do::program::signature;
use llm_do_terminal::{Candidate, fuzzy};

/// The most columns of a command with its arguments, after which its help begins.
const WIDEST: usize = 24;

const KEYS: &str = "\
Ctrl-J breaks a line · Ctrl-R searches the history · Ctrl-X Ctrl-E opens your editor
Ctrl-C clears the draft, or stops the answer · Ctrl-D leaves · Ctrl-G goes to a question and back";

/// Shows the help of all commands, or of the command with that name.
pub(super) fn show(talk: &mut Talk<'_>, name: &str) {
    if name.is_empty() {
        let text = all(talk.known);
        talk.face.page(&text);
    } else {
        one(talk, name);
    }
}

fn all(known: &Known) -> String {
    let usages: Vec<String> = COMMANDS.iter().map(Usage::shown).collect();
    let width = usages.iter().map(String::len).max().unwrap_or(0).min(WIDEST);
    let lines = COMMANDS.iter().zip(usages).map(|(usage, shown)| format!("{shown:width$}  {}", usage.does));
    let workers = known.workers().iter().map(|worker| format!("/{}  {}", worker.id, about(worker)));
    let workers = workers.collect::<Vec<_>>().join("\n");
    let workers =
        if workers.is_empty() { workers } else { format!("\n\nworkers of the program:\n{workers}") };
    format!("{}{workers}\n\n{KEYS}", lines.collect::<Vec<_>>().join("\n"))
}

/// Shows the help of one command. The name may be given with or without its slash.
fn one(talk: &mut Talk<'_>, name: &str) {
    let name = name.trim_start_matches('/');
    let Some(usage) = Usage::named(name) else {
        match talk.known.exported(name).cloned() {
            Some(worker) => {
                let shown = signature::show(&worker.id, &worker.signature);
                talk.face.page(&format!("/{shown}  {}", about(&worker)));
            }
            None => {
                let why = unknown(talk.known, &format!("/{name}"));
                talk.face.problem(&why);
            }
        }
        return;
    };
    let alias = usage.alias.map(|alias| format!(" (also /{alias})")).unwrap_or_default();
    let more = if usage.more.is_empty() { String::new() } else { format!("\n\n{}", usage.more) };
    talk.face.page(&format!("{}{alias}  {}{more}", usage.shown(), usage.does));
}

/// Returns the commands that match the typed word.
pub(super) fn complete(word: &str) -> Vec<Candidate> {
    let fitting = fuzzy::rank(word.trim_start_matches('/'), COMMANDS, |usage| usage.name);
    fitting.into_iter().map(|usage| candidate(usage.name, usage.does)).collect()
}
