//! Templates of projects and libraries, and data that looks like one.

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
        about: "Runs of the binary, each with one bad template, and with a good one as the control.",
        attempts: vec![
            row(
                Project,
                Templates,
                "`file()` and `include` of what is outside or hidden",
                "names below the roots, opened without following links out",
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
                "names that the input chooses (`include input`)",
                "names below the roots, checked when rendered",
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
                        let told = world.run(&[".", "--param", &format!("name={name}")]);
                        must(told.code != Some(0), format!("ESCAPE: {name}: {told:?}"))?;
                    }
                    world.run(&[".", "--param", "name=good.txt"]).ended(0)?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Document,
                Templates,
                "template syntax in the message and in files that are read",
                "data is never rendered",
                |world| {
                    let evil = "{{ file('.env') }} {{ 7 * 191 }} {% include '.env' %}";
                    world.put("evil.txt", evil);
                    main_worker(world, "parameters: {text: string}", "{{ text }} {{ file('evil.txt') }}");
                    let told = world.run(&[".", "--param", &format!("text={evil}")]);
                    told.ended(0)?;
                    must(
                        told.all().matches("7 * 191").count() >= 2 && !told.all().contains("1337"),
                        format!("ESCAPE: {}", told.all()),
                    )?;
                    Ok(Outcome::Literal)
                },
            ),
            row(
                Project,
                Templates,
                "Python's back doors (`__class__`, `__globals__`, `cycler`)",
                "no Python objects",
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
                "templates that never end or print without end",
                "250,000 steps, ten includes, 4 MiB",
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
        ],
    }
}
