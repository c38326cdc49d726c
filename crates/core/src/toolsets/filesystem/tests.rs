//! Tests of the tools over a file system in memory. The tests of the native file system cover real files.

use super::*;
use crate::{
    authority::{Approvals, Bounds, Extent, Mount, Network, Place, Protection, View, VirtualPath},
    call_path::CallPath,
    results::{SHOWN_CHARS, first_page},
    shared::{InProcess, Results, Shared},
    vfs::MemoryFileSystem,
};
use futures_util::FutureExt;

struct Files {
    files: MemoryFileSystem,
    authority: Arc<Authority>,
    shared: InProcess,
}

fn host(approvals: Approvals) -> Files {
    let root = Place::new("/p");
    let files = MemoryFileSystem::new();
    files.put(&root.join("notes/a.md"), &b"alpha\nbeta\n"[..]);
    let mount = Mount { approvals, ..Mount::new(VirtualPath::root(), root.clone(), Access::Write) };
    let bounds = Bounds::new(vec![Extent { place: root.clone(), access: Access::Write }], Network::Off);
    let authority = Authority::new(bounds, View::new(vec![mount]), Arc::new(Protection::new(root, [])));
    Files { files, authority: Arc::new(authority), shared: InProcess::default() }
}

impl Files {
    fn function(&self, name: &str) -> Function {
        Filesystem::made_for(&self.authority, None).into_iter().find(|f| &*f.meta.name == name).unwrap()
    }

    fn effects(&self, name: &str, input: &Value) -> Vec<(String, Access, bool)> {
        let Implementation::Leaf(leaf) = self.function(name).body else { panic!("it is a leaf") };
        leaf.effects(input).touches.into_iter().map(|t| (t.path, t.access, t.delete)).collect()
    }

    /// Passes a call of the tool to `work`, without a world that waits.
    fn with<T>(
        &self,
        name: &str,
        input: &Value,
        work: impl FnOnce(&dyn Leaf, LeafCall<'_>) -> T,
    ) -> Result<T, String> {
        let Implementation::Leaf(leaf) = self.function(name).body else { panic!("it is a leaf") };
        let places: Vec<_> = leaf
            .effects(input)
            .touches
            .iter()
            .map(|t| self.authority.locate(&t.path, t.access).map_err(|refusal| refusal.to_string()))
            .collect::<Result<_, _>>()?;
        let conversation = CallPath::root();
        let call = LeafCall {
            redact: &crate::redact::NoSecrets,
            run: "run",
            input,
            places: &places,
            authority: &self.authority,
            files: &self.files,
            results: Results::new(&self.shared, &conversation),
            untrusted: &crate::origin::UntrustedSet::default(),
            idempotency_key: "",
        };
        Ok(work(&*leaf, call))
    }

    fn foresee(&self, name: &str, input: &Value) -> Option<Foreseen> {
        let foreseen = self.with(name, input, |leaf, call| leaf.foresee(call).now_or_never());
        foreseen.unwrap().expect("memory does not wait")
    }

    fn look_back(&self, name: &str, input: &Value, foreseen: &Foreseen) -> Option<Answer> {
        let found = self.with(name, input, |leaf, call| leaf.look_back(call, foreseen).now_or_never());
        found.unwrap().expect("memory does not wait")
    }

    fn call(&self, name: &str, input: Value) -> Result<Value, String> {
        let function = self.function(name);
        function.meta.input.validate(&input).map_err(|wrong| wrong[0].to_string())?;
        let run = self.with(name, &input, |leaf, call| leaf.run(call).now_or_never())?;
        let output = run.expect("memory does not wait").map_err(|error| error.message)?;
        if let Some(schema) = &function.meta.output {
            schema.schema().validate(&output.value).unwrap();
        }
        Ok(output.value)
    }
}

#[test]
fn every_schema_is_one_and_takes_nothing_unknown() {
    let host = host(Approvals::default());
    let tools = Filesystem::made_for(&host.authority, None);
    assert_eq!(tools.len(), Tool::ALL.len());
    for tool in tools {
        let meta = tool.meta;
        Schema::new((**meta.input.value()).clone()).unwrap();
        assert!(meta.input.validate(&json!({"path": "/x", "unknown": 1})).is_err(), "{}", meta.name);
        assert!(meta.description.len() > 40, "{}", meta.name);
        for (name, property) in meta.input.value()["properties"].as_object().unwrap() {
            assert!(property["description"].is_string(), "{}.{name}", meta.name);
        }
    }
    Schema::new((**Filesystem.configuration().value()).clone()).unwrap();
    assert!(Filesystem.configuration().validate(&json!({"root": "x"})).is_err());
}

#[test]
fn the_effects_of_a_call_are_known_from_its_input() {
    use Access::{Read, Write};
    let host = host(Approvals::default());
    let touch = |path: &str, access, delete| (path.to_owned(), access, delete);
    for tool in ["read_file", "file_info", "file_exists"] {
        assert_eq!(host.effects(tool, &json!({"path": "a"})), [touch("a", Read, false)]);
    }
    for tool in ["write_file", "edit_file", "append_file"] {
        assert_eq!(host.effects(tool, &json!({"path": "a"})), [touch("a", Write, false)]);
    }
    assert_eq!(host.effects("delete_file", &json!({"path": "a"})), [touch("a", Write, true)]);
    let both = json!({"source": "a", "destination": "b"});
    assert_eq!(host.effects("move_file", &both), [touch("a", Write, true), touch("b", Write, false)]);
    assert_eq!(host.effects("copy_file", &both), [touch("a", Read, false), touch("b", Write, false)]);
    assert_eq!(host.effects("list_files", &json!({})), [touch("/", Read, false)]);
    assert_eq!(
        host.effects("search_files", &json!({"pattern": "x", "path": "notes"})),
        [touch("/notes", Read, false)]
    );
    assert_eq!(host.effects("read_file", &json!({"path": "/results/1"})), []);
}

#[test]
fn a_listing_of_a_mount_that_asks_is_asked_about() {
    let asking = Approvals { read: Some(Rule::Ask), ..Approvals::default() };
    let host = host(asking);
    assert_eq!(host.effects("list_files", &json!({})).len(), 1, "so the engine meets the mount's rule");
    let blocked = self::host(Approvals { read: Some(Rule::Blocked), ..Approvals::default() });
    assert_eq!(
        blocked.effects("list_files", &json!({})).len(),
        1,
        "where nothing else is left the engine refuses"
    );
}

#[test]
fn a_cut_result_is_read_on() {
    let host = host(Approvals::default());
    let long = "0123456789".repeat(SHOWN_CHARS / 10 + 3);
    let number = host.shared.keep_result(&CallPath::root(), &long).now_or_never();
    let shown = first_page(&long, number);
    assert!(
        shown.ends_with(&format!("read_file(path=\"/results/1\", offset={SHOWN_CHARS}).]")),
        "{}",
        &shown[shown.len() - 90..]
    );
    let rest = host.call("read_file", json!({"path": "/results/1", "offset": SHOWN_CHARS})).unwrap();
    assert_eq!(rest, "0123456789".repeat(3));
    let error = host.call("read_file", json!({"path": "results/2"})).unwrap_err();
    assert!(error.contains("no such result"), "{error}");
}

#[test]
fn files_in_memory_are_worked_with_like_any() {
    let host = host(Approvals::default());
    let edit = json!({"path": "notes/a.md", "old_text": "beta", "new_text": "gamma"});
    assert_eq!(host.call("edit_file", edit).unwrap(), "Replaced the text at line 2 of `/notes/a.md`.");
    host.call("move_file", json!({"source": "notes/a.md", "destination": "b/c.md"})).unwrap();
    assert_eq!(host.call("read_file", json!({"path": "/b/c.md"})).unwrap(), "alpha\ngamma\n");
    assert_eq!(host.call("list_files", json!({})).unwrap(), "/b/\n/b/c.md  (12 bytes)\n/notes/");
    assert_eq!(host.call("search_files", json!({"pattern": "^g"})).unwrap(), "/b/c.md:2: gamma");
    assert_eq!(host.call("file_exists", json!({"path": "/notes/a.md"})).unwrap(), false);
    assert_eq!(
        host.call("file_info", json!({"path": "/notes"})).unwrap(),
        json!({"path": "/notes", "kind": "folder"})
    );
    assert!(
        host.call("write_file", json!({"path": "/main.worker", "content": ""}))
            .unwrap_err()
            .contains("read-only")
    );
    let missing = host.call("read_file", json!({"path": "/b/C.MD"})).unwrap_err();
    assert_eq!(missing, "`/b/C.MD` does not exist. Did you mean `/b/c.md`?");
    assert!(host.call("read_file", json!({"path": "/b/c.md", "offset": -1})).is_err());
}

#[test]
fn a_change_that_was_cut_off_tells_whether_it_was_made() {
    let calls = [
        ("write_file", json!({"path": "new/b.md", "content": "b"})),
        ("write_file", json!({"path": "notes/a.md", "content": "new"})),
        ("append_file", json!({"path": "notes/a.md", "content": "gamma\n"})),
        ("append_file", json!({"path": "notes/b.md", "content": "gamma\n"})),
        ("edit_file", json!({"path": "notes/a.md", "old_text": "alpha", "new_text": "omega"})),
        ("delete_file", json!({"path": "notes/a.md"})),
        ("move_file", json!({"source": "notes/a.md", "destination": "c.md"})),
        ("move_file", json!({"source": "notes", "destination": "old"})),
        ("copy_file", json!({"source": "notes/a.md", "destination": "c.md"})),
    ];
    for (name, input) in calls {
        let host = host(Approvals::default());
        let foreseen = host.foresee(name, &input).unwrap_or_else(|| panic!("{name} is foreseen"));
        assert_eq!(host.look_back(name, &input, &foreseen), Some(Answer::Again), "{name}");
        let result = host.call(name, input.clone()).unwrap();
        let done = Arc::new(result);
        assert_eq!(host.look_back(name, &input, &foreseen), Some(Answer::Done { result: done }), "{name}");
        let meddled = foreseen.changes.last().unwrap().path.trim_start_matches('/').to_owned();
        if host.files.get(&Place::new("/p").join(&meddled)).is_some() || name == "delete_file" {
            host.files.put(&Place::new("/p").join(&meddled), &b"by somebody else"[..]);
            assert_eq!(host.look_back(name, &input, &foreseen), None, "{name}");
        }
    }
}

#[test]
fn an_appended_text_gets_the_ends_of_the_files_lines() {
    let host = host(Approvals::default());
    for (before, content, after) in [
        ("a\r\nb\r\n", "c\nd\n", "a\r\nb\r\nc\r\nd\r\n"),
        ("a\r\nb\r\n", "c\r\n", "a\r\nb\r\nc\r\n"),
        ("a\nb\n", "c\n", "a\nb\nc\n"),
        ("a\r\nb\n", "c\n", "a\r\nb\nc\n"),
        ("a", "b\n", "ab\n"),
    ] {
        let file = Place::new("/p/notes/a.md");
        host.files.put(&file, before.as_bytes());
        let input = json!({"path": "notes/a.md", "content": content});
        let foreseen = host.foresee("append_file", &input).expect("it is foreseen");
        let done = Arc::new(host.call("append_file", input.clone()).unwrap());
        assert_eq!(host.files.get(&file).as_deref(), Some(after.as_bytes()), "{before:?}");
        assert_eq!(host.look_back("append_file", &input, &foreseen), Some(Answer::Done { result: done }));
    }
}

#[test]
fn what_will_fail_or_only_reads_foresees_nothing() {
    let host = host(Approvals::default());
    for (name, input) in [
        ("read_file", json!({"path": "notes/a.md"})),
        ("edit_file", json!({"path": "notes/a.md", "old_text": "zeta", "new_text": "x"})),
        ("edit_file", json!({"path": "notes/none.md", "old_text": "zeta", "new_text": "x"})),
        ("append_file", json!({"path": "notes", "content": "x"})),
    ] {
        assert_eq!(host.foresee(name, &input), None, "{name}");
    }
}

#[test]
fn a_large_file_is_left_to_the_operator() {
    let host = host(Approvals::default());
    host.files.put(&Place::new("/p/large"), vec![b'x'; 5 << 20]);
    assert_eq!(host.foresee("write_file", &json!({"path": "large", "content": "x"})), None);
}

#[test]
fn every_tool_has_its_own_schemas() {
    for (at, tool) in Tool::ALL.iter().enumerate() {
        assert_eq!(*tool as usize, at, "the table of schemas is in this order");
        assert_eq!(**tool.schemas().input.value(), tool.input());
    }
}
