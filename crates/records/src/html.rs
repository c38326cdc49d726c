//! A run as one HTML file that needs no network and no other file.
//!
//! The file is the web app's page of a run, with the records in it. A program that was built without the web app makes
//! a page of text: the tree of `runs show`, and every call in full. Texts of models, tools and documents may be hostile;
//! neither form has a place where they are markup.

use crate::{
    render::{Line, render, render_call},
    tree::CallNode,
    view::{RunChanges, RunView},
    whole::WholeRun,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, GzBuilder};
use llm_do_core::journal::Record;
use serde::Serialize;
use serde_json::json;
use std::io::{self, Write};

/// The placeholder that a template has for the run.
const PLACE: &str = "__LLM_DO_RUN__";
/// The page of text, with the same placeholder.
const TEXT: &str = include_str!("html/text.html");

/// A record with the changes that it makes to the view of the run.
#[derive(Serialize)]
struct RecordedChange<'a> {
    record: &'a Record,
    view: RunChanges<'a>,
}

/// Makes the page of a run. `template`: the web app's page of a run, in which the records and the changes that each
/// makes to the view replace the placeholder `__LLM_DO_RUN__`, compressed. Without a template the page is text.
pub fn page(run: &WholeRun, template: Option<&str>) -> String {
    match template {
        // Base64 has no character that could end the script element around it.
        Some(template) => {
            // Compressing into memory does not fail.
            let records = compressed(run).unwrap_or_default();
            let data = json!({"format": 2, "encoding": "gzip+base64", "records": STANDARD.encode(records)});
            template.replacen(PLACE, &data.to_string(), 1)
        }
        None => TEXT.replacen(PLACE, &text_of(run), 1),
    }
}

fn compressed(run: &WholeRun) -> io::Result<Vec<u8>> {
    let mut lines = GzBuilder::new().mtime(0).write(Vec::new(), Compression::default());
    let mut view = RunView::with_changes();
    for record in run.records() {
        view.fold(record.into());
        serde_json::to_writer(&mut lines, &RecordedChange { record, view: view.changes() })?;
        lines.write_all(b"\n")?;
    }
    lines.finish()
}

/// Returns the tree and each call in full, escaped.
fn text_of(run: &WholeRun) -> String {
    let mut text = String::new();
    let add = |text: &mut String, lines: Vec<Line>| {
        for line in lines {
            escape(&line.to_string(), text);
            text.push('\n');
        }
    };
    add(&mut text, render(run.tree(), None));
    let mut left: Vec<&CallNode> = run.tree().calls.iter().rev().collect();
    while let Some(call) = left.pop() {
        text.push_str("\n\n");
        add(&mut text, render_call(run, &run.whole(call)));
        left.extend(call.calls.iter().rev());
    }
    text
}

/// Appends a text as the content of an element.
fn escape(text: &str, to: &mut String) {
    for char in text.chars() {
        match char {
            '&' => to.push_str("&amp;"),
            '<' => to.push_str("&lt;"),
            '>' => to.push_str("&gt;"),
            char => to.push(char),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Journal;
    use flate2::read::GzDecoder;
    use std::io::Read;

    #[test]
    fn the_records_can_be_read_from_the_page() {
        let hostile = r#"{"seq":0,"at_ms":1,"path":"0","step":"note.x","kind":"note","text":"</script><script>__LLM_DO_RUN__"}"#;
        let mut journal = Journal::default();
        let record =
            crate::parse_line(hostile.as_bytes(), &std::collections::HashMap::<String, Vec<u8>>::new())
                .expect("a record");
        journal.push(record, hostile.len() as u64).expect("the first");
        let run = WholeRun::of("20261123-000000-0000", journal, false);
        let page = page(&run, Some("<script>__LLM_DO_RUN__</script>"));
        let data =
            page.strip_prefix("<script>").and_then(|rest| rest.strip_suffix("</script>")).expect("the place");
        let data: serde_json::Value = serde_json::from_str(data).expect("JSON");
        let bytes = STANDARD.decode(data["records"].as_str().expect("text")).expect("Base64");
        let mut text = String::new();
        GzDecoder::new(&bytes[..]).read_to_string(&mut text).expect("gzip");
        assert_eq!(text.lines().count(), 1);
        assert!(text.contains("</script><script>__LLM_DO_RUN__"), "{text}");
    }
}
