//! Values, texts and diffs as markup.

use super::markup::Markup;
use crate::diff::{DiffLine, NO_NEWLINE, Side, hunks};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use llm_do_core::{function::Preview, model::Blob};
use serde_json::Value;

/// Types of images that every browser shows and that contain no code.
const IMAGES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Longest JSON on one line, in bytes.
const SHORT: usize = 80;

/// Writes a value for people: a text as it is, an object's fields under their names, other values as JSON.
pub(super) fn value(m: &mut Markup, value: &Value) {
    match value {
        Value::Object(fields) if !fields.is_empty() => m.with("dl", &[], |m| {
            for (name, field) in fields {
                m.with("dt", &[], |m| m.text(name));
                m.with("dd", &[], |m| match field {
                    Value::String(text) if is_word(text) => m.text(text),
                    Value::String(text) => text_block(m, text),
                    other => json_block(m, other),
                });
            }
        }),
        Value::Object(_) => m.ours("<p class=\"dim\">(nothing)</p>"),
        Value::String(text) => text_block(m, text),
        other => json_block(m, other),
    }
}

/// Returns true if a text needs no frame: it is one short line.
fn is_word(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= SHORT && !text.contains(['\n', '\r'])
}

/// Writes a text with its lines as they are.
pub(super) fn text_block(m: &mut Markup, text: &str) {
    if text.is_empty() {
        m.ours("<span class=\"dim\">(empty)</span>");
    } else {
        m.with("pre", &[], |m| m.text(text));
    }
}

/// Writes JSON, on one line if that is short, else indented.
pub(super) fn json_block(m: &mut Markup, value: &Value) {
    let depth = (value.to_string().len() > SHORT).then_some(0);
    m.class("pre", "json", |m| json(m, value, depth));
}

/// Writes JSON. `depth`: the indentation; without it, all is on one line.
fn json(m: &mut Markup, value: &Value, depth: Option<usize>) {
    let deeper = depth.map(|depth| depth + 1);
    let indent = |m: &mut Markup, depth: Option<usize>| {
        if let Some(depth) = depth {
            m.ours("\n");
            (0..depth).for_each(|_| m.ours("  "));
        }
    };
    let comma = |m: &mut Markup| m.ours(if depth.is_some() { "," } else { ", " });
    match value {
        Value::Array(items) if !items.is_empty() => {
            m.ours("[");
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    comma(m);
                }
                indent(m, deeper);
                json(m, item, deeper);
            }
            indent(m, depth);
            m.ours("]");
        }
        Value::Object(fields) if !fields.is_empty() => {
            m.ours("{");
            for (index, (name, field)) in fields.iter().enumerate() {
                if index > 0 {
                    comma(m);
                }
                indent(m, deeper);
                m.worded("span", "key", &Value::from(name.as_str()).to_string());
                m.ours(": ");
                json(m, field, deeper);
            }
            indent(m, depth);
            m.ours("}");
        }
        Value::String(_) => m.worded("span", "string", &value.to_string()),
        scalar => m.worded("span", "scalar", &scalar.to_string()),
    }
}

/// Writes the change that a call would make to a file.
pub(super) fn preview(m: &mut Markup, preview: &Preview) {
    let Preview::Change { path, before, after } = preview;
    m.class("figure", "diff", |m| {
        m.class("figcaption", "mono", |m| {
            m.text(path);
            match (before, after) {
                (None, _) => m.ours(" <span class=\"dim\">new file</span>"),
                (_, None) => m.ours(" <span class=\"dim\">removed</span>"),
                _ => {}
            }
        });
        let (before, after) = (before.as_deref().unwrap_or_default(), after.as_deref().unwrap_or_default());
        let hunks = hunks(before, after, None);
        if hunks.is_empty() {
            m.ours("<p class=\"dim\">no change</p>");
            return;
        }
        m.class("pre", "lines", |m| {
            let mut line = |class, text: &str| {
                m.worded("span", class, text);
                m.ours("\n");
            };
            for hunk in hunks {
                line("hunk", &hunk.header);
                for DiffLine { side, text, ended, .. } in hunk.lines {
                    let (class, sign) = match side {
                        Side::Before => ("removed", '-'),
                        Side::After => ("added", '+'),
                        Side::Both => ("same", ' '),
                    };
                    line(class, &format!("{sign}{}", text.trim_end_matches('\r')));
                    if !ended {
                        line("dim", NO_NEWLINE);
                    }
                }
            }
        });
    });
}

/// Writes a file that a model was given or a tool returned: images are shown, other files are described.
pub(super) fn blob(m: &mut Markup, blob: &Blob) {
    m.class("figure", "blob", |m| {
        let about = format!("{} · {} · {} bytes", blob.name, blob.media_type, blob.data.len());
        if let Some(media_type) = IMAGES.iter().find(|known| **known == &*blob.media_type) {
            let source = format!("data:{media_type};base64,{}", STANDARD.encode(&blob.data));
            m.start("img", &[("src", &source), ("alt", &blob.name), ("loading", "lazy")]);
        }
        m.worded("figcaption", "dim", &about);
    });
}
