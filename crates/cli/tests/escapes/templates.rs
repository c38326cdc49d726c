//! Templates of projects and libraries, and data that looks like a template.

use crate::{
    attempt::{
        Group,
        Layer::Templates,
        Outcome,
        Who::{Document, Library, Project},
        must,
    },
    loading::{main_worker, none_loads, row},
};
use std::{fs, os::unix::fs::symlink};

pub(crate) fn group() -> Group {
    Group {
        title: "Templates",
        about: "Runs of the binary, each with one bad template. The control is a good one.",
        attempts: vec![
            row(
                Project,
                Templates,
                "`file()` and `include` of files outside and hidden files",
                "names stay below the roots; links that leave them are not followed",
                |world| {
                    let absolute = format!("{{{{ file('{}') }}}}", world.outside("canary.txt").display());
                    symlink(world.outside("canary.txt"), world.project("linked.txt")).unwrap();
                    fs::create_dir(world.project("templates")).unwrap();
                    symlink("../../outside", world.project("templates/folder")).unwrap();
                    world.put("good.txt", "fine");
                    none_loads(
                        world,
                        &[
                            ("", "{{ file('../outside/canary.txt') }}"),
                            ("", &absolute),
                            ("", "{{ file('.env') }}"),
                            ("", "{{ file('.ENV') }}"),
                            ("", "{{ file('linked.txt') }}"),
                            ("", "{% include 'folder/canary.txt' %}"),
                            ("", "{% include '.env' %}"),
                            ("", "{% include '.llm-do/journal' ignore missing %}"),
                            ("", "{% extends '../outside/canary.txt' %}"),
                            ("", "{% import '.env' as e %}{{ e }}"),
                        ],
                        ("", "{{ file('good.txt') }}"),
                    )
                },
            ),
            row(
                Document,
                Templates,
                "names chosen by the input (`include name`)",
                "names stay below the roots, checked when rendered",
                |world| {
                    main_worker(world, "parameters: {name: string}", "{% include name %}");
                    world.put("good.txt", "fine");
                    let outside = world.outside("canary.txt").display().to_string();
                    for name in [
                        "../outside/canary.txt",
                        ".env",
                        &outside,
                        "templates/../../outside/canary.txt",
                        "..\\outside\\canary.txt",
                        "foreign:../x",
                    ] {
                        let report = world.run(&[".", "--param", &format!("name={name}")]);
                        must(report.code != Some(0), format!("ESCAPE: {name}: {report:?}"))?;
                    }
                    world.run(&[".", "--param", "name=good.txt"]).ended(0)?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Document,
                Templates,
                "template syntax in the message and in files",
                "data is never rendered as a template",
                |world| {
                    let evil = "{{ file('.env') }} {{ 7 * 191 }} {% include '.env' %}";
                    world.put("evil.txt", evil);
                    main_worker(world, "parameters: {text: string}", "{{ text }} {{ file('evil.txt') }}");
                    let report = world.run(&[".", "--param", &format!("text={evil}")]);
                    report.ended(0)?;
                    must(
                        report.all().matches("7 * 191").count() >= 2 && !report.all().contains("1337"),
                        format!("ESCAPE: {}", report.all()),
                    )?;
                    Ok(Outcome::Literal)
                },
            ),
            row(
                Project,
                Templates,
                "Python introspection (`__class__`, `__globals__`, `cycler`)",
                "templates have no Python objects",
                |world| {
                    none_loads(
                        world,
                        &[
                            ("", "{{ ''.__class__.__mro__[1].__subclasses__() }}"),
                            ("", "{{ cycler.__init__.__globals__.os.popen('id').read() }}"),
                            ("", "{{ self.__init__.__globals__ }}"),
                            ("", "{{ lipsum.__globals__['os'] }}"),
                            ("", "{{ environ }}"),
                            ("", "{{ request.application }}"),
                        ],
                        ("", "{{ ''.upper() }}"),
                    )
                },
            ),
            row(
                Library,
                Templates,
                "endless templates and endless output",
                "limits: 250,000 steps, ten nested includes, 4 MiB",
                |world| {
                    world.put("templates/loop.jinja", "{% include 'loop.jinja' %}");
                    none_loads(
                        world,
                        &[
                            (
                                "",
                                "{% for a in range(9999) %}{% for b in range(9999) %}{{ a }}{% endfor %}{% endfor %}",
                            ),
                            ("", "{% include 'loop.jinja' %}"),
                            ("", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
                            ("", "{{ 'x'.center(2000000000) }}"),
                            (
                                "",
                                "{% for a in range(9999) %}{{ 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'.center(9999) }}{% endfor %}",
                            ),
                            ("", "{{ range(2000000000)|list|length }}"),
                        ],
                        ("", "{% for a in range(9) %}{{ a }}{% endfor %}"),
                    )?;
                    Ok(Outcome::Bounded)
                },
            ),
            row(
                Library,
                Templates,
                "many inputs that are captured and never printed, beside a long text",
                "the search for printed inputs reads at most 16 MiB",
                |world| {
                    // Without a limit, each input is searched in all of the text: some 80 GB.
                    let items: Vec<String> =
                        (0..20_000).map(|number| format!("a name with number {number}")).collect();
                    world.put("items.json", serde_json::json!({ "items": items }).to_string());
                    let capture = "{% for item in items %}{% set x %}{{ item }}{% endset %}{% endfor %}";
                    main_worker(
                        world,
                        "parameters: {items: {type: array, items: {type: string}}}",
                        &format!("{capture}{{{{ ('a name ' * 500000)[:3000000] }}}}{{{{ items|length }}}}"),
                    );
                    world.run(&[".", "--input", "@items.json"]).ended(0)?;
                    Ok(Outcome::Bounded)
                },
            ),
            row(
                Library,
                Templates,
                "values that grow and are never printed (`~`, `+`, `*`, `replace`, `join`, lists in lists)",
                "limits: 4 MiB for a text, 16 MiB for a list, 64 MiB for all values",
                |world| {
                    // Each of them builds a few hundred megabytes here, and as many as one likes with more rounds.
                    let grown = |step: &str| {
                        format!(
                            "{{% set n = namespace(x='x' * 4000000) %}}{{% for i in range(6) %}}{step}{{% endfor %}}fine"
                        )
                    };
                    let programs: Vec<String> = [
                        "{% set n.x = n.x ~ n.x %}",
                        "{% set n.x = n.x * 2 %}",
                        "{% set n.x = n.x|replace('x', 'xx') %}",
                        "{% set n.x = [n.x, n.x]|join %}",
                        "{% set n.x = [n.x, n.x, n.x, n.x, n.x] %}",
                        "{% set n.y = [n.x[1:], n.x[2:], n.x|upper] %}",
                    ]
                    .map(grown)
                    .into();
                    let programs: Vec<(&str, &str)> =
                        programs.iter().map(|text| ("", text.as_str())).collect();
                    none_loads(world, &programs, ("", "{% set x = 'x' ~ 'y' * 3 %}{{ [x]|join }}"))?;
                    Ok(Outcome::Bounded)
                },
            ),
            row(
                Library,
                Templates,
                "steps that read large values and build nothing (`==`, `in`, `length`, `count`), to occupy the processor",
                "a rendering reads or measures at most some 20 million values, and 16 bytes of a text are one",
                |world| {
                    // Without a limit, each of them takes minutes: every step reads a text of 4 MB or a list of 100,000 items.
                    let looped = |step: &str| {
                        format!(
                            "{{% set s = 'x' * 4000000 %}}{{% set l = range(100000)|list %}}{{% for i in range(40000) %}}{step}{{% endfor %}}"
                        )
                    };
                    let programs: Vec<String> = [
                        "{% if s ~ '' == s and 'y' in s %}y{% endif %}",
                        "{% if 100001 in l %}y{% endif %}",
                        "{% if s.count('y') or s.isdigit() or s is upper %}y{% endif %}",
                        "{% if s|length < 3 or s[3999999] == 'y' %}y{% endif %}",
                    ]
                    .map(looped)
                    .into();
                    let programs: Vec<(&str, &str)> =
                        programs.iter().map(|text| ("", text.as_str())).collect();
                    none_loads(
                        world,
                        &programs,
                        ("", "{% set l = range(500)|list %}{% for i in l %}{{ 'x' if i in l }}{% endfor %}"),
                    )?;
                    Ok(Outcome::Bounded)
                },
            ),
        ],
    }
}
