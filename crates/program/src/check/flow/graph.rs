//! The movement of untrusted content from worker to worker.

use super::{Reach, Source, Step, Through, facts::Facts, places::Places};
use crate::{
    check::{
        graph::{Graph, matching},
        scope::Scope,
    },
    resolve::{PackageId, is_glob},
};
use llm_do_core::authority::Place;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// Maximum number of sources that are followed to one worker. It bounds the work, which is otherwise the product of
/// sources and calls.
const MOST: usize = 8;

/// The sources that reach each worker.
pub(super) struct Propagation<'a> {
    workers: Vec<&'a Arc<str>>,
    sources: Vec<Source>,
    /// The sources that arrive at each node, the nearest first. The first nodes are the workers.
    arrivals: Vec<Vec<Arrival>>,
}

/// A source that arrives at a node.
#[derive(Clone, Copy)]
struct Arrival {
    source: usize,
    from: From,
}

/// The origin of a source that arrives at a node.
#[derive(Clone, Copy)]
enum From {
    /// The worker itself, which reads the source.
    Itself,
    /// A caller, which passes the source on.
    Handed(usize),
    /// Another node.
    Node(usize, Through),
}

impl<'a> Propagation<'a> {
    pub(super) fn of(scope: &Scope<'a>, facts: &[Facts]) -> Self {
        let calls = Graph::of(scope.workers);
        let edges = Edges::of(scope, &calls, facts);
        let mut all = Self {
            workers: scope.workers.keys().collect(),
            sources: Vec::new(),
            arrivals: vec![Vec::new(); edges.of.len()],
        };
        let mut waiting = VecDeque::new();
        let mut known: BTreeMap<(super::SourceKind, String), usize> = BTreeMap::new();
        let mut begin = |all: &mut Self, worker: usize, source: &Source, from: From| {
            let place = source.span.as_ref().map(|span| span.origin().to_string()).unwrap_or_default();
            let number = *known.entry((source.kind.clone(), place)).or_insert_with(|| {
                all.sources.push(source.clone());
                all.sources.len() - 1
            });
            all.arrive(worker, Arrival { source: number, from }, &mut waiting);
        };
        for (worker, facts) in facts.iter().enumerate() {
            for source in &facts.sources {
                begin(&mut all, worker, source, From::Itself);
            }
        }
        for (worker, of) in facts.iter().enumerate().filter(|(_, facts)| !facts.sees.is_empty()) {
            for &(callee, _) in calls.calls[worker].iter().filter(|(callee, _)| facts[*callee].takes_files) {
                for source in &of.sees {
                    begin(&mut all, callee, source, From::Handed(worker));
                }
            }
        }
        while let Some((node, source)) = waiting.pop_front() {
            for &(to, through) in &edges.of[node] {
                all.arrive(to, Arrival { source, from: From::Node(node, through) }, &mut waiting);
            }
        }
        all
    }

    fn arrive(&mut self, node: usize, arrival: Arrival, waiting: &mut VecDeque<(usize, usize)>) {
        let here = &mut self.arrivals[node];
        if here.len() < MOST && here.iter().all(|known| known.source != arrival.source) {
            here.push(arrival);
            waiting.push_back((node, arrival.source));
        }
    }

    /// Returns the sources that reach a worker, each with its way.
    pub(super) fn at(&self, worker: usize) -> Vec<Reach> {
        self.arrivals[worker].iter().map(|arrival| self.way(worker, *arrival)).collect()
    }

    fn way(&self, worker: usize, last: Arrival) -> Reach {
        let name = |worker: usize| Arc::clone(self.workers[worker]);
        let mut steps = Vec::new();
        let (mut to, mut node, mut from) = (worker, worker, last.from);
        while let From::Node(before, through) = from {
            // Between two workers there may be a node for a pattern or a place.
            if before < self.workers.len() {
                steps.push(Step { from: name(before), to: name(to), through });
                to = before;
            }
            node = before;
            let arrival = self.arrivals[node].iter().find(|arrival| arrival.source == last.source);
            from = arrival.map_or(From::Itself, |arrival| arrival.from);
        }
        steps.reverse();
        let handed_by = match from {
            From::Handed(caller) => Some(name(caller)),
            From::Itself | From::Node(..) => None,
        };
        Reach { source: self.sources[last.source].clone(), reader: name(node), handed_by, steps }
    }
}

/// The edges between nodes: the workers, patterns of allowlists, and places that a worker writes.
struct Edges {
    of: Vec<Vec<(usize, Through)>>,
}

impl Edges {
    fn of<'a>(scope: &Scope<'a>, calls: &Graph, facts: &[Facts]) -> Self {
        let mut edges = Self { of: vec![Vec::new(); calls.calls.len()] };
        for (caller, callees) in calls.calls.iter().enumerate() {
            for &(callee, _) in callees {
                edges.add(caller, callee, Through::Input);
                if !facts[callee].typed {
                    edges.add(callee, caller, Through::Output);
                }
            }
        }
        edges.patterns(scope, facts);
        edges.files(facts);
        edges
    }

    fn add(&mut self, from: usize, to: usize, through: Through) {
        self.of[from].push((to, through));
    }

    fn node(&mut self) -> usize {
        self.of.push(Vec::new());
        self.of.len() - 1
    }

    /// Adds the edges to callees by pattern. A node for each pattern and direction keeps a thousand callers of a
    /// thousand workers from becoming a million edges.
    fn patterns<'a>(&mut self, scope: &Scope<'a>, facts: &[Facts]) {
        let mut nodes: BTreeMap<(PackageId, &str), [usize; 2]> = BTreeMap::new();
        for (caller, effective) in scope.workers.values().enumerate() {
            let package = effective.located.package;
            for (pattern, _) in effective.callees.iter().filter(|(reference, _)| is_glob(reference)) {
                let [inputs, outputs] = *nodes.entry((package, pattern)).or_insert_with(|| {
                    let [inputs, outputs] = [self.node(), self.node()];
                    for callee in matching(scope, package, pattern) {
                        self.add(inputs, callee, Through::Input);
                        if !facts[callee].typed {
                            self.add(callee, outputs, Through::Output);
                        }
                    }
                    [inputs, outputs]
                });
                self.add(caller, inputs, Through::Input);
                self.add(outputs, caller, Through::Output);
            }
        }
    }

    /// Adds the edges through files: a place that one worker writes and another reads. The reader may read the place
    /// itself, a part of it, or a folder that contains it.
    fn files(&mut self, facts: &[Facts]) {
        let mut written = Places::default();
        for (worker, facts) in facts.iter().enumerate() {
            for place in &facts.writes {
                let node = written.entry(place, || self.node());
                self.add(worker, node, Through::Files);
            }
        }
        // A node for each place that is read: workers share most places.
        let mut readers: BTreeMap<&Place, Vec<usize>> = BTreeMap::new();
        for (worker, facts) in facts.iter().enumerate() {
            for place in &facts.reads {
                readers.entry(place).or_default().push(worker);
            }
        }
        for (place, workers) in readers {
            let node = self.node();
            for from in written.around(place) {
                self.add(from, node, Through::Files);
            }
            for worker in workers {
                self.add(node, worker, Through::Files);
            }
        }
    }
}
