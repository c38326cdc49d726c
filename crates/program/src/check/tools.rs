//! Python tools: what their modules expose, and what is said of tools that nobody has.

use super::Whole;
use crate::{
    code::{CodeProblemKind, CodeTool, ModuleTools, span},
    diagnostics::{Diagnostic, codes},
    effective::{Effective, is_glob},
    package::Packages,
    program::LoadOptions,
    resolve::PackageId,
    span::{SourceFile, Span},
    yaml::{Data, Node},
};
use llm_do_core::{
    function::tool_name,
    worker::{CODE, CodeEntry, CodeModule, CodePackage, ToolLevel, ToolModule},
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

/// What the levels of a program expose, each looked into once.
#[derive(Default)]
pub(super) struct Exposed {
    levels: HashMap<Key, Vec<ModuleTools>>,
    /// The tools of each list of levels by its address, `None` where not all of them are known. Workers of one folder
    /// share theirs.
    lists: HashMap<usize, Option<Tools>>,
}

/// What tells levels apart: whose they are and their modules. The name of a level says who looks at it.
type Key = (Arc<CodePackage>, Vec<ToolModule>);

/// Python tools by the names that a model sees, the nearest of each.
pub(super) type Tools = BTreeMap<String, Tool>;

/// A Python tool and its level.
pub(super) struct Tool {
    pub(super) level: ToolLevel,
    pub(super) code: CodeTool,
}

fn key(level: &ToolLevel) -> Key {
    (Arc::clone(&level.package), level.modules.clone())
}

impl Exposed {
    /// Looks into the levels of all workers.
    pub(super) fn by<'a>(workers: impl Iterator<Item = &'a Arc<Effective>>, host: &LoadOptions) -> Self {
        let mut exposed = Self::default();
        for levels in workers.map(|effective| &effective.definition.tools) {
            if exposed.lists.contains_key(&levels.as_ptr().addr()) {
                continue;
            }
            if let Some(reader) = &host.code {
                for level in levels.iter() {
                    exposed.levels.entry(key(level)).or_insert_with(|| reader.tools(level));
                }
            }
            let tools = exposed.aggregated(levels);
            exposed.lists.insert(levels.as_ptr().addr(), tools);
        }
        exposed
    }

    fn aggregated(&self, levels: &[ToolLevel]) -> Option<Tools> {
        let mut tools = Tools::new();
        for level in levels {
            for module in self.of(level)? {
                if module.problem.as_ref().is_some_and(|problem| problem.kind != CodeProblemKind::Nothing) {
                    return None;
                }
                for code in &module.tools {
                    let tool = || Tool { level: level.clone(), code: code.clone() };
                    tools.entry(tool_name(&code.name)).or_insert_with(tool);
                }
            }
        }
        Some(tools)
    }

    fn of(&self, level: &ToolLevel) -> Option<&[ModuleTools]> {
        self.levels.get(&key(level)).map(Vec::as_slice)
    }

    /// The Python tools of a worker; `None` where not all of them are known.
    pub(super) fn tools(&self, effective: &Effective) -> Option<&Tools> {
        self.lists.get(&effective.definition.tools.as_ptr().addr())?.as_ref()
    }
}

/// Whether a worker's configuration of a toolset offers a tool.
pub(super) fn offers(effective: &Effective, toolset: &str, tool: &str) -> bool {
    let named = effective.toolsets.get(toolset).and_then(|configuration| configuration.get("tools"));
    named.is_none_or(|names| names.texts().any(|(name, _)| name == tool || name == tool_name(tool)))
}

/// Where a tool is defined; the module's file where the reader doesn't say.
pub(super) fn place(packages: &Packages, level: &ToolLevel, tool: &CodeTool) -> Span {
    match (&tool.file, level.modules.first()) {
        (Some(file), _) => span(packages, file, tool.line, None),
        (None, Some(module)) => whole(packages, &module.module),
        (None, None) => Span::whole(&SourceFile::new(&*level.name, "")),
    }
}

/// A module as a whole.
fn whole(packages: &Packages, module: &CodeModule) -> Span {
    match module {
        CodeModule::File(file) => span(packages, file, None, None),
        CodeModule::Installed { module, .. } => Span::whole(&SourceFile::new(Arc::clone(module), "")),
    }
}

/// A module as people call it.
fn shown(packages: &Packages, module: &CodeModule) -> String {
    whole(packages, module).file().path().to_string()
}

pub(super) fn check(whole: &Whole<'_>, found: &mut Vec<Diagnostic>) {
    let mut seen: HashSet<Key> = HashSet::new();
    let mut lists: HashSet<*const ToolLevel> = HashSet::new();
    let mut known: BTreeMap<PackageId, Option<BTreeSet<&str>>> = BTreeMap::new();
    for effective in whole.workers.values() {
        let levels = &effective.definition.tools;
        let tools = whole.exposed.tools(effective);
        if lists.insert(levels.as_ptr()) {
            for level in levels.iter().filter(|level| !seen.contains(&key(level))) {
                modules(whole, level, effective, found);
            }
            seen.extend(levels.iter().map(key));
            shadows(whole, levels, found);
            let package = known.entry(effective.located.package).or_insert_with(|| Some(BTreeSet::new()));
            match (package.as_mut(), tools) {
                (Some(package), Some(tools)) => package.extend(tools.values().map(|tool| &*tool.code.name)),
                _ => *package = None,
            }
        }
        if let Some(code) = &effective.definition.code {
            entry(whole, code, effective.keys.entry("code").map(|entry| &entry.value.span), found);
        }
        names(whole, effective, tools, found);
        rules(whole, effective, tools, found);
    }
    // What a manifest says of tools is for all workers: one must have them.
    for (id, package) in whole.packages.iter() {
        let (Some(custom), Some(Some(tools))) = (package.toolsets.get(CODE), known.get(&id)) else {
            continue;
        };
        for (name, span) in named(custom) {
            unknown(name, span, tools.iter().copied(), found);
        }
    }
}

/// What is wrong with the modules of a level, and with their tools.
fn modules(whole_program: &Whole<'_>, level: &ToolLevel, effective: &Effective, found: &mut Vec<Diagnostic>) {
    let packages = whole_program.packages;
    let Some(exposed) = whole_program.exposed.of(level) else { return };
    let mut defined: BTreeMap<&str, (&CodeModule, &CodeTool)> = BTreeMap::new();
    for (module, exposed) in level.modules.iter().zip(exposed) {
        if let Some(problem) = &exposed.problem {
            let at = problem.span(packages).unwrap_or_else(|| whole(packages, &module.module));
            let finding = problem.finding(&shown(packages, &module.module)).at(&at);
            // One interpreter that is not there is one finding, however many modules want it.
            let said = |known: &Diagnostic| known.code == finding.code && known.message == finding.message;
            if finding.code == codes::NOT_LOOKED_INTO && found.iter().any(said) {
                continue;
            }
            found.push(match imported(effective, &module.module) {
                Some(import) => finding.related("it is named here", import),
                None => finding,
            });
        }
        for tool in &exposed.tools {
            let at = || place(packages, level, tool);
            if let Some(reason) = &tool.refused {
                found.push(
                    Diagnostic::error(codes::NO_TOOL, format!("`{}` cannot be a tool: {reason}", tool.name))
                        .at(&at())
                        .help(
                            "change its parameters, or keep it from being exposed: begin its name with `_`",
                        ),
                );
            }
            if let Some((other, first)) = defined.insert(&tool.name, (&module.module, tool)) {
                let (one, two) = (shown(packages, other), shown(packages, &module.module));
                let files =
                    if one == two { format!("in `{one}`") } else { format!("in `{one}` and in `{two}`") };
                found.push(
                    Diagnostic::error(
                        codes::TOOL_TWICE,
                        format!("the tool `{}` is defined twice, {files}", tool.name),
                    )
                    .at(&at())
                    .related("the other one", &place(packages, level, first))
                    .help("rename one of them: at one distance from a worker a name has one meaning"),
                );
            }
        }
    }
}

/// Where a worker names a module itself.
fn imported<'a>(effective: &'a Effective, module: &CodeModule) -> Option<&'a Span> {
    let imports = effective.keys.get("imports").and_then(|imports| imports.get("tools"));
    let custom = effective.toolsets.get(CODE).and_then(|custom| custom.get("module"));
    let mut named = imports
        .into_iter()
        .flat_map(Node::texts)
        .chain(custom.and_then(|node| Some((node.as_text()?, &node.span))));
    let found = named.find(|(text, _)| match module {
        CodeModule::Installed { module, function } => *text == format!("{module}:{function}"),
        CodeModule::File(file) => {
            let text = text.trim_start_matches("./").trim_end_matches(".py");
            file.as_str().trim_end_matches(".py").ends_with(&format!("/{text}"))
        }
    });
    found.map(|(_, span)| span)
}

/// Tools that a nearer level hides.
fn shadows(whole: &Whole<'_>, levels: &[ToolLevel], found: &mut Vec<Diagnostic>) {
    let mut nearest: BTreeMap<&str, (&ToolLevel, &CodeTool)> = BTreeMap::new();
    for level in levels {
        let mut here: Vec<&CodeTool> = Vec::new();
        for tool in whole.exposed.of(level).unwrap_or_default().iter().flat_map(|module| &module.tools) {
            here.push(tool);
            let Some((near, hiding)) = nearest.get(&*tool.name) else { continue };
            found.push(
                Diagnostic::warning(
                    codes::SHADOWED_TOOL,
                    format!("the tool `{}` of {} hides the one of {}", tool.name, near.name, level.name),
                )
                .at(&place(whole.packages, near, hiding))
                .related("this one is hidden", &place(whole.packages, level, tool))
                .help("rename one of them, if both are wanted"),
            );
        }
        for tool in here {
            nearest.entry(&tool.name).or_insert((level, tool));
        }
    }
}

/// A function that a program starts with, or that a worker is, must be there.
fn entry(whole_program: &Whole<'_>, code: &CodeEntry, named: Option<&Span>, found: &mut Vec<Diagnostic>) {
    let (Some(reader), packages) = (&whole_program.host.code, whole_program.packages) else { return };
    let look = |names: Vec<Arc<str>>| {
        let module = ToolModule { module: code.module.clone(), names };
        let level =
            ToolLevel { name: "the entry".into(), package: Arc::clone(&code.package), modules: vec![module] };
        reader.tools(&level).into_iter().next().unwrap_or_default()
    };
    let exposed = look(vec![Arc::clone(&code.function)]);
    if exposed.tools.iter().any(|tool| tool.name == code.function) {
        return;
    }
    let module = shown(packages, &code.module);
    let of_manifest = packages.program().manifest.entry.as_ref().map(|entry| &entry.span);
    let named = named.or(of_manifest.filter(|span| span.text().contains(&*code.function)));
    match exposed.problem {
        Some(problem) if !matches!(problem.kind, CodeProblemKind::Missing | CodeProblemKind::Nothing) => {
            let at = problem.span(packages).unwrap_or_else(|| whole(packages, &code.module));
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

/// The names of tools in a configuration of the toolset, with their places.
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

/// Whether a name stands in `custom.tools` and some module has a function of that name, which so counts as exposed.
fn listed(whole: &Whole<'_>, effective: &Effective, custom: &Node, name: &str) -> bool {
    let in_list = custom.get("tools").is_some_and(|tools| tools.texts().any(|(listed, _)| listed == name));
    let Some(reader) = whole.host.code.as_ref().filter(|_| in_list) else { return false };
    let levels = effective.definition.tools.iter();
    let modules = levels.flat_map(|level| level.modules.iter().map(move |module| (level, module)));
    modules.into_iter().any(|(level, ToolModule { module, .. })| {
        let module = ToolModule { module: module.clone(), names: vec![name.into()] };
        let read = reader.tools(&ToolLevel { modules: vec![module], ..level.clone() });
        read.iter().any(|read| read.problem.is_none() && read.tools.iter().any(|tool| *tool.name == *name))
    })
}

/// The tools that a worker's own configuration names.
fn names(whole: &Whole<'_>, effective: &Effective, tools: Option<&Tools>, found: &mut Vec<Diagnostic>) {
    let (Some(custom), Some(tools)) = (effective.toolsets.get(CODE), tools) else { return };
    let file = effective.keys.span.file();
    for (name, span) in named(custom).into_iter().filter(|(_, span)| Arc::ptr_eq(span.file(), file)) {
        if !has(tools, name) && listed(whole, effective, custom, name) {
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
        (true, 0) => missing.help("there are no Python tools here: they lie in `tools.py` or `tools/`"),
        (true, 1..=12) => missing.help(format!("Python tools are {}", all.join(", "))),
        _ => missing,
    });
}

/// Names by which rules speak of calls of workers, whatever the workers are.
const DELEGATION: [&str; 3] = ["worker_call", "worker.call", "worker_create"];

/// Rules and conditions of a worker that name tools that there are none of, in its own reach or in any toolset.
fn rules(whole: &Whole<'_>, effective: &Effective, tools: Option<&Tools>, found: &mut Vec<Diagnostic>) {
    let rules = effective.keys.get("tool_rules").map(Node::entries).unwrap_or_default();
    let rules = rules.iter().map(|entry| (entry.key.split('(').next().unwrap_or_default(), &entry.key_span));
    let spoken: Vec<_> = rules
        .map(|(name, span)| (name, span, "the rule speaks of"))
        .chain(judges(effective).map(|(name, span)| (name, span, "`ensures` names")))
        .collect();
    let (false, Some(tools)) = (spoken.is_empty(), tools) else { return };
    let registry = &whole.host.toolsets;
    // A toolset that doesn't say what it holds may hold anything, and a pattern of workers name any.
    let open = effective
        .toolsets
        .keys()
        .filter_map(|name| registry.get(name))
        .any(|kind| kind.tools().is_empty() && ![CODE, "workers"].contains(&kind.name()));
    if open || effective.callees.iter().any(|(reference, _)| is_glob(reference)) {
        return;
    }
    let built_in = registry.names().filter_map(|name| registry.get(name)).flat_map(|kind| kind.tools());
    let callees = effective.callees.iter().map(|(reference, _)| reference.trim_start_matches("./"));
    let names: Vec<&str> = built_in
        .copied()
        .chain(tools.values().map(|tool| &*tool.code.name))
        .chain(callees)
        .chain(DELEGATION)
        .collect();
    for (name, span, said) in spoken {
        if is_glob(name)
            || name.contains('{')
            || names.iter().any(|known| *known == name || tool_name(known) == name)
        {
            continue;
        }
        found.push(
            Diagnostic::error(codes::UNKNOWN_TOOL, format!("{said} `{name}`, and there is no such tool"))
                .at(span)
                .did_you_mean(name, names.iter().copied()),
        );
    }
}

/// The tools that `ensures` names, with their places.
fn judges(effective: &Effective) -> impl Iterator<Item = (&str, &Span)> {
    let named = effective.keys.get("ensures").into_iter().flat_map(|node| {
        node.texts().chain(node.entries().iter().map(|entry| (entry.key.as_str(), &entry.key_span)))
    });
    let tools: HashSet<&str> =
        effective.definition.ensures.iter().filter_map(|ensure| Some(&**ensure.tool()?)).collect();
    named.filter(move |(text, _)| tools.contains(text))
}
