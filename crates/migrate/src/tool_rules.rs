//! Older rules: names of tools that have been renamed, and the shell's rules at the top level.

use crate::{Findings, Form, draft::Draft, get_mut, made_entry, made_text, map_at, take};
use llm_do_program::yaml::{Data, Entry, Node};

/// Rules for the tools of the old sandbox, and their current form.
const SANDBOX: [(&str, &str); 3] =
    [("sandbox.read", "read"), ("sandbox.write", "write"), ("sandbox.delete", "delete")];
/// Tools that were renamed.
const RENAMED: [(&str, &str); 2] = [("worker.call", "worker_call"), ("worker.create", "worker_create")];

/// Returns the rule for an older form.
pub(super) fn rule(node: &Node) -> Option<&'static str> {
    let flag = |snake: &str, camel: &str| {
        node.entry(snake).or_else(|| node.entry(camel)).and_then(|entry| entry.value.as_flag())
    };
    let allowed = flag("allowed", "allowed");
    let asks = flag("approval_required", "approvalRequired");
    let pre_approved = flag("pre_approved", "preApproved");
    match (allowed, asks, pre_approved) {
        (Some(false), ..) => Some("blocked"),
        (_, Some(true), None) | (_, None, Some(false)) => Some("ask"),
        (_, Some(false), None) | (_, None, Some(true)) => Some("preApproved"),
        // In the old form a rule that only allows did not ask.
        (Some(true), None, None) => Some("preApproved"),
        _ => None,
    }
}

/// Makes `tool_rules`, `shell_rules` and `shell_default` canonical. Returns true if the worker had the old sandbox's
/// tools.
pub(super) fn convert(draft: &mut Draft, findings: &mut Findings) -> bool {
    shell(draft, findings);
    let mut had_files = false;
    let Some(Node { data: Data::Map(rules), .. }) = get_mut(&mut draft.keys, "tool_rules") else {
        return false;
    };
    let mut kept: Vec<Entry> = Vec::new();
    let (mut moved, mut left) = (Vec::new(), Vec::new());
    for mut entry in std::mem::take(rules) {
        let inner_name = take(&mut entry.value, "name");
        if let Some(name) = inner_name.as_ref().and_then(|name| name.value.as_text()) {
            // The key was a label; the name inside is what counted.
            if entry.key != name {
                name.clone_into(&mut entry.key);
            }
            findings.forms.insert(Form::Keys);
        }
        if let Some(description) = take(&mut entry.value, "description") {
            left.push((format!("tool_rules.{}.description", entry.key), description));
        }
        if let Some((_, what)) = SANDBOX.iter().find(|(old, _)| *old == entry.key) {
            had_files = true;
            match rule(&entry.value) {
                Some(rule) => moved.push((*what, rule)),
                None => left.push((format!("tool_rules.{}", entry.key), entry)),
            }
            continue;
        }
        if let Some((_, new)) = RENAMED.iter().find(|(old, _)| *old == entry.key) {
            (*new).clone_into(&mut entry.key);
            findings.forms.insert(Form::Keys);
        }
        kept.push(entry);
    }
    let empty = kept.is_empty();
    *rules = kept;
    if empty {
        take(&mut draft.keys, "tool_rules");
    }
    for (what, rule) in moved {
        findings.forms.insert(Form::Keys);
        let approval = map_at(&mut draft.keys, "sandbox").and_then(|sandbox| map_at(sandbox, "approval"));
        if let Some(Data::Map(entries)) = approval.map(|approval| &mut approval.data)
            && !entries.iter().any(|known| known.key == what)
        {
            entries.push(made_entry(what, made_text(rule)));
            // A rule for writing covers deleting too, which there was not then.
            if what == "write" && rule == "preApproved" && !entries.iter().any(|known| known.key == "delete")
            {
                entries.push(made_entry("delete", made_text("ask")));
            }
        }
    }
    for (key, entry) in left {
        draft.put_aside(&key, entry.value, &entry.key_span, findings);
    }
    had_files
}

/// Converts `shell_rules` and `shell_default` to `toolsets.shell`.
fn shell(draft: &mut Draft, findings: &mut Findings) {
    let (rules, default) = (take(&mut draft.keys, "shell_rules"), take(&mut draft.keys, "shell_default"));
    if rules.is_none() && default.is_none() {
        return;
    }
    findings.forms.insert(Form::Keys);
    let mut configuration = Vec::new();
    let mut refused = Vec::new();
    if let Some(rules) = rules {
        let (fitting, blocked): (Vec<Node>, Vec<Node>) = rules
            .value
            .items()
            .iter()
            .cloned()
            .partition(|rule| rule.get("allowed").and_then(Node::as_flag) != Some(false));
        refused.extend(blocked.into_iter().map(|rule| ("shell_rules".to_owned(), rule)));
        let without = |mut rule: Node| {
            take(&mut rule, "allowed");
            rule
        };
        let list = Node {
            span: rules.value.span.clone(),
            data: Data::List(fitting.into_iter().map(without).collect()),
        };
        configuration.push(made_entry("rules", list));
    }
    if let Some(mut default) = default {
        let allowed = take(&mut default.value, "allowed").and_then(|entry| entry.value.as_flag());
        // A command that no rule names is refused, as it is where there is no default.
        if allowed != Some(false) {
            configuration.push(made_entry("default", default.value));
        }
    }
    if let Some(toolsets) = toolsets_as_map(draft)
        && let Data::Map(entries) = &mut toolsets.data
        && !entries.iter().any(|entry| entry.key == "shell")
    {
        entries.push(made_entry("shell", crate::made(Data::Map(configuration))));
    }
    for (key, rule) in refused {
        let pattern = rule.get("pattern").and_then(Node::as_text).unwrap_or("?").to_owned();
        let span = rule.span.clone();
        draft.put_aside(&format!("{key}.{pattern}"), rule, &span, findings);
    }
}

/// Returns the toolsets as a map, converted from a list if necessary.
fn toolsets_as_map(draft: &mut Draft) -> Option<&mut Node> {
    let listed: Option<Vec<String>> = match draft.keys.get("toolsets").map(|node| &node.data) {
        Some(Data::List(_) | Data::Text(_)) => {
            draft.keys.get("toolsets").map(|node| node.texts().map(|(name, _)| name.to_owned()).collect())
        }
        _ => None,
    };
    if let (Some(names), Some(node)) = (listed, get_mut(&mut draft.keys, "toolsets")) {
        let empty = || crate::made(Data::Map(Vec::new()));
        node.data = Data::Map(names.into_iter().map(|name| made_entry(name, empty())).collect());
    }
    map_at(&mut draft.keys, "toolsets")
}
