//! The manifest of a project that is made of a program: what the worker whose model wrote it may do.

use super::{Exported, text};
use llm_do::{
    core::{
        authority::{Access, Network, Place},
        definition::WorkerDefinition,
        function::FunctionSource,
    },
    program::{Program, front_matter, span::SourceFile},
};
use llm_do_records::WholeRun;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

impl Exported {
    /// The manifest: the entry, and the toolsets, mounts, narrowings and rules of the worker whose model wrote the program.
    pub(super) fn manifest(
        &self,
        file: &str,
        run: &WholeRun,
        program: &Program,
        worker: &WorkerDefinition,
    ) -> String {
        let called: BTreeSet<&str> = self
            .calls
            .iter()
            .filter_map(|made| match &made.source {
                FunctionSource::Toolset(name) => Some(&**name),
                _ => None,
            })
            .collect();
        let toolsets: Map<String, Value> = worker
            .toolsets
            .iter()
            .filter(|(name, _)| called.contains(&**name))
            .map(|(name, configuration)| (name.to_string(), (**configuration).clone()))
            .collect();
        let mut manifest =
            format!("# Made by `llm-do runs export --program`.\nname: flow\nentry: {file}:main\n");
        let parts = [
            ("toolsets", Value::Object(toolsets)),
            ("sandbox", sandbox(worker)),
            ("approval", approval(&text(run, worker), program)),
        ];
        for (key, value) in parts {
            if value.as_object().is_some_and(|keys| !keys.is_empty()) {
                manifest.push_str(&format!("{key}: {value}\n"));
            }
        }
        manifest
    }
}

/// The mounts and narrowings of a worker.
fn sandbox(worker: &WorkerDefinition) -> Value {
    let narrowing = &worker.sandbox.narrowing;
    let mut sandbox = json!({});
    let mut mounts = Map::new();
    for mount in &narrowing.mounts {
        let place = relative(&mount.place, &worker.root);
        let mode = if mount.access == Access::Write { "rw" } else { "ro" };
        if mount.at.name().is_empty() {
            sandbox["root"] = place.into();
            continue;
        }
        let mut keys = json!({"root": place, "mode": mode});
        if !mount.suffixes.is_empty() {
            keys["suffixes"] = json!(mount.suffixes);
        }
        if let Some(bytes) = mount.max_file_bytes {
            keys["max_file_bytes"] = bytes.into();
        }
        if mount.untrusted {
            keys["untrusted"] = true.into();
        }
        let rules = [("read_approval", mount.approvals.read), ("write_approval", mount.approvals.write)];
        for (key, rule) in rules {
            if let Some(rule) = rule {
                keys[key] = json!(rule);
            }
        }
        mounts.insert(mount.at.name().to_owned(), keys);
    }
    if !mounts.is_empty() {
        sandbox["paths"] = Value::Object(mounts);
    }
    if !narrowing.restrict.is_empty() {
        sandbox["restrict"] = narrowing.restrict.iter().map(ToString::to_string).collect();
    }
    if narrowing.readonly {
        sandbox["readonly"] = true.into();
    }
    if narrowing.network == Some(Network::Off) {
        sandbox["network_enabled"] = false.into();
    }
    sandbox
}

/// The rules of the project and the worker's `tool_rules`, which a manifest holds as rules of its own.
fn approval(text: &str, program: &Program) -> Value {
    let mut approval =
        program.manifest().approval_keys.as_ref().map_or(json!({}), llm_do::program::yaml::Node::to_json);
    let mut rules = Vec::new();
    let document = front_matter::worker(SourceFile::new("", text)).ok();
    match document.and_then(|document| Some(document.keys.get("tool_rules")?.to_json())) {
        Some(Value::Object(by_pattern)) => {
            for (pattern, rule) in by_pattern {
                if let Some(then) = rule_of(&rule) {
                    rules.push(json!({"tool": pattern, "then": then}));
                }
            }
        }
        Some(Value::Array(items)) => {
            for mut item in items {
                let Some(keys) = item.as_object_mut().filter(|keys| keys.contains_key("then")) else {
                    continue;
                };
                keys.remove("timeout");
                keys.remove("retries");
                rules.push(item);
            }
        }
        _ => {}
    }
    if !rules.is_empty() {
        let own = approval.get_mut("rules").and_then(Value::as_array_mut).map(std::mem::take);
        rules.extend(own.unwrap_or_default());
        approval["rules"] = rules.into();
    }
    approval
}

/// The rule of an entry of `tool_rules`: a word, or flags.
fn rule_of(entry: &Value) -> Option<Value> {
    let flag = |key: &str| entry.get(key).and_then(Value::as_bool);
    let asks = |asks: bool| if asks { "ask" } else { "preApproved" };
    match entry {
        Value::String(_) => Some(entry.clone()),
        _ if flag("allowed") == Some(false) => Some("blocked".into()),
        _ => {
            flag("approval_required").or(flag("pre_approved").map(|runs| !runs)).map(|flag| asks(flag).into())
        }
    }
}

/// Returns the place of a mount as the manifest names it.
fn relative(place: &Place, root: &Place) -> String {
    match place.rest(root) {
        Some("") => ".".to_owned(),
        Some(rest) => format!("./{rest}"),
        None => place.to_string(),
    }
}
