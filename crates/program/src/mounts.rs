//! `sandbox` of a worker and of its project, merged, with absolute places. See `docs/reference/sandbox.md`.

mod request_keys;
mod restrict;
mod variables;

use crate::{
    diagnostics::{Diagnostic, codes},
    shape::rule_of,
    source::{Kind, SourceError, SourceTree},
    span::Span,
    yaml::{Entry, Node},
};
use llm_do_core::{
    authority::{Access, Approvals, Domain, Mount, Narrowing, Network, Origin, Place, VirtualPath},
    gate::Rule,
    worker::RequestKey,
};
use std::sync::Arc;

/// `sandbox` of one file, checked by shape.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layers<'a> {
    /// The project's `sandbox`.
    pub project: Option<&'a Node>,
    /// The worker's `sandbox`.
    pub worker: Option<&'a Node>,
}

/// A grant that a program needs beyond its own tree (`docs/reference/sandbox.md`).
#[derive(Clone, Debug, PartialEq)]
pub struct RequiredGrant {
    /// The capability that is needed.
    pub what: Wanted,
    /// The place that asks for it.
    pub span: Span,
}

/// A capability beyond the program's own tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A place outside the root.
    Place {
        /// The place.
        place: Place,
        /// The mode of the access.
        access: Access,
    },
    /// The network.
    Network(Network),
    /// An environment variable, by name.
    Variable(Arc<str>),
}

/// A worker's sandbox, merged.
#[derive(Debug, Default)]
pub struct Merged {
    /// The restriction of the authority.
    pub narrowing: Narrowing,
    /// `path` parameters that callers pass for reading, with their spans.
    pub read: Vec<(String, Span)>,
    /// `path` parameters that callers pass for writing.
    pub write: Vec<(String, Span)>,
    /// The environment variables for its code, with their spans.
    pub env: Vec<(Arc<str>, Span)>,
    /// The keys for requests of its code, with their spans.
    pub keys: Vec<(RequestKey, Span)>,
    /// Grants that the operator must give.
    pub grants: Vec<RequiredGrant>,
}

/// Returns the mount that a program starts with, which is its whole view if no file declares a mount
/// (`docs/reference/sandbox.md`): the project's root or, for a file without a project, the current directory `work`.
/// `approvals` are those of the entry.
pub(crate) fn default_mount(
    root: &Place,
    work: Option<&Place>,
    homes: &[Place],
    approvals: Approvals,
) -> Mount {
    let mut mount = Mount::new(VirtualPath::root(), work.unwrap_or(root).clone(), Access::Write);
    mount.approvals = approvals;
    if work.is_none() && !holds_home(root, homes) {
        mount.origin = Origin::Project;
    }
    mount
}

/// Returns true if a folder is, or contains, a home directory.
pub(crate) fn holds_home(folder: &Place, homes: &[Place]) -> bool {
    folder.as_str() == "/" || homes.iter().any(|home| home.is_within(folder))
}

/// Merges a project's sandbox with a worker's. `own` holds the places that need no grant: the program's root and, for
/// a single file, the current directory.
pub fn merge(
    tree: &dyn SourceTree,
    own: &[Place],
    layers: Layers<'_>,
    found: &mut Vec<Diagnostic>,
) -> Merged {
    let before = found.len();
    let mut merged = Merged::default();
    let both: Vec<&Node> = [layers.project, layers.worker].into_iter().flatten().collect();
    let last = |key: &str| both.iter().rev().find_map(|sandbox| sandbox.get(key));

    let approval = approvals(&both.iter().filter_map(|s| s.get("approval")).collect::<Vec<_>>());
    merged.narrowing.approvals = approval;
    let mut mounts = Mounts { tree, own, approval, merged: &mut merged, found };
    if let Some(root) = last("root") {
        // The folder for `/` is writable; `readonly` and the gate can narrow that.
        mounts.add(VirtualPath::root(), root, Access::Write, Rules::default());
    }
    for name in names(&both) {
        mounts.named(&name, &both);
    }
    for (key, written) in [("read", false), ("write", true)] {
        let given = last(key).map(|list| mounts.parameters(list)).unwrap_or_default();
        if written {
            mounts.merged.write = given;
        } else {
            mounts.merged.read = given;
        }
    }
    let declares = ["root", "paths", "read", "write"].iter().any(|key| last(key).is_some());
    merged.narrowing.declared = declares;
    merged.narrowing.readonly = both.iter().any(|s| s.get("readonly").and_then(Node::as_flag) == Some(true));
    merged.narrowing.restrict = restrict::intersection(&both, found);
    if found.len() == before {
        restrict::report_unreachable(layers, &merged, found);
    }
    merged.narrowing.network = network(&both, &mut merged.grants, found);
    merged.env = last("env").map(|list| variables::read(list, found)).unwrap_or_default();
    merged.keys = last("keys").map(|keys| request_keys::read(keys, &merged, found)).unwrap_or_default();
    let wanted = merged.env.iter().map(|(name, span)| (name, span));
    let wanted = wanted.chain(merged.keys.iter().map(|(key, span)| (&key.variable, span)));
    merged.grants.extend(
        wanted.map(|(name, span)| RequiredGrant {
            what: Wanted::Variable(Arc::clone(name)),
            span: span.clone(),
        }),
    );
    merged
}

/// Marks the mounts of a library's own folder, which its workers may read for every caller. `sandbox.root` states no
/// mode, so there it is read-only. A library whose folder contains the program has no folder of its own: it would read
/// the program's files.
pub fn read_own_folder(mounts: &mut [Mount], own: &[Place], program: &Place) {
    if own.iter().any(|own| program.is_within(own)) {
        return;
    }
    for mount in mounts.iter_mut().filter(|mount| own.iter().any(|own| mount.place.is_within(own))) {
        if mount.at == VirtualPath::root() {
            mount.access = Access::Read;
        }
        if mount.access == Access::Read {
            mount.origin = Origin::Library;
        }
    }
}

/// Returns the mount names of both layers, in order, each once.
fn names(both: &[&Node]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for entry in both.iter().filter_map(|sandbox| sandbox.get("paths")).flat_map(Node::entries) {
        if !names.contains(&entry.key) {
            names.push(entry.key.clone());
        }
    }
    names
}

/// Rules of one mount beside its place.
#[derive(Default)]
struct Rules {
    approvals: Approvals,
    suffixes: Vec<String>,
    max_file_bytes: Option<u64>,
    untrusted: bool,
}

struct Mounts<'a> {
    tree: &'a dyn SourceTree,
    own: &'a [Place],
    approval: Approvals,
    merged: &'a mut Merged,
    found: &'a mut Vec<Diagnostic>,
}

impl Mounts<'_> {
    /// Merges `paths.NAME`, where the worker's keys override the project's.
    fn named(&mut self, name: &str, both: &[&Node]) {
        let layers: Vec<&Entry> =
            both.iter().filter_map(|sandbox| sandbox.get("paths")?.entry(name)).collect();
        let Some(entry) = layers.last() else { return };
        let at = match VirtualPath::parse(name) {
            Ok(at) if at != VirtualPath::root() && !name.contains('/') => at,
            Ok(_) => {
                self.found.push(
                    Diagnostic::error(codes::BAD_MOUNT, format!("`{name}` is not a valid mount name"))
                        .at(&entry.key_span)
                        .help("a mount `NAME` appears at `/NAME`; use `sandbox.root` for `/`"),
                );
                return;
            }
            Err(refusal) => {
                self.found.push(Diagnostic::error(codes::BAD_MOUNT, refusal.to_string()).at(&entry.key_span));
                return;
            }
        };
        let last = |key: &str| layers.iter().rev().find_map(|entry| entry.value.get(key));
        let root = layers.iter().rev().find_map(|entry| {
            if entry.value.as_text().is_some() { Some(&entry.value) } else { entry.value.get("root") }
        });
        let Some(root) = root else {
            self.found.push(
                Diagnostic::error(codes::BAD_MOUNT, format!("the mount `{name}` has no `root`"))
                    .at(&entry.key_span)
                    .help(format!("set its folder: `{name}: {{root: ./{name}}}`")),
            );
            return;
        };
        let access = match last("mode").and_then(Node::as_text) {
            Some("rw") => Access::Write,
            _ => Access::Read,
        };
        let rule = |key: &str| strictest(layers.iter().filter_map(|entry| entry.value.get(key)));
        let rules = Rules {
            approvals: Approvals {
                read: rule("read_approval"),
                write: rule("write_approval"),
                delete: rule("write_approval"),
            },
            suffixes: last("suffixes").map(suffixes).unwrap_or_default(),
            // A limit: the lower value applies.
            max_file_bytes: layers
                .iter()
                .filter_map(|entry| entry.value.get("max_file_bytes")?.as_count())
                .min(),
            untrusted: self.untrusted(name, &layers),
        };
        self.add(at, root, access, rules);
    }

    /// Returns true if any layer declares the content of the mount untrusted. A worker can't revoke the project's
    /// declaration.
    fn untrusted(&mut self, name: &str, layers: &[&Entry]) -> bool {
        let said: Vec<&Node> = layers.iter().filter_map(|entry| entry.value.get("untrusted")).collect();
        if let [project, worker] = *said
            && (project.as_flag(), worker.as_flag()) == (Some(true), Some(false))
        {
            self.found.push(
                Diagnostic::error(
                    codes::CONFLICT,
                    format!(
                        "the project declares the mount `{name}` untrusted, and this worker takes it back"
                    ),
                )
                .at(&worker.span)
                .related("the project's declaration", &project.span)
                .help("remove this line: a worker can declare more content untrusted, but not less"),
            );
        }
        said.iter().any(|node| node.as_flag() == Some(true))
    }

    fn add(&mut self, at: VirtualPath, root: &Node, access: Access, rules: Rules) {
        let Some(text) = root.as_text() else { return };
        let wrong = |message: String| Diagnostic::error(codes::BAD_MOUNT, message).at(&root.span);
        if text.is_empty()
            || text.starts_with('~')
            || text.contains(['\\', '$'])
            || text.chars().any(char::is_control)
        {
            self.found.push(
                wrong(format!("`{text}` is not a folder path"))
                    .help("write a path relative to the program's root, or an absolute one"),
            );
            return;
        }
        let real = match self.tree.locate(text) {
            Ok(real) => real,
            Err(SourceError::NotFound) => {
                self.found.push(wrong(format!("`{text}` does not exist")));
                return;
            }
            Err(error) => {
                self.found.push(wrong(format!("`{text}` cannot be mounted: {error}")));
                return;
            }
        };
        let inside = self.own.iter().any(|own| real.place.is_within(own));
        match real.kind {
            Some(Kind::Special) => {
                self.found.push(wrong(format!("`{text}` is neither a folder nor a file")));
                return;
            }
            None if !inside => {
                self.found.push(wrong(format!("`{text}` does not exist")).note(
                    "a mount outside the program must exist; inside the program, the first write creates a missing folder",
                ));
                return;
            }
            _ => {}
        }
        if !inside {
            self.merged.grants.push(RequiredGrant {
                what: Wanted::Place { place: real.place.clone(), access },
                span: root.span.clone(),
            });
        }
        let approvals = Approvals {
            read: tighten(rules.approvals.read, self.approval.read),
            write: tighten(rules.approvals.write, self.approval.write),
            delete: tighten(rules.approvals.delete, self.approval.delete.or(self.approval.write)),
        };
        let mut mount = Mount::new(at, real.place, access);
        mount.suffixes = rules.suffixes;
        mount.max_file_bytes = rules.max_file_bytes;
        mount.approvals = approvals;
        mount.origin = Origin::Declared;
        mount.untrusted = rules.untrusted;
        self.merged.narrowing.mounts.push(mount);
    }

    /// Returns the `${name}` items of `read` and `write`.
    fn parameters(&mut self, list: &Node) -> Vec<(String, Span)> {
        let mut names = Vec::new();
        for (text, span) in list.texts() {
            match text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) {
                Some(name) if !name.is_empty() => names.push((name.to_owned(), span.clone())),
                _ => self.found.push(
                    Diagnostic::error(codes::BAD_MOUNT, format!("`{text}` is not a parameter"))
                        .at(span)
                        .help("write `${parameter}` for a path that the caller passes; mount a folder under `sandbox.paths`"),
                ),
            }
        }
        names
    }
}

/// Combines a mount's own rule with the rule for all mounts: the own rule takes precedence
/// (`docs/reference/sandbox.md`), but can't loosen `blocked`.
fn tighten(own: Option<Rule>, all: Option<Rule>) -> Option<Rule> {
    match (own, all) {
        (_, Some(Rule::Blocked)) => Some(Rule::Blocked),
        (own, all) => own.or(all),
    }
}

/// Returns the worker's rule, unless the project's rule is `blocked`.
fn strictest<'a>(rules: impl Iterator<Item = &'a Node>) -> Option<Rule> {
    let rules: Vec<Rule> = rules.filter_map(rule_of).collect();
    if rules.contains(&Rule::Blocked) { Some(Rule::Blocked) } else { rules.last().copied() }
}

fn approvals(layers: &[&Node]) -> Approvals {
    let rule = |key: &str| strictest(layers.iter().filter_map(|approval| approval.get(key)));
    Approvals { read: rule("read"), write: rule("write"), delete: rule("delete") }
}

/// Returns the suffixes with their dot.
pub fn suffixes(list: &Node) -> Vec<String> {
    list.texts()
        .map(|(text, _)| {
            let text = text.trim_start_matches('*').to_lowercase();
            if text.starts_with('.') { text } else { format!(".{text}") }
        })
        .collect()
}

fn network(both: &[&Node], grants: &mut Vec<RequiredGrant>, found: &mut Vec<Diagnostic>) -> Option<Network> {
    let mut merged: Option<Network> = None;
    let mut place = None;
    for value in both.iter().filter_map(|sandbox| sandbox.get("network_enabled")) {
        let this = match value.as_flag() {
            Some(true) => Network::On,
            Some(false) => Network::Off,
            None => {
                let read = value.texts().filter_map(|(text, span)| match Domain::parse(text) {
                    Ok(domain) => Some(domain),
                    Err(error) => {
                        found.push(Diagnostic::error(codes::BAD_VALUE, error.to_string()).at(span));
                        None
                    }
                });
                Network::domains(read)
            }
        };
        merged = Some(merged.map_or(this.clone(), |before| before.narrow(&this)));
        place = Some(&value.span);
    }
    if let (Some(network @ (Network::On | Network::Domains(_))), Some(span)) = (&merged, place) {
        grants.push(RequiredGrant { what: Wanted::Network(network.clone()), span: span.clone() });
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{keys, shape, source::MemoryTree, span::SourceFile, yaml};

    fn sandbox(file: &str, text: &str) -> Node {
        let node = yaml::parse(&SourceFile::new(file, text), text.len()).unwrap();
        let mut found = Vec::new();
        let node = shape::check(&node, keys::SANDBOX, "sandbox", &mut found);
        assert_eq!(found, []);
        node
    }

    fn merged(project: &str, worker: &str) -> (Merged, Vec<Diagnostic>) {
        let root = Place::new("/p");
        let tree = MemoryTree::new(root.clone(), [("input/a.txt", "x")]);
        let (project, worker) = (sandbox("project.yaml", project), sandbox("main.worker", worker));
        let mut found = Vec::new();
        let layers = Layers { project: Some(&project), worker: Some(&worker) };
        (merge(&tree, &[root], layers, &mut found), found)
    }

    #[test]
    fn a_key_belongs_to_one_listed_host_and_stays_outside_of_the_process() {
        let list = "network_enabled: [api.example.com, \"*.example.net\", \"localhost:8443\"]\n";
        let with = |keys: &str| merged("", &format!("{list}keys: {keys}\n"));
        let entry = "{header: Authorization, scheme: Bearer, env: API_KEY}";
        for host in ["api.example.com", "a.example.net", "\"localhost:8443\""] {
            let (merged, found) = with(&format!("{{{host}: {entry}}}"));
            assert_eq!(found, [], "{host}");
            let [(key, _)] = &merged.keys[..] else { panic!("{:?}", merged.keys) };
            assert_eq!(
                (&*key.header, key.scheme.as_deref(), &*key.variable),
                ("Authorization", Some("Bearer"), "API_KEY")
            );
            let wanted = Wanted::Variable("API_KEY".into());
            assert!(merged.grants.iter().any(|grant| grant.what == wanted), "{:?}", merged.grants);
            assert!(merged.env.is_empty());
        }
        for (keys, reason) in [
            (format!("{{evil.net: {entry}}}"), "does not list"),
            (format!("{{\"*.example.net\": {entry}}}"), "stands for many"),
            (format!("{{\"api.example.com:80\": {entry}}}"), "plain HTTP"),
            (format!("{{api.example.com: {entry}, \"api.example.com:443\": {entry}}}"), "two keys"),
            ("{api.example.com: {env: API_KEY}}".into(), "has no `header`"),
            ("{api.example.com: {header: Authorization}}".into(), "has no `env`"),
            ("{api.example.com: {header: Host, env: API_KEY}}".into(), "belongs to the connection"),
            ("{api.example.com: {header: \"X: y\", env: API_KEY}}".into(), "no name of a header"),
            ("{api.example.com: {header: X-Key, env: LD_PRELOAD}}".into(), "can't hold a key"),
            (
                "{api.example.com: {header: X-Key, scheme: a b, env: API_KEY}}".into(),
                "can't stand before a key",
            ),
        ] {
            let (merged, found) = with(&keys);
            assert!(found.iter().any(|finding| finding.message.contains(reason)), "{keys}: {found:?}");
            assert!(merged.keys.len() <= 1, "{keys}");
        }
        let (_, found) = merged("", &format!("{list}env: [API_KEY]\nkeys: {{api.example.com: {entry}}}\n"));
        assert!(found.iter().any(|finding| finding.message.contains("would enter the process")), "{found:?}");
        let (_, found) = merged("", &format!("network_enabled: true\nkeys: {{api.example.com: {entry}}}\n"));
        assert!(found.iter().any(|finding| finding.message.contains("does not list")), "{found:?}");
    }

    #[test]
    fn paths_merge_deep_and_rules_never_loosen() {
        let (merged, found) = merged(
            "paths: {input: {root: ./input, mode: ro, write_approval: blocked, max_file_bytes: 10}, out: ./out}\nreadonly: true",
            "paths: {input: {mode: rw, write_approval: preApproved, max_file_bytes: 20, suffixes: [md, .TXT]}, scratch: s}\nreadonly: false",
        );
        assert_eq!(found, []);
        let mounts = &merged.narrowing.mounts;
        assert_eq!(mounts.iter().map(|m| m.at.as_str()).collect::<Vec<_>>(), ["/input", "/out", "/scratch"]);
        assert_eq!(mounts[0].access, Access::Write);
        assert_eq!(mounts[0].approvals.write, Some(Rule::Blocked));
        assert_eq!(mounts[0].max_file_bytes, Some(10));
        assert_eq!(mounts[0].suffixes, [".md", ".txt"]);
        assert_eq!(mounts[2].place, Place::new("/p/s"));
        assert!(merged.narrowing.readonly && merged.narrowing.declared);
    }

    #[test]
    fn untrusted_mounts_stay_untrusted() {
        let project = "paths: {mail: {root: ./mail, untrusted: true}, notes: ./notes, web: ./web}";
        let (merged_mounts, found) = merged(project, "paths: {mail: {mode: rw}, web: {untrusted: true}}");
        assert_eq!(found, []);
        let untrusted =
            merged_mounts.narrowing.mounts.iter().map(|mount| (mount.at.as_str(), mount.untrusted));
        assert_eq!(untrusted.collect::<Vec<_>>(), [("/mail", true), ("/notes", false), ("/web", true)]);
        let (taken_back, found) = merged(project, "paths: {mail: {untrusted: false}}");
        assert_eq!(found.iter().map(|d| d.code).collect::<Vec<_>>(), [codes::CONFLICT]);
        assert!(taken_back.narrowing.mounts[0].untrusted);
    }

    #[test]
    fn restrict_and_network_keep_the_tighter() {
        let (both, found) = merged(
            "restrict: [/a, /b/c]\nnetwork_enabled: [x.org, y.org]",
            "restrict: [a/deep, b, /z]\nnetwork_enabled: [Y.org, z.org]",
        );
        assert_eq!(found, []);
        let paths: Vec<&str> = both.narrowing.restrict.iter().map(VirtualPath::as_str).collect();
        assert_eq!(paths, ["/a/deep", "/b/c"]);
        let y = Network::domains(Domain::parse("y.org"));
        assert_eq!(both.narrowing.network, Some(y.clone()));
        assert_eq!(both.grants[0].what, Wanted::Network(y));
        let (off, _) = merged("network_enabled: false", "network_enabled: true");
        assert_eq!(off.narrowing.network, Some(Network::Off));
        assert!(off.grants.is_empty());
        let (both, found) = merged("{}", "network_enabled: [b.org, https://x.org/, a.org]");
        assert_eq!(found.iter().map(|d| d.code).collect::<Vec<_>>(), [codes::BAD_VALUE]);
        assert!(found[0].message.contains("without a scheme"), "{found:?}");
        let listed = Network::domains(["a.org", "b.org"].map(|domain| Domain::parse(domain).unwrap()));
        assert_eq!(both.grants[0].what, Wanted::Network(listed));
        let (_, found) = merged("restrict: /a", "restrict: /b");
        assert_eq!(found[0].code, codes::CONFLICT);
    }

    #[test]
    fn what_lies_outside_needs_a_grant_and_must_exist() {
        let (_, found) = merged("{}", "paths: {etc: /etc, up: ../x, home: ~/x, \"a/b\": c}");
        let codes: Vec<&str> = found.iter().map(|d| d.code.id).collect();
        assert_eq!(codes, ["E0409"; 4]);
    }

    #[test]
    fn only_parameters_stand_in_read_and_write() {
        let (merged, found) = merged("{}", "read: [\"${dir}\", ./x]\nwrite: \"${out}\"");
        assert_eq!(merged.read[0].0, "dir");
        assert_eq!(merged.write[0].0, "out");
        assert_eq!(found[0].code, codes::BAD_MOUNT);
        assert!(merged.narrowing.declared);
    }
}
