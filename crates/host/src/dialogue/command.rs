//! The slash commands of a chat: names, arguments and help for all faces.

/// A slash command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Shows the commands.
    Help,
    /// Shows the tools.
    Tools,
    /// Shows tokens and costs.
    Cost,
    /// Changes the model.
    Model,
    /// Shows, makes or takes back rules.
    Rules,
    /// Calls a worker.
    Run,
    /// Adds the result of the last call to the next message.
    Keep,
    /// Adds a file to the next message.
    Attach,
    /// Removes a file or a result from the next message.
    Detach,
    /// Sends a message to the answer under way.
    Now,
    /// Takes the last message back.
    Undo,
    /// Requests another answer.
    Retry,
    /// Changes the last message.
    Edit,
    /// Summarises older turns.
    Compact,
    /// Writes the conversation to a file.
    Save,
    /// Copies the last answer.
    Copy,
    /// Continues in a copy of the chat.
    Fork,
    /// Continues another chat.
    Resume,
    /// Begins another chat.
    New,
    /// Ends a conversation in the middle of a run.
    Done,
    /// Leaves the chat.
    Exit,
}

/// The arguments of a command, as help shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arguments {
    /// The command takes no arguments.
    None,
    /// The command needs arguments.
    Needed(&'static str),
    /// The arguments can be left out.
    Optional(&'static str),
}

impl Arguments {
    /// Returns the arguments as help shows them: those that can be left out in brackets.
    pub fn shown(self) -> String {
        match self {
            Self::None => String::new(),
            Self::Needed(shown) => shown.to_owned(),
            Self::Optional(shown) => format!("[{shown}]"),
        }
    }

    /// Returns a hint for a field that takes the arguments, if there are any.
    pub fn hint(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Needed(shown) | Self::Optional(shown) => Some(shown),
        }
    }
}

/// The description of a command.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// The command.
    pub command: Command,
    /// The name, without the slash.
    pub name: &'static str,
    /// Another name.
    pub alias: Option<&'static str>,
    /// The arguments.
    pub arguments: Arguments,
    /// True if the command is about the chat itself, and has no meaning in a run that is none.
    pub of_chat: bool,
    /// True if editors offer the command. They have their own equivalents of the others.
    pub in_editors: bool,
    /// The description of the command, in one line.
    pub does: &'static str,
    /// Text that the help of the command alone adds; may be empty.
    pub more: &'static str,
}

impl Usage {
    const fn of(command: Command, name: &'static str, does: &'static str) -> Self {
        Self {
            command,
            name,
            alias: None,
            arguments: Arguments::None,
            of_chat: false,
            in_editors: false,
            does,
            more: "",
        }
    }

    const fn needs(self, shown: &'static str) -> Self {
        Self { arguments: Arguments::Needed(shown), ..self }
    }

    const fn takes(self, shown: &'static str) -> Self {
        Self { arguments: Arguments::Optional(shown), ..self }
    }

    const fn of_chat(self) -> Self {
        Self { of_chat: true, ..self }
    }

    const fn in_editors(self) -> Self {
        Self { in_editors: true, ..self }
    }

    const fn more(self, more: &'static str) -> Self {
        Self { more, ..self }
    }

    /// Returns the command with its slash and arguments.
    pub fn shown(&self) -> String {
        format!("/{} {}", self.name, self.arguments.shown()).trim_end().to_owned()
    }

    /// Returns the command of that name, without the slash.
    pub fn named(name: &str) -> Option<&'static Self> {
        COMMANDS.iter().find(|usage| usage.name == name || usage.alias == Some(name))
    }
}

/// All commands, in the order of the help.
pub const COMMANDS: &[Usage] = &[
    Usage::of(Command::Help, "help", "show the commands, or one of them").takes("COMMAND"),
    Usage::of(
        Command::Tools,
        "tools",
        "show the tools that the worker may call, and those that it is not offered, with the reason",
    )
    .in_editors()
    .more("The tools of a conversation stay as they were at its beginning."),
    Usage::of(Command::Cost, "cost", "show the tokens and the cost so far, by worker and model").in_editors(),
    Usage::of(
        Command::Model,
        "model",
        "change the model of this chat from the next message on; without MODEL, show what there is",
    )
    .takes("MODEL")
    .of_chat()
    .more(
        "MODEL is PROVIDER:MODEL, for example local:NAME for a local model that `llm-do models pull` has fetched.\n\
         The worker's `locked` and `compatible_models` hold, and so do grants.",
    ),
    Usage::of(
        Command::Rules,
        "rules",
        "show the rules of this chat and what is remembered, make a rule, or take one back",
    )
    .takes("allow|ask|deny RULE|forget N")
    .more(
        "RULE is that of --allow, --ask and --deny, such as `allow write_file(output/**)`. It holds for this conversation and\n\
         the calls that it makes, and lets nothing pass that another rule blocks. `forget N` takes back what has that number.\n\
         `llm-do gate explain` says which rule decides a call.",
    ),
    Usage::of(Command::Run, "run", "call a worker of the program; also /WORKER [ARGUMENTS]")
        .needs("WORKER [ARGUMENTS]")
        .more(
            "Arguments are NAME=VALUE, with quotes as in a shell; a worker with one input takes it without its name.\n\
             The call is yours: it is not asked about. Its result is shown to you. /keep lets it join your next message.",
        ),
    Usage::of(Command::Keep, "keep", "let the result of your last call of a worker join your next message")
        .in_editors()
        .more("/detach takes it back."),
    Usage::of(
        Command::Attach,
        "attach",
        "let a file join your next message; without FILE, show what joins it",
    )
    .takes("FILE")
    .more(
        "FILE is relative to the program's folder. @FILE in a message attaches the file, too.\n\
         The worker's attachment_policy says which files it takes.",
    ),
    Usage::of(
        Command::Detach,
        "detach",
        "take back the file or result of that name, or the last one that joins your next message",
    )
    .takes("NAME"),
    Usage::of(Command::Now, "now", "say something at once, with the next request of the answer under way")
        .needs("TEXT")
        .more(
            "The worker reads it beside the results of its tools. If the answer ends without another request, TEXT is your\n\
             next message.",
        ),
    Usage::of(Command::Undo, "undo", "take your last message back, with all that followed it")
        .in_editors()
        .more(
            "The message returns to the composer. llm-do offers to restore the files that file tools changed since. What other tools \
             have done stays done, and the tokens stay paid.",
        ),
    Usage::of(Command::Retry, "retry", "ask for another answer to your last message").in_editors(),
    Usage::of(Command::Edit, "edit", "change your last message and send it again")
        .takes("TEXT")
        .more("Without TEXT, the message returns to the composer."),
    Usage::of(Command::Compact, "compact", "summarise older turns to make room; `undo` takes the last compaction back")
        .takes("WHAT TO KEEP|undo")
        .in_editors()
        .more(
            "Old results of tools are left out first; the worker can read them again. WHAT TO KEEP tells the model what the summary \
             must hold.",
        ),
    Usage::of(Command::Save, "save", "write the conversation to a Markdown file")
        .takes("FILE")
        .more("FILE is chat.md unless you name another one. A file that exists is not overwritten."),
    Usage::of(Command::Copy, "copy", "copy the last answer")
        .more("The terminal puts it into its clipboard (OSC 52), if its settings allow that."),
    Usage::of(Command::Fork, "fork", "continue in a copy of this chat; this one can be resumed")
        .of_chat()
        .more("The copy is a run of its own with the same records. Files are not copied: both chats work in the same folder."),
    Usage::of(Command::Resume, "resume", "continue another chat of this worker; without RUN, list them")
        .takes("RUN")
        .of_chat()
        .more("RUN is the ID of the run or its end. The chat that you leave can be resumed, too."),
    Usage::of(Command::New, "new", "end this chat and begin another one").of_chat(),
    Usage::of(Command::Done, "done", "end a conversation in the middle of a run; its caller gets the result").in_editors(),
    Usage { alias: Some("quit"), ..Usage::of(Command::Exit, "exit", "leave the chat; it can be resumed") },
];

/// The meaning of a line that the user typed.
#[derive(Clone, Copy, Debug)]
pub enum Typed<'a> {
    /// A message for the worker.
    Message(&'a str),
    /// A command with its arguments.
    Command(&'static Usage, &'a str),
    /// A name that is no command, and may be that of a worker: the name, and the arguments.
    Other(&'a str, &'a str),
    /// A command with arguments that it does not take.
    TooMuch(&'static Usage),
}

/// Reads a line. `//` at its beginning begins a message with one slash. Only commands that `offered` holds for count as
/// commands.
pub fn parse(line: &str, offered: impl Fn(&Usage) -> bool) -> Typed<'_> {
    let Some(after) = line.strip_prefix('/') else { return Typed::Message(line) };
    if after.starts_with('/') {
        return Typed::Message(after);
    }
    let (name, arguments) = after.split_once(char::is_whitespace).unwrap_or((after, ""));
    let arguments = arguments.trim();
    match Usage::named(name).filter(|usage| offered(usage)) {
        None => Typed::Other(name, arguments),
        Some(usage) if usage.arguments == Arguments::None && !arguments.is_empty() => Typed::TooMuch(usage),
        Some(usage) => Typed::Command(usage, arguments),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a line as its kind and text.
    fn read(line: &str) -> (&'static str, String) {
        match parse(line, |_| true) {
            Typed::Message(text) => ("message", text.to_owned()),
            Typed::Command(usage, arguments) => (usage.name, arguments.to_owned()),
            Typed::Other(name, arguments) => ("other", format!("{name}|{arguments}")),
            Typed::TooMuch(usage) => ("too much", usage.name.to_owned()),
        }
    }

    #[test]
    fn lines_are_messages_commands_or_mistakes() {
        assert_eq!(read("hello /help"), ("message", "hello /help".into()));
        assert_eq!(read("//etc/hosts"), ("message", "/etc/hosts".into()));
        assert_eq!(read("/edit  a b "), ("edit", "a b".into()));
        assert_eq!(read("/save"), ("save", String::new()));
        assert_eq!(read("/quit"), ("exit", String::new()));
        assert_eq!(read("/undo 2"), ("too much", "undo".into()));
        assert_eq!(read("/summarise file=a b"), ("other", "summarise|file=a b".into()));
    }

    #[test]
    fn a_command_that_is_not_offered_is_a_name() {
        let Typed::Other(name, arguments) = parse("/copy a", |usage| usage.in_editors) else {
            panic!("a name")
        };
        assert_eq!((name, arguments), ("copy", "a"));
    }

    #[test]
    fn names_are_distinct_and_each_command_has_one() {
        let mut names: Vec<&str> =
            COMMANDS.iter().flat_map(|usage| [Some(usage.name), usage.alias]).flatten().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for usage in COMMANDS {
            assert_eq!(Usage::named(usage.name).map(|found| found.command), Some(usage.command));
        }
    }
}
