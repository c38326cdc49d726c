//! Commands that change folders, killed before each system call that changes a file: they leave the old state or the new
//! state, and the same command succeeds afterwards.
//!
//! The test traces the command (`ptrace`), so that it is deterministic: the kernel stops it before each system call.

use crate::scenario::{Finished, Scenario};
use std::{
    collections::BTreeMap,
    fs,
    io::Read,
    mem,
    net::TcpListener,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

/// Runs a command until its main thread is about to change files for the `nth` time, and kills it there. Returns whether
/// it came so far.
fn killed_before(command: &mut Command, nth: usize) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: between fork and exec only this system call is made.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    let pid = command.spawn().expect("the binary starts").id().try_into().expect("a process");
    let wait = || {
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        status
    };
    assert!(libc::WIFSTOPPED(wait()), "it stops when it is executed");
    let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL;
    // SAFETY: a call without pointers, to a process that is stopped.
    assert_eq!(unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, pid, 0, options) }, 0);
    let (mut signal, mut changes) = (0, 0);
    loop {
        // SAFETY: as above.
        assert_eq!(unsafe { libc::ptrace(libc::PTRACE_SYSCALL, pid, 0, signal) }, 0);
        let status = wait();
        if libc::WIFEXITED(status) {
            assert_eq!(libc::WEXITSTATUS(status), 0, "undisturbed it succeeds");
            return false;
        }
        assert!(libc::WIFSTOPPED(status), "nobody else kills it");
        signal = match libc::WSTOPSIG(status) {
            stop if stop == libc::SIGTRAP | 0x80 => {
                changes += usize::from(is_about_to_change(pid));
                0
            }
            signal => signal,
        };
        if changes == nth {
            // SAFETY: a call without pointers.
            assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
            assert!(libc::WIFSIGNALED(wait()));
            return true;
        }
    }
}

/// Returns true if the system call at which a process is stopped changes a file or a folder.
fn is_about_to_change(pid: libc::pid_t) -> bool {
    // SAFETY: all zeros is a valid value.
    let mut info: libc::ptrace_syscall_info = unsafe { mem::zeroed() };
    let size = mem::size_of_val(&info);
    // SAFETY: `info` has that size and outlives the call.
    let filled = unsafe { libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, pid, size, &raw mut info) };
    assert!(filled > 0, "{}", std::io::Error::last_os_error());
    if info.op != libc::PTRACE_SYSCALL_INFO_ENTRY {
        return false;
    }
    // SAFETY: the kernel fills in this field at the entry of a system call.
    let entry = unsafe { info.u.entry };
    let creates = |flags: u64| flags & libc::O_CREAT as u64 != 0;
    let number = entry.nr as libc::c_long;
    #[cfg(target_arch = "x86_64")]
    let is_old = [libc::SYS_mkdir, libc::SYS_rename, libc::SYS_rmdir, libc::SYS_unlink].contains(&number);
    #[cfg(not(target_arch = "x86_64"))]
    let is_old = false;
    is_old
        || number == libc::SYS_openat && creates(entry.args[2])
        || [
            libc::SYS_copy_file_range,
            libc::SYS_fchmod,
            libc::SYS_fchmodat,
            libc::SYS_mkdirat,
            libc::SYS_renameat2,
            libc::SYS_sendfile,
            libc::SYS_unlinkat,
            libc::SYS_write,
        ]
        .contains(&number)
}

/// The files below a folder with their texts, except below folders whose names begin with one of these.
fn files(folder: &Path, but: &[&str]) -> BTreeMap<String, String> {
    fn walk(folder: &Path, below: &str, but: &[&str], all: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().expect("UTF-8");
            let path = format!("{below}{name}");
            if entry.path().is_dir() {
                if !but.iter().any(|but| name.starts_with(but)) {
                    walk(&entry.path(), &format!("{path}/"), but, all);
                }
            } else {
                all.insert(path, fs::read_to_string(entry.path()).expect("a text"));
            }
        }
    }
    let mut all = BTreeMap::new();
    walk(folder, "", but, &mut all);
    all
}

fn succeeds(scenario: &Scenario, arguments: &[&str]) -> Finished {
    let told = scenario.run(arguments);
    assert_eq!(told.code, Some(0), "{told}");
    told
}

/// An older project with a file for each case: rewritten under another name, rewritten in place, merged, kept.
fn older() -> Scenario {
    Scenario::new()
        .file("program.yaml", "name: decks\ndelegation:\n  maxDepth: 2\n")
        .file("main.agent", "---\nname: main\ntoolsets:\n  - filesystem_project\n  - evaluator\n---\nGo.\n")
        .file("workers/plain.worker", "---\nmaxContextTokens: ~\ntoolsets: []\n---\nPlain.\n")
        .file("workers/evaluator.yaml", "name: evaluator\ndescription: Evaluates.\n")
        .file("prompts/evaluator.jinja2", "Evaluate {{ input }}.\n")
        .file("notes.txt", "kept\n")
}

#[test]
fn killed_migration_is_complete_or_blocks_loading() {
    let own = [".llm-do"];
    let (before, migrated) = (older(), older());
    succeeds(&migrated, &["migrate", "--write"]);
    let seen = |scenario: &Scenario| files(&scenario.project(), &own);
    // The name of the folder of the originals begins with `.llm-do`.
    let kept = |scenario: &Scenario| files(&scenario.project().join(".llm-do-migrated"), &[]);
    let states = [seen(&before), seen(&migrated)];
    let (mut kills, mut between) = (0, 0);
    loop {
        let scenario = older();
        if !killed_before(&mut scenario.command(&["migrate", "--write"]), kills + 1) {
            break;
        }
        kills += 1;
        let at = format!("killed before change {kills}");
        let unsettled = scenario.project().join(".llm-do/moves.json").exists();
        if !states.contains(&seen(&scenario)) {
            between += 1;
            assert!(unsettled, "{at}");
        }
        if unsettled {
            let told = scenario.run(&["check", "."]);
            assert!(told.code == Some(2) && told.stdout.contains("E0110"), "{at}: {told}");
            let told = scenario.run(&["migrate"]);
            assert!(told.code == Some(2) && told.stderr.contains("llm-do migrate . --write"), "{at}: {told}");
        }
        let told = scenario.run(&["migrate", "--write"]);
        assert_eq!(told.code, Some(0), "{at}: {told}");
        assert_eq!(seen(&scenario), states[1], "{at}");
        assert_eq!(kept(&scenario), kept(&migrated), "{at}");
        assert!(!scenario.project().join(".llm-do").exists(), "{at}");
        assert!(!scenario.project().join("prompts").exists(), "{at}");
        succeeds(&scenario, &["check", "."]);
    }
    assert!(kills > 20 && between > 5, "{kills} kills, {between} in the middle of the moves");
}

#[test]
fn killed_migration_of_one_file_can_be_finished() {
    let scenario = || Scenario::new().file("lib/x.agent", "---\nname: x\ntoolsets: []\n---\nHi\n");
    let mut kills = 0;
    loop {
        let scenario = scenario();
        if !killed_before(&mut scenario.command(&["migrate", "lib/x.agent", "--write"]), kills + 1) {
            break;
        }
        kills += 1;
        let was_there = scenario.read("lib/x.agent").is_some();
        let told = scenario.run(&["migrate", "lib/x.agent", "--write"]);
        let finished = told.stderr.contains("is finished now");
        // A complete migration has nothing left to do.
        assert!(told.code == Some(0) || !was_there && !finished, "killed before change {kills}: {told}");
        let expected = [".llm-do-migrated/x.agent", "x.worker"];
        assert!(
            files(&scenario.project().join("lib"), &[]).keys().eq(expected),
            "killed before change {kills}"
        );
    }
    assert!(kills > 5, "{kills} kills");
}

#[test]
fn killed_migration_to_another_folder_leaves_all_or_nothing() {
    let made = older();
    let command = ["migrate", ".", "--into", "../made", "--write"];
    succeeds(&made, &command);
    let place = |scenario: &Scenario| scenario.home().join("made");
    let mut kills = 0;
    loop {
        let scenario = older();
        if !killed_before(&mut scenario.command(&command), kills + 1) {
            break;
        }
        kills += 1;
        assert_eq!(files(&scenario.project(), &[]), files(&older().project(), &[]));
        if !place(&scenario).exists() {
            succeeds(&scenario, &command);
        }
        assert_eq!(files(&place(&scenario), &[]), files(&place(&made), &[]), "killed before change {kills}");
    }
    assert!(kills > 10, "{kills} kills");
}

const LIBRARY: &str = "name: utils\nversion: 1.0.0\nexports: [a]\n";

fn dependent(text: &str) -> Scenario {
    Scenario::new()
        .file("project.yaml", "name: p\ndependencies: [./utils]\n")
        .file("main.worker", "---\n---\nHi.\n")
        .file("utils/lib.yaml", LIBRARY)
        .file("utils/workers/a.worker", &format!("---\n---\n{text}\n"))
        .file("utils/data/b.txt", "b\n")
}

fn libraries(scenario: &Scenario) -> BTreeMap<String, String> {
    let mut files = files(&scenario.home().join("home/.llm-do/libs"), &[".installing-"]);
    files.remove(".lock");
    files
}

/// The lock file, and the list of projects that use the libraries.
fn pins(scenario: &Scenario) -> (Option<String>, Option<String>) {
    let known = fs::read_to_string(scenario.home().join("home/.llm-do/library-projects")).ok();
    (scenario.read("llm-do.lock"), known.map(|known| scenario.steady(&known)))
}

#[test]
fn killed_install_leaves_all_or_nothing() {
    let install = ["lib", "install"];
    let installed = dependent("Old.");
    succeeds(&installed, &install);
    let none = (None, None);
    let (mut kills, mut without, mut unpinned) = (0, 0, 0);
    loop {
        let scenario = dependent("Old.");
        if !killed_before(&mut scenario.command(&install), kills + 1) {
            break;
        }
        kills += 1;
        let at = format!("killed before change {kills}");
        let there = libraries(&scenario);
        assert!(there.is_empty() || there == libraries(&installed), "{at}: {there:?}");
        let (lock, _) = pins(&scenario);
        assert!(lock.is_none() || lock == pins(&installed).0, "{at}: {lock:?}");
        without += usize::from(there.is_empty());
        unpinned += usize::from(!there.is_empty() && pins(&scenario) == none);
        succeeds(&scenario, &install);
        assert_eq!(
            (libraries(&scenario), pins(&scenario)),
            (libraries(&installed), pins(&installed)),
            "{at}"
        );
        let left = fs::read_dir(scenario.home().join("home/.llm-do/libs")).expect("libraries").count();
        assert_eq!(left, 2, "{at}: the library and the lock");
        let project = files(&scenario.project(), &[]);
        assert!(project.keys().eq(files(&installed.project(), &[]).keys()), "{at}: {project:?}");
        succeeds(&scenario, &["check", "."]);
    }
    assert!(
        without > 5 && unpinned > 0,
        "{kills} kills, {without} before it was there, {unpinned} before the lock"
    );
}

#[test]
fn library_is_replaced_atomically() {
    let replace = ["lib", "install", "--force"];
    let [old, new] = ["Old.", "New."].map(dependent);
    succeeds(&old, &["lib", "install"]);
    succeeds(&new, &["lib", "install"]);
    let mut kills = 0;
    loop {
        let scenario = dependent("Old.");
        succeeds(&scenario, &["lib", "install"]);
        let scenario = scenario.file("utils/workers/a.worker", "---\n---\nNew.\n");
        if !killed_before(&mut scenario.command(&replace), kills + 1) {
            break;
        }
        kills += 1;
        let there = libraries(&scenario);
        assert!(
            there == libraries(&old) || there == libraries(&new),
            "killed before change {kills}: {there:?}"
        );
        succeeds(&scenario, &replace);
        assert_eq!((libraries(&scenario), pins(&scenario)), (libraries(&new), pins(&new)));
        succeeds(&scenario, &["check", "."]);
    }
    assert!(kills > 10, "{kills} kills");
}

#[test]
fn killed_fetch_leaves_no_git_process_and_no_library() {
    if Command::new("git").arg("--version").stdout(Stdio::null()).status().is_err() {
        return;
    }
    // A host that accepts a connection and never answers.
    let host = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = host.local_addr().expect("its address");
    let scenario = dependent("Old.");
    let url = format!("git+git://{address}/utils.git");
    let mut fetching =
        scenario.command(&["lib", "install", &url]).stderr(Stdio::null()).spawn().expect("it starts");
    let (mut called, _) = host.accept().expect("git calls");
    fetching.kill().expect("it can be killed");
    fetching.wait().expect("it ends");
    called.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
    called.read_to_end(&mut Vec::new()).expect("git has hung up");
    assert_eq!(libraries(&scenario), BTreeMap::new());
    succeeds(&scenario, &["lib", "install"]);
    let left = fs::read_dir(scenario.home().join("home/.llm-do/libs")).expect("libraries").count();
    assert_eq!(left, 2, "the library and the lock");
}
