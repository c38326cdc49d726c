//! The question whether to grant a program access outside its project (docs/reference/sandbox.md).

use crate::{
    paint::Paint,
    rows::{Rows, Tone},
    terminal::Terminal,
};
use llm_do::{BadGrantsFile, Grantor, MissingGrant, RememberedGrants};
use std::{path::Path, sync::Arc};

/// A grantor that uses remembered grants, and asks on the terminal for others.
pub(crate) struct TerminalGrantor {
    pub(crate) remembered: RememberedGrants,
    pub(crate) terminal: Arc<Terminal>,
    pub(crate) paint: Paint,
}

impl Grantor for TerminalGrantor {
    fn grant(&self, program: &Path, missing: &[MissingGrant]) -> Result<bool, BadGrantsFile> {
        if self.remembered.grant(program, missing)? {
            return Ok(true);
        }
        let words = [('y', "yes, this once"), ('r', "yes, remembered for this program"), ('n', "no")];
        let (paint, asked) = (self.paint, (program.to_owned(), missing.to_vec()));
        let text = move |columns| question(&asked.0, &asked.1, columns, paint);
        let answer = self.terminal.choose(text, &words, paint);
        if answer == Some('r') {
            self.remembered.remember(program, missing)?;
        }
        Ok(matches!(answer, Some('y' | 'r')))
    }
}

/// Formats the question: the missing grants, and the places that ask for them.
fn question(program: &Path, missing: &[MissingGrant], columns: usize, paint: Paint) -> String {
    let mut rows = Rows::new(columns);
    let program = program.display().to_string();
    rows.heading(&[(Tone::Name, &program), (Tone::Plain, " asks for more than its own folder:")]);
    for missing in missing {
        let MissingGrant { grant, asked_at, .. } = missing;
        rows.line(&[(Tone::Bold, &missing.to_string())]);
        rows.line(&[(Tone::Dim, &format!("  asked for at {asked_at}; --grant {grant}"))]);
    }
    rows.heading(&[(Tone::Plain, "Grant it?")]);
    paint.lines(&rows.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use llm_do::NeededBy;

    #[test]
    fn the_question_names_all_of_it_and_nothing_reaches_the_terminal_as_a_command() {
        let missing = [MissingGrant {
            grant: llm_do::parse_grant("network=a.example").unwrap(),
            needed_by: NeededBy::Program,
            asked_at: "evil\u{1b}[2J.worker:3:1".into(),
        }];
        insta::assert_snapshot!(question(Path::new("/p\u{1b}]0;x"), &missing, 60, Paint::NEVER), @r"
        /p\x1b]0;x asks for more than its own folder:
          │ to use the network: a.example
          │   asked for at evil\x1b[2J.worker:3:1; --grant
          ┆ network=a.example
        Grant it?
        ");
    }
}
