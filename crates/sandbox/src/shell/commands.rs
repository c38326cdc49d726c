//! Commands with declared arguments: `toolsets.shell.commands` (`docs/guides/shell.md`).
//!
//! Each is a tool of its own. The author writes the words, and each argument takes a place within one word, so that no
//! value can become another word, an option or a further program.

use super::{
    rules::{danger, danger_of_input},
    run,
    runner::Runner,
    words::{self, Word},
};
use llm_do_core::{
    authority::Access,
    function::{Effects, Leaf, LeafCall, MainArgument, Risk, ToolError, ToolOutput, Touch},
    gate::{DecidedBy, Rule},
    send::BoxFuture,
    toolset::{ConfigurationProblem, ConfiguredTool},
};
use serde_json::{Map, Value, json};
use std::{sync::Arc, time::Duration};

/// The longest name of a command, in bytes.
const LONGEST_NAME: usize = 64;

/// A command of a configuration.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    pub(crate) name: Arc<str>,
    description: Option<Arc<str>>,
    /// The programs, each with its arguments. The output of each is the input of the next.
    stages: Vec<Vec<Template>>,
    stdin: Option<Template>,
    arguments: Vec<Argument>,
    pub(crate) timeout: Option<Duration>,
}

#[derive(Clone, Debug)]
struct Argument {
    name: String,
    schema: Value,
    is_path: bool,
    is_optional: bool,
    /// True if a value may begin with a dash: the author or the type determines the value.
    is_safe: bool,
}

/// A word with places for arguments.
#[derive(Clone, Debug, PartialEq)]
struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Text(String),
    Argument(String),
}

/// Reads the commands of a configuration, which fits its schema.
///
/// # Errors
/// The problems in the commands.
pub(crate) fn read(configuration: &Value) -> Result<Vec<Command>, Vec<ConfigurationProblem>> {
    let (mut commands, mut problems) = (Vec::new(), Vec::new());
    for (name, written) in configuration.get("commands").and_then(Value::as_object).into_iter().flatten() {
        let at = format!("/commands/{}", name.replace('~', "~0").replace('/', "~1"));
        match Command::read(name, written) {
            Ok(command) => commands.push(command),
            Err((pointer, reason)) => {
                problems.push(ConfigurationProblem { pointer: format!("{at}{pointer}"), reason });
            }
        }
    }
    if problems.is_empty() { Ok(commands) } else { Err(problems) }
}

type Problem = (String, String);

impl Command {
    fn read(name: &str, written: &Value) -> Result<Self, Problem> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(plain)
            && name.len() <= LONGEST_NAME;
        if !is_name {
            let reason = format!(
                "`{name}` can't be the name of a tool: use at most {LONGEST_NAME} letters, digits, `_` and `-`"
            );
            return Err((String::new(), reason));
        }
        let arguments = written.get("args").and_then(Value::as_object).into_iter().flatten();
        let arguments = arguments.map(|(name, kind)| {
            Argument::read(name, kind).map_err(|reason| (format!("/args/{name}"), reason))
        });
        let arguments: Vec<Argument> = arguments.collect::<Result<_, _>>()?;
        let (key, stages) = match (written.get("run"), written.get("pipe")) {
            (Some(run), None) => ("/run", vec![run]),
            (None, Some(pipe)) => ("/pipe", pipe.as_array().into_iter().flatten().collect()),
            (Some(_), Some(_)) => {
                return Err(("/pipe".into(), "`run` and `pipe` exclude each other: keep one of them".into()));
            }
            (None, None) => {
                return Err((String::new(), format!("`{name}` runs nothing: add `run: [PROGRAM, …]`")));
            }
        };
        let is_pipe = key == "/pipe";
        let mut read = Vec::with_capacity(stages.len());
        for (number, words) in stages.into_iter().enumerate() {
            let at = if is_pipe { format!("{key}/{number}") } else { key.to_owned() };
            let words = words.as_array().into_iter().flatten().enumerate().map(|(number, word)| {
                let at = format!("{at}/{number}");
                let text = word.as_str().map_or_else(|| word.to_string(), str::to_owned);
                Template::read(&text, &arguments).map_err(|reason| (at, reason))
            });
            let words: Vec<Template> = words.collect::<Result<_, _>>()?;
            let free =
                |name: &str| arguments.iter().any(|argument| argument.name == name && !argument.is_safe);
            for (number, word) in words.iter().enumerate() {
                if let Some(name) = word.names_option().filter(|name| free(name)) {
                    let reason = format!(
                        "`{name}` would be the name of an option, so that a model could choose any: list its values, as in \
                         `{name}: [a, b]`, or write the option itself"
                    );
                    return Err((format!("{at}/{number}"), reason));
                }
            }
            match words.first().map(Template::text) {
                Some(Some(program)) if !program.is_empty() => {}
                _ => {
                    return Err((at, "the first word is the program, which can't be an argument".to_owned()));
                }
            }
            read.push(words);
        }
        if read.is_empty() {
            return Err((key.to_owned(), "a pipe has at least one program".to_owned()));
        }
        let stdin = match written.get("stdin").and_then(Value::as_str) {
            Some(text) => {
                Some(Template::read(text, &arguments).map_err(|reason| ("/stdin".to_owned(), reason))?)
            }
            None => None,
        };
        let command = Self {
            name: name.into(),
            description: written.get("description").and_then(Value::as_str).map(Into::into),
            stages: read,
            stdin,
            arguments,
            timeout: written.get("timeout").and_then(super::duration),
        };
        let unused = command.arguments.iter().find(|argument| !command.uses(&argument.name));
        if let Some(Argument { name, .. }) = unused {
            let reason = format!("the argument `{name}` is not used: write `{{{name}}}` where it belongs");
            return Err((format!("/args/{name}"), reason));
        }
        Ok(command)
    }

    fn uses(&self, name: &str) -> bool {
        let templates = self.stages.iter().flatten().chain(&self.stdin);
        templates.flat_map(|template| &template.0).any(|piece| *piece == Piece::Argument(name.to_owned()))
    }

    /// Formats the command as its author wrote it.
    fn shown(&self) -> String {
        let stages =
            self.stages.iter().map(|words| words.iter().map(Template::shown).collect::<Vec<_>>().join(" "));
        stages.collect::<Vec<_>>().join(" | ")
    }

    /// Returns the description of the tool for models.
    pub(crate) fn description(&self, folder: &str) -> String {
        match &self.description {
            Some(description) => description.to_string(),
            None => format!("Runs `{}` in `{folder}`.", self.shown()),
        }
    }

    /// Returns the schema of its arguments.
    pub(crate) fn input(&self) -> Value {
        let properties: Map<String, Value> =
            self.arguments.iter().map(|it| (it.name.clone(), it.schema.clone())).collect();
        let required: Vec<&str> =
            self.arguments.iter().filter(|it| !it.is_optional).map(|it| it.name.as_str()).collect();
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    }

    fn has_paths(&self) -> bool {
        self.arguments.iter().any(|argument| argument.is_path)
    }

    /// Returns the description of the tool for readers of definitions.
    pub(crate) fn known(&self) -> ConfiguredTool {
        ConfiguredTool {
            name: Arc::clone(&self.name),
            risk: Risk::Exec,
            input: Arc::new(self.input()),
            has_main_argument: self.has_paths(),
        }
    }

    /// Returns the words of each program with these arguments. A word with an omitted argument is omitted.
    ///
    /// # Errors
    /// A value that the program would take for an option.
    fn words(&self, input: &Value) -> Result<Vec<Vec<String>>, String> {
        let stages = self.stages.iter().map(|words| {
            let mut made = Vec::with_capacity(words.len());
            let mut options_ended = false;
            for template in words {
                let Some(word) = template.filled(input) else { continue };
                if let (Some(name), false) = (template.begins_with(input), options_ended)
                    && word.starts_with('-')
                    && self.arguments.iter().any(|it| it.name == *name && !it.is_safe && !it.is_path)
                {
                    return Err(format!(
                        "`{name}` begins with `-`, so the program would take it for an option: use another value"
                    ));
                }
                if word.contains('\0') {
                    return Err("an argument can't contain a NUL character".to_owned());
                }
                options_ended |= template.text() == Some("--");
                made.push(word);
            }
            Ok(made)
        });
        stages.collect()
    }
}

impl Argument {
    /// Reads a type: a word (`string`, `integer?`), a list of values, or a JSON Schema with one of these types.
    fn read(name: &str, kind: &Value) -> Result<Self, String> {
        const TYPES: [&str; 5] = ["string", "integer", "number", "boolean", "path"];
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name {
            return Err(format!("`{name}` can't be the name of an argument: use letters, digits and `_`"));
        }
        let unknown = |given: &str| {
            format!(
                "`{given}` is no type of an argument: each is one word, so write `{}` or a list of texts",
                TYPES.join("`, `")
            )
        };
        let (mut schema, is_optional) = match kind {
            Value::String(text) => {
                let plain = text.trim();
                let (plain, is_optional) = match plain.strip_suffix('?') {
                    Some(plain) => (plain.trim(), true),
                    None => (plain, false),
                };
                if !TYPES.contains(&plain) {
                    return Err(unknown(plain));
                }
                (json!({ "type": plain }), is_optional)
            }
            Value::Array(choices) => {
                if choices.is_empty() || !choices.iter().all(Value::is_string) {
                    return Err("a choice is a list of texts".to_owned());
                }
                (json!({ "enum": choices }), false)
            }
            Value::Object(schema) => {
                let given = schema.get("type").and_then(Value::as_str);
                let is_choice = given.is_none() && schema.get("enum").is_some_and(Value::is_array);
                if !is_choice && !given.is_some_and(|given| TYPES.contains(&given)) {
                    return Err(unknown(given.unwrap_or_default()));
                }
                (kind.clone(), schema.contains_key("default"))
            }
            other => return Err(unknown(&other.to_string())),
        };
        let is_path = schema.get("type").and_then(Value::as_str) == Some("path");
        if is_path {
            schema["type"] = "string".into();
            if schema.get("description").is_none() {
                schema["description"] = "A path of a file or folder.".into();
            }
        }
        llm_do_core::schema::Schema::new(schema.clone()).map_err(|error| error.to_string())?;
        let is_safe = schema.get("enum").is_some()
            || schema.get("type").and_then(Value::as_str).is_some_and(|kind| kind != "string");
        Ok(Self { name: name.to_owned(), schema, is_path, is_optional, is_safe })
    }
}

impl Template {
    /// Reads a word. `{NAME}` is the place of an argument; other braces are text.
    fn read(text: &str, arguments: &[Argument]) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(begin) = rest.find('{') {
            plain.push_str(&rest[..begin]);
            let inside = &rest[begin + 1..];
            let name = inside.split('}').next().unwrap_or_default();
            let is_name = name.len() < inside.len()
                && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if !is_name {
                plain.push('{');
                rest = inside;
                continue;
            }
            if !arguments.iter().any(|argument| argument.name == name) {
                let known: Vec<&str> = arguments.iter().map(|argument| argument.name.as_str()).collect();
                let known = match known.as_slice() {
                    [] => "there are no `args`".to_owned(),
                    known => format!("there are: {}", known.join(", ")),
                };
                return Err(format!(
                    "`{{{name}}}` is the place of an argument that is not declared; {known}"
                ));
            }
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(Piece::Argument(name.to_owned()));
            rest = &inside[name.len() + 1..];
        }
        plain.push_str(rest);
        if !plain.is_empty() || pieces.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Self(pieces))
    }

    /// Returns the text of the word, if it has no arguments.
    fn text(&self) -> Option<&str> {
        match self.0.as_slice() {
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    fn takes_arguments(&self) -> bool {
        self.text().is_none()
    }

    /// Returns the argument with which the word's text begins. Returns `None` if its author has written the beginning.
    fn begins_with(&self, input: &Value) -> Option<&str> {
        let is_empty = |name: &str| input.get(name).and_then(Value::as_str) == Some("");
        let begins = self.0.iter().find(|piece| !matches!(piece, Piece::Argument(name) if is_empty(name)));
        match begins? {
            Piece::Argument(name) => Some(name),
            Piece::Text(_) => None,
        }
    }

    /// Returns the argument whose value would be the name of an option: only dashes are before it.
    fn names_option(&self) -> Option<&str> {
        match self.0.as_slice() {
            [Piece::Text(dashes), Piece::Argument(name), ..]
                if !dashes.is_empty() && dashes.bytes().all(|c| c == b'-') =>
            {
                Some(name)
            }
            _ => None,
        }
    }

    fn shown(&self) -> String {
        let pieces = self.0.iter().map(|piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Argument(name) => format!("{{{name}}}"),
        });
        pieces.collect()
    }

    /// Returns the text of the word with these arguments, or `None` if one of them was omitted.
    fn filled(&self, input: &Value) -> Option<String> {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                Piece::Argument(name) => match input.get(name) {
                    None | Some(Value::Null) => return None,
                    Some(Value::String(value)) => text.push_str(value),
                    Some(value) => text.push_str(&value.to_string()),
                },
            }
        }
        Some(text)
    }
}

/// A command, for one worker.
pub(crate) struct CommandTool {
    pub(crate) runner: Runner,
    pub(crate) command: Command,
    /// Maximum running time.
    pub(crate) timeout: Duration,
    /// Hash of the configuration.
    pub(crate) identity: Arc<str>,
}

impl CommandTool {
    /// Returns the arguments of a call with the real paths of its files.
    fn with_places(&self, input: &Value) -> Result<Value, ToolError> {
        let mut input = input.clone();
        for Argument { name, .. } in self.command.arguments.iter().filter(|argument| argument.is_path) {
            let Some(path) = input.get(name).and_then(Value::as_str) else { continue };
            let located = self.runner.authority.locate(path, Access::Read);
            let located = located.map_err(|refusal| ToolError::new(refusal.to_string()))?;
            if located.place().server().is_some() {
                let message = format!("`{path}` is shown by a server, so that no program can read it");
                return Err(ToolError::new(message));
            }
            input[name] = located.place().to_string().into();
        }
        Ok(input)
    }

    async fn call(&self, call: LeafCall<'_>) -> Result<ToolOutput, ToolError> {
        let Self { runner, command, .. } = self;
        let input = self.with_places(call.input)?;
        let words = command.words(&input).map_err(ToolError::new)?;
        let prepared = runner.prepare(None).await?;
        let mut stages = Vec::with_capacity(words.len());
        for words in words {
            let mut words = words.into_iter();
            let program = words.next().unwrap_or_default();
            let args = words.map(Into::into).collect();
            stages.push(runner.process(&prepared, &program, args, &call).await?);
        }
        let stdin = command.stdin.as_ref().and_then(|stdin| stdin.filled(call.input));
        let watching = runner.confiner.watch().begin(call.run, &prepared.view, &prepared.authority);
        let ran = run::run(stages, stdin.map(String::into_bytes), self.timeout, watching).await;
        let ran = ran.map_err(|error| ToolError::new(format!("`{}` can't be run: {error}", command.name)))?;
        let planted = runner.set_aside_planted(call.run, &prepared.view, prepared.authority).await;
        Ok(ToolOutput::new(runner.result(ran, &prepared.view, planted)))
    }
}

impl Leaf for CommandTool {
    fn effects(&self, input: &Value) -> Effects {
        let mut rules = Vec::new();
        let mut add = |rule, why: String| rules.push((rule, DecidedBy::Toolset { why: why.into() }));
        match self.runner.confinement.clone().and_then(|_| self.command.words(input)) {
            Err(reason) => add(Rule::Blocked, reason),
            Ok(stages) => {
                // Whether arguments of the call get into the standard input of a program: directly, or through the programs
                // before it.
                let mut is_fed = self.command.stdin.as_ref().is_some_and(Template::takes_arguments);
                for (words, templates) in stages.iter().zip(&self.command.stages) {
                    let spelled = templates.iter().take_while(|template| template.text().is_some()).count();
                    let words: Vec<Word> = words.iter().map(|word| Word::literal(word.as_str())).collect();
                    let danger = danger(&words, spelled, &self.runner.authority)
                        .or_else(|| danger_of_input(&words, spelled).filter(|_| is_fed));
                    if let Some(danger) = danger {
                        add(Rule::Ask, format!("`{}`: {danger}", words::line(&words)));
                    }
                    is_fed |= templates.iter().any(Template::takes_arguments);
                }
            }
        }
        let paths = self.command.arguments.iter().filter(|argument| argument.is_path);
        let touches = paths.filter_map(|argument| {
            let path = input.get(&argument.name)?.as_str()?.to_owned();
            Some(Touch { path, access: Access::Read, delete: false })
        });
        let main = if self.command.has_paths() { MainArgument::Paths } else { MainArgument::None };
        Effects { touches: touches.collect(), main, rules, process: true, ..Effects::default() }
    }

    fn identity(&self) -> BoxFuture<'_, Option<Arc<str>>> {
        Box::pin(async { Some(Arc::clone(&self.identity)) })
    }

    fn run<'a>(&'a self, call: LeafCall<'a>) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(self.call(call))
    }
}

/// Returns the part of the configuration's schema for commands.
pub(crate) fn schema(duration: &Value) -> Value {
    let words = json!({"type": "array", "items": {"type": ["string", "number"]}, "minItems": 1});
    json!({
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "properties": {
                "description": {"type": "string"},
                "run": words,
                "pipe": {"type": "array", "items": words, "minItems": 1},
                "args": {"type": "object"},
                "stdin": {"type": "string"},
                "timeout": duration,
            },
            "additionalProperties": false,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(written: Value) -> Result<Command, Vec<ConfigurationProblem>> {
        read(&json!({"commands": {"c": written}})).map(|mut commands| commands.remove(0))
    }

    #[test]
    fn each_argument_is_within_one_word() {
        let command = command(json!({
            "run": ["grep", "-n", 5, "--file={file}", "{text}", "--", "{rest}", "{print $1}"],
            "args": {"file": "path", "text": "string?", "rest": "string"},
        }));
        let command = command.unwrap();
        assert_eq!(command.shown(), "grep -n 5 --file={file} {text} -- {rest} {print $1}");
        let words = |input: Value| command.words(&input);
        assert_eq!(
            words(json!({"file": "/a b", "text": "x; rm *", "rest": "-v"})).unwrap(),
            [["grep", "-n", "5", "--file=/a b", "x; rm *", "--", "-v", "{print $1}"]]
        );
        assert_eq!(words(json!({"file": "/a", "rest": "y"})).unwrap()[0].len(), 7, "it was left out");
        assert!(words(json!({"file": "/a", "text": "-f/etc/x", "rest": "y"})).is_err(), "an option");
    }

    #[test]
    fn a_word_begins_where_its_first_text_does() {
        let args = json!({"kind": ["", "-a"], "name": "string"});
        let command = command(json!({"run": ["x", "{kind}{name}", "-{kind}"], "args": args})).unwrap();
        let words = |kind: &str, name: &str| command.words(&json!({"kind": kind, "name": name}));
        assert_eq!(words("-a", "-o/x").unwrap(), [["x", "-a-o/x", "--a"]], "a choice is the author's");
        assert_eq!(words("", "o").unwrap(), [["x", "o", "-"]]);
        assert!(words("", "-o/x").unwrap_err().contains("`name`"));
    }

    #[test]
    fn values_that_types_allow_may_begin_with_a_dash() {
        let args = json!({"n": "integer", "how": ["-a", "-b"]});
        let command = command(json!({"run": ["head", "{n}", "{how}"], "args": args})).unwrap();
        let words = command.words(&json!({"n": -5, "how": "-a"})).unwrap();
        assert_eq!(words, [["head", "-5", "-a"]]);
    }

    #[test]
    fn what_can_not_work_is_reported_at_its_place() {
        for (written, at) in [
            (json!({}), ""),
            (json!({"run": ["ls"], "pipe": [["ls"]]}), "/pipe"),
            (json!({"run": ["{x}"], "args": {"x": "string"}}), "/run"),
            (json!({"run": ["ls", "{x}"]}), "/run/1"),
            (json!({"pipe": [["ls"], ["sort", "{nme}"]], "args": {"name": "string"}}), "/pipe/1/1"),
            (json!({"run": ["ls"], "args": {"x": "string"}}), "/args/x"),
            (json!({"run": ["ls", "{x}"], "args": {"x": "array<string>"}}), "/args/x"),
            (json!({"run": ["ls", "{x}"], "args": {"x": {"type": "object"}}}), "/args/x"),
            (json!({"run": ["cat"], "stdin": "{x}"}), "/stdin"),
            (json!({"run": ["ls", "-{x}"], "args": {"x": "string"}}), "/run/1"),
            (
                json!({"pipe": [["ls"], ["sort", "--{x}{y}"]], "args": {"x": "path", "y": "integer"}}),
                "/pipe/1/1",
            ),
        ] {
            let problems = command(written.clone()).unwrap_err();
            assert_eq!(problems[0].pointer, format!("/commands/c{at}"), "{written}");
        }
        let name = read(&json!({"commands": {"a b": {"run": ["ls"]}}})).unwrap_err();
        assert!(name[0].reason.contains("the name of a tool"), "{}", name[0].reason);
    }
}
