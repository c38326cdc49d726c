use super::*;
use crate::source::MemoryTree;
use llm_do_core::{authority::Place, gate::Rule};

fn load(files: &[(&str, &str)]) -> (Manifest, Vec<Diagnostic>) {
    let tree = MemoryTree::new(Place::new("/p"), files.iter().map(|(p, t)| (*p, *t)));
    let mut found = Vec::new();
    (Manifest::load(&tree, &mut found), found)
}

#[test]
fn all_keys_are_read() {
    let (m, found) = load(&[
        ("w/a.worker", ""),
        ("more/b.worker", ""),
        (
            "llm-do.yaml",
            "version: 1\nname: p\nentry: start\nworkers: {root: ./w/, exclude: ['**/drafts/**']}\nworkerPaths: [more]\n\
         approval: {mode: auto_deny, default: ask, tools: {'write_file(out/**)': {pre_approved: true}}, risks: {exec: blocked}}\n\
         delegation: {maxDepth: 3, allow_recursion: true}\n\
         providers: {mine: {base_url: 'http://localhost:1', api: openai, api_key_env: K, headers: {A: b}, stream: false}}\n\
         bindings: {n: 3}\nexports: [main]\n",
        ),
    ]);
    assert_eq!(found, []);
    assert_eq!((m.workers_root.as_str(), m.worker_paths.as_slice()), ("w", &["more".to_owned()][..]));
    assert_eq!(m.mode, Some(Mode::AutoDeny));
    assert_eq!(m.approval.lines[0].rule, Rule::PreApproved);
    assert_eq!(&*m.approval.lines[0].written_at, "llm-do.yaml:6");
    assert_eq!(m.approval.risks[&Risk::Exec], Rule::Blocked);
    assert_eq!(m.delegation, Delegation { max_depth: 3, allow_recursion: true });
    assert_eq!(m.providers["mine"].stream, Some(false));
    assert_eq!(m.bindings[0].0, "n");
    assert_eq!(m.defining(), ["w", "prompts", "templates", "more", "tools", "toolsets", "tools.py"]);
}

#[test]
fn both_meanings_of_version_are_told_apart() {
    assert_eq!(load(&[("project.yaml", "version: 1.0.0\n")]).0.version.as_deref(), Some("1.0.0"));
    assert_eq!(load(&[("project.yaml", "version: 1\n")]).0.version, None);
    assert_eq!(load(&[("project.yaml", "version: 2\n")]).1[0].code, codes::BAD_VALUE);
    let fix = load(&[("project.yaml", "version: 1.5\n")]).1.remove(0).fix.unwrap();
    assert_eq!(fix.edits[0].text, "\"1.5\"");
}

#[test]
fn what_cannot_be_is_said() {
    let code = |text: &str| load(&[("project.yaml", text)]).1.first().map(|d| d.code);
    assert_eq!(code("workers: {root: ../x}"), Some(codes::ESCAPES_ROOT));
    assert_eq!(code("worker_paths: [/etc]"), Some(codes::ESCAPES_ROOT));
    assert_eq!(code("approval: {tools: {'write_file(': ask}}"), Some(codes::BAD_PATTERN));
    assert_eq!(code("workers: {include: ['[']}"), Some(codes::BAD_GLOB));
    assert_eq!(code("providers: {x: {api: openai}}"), Some(codes::BAD_VALUE));
    assert_eq!(code("workers: {root: w}"), Some(codes::MISSING_ROOT));
    assert_eq!(code("worker_paths: [more]"), Some(codes::MISSING_ROOT));
    assert_eq!(code("prompts: {root: project.yaml}"), Some(codes::MISSING_ROOT));
    assert_eq!(code("templates: {root: templates}"), Some(codes::MISSING_ROOT));
    assert_eq!(code("tools: {roots: [tools]}"), Some(codes::MISSING_ROOT));
    assert_eq!(code("templates: {root: .}"), None);
    assert_eq!(code("workshop: {name: x}"), Some(codes::NOT_A_FORMAT));
    assert_eq!(code("mcp_servers: [a]"), Some(codes::WRONG_TYPE));
    assert_eq!(code("dependencies: ['no name']"), Some(codes::BAD_DEPENDENCY));
    assert_eq!(code("dependencies: [../outside]"), Some(codes::ESCAPES_ROOT));
    assert_eq!(code("tools: {roots: [/etc]}"), Some(codes::ESCAPES_ROOT));
    assert_eq!(code("- a\n"), Some(codes::WRONG_TYPE));
    assert_eq!(code("# nothing yet\n"), None);
    let both = load(&[("project.yaml", "name: a"), ("llm-do.yaml", "name: b")]).1;
    assert_eq!(both[0].code, codes::TWO_MANIFESTS);
}
