//! Findings as JSON. See `docs/guides/check.md`.

use super::{Diagnostic, Fix};
use crate::{
    line_index::{Columns, LineColumn, LineIndexes},
    span::Span,
};
use serde_json::{Map, Value, json};
use std::ops::Range;

/// Converts findings to `{"diagnostics": [...]}`. Fields are only ever added.
pub fn to_json(diagnostics: &[Diagnostic]) -> Value {
    let mut lines = LineIndexes::default();
    json!({ "diagnostics": diagnostics.iter().map(|found| one(found, &mut lines)).collect::<Vec<_>>() })
}

fn one(diagnostic: &Diagnostic, lines: &mut LineIndexes) -> Value {
    let mut out = Map::new();
    out.insert("code".into(), diagnostic.code.id.into());
    out.insert("severity".into(), diagnostic.severity.to_string().into());
    out.insert("message".into(), diagnostic.message.clone().into());
    place(&mut out, diagnostic.span.as_ref(), lines);
    out.insert("label".into(), diagnostic.label.clone().into());
    out.insert("notes".into(), diagnostic.notes.clone().into());
    out.insert("help".into(), diagnostic.help.clone().into());
    out.insert("nearest".into(), diagnostic.nearest.clone().into());
    let related = diagnostic.related.iter().map(|related| {
        let mut out = Map::new();
        out.insert("message".into(), related.message.clone().into());
        place(&mut out, Some(&related.span), lines);
        Value::Object(out)
    });
    let related = related.collect();
    out.insert("related".into(), related);
    out.insert("fix".into(), diagnostic.fix.as_ref().map(|found| fix(found, lines)).into());
    Value::Object(out)
}

/// Converts a fix. Offsets are bytes of the file, which is UTF-8.
fn fix(fix: &Fix, lines: &mut LineIndexes) -> Value {
    let edits = fix.edits.iter().map(|edit| {
        let mut out = Map::new();
        place(&mut out, Some(&edit.span), lines);
        let range = edit.span.range().unwrap_or_default();
        out.insert("start".into(), range.start.into());
        out.insert("end".into(), range.end.into());
        out.insert("text".into(), edit.text.clone().into());
        Value::Object(out)
    });
    json!({ "title": fix.title, "edits": edits.collect::<Vec<_>>() })
}

fn place(out: &mut Map<String, Value>, span: Option<&Span>, lines: &mut LineIndexes) {
    let position = span.and_then(Span::line_column);
    out.insert("file".into(), span.map(|span| span.file().path().to_string()).into());
    out.insert("line".into(), position.map(|(line, _)| line).into());
    out.insert("column".into(), position.map(|(_, column)| column).into());
    let range = span.filter(|span| span.range().is_some()).map(|span| lines.range(span, Columns::Utf16));
    out.insert("range".into(), range.map(editor_range).into());
}

/// Converts a range to the form of the Language Server Protocol.
fn editor_range(range: Range<LineColumn>) -> Value {
    let [start, end] = [range.start, range.end].map(|at| json!({"line": at.line, "character": at.column}));
    json!({"start": start, "end": end})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{diagnostics::codes, span::SourceFile};

    #[test]
    fn the_form_of_the_specification_holds() {
        let file = SourceFile::new("main.worker", "---\nmodle: x\n---\n");
        let found = Diagnostic::error(codes::UNKNOWN_KEY, "unknown key `modle`")
            .at(&Span::new(&file, 4..9))
            .did_you_mean("modle", ["model"]);
        let json = to_json(&[found]);
        let first = &json["diagnostics"][0];
        assert_eq!(first["code"], "E0201");
        assert_eq!((first["file"].as_str(), first["line"].as_u64()), (Some("main.worker"), Some(2)));
        assert_eq!(first["column"], 1);
        let place = |character: u32| json!({"line": 1, "character": character});
        assert_eq!(first["range"], json!({"start": place(0), "end": place(5)}));
        assert_eq!(first["help"][0], "did you mean `model`?");
        assert_eq!((&first["related"], &first["fix"]), (&json!([]), &Value::Null));
    }

    #[test]
    fn a_fix_says_which_bytes_become_what() {
        let file = SourceFile::new("main.worker", "😀: 5\n");
        let found = Diagnostic::error(codes::WRONG_TYPE, "x").fix(Fix::replace(
            "put it in quotes",
            &Span::new(&file, 6..7),
            "\"5\"",
        ));
        assert_eq!(
            to_json(&[found])["diagnostics"][0]["fix"],
            json!({"title": "put it in quotes", "edits": [
                {
                    "file": "main.worker", "line": 1, "column": 4, "start": 6, "end": 7, "text": "\"5\"",
                    "range": {"start": {"line": 0, "character": 4}, "end": {"line": 0, "character": 5}},
                },
            ]})
        );
    }
}
