//! Registration of tools and toolsets, and the findings of `check` about them.

use crate::Folder;
use llm_do::{
    NoArguments, Problem, Tool,
    schemars::JsonSchema,
    serde_json::{Value, json},
    toolset::{BoxFuture, Function, Schema, ToolsetContext, ToolsetKind, ToolsetRuntime},
};
use serde::Deserialize;

fn tool(name: &'static str) -> Tool {
    Tool::new(name, "Does something.", |_: NoArguments| async { Ok::<_, String>("done") })
}

struct Kind(&'static str);

impl ToolsetKind for Kind {
    fn name(&self) -> &'static str {
        self.0
    }
    fn configuration(&self) -> Schema {
        Schema::built_in(json!({"type": "object"}))
    }
}

impl ToolsetRuntime for Kind {
    fn build<'a>(
        &'a self,
        _: &'a Value,
        _: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Result<Vec<Function>, String>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

fn refused(opened: Result<llm_do::Program, Problem>) -> String {
    match opened.err() {
        Some(problem @ Problem::Toolset { .. }) => problem.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn names_that_are_taken_or_unfit_are_refused() {
    let folder = Folder::of("");
    let builder = || folder.builder("answers: []");
    for name in ["", "two words", "größe", "a/b"] {
        assert!(refused(builder().tool(tool(name)).open()).contains("its name must have"), "{name}");
    }
    for name in ["read_file", "shell", "worker_call", "ask_user"] {
        let said = refused(builder().tool(tool(name)).open());
        assert!(said.contains("the name of a tool of"), "{name}: {said}");
    }
    let twice = builder().tool(tool("same")).tool(tool("same")).open();
    assert!(refused(twice).contains("two tools of that name"));
    let twice = builder().toolset("one", [tool("same")]).toolset("two", [tool("same")]).open();
    assert!(refused(twice).contains("a tool of `one`"));
    for name in ["filesystem", "shell", "mcp", "custom", "workers", "delegation", "user"] {
        assert!(refused(builder().toolset(name, [tool("x")]).open()).contains("of that name"), "{name}");
        assert!(refused(builder().toolset_kind(Kind(name)).open()).contains("of that name"), "{name}");
    }
    for name in ["", "Upper", "a b", "../x"] {
        assert!(refused(builder().toolset_kind(Kind(name)).open()).contains("lower-case"), "{name}");
    }
    assert!(builder().toolset("one", [tool("a")]).toolset("two", [tool("b")]).open().is_ok());
}

#[test]
fn an_input_that_is_no_object_is_refused() {
    let folder = Folder::of("");
    let number = Tool::new("double", "Doubles.", |number: i64| async move { Ok::<_, String>(number * 2) });
    assert!(refused(folder.builder("answers: []").tool(number).open()).contains("named fields"));
    #[derive(Deserialize, JsonSchema)]
    struct Tree {
        #[allow(dead_code)]
        children: Vec<Tree>,
    }
    let tree = Tool::new("plant", "Plants.", |_: Tree| async { Ok::<_, String>("planted") });
    assert!(folder.builder("answers: []").tool(tree).open().is_ok());
}

#[test]
fn check_knows_the_registered_tools() {
    let folder = Folder::new(&[(
        "main.worker",
        "---\nmodel: openai:gpt-5-mini\ntoolsets: {rust: {tools: [price, prize]}}\ntool_rules: {price: {retries: 1}}\n---\nSell.\n",
    )]);
    let findings = folder.builder("answers: []").tool(tool("price")).check().unwrap();
    let text: Vec<String> = findings.iter().map(ToString::to_string).collect();
    let about = |part: &str| text.iter().any(|finding| finding.contains(part));
    assert!(about("`prize`"), "{text:?}");
    // The tool declares no risk, so that a second attempt could do its effect twice.
    assert!(about("exec"), "{text:?}");
    let findings =
        folder.builder("answers: []").tool(tool("price").reads()).tool(tool("prize")).check().unwrap();
    assert_eq!(findings, []);
    let unknown = folder.builder("answers: []").check().unwrap();
    assert!(unknown.iter().any(|finding| finding.message.contains("`rust`")), "{unknown:?}");
}

#[test]
fn what_is_wrong_with_a_program_is_told_with_its_place() {
    let folder = Folder::of("toolsts: {}");
    let problem = folder.builder("answers: []").open().err().unwrap();
    let text = problem.explained();
    assert!(text.contains("main.worker:2") && text.contains("toolsets"), "{text}");
    let error = llm_do::Error::from(problem).to_string();
    assert_eq!(error, text);
    let missing = llm_do::Program::builder(folder.path().join("nowhere")).open().err().unwrap().to_string();
    assert!(missing.contains("does not exist"), "{missing}");
}

#[test]
fn grants_that_are_missing_are_listed_with_what_to_grant() {
    let outside = tempfile::tempdir().unwrap();
    let place = outside.path().canonicalize().unwrap();
    let folder =
        Folder::of(&format!("sandbox: {{paths: {{data: {{root: '{}', mode: ro}}}}}}", place.display()));
    let problem = folder.builder("answers: []").open().unwrap().entry().err().unwrap();
    let text = problem.explained();
    assert!(text.contains(&format!("grant `{}:ro`", place.display())), "{text}");
    let options = llm_do::Options::new().grant(format!("{}:ro", place.display()));
    assert!(folder.builder("answers: []").options(options).open().unwrap().entry().is_ok());
}
