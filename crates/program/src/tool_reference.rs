//! References to Python tools: `imports.tools` (SPEC §4.4).

use crate::{
    diagnostics::{Diagnostic, codes},
    package::Package,
    source::{Kind, plain},
    span::Span,
};

/// A module with tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ToolModule {
    /// A file, or a folder with `__init__.py`, relative to the package's root.
    File(String),
    /// `package.module:register`, found by the interpreter.
    Module(String),
}

/// What the operator and the program allow to be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    /// Whether Python is loaded at all (`--no-import-tools`).
    pub(crate) tools: bool,
    /// Whether tools may be named by module.
    pub(crate) modules: bool,
}

/// The module that a reference names: a file from the worker's folder, then from the package's root.
pub(crate) fn resolve(
    package: &Package,
    folder: &str,
    (reference, span): (&str, &Span),
    policy: Policy,
    found: &mut Vec<Diagnostic>,
) -> Option<ToolModule> {
    let refuse = |found: &mut Vec<Diagnostic>, problem: Diagnostic| {
        found.push(problem.at(span));
        None
    };
    let shown: String = reference.chars().take(100).flat_map(char::escape_debug).collect();
    if !policy.tools {
        return refuse(
            found,
            Diagnostic::error(
                codes::TOOL_IMPORT_DISALLOWED,
                format!("the tools `{shown}` are imported, and `--no-import-tools` loads none"),
            )
            .help("run it without `--no-import-tools`, or start with a worker that needs no Python tools"),
        );
    }
    if let Some((module, function)) = reference.split_once(':') {
        let word = |text: &str| {
            !text.is_empty()
                && text.split('.').all(|part| {
                    part.starts_with(|c: char| c.is_alphabetic() || c == '_')
                        && part.chars().all(|c| c.is_alphanumeric() || c == '_')
                })
        };
        if !word(module) || !word(function) || function.contains('.') {
            return refuse(found, not_a_reference(&shown));
        }
        if !policy.modules {
            return refuse(
                found,
                Diagnostic::error(
                    codes::TOOL_IMPORT_DISALLOWED,
                    format!("`{shown}` imports an installed Python module, which is not allowed here"),
                )
                .help("name a file of the project, or allow it: `--allow-module-imports`, or `tools.allow_module_imports: true` in the manifest"),
            );
        }
        return Some(ToolModule::Module(reference.to_owned()));
    }
    let Ok(path) = plain(reference) else {
        return refuse(
            found,
            Diagnostic::error(codes::ESCAPES_ROOT, format!("`{shown}` leads out of the root"))
                .help("name a file below the worker's folder or the project's root"),
        );
    };
    if path.is_empty() {
        return refuse(found, not_a_reference(&shown));
    }
    let mut tried = Vec::new();
    for base in [folder, ""] {
        let whole = if base.is_empty() { path.clone() } else { format!("{base}/{path}") };
        let names = if whole.ends_with(".py") {
            vec![whole]
        } else {
            vec![format!("{whole}.py"), format!("{whole}/__init__.py"), whole]
        };
        for name in names {
            match package.tree.kind(&name) {
                Ok(Some(Kind::File)) if name.ends_with(".py") => return Some(ToolModule::File(name)),
                Ok(Some(Kind::Folder)) if !name.ends_with(".py") => return Some(ToolModule::File(name)),
                Ok(_) => tried.push(name),
                Err(error) => {
                    return refuse(
                        found,
                        Diagnostic::error(
                            codes::TOOL_MODULE_NOT_FOUND,
                            format!("the tools `{shown}`: {error}"),
                        ),
                    );
                }
            }
        }
    }
    tried.dedup();
    refuse(
        found,
        Diagnostic::error(codes::TOOL_MODULE_NOT_FOUND, format!("the tools `{shown}` do not exist"))
            .note(format!("tried {}", tried.join(", "))),
    )
}

fn not_a_reference(shown: &str) -> Diagnostic {
    Diagnostic::error(codes::BAD_TOOL_REFERENCE, format!("`{shown}` is not a reference to tools"))
        .help("write a file (`tools.py`, `toolsets/formatting.py`) or `package.module:register`")
}
