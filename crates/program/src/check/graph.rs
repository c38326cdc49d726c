//! The call graph: cycles, chains that are too long, unreachable workers.

use super::scope::Scope;
use crate::{
    cancel::Cancel,
    cases::CasesFile,
    diagnostics::{Diagnostic, codes},
    effective::Effective,
    front_matter,
    loading::Workers,
    parallel::in_parallel,
    resolve::{PackageId, is_glob},
    span::Span,
};
use llm_do_core::{function::FunctionSource, worker::ToolLevel};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    mem,
    sync::Arc,
};

pub(super) fn check(scope: &Scope<'_>, graph: &Graph, cases: &[CasesFile], found: &mut Vec<Diagnostic>) {
    if !scope.packages.program().manifest.delegation.allow_recursion {
        graph.cycles(scope, found);
    }
    for root in scope.roots() {
        graph.depth(scope, root, scope.packages.program().manifest.delegation.max_depth, found);
    }
    if !scope.scanned.is_empty() && scope.complete {
        unreached(scope, graph, cases, found);
    }
}

/// The exact calls. Workers are numbered in the order of their names.
#[derive(Default)]
pub(super) struct Graph {
    names: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, usize>,
    /// The callees of each worker, each with its place in the allowlist.
    pub(super) calls: Vec<Vec<(usize, usize)>>,
}

impl Graph {
    pub(super) fn of(workers: &Workers) -> Self {
        let names: Vec<Arc<str>> = workers.keys().cloned().collect();
        let numbers: HashMap<Arc<str>, usize> = names.iter().cloned().zip(0..).collect();
        let mut graph = Self { names, numbers, calls: Vec::new() };
        graph.calls =
            in_parallel(&Cancel::default(), workers.values().collect(), |worker| graph.calls_of(worker));
        graph
    }

    /// Updates the graph after an edit of some workers. The other workers must be unchanged.
    pub(super) fn after(mut self, edited: &[Arc<Effective>], workers: &Workers) -> Self {
        let number = |worker: &Arc<Effective>| self.numbers.get(&worker.definition.id).copied();
        let numbers: Option<Vec<usize>> = edited.iter().map(number).collect();
        match numbers {
            Some(numbers) if self.names.len() == workers.len() => {
                for (number, worker) in numbers.into_iter().zip(edited) {
                    self.calls[number] = self.calls_of(worker);
                }
                self
            }
            // There are more workers than before, or fewer.
            _ => Self::of(workers),
        }
    }

    fn calls_of(&self, worker: &Effective) -> Vec<(usize, usize)> {
        worker.calls.iter().filter_map(|(name, at)| Some((*self.numbers.get(name)?, *at))).collect()
    }

    /// Returns the place that names a callee.
    fn place<'a>(&self, scope: &Scope<'a>, caller: usize, at: usize) -> &'a Span {
        &scope.workers[&self.names[caller]].callees[at].1
    }

    /// Adds a finding for each strongly connected component, with its shortest cycle.
    fn cycles(&self, scope: &Scope<'_>, found: &mut Vec<Diagnostic>) {
        for members in self.components() {
            let start = members[0];
            let inside: BTreeSet<usize> = members.iter().copied().collect();
            let Some((chain, (caller, at))) = self.cycle(start, &inside) else { continue };
            let names: Vec<&str> = chain.iter().map(|&worker| &*self.names[worker]).collect();
            found.push(
                Diagnostic::error(
                    codes::CALL_CYCLE,
                    format!("workers call each other in a cycle: {}", names.join(" → ")),
                )
                .at(self.place(scope, caller, at))
                .note("llm-do refuses to call a worker that is already in the chain of callers")
                .help(
                    "remove one of the calls, or set `delegation: {allow_recursion: true}` in the manifest",
                ),
            );
        }
    }

    /// Returns the strongly connected components with more than one worker, and workers that call themselves, each
    /// sorted. Tarjan's algorithm ("Depth-First Search and Linear Graph Algorithms", 1972) with an explicit stack,
    /// because a call chain may be as long as the program.
    fn components(&self) -> Vec<Vec<usize>> {
        const UNSEEN: usize = usize::MAX;
        let count = self.calls.len();
        let (mut index, mut low) = (vec![UNSEEN; count], vec![0; count]);
        let (mut stack, mut on_stack) = (Vec::new(), vec![false; count]);
        let (mut next, mut components) = (0, Vec::new());
        for root in 0..count {
            if index[root] != UNSEEN {
                continue;
            }
            let mut work = vec![(root, 0)];
            while let Some(&mut (worker, ref mut call)) = work.last_mut() {
                if *call == 0 {
                    (index[worker], low[worker]) = (next, next);
                    next += 1;
                    stack.push(worker);
                    on_stack[worker] = true;
                }
                if let Some(&(callee, _)) = self.calls[worker].get(*call) {
                    *call += 1;
                    if index[callee] == UNSEEN {
                        work.push((callee, 0));
                    } else if on_stack[callee] {
                        low[worker] = low[worker].min(index[callee]);
                    }
                    continue;
                }
                work.pop();
                if let Some(&(caller, _)) = work.last() {
                    low[caller] = low[caller].min(low[worker]);
                }
                if low[worker] == index[worker] {
                    let begin = stack.iter().rposition(|member| *member == worker).unwrap_or_default();
                    let calls_itself = || self.calls[worker].iter().any(|(callee, _)| *callee == worker);
                    stack[begin..].iter().for_each(|member| on_stack[*member] = false);
                    if stack.len() - begin > 1 || calls_itself() {
                        let mut members = stack[begin..].to_vec();
                        members.sort_unstable();
                        components.push(members);
                    }
                    stack.truncate(begin);
                }
            }
        }
        components
    }

    /// Returns the shortest path from a worker back to itself, with the last call: its caller and its place there.
    fn cycle(&self, start: usize, inside: &BTreeSet<usize>) -> Option<(Vec<usize>, (usize, usize))> {
        let mut from: BTreeMap<usize, usize> = BTreeMap::new();
        let mut waiting = VecDeque::from([start]);
        while let Some(worker) = waiting.pop_front() {
            for &(callee, at_call) in self.calls[worker].iter().filter(|(callee, _)| inside.contains(callee))
            {
                if callee == start {
                    let mut chain = vec![start, worker];
                    let mut at = worker;
                    while let Some(&caller) = from.get(&at) {
                        chain.push(caller);
                        at = caller;
                    }
                    // The chain of a worker that calls itself has it twice.
                    chain.dedup();
                    if worker == start {
                        chain.push(start);
                    }
                    chain.reverse();
                    return Some((chain, (worker, at_call)));
                }
                if callee != start && !from.contains_key(&callee) {
                    from.insert(callee, worker);
                    waiting.push_back(callee);
                }
            }
        }
        None
    }

    /// Finds calls that are only reachable below the depth limit from a worker that runs start with.
    fn depth(&self, scope: &Scope<'_>, root: &Arc<str>, limit: u32, found: &mut Vec<Diagnostic>) {
        let Some(&begin) = self.numbers.get(root) else { return };
        let below = match scope.entry == Some(root) {
            true => "the entry".to_owned(),
            false => format!("`{root}`"),
        };
        let mut depths: Vec<Option<u32>> = vec![None; self.names.len()];
        depths[begin] = Some(0);
        let mut waiting = VecDeque::from([(begin, 0)]);
        while let Some((worker, depth)) = waiting.pop_front() {
            let depth = depth + 1;
            for &(callee, at) in &self.calls[worker] {
                if depths[callee].is_some() {
                    continue;
                }
                depths[callee] = Some(depth);
                if depth > limit {
                    found.push(
                        Diagnostic::warning(
                            codes::TOO_DEEP,
                            format!(
                                "`{}` is {depth} calls below {below}, but `delegation.max_depth` is {limit}",
                                self.names[callee]
                            ),
                        )
                        .at(self.place(scope, worker, at))
                        .help("shorten the chain of calls, or raise `delegation.max_depth` in the manifest"),
                    );
                    continue;
                }
                waiting.push_back((callee, depth));
            }
        }
    }
}

/// Finds workers of the program that no chain of calls from the entry, an export or a judge of cases reaches.
fn unreached(scope: &Scope<'_>, graph: &Graph, cases: &[CasesFile], found: &mut Vec<Diagnostic>) {
    let program = scope.packages.program();
    let exports: Vec<String> = program.exports().map(|(id, _)| id).collect();
    // An entry or an export may be among the keys that could not be read.
    if scope.entry.is_none() && exports.is_empty() || program.manifest.is_partial {
        return;
    }
    let workers: Vec<&Effective> = scope.workers.values().map(AsRef::as_ref).collect();
    let mut matched: BTreeMap<(PackageId, &str), Vec<usize>> = BTreeMap::new();
    let mut reached = vec![false; graph.names.len()];
    let judges = cases.iter().flat_map(|file| &file.cases).filter_map(|case| case.expect.judge.as_ref());
    let judges = judges.map(|(judge, _)| judge.as_str());
    let begin = scope.entry.map(|entry| &**entry).into_iter().chain(exports.iter().map(String::as_str));
    let begin = begin.chain(judges);
    let mut waiting: Vec<usize> = begin.filter_map(|name| graph.numbers.get(name).copied()).collect();
    while let Some(worker) = waiting.pop() {
        if mem::replace(&mut reached[worker], true) {
            continue;
        }
        waiting.extend(graph.calls[worker].iter().map(|(callee, _)| *callee));
        let effective = workers[worker];
        if may_call_any(effective) {
            return;
        }
        let package = effective.located.package;
        for (glob, _) in effective.callees.iter().filter(|(reference, _)| is_glob(reference)) {
            let callees = matched.entry((package, glob)).or_insert_with(|| matching(scope, package, glob));
            waiting.extend(callees.iter().copied());
        }
    }
    if reached.iter().all(|reached| *reached) {
        return;
    }
    for located in scope.scanned {
        let number = graph.numbers.get(located.id.as_str());
        if number.is_some_and(|number| !reached[*number]) {
            let tree = program.tree.as_ref();
            found.push(
                Diagnostic::warning(
                    codes::UNREACHED,
                    format!("nothing can call the worker `{}`", located.id),
                )
                .at(&Span::whole(&front_matter::unread(tree, &located.path)))
                .help("add it to the `allow_workers` of a worker, export it, or remove it"),
            );
        }
    }
}

/// Returns true if a worker has code of the program or is code. Code may call any worker by a computed name.
fn may_call_any(effective: &Effective) -> bool {
    let own = |level: &ToolLevel| level.package.source == FunctionSource::Program;
    effective.definition.code.is_some() || effective.definition.tools.iter().any(own)
}

/// Returns the numbers of the workers that an allowlist pattern matches.
pub(super) fn matching(scope: &Scope<'_>, package: PackageId, glob: &str) -> Vec<usize> {
    if glob == "*" {
        return (0..scope.workers.len()).collect();
    }
    let Ok(glob) = globset::GlobBuilder::new(glob).literal_separator(false).build() else {
        return Vec::new();
    };
    let matcher = glob.compile_matcher();
    let workers = scope.workers.values().enumerate();
    let named = workers.filter(|(_, effective)| {
        if effective.located.package == package {
            matcher.is_match(&effective.located.id)
        } else {
            matcher.is_match(&*effective.definition.id)
        }
    });
    named.map(|(number, _)| number).collect()
}
