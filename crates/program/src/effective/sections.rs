//! Converts sections of a worker's keys to the types of the engine.

use crate::{
    diagnostics::{Diagnostic, codes},
    limits,
    load_options::LoadOptions,
    manifest, mounts,
    shape::{milliseconds, rule_of},
    yaml::Node,
};
use llm_do_core::{
    conversation::Ensure,
    gate::{Pattern, Rule, RuleLine, Subject},
    model::ModelSettings,
    toolset::ToolsetKind,
    toolsets::filesystem::Filesystem,
    worker::{AttachmentPolicy, CallOverride, Limits},
};
use std::{sync::Arc, time::Duration};

pub(super) fn rules(keys: &Node, found: &mut Vec<Diagnostic>) -> (Vec<RuleLine>, Vec<CallOverride>) {
    let (mut lines, mut overrides) = (Vec::new(), Vec::new());
    for entry in keys.get("tool_rules").map(Node::entries).unwrap_or_default() {
        let Some(pattern) = manifest::pattern(&entry.key, &entry.key_span, found) else { continue };
        examples(&pattern, &entry.value, found);
        let flag = |key: &str| entry.value.get(key).and_then(Node::as_flag);
        let (required, pre_approved) = (flag("approval_required"), flag("pre_approved"));
        if required.is_some() && required == pre_approved {
            found.push(
                Diagnostic::error(
                    codes::CONFLICT,
                    "`approval_required` and `pre_approved` contradict each other",
                )
                .at(&entry.value.span)
                .help("keep one of them"),
            );
        }
        let rule = match (rule_of(&entry.value), flag("allowed"), required, pre_approved) {
            (Some(rule), ..) => Some(rule),
            (_, Some(false), ..) => Some(Rule::Blocked),
            (_, _, Some(true), _) | (_, _, None, Some(false)) => Some(Rule::Ask),
            (_, _, Some(false), _) | (_, _, None, Some(true)) => Some(Rule::PreApproved),
            _ => None,
        };
        if let Some(rule) = rule {
            lines.push(RuleLine { pattern: pattern.clone(), rule, origin: entry.key_span.origin() });
        }
        let timeout = entry.value.get("timeout").and_then(milliseconds).map(Duration::from_millis);
        let retries = entry.value.get("retries").and_then(Node::as_count);
        let retries = retries.map(|retries| u32::try_from(retries).unwrap_or(u32::MAX));
        if timeout.is_some() || retries.is_some() {
            overrides.push(CallOverride { pattern, timeout, retries });
        }
    }
    (lines, overrides)
}

/// Checks the examples of a rule. A rule that matches the wrong calls does not protect anything.
fn examples(pattern: &Pattern, rule: &Node, found: &mut Vec<Diagnostic>) {
    let of_files = Filesystem.tools().iter().any(|tool| pattern.names_one_of(&[tool]));
    let fits = |example: &str| match (pattern.has_arguments(), of_files) {
        (false, _) => pattern.names_one_of(&[example]),
        (true, true) => pattern.fits_arguments(&Subject::Path(example.trim_start_matches('/').to_owned())),
        (true, false) => pattern.fits_arguments(&Subject::Text(example.to_owned())),
    };
    for (key, expected) in [("match", true), ("not_match", false)] {
        for (example, span) in rule.get(key).into_iter().flat_map(Node::texts) {
            if fits(example) != expected {
                let not = if expected { "does not match" } else { "matches" };
                found.push(
                    Diagnostic::error(codes::RULE_EXAMPLE, format!("`{pattern}` {not} `{example}`"))
                        .at(span)
                        .note(
                            "in paths, `*` does not match `/` and `**` does; elsewhere, `*` matches any text",
                        )
                        .help("change the pattern, or the example"),
                );
            }
        }
    }
}

/// `ensures`: a list of tools and conditions, or a map from these to messages for the model.
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

/// The tightest value of each limit over all layers, or the default.
pub(super) fn limits(host: &LoadOptions, layers: &[Option<&Node>]) -> Limits {
    let given = layers.iter().flatten().fold(host.limits, |given, node| given.and(&limits::given(node)));
    given.over(&Limits::default())
}
