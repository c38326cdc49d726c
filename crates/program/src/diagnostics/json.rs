//! Findings for programs: the JSON form of SPEC §5.

use super::Diagnostic;
use crate::span::Span;
use serde_json::{Map, Value, json};

/// `{"diagnostics": [...]}`. Fields are only ever added.
pub fn to_json(diagnostics: &[Diagnostic]) -> Value {
    json!({ "diagnostics": diagnostics.iter().map(one).collect::<Vec<_>>() })
}

fn one(diagnostic: &Diagnostic) -> Value {
    let mut out = Map::new();
    out.insert("code".into(), diagnostic.code.id.into());
    out.insert("severity".into(), diagnostic.severity.to_string().into());
    out.insert("message".into(), diagnostic.message.clone().into());
    place(&mut out, diagnostic.span.as_ref());
    out.insert("label".into(), diagnostic.label.clone().into());
    out.insert("notes".into(), diagnostic.notes.clone().into());
    out.insert("help".into(), diagnostic.help.clone().into());
    out.insert("nearest".into(), diagnostic.nearest.clone().into());
    let related = diagnostic.related.iter().map(|related| {
        let mut out = Map::new();
        out.insert("message".into(), related.message.clone().into());
        place(&mut out, Some(&related.span));
        Value::Object(out)
    });
    out.insert("related".into(), related.collect());
    Value::Object(out)
}

fn place(out: &mut Map<String, Value>, span: Option<&Span>) {
    let position = span.and_then(Span::line_column);
    out.insert("file".into(), span.map(|span| span.file().path().to_string()).into());
    out.insert("line".into(), position.map(|(line, _)| line).into());
    out.insert("column".into(), position.map(|(_, column)| column).into());
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
        assert_eq!(first["help"][0], "did you mean `model`?");
        assert_eq!(first["related"], json!([]));
    }
}
