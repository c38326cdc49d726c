//! The question about a tool that was cut off: what became of it, only the operator can know.

use crate::{
    paint::Paint,
    rows::{Rows, Tone},
    visible,
};
use llm_do_core::{call_path::CallPath, question::Settlement};

/// What is asked.
pub(super) fn question(call: &CallPath, cut_off: &Settlement, columns: usize, paint: Paint) -> String {
    let mut rows = Rows::new(columns, paint);
    rows.heading(&[
        (Tone::Name, &cut_off.chain.join(" → ")),
        (Tone::Plain, " called "),
        (Tone::Bold, &cut_off.function),
        (Tone::Plain, &format!(" at {call}. It was cut off before it ended.")),
    ]);
    rows.line(&[(Tone::Plain, &visible::start(&cut_off.input.to_string(), 500))]);
    format!("{}Only you can know whether its effect took place.\n", rows.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
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
        insta::assert_snapshot!(question(&CallPath::root().call(1, 0), &cut_off, 80, Paint::NEVER), @r#"
        main called post\x1b[2J at 0/1.0. It was cut off before it ended.
          │ {"to":"ada\u{202e}"}
        Only you can know whether its effect took place.
        "#);
    }
}
