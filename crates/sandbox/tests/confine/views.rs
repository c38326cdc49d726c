//! The places that a worker's view gives to its processes.

use crate::bench::{A, B, Bench, CANARY, in_tier, run, shell, tier_of};
use llm_do_core::{
    authority::{Access, Mount, Narrowing, Origin, VirtualPath},
    gate::Rule,
};
use llm_do_sandbox::confine::{Planted, ProcessView, Tier};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

fn at(path: &str) -> VirtualPath {
    VirtualPath::parse(path).unwrap()
}

fn shown(view: &ProcessView) -> Vec<(String, Access)> {
    view.shown().iter().map(|shown| (shown.at.to_string(), shown.access)).collect()
}

#[test]
fn the_default_mount_is_for_reading() {
    let bench = Bench::new();
    let authority =
        bench.authority_of(vec![Mount::new(VirtualPath::root(), bench.place("project"), Access::Write)]);
    let view = ProcessView::of(&authority, Tier::Namespaces).unwrap();
    assert_eq!(shown(&view), [("/".to_owned(), Access::Read)]);
    assert_eq!(view.real(&at("/plan.md")), Some(bench.path("project/plan.md")));
}

#[test]
fn equal_views_have_equal_keys() {
    let bench = Bench::new();
    let view = |access| {
        let authority = bench.authority(&[("/x", "project/rw", access)]);
        ProcessView::of(&authority, Tier::Namespaces).unwrap()
    };
    assert_eq!(view(Access::Write), view(Access::Write));
    assert_eq!(view(Access::Write).key(), view(Access::Write).key());
    assert_ne!(view(Access::Write).key(), view(Access::Read).key());
    let more = view(Access::Write).with_readable([bench.path("outside")]);
    assert_ne!(more.key(), view(Access::Write).key());
    // Reading what may be written takes nothing away.
    let same = view(Access::Write).with_readable([bench.path("project/rw/inner")]);
    assert_eq!(same.key(), view(Access::Write).key());
}

#[test]
fn mounts_with_rules_that_only_file_tools_know_are_left_out() {
    let bench = Bench::new();
    let mount = |change: fn(&mut Mount)| {
        let mut mount = Mount::new(at("/m"), bench.place("project/rw"), Access::Write);
        mount.origin = Origin::Declared;
        change(&mut mount);
        let authority = bench.authority_of(vec![mount]);
        ProcessView::of(&authority, Tier::Namespaces).unwrap()
    };
    assert!(mount(|_| {}).left_out().is_empty());
    assert!(mount(|m| m.approvals.write = Some(Rule::PreApproved)).left_out().is_empty());
    for view in [
        mount(|m| m.suffixes = vec![".txt".into()]),
        mount(|m| m.max_file_bytes = Some(10)),
        mount(|m| m.approvals.read = Some(Rule::Ask)),
        mount(|m| m.approvals.write = Some(Rule::Ask)),
        mount(|m| m.approvals.delete = Some(Rule::Blocked)),
    ] {
        assert_eq!(view.left_out().len(), 1, "{view:?}");
        assert!(view.shown().is_empty(), "{view:?}");
    }
}

#[test]
fn bounds_hold_for_processes_too() {
    let bench = Bench::new();
    let authority = bench.authority(&[("/", "project", Access::Write)]);
    let narrowed = authority
        .narrow("w", &Narrowing { restrict: vec![at("/rw")], readonly: true, ..Narrowing::default() })
        .unwrap();
    let view = ProcessView::of(&narrowed, Tier::Landlock).unwrap();
    assert_eq!(shown(&view), [("/rw".to_owned(), Access::Read)]);
    assert_eq!(view.real(&at("/rw/mine.txt")), Some(bench.path("project/rw/mine.txt")));
    assert_eq!(view.real(&at("/plan.md")), None);
}

#[test]
fn a_folder_for_writing_that_is_not_there_is_made() {
    let bench = Bench::new();
    let authority =
        bench.authority(&[("/new", "project/a/new", Access::Write), ("/no", "project/no", Access::Read)]);
    let view = ProcessView::of(&authority, Tier::Landlock).unwrap();
    assert_eq!(shown(&view), [("/new".to_owned(), Access::Write)]);
    assert!(bench.path("project/a/new").is_dir() && !bench.path("project/no").exists());
}

#[test]
fn the_machine_and_the_kernel_are_given_to_nobody() {
    let bench = Bench::new();
    for place in ["/", "/proc", "/sys/kernel", "/dev"] {
        let mut mount = Mount::new(at("/m"), llm_do_core::authority::Place::new(place), Access::Read);
        mount.origin = Origin::Declared;
        let view = ProcessView::of(&bench.authority_of(vec![mount]), Tier::Namespaces).unwrap();
        assert!(view.shown().iter().all(|shown| shown.place == bench.path("project")), "{place}: {view:?}");
        assert_eq!(view.left_out().len(), 1, "{place}: {view:?}");
    }
}

/// The mount `/data` shows another folder than the project's own `data`, which must not be seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_mount_covers_is_not_seen() {
    in_tier(A, |tier| async move {
        let bench = Bench::new();
        fs::create_dir_all(bench.path("project/data/below")).unwrap();
        fs::write(bench.path("project/data/covered.txt"), CANARY).unwrap();
        fs::write(bench.path("project/data/below/file"), "below").unwrap();
        let authority = bench.authority(&[
            ("/", "project", Access::Read),
            ("/data", "project/rw", Access::Write),
            ("/below", "project/data/below", Access::Write),
        ]);
        let view = ProcessView::of(&authority, Tier::Namespaces).unwrap();
        let project = bench.path("project");
        let script = format!(
            "cd {}; cat data/covered.txt; cat data/below/file; echo new > data/below/new; cat rw/mine.txt; echo x > rw/y; echo z > plan.md",
            project.display()
        );
        let ran = run(shell(view, tier, &script)).await;
        assert!(!ran.out.contains(CANARY), "{ran:?}");
        assert!(ran.out.contains("below") && ran.out.contains("to be changed"), "{ran:?}");
        assert!(bench.path("project/data/below/new").exists() && bench.path("project/rw/y").exists());
        assert_eq!(bench.read("project/plan.md"), "The plan\n");
    })
    .await;
}

/// A mount inside another one, for reading inside of writing and the other way round.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mounts_lie_inside_each_other() {
    in_tier(A, |tier| async move {
        let bench = Bench::new();
        let authority = bench.authority(&[
            ("/rw", "project/rw", Access::Write),
            ("/rw/inner", "project/rw/inner", Access::Read),
            ("/ro", "project/ro", Access::Read),
            ("/ro/inner", "project/ro/inner", Access::Write),
        ]);
        let view = ProcessView::of(&authority, Tier::Namespaces).unwrap();
        let script = format!(
            "cd {}; for f in rw/1 rw/inner/2 ro/3 ro/inner/4; do echo x > $f; done; ls rw ro rw/inner ro/inner",
            bench.path("project").display()
        );
        let ran = run(shell(view, tier, &script)).await;
        let there = |rest: &str| bench.path("project").join(rest).exists();
        assert_eq!([there("rw/1"), there("rw/inner/2"), there("ro/3"), there("ro/inner/4")], [true, false, false, true], "{ran:?}");
    })
    .await;
}

/// The view was made, and then something took a hidden file's place: nothing is shown rather than the wrong thing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hidden_file_that_moved_stops_the_start() {
    in_tier(A, |tier| async move {
        let bench = Bench::new();
        let view = bench.whole(tier);
        fs::rename(bench.path("project/.env"), bench.path("project/found.txt")).unwrap();
        fs::write(bench.path("project/.env"), "a decoy").unwrap();
        let Err(error) = shell(view, tier, "true").start().await else { panic!("it was started") };
        assert!(error.to_string().contains(".env") && error.to_string().contains("try again"), "{error}");
    })
    .await;
}

/// A project in the folder that is otherwise the private temporary one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_below_the_temporary_one_can_be_given() {
    for tier in [A, B] {
        in_tier(tier, |tier| async move {
            let dir = tempfile::tempdir_in("/tmp").unwrap();
            fs::write(dir.path().join("file"), "there").unwrap();
            let view = ProcessView::empty().with_readable([dir.path().to_owned()]);
            let script = format!("cat {}; ls {} | wc -l", dir.path().join("file").display(), "$TMPDIR");
            let ran = run(shell(view, tier, &script)).await;
            assert!(ran.out.starts_with("there"), "{ran:?}");
        })
        .await;
    }
}

/// A mount can't cover a link: if a process could replace the link, its folder is not given.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_with_special_names_are_not_left_to_be_replaced() {
    in_tier(A, |tier| async move {
        let bench = Bench::new();
        symlink("../../outside/canary.txt", bench.path("project/rw/.env")).unwrap();
        symlink("mine.txt", bench.path("project/rw/x.worker")).unwrap();
        let view = bench.view(tier);
        assert_eq!(shown(&view), [("/ro".to_owned(), Access::Read)]);
        assert!(view.left_out()[0].reason.contains("symbolic link"), "{view:?}");
        let authority = bench.authority(&[("/rw", "project/rw", Access::Read)]);
        let view = ProcessView::of(&authority, Tier::Namespaces).unwrap();
        let script = format!("cd {}; cat .env; cat x.worker", bench.path("project/rw").display());
        let ran = run(shell(view, tier, &script)).await;
        assert_eq!(ran.out, "to be changed", "{ran:?}");
    })
    .await;
}

/// The kernel doesn't know names, so special names are looked for after the end of a process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_process_plants_is_found() {
    for tier in [A, B] {
        in_tier(tier, |tier| async move {
            let bench = Bench::new();
            let authority = bench.authority(&[("/rw", "project/rw", Access::Write)]);
            let before = ProcessView::of(&authority, tier_of(tier)).unwrap();
            assert!(before.set_aside_planted(&authority).unwrap().is_empty());
            let script = format!(
                "cd {} && mkdir -p .git/hooks bare/objects bare/refs .vscode .hg && echo x > new.worker && \
                 echo x > bare/HEAD && ln -s mine.txt linked.worker && echo y > free && mkdir objects refs",
                bench.path("project/rw").display()
            );
            let ran = run(shell(before.clone(), tier, &script)).await;
            assert_eq!(ran.exit.code, Some(0), "{ran:?}");
            let names = [".git", ".hg", ".vscode", "bare", "linked.worker", "new.worker"];
            let planted = |name: &str| {
                let place = bench.path("project/rw").join(name);
                // These would be workers of the program.
                let aside =
                    name.ends_with(".worker").then(|| place.with_file_name(format!("{name}.set-aside")));
                Planted { place, replaced: false, set_aside: aside }
            };
            assert_eq!(before.set_aside_planted(&authority).unwrap(), names.map(planted));
            assert!(!bench.path("project/rw/new.worker").exists());
            // The mount itself becomes a repository.
            fs::write(bench.path("project/rw/HEAD"), "ref: refs/heads/x").unwrap();
            let again = before.set_aside_planted(&authority).unwrap();
            assert!(again.contains(&planted("")) && !again.iter().any(|planted| planted.set_aside.is_some()));
        })
        .await;
    }
}

/// A mount point can't be moved, but a folder that contains one can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_special_name_that_was_moved_away_and_made_again_is_found() {
    in_tier(A, |tier| async move {
        let bench = Bench::new();
        fs::create_dir(bench.path("project/rw/sub")).unwrap();
        fs::write(bench.path("project/rw/sub/.git"), "gitdir: ../../.git/modules/sub\n").unwrap();
        let authority = bench.authority(&[("/rw", "project/rw", Access::Write)]);
        let before = ProcessView::of(&authority, tier_of(tier)).unwrap();
        let script = format!(
            "cd {}; echo x > sub/.git; mv sub/.git other; mv sub away && mkdir -p sub/.git && echo x > sub/.git/config",
            bench.path("project/rw").display()
        );
        run(shell(before.clone(), tier, &script)).await;
        let planted = |replaced, name: &str| Planted {
            place: bench.path("project/rw").join(name),
            replaced,
            set_aside: None,
        };
        assert_eq!(
            before.set_aside_planted(&authority).unwrap(),
            [planted(false, "away/.git"), planted(true, "sub/.git")]
        );
        assert_eq!(bench.read("project/rw/away/.git"), "gitdir: ../../.git/modules/sub\n");
    })
    .await;
}

/// A file that the operator's editor replaces stays. A file that a process has put in the place of one that it moved
/// away is set aside.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_that_an_editor_replaces_stays() {
    in_tier(A, |tier| async move {
        let bench = Bench::new();
        fs::create_dir(bench.path("project/rw/sub")).unwrap();
        for file in ["mine.worker", "sub/theirs.worker"] {
            fs::write(bench.path("project/rw").join(file), "before").unwrap();
        }
        let authority = bench.authority(&[("/rw", "project/rw", Access::Write)]);
        let before = ProcessView::of(&authority, tier_of(tier)).unwrap();
        let script = format!(
            "cd {}; mv sub away && mkdir sub && echo x > sub/theirs.worker",
            bench.path("project/rw").display()
        );
        run(shell(before.clone(), tier, &script)).await;
        fs::write(bench.path("project/rw/saved"), "after").unwrap();
        fs::rename(bench.path("project/rw/saved"), bench.path("project/rw/mine.worker")).unwrap();
        let planted = before.set_aside_planted(&authority).unwrap();
        let aside: Vec<(&str, bool)> = planted
            .iter()
            .map(|it| (it.place.file_name().unwrap().to_str().unwrap(), it.set_aside.is_some()))
            .collect();
        assert_eq!(aside, [("theirs.worker", true), ("mine.worker", false), ("theirs.worker", true)]);
        assert_eq!(bench.read("project/rw/mine.worker"), "after");
        assert_eq!(bench.read("project/rw/away/theirs.worker.set-aside"), "before");
    })
    .await;
}

/// File tools ask before each change of these files, because other programs execute them. A process can't ask.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_other_programs_execute_are_read_only() {
    in_tier(A, |tier| async move {
        let bench = Bench::new();
        fs::create_dir_all(bench.path("project/rw/.vscode")).unwrap();
        fs::create_dir_all(bench.path("project/rw/bare/objects")).unwrap();
        fs::create_dir_all(bench.path("project/rw/bare/refs")).unwrap();
        for file in [".vscode/tasks.json", "bare/HEAD", "bare/config"] {
            fs::write(bench.path("project/rw").join(file), "before").unwrap();
        }
        let script = format!(
            "cd {}; for f in .vscode/tasks.json .vscode/new bare/HEAD bare/config mine.txt; do echo x > $f; done",
            bench.path("project/rw").display()
        );
        let ran = run(shell(bench.view(tier), tier, &script)).await;
        assert_eq!(ran.err.matches("Read-only file system").count(), 4, "{ran:?}");
        assert_eq!(bench.read("project/rw/bare/config"), "before");
        assert_eq!(bench.read("project/rw/mine.txt"), "x\n");
    })
    .await;
}

/// A process could open up a folder that is closed to its own user, and find files there that were not checked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_cannot_be_looked_into_is_hidden() {
    if rustix::process::geteuid().is_root() {
        println!("skipped: nothing is closed to root");
        return;
    }
    in_tier(A, |tier| async move {
        let bench = Bench::new();
        fs::create_dir(bench.path("project/rw/closed")).unwrap();
        fs::write(bench.path("project/rw/closed/.env"), CANARY).unwrap();
        fs::set_permissions(bench.path("project/rw/closed"), fs::Permissions::from_mode(0o000)).unwrap();
        let view = bench.view(tier);
        let script = format!("cd {}; chmod 700 closed; cat closed/.env", bench.path("project/rw").display());
        let ran = run(shell(view, tier, &script)).await;
        assert!(!ran.out.contains(CANARY), "{ran:?}");
        fs::set_permissions(bench.path("project/rw/closed"), fs::Permissions::from_mode(0o700)).unwrap();
    })
    .await;
}

#[tokio::test]
async fn whoever_is_given_the_settings_of_the_machine_has_the_machines_own() {
    for tier in [A, B] {
        in_tier(tier, |tier| async move {
            let view = ProcessView::empty().with_readable(["/etc".into()]);
            let ran =
                run(shell(view, tier, "cat /etc/passwd; test -e /etc/ld.so.cache && echo settings")).await;
            let machines = fs::read_to_string("/etc/passwd").unwrap();
            assert_eq!(ran.out, format!("{machines}settings\n"), "{} {:?}", ran.err, ran.exit);
        })
        .await;
    }
}
