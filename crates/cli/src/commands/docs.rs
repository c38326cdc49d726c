//! `llm-do docs`: the guides and the reference, which are part of the program.

use crate::{
    args::Format,
    commands::check,
    exit::{Complaint, Exit},
    markdown,
    render::Output,
};
use llm_do::program::diagnostics::{codes::Code, nearest};
use serde_json::json;

/// The names and the texts of all pages, sorted by name.
const PAGES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/pages.rs"));

/// Prints a page, or lists all pages if none is named.
pub(crate) fn run(page: Option<&str>, output: &Output) -> Result<Exit, Complaint> {
    let Some(wanted) = page else {
        list(output);
        return Ok(Exit::Done);
    };
    if Code::find(wanted).is_some() {
        return check::explain(wanted, output);
    }
    let (name, text) = find(wanted)?;
    let text = without_marks(text);
    match output.format {
        Format::Text if output.out_terminal => output.print(&markdown::styled(&text, output.out)),
        Format::Text => output.print(&text),
        _ => output.print_json(&json!({ "page": name, "text": text })),
    }
    Ok(Exit::Done)
}

/// Returns the page without the comments for the test of the guides, which readers do not see (docs/testing.md).
fn without_marks(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| !line.starts_with("<!-- guide: ")).collect()
}

fn list(output: &Output) {
    if output.format != Format::Text {
        let rows: Vec<_> =
            PAGES.iter().map(|(name, text)| json!({"page": name, "title": title(text)})).collect();
        output.print_json(&json!({ "pages": rows }));
        return;
    }
    let width = PAGES.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let rows: String = PAGES
        .iter()
        .map(|(name, text)| format!("{}  {}\n", output.out.bold(format!("{name:width$}")), title(text)))
        .collect();
    output.print(&rows);
}

/// Returns the heading of a page.
fn title(text: &str) -> &str {
    text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or_default()
}

/// Returns the page of that name: `guides/chat`, `chat`, or a path as in messages, `docs/guides/chat.md#undo`.
fn find(wanted: &str) -> Result<(&'static str, &'static str), Complaint> {
    let name = wanted.split('#').next().unwrap_or_default();
    let name = name.strip_prefix("docs/").unwrap_or(name);
    let name = name.strip_suffix(".md").unwrap_or(name);
    let last = |page: &'static str| page.rsplit('/').next().unwrap_or(page);
    if let Some(page) = PAGES.iter().find(|(page, _)| *page == name) {
        return Ok(*page);
    }
    let found: Vec<_> = PAGES.iter().filter(|(page, _)| last(page) == name).collect();
    match found.as_slice() {
        [page] => Ok(**page),
        [] => {
            let near = nearest(name, PAGES.iter().flat_map(|(page, _)| [*page, last(page)]));
            let complaint = Complaint::wrong(format!("there is no page `{wanted}`"));
            Err(match near.as_slice() {
                [] => complaint.hint("`llm-do docs` lists all pages"),
                near => complaint.hint(format!("did you mean `llm-do docs {}`?", near[0])),
            })
        }
        several => {
            let names: Vec<&str> = several.iter().map(|(page, _)| *page).collect();
            Err(Complaint::wrong(format!("`{wanted}` is the name of {} pages", names.len()))
                .hint(format!("name one of them: {}", names.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_found_by_each_name_that_messages_use() {
        for wanted in ["guides/chat", "chat", "chat.md", "docs/guides/chat.md", "docs/guides/chat.md#rules"] {
            assert_eq!(find(wanted).map(|(page, _)| page).ok(), Some("guides/chat"), "{wanted}");
        }
        assert!(find("mcp").is_err(), "a guide and a page of the reference have this name");
        assert!(find("reference/mcp").is_ok() && find("nothing-like-it").is_err());
    }

    #[test]
    fn comments_for_tests_are_not_shown() {
        let (_, text) = find("installing").unwrap_or_else(|_| panic!("a page"));
        assert!(text.contains("<!-- "));
        let shown = without_marks(text);
        assert!(!shown.contains("<!-- ") && shown.contains("## Container image"));
    }

    #[test]
    fn every_page_has_a_title() {
        assert!(PAGES.len() > 40);
        for (name, text) in PAGES {
            assert!(!title(text).is_empty(), "{name}");
        }
    }
}
