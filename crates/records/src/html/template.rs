//! A run in the page that the web app is built into (`web/`), as one file.

use crate::{
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

/// A record with the changes that it makes to the view of the run.
#[derive(Serialize)]
struct Line<'a> {
    record: &'a Record,
    view: RunChanges<'a>,
}

/// Makes the page of a run from the web app's template. The records and the changes that each makes to the view replace
/// the template's placeholder, compressed.
///
/// Base64 has no character that could end the script element around it, whatever the run contains.
pub fn page_from(template: &str, run: &WholeRun) -> String {
    // Compressing into memory does not fail.
    let records = compressed(run).unwrap_or_default();
    let data = json!({"format": 2, "encoding": "gzip+base64", "records": STANDARD.encode(records)});
    template.replacen(PLACE, &data.to_string(), 1)
}

fn compressed(run: &WholeRun) -> io::Result<Vec<u8>> {
    let mut lines = GzBuilder::new().mtime(0).write(Vec::new(), Compression::default());
    let mut view = RunView::with_changes();
    for record in run.records() {
        view.fold(record.into());
        serde_json::to_writer(&mut lines, &Line { record, view: view.changes() })?;
        lines.write_all(b"\n")?;
    }
    lines.finish()
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
        let page = page_from("<script>__LLM_DO_RUN__</script>", &run);
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
