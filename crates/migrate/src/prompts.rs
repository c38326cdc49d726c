//! Workers in YAML, with instructions under `instructions:` or in `prompts/`.

use crate::{
    Absorbed, Findings, Form, Weight,
    draft::{Draft, is_yaml},
    golem,
    inventory::Inventory,
    place::Layout,
    take,
};
use llm_do_program::{
    front_matter,
    source::SourceTree,
    yaml::{Data, Node},
};
use std::collections::{BTreeMap, BTreeSet};

/// Extensions of prompts.
const EXTENSIONS: [&str; 5] = ["jinja2", "j2", "jinja", "txt", "md"];

/// Keys that only a worker has.
const TELLING: [&str; 12] = [
    "instructions",
    "model",
    "toolsets",
    "tool_rules",
    "allow_workers",
    "sandboxes",
    "attachment_policy",
    "compatible_models",
    "output_schema_ref",
    "shell_rules",
    "parameters",
    "server_side_tools",
];

/// Returns true if a YAML file is a worker rather than other data.
pub(super) fn is_worker(draft: &Draft, inventory: &Inventory, flat: bool) -> bool {
    if draft.was_wrapped {
        return true;
    }
    let named = draft.keys.get("name").is_some() || draft.keys.get("description").is_some();
    let telling = draft
        .keys
        .entries()
        .iter()
        .any(|entry| TELLING.contains(&llm_do_program::shape::snake_case(&entry.key).as_str()));
    let prompted = EXTENSIONS.iter().any(|e| inventory.has(&format!("prompts/{}.{e}", draft.stem())));
    let at_home =
        flat || golem::is_rooted(&draft.path) || draft.path == "main.yaml" || draft.path == "main.yml";
    at_home && (draft.keys.get("instructions").is_some() || prompted || (named && telling))
}

/// Puts a worker's instructions behind its front matter.
pub(super) fn take_in(
    tree: &dyn SourceTree,
    inventory: &Inventory,
    layout: &Layout,
    mentions: &Mentions,
    draft: &mut Draft,
    absorbed: &mut Vec<Absorbed>,
    findings: &mut Findings,
) {
    if draft.new_body.as_deref().is_some_and(|body| !body.trim().is_empty()) {
        return;
    }
    if let Some(text) = draft.keys.get("instructions").and_then(Node::as_text).map(str::to_owned) {
        take(&mut draft.keys, "instructions");
        // A file ends with its last line's end.
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        draft.new_body = Some(format!("{text}{end}"));
        return;
    }
    if draft.keys.get("instructions").is_some_and(|node| node.data != Data::Null) || !is_yaml(&draft.path) {
        return;
    }
    let mut names = vec![layout.old_id(&draft.path)];
    names.extend(draft.before().get("name").and_then(Node::as_text).map(str::to_owned));
    names.dedup();
    let there: Vec<String> = names
        .iter()
        .flat_map(|name| EXTENSIONS.map(|e| format!("{}/{name}.{e}", layout.prompts_root)))
        .filter(|path| inventory.has(path))
        .collect();
    let [prompt] = there.as_slice() else {
        let message = match there.as_slice() {
            [] => "has no instructions, neither in the file nor under `prompts/`".to_owned(),
            several => format!(
                "may have its instructions in {}: put the right ones behind its front matter",
                several.join(" or ")
            ),
        };
        findings.note(Weight::Lost, Some(&draft.path), None, message);
        return;
    };
    let text = match front_matter::read(tree, prompt) {
        Ok(file) => file,
        Err(error) => {
            findings.note(Weight::Lost, Some(prompt), None, format!("cannot be read: {}", error.message));
            return;
        }
    };
    findings.forms.insert(Form::YamlWorkers);
    if mentions.is_named_elsewhere(prompt) {
        // Others include it: it stays, and so does what it says.
        let below = prompt.strip_prefix(&format!("{}/", layout.prompts_root)).unwrap_or(prompt);
        draft.new_body = Some(format!("{{% include {} %}}\n", serde_json::Value::from(below)));
        findings.note(Weight::Info, Some(prompt), None, "stays, because other templates use it");
        return;
    }
    let body = text.text().strip_prefix('\u{feff}').unwrap_or(text.text());
    let plain = prompt.ends_with(".txt") || prompt.ends_with(".md");
    if plain && ["{{", "{%", "{#"].iter().any(|mark| body.contains(mark)) {
        let message = "was plain text, and is a template now: look at its braces";
        findings.note(Weight::Lost, Some(prompt), None, message);
    }
    draft.new_body = Some(body.to_owned());
    absorbed.push(Absorbed { path: prompt.clone(), into: draft.to.clone(), text: text.text().clone() });
}

/// The texts that mention each prompt, by the file name of the prompt.
#[derive(Debug, Default)]
pub(super) struct Mentions {
    by_name: BTreeMap<String, BTreeSet<String>>,
}

impl Mentions {
    /// Reads every template and worker once.
    pub(super) fn read(tree: &dyn SourceTree, inventory: &Inventory, layout: &Layout) -> Self {
        let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        let mut by_name: BTreeMap<String, BTreeSet<String>> =
            inventory.below(&layout.prompts_root).map(|path| (name(path), BTreeSet::new())).collect();
        if by_name.is_empty() {
            return Self::default();
        }
        let is_text = |path: &&String| {
            let prompt = path.strip_prefix(&layout.prompts_root).is_some_and(|rest| rest.starts_with('/'));
            prompt || path.ends_with(".worker") || is_yaml(path) || path.contains("templates/")
        };
        for path in inventory.files.iter().filter(is_text) {
            let Ok(file) = front_matter::read(tree, path) else { continue };
            for word in file.text().split(|c: char| !is_of_name(c)) {
                if let Some(paths) = by_name.get_mut(word) {
                    paths.insert(path.clone());
                }
            }
        }
        Self { by_name }
    }

    /// Returns true if a text other than the prompt's own names it.
    fn is_named_elsewhere(&self, prompt: &str) -> bool {
        let name = prompt.rsplit('/').next().unwrap_or(prompt);
        // A name without clear boundaries may be anywhere in the text.
        !name.chars().all(is_of_name)
            || self.by_name.get(name).is_some_and(|paths| paths.iter().any(|path| path != prompt))
    }
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || "_-.".contains(c)
}
