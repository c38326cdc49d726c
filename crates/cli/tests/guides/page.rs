//! A page of the documentation as a reader follows it: files to write and commands to run, in order.

use crate::commands::{Command, console, script};

/// The languages whose blocks contain commands.
const SHELLS: [&str; 2] = ["sh", "console"];
/// The languages whose blocks may not contain commands.
const PROSE: [&str; 4] = ["", "bash", "shell", "text"];
/// The needs that a block may have and a test can't meet.
pub(crate) const NEEDS: [&str; 5] = ["browser", "build", "key", "network", "product"];

/// The blocks of a page that a reader acts on.
#[derive(Debug)]
pub(crate) struct Block {
    /// The line of its fence, from 1.
    pub(crate) line: usize,
    pub(crate) mark: Mark,
    pub(crate) content: Content,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Content {
    /// A file, because its path stands on the line before the block.
    File {
        path: String,
        text: String,
    },
    Commands(Vec<Command>),
}

/// A comment before a block, which readers do not see: `<!-- guide: exit 2 -->`.
#[derive(Debug, Default, PartialEq)]
pub(crate) enum Mark {
    #[default]
    None,
    /// The test skips the block, which needs a thing of [`NEEDS`]. The reason stands in parentheses.
    Needs(String),
    /// The last command of the block ends with this code instead of 0.
    Exit(i32),
    /// The command runs until the end of the page, such as a server.
    Background,
    /// The command runs on a terminal: after each text appears, the keys are typed.
    Terminal(Vec<(String, String)>),
}

/// The blocks of a page.
///
/// # Errors
/// A block that looks like commands and is none, or a mark that the test does not know.
pub(crate) fn blocks(page: &str) -> Result<Vec<Block>, String> {
    let mut found = Vec::new();
    let mut before = String::new();
    let mut mark = Mark::None;
    let mut lines = page.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let line = line.trim_end();
        if let Some(text) = line.strip_prefix("<!-- guide: ") {
            let text = text.strip_suffix(" -->").ok_or_else(|| format!("{}: a mark is one line", at + 1))?;
            mark = Mark::read(text).map_err(|why| format!("{}: {why}", at + 1))?;
            continue;
        }
        let Some(language) = line.trim_start().strip_prefix("```") else {
            if !line.is_empty() {
                before = line.to_owned();
                if mark != Mark::None {
                    return Err(format!("{}: the mark before it has no block", at + 1));
                }
            }
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        let mut body = Vec::new();
        for (_, line) in lines.by_ref() {
            if line.trim() == "```" {
                break;
            }
            body.push(line.get(indent..).unwrap_or("").to_owned());
        }
        let mark = std::mem::take(&mut mark);
        let number = at + 1;
        let word = language.split(' ').next().unwrap_or("");
        if SHELLS.contains(&word) {
            let commands = if word == "sh" { script(&body) } else { console(&body)? };
            if commands.is_empty() {
                return Err(format!("{number}: a block of commands without a command"));
            }
            found.push(Block { line: number, mark, content: Content::Commands(commands) });
        } else if let Some(line) = body.iter().find(|line| PROSE.contains(&word) && is_command(line)) {
            return Err(format!("{number}: the block is not `sh` or `console`, so `{line}` is not followed"));
        } else if let Some(path) = named(&before) {
            let content = Content::File { path: path.to_owned(), text: body.join("\n") + "\n" };
            found.push(Block { line: number, mark, content });
        } else if mark != Mark::None {
            return Err(format!("{number}: a mark before a block that is not followed"));
        }
        before.clear();
    }
    Ok(found)
}

/// Returns true if a line of a block that is no shell looks like a command to type.
fn is_command(line: &str) -> bool {
    ["$ ", "llm-do "].iter().any(|start| line.starts_with(start))
}

/// The path with which a line before a block ends: `` `desk/project.yaml`: ``.
fn named(line: &str) -> Option<&str> {
    let rest = line.strip_suffix("`:")?;
    let path = &rest[rest.rfind('`')? + 1..];
    (path.contains('.') && !path.contains(' ')).then_some(path)
}

impl Mark {
    fn read(text: &str) -> Result<Self, String> {
        let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
        match kind {
            "background" => Ok(Self::Background),
            "exit" => rest.parse().map(Self::Exit).map_err(|error| error.to_string()),
            "needs" => match rest.split_once(" (") {
                Some((what, reason)) if NEEDS.contains(&what) && reason.ends_with(')') => {
                    Ok(Self::Needs(what.to_owned()))
                }
                _ => Err(format!("`needs` takes one of {NEEDS:?} and a reason in parentheses, not `{rest}`")),
            },
            "terminal" => {
                let quoted: Vec<&str> = rest.split('"').skip(1).step_by(2).collect();
                let steps = quoted
                    .chunks_exact(2)
                    .map(|pair| (pair[0].to_owned(), pair[1].replace("\\r", "\r").replace("^D", "\u{4}")));
                Ok(Self::Terminal(steps.collect()))
            }
            _ => Err(format!("there is no mark `{kind}`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_files_and_commands_in_order() {
        let page = "Write `a/b.worker`:\n\n```yaml\nx: 1\n```\n\n<!-- guide: exit 2 -->\n```console\n$ llm-do a\nerror\n```\n";
        let found = blocks(page).expect("blocks");
        assert_eq!(found[0].content, Content::File { path: "a/b.worker".into(), text: "x: 1\n".into() });
        assert_eq!((found[1].line, &found[1].mark), (8, &Mark::Exit(2)));
    }

    #[test]
    fn commands_outside_of_shell_blocks_are_errors() {
        for page in ["```\nllm-do init x\n```\n", "```text\n$ ls\n```\n", "```console\nllm-do init x\n```\n"]
        {
            assert!(blocks(page).is_err(), "{page}");
        }
    }

    #[test]
    fn skipped_blocks_need_a_kind_and_a_reason() {
        for mark in ["needs", "needs time (long)", "needs key", "wants key (x)"] {
            let page = format!("<!-- guide: {mark} -->\n```sh\nls\n```\n");
            assert!(blocks(&page).is_err(), "{mark}");
        }
        let page = "<!-- guide: needs key (asks a model) -->\n```sh\nls\n```\n";
        assert_eq!(blocks(page).expect("blocks")[0].mark, Mark::Needs("key".into()));
    }
}
