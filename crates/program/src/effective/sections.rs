//! Converts sections of a worker's keys to the types of the engine.

use crate::{
    diagnostics::{Diagnostic, codes},
    limits,
    load_options::LoadOptions,
    mounts,
    rules::{FileRule, read_set, written},
    shape::{self, milliseconds},
    source::SourceTree,
    yaml::Node,
};
use llm_do_core::{
    conversation::Ensure,
    gate::FileSet,
    model::ModelSettings,
    worker::{AttachmentPolicy, CallOverride, Limits},
};
use std::{sync::Arc, time::Duration};

/// Reads the rules of `tool_rules`, with their time limits and retries.
pub(super) fn rules(
    keys: &Node,
    tree: &dyn SourceTree,
    found: &mut Vec<Diagnostic>,
) -> (Vec<FileRule>, Vec<CallOverride>) {
    let (mut rules, mut overrides) = (Vec::new(), Vec::new());
    let read = |set: &FileSet| read_set(tree, set);
    for written in written(keys.get("tool_rules")) {
        let Some(rule) = written.read(&read, found) else { continue };
        let flag = |key: &str| written.value.get(key).and_then(Node::as_flag);
        let (required, pre_approved) = (flag("approval_required"), flag("pre_approved"));
        if required.is_some() && required == pre_approved {
            found.push(
                Diagnostic::error(
                    codes::CONFLICT,
                    "`approval_required` and `pre_approved` contradict each other",
                )
                .at(&written.value.span)
                .help("keep one of them"),
            );
        }
        let timeout = written.value.get("timeout").and_then(milliseconds).map(Duration::from_millis);
        let retries = written.value.get("retries").and_then(Node::as_count);
        let retries = retries.map(|retries| u32::try_from(retries).unwrap_or(u32::MAX));
        let limits = timeout.is_some() || retries.is_some();
        if limits && !rule.tests.is_empty() {
            found.push(
                Diagnostic::error(
                    codes::CONFLICT,
                    "`timeout` and `retries` hold for all calls of a tool, and `when` names some",
                )
                .at(&written.value.span)
                .help("write them in a rule of their own, without `when` and `then`"),
            );
        } else if limits {
            overrides.push(CallOverride { pattern: rule.calls.pattern.clone(), timeout, retries });
        }
        if written.is_item && rule.rule.is_none() && !limits {
            found.push(
                shape::bad_value(written.value, "this rule says nothing")
                    .help("add `then` with `preApproved`, `ask` or `blocked`"),
            );
        }
        rules.push(rule);
    }
    (rules, overrides)
}

/// Reads `ensures`: a list of tools and conditions, or a map from these to messages for the model.
pub(super) fn ensures(keys: &Node, found: &mut Vec<Diagnostic>) -> Arc<[Ensure]> {
    let Some(node) = keys.get("ensures") else { return Arc::new([]) };
    let bare = node.texts().map(|(that, span)| (that, None, span));
    let with_reason =
        node.entries().iter().map(|entry| (entry.key.as_str(), entry.value.as_text(), &entry.key_span));
    let made =
        bare.chain(with_reason).filter_map(|(that, reason, span)| match Ensure::new(that, reason) {
            Ok(ensure) => Some(ensure),
            Err(problem) => {
                let message = format!("`{that}` is not a valid condition: {problem}");
                found.push(Diagnostic::error(codes::BAD_CONDITION, message).at(span).help(
                    "name a tool, or write an expression over `input` and `output`, such as `output.title | length < 80`",
                ));
                None
            }
        });
    made.collect()
}

pub(super) fn attachment_policy(node: &Node) -> AttachmentPolicy {
    let mut policy = AttachmentPolicy::default();
    let count = |key: &str| node.get(key).and_then(Node::as_count);
    if let Some(most) = count("max_attachments") {
        policy.max_attachments = u32::try_from(most).unwrap_or(u32::MAX);
    }
    if let Some(most) = count("max_total_bytes") {
        policy.max_total_bytes = most;
    }
    if let Some(list) = node.get("allowed_suffixes") {
        policy.allowed_suffixes = mounts::suffixes(list);
    }
    if let Some(list) = node.get("denied_suffixes") {
        policy.denied_suffixes = mounts::suffixes(list);
    }
    policy
}

pub(super) fn settings(node: &Node) -> ModelSettings {
    let number = |key: &str| node.get(key).and_then(Node::as_number);
    ModelSettings {
        temperature: number("temperature"),
        top_p: number("top_p"),
        max_tokens: node
            .get("max_tokens")
            .and_then(Node::as_count)
            .map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
        seed: node.get("seed").and_then(Node::as_count),
        stop: node.get("stop").into_iter().flat_map(Node::texts).map(|(text, _)| text.to_owned()).collect(),
        reasoning_effort: node.get("reasoning_effort").and_then(Node::as_text).map(str::to_owned),
    }
}

/// Returns the tightest value of each limit over all layers, or the default.
pub(super) fn limits(host: &LoadOptions, layers: &[Option<&Node>]) -> Limits {
    let given = layers.iter().flatten().fold(host.limits, |given, node| given.and(&limits::given(node)));
    given.over(&Limits::default())
}
