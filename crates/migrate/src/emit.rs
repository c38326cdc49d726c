//! Values as YAML text, for files that migration writes from scratch.

use llm_do_program::{
    span::SourceFile,
    yaml::{self, Data, Entry, Node},
};

/// The longest list that is written on one line, in characters.
const LINE: usize = 72;

/// Formats an entry of a block map, with a newline after each line, indented by `indent` spaces.
pub(super) fn entry(key: &str, value: &Node, indent: usize) -> String {
    format!("{:indent$}{}:{}\n", "", text(key, false), after_colon(value, indent))
}

/// Formats all entries of a map.
pub(super) fn map(entries: &[Entry], indent: usize) -> String {
    entries.iter().map(|e| entry(&e.key, &e.value, indent)).collect()
}

/// Formats the text after `key:` in a block map whose keys have this indentation, without the last newline.
pub(super) fn after_colon(value: &Node, indent: usize) -> String {
    let deeper = indent + 2;
    match &value.data {
        Data::Map(entries) if !entries.is_empty() => {
            format!("\n{}", map(entries, deeper).trim_end_matches('\n'))
        }
        Data::List(items) if !items.is_empty() => {
            let line = flow(value);
            let simple = items.iter().all(|item| !matches!(item.data, Data::Map(_) | Data::List(_)));
            if simple && line.len() <= LINE {
                return format!(" {line}");
            }
            let mut out = String::new();
            for item in items {
                out.push_str(&format!("\n{:deeper$}-{}", "", item_text(item, deeper)));
            }
            out
        }
        Data::Text(written) => match literal(written, deeper) {
            Some(block) => format!(" {block}"),
            None => format!(" {}", text(written, false)),
        },
        _ => format!(" {}", flow(value)),
    }
}

/// Formats the text after `-`, where the dash has this indentation.
fn item_text(item: &Node, indent: usize) -> String {
    match &item.data {
        Data::Map(entries) if !entries.is_empty() => {
            let block = map(entries, indent + 2);
            format!(" {}", block.trim_start().trim_end_matches('\n'))
        }
        _ => format!(" {}", flow(item)),
    }
}

/// Formats a value on one line.
pub(super) fn flow(value: &Node) -> String {
    match &value.data {
        Data::Null => "null".into(),
        Data::Flag(flag) => flag.to_string(),
        Data::Number(number) => number.to_string(),
        Data::Text(written) => text(written, true),
        Data::List(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Data::Map(entries) => {
            let pairs: Vec<String> =
                entries.iter().map(|e| format!("{}: {}", text(&e.key, true), flow(&e.value))).collect();
            format!("{{{}}}", pairs.join(", "))
        }
    }
}

/// Formats a text as a scalar: plain if it is read back as the same text, else in double quotes.
pub(super) fn text(written: &str, in_flow: bool) -> String {
    let plain_start = written.starts_with(|c: char| c.is_alphanumeric() || "_./$".contains(c));
    let breaks = |c: char| c.is_control() || (in_flow && ",[]{}".contains(c)) || "#\"'\\".contains(c);
    if plain_start && written.len() < 200 && !written.contains(breaks) && reads_back(written) {
        return written.to_owned();
    }
    // Strings of JSON are strings of YAML.
    serde_json::Value::from(written).to_string()
}

fn reads_back(written: &str) -> bool {
    let read = |line: String| yaml::parse(&SourceFile::new("", line.as_str()), line.len());
    let as_value = read(format!("x: {written}\n"))
        .is_ok_and(|node| node.get("x").and_then(Node::as_text) == Some(written));
    as_value && read(format!("{written}: 1\n")).is_ok_and(|node| node.get(written).is_some())
}

/// Formats a text of several lines as a literal block, if possible.
fn literal(written: &str, indent: usize) -> Option<String> {
    let body = written.strip_suffix('\n').unwrap_or(written);
    let plain = body.contains('\n')
        && !body.ends_with('\n')
        && !body.starts_with([' ', '\t', '\n'])
        && !body.chars().any(|c| c.is_control() && c != '\n' && c != '\t')
        && !body.contains(['\u{85}', '\u{2028}', '\u{2029}', '\u{feff}']);
    if !plain {
        return None;
    }
    let mark = if written.ends_with('\n') { "|" } else { "|-" };
    let lines: Vec<String> = body
        .lines()
        .map(|line| if line.is_empty() { String::new() } else { format!("{:indent$}{line}", "") })
        .collect();
    Some(format!("{mark}\n{}", lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn node(value: &Value) -> Node {
        let text = value.to_string();
        yaml::parse(&SourceFile::new("x", text.as_str()), text.len()).unwrap()
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-zA-Z0-9 :#,'\"{}|>!&*%@-]{0,12}(\n[ a-z:#-]{0,8}){0,3}\n?".prop_map(Value::from),
            prop_oneof!["true", "null", "yes", "1e3", "~", "- a", "a: b", "<<", "2024-01-01"]
                .prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[a-z_. :]{1,6}", inner), 0..4)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    #[test]
    fn what_is_written_looks_as_people_write_it() {
        let value = json!({
            "description": "It: does", "tools": ["a", "b"], "paths": {"in": {"root": "./in"}}, "n": 1, "none": {},
            "rules": [{"pattern": "git log", "approval_required": false}, {"pattern": "ls"}],
            "text": "one\n  two\n", "version": "1.0",
        });
        let expected = "description: \"It: does\"\ntools: [a, b]\npaths:\n  in:\n    root: ./in\nn: 1\nnone: {}\n\
            rules:\n  - pattern: git log\n    approval_required: false\n  - pattern: ls\ntext: |\n  one\n    two\n\
            version: \"1.0\"\n";
        assert_eq!(map(node(&value).entries(), 0), expected);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(value in value()) {
            let whole = json!({"key": value});
            let text = map(node(&whole).entries(), 0);
            let back = yaml::parse(&SourceFile::new("x", text.as_str()), text.len());
            prop_assert_eq!(back.unwrap_or_else(|error| panic!("{error}: {text}")).to_json(), whole, "{}", text);
        }
    }
}
