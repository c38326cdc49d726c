//! The cases of the Python library.

use crate::*;

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

/// A rendering recorded from the Python library.
struct Case {
    id: String,
    source: String,
    templates: BTreeMap<String, String>,
    context: Json,
    undefined: Undefined,
    /// The text, or nothing where the library raises an error.
    expected: Option<String>,
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

/// The documentation for people, with the table of differences.
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
