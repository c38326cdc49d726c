//! Findings as SARIF 2.1.0 (OASIS), the interchange format of static analysis, for code hosts and editors.
//!
//! Paths are relative to the program's root, which is the base `PROGRAM`. Columns count code points, as in the other
//! formats. There is no `helpUri`: each rule contains its page as help.

use super::{Code, Diagnostic, Edit, Fix, Severity};
use crate::span::Span;
use serde_json::{Map, Value, json};

/// The base to which paths are relative.
const ROOT: &str = "PROGRAM";

/// Converts findings to a log with one run. `version` is the version of llm-do; `root` is the program's root as a
/// `file:` URI with a trailing slash, if known.
pub fn to_sarif(diagnostics: &[Diagnostic], version: &str, root: Option<&str>) -> Value {
    let mut rules: Vec<Code> = Vec::new();
    for diagnostic in diagnostics {
        if !rules.contains(&diagnostic.code) {
            rules.push(diagnostic.code);
        }
    }
    rules.sort_unstable();
    let results: Vec<Value> = diagnostics.iter().map(|one| result(one, &rules)).collect();
    let mut run = json!({
        "tool": { "driver": {
            "name": "llm-do",
            "semanticVersion": version,
            "rules": rules.iter().map(|code| rule(*code)).collect::<Vec<_>>(),
        } },
        "columnKind": "unicodeCodePoints",
        "results": results,
    });
    let description = json!({ "text": "The root of the program that was checked." });
    run["originalUriBaseIds"] = match root {
        Some(uri) => json!({ ROOT: { "uri": uri, "description": description } }),
        None => json!({ ROOT: { "description": description } }),
    };
    json!({ "$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run] })
}

fn rule(code: Code) -> Value {
    let page = code.page();
    let level = if code.id.starts_with('W') { "warning" } else { "error" };
    json!({
        "id": code.id,
        "shortDescription": { "text": code.title },
        "help": { "text": page, "markdown": page },
        "defaultConfiguration": { "level": level },
    })
}

fn result(diagnostic: &Diagnostic, rules: &[Code]) -> Value {
    let mut out = Map::new();
    out.insert("ruleId".into(), diagnostic.code.id.into());
    if let Some(index) = rules.iter().position(|code| *code == diagnostic.code) {
        out.insert("ruleIndex".into(), index.into());
    }
    let level = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    out.insert("level".into(), level.into());
    out.insert("message".into(), json!({ "text": message(diagnostic) }));
    if let Some(span) = &diagnostic.span {
        out.insert(
            "locations".into(),
            json!([{ "physicalLocation": place(span, diagnostic.label.as_deref()) }]),
        );
    }
    if !diagnostic.related.is_empty() {
        let related = diagnostic.related.iter().enumerate().map(|(i, related)| {
            json!({ "id": i + 1, "message": { "text": related.message }, "physicalLocation": place(&related.span, None) })
        });
        out.insert("relatedLocations".into(), related.collect());
    }
    if let Some(fix) = &diagnostic.fix {
        out.insert("fixes".into(), json!([change(fix)]));
    }
    Value::Object(out)
}

/// Formats the message, followed by the notes and help.
fn message(diagnostic: &Diagnostic) -> String {
    let rest = diagnostic.notes.iter().chain(&diagnostic.help);
    rest.fold(diagnostic.message.clone(), |text, line| format!("{text}\n{line}"))
}

fn place(span: &Span, label: Option<&str>) -> Value {
    let mut out = json!({ "artifactLocation": artifact(span) });
    if let Some(mut region) = region(span) {
        if let Some(label) = label {
            region["message"] = json!({ "text": label });
        }
        out["region"] = region;
    }
    out
}

fn artifact(span: &Span) -> Value {
    let path = span.file().path();
    let uri = percent_encoded(path);
    // Files outside the root have absolute paths.
    if path.starts_with('/') {
        json!({ "uri": format!("file://{uri}") })
    } else {
        json!({ "uri": uri, "uriBaseId": ROOT })
    }
}

/// Returns the region from the first character to behind the last, or `None` for a whole file.
fn region(span: &Span) -> Option<Value> {
    let (line, column) = span.line_column()?;
    let range = span.range()?;
    let end = Span::new(span.file(), range.end..range.end);
    let (end_line, end_column) = end.line_column()?;
    Some(json!({ "startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column }))
}

fn change(fix: &Fix) -> Value {
    let replacement = |edit: &Edit| json!({ "deletedRegion": region(&edit.span), "insertedContent": { "text": edit.text } });
    let artifact = fix.edits.first().map(|edit| artifact(&edit.span));
    json!({
        "description": { "text": fix.title },
        "artifactChanges": [{
            "artifactLocation": artifact,
            "replacements": fix.edits.iter().map(replacement).collect::<Vec<_>>(),
        }],
    })
}

/// Converts a path to a URI reference: escapes everything but unreserved characters and slashes.
pub fn percent_encoded(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{diagnostics::codes, span::SourceFile};

    #[test]
    fn places_count_code_points_and_paths_are_uris() {
        let file = SourceFile::new("wörk ers/a.worker", "---\n\"😀\": 5\n---\n");
        let found = Diagnostic::error(codes::UNKNOWN_KEY, "unknown key")
            .at(&Span::new(&file, 4..10))
            .help("remove it");
        let log = to_sarif(&[found], "0.1.0", None);
        let result = &log["runs"][0]["results"][0];
        assert_eq!(result["message"]["text"], "unknown key\nremove it");
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(
            place["artifactLocation"],
            json!({"uri": "w%C3%B6rk%20ers/a.worker", "uriBaseId": "PROGRAM"})
        );
        assert_eq!(place["region"], json!({"startLine": 2, "startColumn": 1, "endLine": 2, "endColumn": 4}));
        assert_eq!(log["runs"][0]["tool"]["driver"]["rules"][0]["id"], "E0201");
    }
}
