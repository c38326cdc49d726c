//! Canonical spellings of keys: those of a table, at every depth.

use crate::tool_rules;
use llm_do_program::{
    shape::{Key, Shape, snake_case},
    yaml::{Data, Entry, Node},
};

/// Renames and converts known keys and removes unknown ones. Returns true if anything changed.
pub(super) fn canonical(
    node: &mut Node,
    table: &'static [Key],
    path: &str,
    left: &mut Vec<(String, Entry)>,
) -> bool {
    let Data::Map(entries) = &mut node.data else { return false };
    let mut changed = false;
    let mut kept: Vec<Entry> = Vec::with_capacity(entries.len());
    let written: Vec<String> = entries.iter().map(|entry| entry.key.clone()).collect();
    for mut entry in std::mem::take(entries) {
        if entry.key.starts_with("x-") {
            kept.push(entry);
            continue;
        }
        let snake = snake_case(&entry.key);
        let known = table.iter().find(|key| {
            key.name == entry.key || key.aliases.contains(&entry.key.as_str()) || key.name == snake
        });
        let here = if path.is_empty() { entry.key.clone() } else { format!("{path}.{}", entry.key) };
        let Some(key) = known else {
            left.push((here, entry));
            changed = true;
            continue;
        };
        // The key has both names with different values; only the author can choose.
        if entry.key != key.name && !written.iter().any(|other| other == key.name) {
            entry.key = key.name.to_owned();
            changed = true;
        }
        if let (Data::Flag(asks), true) = (&entry.value.data, key.name.ends_with("_approval")) {
            let rule = if *asks { "ask" } else { "preApproved" };
            entry.value = Node { span: entry.value.span.clone(), data: Data::Text(rule.into()) };
            changed = true;
        }
        changed |= fit(&mut entry.value, &key.shape, &here, left);
        kept.push(entry);
    }
    node.data = Data::Map(kept);
    changed
}

fn fit(value: &mut Node, shape: &'static Shape, path: &str, left: &mut Vec<(String, Entry)>) -> bool {
    if !matches!(value.data, Data::Map(_)) {
        return false;
    }
    match shape {
        Shape::Record(table) => canonical(value, table, path, left),
        Shape::Map(inner) => {
            let Data::Map(entries) = &mut value.data else { return false };
            let mut changed = false;
            for entry in entries {
                changed |= fit(&mut entry.value, inner, &format!("{path}.{}", entry.key), left);
            }
            changed
        }
        Shape::Either(shapes) => {
            let fitting = shapes
                .iter()
                .find(|shape| matches!(shape, Shape::Record(_) | Shape::Map(_)))
                .or_else(|| shapes.iter().find(|shape| matches!(shape, Shape::Rule)));
            fitting.is_some_and(|shape| fit(value, shape, path, left))
        }
        Shape::Rule | Shape::Approval => match tool_rules::rule(value) {
            Some(rule) => {
                *value = Node { span: value.span.clone(), data: Data::Text(rule.into()) };
                true
            }
            None => false,
        },
        _ => false,
    }
}
