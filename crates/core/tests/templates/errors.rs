//! Errors: their places, hints and lengths.

use crate::*;

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
fn names_with_line_ends_stay_in_one_line() {
    let variables = json!({"user": {"a\nb": 1}});
    let files = Files::of([]);
    for (text, expected) in [
        ("{{ user|s\t.\nslise }}", "there is no filter `s.slise`"),
        ("{{ 1 is s\t.\ntrng }}", "there is no test `s.trng`; did you mean `string`?"),
        ("{{ user.zzz }}", "`user.zzz` is undefined; `user` has `a b`"),
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
