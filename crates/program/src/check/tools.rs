//! Python tools: the tools of each module, and references to tools that do not exist.

use super::{
    exposed::{Key, Tool, Tools, key},
    scope::Scope,
};
use crate::{
    code::{CodeProblemKind, CodeTool},
    code_place::{of_problem, span},
    diagnostics::{Diagnostic, codes},
    effective::{Effective, not_retried, retried},
    package::Packages,
    resolve::PackageId,
    span::{SourceFile, Span},
    toolsets::Toolsets,
    yaml::{Data, Node},
};
use llm_do_core::{
    function::{Risk, tool_name},
    worker::{CodeEntry, CodeModule, Language, ToolLevel, ToolModule},
};
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

/// Returns true if a worker's configuration of a toolset offers a tool.
pub(super) fn offers(effective: &Effective, toolset: &str, tool: &str) -> bool {
    let named = effective.toolsets.get(toolset).and_then(|configuration| configuration.get("tools"));
    named.is_none_or(|names| names.texts().any(|(name, _)| name == tool || name == tool_name(tool)))
}

/// Returns the place of a tool's definition; the module's file if the reader does not report it.
pub(super) fn place(packages: &Packages, level: &ToolLevel, tool: &CodeTool) -> Span {
    match (&tool.file, level.modules.first()) {
        (Some(file), _) => span(packages, file, tool.line, None),
        (None, Some(module)) => whole(packages, &module.module),
        (None, None) => Span::whole(&SourceFile::new(&*level.name, "")),
    }
}

/// Returns the place of a module as a whole.
fn whole(packages: &Packages, module: &CodeModule) -> Span {
    match module {
        CodeModule::File(file) => span(packages, file, None, None),
        CodeModule::Installed { module, .. } => Span::whole(&SourceFile::new(Arc::clone(module), "")),
    }
}

/// Returns the name of a module in messages.
fn shown(packages: &Packages, module: &CodeModule) -> String {
    whole(packages, module).file().path().to_string()
}

/// Checks the tools of a whole program.
pub(super) fn check(scope: &Scope<'_>, found: &mut Vec<Diagnostic>) {
    let known = modules_of_workers(scope, found);
    // A manifest's configuration is for all workers: at least one must have each tool.
    for (id, package) in scope.packages.iter() {
        let (Some(custom), Some(Some(tools))) = (of_code(scope, &package.toolsets), known.get(&id)) else {
            continue;
        };
        for (name, span) in named(custom) {
            unknown(name, span, tools.iter().copied(), found);
        }
    }
}

/// The names of the Python tools of each package's workers; `None` if not all of them are known.
type KnownTools<'a> = BTreeMap<PackageId, Option<BTreeSet<&'a str>>>;

/// Checks the tools that a worker names itself, and its rules about them.
pub(super) fn of_worker(scope: &Scope<'_>, effective: &Effective, found: &mut Vec<Diagnostic>) {
    let Some(tools) = scope.exposed.tools(effective) else { return };
    names(scope, effective, tools, found);
    retries(effective, tools, found);
}

/// Checks the modules of the workers that are loaded, and the functions that are workers.
pub(super) fn modules_of_workers<'a>(scope: &'a Scope<'_>, found: &mut Vec<Diagnostic>) -> KnownTools<'a> {
    let mut seen: HashSet<Key> = HashSet::new();
    let mut lists: HashSet<*const ToolLevel> = HashSet::new();
    let mut known = KnownTools::new();
    for effective in scope.workers.values() {
        let levels = &effective.definition.tools;
        let package = known.entry(effective.located.package).or_insert_with(|| Some(BTreeSet::new()));
        if !levels.is_empty() && lists.insert(levels.as_ptr()) {
            match (package.as_mut(), scope.exposed.tools(effective)) {
                (Some(package), Some(tools)) => package.extend(tools.values().map(|tool| &*tool.code.name)),
                _ => *package = None,
            }
            for level in levels.iter().filter(|level| !seen.contains(&key(level))) {
                modules(scope, level, effective, found);
            }
            seen.extend(levels.iter().map(key));
            shadows(scope, levels, found);
        }
        if let Some(code) = &effective.definition.code {
            entry(scope, code, effective.keys.entry("code").map(|entry| &entry.value.span), found);
        }
    }
    known
}

/// Returns the configuration of the kind that makes functions of code.
fn of_code<'a>(scope: &Scope<'_>, toolsets: &'a Toolsets) -> Option<&'a Node> {
    toolsets.get(scope.host.toolsets.code()?.name())
}

/// Finds problems of the modules of a level and their tools.
fn modules(scope: &Scope<'_>, level: &ToolLevel, effective: &Effective, found: &mut Vec<Diagnostic>) {
    let packages = scope.packages;
    let Some(exposed) = scope.exposed.of(level) else { return };
    let mut defined: BTreeMap<&str, (&CodeModule, &CodeTool)> = BTreeMap::new();
    // A module that holds a worker or the manifest's entry need not expose tools, whatever the run starts with.
    let starts = packages.iter().filter_map(|(_, package)| package.manifest.entry.as_ref()?.as_text());
    let files: Vec<&str> =
        starts.filter_map(|entry| Some(entry.rsplit_once(':')?.0.trim_start_matches("./"))).collect();
    let is_worker = |module: &CodeModule| {
        let mut codes = scope.workers.values().filter_map(|worker| worker.definition.code.as_ref());
        codes.any(|code| code.module == *module) || files.contains(&&*shown(packages, module))
    };
    for (module, exposed) in level.modules.iter().zip(exposed) {
        let problem = exposed.problem.as_ref();
        let problem =
            problem.filter(|problem| problem.kind != CodeProblemKind::Nothing || !is_worker(&module.module));
        if let Some(problem) = problem {
            let at = of_problem(packages, problem).unwrap_or_else(|| whole(packages, &module.module));
            let finding = problem.finding(&shown(packages, &module.module)).at(&at);
            // A missing interpreter is reported once, not for every module.
            let same = |known: &Diagnostic| known.code == finding.code && known.message == finding.message;
            if finding.code == codes::NOT_LOOKED_INTO && found.iter().any(same) {
                continue;
            }
            found.push(match imported(scope, effective, &module.module) {
                Some(import) => finding.related("it is named here", import),
                None => finding,
            });
        }
        for function in &exposed.hidden {
            let message = format!(
                "`{}` is no tool, because other functions of its file are marked with `@tool`",
                function.name
            );
            found.push(
                Diagnostic::warning(codes::UNMARKED_FUNCTION, message)
                    .at(&span(packages, &function.file, Some(function.line), None))
                    .help("mark it with `@tool` too, or start its name with `_` if it is no tool"),
            );
        }
        for tool in &exposed.tools {
            let at = || place(packages, level, tool);
            if let Some(reason) = &tool.refused {
                found.push(
                    Diagnostic::error(codes::NO_TOOL, format!("`{}` cannot be a tool: {reason}", tool.name))
                        .at(&at())
                        .help("change the function, or start its name with `_` so that it is not exposed"),
                );
            }
            if let Some((other, first)) = defined.insert(&tool.name, (&module.module, tool)) {
                let (one, two) = (shown(packages, other), shown(packages, &module.module));
                let files =
                    if one == two { format!("in `{one}`") } else { format!("in `{one}` and in `{two}`") };
                if other.language() != module.module.language() {
                    found.push(in_two_languages(&tool.name, &at(), &place(packages, level, first)));
                    continue;
                }
                found.push(
                    Diagnostic::error(
                        codes::TOOL_TWICE,
                        format!("the tool `{}` is defined twice, {files}", tool.name),
                    )
                    .at(&at())
                    .related("the other one", &place(packages, level, first))
                    .help("rename one of them: tool names must be unique on one level"),
                );
            }
        }
    }
}

/// Returns the place where a worker names a module itself.
fn imported<'a>(scope: &Scope<'_>, effective: &'a Effective, module: &CodeModule) -> Option<&'a Span> {
    let imports = effective.keys.get("imports").and_then(|imports| imports.get("tools"));
    let custom = of_code(scope, &effective.toolsets).and_then(|custom| custom.get("module"));
    let mut named = imports
        .into_iter()
        .flat_map(Node::texts)
        .chain(custom.and_then(|node| Some((node.as_text()?, &node.span))));
    let found = named.find(|(text, _)| match module {
        CodeModule::Installed { module, function } => *text == format!("{module}:{function}"),
        CodeModule::File(file) => {
            let stem = |path: &str| {
                let end = [".py"].iter().chain(&Language::SCRIPTS).find(|end| path.ends_with(**end));
                path[..path.len() - end.map_or(0, |end| end.len())].to_owned()
            };
            let text = stem(text.trim_start_matches("./"));
            stem(file.as_str()).ends_with(&format!("/{text}"))
        }
    });
    found.map(|(_, span)| span)
}

/// Returns the finding for a tool that one worker has in two languages.
fn in_two_languages(name: &str, here: &Span, other: &Span) -> Diagnostic {
    let message = format!("the tool `{name}` is defined in Python and in TypeScript");
    Diagnostic::error(codes::TOOL_IN_TWO_LANGUAGES, message)
        .at(here)
        .related("the other one", other)
        .help("rename one of them: Python and TypeScript tools of one worker share their names")
}

/// Finds tools that a nearer level shadows.
fn shadows(scope: &Scope<'_>, levels: &[ToolLevel], found: &mut Vec<Diagnostic>) {
    let mut nearest: BTreeMap<&str, (&ToolLevel, &CodeTool, Language)> = BTreeMap::new();
    for level in levels {
        let mut here: Vec<(&CodeTool, Language)> = Vec::new();
        let modules = level.modules.iter().zip(scope.exposed.of(level).unwrap_or_default());
        let tools = modules
            .flat_map(|(module, exposed)| exposed.tools.iter().map(|tool| (tool, module.module.language())));
        for (tool, language) in tools {
            here.push((tool, language));
            let Some((near, hiding, other)) = nearest.get(&*tool.name) else { continue };
            if *other != language {
                let (here, there) = (place(scope.packages, level, tool), place(scope.packages, near, hiding));
                found.push(in_two_languages(&tool.name, &there, &here));
                continue;
            }
            found.push(
                Diagnostic::warning(
                    codes::SHADOWED_TOOL,
                    format!("the tool `{}` of {} hides the one of {}", tool.name, near.name, level.name),
                )
                .at(&place(scope.packages, near, hiding))
                .related("this one is hidden", &place(scope.packages, level, tool))
                .help("rename one of them if you need both"),
            );
        }
        for (tool, language) in here {
            nearest.entry(&tool.name).or_insert((level, tool, language));
        }
    }
}

/// Checks that a function that is the entry or a worker exists.
fn entry(scope: &Scope<'_>, code: &CodeEntry, named: Option<&Span>, found: &mut Vec<Diagnostic>) {
    let (Some(reader), packages) = (&scope.host.code, scope.packages) else { return };
    let look = |names| reader.tools(&level_of(code, names)).into_iter().next().unwrap_or_default();
    let exposed = look(vec![Arc::clone(&code.function)]);
    if let Some(tool) = exposed.tools.iter().find(|tool| tool.name == code.function) {
        if let Some(reason) = &tool.refused {
            let at = place(packages, &level_of(code, Vec::new()), tool);
            let message = format!("the entry `{}` cannot be called: {reason}", code.function);
            found.push(Diagnostic::error(codes::NO_TOOL, message).at(&at).help("change its parameters"));
        }
        return;
    }
    let module = shown(packages, &code.module);
    let of_manifest = packages.program().manifest.entry.as_ref().map(|entry| &entry.span);
    let named = named.or(of_manifest.filter(|span| span.text().contains(&*code.function)));
    match exposed.problem {
        Some(problem) if !matches!(problem.kind, CodeProblemKind::Missing | CodeProblemKind::Nothing) => {
            let at = of_problem(packages, &problem).unwrap_or_else(|| whole(packages, &code.module));
            let finding = problem.finding(&module).at(&at);
            found.push(match named {
                Some(named) => finding.related("it is named here", named),
                None => finding,
            });
        }
        _ => {
            let others = look(Vec::new()).tools;
            found.push(
                Diagnostic::error(
                    codes::ENTRY_MISSING,
                    format!("`{module}` has no function `{}`", code.function),
                )
                .or_at(named)
                .or_at(Some(&whole(packages, &code.module)))
                .did_you_mean(&code.function, others.iter().map(|tool| &*tool.name)),
            );
        }
    }
}

/// Returns the module of an entry, with the functions of these names.
fn level_of(code: &CodeEntry, names: Vec<Arc<str>>) -> ToolLevel {
    let module = ToolModule { module: code.module.clone(), names };
    ToolLevel { name: "the entry".into(), package: Arc::clone(&code.package), modules: vec![module] }
}

/// Returns the names of tools in a configuration of the toolset, with their places.
fn named(custom: &Node) -> Vec<(&str, &Span)> {
    let listed = custom.get("tools").into_iter().flat_map(Node::texts);
    let own = custom.entries().iter().filter(|entry| {
        !["module", "tools", "approval"].contains(&entry.key.as_str())
            && matches!(entry.value.data, Data::Map(_))
    });
    listed.chain(own.map(|entry| (entry.key.as_str(), &entry.key_span))).collect()
}

fn has(tools: &Tools, name: &str) -> bool {
    tools.values().any(|tool| *tool.code.name == *name) || tools.contains_key(name)
}

/// Returns true if `custom.tools` contains a name and a module has a function of that name, which then counts as
/// exposed.
fn listed(scope: &Scope<'_>, effective: &Effective, custom: &Node, name: &str) -> bool {
    let in_list = custom.get("tools").is_some_and(|tools| tools.texts().any(|(listed, _)| listed == name));
    let Some(reader) = scope.host.code.as_ref().filter(|_| in_list) else { return false };
    let levels = effective.definition.tools.iter();
    let modules = levels.flat_map(|level| level.modules.iter().map(move |module| (level, module)));
    modules.into_iter().any(|(level, ToolModule { module, .. })| {
        let module = ToolModule { module: module.clone(), names: vec![name.into()] };
        let read = reader.tools(&ToolLevel { modules: vec![module], ..level.clone() });
        read.iter().any(|read| read.problem.is_none() && read.tools.iter().any(|tool| *tool.name == *name))
    })
}

/// Checks the tools that a worker's own configuration names.
fn names(scope: &Scope<'_>, effective: &Effective, tools: &Tools, found: &mut Vec<Diagnostic>) {
    let Some(custom) = of_code(scope, &effective.toolsets) else { return };
    if effective.mistakes.concern(&["imports", "toolsets"]) {
        return;
    }
    let file = effective.keys.span.file();
    for (name, span) in named(custom).into_iter().filter(|(_, span)| Arc::ptr_eq(span.file(), file)) {
        if !has(tools, name) && listed(scope, effective, custom, name) {
            continue;
        }
        unknown(name, span, tools.values().map(|tool| &*tool.code.name), found);
    }
}

fn unknown<'a>(
    name: &str,
    span: &Span,
    tools: impl Iterator<Item = &'a str> + Clone,
    found: &mut Vec<Diagnostic>,
) {
    if tools.clone().any(|tool| tool == name || tool_name(tool) == name) {
        return;
    }
    let missing = Diagnostic::error(codes::UNKNOWN_TOOL, format!("there is no Python tool `{name}`"))
        .at(span)
        .did_you_mean(name, tools.clone());
    let all: Vec<&str> = tools.take(13).collect();
    found.push(match (missing.nearest.is_empty(), all.len()) {
        (true, 0) => missing.help("there are no tools here; put them in `tools.py`, `tools.ts` or `tools/`"),
        (true, 1..=12) => missing.help(format!("available Python tools: {}", all.join(", "))),
        _ => missing,
    });
}

/// Finds rules with `retries` for Python tools that can't be retried.
fn retries(effective: &Effective, tools: &Tools, found: &mut Vec<Diagnostic>) {
    for (pattern, span) in retried(&effective.keys) {
        let not_retried = tools.iter().find_map(|(seen, Tool { code, .. })| {
            let why = match code.risk {
                _ if code.makes_calls => "makes calls of its own".to_owned(),
                None | Some(Risk::Read) => return None,
                Some(risk) => format!("has the risk `{risk}`"),
            };
            let named = pattern.names_one_of(&[&*code.name, seen]);
            named.then(|| not_retried(&span, &code.name, &why))
        });
        found.extend(not_retried);
    }
}
