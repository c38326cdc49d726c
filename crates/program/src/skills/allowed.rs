//! `allowed-tools` of a skill, as patterns of rules.

use crate::{
    diagnostics::{Diagnostic, codes},
    span::Span,
    visible,
    yaml::{Data, Node},
};
use llm_do_core::gate::Pattern;
use std::ops::Range;

/// A tool of `allowed-tools`.
#[derive(Debug)]
pub(crate) struct AllowedTool {
    /// The patterns of rules that match its calls.
    pub(crate) patterns: Vec<String>,
    /// The place of its name.
    pub(crate) span: Span,
}

/// The tools of Claude Code, in which most skills are written, and ours.
const OF_CLAUDE: [(&str, &str); 11] = [
    ("AskUserQuestion", "ask_user"),
    ("Agent", "worker_call"),
    ("Bash", "shell"),
    ("Edit", "edit_file"),
    ("Glob", "list_files"),
    ("Grep", "search_files"),
    ("LS", "list_files"),
    ("MultiEdit", "edit_file"),
    ("Read", "read_file"),
    ("Task", "worker_call"),
    ("Write", "write_file"),
];

/// Reads the list, a text with spaces between the tools. A list and commas, which others write, mean the same.
pub(super) fn allowed_tools(node: &Node, found: &mut Vec<Diagnostic>) -> Vec<AllowedTool> {
    let mut tools = Vec::new();
    let texts = match &node.data {
        Data::Null => return tools,
        Data::Text(_) => std::slice::from_ref(node),
        Data::List(items) => items,
        _ => {
            let message = format!("`allowed-tools` must be text, not {}", node.kind());
            found.push(super::bad(&node.span, message));
            return tools;
        }
    };
    for node in texts {
        let Some(text) = node.as_text() else {
            found.push(super::bad(&node.span, format!("a tool's name must be text, not {}", node.kind())));
            continue;
        };
        for token in tokens(text).map(|range| &text[range]) {
            let span = place(&node.span, token);
            match patterns(token) {
                Ok(patterns) => tools.push(AllowedTool { patterns, span }),
                Err(reason) => found.push(
                    Diagnostic::warning(
                        codes::SKILL_TOOL,
                        format!("`allowed-tools` names `{}`, {reason}", visible::line(token)),
                    )
                    .at(&span)
                    .note("once the skill is loaded, the calls that it means ask"),
                ),
            }
        }
    }
    tools
}

/// Splits a text at spaces and commas that are not in parentheses.
fn tokens(text: &str) -> impl Iterator<Item = Range<usize>> {
    let (mut tokens, mut start, mut depth) = (Vec::new(), None, 0_usize);
    for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let ends = at == text.len() || depth == 0 && (c.is_whitespace() || c == ',');
        match (ends, start) {
            (true, Some(from)) => {
                tokens.push(from..at);
                start = None;
            }
            (false, None) => start = Some(at),
            _ => {}
        }
    }
    tokens.into_iter()
}

/// Returns the place of a token in a value, or of the value if it is written with escapes.
fn place(whole: &Span, token: &str) -> Span {
    let at = whole.range().zip(whole.text().find(token));
    at.map_or_else(
        || whole.clone(),
        |(range, at)| Span::new(whole.file(), range.start + at..range.start + at + token.len()),
    )
}

/// Returns the patterns for a token.
///
/// # Errors
/// The reason why there are none, as the end of a sentence.
fn patterns(token: &str) -> Result<Vec<String>, String> {
    let (name, argument) = match token.split_once('(') {
        Some((name, rest)) => {
            (name, Some(rest.strip_suffix(')').ok_or("but a `)` is missing at its end")?.trim()))
        }
        None => (token, None),
    };
    let argument = argument.filter(|argument| !argument.is_empty() && *argument != "*");
    let of_claude = OF_CLAUDE.iter().find(|(theirs, _)| *theirs == name).map(|(_, ours)| *ours);
    let is_theirs = name.starts_with(|c: char| c.is_ascii_uppercase());
    let ours = match (of_claude, name.strip_prefix("mcp__")) {
        (Some(ours), _) => ours.to_owned(),
        (None, Some(rest)) => match rest.split_once("__") {
            Some((server, tool)) => format!("{server}:{tool}"),
            None => format!("{rest}:*"),
        },
        (None, None) if is_theirs => return Err("for which llm-do has no tool".to_owned()),
        (None, None) => name.to_owned(),
    };
    let written = match argument {
        None => vec![ours],
        // `git:*` means `git` with any arguments.
        Some(argument) => match argument.strip_suffix(":*") {
            Some(command) => vec![format!("{ours}({command})"), format!("{ours}({command} *)")],
            None => vec![format!("{ours}({argument})")],
        },
    };
    match written.iter().find_map(|pattern| Pattern::parse(pattern).err()) {
        Some(error) => Err(format!("which is no pattern: {}", error.reason)),
        None => Ok(written),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Vec<String>> {
        tokens(text).map(|range| patterns(&text[range]).unwrap_or_default()).collect()
    }

    #[test]
    fn names_of_claude_become_ours() {
        assert_eq!(
            read("Read, Bash(git add:*) Bash(npm run *) shell  mcp__db__query mcp__db Write(out/**) Bash(*)"),
            [
                vec!["read_file"],
                vec!["shell(git add)", "shell(git add *)"],
                vec!["shell(npm run *)"],
                vec!["shell"],
                vec!["db:query"],
                vec!["db:*"],
                vec!["write_file(out/**)"],
                vec!["shell"],
            ]
        );
        assert_eq!(read(" , "), Vec::<Vec<String>>::new());
    }

    #[test]
    fn what_is_no_tool_has_no_pattern() {
        for text in ["WebFetch", "Bash(git", "read_file(a", "()", "shell([)"] {
            assert!(patterns(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_brackets_keep_a_token_together() {
        let split = |text: &str| tokens(text).map(|range| text[range].to_owned()).collect::<Vec<_>>();
        assert_eq!(split("a(b c, d) e"), ["a(b c, d)", "e"]);
        assert_eq!(split("a) b(c"), ["a)", "b(c"]);
        assert_eq!(split("ä ö"), ["ä", "ö"]);
    }
}
