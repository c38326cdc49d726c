//! Early drafts in which all keys of a file are inside `worker:` or `workshop:`.

use crate::{
    Findings, Form,
    draft::{Draft, Role},
    rewrite::same,
};
use llm_do_program::{
    front_matter,
    source::SourceTree,
    span::SourceFile,
    yaml::{Entry, Node},
};

/// Reads a definition file of any format. Adds problems to `findings`.
pub(super) fn read(tree: &dyn SourceTree, path: &str, findings: &mut Findings) -> Option<Draft> {
    Draft::read(tree, path, findings).map(|draft| unwrap(draft, findings))
}

/// Returns the draft with its keys at the top level.
fn unwrap(mut draft: Draft, findings: &mut Findings) -> Draft {
    let (name, inner) = match draft.before().entries() {
        [entry]
            if ["worker", "workshop"].contains(&entry.key.as_str()) && !entry.value.entries().is_empty() =>
        {
            (entry.key.clone(), entry.clone())
        }
        _ => return draft,
    };
    findings.forms.insert(Form::Wrapper);
    draft.was_wrapped = true;
    if name == "workshop" {
        draft.role = Role::Manifest;
    }
    match dedented(&draft, &inner) {
        Some((text, lines, keys, file)) => draft.unwrapped(text, lines, keys, file),
        None => draft.written_anew(inner.value),
    }
}

/// Removes the wrapper's line from the YAML and moves the text to the left. Returns the text, the number of removed
/// lines, and the parsed content.
fn dedented(draft: &Draft, wrapper: &Entry) -> Option<(String, usize, Node, std::sync::Arc<SourceFile>)> {
    let (file, yaml) = draft.source();
    let whole = file.text();
    let key = wrapper.key_span.range()?.start;
    let first = wrapper.value.entries().first()?.key_span.range()?.start;
    let line = whole[..key].rfind('\n').map_or(0, |newline| newline + 1);
    let next = whole[key..].find('\n').map(|newline| key + newline + 1)?;
    let first_line = whole[..first].rfind('\n').map_or(0, |newline| newline + 1);
    let indent = first - first_line;
    if first_line < next || line < yaml.start {
        return None;
    }
    // A comment beside the wrapper stays, on a line of its own.
    let beside = whole[wrapper.key_span.range()?.end..next].trim_start_matches(':').trim();
    let mut text = whole[yaml.start..line].to_owned();
    let mut lines = 1;
    if beside.starts_with('#') {
        text.push_str(beside);
        text.push('\n');
        lines = 0;
    } else if !beside.is_empty() {
        return None;
    }
    for line in whole[next..yaml.end].split_inclusive('\n') {
        let spaces = line.len() - line.trim_start_matches(' ').len();
        text.push_str(&line[spaces.min(indent)..]);
    }
    let all = format!("{}{text}{}", &whole[..yaml.start], &whole[yaml.end..]);
    let file = SourceFile::new(draft.path.as_str(), all);
    let keys = if yaml.start == 0 && yaml.end == whole.len() {
        front_matter::yaml_only(std::sync::Arc::clone(&file)).ok()?.keys
    } else {
        front_matter::worker(std::sync::Arc::clone(&file)).ok()?.keys
    };
    same(&keys, &wrapper.value).then_some((text, lines, keys, file))
}
