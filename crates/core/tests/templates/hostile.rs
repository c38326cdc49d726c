//! Templates without end, limits, and templates of random pieces.

use crate::*;

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

/// Values that a template builds and does not print. Without limits, each of these is a few megabytes here, and as large as the
/// machine's memory in the hands of an attacker.
#[test]
fn no_value_outgrows_the_limits() {
    let twice = |step: &str| {
        format!(
            "{{% set n = namespace(x='xxxxxxxx') %}}{{% for i in range(15) %}}{step}{{% endfor %}}{{{{ n.x|length }}}}"
        )
    };
    let grow = [
        "{% set n.x = n.x ~ n.x %}",
        "{% set n.x = n.x + n.x %}",
        "{% set n.x = n.x * 2 %}",
        "{% set n.x = 2 * n.x %}",
        "{% set n.x = (n.x ~ n.x)|upper %}",
        "{% set n.x = [n.x, n.x]|join %}",
        "{% set n.x = [n.x]|join ~ n.x %}",
        "{% set n.x = ''.join([n.x, n.x]) %}",
        "{% set n.x = n.x|replace('x', 'xx') %}",
        "{% set n.x = n.x.replace('x', 'xx') %}",
        "{% set n.x = '%s%s'|format(n.x, n.x) %}",
        "{% set n.x = '{0}{0}'.format(n.x) %}",
        "{% set n.x = (n.x|list)|join('x') ~ 'x' %}",
        "{% set n.x = n.x|list|join('x') ~ 'x' %}",
        "{% set n.x = n.x|wordwrap(1, wrapstring='xx') %}",
        "{% set n.x = (n.x ~ n.x)[0:] %}",
        "{% set n.x = n.x|default(0) ~ m|default(n.x ~ '') %}",
    ];
    let nest = [
        "{% set n.x = [n.x, n.x] %}",
        "{% set n.x = n.x, n.x %}",
        "{% set n.x = (n.x, n.x) %}",
        "{% set n.x = {'a': n.x, 'b': n.x} %}",
        "{% set n.x = dict(a=n.x, b=n.x) %}",
        "{% set n.x = [n.x] + [n.x] %}",
        "{% set n.x = [n.x] * 2 %}",
        "{% set n.x = [n.x, n.x]|list %}",
        "{% set n.x = [n.x, n.x]|batch(1)|list %}",
        "{% set n.x = [n.x, n.x][0:] %}",
        "{% set n.x = [n.x, n.x]|map('list')|list %}",
    ];
    let lists = [
        "{% set n.x = n.x|list + n.x|list %}",
        "{% set n.x = n.x|list * 2 %}",
        "{% set n.x = (n.x|list + n.x|list)|reverse %}",
    ];
    let deep = ["{% set n.x = [n.x] %}", "{% set n.x = {'a': n.x} %}", "{% set n.x = dict(a=n.x) %}"];
    let captured = twice("{% set n.x %}{{ n.x }}{{ n.x }}{% endset %}").replace("range(15)", "range(20)");
    let many = format!("{{% set x = 'x' * 60000 %}}{}", "{% set y = [x[1:], x|upper, x[2:]] %}".repeat(10));
    let kept = format!(
        "{{% set x = 'x' * 60000 %}}{}",
        (0..40).map(|i| format!("{{% set y{i} = x[1:] %}}")).collect::<String>()
    );
    let raw = format!(
        "{{% macro m() %}}{}{{% endmacro %}}{{% for i in range(40) %}}{{% set x = m() %}}{{% endfor %}}",
        "x".repeat(60_000)
    );
    let folded = "{{ ('x' * 60000 ~ 'x' * 60000)|length }}".to_owned();
    let all = grow.iter().chain(&nest).chain(&lists).map(|step| twice(step));
    let deep = deep.iter().map(|step| twice(step).replace("range(15)", "range(3000)"));
    let small = Settings { output: 1 << 16, ..Settings::default() };
    for text in all.chain(deep).chain([captured, many, kept, raw, folded]) {
        let result = render_with(&text, &instructions(), &json!({}), Files::of([]), small);
        let kind = result.as_ref().map_err(|error| error.kind).map(|text| text.len());
        let error = result.as_ref().err().map(ToString::to_string);
        assert_eq!(kind, Err(TemplateErrorKind::Limit), "{text:.200}: {error:?}");
    }
}

/// Steps that read a large value and build nothing. Each is one step for the engine, so without a limit of its own a loop of
/// them takes minutes.
#[test]
fn no_template_reads_large_values_without_end() {
    let settings = Settings { output: 64 << 10, ..Settings::default() };
    let text = "{% set s = 'x' * 64000 %}{% set t = 'x' * 64000 %}";
    let list = "{% set l = range(4000)|list %}{% set k = range(4000)|list %}";
    let looped = |step: &str| format!("{text}{list}{{% for i in range(3000) %}}{step}{{% endfor %}}");
    for step in [
        "{{ 'a' if s == t }}",
        "{{ 'a' if 1 < 2 == (s == t) }}",
        "{{ 'a' if l == k }}",
        "{{ 'a' if [l] != [k] }}",
        "{{ 'a' if {1: l} == {1: k} }}",
        "{{ 'a' if 'y' in s }}",
        "{{ 'a' if 'y' not in s }}",
        "{{ 'a' if 9999 in l }}",
        "{{ 'a' if 99999 in range(4000) }}",
        "{{ 'a' if l in s }}",
        "{{ 'a' if l not in s }}",
        "{{ 'a' if i and (i == 1 or s in [t, i]) }}",
        "{{ 'a' if s is eq(t) }}",
        "{{ 'a' if s is ne t }}",
        "{{ 'a' if 9999 is in(l) }}",
        "{{ 'a' if s is lower }}",
        "{{ 'a' if s is startingwith t }}",
        "{{ 'a' if s is endingwith(t) }}",
        "{{ [i]|select('in', l)|first }}",
        "{{ [s]|select('eq', t)|first|length }}",
        "{{ s|length }}",
        "{{ s|wordcount }}",
        "{{ s|int }}",
        "{{ l|sum }}",
        "{{ l|max }}",
        "{{ [s]|map('length')|first }}",
        "{{ s.count('y') }}",
        "{{ s.find('y') }}",
        "{{ 'y'.find(s) }}",
        "{{ s.isalpha() }}",
        "{{ s.startswith(t) }}",
        "{{ l.index(3999) }}",
        "{{ l.count(3999) }}",
        "{{ s[63999] }}",
        "{{ [s][0][-1] }}",
        "{{ s[63999:] }}",
        "{{ loop.changed(s) }}",
        "{{ loop.changed(1, l) }}",
        "{% set s, u = s, s|last %}{{ 'a' if u == s[i] }}",
    ] {
        let text = looped(step);
        let rendered = render_with(&text, &instructions(), &json!({}), Files::of([]), settings);
        let error = rendered.expect_err(step);
        assert_eq!(error.kind, TemplateErrorKind::Limit, "{step}: {error}");
        assert!(!error.message.contains("steps"), "{step}: {error}");
    }
    // A large value may be read a few times, and small ones often.
    let text = looped("{{ 'a' if i in [1, 2, 3] and l|length == 4000 and l[i] == i and s|first == 'x' }}");
    let rendered = render_with(&text, &instructions(), &json!({}), Files::of([]), settings);
    assert_eq!(rendered.unwrap(), "aaa");
}

#[test]
fn a_namespace_cannot_contain_itself() {
    for text in [
        "{% set n = namespace() %}{% set n.n = n %}",
        "{% set n = namespace() %}{% set n.n = [{'a': n}] %}",
        "{% set n = namespace() %}{% set m = namespace(n=n) %}",
        "{% set n = namespace() %}{% set n.c = cycler(n) %}",
        "{% for i in [1] %}{% set n = namespace() %}{% set n.l = loop %}{% endfor %}",
        "{% set c = cycler(1) %}{% set c = cycler([c]) %}",
        "{% set __llm_do_kept = 1 %}",
    ] {
        assert!(!alone(text).message.is_empty());
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
