//! A template with what it includes: reading it and rendering it.

use super::parts;
use llm_do_core::template::{
    Origin, Place, Settings, TemplateError, TemplateErrorKind, TemplateFacts, TemplateName, TemplateRefusal,
    TemplateSource, TemplateText, Undefined, confine, has_syntax, inspect, render_with,
};
use serde_json::{Value, json};
use std::{
    borrow::Cow,
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

/// Small limits, so that inputs reach each of them.
const SETTINGS: Settings = Settings { undefined: Undefined::Strict, steps: 3_000, output: 1 << 14, depth: 4 };

/// The line of the text in its file.
const LINE: usize = 5;

/// Takes the text of a template, then those of `a.jinja`, `b.jinja` and the file `note.txt`.
pub fn run(bytes: &[u8]) {
    let [root, a, b, note] =
        parts::<4>(bytes).map(|part| part.and_then(|part| std::str::from_utf8(part).ok()));
    let Some(root) = root else { return };
    let all = || [Some(root), a, b].into_iter().flatten();
    if all().any(builds_large_values) || root.len() > SETTINGS.output {
        return;
    }
    let origin = Origin { file: "main.worker".into(), line: LINE };
    let inspected = inspect(root, &origin);
    let files =
        [("main.worker", root, LINE), ("a.jinja", a.unwrap_or(""), 1), ("b.jinja", b.unwrap_or(""), 1)];
    match &inspected {
        Ok(facts) => hold_facts(facts, &files),
        Err(error) => hold_error(error, &files),
    }

    let owned = |text: Option<&str>| text.map(Arc::from);
    let texts = [("a.jinja", owned(a)), ("b.jinja", owned(b)), ("note.txt", owned(note))];
    let templates = Arc::new(Templates { texts, asked: Mutex::default() });
    let render = |variables: &Value, undefined: Undefined| {
        let settings = Settings { undefined, ..SETTINGS };
        render_with(root, &origin, variables, Arc::clone(&templates) as Arc<dyn TemplateSource>, settings)
    };
    let variables = variables();
    for undefined in [Undefined::Lenient, Undefined::Chainable, Undefined::Strict] {
        let rendered = render(&variables, undefined);
        assert_eq!(rendered, render(&variables, undefined), "rendered again, it differs");
        match &rendered {
            Ok(text) => {
                assert!(text.len() <= SETTINGS.output);
                assert_eq!(matches!(text, Cow::Borrowed(_)), !has_syntax(root));
                assert!(has_syntax(root) || **text == *root, "a text without syntax stays as it is");
            }
            Err(error) => {
                assert!(has_syntax(root));
                hold_error(error, &files);
            }
        }
        hold_agreement(&inspected, &rendered);
    }

    // The inspection names everything that a run requests, unless it reports an error.
    if let Ok(every) = all().map(|text| inspect(text, &origin)).collect::<Result<Vec<_>, _>>() {
        let references = || every.iter().flat_map(|facts| &facts.templates);
        let named: BTreeSet<String> = references()
            .filter_map(|reference| Some(confine(reference.name.as_deref()?).ok()?.path().to_owned()))
            .collect();
        let computed = references().any(|reference| reference.name.is_none());
        for asked in templates.asked.lock().expect("no thread panics with it").iter() {
            assert!(computed || named.contains(asked), "`{asked}` is included, and nothing says so");
        }
    }

    // What it does not read, it does not need.
    if let Ok(facts) = &inspected
        && facts.templates.is_empty()
        && let Value::Object(members) = &variables
    {
        let read = members.iter().filter(|(name, _)| facts.variables.contains_key(*name));
        let fewer = Value::Object(read.map(|(name, value)| (name.clone(), value.clone())).collect());
        assert_eq!(render(&variables, Undefined::Strict).ok(), render(&fewer, Undefined::Strict).ok());
    }
}

/// Returns true if a template may build a value that is larger than memory without printing it, or lists deeper than
/// the stack (`docs/reference/templates.md`). A fuzzer would find nothing else.
fn builds_large_values(text: &str) -> bool {
    const GROWING: [&str; 14] = [
        "~", "+", "*", "replace", "join", "format", "indent", "center", "ljust", "rjust", "zfill",
        "wordwrap", "tojson", "urlize",
    ];
    let count = |words: &[&str]| words.iter().map(|word| text.matches(word).count()).sum::<usize>();
    let growing = count(&GROWING);
    let kept = count(&["set", "with", "macro", "call"]);
    growing > 12 || kept > 0 && growing > 3 || text.contains("namespace") && text.contains("for")
}

fn variables() -> Value {
    json!({
        "name": "Ada", "n": 3, "ratio": 0.5, "yes": true, "nothing": null, "text": "one two\nthree <b>&",
        "items": ["b", "a", "c"], "rows": [{"id": 2, "tag": "x"}, {"id": 1, "tag": "y"}],
        "person": {"name": "Bo", "age": 7}, "input": "the input", "worker": {"name": "main"},
    })
}

struct Templates {
    texts: [(&'static str, Option<Arc<str>>); 3],
    /// Paths of the requested templates.
    asked: Mutex<BTreeSet<String>>,
}

impl TemplateSource for Templates {
    fn template(&self, name: &TemplateName) -> Result<Option<TemplateText>, TemplateRefusal> {
        self.asked.lock().expect("no thread panics with it").insert(name.path().to_owned());
        self.file(name)
    }

    fn file(&self, name: &TemplateName) -> Result<Option<TemplateText>, TemplateRefusal> {
        let found = self.texts.iter().find(|(path, _)| *path == name.path());
        let Some((path, Some(text))) = found else { return Ok(None) };
        Ok(Some(TemplateText { text: Arc::clone(text), origin: (*path).to_owned(), place: None }))
    }
}

fn hold_facts(facts: &TemplateFacts, files: &[(&str, &str, usize); 3]) {
    let references = facts.templates.iter().chain(&facts.files).map(|reference| &reference.place);
    facts.variables.values().chain(references).for_each(|place| hold_place(place, files));
}

/// Asserts that an error is one line for a terminal, about places that exist.
fn hold_error(error: &TemplateError, files: &[(&str, &str, usize); 3]) {
    let shown = error.to_string();
    assert!(!shown.chars().any(char::is_control), "{shown:?}");
    assert!(!error.message.is_empty() && error.message.chars().count() <= 301, "{shown}");
    std::iter::once(&error.place).chain(&error.included_from).for_each(|place| hold_place(place, files));
}

fn hold_place(place: &Place, files: &[(&str, &str, usize); 3]) {
    let (_, text, first) =
        files.iter().find(|(name, ..)| *name == place.file).expect("a file that was given");
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let line = place.line.checked_sub(*first).and_then(|line| text.split('\n').nth(line));
    let Some(line) = line else { panic!("{place} is not in the file") };
    assert!(
        place.column >= 1 && place.column <= line.chars().count() + 1,
        "{place} is not in the line {line:?}"
    );
}

/// Asserts that inspection and rendering agree: a text that can't be parsed can't be rendered, with the same error, and
/// a text that `check` accepts has no syntax error in a run.
fn hold_agreement(
    inspected: &Result<TemplateFacts, TemplateError>,
    rendered: &Result<Cow<'_, str>, TemplateError>,
) {
    match (inspected, rendered) {
        // A filter that does not exist is an error of a run only when it gets there.
        (Err(error), _) if error.message.starts_with("there is no ") => {}
        (Err(error), Err(other)) => assert_eq!(error, other),
        (Err(error), Ok(text)) => panic!("{error}, but it renders as {text:?}"),
        (Ok(_), Err(error)) => {
            let own = error.place.file == "main.worker" && error.included_from.is_empty();
            assert!(
                !own || error.kind != TemplateErrorKind::Syntax,
                "nothing was said before the run: {error}"
            );
        }
        (Ok(_), Ok(_)) => {}
    }
}
