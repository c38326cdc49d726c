//! `/cost`.

use super::{Arguments, Command, Talk};
use crate::chat::talk::status::used;

pub(super) const COST: Command = Command {
    name: "/cost",
    alias: None,
    arguments: Arguments::None,
    of_chat: false,
    does: "show the tokens and the cost so far, by worker and model",
    more: "",
    run: |talk, _| {
        let text = cost(talk);
        talk.face.page(&text);
    },
};

fn cost(talk: &Talk<'_>) -> String {
    if talk.used.is_empty() {
        return "Nothing has been used yet.".to_owned();
    }
    let lines =
        talk.used.iter().map(|((worker, model), usage)| format!("{worker}  {model}  {}", used(*usage)));
    lines.chain(talk.context_line()).collect::<Vec<_>>().join("\n")
}
