//! The commands of a block, with the output that the page shows.

/// A command as a reader types it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Command {
    pub(crate) text: String,
    /// The lines that the page shows after it. Empty: the page shows nothing, and the test compares nothing.
    pub(crate) shown: Vec<String>,
    /// The exit code that a comment after the command states.
    pub(crate) code: Option<i32>,
}

impl Command {
    fn new(text: String) -> Self {
        let code = text.split_once("  # ").and_then(|(_, comment)| {
            let (_, rest) = comment.split_once("exit code ")?;
            rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()
        });
        Self { text, shown: Vec::new(), code }
    }
}

/// The commands of a `sh` block: one in each line, except for continued lines and here documents.
pub(crate) fn script(lines: &[String]) -> Vec<Command> {
    let mut found = Vec::new();
    let mut lines = lines.iter();
    while let Some(line) = lines.next() {
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        found.push(Command::new(whole(line, &mut lines)));
    }
    found
}

/// The commands of a `console` block, whose lines begin with `$ `, and their output.
///
/// # Errors
/// Output before the first command.
pub(crate) fn console(lines: &[String]) -> Result<Vec<Command>, String> {
    let mut found: Vec<Command> = Vec::new();
    let mut lines = lines.iter();
    while let Some(line) = lines.next() {
        if let Some(text) = line.strip_prefix("$ ") {
            found.push(Command::new(whole(text, &mut lines)));
        } else if let Some(last) = found.last_mut() {
            last.shown.push(line.clone());
        } else {
            return Err(format!("`{line}` stands before the first command"));
        }
    }
    for command in &mut found {
        while command.shown.last().is_some_and(|line| line.trim().is_empty()) {
            command.shown.pop();
        }
    }
    Ok(found)
}

/// A command with the lines that continue it.
fn whole<'a>(first: &str, rest: &mut impl Iterator<Item = &'a String>) -> String {
    let mut text = first.to_owned();
    if let Some((_, end)) = first.split_once("<<") {
        let end = end.trim_start_matches('-').split_whitespace().next().unwrap_or("").trim_matches('\'');
        for line in rest {
            text.push('\n');
            text.push_str(line);
            if line == end {
                break;
            }
        }
        return text;
    }
    while text.ends_with('\\') || text.matches('\'').count() % 2 == 1 {
        let Some(line) = rest.next() else { break };
        text.push('\n');
        text.push_str(line);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn commands_may_span_lines() {
        let found = script(&lines("# first\na \\\n  b\ncat > x <<'END'\n# c\nEND\necho 'd\ne'\n"));
        let texts: Vec<&str> = found.iter().map(|command| command.text.as_str()).collect();
        assert_eq!(texts, ["a \\\n  b", "cat > x <<'END'\n# c\nEND", "echo 'd\ne'"]);
    }

    #[test]
    fn comments_state_exit_codes() {
        assert_eq!(script(&lines("a   # stops with exit code 5: it waits"))[0].code, Some(5));
    }

    #[test]
    fn output_belongs_to_the_command_above() {
        let found = console(&lines("$ a\n1\n$ b\n\n2\n\n")).expect("commands");
        assert_eq!((found[0].shown.len(), found[1].shown.len()), (1, 2));
    }
}
