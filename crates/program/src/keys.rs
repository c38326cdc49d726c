//! The table of the keys of worker files and manifests. See `docs/reference/worker-files.md`.

pub use crate::shape::OLD_RULE;
use crate::shape::{Key, Shape};

/// The keys of a worker file.
pub const WORKER: &[Key] = &[
    Key::new("name", Shape::Text, "must equal the worker's ID under a workers root; any name elsewhere"),
    Key::new("description", Shape::Text, "shown to callers"),
    Key::new(
        "model",
        Shape::Texts,
        "`provider:model`, a profile of the manifest's `models`, or a list: the next stands in for an unavailable one",
    ),
    Key::new(
        "compatible_models",
        Shape::Texts,
        "globs over `provider:model`; a run with another model is refused",
    ),
    Key::new("model_settings", Shape::Record(MODEL_SETTINGS), "sampling settings"),
    Key::new(
        "mode",
        Shape::Choice(&["single", "chat"], &[]),
        "`single`, the default, or `chat`: a conversation",
    ),
    Key::new("parameters", Shape::Any, "typed inputs"),
    Key::new("returns", Shape::Any, "output type"),
    Key::new(
        "schema_in_ref",
        Shape::Text,
        "the input's schema: `path.json`, `path.py:Class`, `path.ts:name`, `module.Class`",
    ),
    Key::new(
        "schema_out_ref",
        Shape::Text,
        "the output's schema: `path.json`, `path.py:Class`, `path.ts:name`, `module.Class`",
    )
    .or(&["output_schema_ref"]),
    Key::new("toolsets", TOOLSETS, "map of name to configuration, or a list of names"),
    Key::new("imports", Shape::Record(IMPORTS), "workers and tools that are loaded with it"),
    Key::new(
        "allow_workers",
        Shape::Either(&[Shape::Text, Shape::List(&Shape::Either(&[Shape::Text, Shape::Record(CALLEE)]))]),
        "workers it may call: IDs, `./path`, globs, or `{name, with}`, which fixes arguments",
    ),
    Key::new(
        "tool_rules",
        Shape::Either(&[Shape::Map(&TOOL_RULE), Shape::Records(TOOL_RULE_ITEM)]),
        "rules by tool or pattern, or a list of rules with conditions",
    ),
    Key::new("sandbox", Shape::Record(SANDBOX), "the files it sees"),
    Key::new("attachment_policy", Shape::Record(ATTACHMENT_POLICY), "which files may be attached to a call"),
    Key::new("allow_empty_input", Shape::Flag, "whether it may be called with neither input nor attachment"),
    Key::new(
        "interaction",
        Shape::Choice(&["none", "user"], &[]),
        "`none`, the default, or `user`: it may talk to the user in the middle of a run",
    ),
    Key::new(
        "max_context_tokens",
        MAX_CONTEXT,
        "tokens of one request, above which older turns are compacted",
    ),
    Key::new("limits", Shape::Record(LIMITS), "turns, calls, tokens, cost, time, depth"),
    Key::new(
        "server_side_tools",
        Shape::List(&SERVER_TOOL),
        "tools that the provider runs, by name or with options",
    ),
    Key::new(
        "ensures",
        Shape::Either(&[Shape::Texts, Shape::Map(&Shape::Text)]),
        "what must hold of the output: tools that are called with it, and expressions over `input` and `output`",
    ),
    Key::new("locked", Shape::Flag, "`--model` and `--set` may not override it"),
    Key::new("instructions", Shape::Text, "the prompt, in a file that is YAML only"),
    Key::new(
        "code",
        Shape::Text,
        "the Python function that it is, in place of a prompt: `tools.py:summarize`",
    ),
];

/// The keys of an item of `allow_workers` that fixes arguments.
pub const CALLEE: &[Key] = &[
    Key::new("name", Shape::Text, "the worker: its ID, or `./path`").required(),
    Key::new(
        "with",
        Shape::Map(&Shape::Any),
        "arguments that every call gets, by parameter; the model is not shown them",
    )
    .required(),
];

/// The keys of an entry of `models` of a manifest.
pub const PROFILE: &[Key] = &[
    Key::new("model", Shape::Text, "`provider:model`").required(),
    Key::new("settings", Shape::Record(MODEL_SETTINGS), "the model's sampling settings"),
];

/// The least `max_context_tokens`. With less, instructions and tools alone would not fit.
pub const LEAST_CONTEXT: u64 = 1000;
const MAX_CONTEXT: Shape = Shape::Count(LEAST_CONTEXT);

/// The keys of a manifest.
pub const MANIFEST: &[Key] = &[
    Key::new(
        "version",
        Shape::Either(&[Shape::Text, Shape::Number(0.0, f64::MAX)]),
        "a whole number is the manifest's format (1), text the project's own version",
    ),
    Key::new("name", Shape::Text, "the project's name"),
    Key::new("description", Shape::Text, "what it is"),
    Key::new(
        "model",
        Shape::Texts,
        "default model of all workers: `provider:model`, one of `models`, or a list: the next stands in for an unavailable one",
    ),
    Key::new(
        "models",
        Shape::Map(&Shape::Record(PROFILE)),
        "models with their settings, by a name of your own",
    ),
    Key::new("model_settings", Shape::Record(MODEL_SETTINGS), "sampling settings of all workers"),
    Key::new(
        "entry",
        Shape::Text,
        "the worker that a run starts with, or a Python function (`tools.py:main`); default `main`",
    ),
    Key::new(
        "dependencies",
        Shape::Texts,
        "libraries: `NAME`, `NAME@VERSION`, `./PATH`, `git+URL[@REF][#SUBDIR]`",
    ),
    Key::new(
        "exports",
        Shape::Texts,
        "workers that may be called from outside, if the project is used as a library",
    ),
    Key::new("workers", Shape::Record(WORKERS_ROOT), "where workers are"),
    Key::new("worker_paths", Shape::Texts, "further folders to look for workers in"),
    Key::new("prompts", Shape::Record(ROOT), "where prompts are"),
    Key::new("templates", Shape::Record(ROOT), "where templates are"),
    Key::new("tools", Shape::Record(TOOLS), "where Python tools are"),
    Key::new("toolsets", TOOLSETS, "toolsets of all workers"),
    Key::new("sandbox", Shape::Record(SANDBOX), "the files that all workers see"),
    Key::new("approval", Shape::Record(PROJECT_APPROVAL), "rules for all workers"),
    Key::new("delegation", Shape::Record(DELEGATION), "how workers may call each other"),
    Key::new("max_context_tokens", MAX_CONTEXT, "`max_context_tokens` of all workers"),
    Key::new("limits", Shape::Record(LIMITS), "limits of all workers"),
    Key::new("providers", Shape::Map(&Shape::Record(PROVIDER)), "your own model providers"),
    MCP_SERVERS_KEY,
    Key::new("bindings", Shape::Map(&Shape::Any), "values for the entry's parameters"),
];

/// The key of a manifest that holds MCP servers by name.
pub const MCP_SERVERS: &str = "mcp_servers";

const MCP_SERVERS_KEY: Key = Key::new(
    MCP_SERVERS,
    Shape::Map(&Shape::Any),
    "MCP servers by name, which workers list under `toolsets.mcp`",
);

/// The keys of a file of cases, `NAME.cases.yaml` (`docs/reference/cases.md`).
pub const CASES: &[Key] = &[
    Key::new("repeat", Shape::Count(1), "how many times each case runs; default 1"),
    Key::new("cases", Shape::Records(CASE), "the cases").required(),
];

/// The keys of a case: an item of `cases`, or a line of `NAME.cases.jsonl`.
pub const CASE: &[Key] = &[
    Key::new("name", Shape::Text, "its name, unique in the file: letters, digits, `.`, `-` and `_`")
        .required(),
    Key::new("input", Shape::Any, "the worker's input"),
    Key::new("repeat", Shape::Count(1), "how many times it runs, in place of the file's `repeat`"),
    Key::new(
        "files",
        Shape::Either(&[Shape::Text, Shape::Map(&Shape::Text)]),
        "files that its copy of the mounts has: a map of path to text, or a folder beside this file",
    ),
    Key::new(
        "given",
        Shape::Map(&Shape::Any),
        "results of functions that do not run: an output, a list of outputs, or `{error: TEXT}`, by function",
    ),
    Key::new("expect", Shape::Record(EXPECT), "what must hold of the call"),
    Key::new("from", Shape::Record(CASE_FROM), "the recorded call that it was made of"),
];

/// The keys of `expect` of a case.
pub const EXPECT: &[Key] = &[
    Key::new(
        "output",
        Shape::Any,
        "a part of the output; `{matches: REGEX}`, `{schema: …}`, `{exactly: …}`, `{any_of: […]}` anywhere in it",
    ),
    Key::new(
        "ensures",
        Shape::Texts,
        "conditions on the output: expressions over `input` and `output`, or functions (`tests.py:close`, `checks.ts:close`)",
    ),
    Key::new(
        "judge",
        Shape::Text,
        "a worker that judges the output and returns {pass: boolean, reason: string}",
    ),
    Key::new(
        "calls",
        Shape::Texts,
        "calls that are made in this order, as patterns of rules; with `!` calls that are never made",
    ),
    Key::new(
        "files",
        Shape::Map(&Shape::Any),
        "files after the call, by path: a text, a matcher as in `output`, or `{absent: true}`",
    ),
    Key::new("fails", Shape::Choice(FAILURES, &[]), "the kind of failure with which the call ends"),
    Key::new("limits", Shape::Record(CASE_LIMITS), "what the call may use"),
];

/// The kinds of failures.
const FAILURES: &[&str] = &[
    "definition",
    "invalid_input",
    "authority",
    "blocked",
    "denied",
    "tool",
    "timeout",
    "limit",
    "model",
    "refusal",
    "stopped",
    "invalid_output",
    "postcondition",
];

/// The keys of `expect.limits` of a case.
const CASE_LIMITS: &[Key] = &[
    Key::new("max_cost_usd", Shape::Number(0.0, MOST_DOLLARS), "cost of the run, in US dollars"),
    Key::new("timeout", Shape::Duration, "time of the run, which is ended then"),
    Key::new("max_turns", Shape::Count(1), "turns of the worker's own conversation"),
    Key::new("max_tool_calls", Shape::Count(0), "calls of tools and workers in the run"),
    Key::new("max_tokens", Shape::Count(1), "tokens of the run"),
];

/// The keys of `from` of a case.
const CASE_FROM: &[Key] = &[
    Key::new("run", Shape::Text, "ID of the run"),
    Key::new("call", Shape::Text, "place of the call in its tree"),
    Key::new("calls", Shape::Count(1), "how many recorded calls had this input"),
    Key::new("differing", Shape::Count(0), "how many of them gave another output"),
    Key::new("failure", Shape::Text, "what the recorded call failed with"),
];

/// The keys of a library's `lib.yaml` (`docs/guides/libraries.md`).
pub const LIBRARY: &[Key] = &[
    Key::new("name", Shape::Text, "the library's name").required(),
    Key::new("version", Shape::Either(&[Shape::Text, Shape::Number(0.0, f64::MAX)]), "its version")
        .required(),
    Key::new("description", Shape::Text, "what it is"),
    Key::new("exports", Shape::Texts, "workers that may be called from outside; nothing else may"),
    Key::new(
        "dependencies",
        Shape::Texts,
        "further libraries: `NAME`, `NAME@VERSION`, `./PATH`, `git+URL[@REF][#SUBDIR]`",
    ),
    MCP_SERVERS_KEY,
];

/// The keys of `imports` of a worker (`docs/reference/worker-files.md`).
pub const IMPORTS: &[Key] = &[
    Key::new("workers", Shape::Texts, "workers: IDs, `library:worker`, `./path`"),
    Key::new("tools", Shape::Texts, "Python files, or `package.module:register`"),
];

/// The shape of an item of `server_side_tools`: its name, or a map with its options.
const SERVER_TOOL: Shape = Shape::Either(&[SERVER_TOOL_TYPE, Shape::Record(SERVER_TOOL_OPTIONS)]);

const SERVER_TOOL_TYPE: Shape =
    Shape::Choice(&["web_search", "web_fetch", "code_execution"], &["image_generation"]);

const SERVER_TOOL_OPTIONS: &[Key] = &[
    Key::new("tool_type", SERVER_TOOL_TYPE, "which tool").required(),
    Key::new("max_uses", Shape::Count(1), "most uses in one request"),
    Key::new("allowed_domains", Shape::Texts, "only these domains"),
    Key::new("blocked_domains", Shape::Texts, "never these domains"),
];

/// The keys of `tools` of a manifest.
pub const TOOLS: &[Key] = &[
    Key::new("roots", Shape::Texts, "folders with Python tools; default `tools`, `toolsets`"),
    Key::new("modules", Shape::Texts, "Python files with tools; default `tools.py`"),
    Key::new(
        "data",
        Shape::Texts,
        "files and folders that Python tools read, beside those in their own folders",
    ),
    Key::new("allow_module_imports", Shape::Flag, "whether tools may be named by module"),
];

/// The keys of `model_settings`.
pub const MODEL_SETTINGS: &[Key] = &[
    Key::new("temperature", Shape::Number(0.0, 10.0), "sampling temperature"),
    Key::new("top_p", Shape::Number(0.0, 1.0), "nucleus sampling mass"),
    Key::new("max_tokens", Shape::Count(1), "most tokens of one answer"),
    Key::new("seed", Shape::Count(0), "seed for sampling"),
    Key::new("stop", Shape::Texts, "texts that end an answer"),
    Key::new(
        "reasoning_effort",
        Shape::Text,
        "`none`, `minimal`, `low`, `medium`, `high`, or what the provider calls it",
    ),
];

/// The shape of `toolsets`.
pub const TOOLSETS: Shape = Shape::Either(&[Shape::Texts, Shape::Map(&Shape::Any)]);

/// The keys that every toolset accepts in addition to its own.
pub const TOOLSET: &[Key] = &[
    Key::new("tools", Shape::Texts, "offer only these tools"),
    Key::new("approval", Shape::Record(APPROVAL), "rules for its tools"),
];

/// The keys of `approval` of a toolset.
pub const APPROVAL: &[Key] = &[
    Key::new("default", Shape::Rule, "for tools that are not named"),
    Key::new("tools", Shape::Map(&Shape::Rule), "by tool or pattern"),
];

/// The keys of `approval` of a manifest.
pub const PROJECT_APPROVAL: &[Key] = &[
    Key::new(
        "mode",
        Shape::Choice(&["interactive", "approve_all", "auto_deny", "defer"], &[]),
        "what `ask` does; can only tighten the operator's",
    ),
    Key::new("default", Shape::Rule, "for calls that no other rule matches"),
    Key::new("tools", Shape::Map(&Shape::Rule), "by tool or pattern"),
    Key::new("rules", Shape::Records(APPROVAL_RULE), "a list of rules with conditions"),
    Key::new("risks", Shape::Record(RISKS), "by risk"),
];

/// The keys of `approval.risks`.
pub const RISKS: &[Key] = &[
    Key::new("read", Shape::Rule, "reads and changes nothing"),
    Key::new("write", Shape::Rule, "changes files"),
    Key::new("network", Shape::Rule, "talks to other machines"),
    Key::new("exec", Shape::Rule, "runs a process"),
    Key::new("destructive", Shape::Rule, "deletes permanently"),
    Key::new("delegate", Shape::Rule, "calls a worker"),
];

/// The shape of an entry of `tool_rules`.
pub const TOOL_RULE: Shape = Shape::Either(&[Shape::Rule, Shape::Record(TOOL_RULE_KEYS)]);

/// The keys of an entry of `tool_rules`.
pub const TOOL_RULE_KEYS: &[Key] = &[
    Key::new("allowed", Shape::Flag, "false: blocked"),
    Key::new("approval_required", Shape::Flag, "true: ask; false: run"),
    Key::new("pre_approved", Shape::Flag, "true: run; false: ask"),
    Key::new("timeout", Shape::Duration, "the longest that the call may work"),
    Key::new(
        "retries",
        Shape::Count(0),
        "further attempts after a failure or a timeout, for tools of risk `read`",
    ),
    Key::new("match", Shape::Texts, "arguments that the pattern must fit; it is an error if it doesn't"),
    Key::new("not_match", Shape::Texts, "arguments that the pattern must not fit"),
];

/// The keys of an item of a list of `tool_rules`.
pub const TOOL_RULE_ITEM: &[Key] = &[
    Key::new("tool", Shape::Text, "the tool, or a pattern: `write_file(output/**)`").required(),
    Key::new("when", WHEN, "conditions: tests by argument, `args.amount: {max: 500}`"),
    Key::new("then", Shape::Rule, "what the rule says"),
    Key::new("timeout", Shape::Duration, "the longest that the call may work"),
    Key::new(
        "retries",
        Shape::Count(0),
        "further attempts after a failure or a timeout, for tools of risk `read`",
    ),
    Key::new("match", Shape::Any, "examples that the rule must match: texts, or maps of arguments"),
    Key::new("not_match", Shape::Any, "examples that the rule must not match"),
];

/// The keys of an item of `approval.rules`.
pub const APPROVAL_RULE: &[Key] = &[
    Key::new("tool", Shape::Text, "the tool, or a pattern: `write_file(output/**)`").required(),
    Key::new("when", WHEN, "conditions: tests by argument, `args.amount: {max: 500}`"),
    Key::new("then", Shape::Rule, "what the rule says").required(),
    Key::new("match", Shape::Any, "examples that the rule must match: texts, or maps of arguments"),
    Key::new("not_match", Shape::Any, "examples that the rule must not match"),
];

/// The shape of `when` of a rule.
const WHEN: Shape = Shape::Map(&Shape::Record(TESTS));

/// The tests of one argument.
pub const TESTS: &[Key] = &[
    Key::new("equals", Shape::Any, "it is this value"),
    Key::new("max", Shape::Number(f64::MIN, f64::MAX), "it is a number, at most this"),
    Key::new("min", Shape::Number(f64::MIN, f64::MAX), "it is a number, at least this"),
    Key::new("in", Shape::Any, "it is one of these: a list, `@FILE#POINTER`, or `{tool: NAME}`"),
    Key::new("not_in", Shape::Any, "it is none of these"),
    Key::new("without", Shape::Any, "no part of it is one of these: a set as for `in`"),
    Key::new("matches", Shape::Text, "the regular expression matches the whole text"),
    Key::new(
        "host",
        Shape::Text,
        "it is a URL with this host: `example.org`, `*.example.org`, or one that `origins(input)` names",
    ),
    Key::new(
        "from",
        Shape::Choice(&["input", "trusted", "known", "source(input)"], &[]),
        "it stands in words of this origin",
    ),
    Key::new("present", Shape::Flag, "whether it is there"),
    Key::new("absent", Shape::Flag, "whether it is missing"),
];

/// The keys of `sandbox`.
pub const SANDBOX: &[Key] = &[
    Key::new("root", Shape::Text, "the folder shown as `/`"),
    Key::new("paths", Shape::Map(&Shape::Either(&[Shape::Text, Shape::Record(MOUNT)])), "mounts by name"),
    Key::new("read", Shape::Texts, "`${parameter}`: paths that callers pass for reading"),
    Key::new("write", Shape::Texts, "`${parameter}`: paths that callers pass for writing"),
    Key::new("restrict", Shape::Texts, "nothing outside these paths"),
    Key::new("readonly", Shape::Flag, "nothing may be written"),
    Key::new(
        "network_enabled",
        Shape::Either(&[Shape::Flag, Shape::Texts]),
        "false, true, or a list of domains",
    ),
    Key::new("env", Shape::Texts, "environment variables that its Python functions get"),
    Key::new(
        "keys",
        Shape::Map(&Shape::Record(REQUEST_KEY)),
        "keys that are added to requests of its Python functions, by host",
    ),
    Key::new("approval", Shape::Record(SANDBOX_APPROVAL), "rules for all mounts"),
];

/// The keys of an entry of `sandbox.keys`.
pub const REQUEST_KEY: &[Key] = &[
    Key::new("header", Shape::Text, "the header that carries the key"),
    Key::new("scheme", Shape::Text, "the word before the key, such as `Bearer`"),
    Key::new("env", Shape::Text, "the environment variable that holds the key"),
];

/// The keys of `sandbox.approval`.
pub const SANDBOX_APPROVAL: &[Key] = &[
    Key::new("read", Shape::Rule, "for reading"),
    Key::new("write", Shape::Rule, "for writing"),
    Key::new("delete", Shape::Rule, "for deleting"),
];

/// The keys of an entry of `sandbox.paths`.
pub const MOUNT: &[Key] = &[
    Key::new("root", Shape::Text, "the folder that is shown"),
    Key::new("mode", Shape::Choice(&["ro", "rw"], &[]), "`ro`, the default, or `rw`"),
    Key::new("suffixes", Shape::Texts, "only files with these suffixes"),
    Key::new("max_file_bytes", Shape::Count(1), "largest file"),
    Key::new("read_approval", Shape::Approval, "rule for reading"),
    Key::new("write_approval", Shape::Approval, "rule for writing"),
    Key::new("untrusted", Shape::Flag, "others write what it shows"),
];

/// The keys of `attachment_policy`.
pub const ATTACHMENT_POLICY: &[Key] = &[
    Key::new("max_attachments", Shape::Count(0), "most files"),
    Key::new("max_total_bytes", Shape::Count(0), "most bytes together"),
    Key::new("allowed_suffixes", Shape::Texts, "only these"),
    Key::new("denied_suffixes", Shape::Texts, "never these"),
    Key::new("untrusted", Shape::Flag, "others write what is attached"),
];

/// An upper bound for the cost of a run.
const MOST_DOLLARS: f64 = 1e6;

/// The keys of `limits`.
pub const LIMITS: &[Key] = &[
    Key::new("max_turns", Shape::Count(1), "model turns of the call and everything below it"),
    Key::new("max_tool_calls", Shape::Count(0), "tool calls of the call and everything below it"),
    Key::new("timeout", Shape::Duration, "working time of the call and everything below it"),
    Key::new("max_tokens", Shape::Count(1), "tokens of the call and everything below it"),
    Key::new(
        "max_cost_usd",
        Shape::Number(0.0, MOST_DOLLARS),
        "cost of the call and everything below it, in US dollars",
    ),
    Key::new("max_depth", Shape::Count(0), "depth of delegation below it"),
    Key::new("max_repeats", Shape::Count(1), "the same call with the same arguments"),
    Key::new("request_retries", Shape::Count(0), "further attempts at a failed request"),
    Key::new("output_retries", Shape::Count(0), "further attempts at an invalid output"),
];

/// The keys of `delegation` of a manifest.
pub const DELEGATION: &[Key] = &[
    Key::new("max_depth", Shape::Count(0), "greatest depth; the root is 0"),
    Key::new("allow_recursion", Shape::Flag, "whether a worker already in the chain may be called"),
];

/// The keys of `workers` of a manifest.
pub const WORKERS_ROOT: &[Key] = &[
    Key::new("root", Shape::Text, "the workers root; default `workers`"),
    Key::new("include", Shape::Texts, "globs of files to list and check"),
    Key::new("exclude", Shape::Texts, "globs of files to leave out"),
];

/// The keys of `prompts` and of `templates`.
pub const ROOT: &[Key] = &[Key::new("root", Shape::Text, "the folder")];

/// The keys of an entry of `providers`.
pub const PROVIDER: &[Key] = &[
    Key::new("base_url", Shape::Text, "where it answers").required(),
    Key::new(
        "api",
        Shape::Choice(&["openai", "openai_resp", "anthropic", "gemini", "ollama"], &[]),
        "which protocol it speaks; `openai` if absent",
    ),
    Key::new("api_key_env", Shape::Text, "the environment variable that holds the key"),
    Key::new("headers", Shape::Map(&Shape::Text), "further headers"),
    Key::new(
        "stream",
        Shape::Flag,
        "whether answers are streamed; default true, for `gemini` only at Google's own address",
    ),
];
