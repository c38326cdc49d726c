//! The toolset kind that runs Python, and a reader of Python code, for tests that run none.
//!
//! The reader understands what a bad program needs: `def NAME(...)` and, in TypeScript, `export function NAME(...)` at the
//! beginning of a line, `class NAME` with
//! annotated fields, imports (of which those of `missing...` fail), and the line `# no interpreter`.
#![allow(dead_code, reason = "each test that includes this uses a part")]

use llm_do_core::{
    authority::Place,
    function::Function,
    origin::ResultOrigin,
    schema::Schema,
    send::BoxFuture,
    toolset::{ToolsetContext, ToolsetKind, ToolsetRegistry, ToolsetRuntime},
    worker::{CodeEntry, CodeModule, CodePackage, ToolLevel, WorkerDefinition},
};
use llm_do_program::code::{CodeProblem, CodeProblemKind, CodeReader, CodeTool, HiddenCode, ModuleTools};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

struct Custom;

impl ToolsetKind for Custom {
    fn name(&self) -> &'static str {
        "custom"
    }
    fn tools_are_known(&self) -> bool {
        true
    }
    fn implied_by(&self, worker: &WorkerDefinition) -> bool {
        !worker.tools.is_empty()
    }
    fn starts_processes(&self, worker: &WorkerDefinition) -> bool {
        worker.code.is_some() || !worker.tools.is_empty()
    }
    fn runs_code(&self) -> bool {
        true
    }
    fn configuration(&self) -> Schema {
        Schema::built_in(json!({
            "type": "object",
            "properties": {"module": {"type": "string"}},
            "additionalProperties": {
                "type": "object",
                "properties": {"pre_approved": {"type": "boolean"}, "approval_required": {"type": "boolean"}},
                "additionalProperties": false,
            },
        }))
    }
}

impl ToolsetRuntime for Custom {
    fn build<'a>(
        &'a self,
        _: &'a Value,
        _: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Result<Vec<Function>, String>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// Returns the built-in kinds, that of Python, and those of commands and MCP servers.
pub(crate) fn registry() -> ToolsetRegistry {
    let mut registry = ToolsetRegistry::built_in();
    registry.register(Arc::new(Custom));
    registry.register(Arc::new(llm_do_sandbox::shell::Shell::unbound()));
    registry.register(Arc::new(llm_do_mcp::Mcp::unbound()));
    registry
}

/// Files of code by their place.
#[derive(Default)]
pub(crate) struct Reader(BTreeMap<String, String>);

impl Reader {
    /// Creates a reader of these files, below that root.
    pub(crate) fn of<'a>(root: &str, files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self(files.into_iter().map(|(path, text)| (format!("{root}/{path}"), text.to_owned())).collect())
    }

    /// Adds the files of code below a folder.
    pub(crate) fn and_below(mut self, folder: &Path) -> Self {
        let Ok(folder) = folder.canonicalize() else { return self };
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                self = self.and_below(&path);
            } else if path.extension().is_some_and(|extension| extension == "py" || extension == "ts") {
                self.0.insert(path.to_string_lossy().into_owned(), fs::read_to_string(&path).unwrap());
            }
        }
        self
    }

    fn text(&self, module: &CodeModule) -> Result<(Place, &str), CodeProblem> {
        let CodeModule::File(place) = module else {
            let CodeModule::Installed { module, .. } = module else { unreachable!() };
            return Err(problem(CodeProblemKind::Import, format!("No module named '{module}'"), None, None));
        };
        let init = place.join("__init__.py");
        let there = [place.clone(), init].into_iter().find_map(|place| {
            let text = self.0.get(place.as_str())?;
            Some((place, text.as_str()))
        });
        let (place, text) = there.unwrap_or_else(|| panic!("{place} is no file of the test"));
        for (i, line) in text.lines().enumerate() {
            let line_number = u32::try_from(i + 1).unwrap();
            let at = |kind, message: String| problem(kind, message, Some(&place), Some(line_number));
            if let Some(name) = line.strip_prefix("import missing") {
                return Err(at(CodeProblemKind::Import, format!("No module named 'missing{name}'")));
            }
            if (line.starts_with("def ") || line.starts_with("class ")) && !line.ends_with(':') {
                let column = Some(u32::try_from(line.len() + 1).unwrap());
                return Err(CodeProblem { column, ..at(CodeProblemKind::Syntax, "expected ':'".into()) });
            }
            if line == "# no interpreter" {
                let none =
                    problem(CodeProblemKind::Interpreter, "there is no Python here".into(), None, None);
                return Err(CodeProblem { help: Some("install Python 3.9 or newer".into()), ..none });
            }
        }
        Ok((place, text))
    }

    fn exposed(
        &self,
        module: &CodeModule,
        names: &[Arc<str>],
    ) -> Result<(Vec<CodeTool>, Vec<HiddenCode>), CodeProblem> {
        let (place, text) = self.text(module)?;
        let marks = names.is_empty() && text.lines().any(|line| line.starts_with("@tool"));
        let (mut before, mut hidden) = ("", Vec::new());
        let functions = text.lines().enumerate().filter_map(|(i, line)| {
            let decorator = std::mem::replace(&mut before, line);
            let function = line.strip_prefix("def ").or_else(|| line.strip_prefix("export function "));
            let (name, rest) = function?.split_once('(')?;
            let typed = rest.contains(": ") || rest.contains("->");
            let exposed = match names {
                [] => typed && !name.starts_with('_'),
                names => names.iter().any(|known| **known == *name),
            };
            if exposed && marks && !decorator.starts_with("@tool") {
                let is_described = text.lines().nth(i + 1).is_some_and(|next| next.contains("\"\"\""));
                let line = u32::try_from(i + 1).ok().filter(|_| is_described)?;
                hidden.push(HiddenCode { name: name.into(), file: place.clone(), line });
                return None;
            }
            exposed.then(|| CodeTool {
                name: name.into(),
                description: "".into(),
                file: Some(place.clone()),
                line: u32::try_from(i + 1).ok(),
                refused: rest.contains("*args").then(|| "`*args` takes any number of arguments".into()),
                input: Arc::new(arguments(rest)),
                takes_paths: rest.contains(": Path"),
                risk: decorator
                    .split_once("risk=\"")
                    .and_then(|(_, risk)| serde_json::from_value(risk.split('"').next()?.into()).ok()),
                makes_calls: rest.contains("ToolContext"),
                results: decorator.contains("untrusted=True").then_some(ResultOrigin::Untrusted),
            })
        });
        let tools: Vec<CodeTool> = functions.collect();
        match tools.is_empty() && names.is_empty() {
            true => Err(problem(CodeProblemKind::Nothing, "nothing".into(), Some(&place), None)),
            false => Ok((tools, hidden)),
        }
    }
}

/// Returns the schema of the parameters in `a: str, b: int = 3) -> str:`.
fn arguments(rest: &str) -> Value {
    let inside = rest.split(')').next().unwrap_or_default();
    let parameters = inside.split(", ").filter_map(|parameter| parameter.split_once(": "));
    let parameters = parameters.filter(|(_, python)| *python != "ToolContext");
    let of = |python: &str| match python.split(' ').next() {
        Some("int") => json!({"type": "integer"}),
        Some("float") => json!({"type": "number"}),
        Some("list[str]") => json!({"type": "array", "items": {"type": "string"}}),
        _ => json!({"type": "string"}),
    };
    let properties: Map<String, Value> =
        parameters.map(|(name, python)| (name.to_owned(), of(python))).collect();
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

fn problem(kind: CodeProblemKind, message: String, file: Option<&Place>, line: Option<u32>) -> CodeProblem {
    CodeProblem { kind, message, file: file.cloned(), line, column: None, help: None }
}

impl CodeReader for Reader {
    fn tools(&self, level: &ToolLevel) -> Vec<ModuleTools> {
        let of = |module: &CodeModule, names: &[Arc<str>]| match self.exposed(module, names) {
            Ok((tools, hidden)) => ModuleTools { tools, hidden, problem: None },
            Err(problem) => ModuleTools { problem: Some(problem), ..ModuleTools::default() },
        };
        level.modules.iter().map(|module| of(&module.module, &module.names)).collect()
    }

    fn sha256(&self, levels: &[ToolLevel], _: Option<&CodeEntry>) -> Arc<str> {
        format!("{} levels", levels.len()).into()
    }

    fn schema(&self, _: &CodePackage, module: &CodeModule, class: &str) -> Result<Value, CodeProblem> {
        let (place, text) = self.text(module)?;
        let mut lines = text.lines().enumerate();
        let Some((at, _)) = lines.find(|(_, line)| line.starts_with(&format!("class {class}"))) else {
            let message = format!("there is no class `{class}`");
            return Err(problem(CodeProblemKind::Missing, message, Some(&place), None));
        };
        let fields = lines.map_while(|(_, line)| line.strip_prefix("    ")?.split_once(": "));
        let mut properties = Map::new();
        for (name, python) in fields {
            let kind = if python == "int" { "integer" } else { "string" };
            properties.insert(name.to_owned(), json!({"type": kind}));
        }
        if properties.is_empty() {
            let line = u32::try_from(at + 1).ok();
            let message = format!("`{class}` is no Pydantic model, dataclass or TypedDict");
            return Err(problem(CodeProblemKind::Other, message, Some(&place), line));
        }
        let required: Vec<&String> = properties.keys().collect();
        Ok(json!({"type": "object", "required": required, "properties": properties}))
    }
}
