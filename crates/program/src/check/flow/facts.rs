//! The contents that a worker reads and writes, and its effects, as far as they are known before a run.

use super::{Effect, Source, SourceKind, Why, places::Places};
use crate::{
    authorities::Authorities,
    cancel::Cancel,
    check::{exposed::Tool, scope::Scope},
    code_place,
    effective::Effective,
    parallel::in_parallel,
    span::Span,
};
use llm_do_core::{
    authority::{Access, Authority, Mount, Network, Place},
    function::{FunctionSource, Risk},
    gate::Rule,
    origin::ResultOrigin,
    schema::leaves_no_room,
    toolset::ToolsetKind,
    worker::{Untrusted, WorkerDefinition},
};
use std::{collections::BTreeSet, sync::Arc};

/// The facts of one worker.
#[derive(Default)]
pub(super) struct Facts {
    /// The untrusted content that it reads itself.
    pub(super) sources: Vec<Source>,
    /// The effects of its functions beyond its own mounts.
    pub(super) effects: Vec<Effect>,
    /// The places that its functions read.
    pub(super) reads: Vec<Place>,
    /// The places that its functions write.
    pub(super) writes: Vec<Place>,
    /// The untrusted mounts that it sees, whether it has functions that read them or not.
    pub(super) sees: Vec<Source>,
    /// True if the worker takes files of its callers.
    pub(super) takes_files: bool,
    /// True if the output has no room for instructions.
    pub(super) typed: bool,
    /// A mount that its model can read and that is not declared untrusted, with the place that gives it.
    pub(super) private: Option<(String, Option<Span>)>,
}

/// Returns true if the program has any untrusted source. Most programs have none, and then no flow is computed.
pub(super) fn any_source(scope: &Scope<'_>, authorities: &Authorities<'_>) -> bool {
    let mut lists = BTreeSet::new();
    let kinds = scope.host.toolsets.kinds().filter(|kind| is_unknown(kind.as_ref()));
    let unknown: Vec<&str> = kinds.map(|kind| kind.name()).collect();
    scope.workers.values().any(|effective| {
        let definition = &effective.definition;
        let sight = Sight::of(effective, authorities);
        // Workers of one folder share a list of tools.
        let is_new = !definition.tools.is_empty() && lists.insert(definition.tools.as_ptr().addr());
        definition.untrusted != Untrusted::default()
            || effective.skills.iter().any(|skill| skill.untrusted)
            || sight.suspect()
            || unknown.iter().any(|name| effective.toolsets.contains_key(*name))
            || (is_new
                && scope.exposed.tools(effective).is_some_and(|tools| {
                    tools
                        .values()
                        .any(|tool| !matches!(tool.code.results, None | Some(ResultOrigin::Trusted)))
                }))
    })
}

/// Gathers the facts of all workers, in the order of their names.
pub(super) fn of_workers(scope: &Scope<'_>, authorities: &Authorities<'_>) -> Vec<Facts> {
    let workers: Vec<&Effective> = scope.workers.values().map(AsRef::as_ref).collect();
    let mut untrusted = Places::default();
    for mount in workers.iter().flat_map(|effective| Sight::of(effective, authorities).mounts) {
        if mount.untrusted {
            untrusted.entry(&mount.place, || ());
        }
    }
    in_parallel(&Cancel::default(), workers, |effective| {
        Gathering::new(scope, effective, authorities, &untrusted).facts()
    })
}

/// The mounts and the network of a worker, over all ways to it.
struct Sight<'a> {
    mounts: Vec<&'a Mount>,
    network: bool,
}

impl<'a> Sight<'a> {
    fn of(effective: &'a Effective, authorities: &'a Authorities<'_>) -> Self {
        let narrowing = &effective.definition.sandbox.narrowing;
        let Some(all) = authorities.of.get(&effective.definition.id) else {
            let network = narrowing.network.as_ref().is_some_and(|network| *network != Network::Off);
            return Self { mounts: narrowing.mounts.iter().collect(), network };
        };
        let mut mounts: Vec<&Mount> = Vec::new();
        let visible = |authority: &'a Authority| {
            let mounts = authority.view().mounts().iter();
            mounts.filter(|mount| authority.bounds().overlaps(&mount.place))
        };
        for mount in all.iter().flat_map(visible) {
            if !mounts.iter().any(|known| known.at == mount.at && known.place == mount.place) {
                mounts.push(mount);
            }
        }
        Self { mounts, network: all.iter().any(|authority| *authority.bounds().network() != Network::Off) }
    }

    /// Returns true if the worker's processes can read untrusted content.
    fn suspect(&self) -> bool {
        self.network || self.mounts.iter().any(|mount| mount.untrusted && mount.place.server().is_none())
    }
}

/// Returns the toolsets of a worker whose tools are only known in a run.
fn unknown_kinds<'a>(
    scope: &'a Scope<'_>,
    effective: &'a Effective,
) -> impl Iterator<Item = (&'a dyn ToolsetKind, &'a Span)> {
    effective.toolsets.iter().filter_map(|(name, node)| {
        let kind = scope.host.toolsets.get(name)?.as_ref();
        is_unknown(kind).then_some((kind, &node.span))
    })
}

fn is_unknown(kind: &dyn ToolsetKind) -> bool {
    !kind.tools_are_known() && !kind.delegates() && !kind.runs_code()
}

struct Gathering<'a> {
    scope: &'a Scope<'a>,
    effective: &'a Effective,
    sight: Sight<'a>,
    /// The places that any worker's mount declares untrusted.
    untrusted: &'a Places<()>,
    facts: Facts,
    reads: bool,
    /// True if the model chooses the files that are read, with file tools or commands.
    reads_by_tool: bool,
    writes: bool,
}

impl<'a> Gathering<'a> {
    fn new(
        scope: &'a Scope<'a>,
        effective: &'a Effective,
        authorities: &'a Authorities<'_>,
        untrusted: &'a Places<()>,
    ) -> Self {
        let sight = Sight::of(effective, authorities);
        Self {
            scope,
            effective,
            sight,
            untrusted,
            facts: Facts::default(),
            reads: false,
            reads_by_tool: false,
            writes: false,
        }
    }

    fn facts(mut self) -> Facts {
        self.declared();
        self.built_in();
        self.code();
        for (kind, span) in unknown_kinds(self.scope, self.effective) {
            let name: Arc<str> = kind.name().into();
            self.function(&name, Why::Unknown, Some(span.clone()));
            self.facts.effects.push(Effect { function: name, risk: None, span: Some(span.clone()) });
        }
        self.files();
        let definition = &self.effective.definition;
        // Every worker takes attachments by default. Only a policy shows that they are meant to be there.
        let attaches = self.effective.keys.get("attachment_policy").is_some()
            && definition.attachments.max_attachments > 0;
        self.facts.takes_files =
            attaches || definition.signature.parameters.iter().any(|parameter| parameter.path.is_some());
        self.facts.typed = definition.source == FunctionSource::Program
            && definition.returns.as_ref().is_some_and(|returns| leaves_no_room(returns.value()));
        self.facts
    }

    /// Adds parameters and attachments that are declared untrusted.
    fn declared(&mut self) {
        let WorkerDefinition { id, untrusted, .. } = self.effective.definition.as_ref();
        let keys = &self.effective.keys;
        for name in untrusted.parameters.iter().chain(&untrusted.paths) {
            let entry = keys.get("parameters").and_then(|all| {
                all.entry(name).or_else(|| all.get("properties").and_then(|all| all.entry(name)))
            });
            let span = entry.or_else(|| keys.entry("schema_in_ref")).map(|entry| entry.key_span.clone());
            let kind = SourceKind::Parameter { worker: Arc::clone(id), name: Arc::clone(name) };
            self.facts.sources.push(Source { kind, span });
        }
        if untrusted.attachments {
            let entry = keys.get("attachment_policy").and_then(|policy| policy.entry("untrusted"));
            let kind = SourceKind::Attachments { worker: Arc::clone(id) };
            self.facts.sources.push(Source { kind, span: entry.map(|entry| entry.key_span.clone()) });
        }
    }

    /// Adds the tools of kinds whose tools are always the same.
    fn built_in(&mut self) {
        let kinds = &self.scope.host.toolsets;
        for (name, node) in &self.effective.toolsets {
            let Some(kind) = kinds.get(name).filter(|kind| !kind.delegates() && !kind.runs_code()) else {
                continue;
            };
            let listed = node.get("tools");
            let offered = kind.tools().iter().filter(|tool| {
                listed.is_none_or(|names| names.texts().any(|(name, _)| name == **tool))
                    && !self.is_blocked(tool)
            });
            let configured = self.effective.configured(&**kind);
            let configured = configured.iter().map(|tool| (&*tool.name, tool.risk));
            let configured = configured.filter(|(tool, _)| {
                listed.is_none_or(|names| names.texts().any(|(name, _)| name == *tool))
                    && !self.is_blocked(tool)
            });
            let tools: Vec<(&str, Risk)> =
                offered.filter_map(|tool| Some((*tool, kind.risk(tool)?))).chain(configured).collect();
            let processes = kind.starts_processes(&self.effective.definition);
            let loads_skills = kind.skill_folders().is_some();
            for (tool, risk) in tools {
                if loads_skills && self.effective.skills.iter().any(|skill| skill.untrusted) {
                    self.function(tool, Why::Declared, Some(node.span.clone()));
                }
                let steers = match risk {
                    // The skills belong to the worker's definition.
                    Risk::Read if loads_skills => false,
                    Risk::Read => {
                        (self.reads, self.reads_by_tool) = (true, true);
                        false
                    }
                    Risk::Write => {
                        self.writes = true;
                        self.writes_outside()
                    }
                    Risk::Destructive => self.can_write(),
                    Risk::Network | Risk::Exec => true,
                    Risk::Delegate => false,
                };
                if steers {
                    let (function, span) = (tool.into(), Some(node.span.clone()));
                    self.facts.effects.push(Effect { function, risk: Some(risk), span });
                }
                if processes {
                    (self.reads, self.reads_by_tool, self.writes) = (true, true, true);
                    if self.sight.network {
                        self.function(tool, Why::Network, Some(node.span.clone()));
                    }
                }
            }
        }
    }

    /// Adds Python functions, and the worker itself if it is one.
    fn code(&mut self) {
        let Some(tools) = self.scope.exposed.tools(self.effective) else { return };
        let kind = self.scope.host.toolsets.code().map_or("", |kind| kind.name());
        let configured = self.effective.toolsets.get(kind);
        let listed = configured.and_then(|node| node.get("tools"));
        for Tool { level, code } in tools.values() {
            let is_offered = listed.is_none_or(|names| names.texts().any(|(name, _)| *name == *code.name));
            if code.refused.is_some() || !is_offered || self.is_blocked(&code.name) {
                continue;
            }
            let foreign = matches!(level.package.source, FunctionSource::Library(_));
            let suspect = self.sight.suspect();
            let span = code.file.as_ref();
            let span = span.map(|file| code_place::span(self.scope.packages, file, code.line, None));
            // As `custom` decides in a run: a library can only declare more.
            match &code.results {
                Some(ResultOrigin::Trusted) if !(foreign && suspect) => {}
                Some(declared) if *declared != ResultOrigin::Trusted => {
                    self.function(&code.name, Why::Declared, span.clone());
                }
                _ if self.sight.network => self.function(&code.name, Why::Network, span.clone()),
                // What it returns may come from its mounts.
                _ => self.reads = true,
            }
            self.writes = true;
            let most = if foreign {
                Risk::Exec
            } else if self.sight.network {
                Risk::Network
            } else {
                Risk::Read
            };
            let risk = code.risk.map_or(most, |risk| risk.max(most));
            if matches!(risk, Risk::Network | Risk::Exec | Risk::Destructive) {
                let effect = Effect { function: Arc::clone(&code.name), risk: Some(risk), span };
                self.facts.effects.push(effect);
            }
        }
        if self.effective.definition.code.is_some() {
            (self.reads, self.writes) = (true, true);
            if self.sight.network {
                let id = Arc::clone(&self.effective.definition.id);
                let span = self.effective.keys.entry("code").map(|entry| entry.key_span.clone());
                self.function(&id, Why::Network, span.clone());
                self.facts.effects.push(Effect { function: id, risk: Some(Risk::Network), span });
            }
        }
    }

    /// Adds the places behind its mounts. Another worker's mount may declare a part of one untrusted.
    fn files(&mut self) {
        for mount in &self.sight.mounts {
            let span = mount_span(self.scope, self.effective, mount);
            let source = Source { kind: SourceKind::Mount(mount.at.to_string()), span: span.clone() };
            let untrusted = mount.untrusted || !self.untrusted.around(&mount.place).is_empty();
            if untrusted {
                self.facts.sees.push(source.clone());
            }
            if self.reads {
                self.facts.reads.push(mount.place.clone());
                if untrusted {
                    self.facts.sources.push(source);
                }
                if self.reads_by_tool && !mount.untrusted && self.facts.private.is_none() {
                    self.facts.private = Some((mount.at.to_string(), span.or_else(|| self.reader())));
                }
            }
            if self.writes && mount.access == Access::Write {
                self.facts.writes.push(mount.place.clone());
            }
        }
    }

    /// Returns the place of the toolset with which the worker reads files.
    fn reader(&self) -> Option<Span> {
        let reads = |name: &str| {
            let kind = self.scope.host.toolsets.get(name)?;
            kind.tools().iter().any(|tool| kind.risk(tool) == Some(Risk::Read)).then_some(())
        };
        let toolsets = self.effective.toolsets.iter();
        toolsets.filter(|(name, _)| reads(name).is_some()).map(|(_, node)| node.span.clone()).next()
    }

    fn function(&mut self, name: &str, why: Why, span: Option<Span>) {
        self.facts.sources.push(Source { kind: SourceKind::Function { name: name.into(), why }, span });
    }

    fn can_write(&self) -> bool {
        self.sight.mounts.iter().any(|mount| mount.access == Access::Write)
    }

    /// Returns true if the worker writes to places for which files of the program may not pre-approve it.
    fn writes_outside(&self) -> bool {
        self.sight.mounts.iter().any(|mount| mount.access == Access::Write && !mount.origin.is_own())
    }

    fn is_blocked(&self, tool: &str) -> bool {
        self.effective.definition.rules.iter().any(|line| {
            line.rule == Rule::Blocked && !line.pattern.has_arguments() && line.pattern.names_one_of(&[tool])
        })
    }
}

/// Returns the declaration of a mount: the worker's own, its package's, or the program's. A mount that a toolset serves
/// is declared with the toolset.
fn mount_span(scope: &Scope<'_>, effective: &Effective, mount: &Mount) -> Option<Span> {
    if let Some(served) = mount.place.server() {
        return effective.toolsets.get(served.kind).map(|node| node.span.clone());
    }
    let package = scope.packages.get(effective.located.package);
    let sandboxes = [
        effective.keys.get("sandbox"),
        package.manifest.sandbox.as_ref(),
        scope.packages.program().manifest.sandbox.as_ref(),
    ];
    sandboxes.into_iter().flatten().find_map(|sandbox| match mount.at.name() {
        "" => sandbox.entry("root").map(|entry| entry.key_span.clone()),
        name => sandbox.get("paths")?.entry(name).map(|entry| entry.key_span.clone()),
    })
}
