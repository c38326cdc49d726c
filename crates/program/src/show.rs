//! The output of `llm-do show`: a worker after the merge, each value with its origin.

use crate::{
    effective::Effective,
    keys,
    package::{Package, Packages},
    purity::is_pure,
    shape::{Key, Shape},
    signature::show,
    yaml::{Data, Entry, Node},
};
use llm_do_core::{
    authority::{Access, Network, VirtualPath},
    function::FunctionSource,
    gate::Rule,
    toolset::ToolsetRegistry,
    worker::{CodeModule, Limits, ToolLevel},
};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

/// A worker after the merge.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The ID of the worker in the whole program.
    pub id: Arc<str>,
    /// The file of the worker.
    pub file: Arc<str>,
    /// The signature of the worker: `name(parameter: type)`.
    pub signature: String,
    /// True if the worker has no effects: no mounts, no tool with an effect, no callee with one
    /// (`docs/reference/sandbox.md`).
    pub pure: bool,
    /// The values of the worker, in the order of the key table.
    pub settings: Vec<Setting>,
    /// The place of its instructions: `file:line`. For a worker that is code, the code: `tools.py:main`.
    pub instructions: Arc<str>,
    /// True if the worker is code.
    pub is_code: bool,
    /// The sources of its Python tools, nearest first. The modules are not loaded.
    pub tools: Vec<ShownTools>,
}

/// Python modules at one distance from a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownTools {
    /// `the worker`, `the project`, ``the library `utils` ``.
    pub level: Arc<str>,
    /// The modules: paths relative to the program's root, absolute paths in a library, or `package.module:register`.
    pub modules: Vec<String>,
}

impl ShownTools {
    pub(crate) fn of(levels: &[ToolLevel]) -> Vec<Self> {
        levels
            .iter()
            .map(|level| Self {
                level: Arc::clone(&level.name),
                modules: level.modules.iter().map(|module| shown_module(level, &module.module)).collect(),
            })
            .collect()
    }

    /// Converts the level to `{"level", "modules"}`.
    pub fn to_json(&self) -> Value {
        json!({"level": self.level, "modules": self.modules})
    }
}

fn shown_module(level: &ToolLevel, module: &CodeModule) -> String {
    match (module, &level.package.source) {
        (CodeModule::Installed { module, function }, _) => format!("{module}:{function}"),
        (CodeModule::File(place), FunctionSource::Program) => {
            place.rest(&level.package.root).map_or_else(|| place.to_string(), str::to_owned)
        }
        (CodeModule::File(place), _) => place.to_string(),
    }
}

/// A value of a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The path of the value: `limits`, `max_turns`.
    pub path: Vec<String>,
    /// The value in canonical form.
    pub value: Value,
    /// The place where it was written (`file:line`); `None` for a default.
    pub from: Option<Arc<str>>,
}

impl Setting {
    fn new(path: &[&str], value: Value, from: Option<Arc<str>>) -> Self {
        Self { path: path.iter().map(|part| (*part).to_owned()).collect(), value, from }
    }
}

impl Shown {
    pub(crate) fn of(
        effective: &Effective,
        packages: &Packages,
        workers: &BTreeMap<Arc<str>, Arc<Effective>>,
        kinds: &ToolsetRegistry,
    ) -> Self {
        let package = packages.get(effective.located.package);
        let definition = &effective.definition;
        let instructions = &definition.instructions;
        Self {
            id: Arc::clone(&definition.id),
            file: Arc::clone(effective.text.path()).to_string().into(),
            signature: show(&definition.id, &definition.signature),
            pure: is_pure(effective, workers, kinds),
            settings: settings(effective, package, packages),
            instructions: match &definition.code {
                Some(_) => effective.located.path.as_str().into(),
                None => format!("{}:{}", instructions.file, instructions.line_offset + 1).into(),
            },
            is_code: definition.code.is_some(),
            tools: ShownTools::of(&definition.tools),
        }
    }

    /// Returns true if overrides of the command line don't apply to the worker (`locked`).
    pub fn is_locked(&self) -> bool {
        self.settings.iter().any(|setting| setting.path == ["locked"] && setting.value == true)
    }

    /// Formats the worker as YAML that is valid front matter, with the origin of each value as a comment.
    pub fn to_yaml(&self) -> String {
        let mut lines: Vec<(String, Option<&str>)> = Vec::new();
        let mut open: Vec<&str> = Vec::new();
        for setting in &self.settings {
            let (last, folders) = setting.path.split_last().expect("a setting has a name");
            let shared = open.iter().zip(folders).take_while(|(a, b)| **a == b.as_str()).count();
            open.truncate(shared);
            for folder in &folders[shared..] {
                lines.push((format!("{}{}:", "  ".repeat(open.len()), key(folder)), None));
                open.push(folder);
            }
            let text = format!("{}{}: {}", "  ".repeat(open.len()), key(last), flow(&setting.value));
            lines.push((text, Some(setting.from.as_deref().unwrap_or("default"))));
        }
        // Comments are aligned, except after long values.
        let column = lines.iter().map(|(text, _)| text.chars().count()).filter(|width| *width <= 60).max();
        let column = column.unwrap_or(0);
        let mut out = String::new();
        for (text, from) in lines {
            // Writing to a `String` does not fail.
            let _ = match from {
                Some(from) => writeln!(out, "{text:column$}  # {from}"),
                None => writeln!(out, "{text}"),
            };
        }
        out
    }

    /// Converts the worker to `{"id", "file", "signature", "pure", "instructions", "code", "tools": [{"level",
    /// "modules"}], "settings": [{"key", "value", "from"}]}`.
    pub fn to_json(&self) -> Value {
        let settings: Vec<Value> = self
            .settings
            .iter()
            .map(|setting| {
                json!({"key": setting.path.join("."), "value": setting.value, "from": setting.from})
            })
            .collect();
        json!({
            "id": self.id,
            "file": self.file,
            "signature": self.signature,
            "pure": self.pure,
            "instructions": self.instructions,
            "code": self.is_code,
            "tools": self.tools.iter().map(ShownTools::to_json).collect::<Vec<_>>(),
            "settings": settings,
        })
    }
}

/// Formats a key of YAML: plain if that is safe.
fn key(text: &str) -> String {
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
        && text.starts_with(|c: char| c.is_ascii_alphabetic());
    if plain { text.to_owned() } else { Value::from(text).to_string() }
}

/// Formats a value in flow style. JSON is valid YAML, and plain words need no quotes.
fn flow(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let members: Vec<String> =
                map.iter().map(|(name, value)| format!("{}: {}", key(name), flow(value))).collect();
            format!("{{{}}}", members.join(", "))
        }
        other => other.to_string(),
    }
}

/// Returns true if a text needs no quotes, also in flow style.
fn is_plain(text: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || "_-./+".contains(c);
    let colon = |text: &str| !text.contains(": ") && !text.ends_with(':');
    text.starts_with(|c: char| c.is_alphabetic() || "./".contains(c))
        && text.chars().all(|c| word(c) || c == ' ' || c == ':')
        && !text.contains("  ")
        && text.trim_end() == text
        && colon(text)
        && !["true", "false", "null", "yes", "no", "on", "off"].contains(&text.to_lowercase().as_str())
}

/// Sections whose keys are shown separately, because each may come from another file.
const SECTIONS: [&str; 2] = ["attachment_policy", "tool_rules"];

fn settings(effective: &Effective, package: &Package, packages: &Packages) -> Vec<Setting> {
    let mut settings = Vec::new();
    for key in keys::WORKER {
        let own = effective.keys.entry(key.name);
        match key.name {
            // Only their place is shown.
            "instructions" | "imports" if own.is_none() => {}
            "instructions" => {}
            "name" => settings.push(Setting::new(
                &["name"],
                effective.located.id.as_str().into(),
                own.map(|entry| entry.key_span.origin()),
            )),
            "model" => model(effective, package, packages, own, &mut settings),
            "toolsets" => toolsets(effective, &mut settings),
            "sandbox" => sandbox(effective, package, &mut settings),
            "limits" => limits(effective, package, packages, &mut settings),
            "model_settings" => sampling(effective, package, packages, &mut settings),
            "max_context_tokens" => context(effective, package, packages, &mut settings),
            name => match own {
                Some(entry) if SECTIONS.contains(&name) && matches!(entry.value.data, Data::Map(_)) => {
                    for inner in entry.value.entries() {
                        let from = Some(inner.key_span.origin());
                        settings.push(Setting::new(&[name, &inner.key], inner.value.to_json(), from));
                    }
                }
                Some(entry) => {
                    settings.push(Setting::new(
                        &[name],
                        entry.value.to_json(),
                        Some(entry.key_span.origin()),
                    ));
                }
                None => settings.extend(default(key).map(|value| Setting::new(&[name], value, None))),
            },
        }
    }
    settings
}

/// Returns the default of a key that is shown even if the file does not set it.
fn default(key: &Key) -> Option<Value> {
    match (key.name, &key.shape) {
        ("mode" | "interaction", Shape::Choice(choices, _)) => choices.first().map(|first| (*first).into()),
        ("allow_empty_input", _) => Some(true.into()),
        ("locked", _) => Some(false.into()),
        _ => None,
    }
}

fn model(
    effective: &Effective,
    package: &Package,
    packages: &Packages,
    own: Option<&Entry>,
    settings: &mut Vec<Setting>,
) {
    let inherited =
        [package, packages.program()].into_iter().find_map(|package| package.manifest.model.as_ref());
    let node = own.map(|entry| &entry.value).or(inherited);
    if let Some(node) = node {
        let lone = node.each().first().filter(|_| node.each().len() == 1);
        settings.push(Setting::new(&["model"], lone.unwrap_or(node).to_json(), Some(node.span.origin())));
    } else if let Some(model) = effective.definition.models.first() {
        settings.push(Setting::new(&["model"], model.to_string().into(), None));
    }
}

fn toolsets(effective: &Effective, settings: &mut Vec<Setting>) {
    for (name, node) in &effective.toolsets {
        let entries = node.entries();
        if entries.is_empty() {
            settings.push(Setting::new(&["toolsets", name], json!({}), Some(node.span.origin())));
        }
        for entry in entries {
            let from = Some(entry.value.span.origin());
            settings.push(Setting::new(&["toolsets", name, &entry.key], entry.value.to_json(), from));
        }
    }
}

/// Adds the merged sandbox: mounts with their effective rules, and restrictions.
fn sandbox(effective: &Effective, package: &Package, settings: &mut Vec<Setting>) {
    let layers = [effective.keys.get("sandbox"), package.manifest.sandbox.as_ref()];
    let narrowing = &effective.definition.sandbox.narrowing;
    for mount in &narrowing.mounts {
        let name = mount.at.name();
        let declared = layers.iter().flatten().find_map(|sandbox| match name {
            "" => sandbox.entry("root"),
            name => sandbox.get("paths")?.entry(name),
        });
        let root = declared.map(|entry| match entry.value.get("root") {
            Some(root) => root.to_json(),
            None if entry.value.as_text().is_some() => entry.value.to_json(),
            // The other layer sets the folder.
            None => layers
                .iter()
                .flatten()
                .find_map(|sandbox| {
                    let entry = sandbox.get("paths")?.get(name)?;
                    entry.get("root").or_else(|| entry.as_text().map(|_| entry))
                })
                .map_or(Value::Null, Node::to_json),
        });
        let root = root.unwrap_or(Value::Null);
        let from = declared.map(|entry| entry.key_span.origin());
        if name.is_empty() {
            settings.push(Setting::new(&["sandbox", "root"], root, from));
            continue;
        }
        let mode = if mount.access == Access::Write { "rw" } else { "ro" };
        let mut value = serde_json::Map::new();
        value.insert("root".into(), root);
        value.insert("mode".into(), mode.into());
        if mount.untrusted {
            value.insert("untrusted".into(), true.into());
        }
        if !mount.suffixes.is_empty() {
            value.insert("suffixes".into(), mount.suffixes.clone().into());
        }
        value.extend(mount.max_file_bytes.map(|bytes| ("max_file_bytes".to_owned(), bytes.into())));
        for (key, rule) in
            [("read_approval", mount.approvals.read), ("write_approval", mount.approvals.write)]
        {
            value.extend(rule.map(|rule| (key.to_owned(), rule_name(rule).into())));
        }
        settings.push(Setting::new(&["sandbox", "paths", name], value.into(), from));
    }
    for key in ["read", "write"] {
        if let Some(node) = layers.iter().flatten().find_map(|sandbox| sandbox.get(key)) {
            settings.push(Setting::new(&["sandbox", key], node.to_json(), Some(node.span.origin())));
        }
    }
    if let Some(node) = layers.iter().flatten().find_map(|sandbox| sandbox.get("env")) {
        let names = effective.definition.sandbox.env.iter().map(|name| Value::from(&**name)).collect();
        settings.push(Setting::new(&["sandbox", "env"], names, Some(node.span.origin())));
    }
    if let Some(node) = layers.iter().rev().flatten().find_map(|sandbox| sandbox.get("keys")) {
        let keys = effective.definition.sandbox.keys.iter().map(|key| {
            let mut entry = Map::new();
            entry.insert("header".into(), (*key.header).into());
            entry.extend(key.scheme.as_ref().map(|scheme| ("scheme".to_owned(), Value::from(&**scheme))));
            entry.insert("env".into(), (*key.variable).into());
            (key.domain.to_string(), Value::Object(entry))
        });
        settings.push(Setting::new(
            &["sandbox", "keys"],
            Value::Object(keys.collect()),
            Some(node.span.origin()),
        ));
    }
    // The merged restrictions: the tighter of both layers, which may not be the worker's.
    let restrict: Vec<&str> = narrowing.restrict.iter().map(VirtualPath::as_str).collect();
    let network = match &narrowing.network {
        None => Value::Null,
        Some(Network::Off) => false.into(),
        Some(Network::On) => true.into(),
        Some(Network::Domains(domains)) => domains.iter().map(ToString::to_string).collect(),
    };
    for (key, value) in
        [("restrict", restrict.into()), ("readonly", narrowing.readonly.into()), ("network_enabled", network)]
    {
        let declared = || layers.iter().flatten().filter_map(|sandbox| sandbox.get(key));
        let Some(node) = declared().find(|node| node.to_json() == value).or_else(|| declared().next()) else {
            continue;
        };
        settings.push(Setting::new(&["sandbox", key], value, Some(node.span.origin())));
    }
}

fn rule_name(rule: Rule) -> &'static str {
    match rule {
        Rule::PreApproved => "preApproved",
        Rule::Ask => "ask",
        Rule::Blocked => "blocked",
    }
}

/// The origin of values that neither a file of the program nor a default sets.
const USER: &str = "the user's configuration";

/// Adds the lowest `max_context_tokens`.
fn context(effective: &Effective, package: &Package, packages: &Packages, settings: &mut Vec<Setting>) {
    let layers = [
        effective.keys.get("max_context_tokens"),
        package.manifest.max_context_tokens.as_ref(),
        packages.program().manifest.max_context_tokens.as_ref(),
    ];
    let lowest = layers.into_iter().flatten().min_by_key(|node| node.as_count());
    settings.extend(
        lowest.map(|node| Setting::new(&["max_context_tokens"], node.to_json(), Some(node.span.origin()))),
    );
}

/// Adds the worker's own sampling settings, those of the profile of its first model, and those of the project, in this
/// order.
fn sampling(effective: &Effective, package: &Package, packages: &Packages, settings: &mut Vec<Setting>) {
    fn first(node: &Node) -> Option<&str> {
        node.each().first()?.as_text()
    }
    let own = effective.keys.get("model").and_then(first);
    let named = |package: &Package| {
        let name = package.manifest.model.as_ref().and_then(first);
        name.and_then(|name| package.manifest.models.get(name)?.settings.clone())
    };
    let profile = match own {
        Some(name) => package.manifest.models.get(name).and_then(|profile| profile.settings.clone()),
        None if package.manifest.model.is_some() => named(package),
        None => named(packages.program()),
    };
    let layers =
        [effective.keys.get("model_settings"), profile.as_ref(), package.manifest.model_settings.as_ref()];
    for key in keys::MODEL_SETTINGS {
        if let Some(value) = layers.iter().flatten().find_map(|layer| layer.get(key.name)) {
            let from = Some(value.span.origin());
            settings.push(Setting::new(&["model_settings", key.name], value.to_json(), from));
        }
    }
}

/// Adds the lower value of each limit, and defaults for limits that are not set.
fn limits(effective: &Effective, package: &Package, packages: &Packages, settings: &mut Vec<Setting>) {
    let layers = [
        effective.keys.get("limits"),
        package.manifest.limits.as_ref(),
        packages.program().manifest.limits.as_ref(),
    ];
    let shown = |limits: &Limits| {
        // The default number of turns of a conversation.
        let limits = Limits { max_turns: Some(limits.turns()), ..limits.clone() };
        serde_json::to_value(limits).unwrap_or_default()
    };
    let (chosen, defaults) = (shown(&effective.definition.limits), shown(&Limits::default()));
    for key in keys::LIMITS {
        // Compared in milliseconds, but shown as written.
        let field = if key.name == "timeout" { "timeout_ms" } else { key.name };
        let value = chosen.get(field).cloned().unwrap_or_default();
        let milliseconds = |node: &Node| match key.name {
            "timeout" => crate::shape::milliseconds(node).map(Value::from),
            "max_cost_usd" => node.as_number().map(Value::from),
            _ => Some(node.to_json()),
        };
        let winner = layers
            .iter()
            .flatten()
            .filter_map(|layer| layer.get(key.name))
            .find(|node| milliseconds(node).as_ref() == Some(&value));
        match winner {
            Some(node) => {
                settings.push(Setting::new(&["limits", key.name], node.to_json(), Some(node.span.origin())));
            }
            None if !value.is_null() && defaults.get(field) == Some(&value) => {
                settings.push(Setting::new(&["limits", key.name], value, None));
            }
            None if !value.is_null() => {
                let value = match value.as_u64() {
                    Some(ms) if key.name == "timeout" => format!("{ms}ms").into(),
                    _ => value,
                };
                settings.push(Setting::new(&["limits", key.name], value, Some(USER.into())));
            }
            None => {}
        }
    }
}
