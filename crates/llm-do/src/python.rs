//! Python for a program: the runtime of its tools, and the reader of their code for the front end.

use crate::settings::Environment;
use llm_do_core::{
    authority::Place,
    worker::{CodeEntry, CodeModule, CodePackage, Language, ToolLevel},
};
use llm_do_program::code::{CodeProblem, CodeProblemKind, CodeReader, CodeTool, HiddenCode, ModuleTools};
use llm_do_python::{ExposedTool, Interpreter, ModuleReport, Python, Settings, Wanted, code_sha256};
use llm_do_sandbox::confine::Confiner;
use serde_json::Value;
use std::{path::Path, sync::Arc};

/// Settings for Python processes of a program.
pub struct PythonFor<'a> {
    /// Root of the program.
    pub project: &'a Place,
    /// `LLM_DO_HOME`.
    pub home: &'a Path,
    /// The environment.
    pub environment: &'a Environment,
    /// The confiner of the processes.
    pub confiner: Arc<Confiner>,
    /// True if the processes may change nothing and have no network.
    pub only_looks: bool,
}

impl PythonFor<'_> {
    /// Returns Python, which is not started yet.
    pub fn python(&self) -> Arc<Python> {
        Python::new(Settings {
            project: self.project.as_str().into(),
            cache: self.home.join("cache").join("python"),
            environment: Arc::clone(self.environment),
            confiner: Arc::clone(&self.confiner),
            only_looks: self.only_looks,
        })
    }
}

/// Returns a reader of code with that Python, for `check` and for signatures. It waits for the interpreter if the
/// answer is not cached.
pub fn code_reader(python: Arc<Python>) -> Arc<dyn CodeReader> {
    Arc::new(Reader(python))
}

/// Fetches the packages that a program asks for.
pub(crate) fn prepare(python: &Arc<Python>, wanted: &Wanted) -> Result<(), String> {
    wait(python.prepare(wanted))?
}

/// Waits for a future on a separate thread, because the code that loads a program may run inside a runtime.
pub(crate) fn wait<T: Send>(work: impl Future<Output = T> + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        let waited = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map(|runtime| runtime.block_on(work)).map_err(|error| error.to_string())
        });
        waited.join().unwrap_or_else(|_| Err("reading Python code failed".to_owned()))
    })
}

struct Reader(Arc<Python>);

impl CodeReader for Reader {
    fn tools(&self, level: &ToolLevel) -> Vec<ModuleTools> {
        let parts = level.parts();
        let mut read: Vec<(Language, _)> = parts
            .iter()
            .map(|(language, part)| (*language, self.part(*language, part).into_iter()))
            .collect();
        let modules = level.modules.iter().map(|module| {
            let language = module.module.language();
            read.iter_mut().find(|(other, _)| *other == language)?.1.next()
        });
        modules.map(Option::unwrap_or_default).collect()
    }

    fn schema(&self, package: &CodePackage, module: &CodeModule, class: &str) -> Result<Value, CodeProblem> {
        let package = Arc::new(package.clone());
        let schema = wait(self.0.schema(&package, module, class));
        schema
            .map_err(|error| problem(CodeProblemKind::Interpreter, error))?
            .map_err(|error| problem(CodeProblemKind::Other, error.to_string()))
    }

    fn sha256(&self, levels: &[ToolLevel], entry: Option<&CodeEntry>) -> Arc<str> {
        code_sha256(levels, entry)
    }
}

impl Reader {
    /// Returns the tools of the modules of a part of a level, which are all in one language.
    fn part(&self, language: Language, level: &ToolLevel) -> Vec<ModuleTools> {
        let described = wait(async {
            let interpreter = self.0.interpreter(language).await;
            let interpreter = interpreter.map_err(|error| (true, error.to_string()))?;
            let described = self.0.describe(language, level).await;
            Ok((interpreter, described.map_err(|error| (false, error.to_string()))?))
        });
        let (interpreter, described) = match described.unwrap_or_else(|error| Err((true, error))) {
            Ok(found) => found,
            Err((of_interpreter, message)) => {
                let kind =
                    if of_interpreter { CodeProblemKind::Interpreter } else { CodeProblemKind::Import };
                let problem = problem(kind, message);
                return level
                    .modules
                    .iter()
                    .map(|_| ModuleTools { problem: Some(problem.clone()), ..ModuleTools::default() })
                    .collect();
            }
        };
        let root = &level.package.root;
        described.modules.iter().map(|report| module_tools(report, root, &interpreter)).collect()
    }
}

fn problem(kind: CodeProblemKind, message: String) -> CodeProblem {
    CodeProblem { kind, message, file: None, line: None, column: None, help: None }
}

fn module_tools(report: &ModuleReport, root: &Place, interpreter: &Interpreter) -> ModuleTools {
    let problem = match report.problem(root, interpreter) {
        Some(message) => {
            let place = report.place_of_problem();
            let kind = match (&place, report.missing()) {
                (_, Some(_)) => CodeProblemKind::Import,
                (Some((.., true)), None) => CodeProblemKind::Syntax,
                _ => CodeProblemKind::Import,
            };
            // The place is told apart from the message.
            let mut lines = message.lines();
            let first = lines.next().unwrap_or_default();
            let first = match &place {
                Some(_) => first.split_once(": ").map_or(first, |(_, rest)| rest),
                None => first,
            };
            let help = lines.collect::<Vec<_>>().join("\n");
            let (first, help) = match report.syntax_error() {
                // The finding shows the line itself.
                Some(message) => (message, String::new()),
                None => (first, help),
            };
            Some(CodeProblem {
                kind,
                message: first.to_owned(),
                file: place.as_ref().map(|(file, ..)| Place::new(file)),
                line: place.as_ref().map(|(_, line, ..)| *line),
                column: place.as_ref().and_then(|(.., column, _)| *column),
                help: (!help.is_empty()).then_some(help),
            })
        }
        None if report.functions.is_empty() => Some(CodeProblem {
            ..problem(CodeProblemKind::Nothing, "the module exposes no tools".to_owned())
        }),
        None => None,
    };
    let hidden = report.hidden.iter().map(|function| HiddenCode {
        name: Arc::clone(&function.name),
        file: Place::new(&function.file),
        line: function.line,
    });
    ModuleTools { tools: report.functions.iter().map(code_tool).collect(), hidden: hidden.collect(), problem }
}

fn code_tool(tool: &ExposedTool) -> CodeTool {
    CodeTool {
        name: Arc::clone(&tool.name),
        description: Arc::clone(&tool.description),
        file: tool.file.as_deref().map(Place::new),
        line: tool.line,
        refused: tool.refused.clone(),
        input: Arc::new(tool.input.clone()),
        takes_paths: !tool.paths.is_empty(),
        risk: tool.risk.as_ref().and_then(|risk| serde_json::from_value(risk.as_str().into()).ok()),
        makes_calls: tool.context,
        results: tool.results(),
    }
}
