//! Older toolsets: lists of names, names that have been changed, `delegation`, `_approval_config`.

use crate::{
    Findings, Form, canonical::canonical, draft::Draft, get_mut, made, made_entry, made_text, map_at,
    names::Names, take, tool_rules,
};
use llm_do_program::{
    keys::TOOLSET,
    shape::snake_case,
    span::Span,
    yaml::{Data, Entry, Node},
};

/// The toolset kinds.
const KINDS: [&str; 5] = ["filesystem", "workers", "shell", "custom", "mcp"];
/// The file tools that the old `write_approval` applied to; deleting and moving are newer, and still ask.
const WRITING: [&str; 3] = ["write_file", "edit_file", "append_file"];
/// The file tools that change nothing.
const READING: [&str; 5] = ["list_files", "read_file", "search_files", "file_info", "file_exists"];
/// Commands of the old `shell_readonly`; none of them asked.
const READING_COMMANDS: [&str; 13] = [
    "wc",
    "find",
    "grep",
    "head",
    "tail",
    "sort",
    "uniq",
    "cat",
    "ls",
    "git log",
    "git diff",
    "git show",
    "git status",
];
/// Keys of `workers` that are not names of workers.
const WORKERS_KEYS: [&str; 6] = ["allowed_workers", "allow_workers", "style", "dynamic", "tools", "approval"];

/// A toolset that is being converted.
struct Old {
    name: String,
    key_span: Span,
    value: Node,
}

/// The converted toolsets.
#[derive(Default)]
struct New {
    entries: Vec<Entry>,
    /// Values without a place in the current format.
    left: Vec<(String, Node, Span)>,
    /// The `sandbox`, which was a toolset in older formats.
    sandbox: Option<Node>,
}

/// Makes `toolsets` canonical.
pub(super) fn convert(draft: &mut Draft, names: &Names, findings: &mut Findings) {
    let Some(entry) = draft.keys.entry("toolsets").cloned() else { return };
    let listed = matches!(entry.value.data, Data::List(_) | Data::Text(_));
    let olds: Vec<Old> = match &entry.value.data {
        Data::List(_) | Data::Text(_) => {
            let empty = |span: &Span| Node { span: span.clone(), data: Data::Map(Vec::new()) };
            let olds = entry.value.texts();
            olds.map(|(name, span)| Old { name: name.to_owned(), key_span: span.clone(), value: empty(span) })
                .collect()
        }
        Data::Map(entries) => entries
            .iter()
            .map(|e| Old { name: e.key.clone(), key_span: e.key_span.clone(), value: e.value.clone() })
            .collect(),
        _ => return,
    };
    let mut new = New::default();
    for old in olds {
        if old.name.starts_with("x-") {
            new.entries.push(Entry { key: old.name, key_span: old.key_span, value: old.value });
        } else {
            one(old, names, &mut new, findings);
        }
    }
    let value = Node { span: entry.value.span.clone(), data: Data::Map(new.entries) };
    if listed || value.to_json() != entry.value.to_json() {
        findings.forms.insert(Form::Toolsets);
    }
    if let Some(node) = get_mut(&mut draft.keys, "toolsets") {
        // Entries of a list have no spans of their own.
        *node = if listed { rootless(value) } else { value };
    }
    if let Some(sandbox) = new.sandbox {
        match draft.keys.get("sandbox") {
            None => {
                if let Data::Map(entries) = &mut draft.keys.data {
                    entries.push(made_entry("sandbox", sandbox));
                }
            }
            Some(_) => {
                let span = sandbox.span.clone();
                new.left.push(("toolsets.sandbox".into(), sandbox, span));
            }
        }
    }
    for (key, value, span) in new.left {
        if let Some(name) = key.strip_prefix("toolsets.").filter(|name| !name.contains('.')) {
            let what = "if it is Python code, put its functions into tools.py and name them under `custom`";
            let message = format!(
                "the toolset `{name}` can't be carried over, and is kept under `{}`: {what}",
                crate::LEFT_OVER
            );
            findings.lost(draft, &span, message);
            draft.leave_over(&key, value);
        } else {
            draft.put_aside(&key, value, &span, findings);
        }
    }
}

/// Removes the spans of keys.
fn rootless(mut node: Node) -> Node {
    if let Data::Map(entries) = &mut node.data {
        for entry in entries {
            entry.key_span = crate::nowhere();
        }
    }
    node
}

fn one(old: Old, names: &Names, new: &mut New, findings: &mut Findings) {
    let Old { name, key_span, mut value } = old;
    if value.data == Data::Null {
        // An old toolset without a configuration was there; one whose value is null is not.
        value.data = Data::Map(Vec::new());
    }
    let entry = |key: &str, value: Node| Entry { key: key.to_owned(), key_span: key_span.clone(), value };
    if value.as_flag() == Some(true) {
        value.data = Data::Map(Vec::new());
    }
    if matches!(value.data, Data::List(_) | Data::Text(_))
        && ["workers", "delegation"].contains(&name.as_str())
    {
        let list = std::mem::replace(&mut value, made(Data::Map(Vec::new())));
        add_missing(&mut value, "allowed_workers", list);
    }
    if !matches!(value.data, Data::Map(_)) {
        new.add(entry(&name, value));
        return;
    }
    let kind = match name.as_str() {
        "filesystem_rw" | "filesystem_project" | "filesystem_cwd" => "filesystem",
        "filesystem_ro" | "filesystem_project_ro" | "filesystem_cwd_ro" => {
            let tools = READING.map(made_text).to_vec();
            add_missing(&mut value, "tools", made(Data::List(tools)));
            "filesystem"
        }
        "delegation" => "workers",
        "dynamic_workers" | "dynamic_agents" => {
            add_missing(&mut value, "dynamic", made(Data::Flag(true)));
            "workers"
        }
        "shell_readonly" => {
            add_missing(&mut value, "rules", commands(&READING_COMMANDS, false));
            "shell"
        }
        "shell_file_ops" => {
            let mut rules = commands(&["ls"], false).items().to_vec();
            rules.extend(commands(&["mv"], true).items().iter().cloned());
            add_missing(&mut value, "rules", made(Data::List(rules)));
            "shell"
        }
        "sandbox" => {
            new.sandbox = Some(value);
            new.add(entry("filesystem", made(Data::Map(Vec::new()))));
            return;
        }
        known if KINDS.contains(&known) => known,
        other => match class(other) {
            Some(kind) => kind,
            None => {
                approvals(&mut value, findings);
                match names.worker(other) {
                    Some(id) => new.add(entry("workers", one_worker(&id, value))),
                    None => new.left.push((format!("toolsets.{name}"), value, key_span)),
                }
                return;
            }
        },
    };
    approvals(&mut value, findings);
    match kind {
        "workers" => workers(&mut value, names),
        "filesystem" => filesystem(&mut value, &key_span, new),
        _ => {}
    }
    new.add(entry(kind, value));
}

impl New {
    /// Adds a toolset, or merges it into an existing one of its name.
    fn add(&mut self, entry: Entry) {
        let Some(known) = self.entries.iter_mut().find(|known| known.key == entry.key) else {
            self.entries.push(entry);
            return;
        };
        let Data::Map(more) = entry.value.data else { return };
        for entry in more {
            match (get_mut(&mut known.value, &entry.key), entry.value.data) {
                (Some(Node { data: Data::List(items), .. }), Data::List(others)) => {
                    for other in others {
                        if !items.iter().any(|item| item.data == other.data) {
                            items.push(other);
                        }
                    }
                }
                (Some(node @ Node { data: Data::Map(_), .. }), Data::Map(others)) => {
                    for other in others {
                        merge(node, other);
                    }
                }
                (Some(_), _) => {}
                (None, data) => {
                    let value = Node { span: entry.value.span, data };
                    add_missing(&mut known.value, &entry.key, value);
                }
            }
        }
    }
}

/// Merges an entry into a map. Existing values are kept.
fn merge(node: &mut Node, entry: Entry) {
    match (get_mut(node, &entry.key), entry.value.data) {
        (Some(known), Data::Map(others)) => others.into_iter().for_each(|other| merge(known, other)),
        (Some(_), _) => {}
        (None, data) => add_missing(node, &entry.key, Node { span: entry.value.span, data }),
    }
}

fn add_missing(node: &mut Node, key: &str, value: Node) {
    if let Some(entries) = crate::entries_mut(node)
        && !entries.iter().any(|entry| entry.key == key)
    {
        entries.push(made_entry(key, value));
    }
}

/// Returns the kind for the path of a Python class.
fn class(path: &str) -> Option<&'static str> {
    let name = path.rsplit(['.', ':']).next().filter(|name| *name != path)?;
    match name {
        name if name.contains("FileSystem") || name.contains("Filesystem") => Some("filesystem"),
        name if name.contains("Shell") => Some("shell"),
        name if name.contains("Delegation") => Some("workers"),
        _ => None,
    }
}

fn commands(patterns: &[&str], asks: bool) -> Node {
    let rule = |pattern: &&str| {
        made(Data::Map(vec![
            made_entry("pattern", made_text(*pattern)),
            made_entry("approval_required", made(Data::Flag(asks))),
        ]))
    };
    made(Data::List(patterns.iter().map(rule).collect()))
}

/// Returns the toolset for a worker that was a toolset of its own.
fn one_worker(id: &str, mut configuration: Node) -> Node {
    let approval = take(&mut configuration, "approval");
    let mut entries = vec![made_entry("allowed_workers", made(Data::List(vec![made_text(id)])))];
    entries.extend(approval);
    made(Data::Map(entries))
}

/// Converts `_approval_config`, and older forms of rules, to `approval`.
fn approvals(value: &mut Node, findings: &mut Findings) {
    if let Some(old) = take(value, "_approval_config") {
        findings.forms.insert(Form::ApprovalConfig);
        let mut rules: Vec<(Option<String>, &'static str)> = Vec::new();
        rules.extend(tool_rules::rule(&old.value).map(|rule| (None, rule)));
        for entry in old.value.entries() {
            rules.extend(tool_rules::rule(&entry.value).map(|rule| (Some(entry.key.clone()), rule)));
        }
        for (tool, rule) in rules {
            let Some(approval) = map_at(value, "approval") else { return };
            match tool {
                None => add_missing(approval, "default", made_text(rule)),
                Some(tool) => {
                    if let Some(tools) = map_at(approval, "tools") {
                        add_missing(tools, &tool, made_text(rule));
                    }
                }
            }
        }
    }
    for key in ["pre_approved", "preApproved", "approval_required", "approvalRequired"] {
        if value.get(key).is_none_or(|node| node.as_flag().is_none()) {
            continue;
        }
        if let Some(rule) = tool_rules::rule(value) {
            take(value, key);
            if let Some(approval) = map_at(value, "approval") {
                add_missing(approval, "default", made_text(rule));
            }
        }
    }
    if let Data::Map(entries) = &mut value.data {
        for entry in entries.iter_mut().filter(|entry| entry.key == "approval") {
            let mut shared = made(Data::Map(vec![entry.clone()]));
            let mut left = Vec::new();
            canonical(&mut shared, TOOLSET, "", &mut left);
            // Keys that `approval` does not know stay: loading reports them.
            if let (true, Data::Map(mut entries)) = (left.is_empty(), shared.data)
                && let Some(approval) = entries.pop()
            {
                *entry = approval;
            }
        }
    }
}

/// Converts delegation: `allow_workers`, a map of workers, or `allowed_workers`.
fn workers(value: &mut Node, names: &Names) {
    let Data::Map(entries) = &mut value.data else { return };
    let mut callees: Vec<Node> = Vec::new();
    let mut rules: Vec<(String, &'static str)> = Vec::new();
    let mut kept: Vec<Entry> = Vec::new();
    for mut entry in std::mem::take(entries) {
        let snake = snake_case(&entry.key);
        match snake.as_str() {
            "worker_call" => add_kept(&mut kept, "style", made_text("both")),
            "worker_create" => add_kept(&mut kept, "dynamic", made(Data::Flag(true))),
            key if WORKERS_KEYS.contains(&key) || entry.key.starts_with("x-") => {
                if key == "allow_workers" {
                    entry.key = "allowed_workers".into();
                } else if WORKERS_KEYS.contains(&key) {
                    entry.key = snake;
                }
                if entry.key == "allowed_workers" {
                    names.rewrite(&mut entry.value);
                    if entry.value.as_text().is_some() {
                        entry.value = made(Data::List(vec![entry.value]));
                    }
                }
                kept.push(entry);
            }
            // A map of workers. Other keys are unknown, and loading reports them.
            _ if matches!(entry.value.data, Data::Map(_) | Data::Null) => {
                let id = names.rewritten(&entry.key).unwrap_or_else(|| entry.key.clone());
                rules.extend(tool_rules::rule(&entry.value).map(|rule| (id.clone(), rule)));
                callees.push(made_text(id));
            }
            _ => kept.push(entry),
        }
    }
    if !callees.is_empty() {
        match kept.iter_mut().find(|entry| entry.key == "allowed_workers") {
            Some(Entry { value: Node { data: Data::List(items), .. }, .. }) => items.extend(callees),
            _ => kept.insert(0, made_entry("allowed_workers", made(Data::List(callees)))),
        }
    }
    *entries = kept;
    for (id, rule) in rules {
        if let Some(tools) = map_at(value, "approval").and_then(|approval| map_at(approval, "tools")) {
            add_missing(tools, &id, made_text(rule));
        }
    }
}

fn add_kept(kept: &mut Vec<Entry>, key: &str, value: Node) {
    if !kept.iter().any(|entry| entry.key == key) {
        kept.push(made_entry(key, value));
    }
}

/// Converts `read_approval` and `write_approval` of the old file tools.
fn filesystem(value: &mut Node, span: &Span, new: &mut New) {
    let asks = |value: &mut Node, key: &str| take(value, key).and_then(|entry| entry.value.as_flag());
    let reading = asks(value, "read_approval");
    let writing = asks(value, "write_approval");
    let mut rule = |tools: &[&str], rule: &str| {
        for tool in tools {
            if let Some(rules) = map_at(value, "approval").and_then(|approval| map_at(approval, "tools")) {
                add_missing(rules, tool, made_text(rule));
            }
        }
    };
    if reading == Some(true) {
        rule(&READING, "ask");
    }
    if writing == Some(false) {
        rule(&WRITING, "preApproved");
    }
    for key in ["base_path", "root_path"] {
        if let Some(entry) = take(value, key) {
            new.left.push((format!("toolsets.filesystem.{key}"), entry.value, span.clone()));
        }
    }
}
