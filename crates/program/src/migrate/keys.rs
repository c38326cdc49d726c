//! Older keys of workers, and older spellings of all keys.

use super::{
    Findings, Form, LEFT_OVER,
    draft::{Draft, is_yaml},
    get_mut, made, made_entry, made_text, map_at,
    names::Names,
    take, tool_rules, toolsets,
};
use crate::{
    keys::{MOUNT, WORKER},
    shape::{Key, Shape, snake_case},
    span::Span,
    yaml::{Data, Entry, Node},
};

/// Makes a worker's keys canonical.
pub(super) fn worker(draft: &mut Draft, names: &Names, findings: &mut Findings) {
    names.settle_name(draft, findings);
    if let Some(entry) = take(&mut draft.keys, "entry") {
        draft.is_entry = entry.value.as_flag() == Some(true);
        findings.forms.insert(Form::Keys);
    }
    models(draft, findings);
    let had_files = sandboxes(draft, findings) | tool_rules::convert(draft, findings);
    let implied = is_yaml(&draft.path)
        && draft.keys.get("toolsets").is_none()
        && draft.keys.get("sandbox").is_some_and(|sandbox| sandbox.get("paths").is_some());
    toolsets::convert(draft, names, findings);
    if had_files || implied {
        file_tools(draft, findings);
    }
    server_side_tools(draft, findings);
    canonical_keys(draft, WORKER, findings);
    for key in ["allow_workers", "imports"] {
        match get_mut(&mut draft.keys, key) {
            Some(node) if key == "imports" => {
                if let Some(workers) = get_mut(node, "workers") {
                    names.rewrite(workers);
                }
            }
            Some(node) => names.rewrite(node),
            None => {}
        }
    }
}

/// Gives all keys that a table knows their names in it, and puts the others aside.
pub(super) fn canonical_keys(draft: &mut Draft, table: &'static [Key], findings: &mut Findings) {
    let mut left = Vec::new();
    if canonical(&mut draft.keys, table, "", &mut left) {
        findings.forms.insert(Form::Keys);
    }
    for (key, entry) in left {
        put_aside(draft, key, entry.value, &entry.key_span, findings);
    }
}

/// Keeps a value without a place, and adds a note.
pub(super) fn put_aside(draft: &mut Draft, key: String, value: Node, span: &Span, findings: &mut Findings) {
    let message = format!("`{key}` has no place in the canonical form, and is kept under `{LEFT_OVER}`");
    findings.lost(draft, span, message);
    draft.leave_over(&key, value);
}

/// Renames and converts known keys and removes unknown ones; whether anything changed.
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

/// `provider:model`, in the names that providers have here.
pub(super) fn models(draft: &mut Draft, findings: &mut Findings) {
    let mut changed = false;
    if let Some(model) = draft.keys.get("model").cloned()
        && let Some(text) = model.as_text()
    {
        match canonical_model(text) {
            Some(new) if new == text => {}
            Some(new) => {
                changed = true;
                if let Some(node) = get_mut(&mut draft.keys, "model") {
                    node.data = Data::Text(new);
                }
            }
            None => {
                let message = format!("the model `{text}` names no provider: write `model: PROVIDER:{text}`");
                findings.lost(draft, &model.span, message);
                take(&mut draft.keys, "model");
                draft.leave_over("model", model);
            }
        }
    }
    let key = match draft.keys.get("compatible_models") {
        Some(_) => "compatible_models",
        None => "compatibleModels",
    };
    if let Some(Node { data: Data::List(items), .. }) = get_mut(&mut draft.keys, key) {
        for item in items {
            if let Data::Text(text) = &mut item.data
                && let Some(new) = canonical_model(text).filter(|new| new != text)
            {
                *text = new;
                changed = true;
            }
        }
    }
    if changed {
        findings.forms.insert(Form::Keys);
    }
}

/// A model's name as it is written here; `None` if it names no provider.
fn canonical_model(text: &str) -> Option<String> {
    const RENAMED: [(&str, &str); 4] = [
        ("google-gla:", "gemini:"),
        ("google-vertex:", "vertex:"),
        ("openai-chat:", "openai:"),
        ("openai-responses:", "openai_resp:"),
    ];
    for (old, new) in RENAMED {
        if let Some(rest) = text.strip_prefix(old) {
            return Some(format!("{new}{rest}"));
        }
    }
    if text.contains(':') {
        return Some(text.to_owned());
    }
    let (provider, model) = text.split_once('/')?;
    let known =
        ["anthropic", "openai", "gemini", "google", "groq", "mistral", "openrouter", "ollama", "deepseek"];
    known.contains(&provider).then(|| format!("{provider}:{model}"))
}

/// `sandboxes: {NAME: {path, mode, …}}` as `sandbox.paths`. Workers with one had file tools.
fn sandboxes(draft: &mut Draft, findings: &mut Findings) -> bool {
    let Some(old) = take(&mut draft.keys, "sandboxes") else { return false };
    findings.forms.insert(Form::Keys);
    let Data::Map(mounts) = old.value.data.clone() else {
        put_aside(draft, "sandboxes".into(), old.value, &old.key_span, findings);
        return false;
    };
    for mut mount in mounts {
        if let Data::Map(entries) = &mut mount.value.data {
            for entry in entries.iter_mut() {
                let new = match entry.key.as_str() {
                    "path" => "root",
                    "allowed_suffixes" | "text_suffixes" => "suffixes",
                    "max_bytes" => "max_file_bytes",
                    _ => continue,
                };
                new.clone_into(&mut entry.key);
            }
            let known = |entry: &Entry| MOUNT.iter().any(|key| key.name == entry.key);
            let (fitting, others): (Vec<Entry>, Vec<Entry>) = entries.drain(..).partition(known);
            *entries = fitting;
            for other in others {
                let key = format!("sandboxes.{}.{}", mount.key, other.key);
                put_aside(draft, key, other.value, &other.key_span, findings);
            }
        }
        let paths = map_at(&mut draft.keys, "sandbox").and_then(|sandbox| map_at(sandbox, "paths"));
        if let Some(Data::Map(paths)) = paths.map(|paths| &mut paths.data)
            && !paths.iter().any(|known| known.key == mount.key)
        {
            // New in its place: the old text stays behind with the old key.
            paths.push(made_entry(mount.key, mount.value));
        }
    }
    true
}

/// The toolset `filesystem`, for a worker that had file tools because it had a sandbox.
fn file_tools(draft: &mut Draft, findings: &mut Findings) {
    if draft.keys.get("toolsets").is_some_and(|toolsets| toolsets.get("filesystem").is_some()) {
        return;
    }
    if let Some(toolsets) = map_at(&mut draft.keys, "toolsets")
        && let Data::Map(entries) = &mut toolsets.data
    {
        entries.push(made_entry("filesystem", made(Data::Map(Vec::new()))));
        let place = draft.before().span.clone();
        findings.info(draft, &place, "now has the toolset `filesystem`: a sandbox used to include its tools");
    }
}

/// `{name: web_search, config: {…}}` as `{tool_type: web_search, …}`.
fn server_side_tools(draft: &mut Draft, findings: &mut Findings) {
    let key = match draft.keys.get("server_side_tools") {
        Some(_) => "server_side_tools",
        None => "serverSideTools",
    };
    let Some(Node { data: Data::List(items), .. }) = get_mut(&mut draft.keys, key) else { return };
    if items.is_empty() {
        take(&mut draft.keys, key);
        return;
    }
    for item in items {
        if item.get("tool_type").is_some() {
            continue;
        }
        let Some(name) = item.get("name").and_then(Node::as_text).map(str::to_owned) else { continue };
        let mut entries = vec![made_entry("tool_type", made_text(name))];
        entries.extend(item.get("config").map(Node::entries).unwrap_or_default().iter().cloned());
        *item = made(Data::Map(entries));
        findings.forms.insert(Form::Keys);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_get_the_names_that_providers_have_here() {
        for (old, new) in [
            ("anthropic:claude", Some("anthropic:claude")),
            ("google-gla:gemini-*", Some("gemini:gemini-*")),
            ("anthropic/claude-3", Some("anthropic:claude-3")),
            ("openrouter/openai/gpt", Some("openrouter:openai/gpt")),
            ("claude-haiku", None),
            ("somebody/else", None),
        ] {
            assert_eq!(canonical_model(old).as_deref(), new, "{old}");
        }
    }
}
