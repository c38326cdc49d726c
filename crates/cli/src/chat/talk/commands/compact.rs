//! `/compact`.

use super::{Arguments, Command, no_completion};
use llm_do_core::question::Answer;

pub(super) const COMPACT: Command = Command {
    name: "/compact",
    alias: None,
    arguments: Arguments::Optional { shown: "[WHAT TO KEEP|undo]", complete: no_completion },
    of_chat: false,
    does: "summarise older turns to make room",
    more: "Old results of tools are left out first; the worker can read them again. WHAT TO KEEP tells the model what the summary \
           must hold. `/compact undo` takes the last compaction back.",
    run: |talk, arguments| match arguments {
        "undo" => talk.change(Answer::UndoCompaction, Some("the last compaction is taken back")),
        keep => talk.change(Answer::Compact { keep: (!keep.is_empty()).then(|| keep.into()) }, None),
    },
};
