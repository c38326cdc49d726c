//! Older keys of workers, and older spellings of all keys.

use crate::{
    Findings, Form,
    canonical::canonical,
    draft::{Draft, is_yaml},
    get_mut, made, made_entry, made_text, map_at,
    names::Names,
    take, tool_rules, toolsets,
};
use llm_do_program::{
    keys::{MOUNT, WORKER},
    shape::Key,
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

/// Gives all keys of a table their canonical names, and puts the others aside.
pub(super) fn canonical_keys(draft: &mut Draft, table: &'static [Key], findings: &mut Findings) {
    let mut left = Vec::new();
    if canonical(&mut draft.keys, table, "", &mut left) {
        findings.forms.insert(Form::Keys);
    }
    for (key, entry) in left {
        draft.put_aside(&key, entry.value, &entry.key_span, findings);
    }
}

/// Converts `provider:model` to the current names of providers.
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

/// Returns a model's name in the current form, or `None` if it names no provider.
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

/// Converts `sandboxes: {NAME: {path, mode, …}}` to `sandbox.paths`. Workers with such a key had file tools.
fn sandboxes(draft: &mut Draft, findings: &mut Findings) -> bool {
    let Some(old) = take(&mut draft.keys, "sandboxes") else { return false };
    findings.forms.insert(Form::Keys);
    let Data::Map(mounts) = old.value.data.clone() else {
        draft.put_aside("sandboxes", old.value, &old.key_span, findings);
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
                draft.put_aside(&key, other.value, &other.key_span, findings);
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

/// Adds the toolset `filesystem` to a worker that had file tools because it had a sandbox.
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

/// Converts `{name: web_search, config: {…}}` to `{tool_type: web_search, …}`.
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
