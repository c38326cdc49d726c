//! References to code: tools (`imports.tools`) and functions that a program starts with. See
//! `docs/guides/python-tools.md`.

use crate::{
    diagnostics::{Diagnostic, codes},
    front_matter,
    package::{Package, Packages},
    resolve::PackageId,
    source::{Kind, SourceError, SourceTree, join, plain},
    span::Span,
};
use llm_do_core::worker::{CodeModule, Language};

/// The imports that the operator and the program allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    /// True if Python is loaded at all; `--no-import-tools` makes it false.
    pub(crate) tools: bool,
    /// True if tools may be named by module.
    pub(crate) modules: bool,
}

/// Returns the modules that a reference names: a file or folder in the worker's folder, else in the package's root.
/// Empty if the reference is wrong; the reason is in `found`.
pub(crate) fn resolve(
    package: &Package,
    folder: &str,
    (reference, span): (&str, &Span),
    policy: Policy,
    found: &mut Vec<Diagnostic>,
) -> Vec<CodeModule> {
    look(package, folder, reference, policy).unwrap_or_else(|problem| {
        found.push(match problem.span {
            Some(_) => problem.related("it is named here", span),
            None => problem.at(span),
        });
        Vec::new()
    })
}

fn look(
    package: &Package,
    folder: &str,
    reference: &str,
    policy: Policy,
) -> Result<Vec<CodeModule>, Box<Diagnostic>> {
    let shown = shown(reference);
    if !policy.tools {
        return Err(not_imported(&format!("`{shown}` names Python tools")).into());
    }
    if let Some((module, function)) = reference.split_once(':') {
        return Ok(vec![installed(module, function, &shown, policy)?]);
    }
    let Ok(path) = plain(reference) else {
        return Err(Diagnostic::error(codes::ESCAPES_ROOT, format!("`{shown}` is outside the root"))
            .help("use a file below the worker's folder or the project's root")
            .into());
    };
    if path.is_empty() {
        return Err(not_a_reference(&shown).into());
    }
    let tree = package.tree.as_ref();
    let missing = |message: String| Diagnostic::error(codes::TOOL_MODULE_NOT_FOUND, message);
    let mut tried = Vec::new();
    let bases = if folder.is_empty() { vec![""] } else { vec![folder, ""] };
    for base in bases {
        let whole = join(base, &path);
        if Language::of_file(&whole).is_none() {
            let files = named(&whole);
            let modules = existing(tree, &files)?;
            if !modules.is_empty() {
                return Ok(modules);
            }
            tried.extend(files);
        }
        match kind(tree, &whole)? {
            Some(Kind::File) if Language::of_file(&whole).is_some() => return Ok(vec![module(tree, &whole)]),
            Some(Kind::Folder) => {
                let modules = in_folder(tree, &whole)?;
                if modules.is_empty() {
                    return Err(missing(format!("the folder `{whole}` contains no tools"))
                        .help("add an `__init__.py`, `.py` files whose names do not start with `_`, or an `index.ts`")
                        .into());
                }
                return Ok(modules);
            }
            _ => tried.push(whole),
        }
    }
    Err(missing(format!("the tools `{shown}` do not exist"))
        .note(format!("tried {}", tried.join(", ")))
        .into())
}

/// Returns the files of a name without an ending: in Python, in TypeScript and in JavaScript.
fn named(path: &str) -> Vec<String> {
    [".py"].iter().chain(&Language::SCRIPTS).map(|end| format!("{path}{end}")).collect()
}

/// Returns those of the files that exist, as modules.
fn existing(tree: &dyn SourceTree, files: &[String]) -> Result<Vec<CodeModule>, Box<Diagnostic>> {
    let mut modules = Vec::new();
    for path in files {
        modules.extend(file(tree, path)?);
    }
    Ok(modules)
}

/// Returns `tools.py` and the scripts of that name in a folder of a package; `prefix` is empty for its root, or ends with
/// a slash.
///
/// # Errors
/// A link outside the root, or an error of the operating system.
pub(crate) fn conventional(tree: &dyn SourceTree, prefix: &str) -> Result<Vec<CodeModule>, Box<Diagnostic>> {
    existing(tree, &named(&format!("{prefix}tools")))
}

/// Returns the modules in a folder of tools. A folder with an `__init__.py` is one module. Otherwise each Python file is
/// one, sorted, except files whose name starts with `_` (`docs/guides/python-tools.md`). Then comes the folder's
/// `index.ts` (`docs/guides/typescript-tools.md`). Empty if there is no such folder.
///
/// # Errors
/// A link outside the root, or an error of the operating system.
pub(crate) fn in_folder(tree: &dyn SourceTree, folder: &str) -> Result<Vec<CodeModule>, Box<Diagnostic>> {
    if kind(tree, folder)? != Some(Kind::Folder) {
        return Ok(Vec::new());
    }
    let indexes = Language::SCRIPTS.map(|end| join(folder, &format!("index{end}")));
    let scripts = existing(tree, &indexes)?;
    let init = join(folder, INIT);
    if kind(tree, &init)? == Some(Kind::File) {
        return Ok([vec![module(tree, &init)], scripts].concat());
    }
    let entries = tree.list(folder).map_err(|error| unreadable(tree, folder, &error))?;
    let mut modules = Vec::new();
    for (name, listed) in entries {
        if !name.ends_with(".py") || name.starts_with(['_', '.']) {
            continue;
        }
        let path = join(folder, &name);
        // A listing does not follow links.
        let is_file =
            listed == Kind::File || (listed == Kind::Special && kind(tree, &path)? == Some(Kind::File));
        if is_file {
            modules.push(module(tree, &path));
        }
    }
    modules.extend(scripts);
    Ok(modules)
}

/// Returns the file of that name as a module, if it exists.
///
/// # Errors
/// A link outside the root, or an error of the operating system.
pub(crate) fn file(tree: &dyn SourceTree, path: &str) -> Result<Option<CodeModule>, Box<Diagnostic>> {
    Ok((kind(tree, path)? == Some(Kind::File)).then(|| module(tree, path)))
}

/// The file that makes a folder one module.
const INIT: &str = "__init__.py";

/// Returns an existing file as a module. `__init__.py` becomes its folder.
fn module(tree: &dyn SourceTree, path: &str) -> CodeModule {
    let path = path.strip_suffix(INIT).and_then(|folder| folder.strip_suffix('/')).unwrap_or(path);
    CodeModule::File(tree.root().join(path))
}

fn kind(tree: &dyn SourceTree, path: &str) -> Result<Option<Kind>, Box<Diagnostic>> {
    tree.kind(path).map_err(|error| unreadable(tree, path, &error))
}

fn unreadable(tree: &dyn SourceTree, path: &str, error: &SourceError) -> Box<Diagnostic> {
    front_matter::unreadable(&front_matter::unread(tree, path), error).into()
}

/// A function that a program starts with.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) module: CodeModule,
    /// The name of the function in the module.
    pub(crate) name: String,
    /// The file, relative to the root, if it is one of the program's.
    pub(crate) file: Option<String>,
}

/// Returns the function that an entry names (`tools.py:main`, `package.module:main`), or `None` if it names a worker.
pub(crate) fn function(
    packages: &Packages,
    reference: &str,
    policy: Policy,
) -> Option<Result<Function, Box<Diagnostic>>> {
    let (place, name) = reference.rsplit_once(':')?;
    let is_file = Language::of_file(place).is_some();
    // The part before the colon may be a library, whose name may contain dots.
    let is_library = || packages.named(PackageId::PROGRAM, place).is_some() || packages.is_broken(reference);
    if !is_file && (is_library() || !is_dotted(place) || !(policy.modules || place.contains('.'))) {
        return None;
    }
    let shown = shown(reference);
    if !policy.tools {
        return Some(Err(not_imported(&format!("the entry `{shown}` is code")).into()));
    }
    if !is_file {
        let module = installed(place, name, &shown, policy);
        return Some(module.map(|module| Function { module, name: name.to_owned(), file: None }));
    }
    Some(function_of_file(packages.program().tree.as_ref(), place, name, &shown))
}

/// Returns the function that implements a worker: in a file next to the worker, else from the root of its package.
///
/// # Errors
/// The text is not such a reference, or the file is outside the root or does not exist.
pub(crate) fn function_of_worker(
    package: &Package,
    folder: &str,
    reference: &str,
    policy: Policy,
) -> Result<Function, Box<Diagnostic>> {
    let shown = shown(reference);
    if !policy.tools {
        return Err(not_imported(&format!("the worker is the function `{shown}`")).into());
    }
    let Some((place, name)) = reference
        .rsplit_once(':')
        .filter(|(place, name)| Language::of_file(place).is_some() && is_word(name))
    else {
        let wrong = Diagnostic::error(
            codes::BAD_TOOL_REFERENCE,
            format!("`{shown}` is not a reference to a function"),
        );
        let help = "write `FILE:FUNCTION`, such as `tools.py:summarize` or `tools.ts:summarize`";
        return Err(wrong.help(help).into());
    };
    let Ok(path) = plain(place) else {
        let out = Diagnostic::error(codes::ESCAPES_ROOT, format!("`{shown}` is outside the root"));
        return Err(out.help("use a file below the worker's folder or the project's root").into());
    };
    let beside = join(folder, &path);
    let candidates = if beside == path { vec![path] } else { vec![beside, path] };
    for candidate in &candidates {
        if let Some(module) = file(package.tree.as_ref(), candidate)? {
            return Ok(Function { module, name: name.to_owned(), file: Some(candidate.clone()) });
        }
    }
    let missing =
        Diagnostic::error(codes::TOOL_MODULE_NOT_FOUND, format!("the code `{shown}` does not exist"));
    Err(missing.note(format!("tried {}", candidates.join(", "))).into())
}

fn function_of_file(
    tree: &dyn SourceTree,
    place: &str,
    name: &str,
    shown: &str,
) -> Result<Function, Box<Diagnostic>> {
    if !is_word(name) {
        let wrong = Diagnostic::error(
            codes::BAD_TOOL_REFERENCE,
            format!("`{shown}` is not a reference to a function"),
        );
        return Err(wrong.help("write `FILE:FUNCTION`, such as `tools.py:main` or `tools.ts:main`").into());
    }
    let Ok(path) = plain(place) else {
        return Err(Diagnostic::error(
            codes::ESCAPES_ROOT,
            format!("`{shown}` is outside the program's root"),
        )
        .help("use a file below the project's root")
        .into());
    };
    match file(tree, &path)? {
        Some(module) => Ok(Function { module, name: name.to_owned(), file: Some(path) }),
        None => Err(Diagnostic::error(codes::ENTRY_MISSING, format!("the entry `{shown}` does not exist"))
            .note(format!("tried {path}"))
            .into()),
    }
}

/// Returns an installed module, if the policy allows it.
fn installed(
    module: &str,
    function: &str,
    shown: &str,
    policy: Policy,
) -> Result<CodeModule, Box<Diagnostic>> {
    if !is_dotted(module) || !is_word(function) {
        return Err(not_a_reference(shown).into());
    }
    if !policy.modules {
        return Err(not_allowed(shown).into());
    }
    Ok(CodeModule::Installed { module: module.into(), function: function.into() })
}

/// Returns the finding for an installed module that may not be imported.
pub(crate) fn not_allowed(shown: &str) -> Diagnostic {
    Diagnostic::error(
        codes::TOOL_IMPORT_DISALLOWED,
        format!("`{shown}` imports an installed Python module, which is not allowed here"),
    )
    .help("use a file of the project, or allow it with `--allow-module-imports` or `tools.allow_module_imports: true` in the manifest")
}

/// Returns the finding for Python that `--no-import-tools` disables.
pub(crate) fn not_imported(what: &str) -> Diagnostic {
    Diagnostic::error(
        codes::TOOL_IMPORT_DISALLOWED,
        format!("{what}, but `--no-import-tools` disables Python"),
    )
    .help("remove `--no-import-tools`, or start with a worker that needs no Python")
}

/// Returns true if a text is a Python identifier.
pub(crate) fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Returns true if a text is the name of a module: `package.module`.
pub(crate) fn is_dotted(text: &str) -> bool {
    text.split('.').all(is_word)
}

fn shown(reference: &str) -> String {
    reference.chars().take(100).flat_map(char::escape_debug).collect()
}

fn not_a_reference(shown: &str) -> Diagnostic {
    Diagnostic::error(codes::BAD_TOOL_REFERENCE, format!("`{shown}` is not a reference to tools"))
        .help("write a file (`tools.py`, `tools.ts`, `toolsets/formatting.py`) or `package.module:register`")
}
