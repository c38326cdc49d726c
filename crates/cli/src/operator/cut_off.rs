//! The question about a tool that was cut off: what became of it, only the operator can know.

use super::entry::{Entered, read};
use crate::{
    paint::Paint,
    rows::{Rows, Tone},
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
    let question = |columns| question(call, cut_off, columns, paint);
    terminal.draw(question);
    terminal.read_keys(cancelled);
    let answer = loop {
        let text = match terminal.next(cancelled) {
            Typed::Text(text) => text,
            Typed::Resized => {
                terminal.redraw(question);
                continue;
            }
            Typed::Other => continue,
            Typed::End | Typed::Cancelled => break None,
        };
        let (word, answer) = match text.trim_end() {
            "a" => ("again", Some(Answer::Again)),
            "x" => ("end the run", Some(Answer::Abort)),
            "q" => ("not now", None),
            "d" => {
                terminal.show("done\n");
                break match read(terminal, cancelled, &question, "its result (text or JSON): ", "") {
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

/// What is asked.
pub(crate) fn question(call: &CallPath, cut_off: &Settlement, columns: usize, paint: Paint) -> String {
    let mut rows = Rows::new(columns, paint);
    rows.heading(&[
        (Tone::Name, &cut_off.chain.join(" → ")),
        (Tone::Plain, " called "),
        (Tone::Bold, &cut_off.function),
        (Tone::Plain, &format!(" at {call}. It was cut off before it ended.")),
    ]);
    rows.line(&[(Tone::Plain, &visible::start(&cut_off.input.to_string(), 500))]);
    format!(
        "{}Only you can know whether its effect took place.\n[a] run it again  [d] it is done: give its result  [x] end \
         the run  [q] decide later ",
        rows.finish()
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
        insta::assert_snapshot!(question(&CallPath::root().call(1, 0), &cut_off, 80, Paint::NEVER), @r#"
        main called post\x1b[2J at 0/1.0. It was cut off before it ended.
          │ {"to":"ada\u{202e}"}
        Only you can know whether its effect took place.
        [a] run it again  [d] it is done: give its result  [x] end the run  [q] decide later
        "#);
    }
}
