//! Calls the `ensures` tools with an output.

use super::{
    calls::{Making, outcomes},
    prepared::Prepared,
};
use crate::{
    function::CompositeCall,
    model::Usage,
    origin::{Content, Trail},
    outcome::{Ending, Stop},
};
use serde_json::Value;
use std::sync::Arc;

/// Calls all of these tools with an output. Returns the endings of the calls, and the contents that the conversation
/// receives with them.
pub(super) async fn ask(
    prepared: &Prepared,
    call: &CompositeCall<'_>,
    turn: u32,
    trail: &Trail,
    output: &Value,
    usage: &mut Usage,
) -> Result<(Vec<Ending>, Vec<Content>), Stop> {
    let input = prepared.setup.output.ensures().map_or(&Value::Null, |ensures| &ensures.input);
    let calls = prepared.judges.iter().enumerate().map(|(at, judging)| Making {
        path: call.path.judge(turn, at),
        function: judging.function,
        input: Arc::new(judging.arguments(output, input)),
    });
    let made = outcomes(prepared, call, trail, calls, usage).await?;
    let (mut endings, mut contents) = (Vec::new(), Vec::new());
    for (at, (judging, outcome)) in prepared.judges.iter().zip(made).enumerate() {
        let function = Arc::clone(&prepared.functions[judging.function].meta.name);
        let (path, ending) = (call.path.judge(turn, at), outcome.end.to_ending());
        contents.extend(Content::said(&path, &function, &outcome.said));
        contents.extend(Content::result(path, function, &ending, outcome.origins, None));
        endings.push(ending);
    }
    Ok((endings, contents))
}
