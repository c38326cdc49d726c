//! The question what becomes of a leaf that had begun and not ended when its run was cut off (SPEC §12).

use super::entry::{Entered, read};
use crate::{paint::Paint, terminal::Terminal, visible};
use llm_do::CutOffLeaf;
use llm_do_runs::Settle;
use std::sync::{Arc, atomic::AtomicBool};

/// Asks what becomes of it. `None`: nothing, the run stays as it is.
pub(crate) fn ask(terminal: &Terminal, leaf: &CutOffLeaf, paint: Paint) -> Option<Settle> {
    terminal.show(&question(leaf, paint));
    let words = [('a', "again"), ('d', "done"), ('q', "not now")];
    match terminal.choose(&words) {
        Some('a') => Some(Settle::Again),
        Some('d') => result(terminal),
        _ => None,
    }
}

/// The result that it counts as having given.
fn result(terminal: &Terminal) -> Option<Settle> {
    let never = AtomicBool::new(false);
    terminal.read_keys(&never);
    let entered = read(terminal, &never, "its result (text or JSON): ", "");
    terminal.restore();
    match entered {
        Entered::Line(line) => {
            let value = serde_json::from_str(&line).unwrap_or_else(|_| line.into());
            Some(Settle::Given(Arc::new(value)))
        }
        Entered::Left | Entered::Cancelled => None,
    }
}

fn question(leaf: &CutOffLeaf, paint: Paint) -> String {
    let input = leaf.input.to_string();
    format!(
        "{} called {} at {}, which had begun and not ended when the run was cut off. Only you can know whether its effect took place.\n  {}\n[a] run it again  [d] it is done: give its result  [q] decide later ",
        paint.cyan(visible::line(&leaf.worker)),
        paint.bold(visible::line(&leaf.function)),
        leaf.path,
        visible::line(&visible::start(&input, 500)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use llm_do_core::call_path::CallPath;
    use serde_json::json;

    #[test]
    fn the_question_shows_the_call_and_nothing_of_it_acts() {
        let leaf = CutOffLeaf {
            path: CallPath::root().call(1, 0),
            worker: "main".into(),
            function: "post\u{1b}[2J".into(),
            input: Arc::new(json!({"to": "ada\u{202e}"})),
        };
        insta::assert_snapshot!(question(&leaf, Paint::NEVER), @r#"
        main called post\x1b[2J at 0/1.0, which had begun and not ended when the run was cut off. Only you can know whether its effect took place.
          {"to":"ada\u{202e}"}
        [a] run it again  [d] it is done: give its result  [q] decide later
        "#);
    }
}
