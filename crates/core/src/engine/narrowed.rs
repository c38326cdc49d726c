//! Calls after a result that narrows them: a loaded skill with `allowed-tools` (`docs/guides/skills.md`).

use super::{Admitted, Call, Engine, names};
use crate::{
    gate::{DecidedBy, Pattern, Rule},
    origin::{ContentKind, ResultOrigin},
    source::FunctionSource,
    toolset::{Narrowed, ToolsetKind},
};
use serde_json::Value;
use std::sync::Arc;

impl Engine {
    /// The rule for a call that a result on its trail does not name ([`ToolsetKind::narrows`]). The trail has the results
    /// of the conversation and of its callers, so a resumed run and a called worker are narrowed in the same way.
    pub(super) fn narrowed(&self, call: &Call<'_>, admitted: &Admitted) -> Option<(Rule, DecidedBy)> {
        let of_worker = call.frame.workers().flat_map(|worker| &worker.toolsets);
        let kinds: Vec<(&Arc<dyn ToolsetKind>, &Value)> = of_worker
            .filter_map(|(name, configuration)| Some((self.host.toolsets.get(name)?, &**configuration)))
            .filter(|(kind, _)| kind.skill_folders().is_some())
            .collect();
        let meta = &call.function.meta;
        let stays = |kind: &dyn ToolsetKind| {
            matches!(&meta.source, FunctionSource::Toolset(name) if **name == *kind.name())
                || meta.results == ResultOrigin::User
        };
        if kinds.is_empty() {
            return None;
        }
        let results = call.frame.trail().contents().filter(|content| content.kind == ContentKind::Result);
        for content in results {
            let narrowed = kinds
                .iter()
                .filter(|(kind, _)| kind.tools().contains(&&*content.function))
                .find_map(|(kind, configuration)| {
                    let narrowed = kind.narrows(configuration, content.source.as_deref(), &content.value)?;
                    Some((kind, narrowed))
                });
            if let Some((kind, narrowed)) = narrowed
                && !stays(&***kind)
                && !allows(&narrowed, call, admitted)
            {
                return Some((Rule::Ask, DecidedBy::Toolset { why: narrowed.by }));
            }
        }
        None
    }
}

fn allows(narrowed: &Narrowed, call: &Call<'_>, admitted: &Admitted) -> bool {
    let meta = &call.function.meta;
    let reads = meta.risk.only_reads() && !admitted.places.is_empty();
    if reads && admitted.places.iter().all(|place| place.path.rest(&narrowed.readable).is_some()) {
        return true;
    }
    let names = names(call.function, call.frame);
    let mut patterns = narrowed.to.iter().filter_map(|pattern| Pattern::parse(pattern).ok());
    patterns.any(|pattern| pattern.names_one_of(&names) && pattern.covers(admitted.subjects.as_deref()))
}
