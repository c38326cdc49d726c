//! The question about a tool that was cut off. Only the operator can know its result.

use crate::{
    rows::{Rows, Tone},
    visible,
};
use llm_do_core::{call_path::CallPath, question::Settlement};
use llm_do_terminal::Line;

/// Formats the question.
pub(super) fn question(call: &CallPath, cut_off: &Settlement, columns: usize) -> Vec<Line> {
    let mut rows = Rows::new(columns);
    rows.heading(&[
        (Tone::Name, &cut_off.chain.join(" → ")),
        (Tone::Plain, " called "),
        (Tone::Bold, &cut_off.function),
        (Tone::Plain, &format!(" at {call}. It was cut off before it ended.")),
    ]);
    rows.line(&[(Tone::Plain, &visible::start(&cut_off.input.to_string(), 500))]);
    rows.heading(&[(Tone::Plain, "Only you can know whether its effect took place.")]);
    rows.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paint::Paint;
    use llm_do_core::risk::Risk;
    use serde_json::json;
    use std::sync::Arc;

    #[test]
    fn the_question_shows_the_call_and_nothing_of_it_acts() {
        let cut_off = Settlement {
            chain: vec!["main".into()],
            function: "post\u{1b}[2J".into(),
            risk: Risk::Network,
            input: Arc::new(json!({"to": "ada\u{202e}"})),
        };
        let shown = question(&CallPath::root().call(1, 0), &cut_off, 80);
        insta::assert_snapshot!(Paint::NEVER.lines(&shown), @r#"
        main called post\x1b[2J at 0/1.0. It was cut off before it ended.
          │ {"to":"ada\u{202e}"}
        Only you can know whether its effect took place.
        "#);
    }
}
