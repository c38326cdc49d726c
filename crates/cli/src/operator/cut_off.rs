//! The question about a tool that was cut off: what became of it, only the operator can know.

use super::entry::{Entered, read};
use crate::{
    paint::Paint,
    terminal::{Terminal, Typed},
    visible,
};
use llm_do_core::{
    call_path::CallPath,
    question::{Answer, Settlement},
};
use std::sync::{Arc, atomic::AtomicBool};

/// Asks what becomes of it. `None`: nothing now, the run stays as it is.
pub(super) fn ask(
    terminal: &Terminal,
    cancelled: &AtomicBool,
    call: &CallPath,
    cut_off: &Settlement,
    paint: Paint,
) -> Option<Answer> {
    terminal.show(&question(call, cut_off, paint));
    terminal.read_keys(cancelled);
    let answer = loop {
        let text = match terminal.next(cancelled) {
            Typed::Text(text) => text,
            Typed::Other => continue,
            Typed::End | Typed::Cancelled => break None,
        };
        let (word, answer) = match text.trim_end() {
            "a" => ("again", Some(Answer::Again)),
            "x" => ("end the run", Some(Answer::Abort)),
            "q" => ("not now", None),
            "d" => {
                terminal.show("done\n");
                break match read(terminal, cancelled, "its result (text or JSON): ", "") {
                    Entered::Line(line) => {
                        let result = serde_json::from_str(&line).unwrap_or_else(|_| line.into());
                        Some(Answer::Done { result: Arc::new(result) })
                    }
                    Entered::Left | Entered::Cancelled => None,
                };
            }
            _ => continue,
        };
        terminal.show(&format!("{word}\n"));
        break answer;
    };
    terminal.restore();
    answer
}

fn question(call: &CallPath, cut_off: &Settlement, paint: Paint) -> String {
    let input = cut_off.input.to_string();
    format!(
        "{} called {} at {call}. It was cut off before it ended, and only you can know whether its effect took place.\n  {}\n[a] run it again  [d] it is done: give its result  [x] end the run  [q] decide later ",
        paint.cyan(visible::line(&cut_off.chain.join(" → "))),
        paint.bold(visible::line(&cut_off.function)),
        visible::line(&visible::start(&input, 500)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use llm_do_core::risk::Risk;
    use serde_json::json;

    #[test]
    fn the_question_shows_the_call_and_nothing_of_it_acts() {
        let cut_off = Settlement {
            chain: vec!["main".into()],
            function: "post\u{1b}[2J".into(),
            risk: Risk::Network,
            input: Arc::new(json!({"to": "ada\u{202e}"})),
        };
        insta::assert_snapshot!(question(&CallPath::root().call(1, 0), &cut_off, Paint::NEVER), @r#"
        main called post\x1b[2J at 0/1.0. It was cut off before it ended, and only you can know whether its effect took place.
          {"to":"ada\u{202e}"}
        [a] run it again  [d] it is done: give its result  [x] end the run  [q] decide later
        "#);
    }
}
