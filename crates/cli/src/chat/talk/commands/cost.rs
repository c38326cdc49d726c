//! `/cost`.

use super::Talk;
use crate::chat::talk::status::used;

/// Shows the tokens and the cost.
pub(super) fn show(talk: &mut Talk<'_>) {
    let text = cost(talk);
    talk.face.page(&text);
}

fn cost(talk: &Talk<'_>) -> String {
    let costs = talk.view.costs();
    if costs.len() == 0 {
        return "Nothing has been used yet.".to_owned();
    }
    let lines = costs.map(|(worker, model, spent)| format!("{worker}  {model}  {}", used(spent.usage)));
    lines.chain(talk.context_line()).collect::<Vec<_>>().join("\n")
}
