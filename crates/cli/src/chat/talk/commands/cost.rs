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
    let costs = talk.view.costs();
    if costs.len() == 0 {
        return "Nothing has been used yet.".to_owned();
    }
    let lines = costs.map(|(worker, model, spent)| format!("{worker}  {model}  {}", used(spent.usage)));
    lines.chain(talk.context_line()).collect::<Vec<_>>().join("\n")
}
