//! Tests of the facts that are known about a template before it is rendered.

use crate::*;

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
