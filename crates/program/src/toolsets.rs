//! `toolsets` of a worker and its project: checked against the registered kinds, and merged. See
//! `docs/reference/worker-files.md`.

use crate::{
    diagnostics::{Diagnostic, Fix, codes},
    keys, manifest,
    shape::{self, snake_case},
    span::Span,
    yaml::{Data, Entry, Node},
};
use llm_do_core::{
    gate::Rule,
    schema::{Schema, Violation},
    toolset::{Declarations, OldApproval, ToolsetKind, ToolsetRegistry},
};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// Merged configurations by canonical name.
pub type Toolsets = BTreeMap<Arc<str>, Node>;

/// The definitions of a manifest that toolsets may name: a map for each kind, by its canonical name.
pub type Declared = BTreeMap<&'static str, Node>;

/// Reads the definitions of a manifest that toolsets may name: `mcp_servers`. `definitions` are those under a key.
pub fn declared<'a>(
    definitions: impl Fn(&str) -> Option<&'a Node>,
    registry: &ToolsetRegistry,
    found: &mut Vec<Diagnostic>,
) -> Declared {
    let mut declared = Declared::new();
    for kind in registry.kinds() {
        let Some(declarations) = kind.declarations() else { continue };
        let Declarations { manifest_key, property, .. } = declarations;
        let Some(node) = definitions(manifest_key) else { continue };
        let schema = kind.configuration();
        let Some(of_property) = schema.value().pointer(&format!("/properties/{property}")) else { continue };
        let node = canonical_keys(node, of_property, manifest_key, found);
        reserved_names(&node, manifest_key, declarations, found);
        // The definitions are valid if they were in the configuration of a worker.
        let within = format!("/{property}");
        validate(&schema, &wrapped(property, node.clone()), manifest_key, &within, found);
        declared.insert(kind.name(), node);
    }
    declared
}

/// Replaces lists of names in merged configurations by the definitions of the manifest. Unknown names are reported
/// where the list is read.
pub fn insert_declared(toolsets: &mut Toolsets, declared: &Declared, registry: &ToolsetRegistry) {
    for (name, configuration) in toolsets {
        let Some(kind) = registry.get(name) else { continue };
        let Some(Declarations { property, reserved, .. }) = kind.declarations() else { continue };
        let Data::Map(entries) = &mut configuration.data else { continue };
        for entry in entries.iter_mut().filter(|entry| entry.key == property) {
            if !matches!(entry.value.data, Data::List(_)) {
                continue;
            }
            let of_manifest = |name: &str| declared.get(kind.name())?.entry(name).cloned();
            let definition = |(name, span): (&str, &Span)| match reserved == Some(name) {
                true => {
                    let value = Node { span: span.clone(), data: Data::Map(Vec::new()) };
                    Some(Entry { key: name.to_owned(), key_span: span.clone(), value })
                }
                false => of_manifest(name),
            };
            let named = entry.value.texts().filter_map(definition).collect();
            entry.value = Node { span: entry.value.span.clone(), data: Data::Map(named) };
        }
    }
}

/// Returns a configuration with this value for one property.
fn wrapped(property: &str, value: Node) -> Node {
    let span = value.span.clone();
    let entry = Entry { key: property.to_owned(), key_span: span.clone(), value };
    Node { span, data: Data::Map(vec![entry]) }
}

/// Reads one file's `toolsets` (checked by shape). `declared` holds the definitions that they may name.
pub fn read(
    node: &Node,
    registry: &ToolsetRegistry,
    declared: &Declared,
    found: &mut Vec<Diagnostic>,
) -> Toolsets {
    let mut toolsets = Toolsets::new();
    let listed = node.texts().map(|(name, span)| {
        (name.to_owned(), span.clone(), Node { span: span.clone(), data: Data::Map(Vec::new()) })
    });
    let mapped =
        node.entries().iter().map(|entry| (entry.key.clone(), entry.key_span.clone(), entry.value.clone()));
    for (name, span, configuration) in listed.chain(mapped).collect::<Vec<_>>() {
        let Some(kind) = kind(&name, &span, registry, found) else { continue };
        let configuration = configure(kind.as_ref(), &name, &configuration, declared, found);
        let canonical: Arc<str> = kind.name().into();
        if toolsets.contains_key(&canonical) {
            found.push(given_twice(node, kind.as_ref(), &span));
            continue;
        }
        toolsets.insert(canonical, configuration);
    }
    toolsets
}

/// Returns the finding for one toolset under two of its names.
fn given_twice(node: &Node, kind: &dyn ToolsetKind, span: &Span) -> Diagnostic {
    let found =
        Diagnostic::error(codes::DUPLICATE_KEY, format!("the toolset `{}` is given twice", kind.name()))
            .at(span);
    let is_it = |name: &str| name == kind.name() || kind.aliases().contains(&name);
    let mut entries = node.entries().iter().filter(|entry| is_it(&entry.key));
    let fix = match (entries.next(), entries.next()) {
        (Some(first), Some(second)) if first.value.to_json() == second.value.to_json() => {
            // The canonical name stays.
            let goes = if second.key == kind.name() { first } else { second };
            Fix::remove(format!("remove `{}`, which has the same value", goes.key), goes)
        }
        _ => None,
    };
    if fix.is_none() { found.help("keep one of them") } else { found.fix(fix) }
}

/// Adds warnings for toolsets whose configuration is null. A null value is the same as an absent key
/// (`docs/reference/worker-files.md`), which is probably not intended in `filesystem:`.
pub fn warn_of_nulls(whole: &Node, found: &mut Vec<Diagnostic>) {
    let toolsets = whole.get("toolsets").map(Node::entries).unwrap_or_default();
    // A value that has a syntax error is null as well, and its text is another.
    let is_null = |value: &Node| {
        value.data == Data::Null && matches!(value.span.text(), "" | "~" | "null" | "Null" | "NULL")
    };
    for entry in toolsets.iter().filter(|entry| is_null(&entry.value)) {
        found.push(
            Diagnostic::warning(
                codes::EMPTY_TOOLSET,
                format!("the toolset `{}` has no value, so it is not enabled", entry.key),
            )
            .at(&entry.key_span)
            .help("or remove the line")
            .fix(empty_map(entry)),
        );
    }
}

/// Returns the fix that changes `filesystem:` to `filesystem: {}`.
fn empty_map(entry: &Entry) -> Option<Fix> {
    let text = entry.key_span.file().text();
    let end = entry.key_span.range()?.end;
    let rest = text[end..].strip_prefix(['"', '\'']).unwrap_or(&text[end..]);
    let after = rest.trim_start_matches([' ', '\t']).strip_prefix(':')?;
    let at = text.len() - after.len();
    // Replace an explicit null.
    let line = &after[..after.find(['\n', '\r', '#', ',', '}']).unwrap_or(after.len())];
    let written = match line.trim() {
        "" => 0,
        "~" | "null" | "Null" | "NULL" => line.trim_end().len(),
        _ => return None,
    };
    let title = format!("write `{}: {{}}` to enable it with its defaults", entry.key);
    Fix::replace(title, &Span::new(entry.key_span.file(), at..at + written), " {}")
}

fn kind<'a>(
    name: &str,
    span: &Span,
    registry: &'a ToolsetRegistry,
    found: &mut Vec<Diagnostic>,
) -> Option<&'a Arc<dyn ToolsetKind>> {
    let kind = registry.get(name);
    if kind.is_none() {
        let names: Vec<&str> = registry.names().collect();
        let error = Diagnostic::error(codes::UNKNOWN_TOOLSET, format!("unknown toolset `{name}`"))
            .at(span)
            .did_you_mean(name, names.iter().copied());
        found.push(error.help(format!("available toolsets: {}", names.join(", "))));
    }
    kind
}

/// Returns the configuration in canonical form. `name` is the toolset's name in the file.
fn configure(
    kind: &dyn ToolsetKind,
    name: &str,
    node: &Node,
    declared: &Declared,
    found: &mut Vec<Diagnostic>,
) -> Node {
    let path = format!("toolsets.{name}");
    let declarations = kind.declarations();
    let listed = match (declarations, &node.data) {
        (Some(Declarations { property, .. }), Data::List(_)) => Some(wrapped(property, node.clone())),
        _ => None,
    };
    let node = listed.as_ref().unwrap_or(node);
    let Data::Map(entries) = &node.data else {
        let expected = if declarations.is_some() { "a map or a list of names" } else { "a map" };
        found.push(shape::wrong_type(node, &path, expected));
        return Node { span: node.span.clone(), data: Data::Map(Vec::new()) };
    };
    let schema = kind.configuration();
    let properties: Vec<&str> = schema
        .value()
        .get("properties")
        .and_then(Value::as_object)
        .map(|properties| properties.keys().map(String::as_str).collect())
        .unwrap_or_default();
    let open = schema.value().get("additionalProperties") != Some(&Value::Bool(false));
    let (mut own, mut shared, mut older) = (Vec::<Entry>::new(), Vec::new(), Vec::new());
    for entry in entries.iter().filter(|e| e.value.data != Data::Null && !e.key.starts_with("x-")) {
        let snake = snake_case(&entry.key);
        let renamed = kind.old_keys().iter().find(|(alias, _)| *alias == snake).map(|(_, name)| *name);
        let key = match properties.iter().find(|known| **known == entry.key || **known == snake) {
            Some(known) => Some(*known),
            None => renamed,
        };
        let canonical = |key: &str| Entry { key: key.to_owned(), ..entry.clone() };
        if let Some(key) = key {
            let here = format!("{path}.{key}");
            if let Some(other) = own.iter().find(|other| other.key == key) {
                found.push(shape::given_twice(&here, key, node, other, entry));
                continue;
            }
            let value = match schema.value().pointer(&format!("/properties/{key}")) {
                Some(schema) => canonical_keys(&entry.value, schema, &here, found),
                None => entry.value.clone(),
            };
            own.push(Entry { value, ..canonical(key) });
        } else if keys::TOOLSET.iter().any(|key| key.name == snake) {
            shared.push(canonical(&snake));
        } else if ["pre_approved", "approval_required"].contains(&snake.as_str()) {
            older.extend(old_default(&snake, entry, &path, found));
        } else if let Some(old) = kind.old_approvals().iter().find(|old| old.key == snake) {
            older.extend(old_approval(old, entry, &path, found));
        } else if open {
            let here = format!("{path}.{}", entry.key);
            let value = match schema.value().get("additionalProperties") {
                Some(schema) => canonical_keys(&entry.value, schema, &here, found),
                None => entry.value.clone(),
            };
            contradiction(&value, &here, found);
            own.push(Entry { value, ..entry.clone() });
        } else {
            let known = properties.iter().copied().chain(keys::TOOLSET.iter().map(|key| key.name));
            found.push(shape::unknown_key(entry, known, &path));
        }
    }
    for (at, second) in own.iter().enumerate() {
        let written = entries.iter().find(|entry| entry.key_span == second.key_span).unwrap_or(second);
        if let Some(first) = own[..at].iter().find(|first| first.key == second.key) {
            found.push(shape::given_twice(
                &format!("{path}.{}", second.key),
                &second.key,
                node,
                first,
                written,
            ));
        }
    }
    let own = Node { span: node.span.clone(), data: Data::Map(own) };
    let mut checked = own.clone();
    if let (Some(declarations), Data::Map(entries)) = (declarations, &mut checked.data) {
        for entry in entries.iter_mut().filter(|entry| entry.key == declarations.property) {
            if let Data::List(names) = &entry.value.data {
                check_names(names, &path, declarations, declared.get(kind.name()), found);
                // Names are no definitions, which the schema is about.
                entry.value.data = Data::Map(Vec::new());
            } else {
                reserved_names(&entry.value, &path, declarations, found);
            }
        }
    }
    validate(&schema, &checked, &path, "", found);
    let shared = Node { span: node.span.clone(), data: Data::Map(shared) };
    let shared = shape::check(&shared, keys::TOOLSET, &path, found);
    for entry in shared.get("approval").and_then(|a| a.get("tools")).map(Node::entries).unwrap_or_default() {
        manifest::pattern(&entry.key, &entry.key_span, found);
    }
    let mut all = own.entries().to_vec();
    all.extend(shared.entries().iter().cloned());
    let mut configuration = Node { span: node.span.clone(), data: Data::Map(all) };
    for old in older {
        // What `approval` says takes precedence over older spellings.
        configuration = overlay(&old, &configuration, false);
    }
    configuration
}

/// Reports the values that a kind's schema does not allow. `path` names the part of the configuration at the pointer
/// `within`.
fn validate(schema: &Schema, configuration: &Node, path: &str, within: &str, found: &mut Vec<Diagnostic>) {
    for violation in schema.validate(&configuration.to_json()).err().into_iter().flatten() {
        let at = configuration.at_pointer(&violation.pointer);
        let pointer = violation.pointer.strip_prefix(within).unwrap_or(&violation.pointer).to_owned();
        let violation = Violation { pointer, ..violation };
        found.push(
            Diagnostic::error(codes::BAD_TOOLSET_CONFIG, format!("`{path}` is invalid: {violation}"))
                .at(&at.span),
        );
    }
}

/// Reports definitions under a reserved name, or one that begins with it.
fn reserved_names(definitions: &Node, path: &str, declarations: Declarations, found: &mut Vec<Diagnostic>) {
    let Declarations { noun, reserved: Some(reserved), .. } = declarations else { return };
    let is_reserved =
        |name: &str| name.strip_prefix(reserved).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
    for entry in definitions.entries().iter().filter(|entry| is_reserved(&entry.key)) {
        let name = &entry.key;
        found.push(
            Diagnostic::error(
                codes::BAD_TOOLSET_CONFIG,
                format!("`{path}` is invalid: `{name}` can't be the name of the program's own {noun}"),
            )
            .at(&entry.key_span)
            .help(format!(
                "`{reserved}` and names that begin with `{reserved}-` are reserved: choose another name"
            )),
        );
    }
}

/// Reports names that the manifest does not declare, and names that are listed twice.
fn check_names(
    names: &[Node],
    path: &str,
    declarations: Declarations,
    declared: Option<&Node>,
    found: &mut Vec<Diagnostic>,
) {
    let Declarations { manifest_key, noun, reserved, .. } = declarations;
    let known = || declared.map(Node::entries).unwrap_or_default().iter().map(|entry| entry.key.as_str());
    for (at, node) in names.iter().enumerate() {
        let Some(name) = node.as_text() else {
            found.push(shape::wrong_type(node, &format!("{path}[{at}]"), "the name of a definition"));
            continue;
        };
        if let Some(first) = names[..at].iter().find(|other| other.as_text() == Some(name)) {
            found.push(
                Diagnostic::error(codes::DUPLICATE_KEY, format!("the {noun} `{name}` is listed twice"))
                    .at(&node.span)
                    .related("it is listed here too", &first.span)
                    .help("keep one of them"),
            );
        }
        if reserved != Some(name) && !known().any(|known| known == name) {
            found.push(
                Diagnostic::error(
                    codes::NOT_DECLARED,
                    format!("there is no {noun} `{name}` in `{manifest_key}` of the manifest"),
                )
                .at(&node.span)
                .did_you_mean(name, known())
                .help(format!("declare it in the manifest: `{manifest_key}: {{{name}: …}}`")),
            );
        }
    }
}

/// Reports a tool with contradicting rules.
fn contradiction(node: &Node, path: &str, found: &mut Vec<Diagnostic>) {
    let flag = |key: &str| node.get(key).and_then(Node::as_flag);
    if flag("pre_approved").is_some_and(|runs| flag("approval_required") == Some(runs)) {
        found.push(
            Diagnostic::error(
                codes::CONFLICT,
                format!("`pre_approved` and `approval_required` of `{path}` contradict each other"),
            )
            .at(&node.span)
            .help("keep one of them"),
        );
    }
}

/// Returns a part of a configuration without nulls, with the keys of its schema in their canonical spelling.
fn canonical_keys(node: &Node, schema: &Value, path: &str, found: &mut Vec<Diagnostic>) -> Node {
    let data = match &node.data {
        Data::Map(entries) if schema.get("properties").is_some() => {
            let mut kept: Vec<Entry> = Vec::new();
            for entry in entries.iter().filter(|entry| entry.value.data != Data::Null) {
                let property = |name: &str| schema.get("properties")?.get(name);
                let snake = snake_case(&entry.key);
                let (key, schema) = match (property(&entry.key), property(&snake)) {
                    (None, Some(schema)) => (snake, Some(schema)),
                    (schema, _) => (entry.key.clone(), schema),
                };
                let here = format!("{path}.{key}");
                if let Some(other) = kept.iter().find(|other| other.key == key) {
                    found.push(shape::given_twice(&here, &key, node, other, entry));
                    continue;
                }
                let value = match schema {
                    Some(schema) => canonical_keys(&entry.value, schema, &here, found),
                    None => entry.value.clone(),
                };
                kept.push(Entry { key, key_span: entry.key_span.clone(), value });
            }
            Data::Map(kept)
        }
        Data::List(items) => {
            let schema = schema.get("items").unwrap_or(&Value::Null);
            let items = items.iter().enumerate();
            Data::List(
                items.map(|(i, item)| canonical_keys(item, schema, &format!("{path}[{i}]"), found)).collect(),
            )
        }
        data => data.clone(),
    };
    Node { span: node.span.clone(), data }
}

/// Converts `pre_approved: true` of a whole toolset to `approval: {default: preApproved}`.
fn old_default(key: &str, entry: &Entry, path: &str, found: &mut Vec<Diagnostic>) -> Option<Node> {
    let Some(flag) = entry.value.as_flag() else {
        found.push(shape::wrong_type(&entry.value, &format!("{path}.{key}"), "true or false"));
        return None;
    };
    let rule = if flag == (key == "pre_approved") { Rule::PreApproved } else { Rule::Ask };
    let rule = made(entry, Data::Text(rule.to_string()));
    Some(map(entry, [("approval", map(entry, [("default", rule)]))]))
}

/// Converts `write_approval: true` to `approval: {tools: {write_file: ask, …}}`.
fn old_approval(old: &OldApproval, entry: &Entry, path: &str, found: &mut Vec<Diagnostic>) -> Option<Node> {
    let (tools, rule) = match entry.value.as_flag() {
        Some(true) => (old.ask, Rule::Ask),
        Some(false) => (old.run, Rule::PreApproved),
        None => {
            found.push(shape::wrong_type(&entry.value, &format!("{path}.{}", old.key), "true or false"));
            return None;
        }
    };
    let rule = made(entry, Data::Text(rule.to_string()));
    let rules = map(entry, tools.iter().map(|tool| (*tool, rule.clone())));
    Some(map(entry, [("approval", map(entry, [("tools", rules)]))]))
}

/// Returns a value in place of an older entry, with its span.
fn made(entry: &Entry, data: Data) -> Node {
    Node { span: entry.value.span.clone(), data }
}

/// Returns a map in place of an older entry, with its spans.
fn map<'a>(entry: &Entry, values: impl IntoIterator<Item = (&'a str, Node)>) -> Node {
    let entries = values.into_iter().map(|(key, value)| Entry {
        key: key.to_owned(),
        key_span: entry.key_span.clone(),
        value,
    });
    made(entry, Data::Map(entries.collect()))
}

/// Merges a worker's toolsets into its project's. Maps merge, lists and single values are the worker's, and rules
/// that the project blocks stay blocked (`docs/reference/approvals.md`).
pub fn merge(project: &Toolsets, worker: &Toolsets) -> Toolsets {
    let mut merged = project.clone();
    for (name, configuration) in worker {
        let both = match project.get(name) {
            Some(below) => overlay(below, configuration, false),
            None => configuration.clone(),
        };
        merged.insert(Arc::clone(name), both);
    }
    merged
}

fn overlay(below: &Node, above: &Node, approval: bool) -> Node {
    match (&below.data, &above.data) {
        (Data::Map(below_entries), Data::Map(above_entries)) => {
            let mut entries = below_entries.clone();
            for entry in above_entries {
                let approval = approval || entry.key == "approval";
                match entries.iter_mut().find(|known| known.key == entry.key) {
                    Some(known) => {
                        known.value = overlay(&known.value, &entry.value, approval);
                        known.key_span = entry.key_span.clone();
                    }
                    None => entries.push(entry.clone()),
                }
            }
            Node { span: above.span.clone(), data: Data::Map(entries) }
        }
        (Data::Text(rule), _) if approval && rule == "blocked" => below.clone(),
        _ => above.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{span::SourceFile, yaml};
    use llm_do_core::{
        schema::Schema,
        send::BoxFuture,
        toolset::{ToolsetContext, ToolsetRuntime},
    };
    use serde_json::json;

    struct Files;
    impl ToolsetKind for Files {
        fn name(&self) -> &'static str {
            "files"
        }
        fn aliases(&self) -> &'static [&'static str] {
            &["fs"]
        }
        fn old_keys(&self) -> &'static [(&'static str, &'static str)] {
            &[("old_names", "names")]
        }
        fn configuration(&self) -> Schema {
            Schema::built_in(json!({
                "type": "object",
                "properties": {"max_depth": {"type": "integer"}, "names": {"type": "array"}, "rules": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"approval_required": {"type": "boolean"}, "default": {}}},
                }},
                "additionalProperties": false,
            }))
        }
    }

    impl ToolsetRuntime for Files {
        fn build<'a>(
            &'a self,
            _: &'a Value,
            _: &'a ToolsetContext<'a>,
        ) -> BoxFuture<'a, Result<Vec<llm_do_core::function::Function>, String>> {
            Box::pin(async { Ok(Vec::new()) })
        }
    }

    fn toolsets(text: &str) -> (Toolsets, Vec<Diagnostic>) {
        let mut registry = ToolsetRegistry::default();
        registry.register(Arc::new(Files));
        let node = yaml::parse(&SourceFile::new("x.worker", text), text.len()).unwrap();
        let mut found = Vec::new();
        let toolsets = read(&node, &registry, &Declared::new(), &mut found);
        (toolsets, found)
    }

    #[test]
    fn configurations_become_canonical_and_merge() {
        let (project, found) =
            toolsets("files: {maxDepth: 2, names: [a, b], approval: {tools: {x: blocked, y: ask}}}");
        assert_eq!(found, []);
        let (worker, found) = toolsets(
            "fs: {names: [c], pre_approved: true, approval: {tools: {x: preApproved, y: {pre_approved: true}}}}",
        );
        assert_eq!(found, []);
        let merged = merge(&project, &worker);
        assert_eq!(
            merged["files"].to_json(),
            json!({
                "max_depth": 2, "names": ["c"],
                "approval": {"tools": {"x": "blocked", "y": "preApproved"}, "default": "preApproved"},
            })
        );
        let (nested, found) = toolsets(
            "files: {rules: [{approvalRequired: true, default: {maxDepth: 1}, Mine: ~}], OldNames: [X]}",
        );
        assert_eq!(found, []);
        assert_eq!(
            nested["files"].to_json(),
            json!({"rules": [{"approval_required": true, "default": {"maxDepth": 1}}], "names": ["X"]})
        );
        let (listed, found) = toolsets("[files]");
        assert_eq!((listed["files"].to_json(), found), (json!({}), vec![]));
    }

    #[test]
    fn configurations_are_checked() {
        let codes = |text: &str| toolsets(text).1.iter().map(|d| d.code.id).collect::<Vec<_>>();
        assert_eq!(codes("files: {max_dept: 1}"), ["E0201"]);
        assert_eq!(codes("files: {max_depth: x}"), ["E0412"]);
        assert_eq!(codes("files: {tools: 3}"), ["E0202"]);
        assert_eq!(codes("files: {approval: {default: never}}"), ["E0203"]);
        assert_eq!(codes("files: {approval: {tools: {'x(': ask}}}"), ["E0404"]);
        assert_eq!(codes("{filse: {}}"), ["E0406"]);
        assert_eq!(codes("{files: {}, fs: {}}"), ["E0108"]);
        assert_eq!(codes("files: {names: [a], oldNames: [b]}"), ["E0108"]);
        assert_eq!(codes("files: {rules: [{approval_required: true, approvalRequired: true}]}"), ["E0108"]);
        assert_eq!(codes("files: yes"), ["E0202"]);
    }
}
