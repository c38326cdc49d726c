//! Values, texts and diffs as markup.

use super::markup::Markup;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use llm_do_core::{function::Preview, model::Blob};
use serde_json::Value;
use similar::{ChangeTag, TextDiff};
use std::time::Duration;

/// Images that every browser shows and none runs code of.
const IMAGES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Bytes of JSON that stand on one line.
const SHORT: usize = 80;

/// A value as people read it: a text as it is, an object's fields under their names, anything else as JSON.
pub(super) fn value(m: &mut Markup, value: &Value) {
    match value {
        Value::Object(fields) if !fields.is_empty() => m.class("dl", "fields", |m| {
            for (name, field) in fields {
                m.worded("dt", "mono", name);
                m.with("dd", &[], |m| match field {
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

/// A text with its lines as they are.
pub(super) fn text_block(m: &mut Markup, text: &str) {
    if text.is_empty() {
        m.ours("<span class=\"dim\">(empty)</span>");
    } else {
        m.worded("pre", "text", text);
    }
}

/// JSON, on one line if that is short, else indented.
pub(super) fn json_block(m: &mut Markup, value: &Value) {
    let depth = (value.to_string().len() > SHORT).then_some(0);
    m.class("pre", "json", |m| json(m, value, depth));
}

/// `depth`: how far it is indented; all on one line without it.
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

/// What a call would do to a file.
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
        let (old, new) = (before.as_deref().unwrap_or_default(), after.as_deref().unwrap_or_default());
        if old == new {
            m.ours("<p class=\"dim\">no change</p>");
            return;
        }
        // A diff of two long, unlike texts becomes coarse rather than slow.
        let diff = TextDiff::configure().timeout(Duration::from_millis(300)).diff_lines(old, new);
        m.class("pre", "lines", |m| {
            let mut unified = diff.unified_diff();
            for hunk in unified.context_radius(3).iter_hunks() {
                m.worded("span", "hunk", &hunk.header().to_string());
                m.ours("\n");
                for change in hunk.iter_changes() {
                    let (class, sign) = match change.tag() {
                        ChangeTag::Delete => ("removed", "-"),
                        ChangeTag::Insert => ("added", "+"),
                        ChangeTag::Equal => ("same", " "),
                    };
                    m.class("span", class, |m| {
                        m.ours(sign);
                        m.text(change.value().trim_end_matches(['\n', '\r']));
                    });
                    m.ours("\n");
                    if change.missing_newline() {
                        m.ours("<span class=\"dim\">\\ no newline at the end</span>\n");
                    }
                }
            }
        });
    });
}

/// A file that a model was given or a tool returned: an image is shown, of others is said what they are.
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
