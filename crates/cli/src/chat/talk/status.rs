//! The status row: the worker, its model, its usage, and the current activity.

use super::Talk;
use crate::chat::face::Status;
use llm_do_core::{call_path::CallPath, model::Usage};
use std::time::Instant;

impl Talk<'_> {
    /// Shows the state, if it has changed.
    pub(super) fn show_status(&mut self) {
        let total = self.view.usage();
        let path = self.under_way().cloned().unwrap_or_else(CallPath::root);
        let chain = self.view.chain(&path).join(" → ");
        let model = self.view.call_under_way(&path).and_then(|call| call.model.as_ref());
        let mut about = vec![if chain.is_empty() { self.worker.to_string() } else { chain }];
        about.extend(model.map(ToString::to_string));
        if total.total() > 0 {
            about.push(used(total));
        }
        about.extend(self.context.short());
        self.count_waiting();
        let doing = self.since.map(|since| {
            if self.dialogue.is_asked() {
                // No seconds: nothing is written while the user thinks.
                return "waiting for you".to_owned();
            }
            let call = self.view.under_way().rfind(|call| call.path != CallPath::root());
            let what = call.map_or("answering".into(), |call| call.function.to_string());
            // As wide as most times, so that the rest of the row keeps its place and is not written again.
            let time = format!("{}s", since.elapsed().as_secs());
            format!("{what} {time:<4}")
        });
        let status = Status { doing, about: about.join(" · ") };
        if status != self.status {
            self.face.status(&status);
            self.status = status;
        }
    }

    /// Excludes the time for which a question waits for the user from the shown time.
    fn count_waiting(&mut self) {
        if self.dialogue.is_asked() {
            self.asked_since.get_or_insert_with(Instant::now);
        } else if let (Some(asked), Some(since)) = (self.asked_since.take(), &mut self.since) {
            *since = (*since + asked.elapsed()).min(Instant::now());
        }
    }
}

/// Formats usage as `1,200 in, 30 out, $0.01`.
pub(super) fn used(usage: Usage) -> String {
    let mut said = vec![format!(
        "{} in, {} out",
        usage.input_tokens.map_or("?".into(), llm_do_records::thousands),
        usage.output_tokens.map_or("?".into(), llm_do_records::thousands)
    )];
    said.extend(
        usage
            .cached_tokens
            .filter(|cached| *cached > 0)
            .map(|cached| format!("{} of these cached", llm_do_records::thousands(cached))),
    );
    said.extend(usage.cost_usd.map(|cost| cost.to_string()));
    said.join(", ")
}
