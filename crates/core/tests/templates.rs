//! The rendering held against the Python library's own cases, and against `docs/reference/templates.md`, which lists
//! every difference.
#![expect(clippy::disallowed_methods, reason = "the cases and the documentation are files")]

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

use llm_do_core::template::{
    Origin, Settings, TemplateError, TemplateErrorKind, TemplateFacts, TemplateName, TemplateRefusal,
    TemplateSource, TemplateText, Undefined, confine, inspect, render, render_with,
};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

/// Templates by name.
struct Named(BTreeMap<String, String>);

impl TemplateSource for Named {
    fn template(&self, name: &TemplateName) -> Result<Option<TemplateText>, TemplateRefusal> {
        let name = name.to_string();
        Ok(self.0.get(&name).map(|text| TemplateText {
            text: text.as_str().into(),
            origin: name,
            place: None,
        }))
    }

    fn file(&self, name: &TemplateName) -> Result<Option<TemplateText>, TemplateRefusal> {
        self.template(name)
    }
}

/// One rendering recorded from the Python library.
struct Case {
    id: String,
    source: String,
    templates: BTreeMap<String, String>,
    context: Json,
    undefined: Undefined,
    /// The text, or nothing where the library raises an error.
    expected: Option<String>,
}

fn crate_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A corpus that is not ours, beside the checkout; CI always has it.
fn corpus(name: &str) -> Option<String> {
    let path = crate_dir().join("../../../shared/corpora").join(name);
    let text = std::fs::read_to_string(&path).ok();
    assert!(text.is_some() || std::env::var_os("CI").is_none(), "CI has {}", path.display());
    text
}

/// The cases, one JSON object a line.
fn cases(text: &str) -> Vec<Case> {
    let mut seen = BTreeMap::<String, usize>::new();
    let case = |line: &str| {
        let json: Json = serde_json::from_str(line).expect("JSON");
        let text = |key: &str| json[key].as_str().map(str::to_owned);
        let test = text("test").expect("a test");
        let number = seen.entry(test.clone()).or_default();
        *number += 1;
        Case {
            id: format!("{test} #{number}"),
            source: text("source").expect("a source"),
            templates: serde_json::from_value(json["templates"].clone()).expect("templates by name"),
            context: json["context"].clone(),
            undefined: match json["undefined"].as_str().expect("a mode") {
                "StrictUndefined" => Undefined::Strict,
                "ChainableUndefined" => Undefined::Chainable,
                _ => Undefined::Lenient,
            },
            expected: text("output"),
        }
    };
    text.lines().map(case).collect()
}

/// What people are told, with the table of differences.
fn document() -> String {
    std::fs::read_to_string(crate_dir().join("../../docs/reference/templates.md"))
        .expect("the documentation of templates")
}

/// The rows of the table of differences: `name #n`, or `name` for every case of that test.
fn listed(document: &str) -> BTreeSet<String> {
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `test_"));
    rows.map(|row| format!("test_{}", row.split_once("` | ").expect("a cell").0.replace("\\|", "|")))
        .collect()
}

#[test]
fn every_case_of_the_python_library_renders_the_same_or_is_listed() {
    let Some(text) = corpus("jinja2-cases.jsonl") else {
        println!("skipped: the corpora are not beside the checkout");
        return;
    };
    let (cases, document) = (cases(&text), document());
    let listed = listed(&document);
    let mut used = BTreeSet::new();
    let mut wrong = Vec::new();
    let mut same = 0;
    for case in &cases {
        let settings = Settings { undefined: case.undefined, ..Settings::default() };
        let source = Arc::new(Named(case.templates.clone()));
        let rendered = render_with(&case.source, &Origin::file("case"), &case.context, source, settings);
        let as_expected = match (&rendered, &case.expected) {
            (Ok(text), Some(expected)) => text == expected,
            (Err(_), None) => true,
            _ => false,
        };
        same += usize::from(as_expected);
        let whole_test = case.id.rsplit_once(" #").unwrap().0;
        let entry = [case.id.as_str(), whole_test].into_iter().find(|id| listed.contains(*id));
        used.extend(entry);
        match (as_expected, entry) {
            (true, Some(entry)) => wrong.push(format!("{entry}: renders the same now; take it off the list")),
            (false, None) => wrong.push(format!(
                "{}\n  source   {:?}\n  expected {:?}\n  rendered {:?}",
                case.id,
                case.source,
                case.expected,
                rendered.map_err(|error| error.to_string())
            )),
            _ => {}
        }
    }
    let count = format!("Of {}, {same} are the same", cases.len());
    if !document.replace('\n', " ").contains(&count) {
        wrong.push(format!("the documentation does not say: {count}"));
    }
    wrong.extend(
        listed.iter().filter(|id| !used.contains(id.as_str())).map(|id| format!("{id}: no such case")),
    );
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

/// Files by path, in the order of the roots they would be looked up in, and what was asked for.
#[derive(Default)]
struct Files {
    texts: BTreeMap<String, String>,
    refused: BTreeMap<String, String>,
    asked: Mutex<Vec<String>>,
}

impl Files {
    fn of<const N: usize>(texts: [(&str, &str); N]) -> Arc<Self> {
        let texts = texts.map(|(name, text)| (name.to_owned(), text.to_owned()));
        Arc::new(Self { texts: texts.into(), ..Self::default() })
    }
}

impl TemplateSource for Files {
    fn template(&self, name: &TemplateName) -> Result<Option<TemplateText>, TemplateRefusal> {
        let name = name.to_string();
        self.asked.lock().expect("no test panics with it").push(name.clone());
        if let Some(reason) = self.refused.get(&name) {
            return Err(TemplateRefusal { name, reason: reason.clone() });
        }
        let text = self.texts.get(&name);
        Ok(text.map(|text| TemplateText {
            text: text.as_str().into(),
            origin: format!("templates/{name}"),
            place: None,
        }))
    }

    fn file(&self, name: &TemplateName) -> Result<Option<TemplateText>, TemplateRefusal> {
        self.template(name)
    }
}

/// The instructions of a worker whose front matter ends in line 4.
fn instructions() -> Origin {
    Origin { file: "workers/greeter.worker".to_owned(), line: 5 }
}

fn rendered(text: &str, variables: &Json, files: &Arc<Files>) -> String {
    match render(text, &instructions(), variables, Arc::<Files>::clone(files)) {
        Ok(text) => text.into_owned(),
        Err(error) => panic!("{text:?}: {error}"),
    }
}

fn refused(text: &str, variables: &Json, files: &Arc<Files>) -> TemplateError {
    match render(text, &instructions(), variables, Arc::<Files>::clone(files)) {
        Ok(rendered) => panic!("{text:?} rendered {rendered:?}"),
        Err(error) => error,
    }
}

fn alone(text: &str) -> TemplateError {
    refused(text, &json!({}), &Files::of([]))
}

#[test]
fn a_text_without_jinja_syntax_is_not_touched() {
    let text = "Line } one\r\n{ not a tag }\n\n";
    let result = render(text, &instructions(), &json!({}), Files::of([])).unwrap();
    assert!(matches!(result, Cow::Borrowed(same) if std::ptr::eq(same, text)));
}

#[test]
fn a_rendered_text_loses_one_newline_at_its_end() {
    assert_eq!(rendered("Hello {{ name }}\n\n", &json!({"name": "Ada"}), &Files::of([])), "Hello Ada\n");
}

#[test]
fn values_print_as_in_python() {
    let variables = json!({"v": {"a": [1, 2.0, true, null, "it's"], "b": 1e100, "c": {}}});
    assert_eq!(
        rendered("{{ v.a }} {{ v.b }} {{ v.c }} {{ true }} {{ none }}", &variables, &Files::of([])),
        "[1, 2.0, True, None, \"it's\"] 1e+100 {} True None"
    );
}

#[test]
fn html_is_not_escaped() {
    let files = Files::of([("page.html", "{{ text }}")]);
    assert_eq!(
        rendered("{{ text }} {% include 'page.html' %}", &json!({"text": "<a&b>"}), &files),
        "<a&b> <a&b>"
    );
}

#[test]
fn python_methods_of_values_work() {
    let variables = json!({"name": "ada lovelace", "map": {"b": 1, "a": 2}, "list": ["x", "y"]});
    for (text, expected) in [
        ("{{ name.title() }}", "Ada Lovelace"),
        ("{{ name.split(' ')[0].upper() }}", "ADA"),
        ("{{ ', '.join(list) }}", "x, y"),
        ("{{ '{} of {n}'.format(1, n=2) }}", "1 of 2"),
        ("{{ '%s-%02d'|format('a', 7) }}", "a-07"),
        ("{% for key, value in map.items() %}{{ key }}={{ value }};{% endfor %}", "b=1;a=2;"),
        ("{{ map.get('zzz', 'none') }}", "none"),
        ("{{ name.removeprefix('ada ') }}|{{ name.partition(' ') }}", "lovelace|('ada', ' ', 'lovelace')"),
        (
            "{{ '7'.zfill(3) }}|{{ '-7'.zfill(3) }}|{{ 'x'.rjust(3, '.') }}|{{ list.index('y') }}",
            "007|-07|..x|1",
        ),
        ("{{ name.replace('a', 'o', 1) }}|{{ name|replace('a', 'o', 1) }}", "oda lovelace|oda lovelace"),
        ("{{ [[1], [2, 3]]|sum(start=[]) }}|{{ [1, 2]|sum }}", "[1, 2, 3]|3"),
    ] {
        assert_eq!(rendered(text, &variables, &Files::of([])), expected, "{text}");
    }
}

#[test]
fn changing_a_list_says_what_to_write_instead() {
    let error = refused("{% set _ = list.append(1) %}", &json!({"list": []}), &Files::of([]));
    assert_eq!(error.kind, TemplateErrorKind::Failed);
    assert!(error.message.contains("`old + [item]`"), "{error}");
}

#[test]
fn names_may_be_computed_and_name_libraries() {
    let files =
        Files::of([("locales/de.jinja", "Hallo {{ name }}"), ("lib:tone.jinja", "höflich"), ("b", "B")]);
    let variables = json!({"locale": "de", "name": "Ada"});
    assert_eq!(rendered("{% include 'locales/' + locale + '.jinja' %}", &variables, &files), "Hallo Ada");
    assert_eq!(rendered("{% include \"lib:tone.jinja\" %}", &variables, &files), "höflich");
    assert_eq!(
        rendered("{% include ['a', './b'] %}{% include 'c' ignore missing %}", &variables, &files),
        "BB"[..1]
    );
}

#[test]
fn inheritance_imports_and_macros_work_across_files() {
    let files = Files::of([
        ("base.jinja", "[{% block body %}base{% endblock %}]"),
        ("macros.jinja", "{% macro item(text, mark='-') %}{{ mark }} {{ text }}{% endmacro %}"),
    ]);
    assert_eq!(
        rendered(
            "{% extends 'base.jinja' %}{% from 'macros.jinja' import item %}{% block body %}{{ super() }} {{ item('x') }}{% endblock %}",
            &json!({}),
            &files
        ),
        "[base - x]"
    );
    assert_eq!(
        rendered("{% import 'macros.jinja' as m %}{{ m.item('y', mark='*') }}", &json!({}), &files),
        "* y"
    );
}

#[test]
fn a_file_is_inserted_as_it_is() {
    let files = Files::of([("notes.txt", "{{ not_rendered }}\r\n")]);
    assert_eq!(rendered("<{{ file(\"notes.txt\") }}>", &json!({}), &files), "<{{ not_rendered }}\r\n>");
    rendered("{% for i in range(10) %}{{ file('notes.txt') }}{% endfor %}", &json!({}), &files);
    assert_eq!(files.asked.lock().unwrap().len(), 2, "each rendering reads a file once");
}

#[test]
fn hostile_names_never_reach_the_source() {
    let files = Files::of([]);
    for name in
        ["../x", "/etc/passwd", "a/../../b", "..\\\\x", "x\\0", "C:/x", "lib:../x", "lib:/etc/passwd", ""]
    {
        for text in [
            format!("{{% include '{name}' %}}"),
            format!("{{% include '{name}' ignore missing %}}"),
            format!("{{% include ['{name}', 'x'] ignore missing %}}"),
            format!("{{% extends '{name}' %}}"),
            format!("{{% import '{name}' as x %}}"),
            format!("{{% from '{name}' import x %}}"),
            format!("{{{{ file('{name}') }}}}"),
        ] {
            let error = refused(&text, &json!({}), &files);
            assert_eq!(error.kind, TemplateErrorKind::Refused, "{text}: {error}");
            assert_eq!(
                (error.place.line, error.place.file.as_str()),
                (5, "workers/greeter.worker"),
                "{text}"
            );
        }
    }
    assert_eq!(*files.asked.lock().unwrap(), Vec::<String>::new());
}

#[test]
fn every_path_traversal_string_is_refused_or_stays_a_relative_name() {
    let Some(strings) = corpus("path-traversal.txt") else {
        println!("skipped: the corpora are not beside the checkout");
        return;
    };
    for name in strings.lines().map(|line| line.replace("{FILE}", "etc/passwd")) {
        if let Ok(name) = confine(&name) {
            let parts = || name.path().split('/');
            assert!(
                parts().all(|part| !matches!(part, "" | "." | "..")) && !name.path().contains('\\'),
                "{name}"
            );
        }
    }
}

#[test]
fn what_the_source_refuses_is_an_error_even_where_missing_is_ignored() {
    let reason = "it is invisible (`.env`)".to_owned();
    let files = Arc::new(Files { refused: [(".env".to_owned(), reason)].into(), ..Files::default() });
    for text in ["{% include '.env' ignore missing %}", "{{ file('.env') }}"] {
        let error = refused(text, &json!({}), &files);
        assert_eq!(error.kind, TemplateErrorKind::Refused);
        assert!(error.message.ends_with("it is invisible (`.env`)"), "{error}");
    }
}

#[test]
fn an_error_gives_the_line_of_the_file_with_its_front_matter() {
    let error = refused("Hello,\r\nyour name ä {{ nmae }}", &json!({"name": "Ada"}), &Files::of([]));
    assert_eq!(error.to_string(), "workers/greeter.worker:6:16: `nmae` is undefined; did you mean `name`?");
    assert_eq!(error.kind, TemplateErrorKind::Undefined);
}

#[test]
fn an_error_in_an_included_template_gives_its_place_and_who_included_it() {
    let files = Files::of([
        ("a.jinja", "\n  {% include 'b.jinja' %}"),
        ("b.jinja", "x\n{{ 1 / 0 }}"),
        ("c.jinja", "{% if %}"),
    ]);
    let error = refused("{% include 'a.jinja' %}", &json!({}), &files);
    let places: Vec<String> = error.included_from.iter().map(ToString::to_string).collect();
    assert_eq!(error.place.to_string(), "templates/b.jinja:2:4");
    assert_eq!(places, ["templates/a.jinja:2:6", "workers/greeter.worker:5:4"]);
    let error = refused("{% include 'c.jinja' %}", &json!({}), &files);
    assert_eq!(
        (error.kind, error.place.to_string()),
        (TemplateErrorKind::Syntax, "templates/c.jinja:1:7".to_owned())
    );
}

#[test]
fn hints_name_what_there_is() {
    let variables = json!({"user": {"name": "Ada", "mail": "x"}, "input": ""});
    let files = Files::of([]);
    for (text, expected) in [
        ("{{ user.nam }}", "`user.nam` is undefined; did you mean `user.name`?"),
        ("{{ user.zzz }}", "`user.zzz` is undefined; `user` has `mail`, `name`"),
        ("{{ zzz }}", "`zzz` is undefined; the variables are `input`, `user`"),
        ("{{ flie('x') }}", "`flie` is undefined; did you mean `file`?"),
        ("{{ input|uper }}", "there is no filter `uper`; did you mean `upper`?"),
        ("{{ input is strng }}", "there is no test `strng`; did you mean `string`?"),
        ("{% if zzz.a.b %}{% endif %}", "`zzz` is undefined; the variables are `input`, `user`"),
        ("{{ zzz|upper }}", "`zzz` is undefined; the variables are `input`, `user`"),
        ("{{ zzz.upper() }}", "`zzz` is undefined; the variables are `input`, `user`"),
    ] {
        let error = refused(text, &variables, &files).to_string();
        assert_eq!(error.split_once(": ").unwrap().1, expected, "{text}");
    }
}

#[test]
fn undefined_is_an_error_unless_it_is_asked_for() {
    let files = Files::of([]);
    for text in
        ["{{ x }}", "{% if x %}{% endif %}", "{% for i in x %}{% endfor %}", "{{ x ~ 'a' }}", "{{ a.x }}"]
    {
        assert_eq!(refused(text, &json!({"a": {}}), &files).kind, TemplateErrorKind::Undefined, "{text}");
    }
    let text = "{{ x is defined }} {{ x|default('d') }} {{ a.b is undefined }} {{ 'y' if false }}";
    assert_eq!(rendered(text, &json!({"a": {}}), &files), "False d True ");
}

#[test]
fn nothing_is_divided_by_zero() {
    let files = Files::of([]);
    let text = "{{ 6 is divisibleby 3 }} {{ 6 is divisibleby 4 }} {{ 1.5 is divisibleby 0.5 }}";
    assert_eq!(rendered(text, &json!({}), &files), "True False True");
    assert!(alone("{{ 6 is divisibleby 0 }}").to_string().contains("division by zero"));
}

#[test]
fn syntax_errors_have_their_place() {
    let error = alone("a\nb {{ 1 + }}");
    assert_eq!((error.kind, error.place.line), (TemplateErrorKind::Syntax, 6), "{error}");
    let error = alone("{% for x in [1] %}");
    assert_eq!((error.kind, error.place.line), (TemplateErrorKind::Syntax, 5), "{error}");
}

#[test]
fn an_error_is_one_line_of_bounded_length() {
    let variables = json!({"key": "class\nonclick", "long": "x".repeat(100_000)});
    for text in
        ["{{ {key: 1}|xmlattr }}", "{{ {long + ' ': 1}|xmlattr }}", "{% include long %}", "{{ file(long) }}"]
    {
        let error = refused(text, &variables, &Files::of([])).to_string();
        assert!(!error.contains('\n') && error.len() < 700, "{error}");
    }
}

#[test]
fn a_missing_template_or_file_says_where_it_is_looked_for() {
    for text in ["{% include 'zzz' %}", "{% extends 'zzz' %}", "{% import 'zzz' as z %}", "{{ file('zzz') }}"]
    {
        let error = alone(text);
        assert_eq!(error.kind, TemplateErrorKind::NotFound, "{error}");
        assert!(error.message.contains("zzz") && error.hint.is_some(), "{error}");
    }
}

#[test]
fn endless_loops_and_deep_recursion_end_in_an_error() {
    let files = Files::of([
        ("self.jinja", "{% include 'self.jinja' %}"),
        ("twice.jinja", "x{% include 'twice.jinja' %}{% include 'twice.jinja' %}"),
        ("a.jinja", "{% extends 'b.jinja' %}"),
        ("b.jinja", "{% extends 'a.jinja' %}"),
    ]);
    let chain = "a ~ ".repeat(100_000);
    let branches = "{% elif a %}".repeat(100_000);
    for text in [
        "{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}",
        "{% for a in range(10 ** 9) %}{% endfor %}",
        "{{ range(9223372036854775807, -9223372036854775807, -1) }}",
        "{% include 'self.jinja' %}",
        "{% include 'twice.jinja' %}",
        "{% extends 'a.jinja' %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro m(n) %}{{ m(n) }}{{ m(n) }}{% endmacro %}{{ m(1) }}",
        "{% block b %}{{ self.b() }}{% endblock %}",
        "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{% set n = namespace(x='xxxxxxxx') %}{% for i in range(99) %}{% set y %}{{ n.x }}{{ n.x }}{% endset %}{% set n.x = y %}{% endfor %}",
        "{% set n = namespace(x=[]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}",
        "{% for i in range(100000) %}{{ 'x' * 1000 }}{% endfor %}",
        "{{ 'x' * 5000000 }}",
        "{{ '%1000000000d'|format(1) }}{{ '{:>1000000000}'.format(1) }}",
        "{{ [1]|batch(1000000000, 'x') }}{{ [1]|slice(1000000000, 'x') }}{{ 'x'|center(1000000000) }}",
        "{{ [1]|tojson(indent=1000000000) }}",
        &format!("{{{{ {chain}a }}}}"),
        &format!("{{% if a %}}{branches}{{% endif %}}"),
        &format!("{{{{ {}a{} }}}}", "(".repeat(100_000), ")".repeat(100_000)),
        &"{% if a %}".repeat(100_000),
    ] {
        let error = refused(text, &json!({"a": 1}), &files);
        assert!(!error.message.is_empty() && error.to_string().len() < 400, "{error}");
    }
}

#[test]
fn limits_are_those_of_the_settings() {
    let render = |text: &str, settings| {
        let files = Files::of([("t", "{{ 1 }}")]);
        render_with(text, &instructions(), &json!({}), files, settings).map(Cow::into_owned)
    };
    let small = Settings { output: 100, steps: 100, depth: 1, ..Settings::default() };
    for text in [
        "{{ 'x' * 101 }}",
        "{% for i in range(60) %}{% endfor %}",
        "{% include 't' %}{% for i in range(99) %}abc{% endfor %}",
    ] {
        assert_eq!(render(text, small).unwrap_err().kind, TemplateErrorKind::Limit, "{text}");
    }
    assert_eq!(
        render(&format!("{{{{ 1 }}}}{}", "x".repeat(101)), small).unwrap_err().kind,
        TemplateErrorKind::Limit
    );
    assert_eq!(render("{{ 'x' * 100 }}", small).unwrap().len(), 100);
}

#[test]
fn inspecting_finds_variables_templates_and_files_without_rendering() {
    let text = "{% extends base if fancy else 'plain.jinja' %}{% from 'm.jinja' import m %}\n\
                {% for row in rows %}{{ row.x|default(fallback) }}{{ loop.index }}{% endfor %}\n\
                {% include ['a', 'b'] %}{% include 'c' ignore missing %}{{ file('notes.txt') }}{% set y = 1 %}{{ y + m(z) }}";
    let facts = inspect(text, &instructions()).unwrap();
    let names: Vec<&str> = facts.variables.keys().map(String::as_str).collect();
    assert_eq!(names, ["base", "fallback", "fancy", "rows", "z"]);
    assert_eq!(facts.variables["rows"].to_string(), "workers/greeter.worker:6:15");
    let templates: Vec<_> =
        facts.templates.iter().map(|found| (found.name.as_deref(), found.optional)).collect();
    assert_eq!(
        templates,
        [
            (None, true),
            (Some("plain.jinja"), true),
            (Some("m.jinja"), false),
            (Some("a"), true),
            (Some("b"), true),
            (Some("c"), true)
        ]
    );
    assert_eq!(facts.files.len(), 1);
    assert_eq!(facts.files[0].name.as_deref(), Some("notes.txt"));
    let error = inspect("{% if false %}\n{{ x|uper }}{% endif %}", &instructions()).unwrap_err();
    assert_eq!((error.place.line, error.hint.as_deref()), (6, Some("did you mean `upper`?")));
    assert!(inspect("{{ x in y and x is not strng }}", &instructions()).is_err());
    assert_eq!(inspect("no {syntax}", &instructions()).unwrap(), TemplateFacts::default());
    assert_eq!(inspect("{% if %}", &instructions()).unwrap_err().kind, TemplateErrorKind::Syntax);
}

proptest! {
    /// Rendering ends without a panic for any text.
    #[test]
    fn any_text_renders_or_is_an_error(parts in prop::collection::vec(prop::sample::select(FRAGMENTS), 0..12)) {
        let text = parts.concat();
        let source = Files::of([("t", "{{ a }}")]);
        let inspected = inspect(&text, &instructions());
        if let Err(error) = render(&text, &instructions(), &json!({"a": [1, "é"], "b": {"c": "x"}}), source) {
            prop_assert!(error.place.line >= 5 || error.place.file != "workers/greeter.worker");
            // What is no template at all is found before a run.
            prop_assert!(error.kind != TemplateErrorKind::Syntax || inspected.is_err());
        }
    }

    /// No name leaves its root.
    #[test]
    fn a_confined_name_is_relative(name in "[a./:\\\\\\x00 é-]{0,12}") {
        if let Ok(confined) = confine(&name) {
            let path = std::path::Path::new(confined.path());
            prop_assert!(path.components().all(|part| matches!(part, std::path::Component::Normal(_))));
        }
    }
}

/// Pieces of templates, whole and broken.
const FRAGMENTS: &[&str] = &[
    "{{",
    "}}",
    "{%",
    "%}",
    "{#",
    "#}",
    " a ",
    "b.c",
    "[0]",
    "|upper",
    "|join(',')",
    " for ",
    " in ",
    "{% if a %}",
    "{% endif %}",
    "{% else %}",
    "{% for x in a %}",
    "{% endfor %}",
    "{{ x }}",
    "{{ a }}",
    "{% include 't' %}",
    "{% block q %}",
    "{% endblock %}",
    "{% macro m(a, b=1) %}",
    "{% endmacro %}",
    "{{ m(1) }}",
    "{% set z = [a, b] %}",
    "{{ z ~ b }}",
    "'",
    "\"",
    "(",
    ")",
    "{",
    "}",
    "-",
    "\n",
    "é",
    "\\",
    "{% raw %}",
    "{% endraw %}",
    "{%- ",
    " -%}",
    "0x",
    "1e999",
    "{{ a[::-1] }}",
    "{{ 'é'[5:] }}",
    "{{ a|batch(2) }}",
    "{{ 'é<b> (x.org) - 1'|indent('é') }}",
    "{{ 'é<b> (x.org) - 1'|truncate(3) }}",
    "{{ 'é<b> (x.org) - 1'|wordwrap(1) }}",
    "{{ 'é<b> (x.org) - 1'|urlize }}",
    "{{ a|pprint }}",
    "{{ a|xmlattr }}",
    "{{ a|groupby('c') }}",
    "{{ 'é<b> (x.org) - 1'|striptags }}",
    "{{ 'é<b> (x.org) - 1'|center(4) }}",
    "{{ 'é<b> (x.org) - 1'|filesizeformat }}",
    "{{ a|tojson }}",
];
