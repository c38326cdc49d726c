//! The toolset `filesystem` (`docs/reference/worker-files.md`): files within the worker's mounts.

mod change;
mod content;
mod foresight;
mod hint;
mod list;
mod read;
mod reading;
mod search;

pub use reading::Read;

use crate::{
    authority::{Access, Authority},
    definition::WorkerDefinition,
    foreseen::Foreseen,
    function::{
        Concurrency, Effects, Function, FunctionMeta, Implementation, Leaf, LeafCall, MainArgument,
        OutputSchema, ToolError, ToolOutput, Touch,
    },
    gate::Policy,
    origin::Origins,
    question::{Answer, Preview},
    risk::Risk,
    rule::Rule,
    schema::Schema,
    send::BoxFuture,
    source::FunctionSource,
    toolset::{OldApproval, ToolsetContext, ToolsetKind, ToolsetRuntime},
};
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};

/// The toolset kind `filesystem`. It has no configuration of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filesystem;

/// A tool of the toolset, for one worker.
struct FileTool {
    tool: Tool,
    /// The worker's authority: it determines the subtrees that `list_files` and `search_files` touch.
    authority: Arc<Authority>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    Read,
    Write,
    Edit,
    Append,
    List,
    Search,
    Delete,
    Move,
    Copy,
    Info,
    Exists,
}

impl ToolsetKind for Filesystem {
    fn name(&self) -> &'static str {
        "filesystem"
    }

    fn may_ask(&self, _: &WorkerDefinition, _: &Value, tools: Option<&[String]>) -> bool {
        let reads =
            |name: &String| Tool::ALL.iter().any(|tool| tool.name() == *name && tool.risk() == Risk::Read);
        !tools.is_some_and(|tools| tools.iter().all(reads))
    }

    fn old_approvals(&self) -> &'static [OldApproval] {
        const READING: &[&str] = &[
            Tool::Read.name(),
            Tool::List.name(),
            Tool::Search.name(),
            Tool::Info.name(),
            Tool::Exists.name(),
        ];
        const WRITING: &[&str] = &[Tool::Write.name(), Tool::Edit.name(), Tool::Append.name()];
        const CHANGING: &[&str] = &[
            Tool::Write.name(),
            Tool::Edit.name(),
            Tool::Append.name(),
            Tool::Delete.name(),
            Tool::Move.name(),
            Tool::Copy.name(),
        ];
        const KEYS: &[OldApproval] = &[
            OldApproval { key: "read_approval", ask: READING, run: READING },
            // The tools that delete, move and copy are newer than the key, so that it never allowed them.
            OldApproval { key: "write_approval", ask: CHANGING, run: WRITING },
        ];
        KEYS
    }

    fn reserves_everywhere(&self) -> bool {
        false
    }

    fn tools(&self) -> &'static [&'static str] {
        const NAMES: [&str; Tool::ALL.len()] = {
            let mut names = [""; Tool::ALL.len()];
            let mut at = 0;
            while at < names.len() {
                names[at] = Tool::ALL[at].name();
                at += 1;
            }
            names
        };
        &NAMES
    }

    fn risk(&self, tool: &str) -> Option<Risk> {
        Tool::ALL.iter().find(|known| known.name() == tool).map(|tool| tool.risk())
    }

    fn input(&self, tool: &str) -> Option<Schema> {
        let tool = Tool::ALL.iter().find(|known| known.name() == tool)?;
        Some(Schema::built_in(tool.schemas().input.value().as_ref().clone()))
    }

    fn has_main_argument(&self, _tool: &str) -> bool {
        true
    }

    fn result_reader(&self) -> Option<&'static str> {
        Some(Tool::Read.name())
    }
}

impl ToolsetRuntime for Filesystem {
    fn build<'a>(
        &'a self,
        _configuration: &'a Value,
        context: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Result<Vec<Function>, String>> {
        let made = Self::made_for(&Arc::new(context.authority.clone()), context.policy.as_ref());
        Box::pin(async { Ok(made) })
    }
}

impl Filesystem {
    /// The tools for a worker with that authority, under the toolset's `approval`.
    pub fn made_for(authority: &Arc<Authority>, policy: Option<&Arc<Policy>>) -> Vec<Function> {
        let source = FunctionSource::Toolset(Self.name().into());
        // If nothing can be written, a tool that writes would only waste the model's turns.
        let offered = Tool::ALL.iter().filter(|tool| authority.can_write() || tool.risk() == Risk::Read);
        offered
            .map(|&tool| Function {
                meta: FunctionMeta {
                    source: source.clone(),
                    name: tool.name().into(),
                    tool_name: tool.name().into(),
                    aliases: &[],
                    description: tool.description().into(),
                    input: Arc::clone(&tool.schemas().input),
                    output: tool.schemas().output.clone().map(OutputSchema::Declared),
                    risk: tool.risk(),
                    concurrency: Concurrency::ByRisk,
                    timeout: None,
                    contained: false,
                    results: crate::origin::ResultOrigin::Trusted,
                    wildcard: false,
                    policy: policy.cloned(),
                },
                body: Implementation::Leaf(Arc::new(FileTool { tool, authority: Arc::clone(authority) })),
                rule: None,
            })
            .collect()
    }
}

/// The schemas of a tool, which are the same in every run.
struct Schemas {
    input: Arc<Schema>,
    output: Option<Arc<Schema>>,
}

impl Tool {
    const ALL: &[Self] = &[
        Self::Read,
        Self::Write,
        Self::Edit,
        Self::Append,
        Self::List,
        Self::Search,
        Self::Delete,
        Self::Move,
        Self::Copy,
        Self::Info,
        Self::Exists,
    ];

    /// The schemas of the tool. They are made and compiled once: a program may have many runs at a time.
    fn schemas(self) -> &'static Schemas {
        static ALL: LazyLock<Vec<Schemas>> = LazyLock::new(|| {
            let built_in = |schema| Arc::new(Schema::built_in(schema));
            let of =
                |tool: &Tool| Schemas { input: built_in(tool.input()), output: tool.output().map(built_in) };
            Tool::ALL.iter().map(of).collect()
        });
        &ALL[self as usize]
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Read => "read_file",
            Self::Write => "write_file",
            Self::Edit => "edit_file",
            Self::Append => "append_file",
            Self::List => "list_files",
            Self::Search => "search_files",
            Self::Delete => "delete_file",
            Self::Move => "move_file",
            Self::Copy => "copy_file",
            Self::Info => "file_info",
            Self::Exists => "file_exists",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Read => {
                "Read a text file. A long file comes in pages: the end of a page says with which `offset` to read on. \
                 Binary files are described instead of shown."
            }
            Self::Write => {
                "Write a text file: make it, with missing folders, or replace its whole content. To change a part of a \
                 file use edit_file."
            }
            Self::Edit => {
                "Replace one piece of text in a file. `old_text` must occur exactly once, character for character, line \
                 ends and indentation included: give enough of the lines around it."
            }
            Self::Append => {
                "Add text at the end of a file; makes the file if it is missing. Adds no line break of its own."
            }
            Self::List => {
                "List files and folders below a folder, with sizes in bytes. Folders end in `/`. `pattern` is a glob \
                 relative to `path`: `*` stays within a folder, `**` crosses folders, `{a,b}` is either."
            }
            Self::Search => {
                "Search text files for a regular expression, line by line (`(?i)` at its start ignores case). Gives \
                 `path:line: text` of every line that matches."
            }
            Self::Delete => "Delete a file, or a folder that is empty. It can't be brought back.",
            Self::Move => {
                "Move or rename a file or folder. The destination must not exist; missing folders are made."
            }
            Self::Copy => "Copy a file. The destination must not exist; missing folders are made.",
            Self::Info => {
                "Tell what is at a path: kind, size in bytes, time of the last change, type of content."
            }
            Self::Exists => "Tell whether there is a file or folder at a path.",
        }
    }

    /// Returns true if the tool changes files, and can therefore predict its changes.
    fn changes_files(self) -> bool {
        self.risk() != Risk::Read
    }

    fn risk(self) -> Risk {
        match self {
            Self::Read | Self::List | Self::Search | Self::Info | Self::Exists => Risk::Read,
            Self::Write | Self::Edit | Self::Append | Self::Move | Self::Copy => Risk::Write,
            Self::Delete => Risk::Destructive,
        }
    }

    fn input(self) -> Value {
        let path = |what: &str| json!({"type": "string", "minLength": 1, "description": what});
        let text = |what: &str| json!({"type": "string", "description": what});
        let file = || path("Path of the file, for example `/notes/plan.md`");
        let (properties, required) = match self {
            Self::Read => (
                json!({
                    "path": file(),
                    "offset": {"type": "integer", "minimum": 0, "default": 0,
                        "description": "Characters to skip from the beginning"},
                    "max_chars": {"type": "integer", "minimum": 1, "default": read::PAGE_CHARS,
                        "description": "Most characters to return"},
                }),
                json!(["path"]),
            ),
            Self::Write => (
                json!({"path": file(), "content": text("The whole new content")}),
                json!(["path", "content"]),
            ),
            Self::Append => {
                (json!({"path": file(), "content": text("What to add")}), json!(["path", "content"]))
            }
            Self::Edit => (
                json!({
                    "path": file(),
                    "old_text": {"type": "string", "minLength": 1, "description": "Text to replace; occurs once in the file"},
                    "new_text": text("What stands there afterwards; empty to remove it"),
                }),
                json!(["path", "old_text", "new_text"]),
            ),
            Self::List => (
                json!({
                    "path": {"type": "string", "default": ".", "description": "Folder to list"},
                    "pattern": {"type": "string", "default": "**/*", "description": "Glob relative to `path`, for example `**/*.md`"},
                }),
                json!([]),
            ),
            Self::Search => (
                json!({
                    "pattern": {"type": "string", "minLength": 1, "description": "Regular expression, or plain text"},
                    "path": {"type": "string", "default": ".", "description": "Folder or file to search"},
                }),
                json!(["pattern"]),
            ),
            Self::Move | Self::Copy => (
                json!({"source": path("Path as it is"), "destination": path("Path as it shall be, with the file's name")}),
                json!(["source", "destination"]),
            ),
            Self::Delete | Self::Info | Self::Exists => {
                (json!({"path": path("Path of the file or folder")}), json!(["path"]))
            }
        };
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    }

    fn output(self) -> Option<Value> {
        match self {
            Self::Exists => Some(json!({"type": "boolean"})),
            Self::Info => Some(json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "kind": {"enum": ["file", "folder", "other"]},
                    "size": {"type": "integer"},
                    "modified": {"type": "string"},
                    "content": {"type": "string"},
                },
                "required": ["path", "kind"],
            })),
            _ => None,
        }
    }
}

/// A text argument of validated input; empty if the schema makes it optional and it is absent.
fn argument<'a>(input: &'a Value, name: &str) -> &'a str {
    input.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A text argument of validated input; `default` if it is absent.
fn argument_or<'a>(input: &'a Value, name: &str, default: &'a str) -> &'a str {
    input.get(name).and_then(Value::as_str).unwrap_or(default)
}

impl FileTool {
    /// Every subtree that the worker reaches at or below `path`. Mounts that may never be read are left out, so that
    /// they don't make all others unreadable, unless no other is left.
    fn trees(&self, path: &str) -> Vec<Touch> {
        let reading = |path: &str| Touch { path: path.to_owned(), access: Access::Read, delete: false };
        let trees = self.authority.locate_tree(path).unwrap_or_default();
        let readable: Vec<Touch> = trees
            .iter()
            .filter(|tree| tree.mount.approvals.read != Some(Rule::Blocked))
            .map(|tree| reading(tree.path.as_str()))
            .collect();
        // A path that can't be located is passed to the engine unchanged, whose refusal gives the reason.
        if readable.is_empty() { vec![reading(path)] } else { readable }
    }
}

/// Marks the output of a tool that changes files as the tool's own words, whatever the file contains.
fn own_words(output: Result<ToolOutput, ToolError>) -> Result<ToolOutput, ToolError> {
    output.map(|output| ToolOutput { origins: Some(Origins::TRUSTED), ..output })
}

impl Leaf for FileTool {
    fn effects(&self, input: &Value) -> Effects {
        let touch =
            |name: &str, access| Touch { path: argument(input, name).to_owned(), access, delete: false };
        let touches = match self.tool {
            Tool::Read if read::results_path(argument(input, "path")).is_some() => Vec::new(),
            Tool::Read | Tool::Info | Tool::Exists => vec![touch("path", Access::Read)],
            Tool::List | Tool::Search => self.trees(argument_or(input, "path", ".")),
            Tool::Write | Tool::Edit | Tool::Append => vec![touch("path", Access::Write)],
            Tool::Delete => vec![Touch { delete: true, ..touch("path", Access::Write) }],
            Tool::Move => {
                vec![
                    Touch { delete: true, ..touch("source", Access::Write) },
                    touch("destination", Access::Write),
                ]
            }
            Tool::Copy => vec![touch("source", Access::Read), touch("destination", Access::Write)],
        };
        Effects { touches, main: MainArgument::Paths, ..Effects::default() }
    }

    fn least(&self) -> Option<Effects> {
        let touch = |access, delete| Touch { path: String::new(), access, delete };
        let touches = match self.tool {
            // It can always be called for a long result.
            Tool::Read => Vec::new(),
            Tool::Info | Tool::Exists | Tool::List | Tool::Search => vec![touch(Access::Read, false)],
            Tool::Write | Tool::Edit | Tool::Append => vec![touch(Access::Write, false)],
            Tool::Delete => vec![touch(Access::Write, true)],
            Tool::Move => vec![touch(Access::Write, true), touch(Access::Write, false)],
            Tool::Copy => vec![touch(Access::Read, false), touch(Access::Write, false)],
        };
        Some(Effects { touches, ..Effects::default() })
    }

    fn preview<'a>(&'a self, call: LeafCall<'a>) -> BoxFuture<'a, Option<Preview>> {
        Box::pin(change::preview(self.tool, call))
    }

    fn foresees(&self) -> bool {
        self.tool.changes_files()
    }

    fn foresee<'a>(&'a self, call: LeafCall<'a>) -> BoxFuture<'a, Option<Foreseen>> {
        Box::pin(foresight::foresee(self.tool, call))
    }

    fn look_back<'a>(&'a self, call: LeafCall<'a>, foreseen: &'a Foreseen) -> BoxFuture<'a, Option<Answer>> {
        Box::pin(foresight::look_back(call, foreseen))
    }

    fn run<'a>(&'a self, call: LeafCall<'a>) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            match self.tool {
                Tool::Read => read::read(&call).await,
                Tool::Info => read::info(&call).await,
                Tool::Exists => read::exists(&call).await,
                Tool::List => list::list(&call).await,
                Tool::Search => search::search(&call).await,
                Tool::Write => own_words(change::write(&call).await),
                Tool::Edit => own_words(change::edit(&call).await),
                Tool::Append => own_words(change::append(&call).await),
                Tool::Delete => own_words(change::delete(&call).await),
                Tool::Move => own_words(change::rename(&call).await),
                Tool::Copy => own_words(change::copy(&call).await),
            }
        })
    }
}

#[cfg(test)]
mod tests;
