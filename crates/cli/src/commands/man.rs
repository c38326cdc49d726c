//! `llm-do man`: writes the man pages, from the definition of the command line.

use crate::{args::Cli, environment::SECTIONS, exit::Complaint};
use clap::{Command, CommandFactory};
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};
use llm_do::{make_named_folder, write_named};
use std::{io, path::Path};

/// A paragraph of the text below a command's options.
pub(crate) enum Part<'t> {
    /// Prose, one item per line.
    Prose(Vec<&'t str>),
    /// Command lines, one item per line, without indentation.
    Examples(Vec<&'t str>),
}

/// Writes a page for each visible command into `dir`.
pub(crate) fn run(dir: &Path) -> Result<(), Complaint> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    make_named_folder(dir)
        .and_then(|_| write(&command, dir))
        .map_err(|error| Complaint::failed(format!("cannot write man pages to {}: {error}", dir.display())))
}

/// Returns the subcommands that help and documentation show.
pub(crate) fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
}

/// Splits a command's `after_help` into paragraphs.
pub(crate) fn parts(text: &str) -> Vec<Part<'_>> {
    text.split("\n\n")
        .map(|paragraph| match paragraph.strip_prefix("Examples:\n") {
            Some(examples) => Part::Examples(examples.lines().map(str::trim).collect()),
            None => Part::Prose(paragraph.lines().collect()),
        })
        .collect()
}

fn write(command: &Command, dir: &Path) -> io::Result<()> {
    for sub in visible(command) {
        write(sub, dir)?;
    }
    let man = Man::new(command.clone())
        .source(concat!("llm-do ", env!("CARGO_PKG_VERSION")))
        .manual("llm-do manual");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    // Part of the description. `clap_mangen` would fill the examples into one paragraph, in a section EXTRA.
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (prose, examples): (Vec<Part>, Vec<Part>) =
        parts(&text).into_iter().partition(|part| matches!(part, Part::Prose(_)));
    let mut notes = Roff::new();
    for part in &prose {
        notes.control("PP", []);
        lines(&mut notes, part);
    }
    notes.to_writer(&mut page)?;
    man.render_options_section(&mut page)?;
    if visible(command).next().is_some() {
        man.render_subcommands_section(&mut page)?;
    }
    let mut rest = Roff::new();
    if command.get_name() == "llm-do" {
        rest.control("SH", ["ENVIRONMENT"]);
        for section in SECTIONS {
            rest.control("SS", [section.heading]);
            for variable in section.variables {
                rest.control("TP", []);
                rest.text([bold(variable.name)]);
                rest.text([roman(variable.about.replace('`', ""))]);
            }
        }
    }
    for part in &examples {
        rest.control("SH", ["EXAMPLES"]);
        rest.control("nf", []);
        lines(&mut rest, part);
        rest.control("fi", []);
    }
    rest.to_writer(&mut page)?;
    write_named(&dir.join(man.get_filename()), &page)
}

fn lines(roff: &mut Roff, part: &Part) {
    let (Part::Prose(lines) | Part::Examples(lines)) = part;
    for line in lines {
        roff.text([roman(*line)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, fs};

    fn commands(command: &Command) -> Vec<&Command> {
        std::iter::once(command).chain(visible(command).flat_map(commands)).collect()
    }

    #[test]
    fn every_visible_command_has_a_page_with_its_options() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("new/man");
        run(&dir).unwrap();
        let mut root = Cli::command();
        root.build();
        let mut expected = BTreeSet::new();
        for command in commands(&root) {
            let name = format!("{}.1", command.get_display_name().unwrap_or(command.get_name()));
            let page = fs::read_to_string(dir.join(&name)).unwrap();
            // The escapes of roff for characters that it would otherwise replace by typographic ones.
            let page = page.replace("\\-", "-").replace("\\*(Aq", "'");
            for section in [".TH ", ".SH NAME\n", ".SH SYNOPSIS\n", ".SH OUTPUT\n", ".SH EXAMPLES\n"] {
                assert!(page.contains(section), "{name} has no {section}");
            }
            let options = page.split_once(".SH DESCRIPTION\n").unwrap().1;
            // clap writes the help of `--help` itself, longer for a page than for the terminal.
            let arguments = command.get_arguments().filter(|argument| argument.get_id() != "help");
            for argument in arguments.filter(|argument| !argument.is_hide_set()) {
                if let Some(long) = argument.get_long() {
                    assert!(options.contains(&format!("--{long}")), "{name} has no --{long}");
                }
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(options.contains(help.lines().next().unwrap_or_default()), "{name} lacks: {help}");
            }
            expected.insert(name);
        }
        assert!(expected.contains("llm-do-runs-resume.1") && !expected.contains("llm-do-man.1"));
        let written: BTreeSet<String> = fs::read_dir(&dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(written, expected);
        let root = fs::read_to_string(dir.join("llm-do.1")).unwrap();
        assert!(root.contains("LLM_DO_HOME"), "{root}");
    }

    #[test]
    fn failure_to_write_is_reported() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let complaint = run(&file.path().join("man")).unwrap_err();
        assert!(complaint.message.starts_with("cannot write man pages to "), "{complaint:?}");
    }
}
