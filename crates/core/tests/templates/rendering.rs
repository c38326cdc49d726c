//! Values, methods and inheritance.

use crate::*;

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

/// The engine gets a rewritten text ([`no_value_outgrows_the_limits`](crate::hostile)), whose meaning is the same.
#[test]
fn operators_and_literals_mean_what_they_mean_in_python() {
    let variables = json!({"a": 2, "b": 3, "s": "xy", "l": [1, 2, 3], "o": {"l": ["p", "q"]}, "u": "é水"});
    for (text, expected) in [
        ("{{ (a + b * a - 1) ~ s ~ a * b }}", "7xy6"),
        ("{{ a - b + a - b + a }}", "0"),
        ("{{ 7 // a * s ~ '!' }}", "xyxyxy!"),
        ("{{ -a + -b * 2 ** a }}", "-14"),
        ("{{ a * 1.5 + 1 }}|{{ 1 + true }}|{{ 9223372036854775807 + 1 }}", "4.0|2|9223372036854775808"),
        (
            "{{ l[1:] + l[:1] }}{{ (1, 2) + (3,) }}{{ (1,) * 2 }}{{ l[::-1] }}",
            "[2, 3, 1](1, 2, 3)(1, 1)[3, 2, 1]",
        ),
        ("{{ [a, b + 1][1] }}{{ {'k': s ~ s}.k }}{{ (a, b)[0] }}{{ o.l[1:][0]|upper ~ 1 }}", "4xyxy2Q1"),
        ("{{ 'x' if a + b > 4 and not a ~ b == '' else 'y' }}", "x"),
        ("{{ a in [1, 2] + [3] }}{{ a + 1 is divisibleby 3 }}{{ 4 is in [a * 2] }}", "True2True"),
        (
            "{% set x = a, b %}{{ x }}{% set y, z = x %}{{ z }}{% set n = namespace() %}{% set n.v = a ~ b %}{{ n.v }}",
            "(2, 3)323",
        ),
        (
            "{% with x = a + 1, y = [x] %}{{ y }}{% endwith %}{% for x in l[1:] + [s] if x ~ '' %}{{ x }}{% endfor %}",
            "[3]23xy",
        ),
        (
            "{% filter upper %}{{ s + s }}{% endfilter %}{% set x | upper | replace('X', 'z') %}{{ s }}{% endset %}{{ x }}",
            "XYXYzY",
        ),
        (
            "{% macro m(p, q=[1] + [2]) %}{{ p ~ q }}{% endmacro %}{{ m('a' ~ 'b', *[[3]]) }}{{ m(p=a * b) }}",
            "ab[3]6[1, 2]",
        ),
        ("{% call(x) m2() %}{{ x + 1 }}{% endcall %}", ""),
        ("a\n{%- if a -%}\n  b  {{- u + u -}}  \nc {% endif %}", "abé水é水c "),
    ] {
        let text = format!("{{% macro m2() %}}{{{{ caller(1) * 0 }}}}{{% endmacro %}}{text}");
        assert_eq!(rendered(&text, &variables, &Files::of([])), expected, "{text}");
    }
    let long = "word ".repeat(40);
    let text =
        format!("{{% if a -%}}  {long}  {{%- endif %}}{{# {long} -#}} {long}{{% raw %}}{long}{{% endraw %}}");
    let expected = format!("{}{long}{long}", long.trim_end());
    assert_eq!(rendered(&text, &variables, &Files::of([])), expected);
}

#[test]
fn macros_take_arguments_as_in_python() {
    for (text, expected) in [
        ("{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(b=3, a=2) }}", "1123"),
        (
            "{% macro m(a, b=a+1, c=b*2) %}{{ a }},{{ b }},{{ c }}{% endmacro %}{{ m(1) }};{{ m(1, c=9) }}",
            "1,2,4;1,2,9",
        ),
        ("{% macro m(a, b=a) -%}  {{ b }}  {%- endmacro -%}   {{ m(1) }}", "1"),
        ("{% macro m(a, b={'x': a}) %}{{ b.x }}{% endmacro %}{{ m(5) }}", "5"),
        (
            "{% macro m() %}{{ caller(1) }}{% endmacro %}{% call(a, b=a) m() %}in{{ a }}{{ b }}{% endcall %}",
            "in11",
        ),
        ("{% macro m() %}{{ kwargs.z }}{{ varargs }}{% endmacro %}{{ m(1, z=2) }}", "2(1,)"),
        (
            "{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(*[1,2,3], **{'z': 4}) }}",
            "1(2, 3){'z': 4}",
        ),
        ("{% macro m(a) %}{{ a }}{{ kwargs }}{% endmacro %}{{ m(1, a=2) }}", "1{'a': 2}"),
        ("{% macro m() -%}  {{ varargs }}  {%- endmacro -%}   {{ m(1) }}", "(1,)"),
        ("{% macro m() %}{{ varargs }}{{ caller() }}{% endmacro %}{% call m(1) %}in{% endcall %}", "(1,)in"),
        (
            "{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n-1, *varargs) }}{% endif %}{% endmacro %}{{ m(3, 'x') }}",
            "3210",
        ),
        (
            "{% macro m() %}{{ m.name }}{{ m.arguments }}{{ m.catch_varargs }}{{ varargs }}{% endmacro %}{{ m() }}",
            "m()True()",
        ),
        ("{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}", "B"),
        ("{% block t %}x{% endblock %}{{ self.t() }}", "xx"),
        ("{{ loop is defined }}{{ varargs is defined }}", "FalseFalse"),
        ("{% from 'mac' import hi, lo as low %}{{ hi('b') }}{{ low(1, k=2) }}", "bb(1,){'k': 2}"),
        ("{% import 'mac' as mac %}{{ mac.hi('a') }}{{ mac.lo() }}", "aa(){}"),
    ] {
        let files = Files::of([(
            "mac",
            "{% macro hi(n, m=n) %}{{ n }}{{ m }}{% endmacro %}{% macro lo() %}{{ varargs }}{{ kwargs }}{% endmacro %}",
        )]);
        assert_eq!(rendered(text, &json!({}), &files), expected, "{text}");
        let facts = inspect(text, &instructions()).unwrap();
        let unknown: Vec<&String> =
            facts.variables.keys().filter(|name| !facts.guarded.contains(*name)).collect();
        assert!(unknown.is_empty(), "{text}: {unknown:?}");
    }
    for text in [
        "{% macro m(a) %}{{ a }}{{ kwargs }}{% endmacro %}{{ m(1, 2) }}",
        "{% macro m(a) %}{{ a }}{{ varargs }}{% endmacro %}{{ m(1, q=2) }}",
        "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
        "{% macro m(a, b=a) %}{{ c }}{% endmacro %}{{ m(1) }}",
    ] {
        let error = alone(text);
        assert_eq!(error.place.line, 5, "{error}");
        let column = error.place.column;
        let at = &text[column - 1..];
        assert!(at.starts_with("m(1") || at.starts_with("c }}"), "{text}: {error}");
    }
}

#[test]
fn filters_and_methods_write_what_pythons_write() {
    let variables = json!({"m": {"b": 1, "a": [1, {"z": null, "y": true}]}, "t": "Gr\u{fc}\u{df}e <b> \u{1f600}", "x": 0.256});
    for (text, expected) in [
        ("{{ m|tojson }}", r#"{"a": [1, {"y": true, "z": null}], "b": 1}"#),
        ("{{ t|tojson }}", r#""Gr\u00fc\u00dfe \u003cb\u003e \ud83d\ude00""#),
        ("{{ t|tojson(ensure_ascii=false) }}", "\"Gr\u{fc}\u{df}e \\u003cb\\u003e \u{1f600}\""),
        ("{{ {'b': 1, 'a': []}|tojson(sort_keys=false) }}", r#"{"b": 1, "a": []}"#),
        (
            "{{ {'b': {'c': 1}, 'a': []}|tojson(indent=2) }}",
            "{\n  \"a\": [],\n  \"b\": {\n    \"c\": 1\n  }\n}",
        ),
        (
            "{{ [1.0, 1e100, 1e-7, 10**20, {1: 2}]|tojson }}",
            r#"[1.0, 1e+100, 1e-07, 100000000000000000000, {"1": 2}]"#,
        ),
        ("{{ {'a b': 'c/d', 'e': '\u{fc}~', 'n': none}|urlencode }}", "a+b=c%2Fd&e=%C3%BC~&n=None"),
        ("{{ [('a', 'b c'), ('d', 2)]|urlencode }}|{{ 'a/b c~d?'|urlencode }}", "a=b+c&d=2|a/b%20c~d%3F"),
        (
            "{% set c = cycler(1, 2) %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.next() }}",
            "1212None1",
        ),
        (
            "{{ '{:.1%}'.format(x) }}|{{ '{:>8.0%}|{:+.1%}|{:08.1%}'.format(x, -x, x) }}",
            "25.6%|     26%|-25.6%|00025.6%",
        ),
        ("{{ '{} {:.0%} {n:.1%} {{x}} {!r}'.format('a', 0.5, 'b', n=0.25) }}", "a 50% 25.0% {x} 'b'"),
        ("{{ m|pprint }}", "{'a': [1, {'y': True, 'z': None}], 'b': 1}"),
        ("{% set j = joiner(sep='-') %}{{ j() }}a{{ j() }}b", "a-b"),
        ("{{ ''|d('x', boolean=True) }}{{ none|default(default_value='y') }}", "xNone"),
        (
            "{{ 'a.b.c'.rsplit('.', 1) }}{{ 'a b  c'.rsplit(none, 1) }}{{ 'aB'.swapcase() }}",
            "['a.b', 'c']['a b', 'c']Ab",
        ),
    ] {
        assert_eq!(rendered(text, &variables, &Files::of([])), expected, "{text}");
    }
    let files = Files::of([]);
    assert_eq!(refused("{{ nope|join(',') }}", &variables, &files).kind, TemplateErrorKind::Undefined);
}
