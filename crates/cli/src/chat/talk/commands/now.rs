//! `/now`: the user sends a message to the current answer.

use super::{Arguments, Command, no_completion};

pub(super) const NOW: Command = Command {
    name: "/now",
    alias: None,
    arguments: Arguments::Some { shown: "TEXT", complete: no_completion },
    of_chat: false,
    does: "say something at once, with the next request of the answer under way",
    more: "The worker reads it beside the results of its tools. If the answer ends without another request, TEXT is your\n\
           next message.",
    run: |talk, text| match text {
        "" => talk.face.problem("/now needs a text"),
        text => talk.say_now(text.to_owned()),
    },
};
