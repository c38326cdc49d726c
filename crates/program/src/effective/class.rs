//! Schemas in code: Python classes as `path.py:Class` and `module.Class` (`docs/guides/python-tools.md`), and exports of
//! scripts as `path.ts:name` (`docs/guides/typescript-tools.md`).

use crate::{
    code::CodeProblemKind,
    code_place,
    context::Context,
    diagnostics::{Diagnostic, codes},
    resolve::WorkerFile,
    tool_levels::no_python,
    tool_reference::{self, is_dotted, is_word},
    yaml::Node,
};
use llm_do_core::{code::Language, schema::Schema, worker::CodeModule};
use serde_json::Value;

impl Context<'_> {
    /// Returns the schema of a class, or of an export of a script, that a reference names.
    pub(super) fn schema_of_class(
        &self,
        located: &WorkerFile,
        node: &Node,
        found: &mut Vec<Diagnostic>,
    ) -> Option<Value> {
        let text = node.as_text()?;
        let refuse = |found: &mut Vec<Diagnostic>, problem: Diagnostic| {
            found.push(problem.at(&node.span));
            None
        };
        let language = text.rsplit_once(':').and_then(|(path, _)| Language::of_file(path));
        let in_file = text.rsplit_once(':').filter(|(_, class)| language.is_some() && is_word(class));
        let in_module = text.rsplit_once('.').filter(|(module, class)| is_dotted(module) && is_word(class));
        let Some((place, class)) = in_file.or(in_module) else {
            let none =
                Diagnostic::error(codes::BAD_SCHEMA, format!("`{text}` is not a reference to a schema"));
            return refuse(
                found,
                none.help("write `path.json`, `path.py:Class`, `path.ts:name` or `module.Class`"),
            );
        };
        let policy = self.policy();
        if !policy.tools {
            return refuse(
                found,
                tool_reference::not_imported(&match language {
                    Some(Language::Script) => format!("`{text}` is a schema in a script"),
                    Some(Language::Python) | None => format!("`{text}` is a Python class"),
                }),
            );
        }
        let module = if in_file.is_some() {
            let path = self.schema_file(located, place, node, found)?;
            CodeModule::File(self.tree().root().join(&path))
        } else if policy.modules {
            CodeModule::Installed { module: place.into(), function: class.into() }
        } else {
            return refuse(found, tool_reference::not_allowed(text));
        };
        let Some(reader) = self.host.code.as_ref().filter(|_| self.host.toolsets.code().is_some()) else {
            return refuse(found, no_python().help("name a `.json` file with a JSON Schema"));
        };
        // The interpreter reads the files of a library itself.
        let changes = self.package.changes();
        if !changes.is_empty() {
            found.extend_from_slice(changes);
            return None;
        }
        let schema = match reader.schema(&self.package.code, &module, class) {
            Ok(schema) => schema,
            Err(problem) => {
                let place = code_place::of_problem(self.packages, &problem);
                let finding = match problem.kind {
                    CodeProblemKind::Syntax | CodeProblemKind::Import => problem.finding(place_of(text)),
                    CodeProblemKind::Missing
                    | CodeProblemKind::Nothing
                    | CodeProblemKind::Interpreter
                    | CodeProblemKind::Other => {
                        let message = format!("cannot read a schema from `{text}`: {}", problem.message);
                        let finding = Diagnostic::error(codes::BAD_SCHEMA, message);
                        match &problem.help {
                            Some(help) => finding.help(help),
                            None => finding,
                        }
                    }
                };
                let finding = match place {
                    Some(place) => finding.related("it is here", &place),
                    None => finding,
                };
                return refuse(found, finding);
            }
        };
        if let Err(error) = Schema::new(schema.clone()) {
            return refuse(found, Diagnostic::error(codes::BAD_SCHEMA, format!("`{text}`: {error}")));
        }
        Some(schema)
    }
}

/// Returns the reference without the class.
fn place_of(text: &str) -> &str {
    text.rsplit_once(':').or_else(|| text.rsplit_once('.')).map_or(text, |(place, _)| place)
}
