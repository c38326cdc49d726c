//! `/model`.

use super::{Talk, candidate};
use crate::{chat::known::Known, visible};
use llm_do_core::{call_path::CallPath, model::ModelName, question::Answer};
use llm_do_terminal::{Candidate, fuzzy};

/// Changes the model, or shows what there is without a name.
pub(super) fn model(talk: &mut Talk<'_>, name: &str) {
    if name.is_empty() {
        let text = list(talk);
        return talk.face.page(&text);
    }
    let model: ModelName = match name.parse() {
        Ok(model) => model,
        Err(error) => {
            let local = talk.known.local_models().into_iter().find(|local| *local == format!("local:{name}"));
            let hint = local.map(|local| format!("\n  did you mean {local}?")).unwrap_or_default();
            talk.face.problem(&format!("{error}{hint}"));
            return;
        }
    };
    talk.give(Answer::Model { model });
}

fn list(talk: &Talk<'_>) -> String {
    let entry = talk.known.entry();
    let model = talk.view.call(&CallPath::root()).and_then(|call| call.model.as_ref());
    let mut lines: Vec<String> = model.map(|model| format!("now: {model}")).into_iter().collect();
    if entry.locked {
        lines.push(format!("{} is locked to its model", entry.id));
    }
    if !entry.compatible_models.is_empty() {
        lines.push(format!("compatible_models of {}: {}", entry.id, entry.compatible_models.join(", ")));
    }
    lines.push(format!("providers: {}", talk.known.providers().join(", ")));
    let local = talk.known.local_models();
    lines.push(match local.is_empty() {
        true => "local models: none; `llm-do models pull` fetches one".to_owned(),
        false => format!("local models: {}", visible::line(&local.join(", "))),
    });
    lines.push("`llm-do doctor` shows the providers with a key".to_owned());
    lines.join("\n")
}

/// Returns the candidates: compatible models that are no patterns, local models, and providers.
pub(super) fn complete(known: &Known, word: &str) -> Vec<Candidate> {
    let names = known.entry().compatible_models.iter().filter(|name| !name.contains(['*', '?', '[']));
    let providers = known.providers().iter().map(|provider| format!("{provider}:"));
    let all = names.map(ToString::to_string).chain(known.local_models()).chain(providers);
    fuzzy::rank(word, all, |name| name).into_iter().map(|name| candidate(&name, "")).collect()
}
