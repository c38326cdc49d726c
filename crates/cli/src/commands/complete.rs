//! `llm-do complete`: prints candidates for the word at the cursor. The scripts of `llm-do completions` call it at each
//! press of the key, so that they complete workers, runs, models and cases of the project in which the user is.
//!
//! `clap_complete` has such an engine too, behind `unstable-dynamic`. Its interface changes between minor versions, and
//! it cannot leave out the `run` that `llm-do TARGET` omits.

mod values;

use crate::{args::Cli, render::Output};
use clap::{Arg, ArgAction, Command, CommandFactory, ValueHint};
use clap_complete::Shell;
use llm_do::program::visible;
use std::io::{self, Write};
use values::{Kind, Words, values};

/// A possible word at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    word: String,
    about: String,
}

impl Candidate {
    fn new(word: impl Into<String>, about: impl Into<String>) -> Self {
        Self { word: word.into(), about: about.into() }
    }
}

/// Paths that the shell itself adds to the candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Files {
    None,
    All,
    Folders,
}

/// Candidates for the word at the cursor.
#[derive(Debug, PartialEq, Eq)]
struct Offer {
    candidates: Vec<Candidate>,
    files: Files,
}

/// Prints a script that completes commands of llm-do. Those for bash, zsh and fish ask this program.
pub(crate) fn script(shell: Shell, output: &Output) {
    let text = match shell {
        Shell::Bash => include_bytes!("complete/llm-do.bash").to_vec(),
        Shell::Zsh => include_bytes!("complete/llm-do.zsh").to_vec(),
        Shell::Fish => include_bytes!("complete/llm-do.fish").to_vec(),
        other => {
            let mut script = Vec::new();
            clap_complete::generate(other, &mut Cli::command(), "llm-do", &mut script);
            script
        }
    };
    output.screen.result(&text);
}

/// Prints the candidates, each with a description after a tab, and `:files` or `:folders` where the shell adds those.
/// `words` begin with the name of the program and end with the word at the cursor. Mistakes are no candidates.
pub(crate) fn run(words: &[String]) {
    let mut root = Cli::command();
    root.build();
    let Some((current, before)) = words.split_last() else { return };
    let offer = offer(&root, before.get(1..).unwrap_or_default(), current);
    let mut text = String::new();
    for Candidate { word, about } in offer.candidates {
        // A line is a candidate: a name with a control character could forge another one, and one that shows another text
        // than the shell would read is not offered either. The shell itself completes such a file.
        if word.starts_with(current.as_str()) && visible::words(&word) == word && !word.contains('\t') {
            text.push_str(&format!("{word}\t{}\n", visible::replaced(about.trim())));
        }
    }
    match offer.files {
        Files::None => {}
        Files::All => text.push_str(":files\n"),
        Files::Folders => text.push_str(":folders\n"),
    }
    let _ = io::stdout().lock().write_all(text.as_bytes());
}

/// The state after the words before the cursor.
struct Reading<'c> {
    command: &'c Command,
    /// The commands' names, from the outermost.
    path: Vec<&'c str>,
    /// The option whose value is at the cursor.
    option: Option<&'c Arg>,
    /// True after `--`: no word is an option.
    only_words: bool,
    /// The words that name the program and its input.
    words: Words,
}

fn read<'c>(root: &'c Command, words: &[String]) -> Reading<'c> {
    let mut reading =
        Reading { command: root, path: Vec::new(), option: None, only_words: false, words: Words::default() };
    for word in words {
        if let Some(option) = reading.option.take() {
            reading.words.set(option.get_id().as_str(), word);
        } else if reading.only_words || !word.starts_with('-') || word == "-" {
            let sub = reading.command.find_subcommand(word).filter(|_| reading.words.positionals.is_empty());
            if let Some(sub) = sub.filter(|_| !reading.only_words) {
                reading.command = sub;
                reading.path.push(sub.get_name());
                reading.words.before_target = usize::from(reading.path[0] == "runs");
                continue;
            }
            // `llm-do TARGET` is short for `llm-do run TARGET`.
            if reading.path.is_empty()
                && let Some(run) = root.find_subcommand("run")
            {
                reading.command = run;
                reading.path.push("run");
            }
            reading.words.positionals.push(word.clone());
        } else if word == "--" {
            reading.only_words = true;
        } else {
            let (name, value) =
                word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
            // `llm-do --model NAME` is a run as well.
            let of_run = || root.find_subcommand("run").filter(|_| reading.path.is_empty());
            let option = option(reading.command, name).or_else(|| option(of_run()?, name));
            if let (Some(option), Some(value)) = (option, value) {
                reading.words.set(option.get_id().as_str(), value);
            }
            reading.option = option.filter(|option| value.is_none() && takes_value(option));
        }
    }
    reading
}

/// Returns the option with a name as typed: `--name`, or `-n` (the last of several letters).
fn option<'c>(command: &'c Command, typed: &str) -> Option<&'c Arg> {
    let mut options = command.get_opts();
    match typed.strip_prefix("--") {
        Some(long) => {
            options.find(|arg| arg.get_long_and_visible_aliases().is_some_and(|names| names.contains(&long)))
        }
        None => options.find(|arg| arg.get_short() == typed.chars().last()),
    }
}

fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
        && arg.get_num_args().is_none_or(|count| count.min_values() > 0)
}

fn offer(root: &Command, before: &[String], current: &str) -> Offer {
    let reading = read(root, before);
    if let Some(option) = reading.option {
        return value_of(option, &reading, current);
    }
    if !reading.only_words
        && let Some((name, value)) = current.split_once('=').filter(|_| current.starts_with("--"))
    {
        let Some(option) = option(reading.command, name) else {
            return Offer { candidates: Vec::new(), files: Files::None };
        };
        let Offer { candidates, files } = value_of(option, &reading, value);
        let with_name = |it: Candidate| Candidate { word: format!("{name}={}", it.word), ..it };
        return Offer { candidates: candidates.into_iter().map(with_name).collect(), files };
    }
    if !reading.only_words && current.starts_with('-') {
        return Offer { candidates: options(&reading, root), files: Files::None };
    }
    let mut found = Offer { candidates: Vec::new(), files: Files::None };
    let count = reading.words.positionals.len();
    if count == 0 && !reading.only_words {
        let subs = reading.command.get_subcommands().filter(|sub| !sub.is_hide_set());
        found.candidates.extend(subs.map(|sub| Candidate::new(sub.get_name(), about(sub.get_about()))));
    }
    let run = root.find_subcommand("run").filter(|_| reading.path.is_empty());
    let takes = run.unwrap_or(reading.command);
    let many = |arg: &&Arg| matches!(arg.get_action(), ArgAction::Append);
    let positional =
        takes.get_positionals().nth(count).or_else(|| takes.get_positionals().last().filter(many));
    if let Some(arg) = positional {
        let Offer { candidates, files } = value_of(arg, &reading, current);
        found.candidates.extend(candidates);
        found.files = files;
    }
    found
}

/// Returns the options of a command, with those of `run` if its name is left out.
fn options(reading: &Reading<'_>, root: &Command) -> Vec<Candidate> {
    let run = root.find_subcommand("run").filter(|_| reading.path.is_empty());
    let all = reading.command.get_arguments().chain(run.into_iter().flat_map(Command::get_arguments));
    let mut found: Vec<Candidate> = Vec::new();
    for arg in all.filter(|arg| !arg.is_hide_set()) {
        if let Some(long) = arg.get_long() {
            let candidate = Candidate::new(format!("--{long}"), about(arg.get_help()));
            if !found.contains(&candidate) {
                found.push(candidate);
            }
        }
    }
    found
}

/// Returns the first line of a help text.
fn about(help: Option<&clap::builder::StyledStr>) -> String {
    help.map(ToString::to_string).unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}

/// Returns the values of an argument, of which `current` is typed.
fn value_of(arg: &Arg, reading: &Reading<'_>, current: &str) -> Offer {
    let fixed = arg.get_possible_values();
    if !fixed.is_empty() && !matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::Count) {
        let candidates = fixed
            .iter()
            .filter(|value| !value.is_hide_set())
            .map(|value| Candidate::new(value.get_name(), about(value.get_help())));
        return Offer { candidates: candidates.collect(), files: Files::None };
    }
    let files = match arg.get_value_hint() {
        ValueHint::AnyPath | ValueHint::FilePath => Files::All,
        ValueHint::DirPath => Files::Folders,
        _ => Files::None,
    };
    let name = arg
        .get_value_names()
        .and_then(|names| names.first())
        .map_or_else(|| arg.get_id().as_str().to_uppercase(), ToString::to_string);
    let kind = Kind::of(&reading.path, &name);
    let files = if matches!(kind, Some(Kind::Target)) { Files::All } else { files };
    let candidates = kind.map(|kind| values(kind, &reading.words, current)).unwrap_or_default();
    Offer { candidates, files }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(line: &str) -> (Vec<String>, Files) {
        let mut root = Cli::command();
        root.build();
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let (current, before) = words.split_last().expect("a word");
        let offer = offer(&root, &before[1..], current);
        let matching =
            offer.candidates.into_iter().map(|it| it.word).filter(|word| word.starts_with(current.as_str()));
        (matching.collect(), offer.files)
    }

    #[test]
    fn commands_and_options_are_offered_by_their_beginning() {
        assert_eq!(offered("llm-do har").0, ["harden"]);
        assert_eq!(offered("llm-do runs re").0, ["resume", "replay"]);
        assert!(offered("llm-do run --app").0.contains(&"--approval".to_owned()));
        // Without `run`.
        assert!(offered("llm-do x.worker --app").0.contains(&"--approval".to_owned()));
        assert!(offered("llm-do --app").0.contains(&"--approval".to_owned()));
        assert!(offered("llm-do man").0.is_empty(), "a hidden command is not offered");
    }

    #[test]
    fn fixed_values_are_offered_after_a_space_and_after_an_equals_sign() {
        assert_eq!(offered("llm-do check --output sa").0, ["sarif"]);
        assert_eq!(offered("llm-do check --output=sa").0, ["--output=sarif"]);
        assert!(offered("llm-do completions ").0.contains(&"fish".to_owned()));
    }

    #[test]
    fn a_shell_adds_files_where_a_path_is_meant() {
        assert_eq!(offered("llm-do run --attach ").1, Files::All);
        assert_eq!(offered("llm-do list --project ").1, Files::Folders);
        assert_eq!(offered("llm-do exam").1, Files::All);
        assert_eq!(offered("llm-do runs show ").1, Files::None);
    }

    #[test]
    fn nothing_after_two_dashes_is_an_option() {
        assert!(offered("llm-do run -- --app").0.is_empty());
    }
}
