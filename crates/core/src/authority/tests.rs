mod properties;

use super::*;
use crate::rule::Rule;

fn place(path: &str) -> Place {
    Place::new(path)
}
fn at(path: &str) -> VirtualPath {
    VirtualPath::parse(path).unwrap()
}
fn rw(seen: &str, real: &str) -> Mount {
    Mount::new(at(seen), place(real), Access::Write)
}
fn ro(seen: &str, real: &str) -> Mount {
    Mount::new(at(seen), place(real), Access::Read)
}
fn extent(real: &str, access: Access) -> Extent {
    Extent { place: place(real), access }
}

/// A program in `/p` with these mounts, whose bounds are its own tree and `/ext`.
fn program(mounts: Vec<Mount>) -> Authority {
    let bounds = Bounds::new(vec![extent("/p", Access::Write), extent("/ext", Access::Read)], Network::On);
    let protection = Protection::new(place("/p"), ["workers".to_owned(), "src/tools".to_owned()]);
    Authority::new(bounds, View::new(mounts), Arc::new(protection))
}

fn restrict(paths: &[&str]) -> Narrowing {
    Narrowing { restrict: paths.iter().map(|path| at(path)).collect(), ..Narrowing::default() }
}

fn real(authority: &Authority, path: &str, access: Access) -> Option<String> {
    authority.locate(path, access).ok().map(|located| located.place().to_string())
}

use Access::{Read, Write};

#[test]
fn the_spellings_of_one_path_are_one_path() {
    for text in ["notes/x", "./notes/x", "/notes/x", "/notes//x", "/notes/./x/"] {
        assert_eq!(at(text).as_str(), "/notes/x");
    }
    for text in ["", ".", "/", "//", "./."] {
        assert_eq!(at(text), VirtualPath::root());
    }
    for text in ["..", "/..", "a/../b", "a\\b", "a\0b", "a\nb", "\u{85}"] {
        assert!(VirtualPath::parse(text).is_err(), "{text:?}");
    }
    for text in ["...", "..a", "a..", "%2e%2e", "~", "a b"] {
        assert!(VirtualPath::parse(text).is_ok(), "{text:?}");
    }
    let long = VirtualPath::parse(&"x/".repeat(100_000)).unwrap_err().to_string();
    assert!(long.len() < 400, "an error does not repeat a long path: {}", long.len());
}

#[test]
fn places_are_compared_part_by_part() {
    assert!(place("/a/b").is_within(&place("/a")) && place("/a").is_within(&place("/")));
    assert!(!place("/ab").is_within(&place("/a")) && !place("/a").is_within(&place("/a/b")));
    assert_eq!(place("/a/./b//c/../d/").as_str(), "/a/b/d");
    assert_eq!(place("/../..").as_str(), "/");
}

#[test]
fn the_innermost_mount_counts_and_what_it_covers_is_gone() {
    let a = program(vec![rw("/", "/p"), ro("/data", "/ext/data"), rw("/data/own", "/p/own")]);
    assert_eq!(real(&a, "/x", Write).as_deref(), Some("/p/x"));
    assert_eq!(real(&a, "/data/x", Read).as_deref(), Some("/ext/data/x"));
    assert_eq!(real(&a, "/data/own/x", Write).as_deref(), Some("/p/own/x"));
    assert_eq!(real(&a, "/data/x", Write), None);
    assert_eq!(real(&a, "/database", Read).as_deref(), Some("/p/database"));
    let root = a.locate("/", Read).unwrap();
    assert!(!root.shows("data") && !root.shows("data/x") && root.shows("database") && root.shows("own"));
    assert!(root.admits("own/x").is_ok(), "a place is not closed because it is mounted elsewhere too");
    let refused = root.admits("data/x").unwrap_err().to_string();
    assert!(refused.contains("`/data/x`, which is in another mount"), "{refused}");
}

#[test]
fn of_two_mounts_at_one_path_the_later_stands() {
    let a = program(vec![ro("/d", "/p/one"), rw("/d", "/p/two")]);
    assert_eq!(real(&a, "/d", Write).as_deref(), Some("/p/two"));
}

#[test]
fn without_a_mount_at_the_root_nothing_but_the_mounts_exists() {
    let a = program(vec![ro("/in", "/p/input"), rw("/out", "/p/output")]);
    let refused = a.locate("/etc/passwd", Read).unwrap_err().to_string();
    assert_eq!(refused, "`/etc/passwd` does not exist here. Visible: /in, /out");
    assert_eq!(real(&a, "/", Read), None);
    let paths: Vec<String> = a.locate_tree("/").unwrap().iter().map(|l| l.path.to_string()).collect();
    assert_eq!(paths, ["/in", "/out"]);
    assert!(program(vec![]).locate_tree("/").unwrap_err().to_string().contains("No files are visible"));
}

#[test]
fn what_defines_the_program_is_read_only_and_its_secrets_are_not_there() {
    let a = program(vec![rw("/", "/p")]);
    for path in [
        "/main.worker",
        "/deep/x.WORKER",
        "/project.yaml",
        "/llm-do.yaml",
        "/lib.yaml",
        "/llm-do.lock",
        "/Workers/a",
        "/workers",
        "/prompts/x",
        "/TEMPLATES/x",
        "/schemas/a/b",
        "/tools.py",
        "/tools/x.py",
        "/.git/config",
        "/deep/.git/hooks/x",
        "/src/tools/x",
        "/main.worker.",
        "/main.worker ",
        "/template\u{17f}/x",
        "/.g\u{200c}it/x",
    ] {
        assert!(real(&a, path, Read).is_some(), "{path} may be read");
        assert!(matches!(a.locate(path, Write), Err(Refusal::ReadOnly { .. })), "{path} may not be written");
    }
    for path in [
        "/.env",
        "/.ENV",
        "/deep/.env.local",
        "/.environment",
        "/.llm-do/runs",
        "/x/.LLM-DO",
        "/.llm-do-tmp-1",
    ] {
        assert!(matches!(a.locate(path, Read), Err(Refusal::NotVisible { .. })), "{path}");
        assert!(matches!(a.locate(path, Write), Err(Refusal::NotVisible { .. })), "{path}");
        assert!(!a.locate("/", Read).unwrap().shows(&path[1..]), "{path}");
    }
    for path in
        ["/worker", "/x.workers", "/deep/workers/a", "/env", "/a.env", "/deep/tools.py", "/src", "/git"]
    {
        assert!(real(&a, path, Write).is_some(), "{path}");
    }
}

#[test]
fn a_protected_or_invisible_name_that_is_mounted_is_lifted_and_no_other() {
    let a =
        program(vec![rw("/", "/p"), rw("/t", "/p/templates"), rw("/env", "/p/.env"), ro("/g", "/p/.git")]);
    assert_eq!(real(&a, "/t/x", Write).as_deref(), Some("/p/templates/x"));
    assert_eq!(real(&a, "/env", Write).as_deref(), Some("/p/.env"));
    assert_eq!(real(&a, "/g/HEAD", Read).as_deref(), Some("/p/.git/HEAD"));
    assert_eq!(real(&a, "/g/HEAD", Write), None);
    assert_eq!(real(&a, "/templates/x", Write), None, "through the root it stays protected");
    assert_eq!(real(&a, "/t/.env", Read), None);
    assert_eq!(real(&a, "/t/x.worker", Write), None);
    let above = program(vec![rw("/s", "/p/src")]);
    assert_eq!(real(&above, "/s/tools/x", Write), None, "a folder above is not the name itself");
}

#[test]
fn a_link_can_not_reach_what_its_target_forbids() {
    let a = program(vec![rw("/", "/p")]);
    let write = a.locate("/link", Write).unwrap();
    assert!(write.admits("notes/x").is_ok());
    assert!(matches!(write.admits("main.worker"), Err(Refusal::ReadOnly { .. })));
    assert!(matches!(write.admits(".env"), Err(Refusal::NotVisible { .. })));
    let read = a.locate("/link", Read).unwrap();
    assert!(read.admits("main.worker").is_ok());
    let refused = read.admits("sub/.env").unwrap_err().to_string();
    assert!(refused.contains("`/link` does not exist here") && !refused.contains("env"), "{refused}");
}

#[test]
fn suffixes_hold_for_the_name_asked_for_and_the_real_one() {
    let mut mount = rw("/d", "/p/d");
    mount.suffixes = vec![".txt".into(), ".MD".into()];
    let a = program(vec![mount]);
    assert!(a.locate("/d/x.TXT", Write).is_ok() && a.locate("/d/x.md", Write).is_ok());
    assert!(matches!(a.locate("/d/x.pem", Write), Err(Refusal::Suffix { .. })));
    let located = a.locate("/d/x.txt", Read).unwrap();
    assert!(located.admits_file("x.txt").is_ok());
    assert!(matches!(located.admits_file("key.pem"), Err(Refusal::Suffix { .. })));
    let other = a.locate("/d/key.pem", Read).unwrap();
    assert!(other.admits_file("x.txt").is_err());
    assert!(located.shows_file("x.txt") && !located.shows_file("key.pem") && located.shows("folder"));
}

#[test]
fn restrict_narrows_and_does_not_re_root() {
    let a =
        program(vec![rw("/", "/p"), ro("/ext", "/ext")]).narrow("w", &restrict(&["/src", "/ext/a"])).unwrap();
    assert_eq!(real(&a, "/src/x", Write).as_deref(), Some("/p/src/x"));
    assert_eq!(real(&a, "/ext/a/x", Read).as_deref(), Some("/ext/a/x"));
    for path in ["/", "/x", "/srcs", "/ext", "/ext/b"] {
        assert_eq!(real(&a, path, Read), None, "{path}");
    }
    let located = a.locate("/src/x", Write).unwrap();
    assert_eq!(
        (located.base.as_str(), located.rest.as_str()),
        ("/p/src", "x"),
        "no operation leaves the narrower of both"
    );
    let paths: Vec<String> = a.locate_tree("/").unwrap().iter().map(|l| l.path.to_string()).collect();
    assert_eq!(paths, ["/ext/a", "/src"]);
    let nothing = a.narrow("w", &restrict(&["/other"])).unwrap();
    assert!(
        nothing.locate_tree("/").is_err() && !nothing.can_write(),
        "a second `restrict` brings nothing back"
    );
}

#[test]
fn restrict_to_a_read_only_mount_closes_another_way_to_write_there() {
    let a = program(vec![ro("/look", "/p/d"), rw("/change", "/p/d")]);
    assert!(real(&a, "/change/x", Write).is_some());
    let a = a.narrow("w", &restrict(&["/look"])).unwrap();
    assert_eq!(real(&a, "/change/x", Write), None);
    assert!(real(&a, "/look/x", Read).is_some());
}

#[test]
fn readonly_and_restrict_bind_everything_below_and_the_worker_itself() {
    let a = program(vec![rw("/", "/p")]);
    let readonly = Narrowing { readonly: true, ..Narrowing::default() };
    let below = a.narrow("w", &readonly).unwrap();
    assert!(!below.can_write() && real(&below, "/x", Read).is_some());
    let declares = Narrowing { mounts: vec![rw("/mine", "/p/mine")], declared: true, ..Narrowing::default() };
    let callee = below.narrow("c", &declares).unwrap();
    assert_eq!(
        real(&callee, "/mine/x", Write),
        None,
        "a callee's own mount does not bring back what was taken"
    );
    assert!(real(&callee, "/mine/x", Read).is_some());
    let callee = a.narrow("w", &restrict(&["/src"])).unwrap().narrow("c", &declares);
    let refused = callee.unwrap_err().to_string();
    assert_eq!(refused, "`c` mounts `/mine` outside what its callers may touch: src");
}

#[test]
fn a_worker_of_the_program_may_see_what_its_caller_does_not() {
    let a = program(vec![ro("/in", "/p/in")]);
    let declares = Narrowing { mounts: vec![rw("/out", "/p/out")], declared: true, ..Narrowing::default() };
    let callee = a.narrow("c", &declares).unwrap();
    assert!(real(&callee, "/out/x", Write).is_some());
    assert_eq!(real(&callee, "/in/x", Read), None, "and not what its caller sees");
    let inherits = a.narrow("c", &Narrowing::default()).unwrap();
    assert_eq!(inherits, a);
}

#[test]
fn a_foreign_worker_sees_nothing_that_its_caller_does_not() {
    let mut limited = rw("/d", "/p/d");
    limited.suffixes = vec![".txt".into()];
    limited.max_file_bytes = Some(100);
    limited.approvals.write = Some(Rule::Ask);
    let a = program(vec![limited, ro("/in", "/p/in")]);
    let foreign = |mounts: Vec<Mount>| {
        a.narrow("lib:c", &Narrowing { mounts, declared: true, foreign: true, ..Narrowing::default() })
    };
    assert!(matches!(foreign(vec![rw("/out", "/p/out")]), Err(Refusal::OutsideBounds { .. })));
    assert!(matches!(foreign(vec![ro("/e", "/p/.env")]), Err(Refusal::OutsideBounds { .. })));
    let one_file = foreign(vec![rw("/key", "/p/d/key.pem"), rw("/text", "/p/d/a.txt")]).unwrap();
    let key = one_file.locate("/key", Read).unwrap();
    assert!(key.admits_file(&key.rest).is_err(), "a suffix rule is not escaped by mounting the file itself");
    let text = one_file.locate("/text", Read).unwrap();
    assert!(text.admits_file(&text.rest).is_ok());
    let mut loose = rw("/mine", "/p/d/sub");
    loose.approvals.write = Some(Rule::PreApproved);
    let callee = foreign(vec![loose, rw("/wide", "/p")]).unwrap();
    let located = callee.locate("/mine/x.txt", Write).unwrap();
    assert_eq!(located.place().as_str(), "/p/d/sub/x.txt");
    assert_eq!(located.mount.max_file_bytes, Some(100));
    assert_eq!(
        located.mount.approvals.write,
        Some(Rule::Ask),
        "it can't approve what its caller is asked about"
    );
    assert!(matches!(callee.locate("/mine/x.pem", Write), Err(Refusal::Suffix { .. })));
    assert_eq!(real(&callee, "/wide/in/x", Read).as_deref(), Some("/p/in/x"));
    assert_eq!(real(&callee, "/wide/in/x", Write), None);
    assert_eq!(real(&callee, "/wide/other", Read), None);
    assert!(matches!(callee.locate("/wide/d/x.pem", Write), Err(Refusal::Suffix { .. })));
}

#[test]
fn a_foreign_worker_does_not_lift_protection_by_mounting_a_name() {
    let a = program(vec![rw("/", "/p")]);
    let foreign = |mount: Mount| {
        a.narrow(
            "lib:c",
            &Narrowing { mounts: vec![mount], declared: true, foreign: true, ..Narrowing::default() },
        )
    };
    for invisible in ["/p/.env", "/p/.llm-do", "/p/.llm-do/runs"] {
        assert!(foreign(rw("/x", invisible)).is_err(), "{invisible}");
    }
    for protected in ["/p/templates", "/p/workers/deep", "/p/.git", "/p/main.worker"] {
        let callee = foreign(rw("/x", protected)).unwrap();
        assert!(real(&callee, "/x", Read).is_some(), "{protected}");
        assert_eq!(real(&callee, "/x", Write), None, "{protected}");
    }
}

#[test]
fn a_foreign_worker_sees_what_its_caller_mounted_over_a_place_and_not_what_lies_under_it() {
    let a = program(vec![rw("/", "/p"), ro("/secrets", "/ext/empty")]);
    let narrowing =
        Narrowing { mounts: vec![rw("/all", "/p")], declared: true, foreign: true, ..Narrowing::default() };
    let callee = a.narrow("lib:c", &narrowing).unwrap();
    assert_eq!(real(&callee, "/all/secrets/x", Read).as_deref(), Some("/ext/empty/x"));
    assert_eq!(real(&callee, "/all/x", Write).as_deref(), Some("/p/x"));
    let direct = Narrowing {
        mounts: vec![rw("/s", "/p/secrets")],
        declared: true,
        foreign: true,
        ..Narrowing::default()
    };
    assert!(a.narrow("lib:c", &direct).is_err());
}

#[test]
fn what_is_handed_over_is_seen_with_the_mode_it_was_handed_over_with() {
    let a = program(vec![rw("/", "/p")]);
    let handed = Narrowing { handed: vec![ro("/input_dir", "/p/data")], ..restrict(&["/src"]) };
    let callee = a.narrow("c", &handed).unwrap();
    assert_eq!(real(&callee, "/input_dir/x", Read).as_deref(), Some("/p/data/x"));
    assert_eq!(real(&callee, "/input_dir/x", Write), None);
    assert_eq!(
        real(&callee, "/data/x", Write),
        None,
        "what is handed over for reading is not written by another name"
    );
    assert!(real(&callee, "/src/x", Write).is_some());
}

#[test]
fn a_refusal_does_not_tell_what_is_there() {
    let a = program(vec![rw("/", "/p")]).narrow("w", &restrict(&["/src"])).unwrap();
    let said: Vec<String> = ["/.env", "/notes", "/absent"]
        .iter()
        .map(|path| a.locate(path, Read).unwrap_err().to_string().replace(path, "X"))
        .collect();
    assert!(said.iter().all(|text| *text == said[0]), "{said:?}");
}

#[test]
fn only_the_programs_own_tree_is_made_on_demand() {
    let a = program(vec![rw("/in", "/p/deep/in"), ro("/ext", "/ext/x")]);
    assert!(a.locate("/in/x", Write).unwrap().may_make_base());
    assert!(!a.locate("/in/x", Read).unwrap().may_make_base());
    let outside = Authority::new(
        Bounds::new(vec![extent("/ext", Write)], Network::Off),
        View::new(vec![rw("/ext", "/ext/x")]),
        Arc::new(Protection::new(place("/p"), [])),
    );
    assert!(!outside.locate("/ext/y", Write).unwrap().may_make_base());
}

#[test]
fn network_only_narrows() {
    let some = |domains: &[&str]| Network::domains(domains.iter().map(|d| Domain::parse(d).unwrap()));
    assert_eq!(some(&["b.org", "A.org"]).narrow(&some(&["a.org", "c.org"])), some(&["a.org"]));
    assert_eq!(some(&["b.org"]).narrow(&some(&["a.org"])), Network::Off);
    assert_eq!(Network::On.narrow(&some(&["b", "a", "b"])), some(&["a", "b"]));
    let wide = some(&["*.a.org", "b.org", "c.org:8080"]);
    let tight = some(&["x.a.org", "a.org", "b.org:443", "*.b.org", "c.org"]);
    assert_eq!(wide.narrow(&tight), some(&["x.a.org", "b.org:443"]));
    assert_eq!(some(&["x.a.org", "*.a.org", "a.org:443", "a.org"]), some(&["*.a.org", "a.org"]));
    let a = program(vec![]);
    let off = a.narrow("w", &Narrowing { network: Some(Network::Off), ..Narrowing::default() }).unwrap();
    let on = off.narrow("c", &Narrowing { network: Some(Network::On), ..Narrowing::default() }).unwrap();
    assert_eq!(on.bounds().network(), &Network::Off);
}

#[test]
fn what_others_write_is_untrusted_under_every_name() {
    let mail = Mount { untrusted: true, ..rw("/mail", "/p/mail") };
    let program = program(vec![mail, rw("/all", "/p")]);
    let is_untrusted = |authority: &Authority, path: &str| {
        let located = authority.locate(path, Read).unwrap();
        located.is_untrusted(&located.place())
    };
    assert!(is_untrusted(&program, "/mail/1.txt"));
    assert!(is_untrusted(&program, "/all/mail/1.txt"));
    assert!(!is_untrusted(&program, "/all/notes/1.txt"));
    // A callee mounts a part of it and does not say so.
    let by = |foreign, real| Narrowing {
        declared: true,
        mounts: vec![ro("/m", real)],
        network: Some(Network::Off),
        foreign,
        ..Narrowing::default()
    };
    for foreign in [false, true] {
        let callee = program.narrow("callee", &by(foreign, "/p/mail/in")).unwrap();
        assert!(is_untrusted(&callee, "/m/1.txt") && callee.reaches_untrusted(), "{foreign}");
        let callee = program.narrow("callee", &by(foreign, "/p/notes")).unwrap();
        assert!(!is_untrusted(&callee, "/m/1.txt") && !callee.reaches_untrusted(), "{foreign}");
    }
    // A process with the network reads what others write, too.
    assert!(
        program
            .narrow("callee", &Narrowing { network: None, ..by(false, "/p/notes") })
            .unwrap()
            .reaches_untrusted()
    );
}
