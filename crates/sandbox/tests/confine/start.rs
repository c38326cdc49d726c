//! A failed start reports the reason, and a started process inherits nothing of ours.

use crate::bench::{B, Bench, CANARY, both_tiers, finish, process, run, shell};
use llm_do_core::authority::Access;
use llm_do_sandbox::confine::{Channel, Confinement, Process, ProcessView, Refused, StartError, Tier};
use std::{
    fs::{self, File},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::{PermissionsExt, symlink},
    },
};

both_tiers!(
    a_program_that_is_missing_is_named,
    a_program_without_its_interpreter_says_so,
    a_place_that_vanished_is_named,
    a_place_that_was_swapped_for_a_link_is_refused,
    a_working_directory_outside_the_view_is_refused,
    descriptors_that_leak_are_not_seen,
    the_channel_is_number_three,
    arguments_that_are_not_text_arrive,
    a_large_plan_arrives,
);

async fn refused(process: Process) -> Refused {
    match process.start().await {
        Err(StartError::Refused(refused)) => refused,
        Err(error) => panic!("another error: {error}"),
        Ok(_) => panic!("it was started"),
    }
}

async fn a_program_that_is_missing_is_named(tier: Confinement) {
    for program in ["/usr/bin/no-such-program", "no-such-program"] {
        let why = refused(process(ProcessView::empty(), tier, program)).await;
        assert_eq!((why.layer.as_str(), why.path.as_deref()), ("program", Some(program)), "{why}");
    }
    let bench = Bench::new();
    let hidden = bench.path("outside/program");
    fs::write(&hidden, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o755)).unwrap();
    let why = refused(process(ProcessView::empty(), tier, &hidden)).await;
    assert_eq!(why.layer, "program", "{why}");
    let plain = refused(process(bench.view(tier), tier, bench.path("project/ro/theirs.txt"))).await;
    assert_eq!(plain.layer, "program", "{plain}");
}

async fn a_program_without_its_interpreter_says_so(tier: Confinement) {
    let bench = Bench::new();
    let script = bench.path("project/ro/script");
    fs::write(&script, format!("#!{}\n", bench.path("outside/interpreter").display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let why = refused(process(bench.view(tier), tier, &script)).await;
    assert_eq!(why.layer, "program");
    assert!(why.reason.contains("interpreter"), "{why}");
}

async fn a_place_that_vanished_is_named(tier: Confinement) {
    let bench = Bench::new();
    let view = bench.view(tier);
    fs::remove_dir_all(bench.path("project/ro")).unwrap();
    let why = refused(shell(view, tier, "true")).await;
    assert_eq!(why.layer, "view", "{why}");
    assert!(why.path.as_deref().unwrap().ends_with("project/ro"), "{why}");
}

async fn a_place_that_was_swapped_for_a_link_is_refused(tier: Confinement) {
    let bench = Bench::new();
    let view = bench.view(tier);
    // The place itself, and then a folder above it.
    fs::rename(bench.path("project/rw"), bench.path("project/was")).unwrap();
    symlink(bench.path("outside"), bench.path("project/rw")).unwrap();
    let why = refused(shell(view.clone(), tier, "cat */canary.txt")).await;
    assert_eq!(why.layer, "view", "{why}");
    fs::remove_file(bench.path("project/rw")).unwrap();
    fs::rename(bench.path("project"), bench.path("moved")).unwrap();
    fs::create_dir_all(bench.path("outside/rw")).unwrap();
    fs::create_dir_all(bench.path("outside/ro")).unwrap();
    symlink(bench.path("outside"), bench.path("project")).unwrap();
    let why = refused(shell(view, tier, "true")).await;
    assert_eq!(why.layer, "view", "{why}");
}

async fn a_working_directory_outside_the_view_is_refused(tier: Confinement) {
    let bench = Bench::new();
    let mut good = shell(bench.view(tier), tier, "pwd; cat theirs.txt");
    good.cwd = Some(bench.path("project/ro"));
    let ran = run(good).await;
    assert_eq!(ran.out, format!("{}\nto be read", bench.path("project/ro").display()));
    let mut bad = shell(bench.view(tier), tier, "cat canary.txt");
    bad.cwd = Some(bench.path("outside"));
    match bad.start().await {
        Err(StartError::Refused(why)) => assert_eq!(why.layer, "working directory", "{why}"),
        Err(error) => panic!("another error: {error}"),
        // Landlock doesn't stop a process from being somewhere, only from what it could do there.
        Ok(running) => {
            assert_eq!(tier, B);
            assert!(!finish(running).await.out.contains(CANARY));
        }
    }
}

async fn descriptors_that_leak_are_not_seen(tier: Confinement) {
    let bench = Bench::new();
    let secret = File::open(bench.path("outside/canary.txt")).unwrap();
    // Without the mark that closes it when a program is executed.
    rustix::io::fcntl_setfd(&secret, rustix::io::FdFlags::empty()).unwrap();
    let script = r#"
seen = []
for number in range(1024):
    try:
        os.fstat(number)
        seen.append(number)
    except OSError:
        pass
print("open: ok", *seen)
"#;
    let ran = bench.run(tier, script, &[]).await;
    assert_eq!(ran.of("open"), "ok 0 1 2", "{} leaked: {ran:?}", secret.as_raw_fd());
}

async fn the_channel_is_number_three(tier: Confinement) {
    let bench = Bench::new();
    let (reader, writer) = std::io::pipe().unwrap();
    let script = "os.write(3, b'by number three'); attempt('four', lambda: os.fstat(4))";
    let mut process = bench.python(tier, script, &[]);
    process.channel = Some(Channel::Third(OwnedFd::from(writer)));
    let ran = finish(process.start().await.unwrap()).await;
    assert_eq!(ran.of("four"), "EBADF");
    assert_eq!(std::io::read_to_string(reader).unwrap(), "by number three");
}

async fn arguments_that_are_not_text_arrive(tier: Confinement) {
    use std::os::unix::ffi::OsStringExt;
    let mut process = shell(ProcessView::empty(), tier, r#"printf '%s' "$1" "$ODD" | od -An -tx1"#);
    process.args.push("name".into());
    process.args.push(std::ffi::OsString::from_vec(vec![0xff, b'a', 0xfe]));
    process.env.push(("ODD".into(), std::ffi::OsString::from_vec(vec![0x80])));
    let ran = run(process).await;
    assert_eq!(ran.out.trim(), "ff 61 fe 80", "{ran:?}");
}

async fn a_large_plan_arrives(tier: Confinement) {
    let mut process = shell(ProcessView::empty(), tier, "echo $#");
    process.args.push("name".into());
    process.args.extend((0..2000).map(|number| format!("{number:0>500}").into()));
    assert_eq!(run(process).await.out, "2000\n");
}

#[tokio::test]
async fn a_view_made_for_namespaces_is_not_used_without_them() {
    let bench = Bench::new();
    let authority = bench.authority(&[("/", "project", Access::Write)]);
    let view = ProcessView::of(&authority, Tier::Namespaces).unwrap();
    let why = refused(shell(view, B, "true")).await;
    assert_eq!(why.layer, "view", "{why}");
}
