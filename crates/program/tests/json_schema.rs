//! The JSON Schemas accept what the loader accepts, and refuse what it refuses (the exceptions are in
//! `src/json_schema.rs`).
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

mod stand_in;

use llm_do_core::{schema::Schema, toolset::ToolsetRegistry};
use llm_do_program::{
    UserConfig,
    budgets::TimeBudgets,
    front_matter, json_schema, keys,
    shape::{self, Key, Shape},
    span::SourceFile,
    toolsets,
    yaml::{self, Node},
};
use proptest::{prelude::*, sample::select};
use serde_json::{Map, Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
};

static REGISTRY: LazyLock<ToolsetRegistry> = LazyLock::new(|| {
    let mut registry = stand_in::registry();
    registry.register(Arc::new(llm_do_python::Programs::unbound()));
    registry
});
static WORKER: LazyLock<Schema> = LazyLock::new(|| Schema::new(json_schema::worker(&REGISTRY)).unwrap());
static MANIFEST: LazyLock<Schema> = LazyLock::new(|| Schema::new(json_schema::manifest(&REGISTRY)).unwrap());

static CASES: LazyLock<Schema> = LazyLock::new(|| Schema::new(json_schema::cases(&REGISTRY)).unwrap());

static LIBRARY: LazyLock<Schema> = LazyLock::new(|| Schema::new(json_schema::library(&REGISTRY)).unwrap());

/// Returns the codes of the loader's findings about the keys, types and values of a file.
fn loader(node: &Node, table: &'static [Key]) -> Vec<&'static str> {
    let mut found = Vec::new();
    let checked = shape::check(node, table, "", &mut found);
    let declared = toolsets::declared(|key| checked.get(key), &REGISTRY, &mut found);
    if let Some(given) = checked.get("toolsets") {
        toolsets::read(given, &REGISTRY, &declared, &mut found);
    }
    found.iter().map(|finding| finding.code.id).collect()
}

/// Errors that only the loader finds: a key under two names, contradictions, patterns of rules, servers that are not
/// declared.
const BEYOND: [&str; 4] = ["E0108", "E0205", "E0404", "E0425"];

fn assert_agreement(text: &str, node: &Node, table: &'static [Key], schema: &Schema) {
    let found = loader(node, table);
    // The second of two names isn't looked at by the loader.
    if found.contains(&"E0108") {
        return;
    }
    let said = schema.validate(&node.to_json());
    let fits = found.iter().all(|code| BEYOND.contains(code));
    assert_eq!(said.is_ok(), fits, "{text}\nloader: {found:?}\nschema: {said:?}");
}

/// Returns a strategy for values of which most fit the shape.
fn value(shape: &'static Shape) -> BoxedStrategy<Value> {
    prop_oneof![12 => fitting(shape), 1 => anything(), 1 => Just(Value::Null)].boxed()
}

fn anything() -> BoxedStrategy<Value> {
    prop_oneof![
        any::<bool>().prop_map(Value::from),
        (-2i64..20).prop_map(Value::from),
        Just(json!(0.5)),
        Just(json!(-1.5)),
        "[a-z]{0,4}".prop_map(Value::from),
        Just(json!([])),
        Just(json!(["a", 1])),
        Just(json!([null])),
        Just(json!({})),
        Just(json!({"a": 1})),
        Just(json!({"x-a": 1})),
        Just(json!({"preApproved": true})),
    ]
    .boxed()
}

fn text() -> BoxedStrategy<Value> {
    select(vec!["a", "b*", "filesystem", "workers", "single", "chat", "rw", "ask", "5m", "yes", ""])
        .prop_map(Value::from)
        .boxed()
}

fn fitting(shape: &'static Shape) -> BoxedStrategy<Value> {
    match shape {
        Shape::Text => text(),
        Shape::Flag => any::<bool>().prop_map(Value::from).boxed(),
        Shape::Count(least) => (least.saturating_sub(1)..least + 9).prop_map(Value::from).boxed(),
        Shape::Number(least, most) => {
            let (least, most) = (*least, most.min(1e3));
            select(vec![json!(least), json!(most), json!(least + 0.5), json!(most + 0.5), json!(1)]).boxed()
        }
        Shape::Duration => select(vec![
            json!(1),
            json!(0.5),
            json!(0),
            json!(-1),
            json!("90s"),
            json!(" 1.5 h "),
            json!("5 weeks"),
            json!("5"),
            json!("m"),
            json!(".5m"),
            json!("1.m"),
            json!("."),
            json!("1.2.3s"),
            json!(1e12),
            json!(true),
        ])
        .boxed(),
        Shape::Rule => select(vec![
            json!("ask"),
            json!("preApproved"),
            json!("blocked"),
            json!("Ask"),
            json!({"pre_approved": true}),
            json!({"approvalRequired": false}),
            json!({"approval_required": null}),
            json!({"preApproved": "yes"}),
            json!({"allowed": true}),
        ])
        .boxed(),
        Shape::Approval => prop_oneof![any::<bool>().prop_map(Value::from), fitting(&Shape::Rule)].boxed(),
        Shape::Choice(now, later) => {
            select(now.iter().chain(*later).map(|name| json!(name)).collect::<Vec<_>>()).boxed()
        }
        Shape::Texts => {
            prop_oneof![text(), prop::collection::vec(text(), 0..3).prop_map(Value::from)].boxed()
        }
        Shape::List(inner) => prop::collection::vec(fitting(inner), 0..3).prop_map(Value::from).boxed(),
        Shape::Map(inner) => {
            prop::collection::vec((select(vec!["a", "b", "x-c", "filesystem"]), value(inner)), 0..3)
                .prop_map(|entries| {
                    Value::Object(entries.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
                })
                .boxed()
        }
        Shape::Record(keys) => record(keys, 0..4),
        Shape::Records(keys) => prop::collection::vec(record(keys, 0..4), 0..3).prop_map(Value::from).boxed(),
        Shape::Either(shapes) => prop::strategy::Union::new(shapes.iter().map(fitting)).boxed(),
        Shape::Any | Shape::Later => anything(),
    }
}

/// Returns a strategy for a map of some of these keys, some in other spellings, and sometimes with an unknown key.
fn record(keys: &'static [Key], count: std::ops::Range<usize>) -> BoxedStrategy<Value> {
    let one = select(keys.iter().collect::<Vec<_>>()).prop_flat_map(|key| {
        let names: Vec<String> = key
            .aliases
            .iter()
            .map(|alias| (*alias).to_owned())
            .chain([key.name.to_owned(), key.name.to_owned(), camel(key.name, false), camel(key.name, true)])
            .collect();
        let given = if key.name == "toolsets" { toolset_map() } else { value(&key.shape) };
        // A null for a key that comes later is one of the exceptions.
        let given = given
            .prop_filter("null for later", |value| !matches!(key.shape, Shape::Later) || !value.is_null());
        (select(names), given)
    });
    let stray = (select(vec!["x-mine", "modle", "maxturns", "X-no"]), anything())
        .prop_map(|(k, v)| (k.to_owned(), v));
    let required = keys.iter().filter(|key| key.required).map(|key| {
        (select(vec![key.name.to_owned(), camel(key.name, false)]), fitting(&key.shape))
            .prop_filter("not null", |(_, value)| !value.is_null())
    });
    let required = required.collect::<Vec<_>>();
    let many = prop::collection::vec(prop_oneof![20 => one, 1 => stray], count);
    (many, required, prop::bool::weighted(0.9))
        .prop_map(|(many, required, complete)| {
            let required = required.into_iter().filter(|_| complete);
            Value::Object(many.into_iter().chain(required).collect::<Map<String, Value>>())
        })
        .boxed()
}

fn toolset_map() -> BoxedStrategy<Value> {
    let own = select(vec![
        json!({}),
        json!({"allowed_workers": ["a"], "style": "both"}),
        json!({"allowedWorkers": ["a"], "Style": "tools"}),
        json!({"allowed_workers": "a"}),
        json!({"allowed_workers": null, "style": "neither"}),
        json!({"preApproved": true}),
        json!({"approval_required": "yes"}),
        json!({"root": "/"}),
        json!({"x-mine": 1}),
        json!({"module": "tools.py", "greet": {"pre_approved": true}}),
        json!({"Module": "tools.py", "greet": {"preApproved": true}, "wave": null}),
        json!({"greet": {"approvalRequired": null}, "wave": {"pre_approved": "yes"}}),
        json!({"greet": {"approval": "ask"}}),
        json!({"greet": true}),
        json!(true),
    ]);
    let configuration = (own, record(keys::TOOLSET, 0..3)).prop_map(|(mut own, shared)| {
        if let (Some(own), Value::Object(shared)) = (own.as_object_mut(), shared) {
            own.extend(shared);
        }
        own
    });
    let name = select(vec!["filesystem", "workers", "custom", "delegation", "filesystme", "shell"]);
    prop_oneof![
        3 => prop::collection::vec((name, configuration), 0..3)
            .prop_map(|entries| Value::Object(entries.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())),
        1 => fitting(&Shape::Texts),
    ]
    .boxed()
}

fn camel(name: &str, capital: bool) -> String {
    let mut upper = capital;
    let mut out = String::new();
    for c in name.chars() {
        match (c, upper) {
            ('_', _) => upper = true,
            (c, true) => {
                out.extend(c.to_uppercase());
                upper = false;
            }
            (c, false) => out.push(c),
        }
    }
    out
}

/// Returns true if a value contains no float that is a whole number: the schema accepts these where a whole number
/// belongs, because JSON has one kind of number.
fn without_whole_floats(value: &Value) -> bool {
    match value {
        Value::Number(number) => !number.as_f64().is_some_and(|n| number.is_f64() && n.fract() == 0.0),
        Value::Array(items) => items.iter().all(without_whole_floats),
        Value::Object(map) => map.values().all(without_whole_floats),
        _ => true,
    }
}

fn generated(value: &Value, table: &'static [Key], schema: &Schema) {
    let text = value.to_string();
    let node = yaml::parse(&SourceFile::new("x.yaml", text.as_str()), text.len()).unwrap();
    assert_agreement(&text, &node, table, schema);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn loader_and_schema_agree_on_workers(value in record(keys::WORKER, 0..7).prop_filter("whole", without_whole_floats)) {
        generated(&value, keys::WORKER, &WORKER);
    }

    #[test]
    fn loader_and_schema_agree_on_libraries(value in record(keys::LIBRARY, 0..4).prop_filter("whole", without_whole_floats)) {
        generated(&value, keys::LIBRARY, &LIBRARY);
    }

    #[test]
    fn loader_and_schema_agree_on_manifests(value in record(keys::MANIFEST, 0..7).prop_filter("whole", without_whole_floats)) {
        generated(&value, keys::MANIFEST, &MANIFEST);
    }
}

#[test]
fn both_verdicts_are_met_for_every_key() {
    // What the properties generate would prove nothing if all of it were refused.
    for (table, schema) in [(keys::WORKER, &*WORKER), (keys::MANIFEST, &*MANIFEST)] {
        for key in table.iter().filter(|key| !matches!(key.shape, Shape::Later)) {
            let mut runner = proptest::test_runner::TestRunner::deterministic();
            let given = if key.name == "toolsets" { toolset_map() } else { fitting(&key.shape) };
            let accepted = (0..60).any(|_| {
                let value = given.new_tree(&mut runner).unwrap().current();
                schema.validate(&json!({ key.name: value })).is_ok()
            });
            assert!(accepted, "{}", key.name);
            if !matches!(key.shape, Shape::Any) {
                assert!(schema.validate(&json!({ key.name: [[1]] })).is_err(), "{}", key.name);
            }
        }
    }
}

/// Lists every definition file below a folder.
fn definitions(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
        match path.is_dir() {
            true => definitions(&path, out),
            false if ["worker", "yaml", "yml"].contains(&extension) => out.push(path),
            false => {}
        }
    }
}

/// Returns the keys of a file as a value, and the table and schema to which they belong, or `None` if the text isn't
/// even YAML.
fn read(path: &Path) -> Option<(Node, &'static [Key], &'static Schema)> {
    let text = fs::read_to_string(path).ok()?;
    let file = SourceFile::new("x", text);
    let name = path.file_name()?.to_str()?;
    match name {
        "lib.yaml" => Some((front_matter::yaml_only(file).ok()?.keys, keys::LIBRARY, &LIBRARY)),
        "project.yaml" | "llm-do.yaml" => {
            Some((front_matter::yaml_only(file).ok()?.keys, keys::MANIFEST, &MANIFEST))
        }
        name if name.ends_with(".cases.yaml") => {
            Some((front_matter::yaml_only(file).ok()?.keys, keys::CASES, &CASES))
        }
        name if name.ends_with(".worker") => {
            Some((front_matter::worker(file).ok()?.keys, keys::WORKER, &WORKER))
        }
        _ => Some((front_matter::yaml_only(file).ok()?.keys, keys::WORKER, &WORKER)),
    }
}

#[test]
fn loader_and_schema_agree_on_every_bad_program() {
    let mut files = Vec::new();
    definitions(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/check"), &mut files);
    let mut looked_at = 0;
    for path in files {
        let Some((node, table, schema)) = read(&path) else { continue };
        looked_at += 1;
        // A front matter that is no map is told before the keys are looked at.
        if !matches!(node.data, yaml::Data::Map(_) | yaml::Data::Null) {
            assert!(schema.validate(&node.to_json()).is_err(), "{}", path.display());
            continue;
        }
        assert_agreement(&path.display().to_string(), &node, table, schema);
    }
    assert!(looked_at > 40, "the cases are gone");
}

#[test]
fn every_example_is_valid() {
    let mut files = Vec::new();
    definitions(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples"), &mut files);
    let files: Vec<_> =
        files.iter().filter(|path| !path.components().any(|c| c.as_os_str() == "scripts")).collect();
    assert!(files.len() >= 4);
    for path in files {
        let (node, _, schema) = read(path).unwrap();
        assert_eq!(schema.validate(&node.to_json()), Ok(()), "{}", path.display());
    }
}

#[test]
fn every_yaml_block_of_the_documentation_is_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = ["docs", "docs/guides", "docs/reference"];
    let pages = folders.iter().flat_map(|folder| fs::read_dir(root.join(folder)).unwrap());
    let pages: Vec<_> = pages
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "md"))
        .chain([root.join("README.md")])
        .collect();
    let mut blocks = 0;
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        let name = page.file_name().unwrap().to_str().unwrap();
        for piece in text.split("\n```yaml").skip(1) {
            let (kind, rest) = piece.split_once('\n').unwrap();
            let (block, _) = rest.split_once("\n```").unwrap();
            let file = SourceFile::new(name, format!("{block}\n"));
            let kind = kind.trim();
            if kind.starts_with("before ") {
                continue; // An older layout that `migrate` takes.
            }
            let (document, schema) = match kind {
                // Its form is the business of the package that reads it.
                "script" => continue,
                "config" => {
                    assert!(
                        UserConfig::parse(name, block, &|set| Err(set.to_string())).is_ok(),
                        "{name}:\n{block}"
                    );
                    continue;
                }
                "budgets" => {
                    assert!(
                        TimeBudgets::parse(name, block, Some(Path::new("/home/ann")), |_| true).is_ok(),
                        "{name}:\n{block}"
                    );
                    let keys = front_matter::yaml_only(file).unwrap().keys.to_json();
                    assert_eq!(Schema::new(json_schema::budgets()).unwrap().validate(&keys), Ok(()));
                    continue;
                }
                // Read by the tests of those pages.
                "lock" | "tokens" | "triggers" | "notify" => continue,
                "manifest" => (front_matter::yaml_only(file), &*MANIFEST),
                after if after.starts_with("after ") && after.ends_with(".worker") => {
                    (front_matter::worker(file), &*WORKER)
                }
                "after project.yaml" => (front_matter::yaml_only(file), &*MANIFEST),
                "" if block.starts_with("---") => (front_matter::worker(file), &*WORKER),
                "" if block.lines().any(|line| line == "cases:") => (front_matter::yaml_only(file), &*CASES),
                "library" => (front_matter::yaml_only(file), &*LIBRARY),
                "" if ["projects.md", "manifest.md"].contains(&name) => {
                    (front_matter::yaml_only(file), &*MANIFEST)
                }
                "" => (front_matter::yaml_only(file), &*WORKER),
                other => panic!("{name}: what is a `{other}` block?"),
            };
            let keys = document.unwrap().keys.to_json();
            assert_eq!(schema.validate(&keys), Ok(()), "{name}:\n{block}");
            blocks += 1;
        }
    }
    assert!(blocks >= 12, "the pages have lost their examples");
}
