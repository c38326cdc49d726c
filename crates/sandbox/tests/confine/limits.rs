//! The resource limits of a process.

use crate::bench::{A, Bench, both_tiers, finish, in_tier};
use llm_do_sandbox::confine::{Confinement, probe};

both_tiers!(
    memory_is_limited,
    memory_of_all_processes_together_is_limited,
    open_files_are_limited,
    a_file_is_limited,
    processor_time_is_limited,
    a_limit_cannot_be_raised,
);

async fn memory_is_limited(tier: Confinement) {
    let bench = Bench::new();
    let script = r#"
attempt("some", lambda: len(bytearray(50 << 20)))
attempt("much", lambda: len(bytearray(500 << 20)))
"#;
    let mut process = bench.python(tier, script, &[]);
    process.limits.memory = 200 << 20;
    let ran = finish(process.start().await.unwrap()).await;
    ran.succeeded("some");
    assert!(ran.of("much").starts_with("MemoryError"), "{ran:?}");
}

/// The memory of shared mappings and of files in memory belongs to no process.
async fn memory_of_all_processes_together_is_limited(tier: Confinement) {
    if !probe().layers.iter().any(|layer| layer.name == "cgroup" && layer.works) {
        println!("skipped: no control group can be made here");
        return;
    }
    let shared = r#"
import mmap
blocks = [mmap.mmap(-1, 16 << 20) for _ in range(40)]
for block in blocks:
    block.write(bytes(16 << 20))
print("much: ok", flush=True)
"#;
    let files = r#"
for number in range(40):
    file = os.memfd_create("x")
    os.write(file, bytes(16 << 20))
print("much: ok", flush=True)
"#;
    let processes = r#"
for number in range(5):
    if os.fork() == 0:
        block = bytearray(os.urandom(1 << 20) * 100)
        import time
        time.sleep(1)
        os._exit(0)
if all(os.wait()[1] == 0 for number in range(5)):
    print("much: ok", flush=True)
"#;
    for script in [shared, files, processes] {
        let bench = Bench::new();
        let mut process = bench.python(tier, script, &[]);
        process.limits.memory = 200 << 20;
        let ran = finish(process.start().await.unwrap()).await;
        let some_was_killed = ran.exit.signal == Some(9) || !ran.out.contains("much: ok");
        assert!(some_was_killed, "{script}: {ran:?}");
    }
}

async fn open_files_are_limited(tier: Confinement) {
    let bench = Bench::new();
    let script = "attempt('many', lambda: [os.dup(1) for _ in range(100)] and 'many')\nprint('end: ok')";
    let mut process = bench.python(tier, script, &[]);
    process.limits.open_files = 50;
    let ran = finish(process.start().await.unwrap()).await;
    assert_eq!(ran.of("many"), "EMFILE", "{ran:?}");
}

async fn a_file_is_limited(tier: Confinement) {
    let bench = Bench::new();
    let script = r#"
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def fill(path):
    with open(path, "wb") as file:
        for _ in range(100):
            file.write(bytes(1 << 20))
    return "filled"
attempt("mount", lambda: fill(sys.argv[1] + "/large"))
attempt("temporary", lambda: fill(os.environ["TMPDIR"] + "/large"))
attempt("sparse", lambda: os.truncate(sys.argv[1] + "/mine.txt", 1 << 40))
def memory():
    os.truncate(os.memfd_create("x"), 1 << 30)
attempt("memory", memory)
"#;
    let mut process = bench.python(tier, script, &[&bench.path("project/rw")]);
    process.limits.file_size = 10 << 20;
    let ran = finish(process.start().await.unwrap()).await;
    for name in ["mount", "temporary", "sparse", "memory"] {
        assert_eq!(ran.of(name), "EFBIG", "{ran:?}");
    }
    assert!(std::fs::metadata(bench.path("project/rw/large")).unwrap().len() <= 10 << 20);
}

async fn processor_time_is_limited(tier: Confinement) {
    let bench = Bench::new();
    let mut process = bench.python(tier, "while True: pass", &[]);
    process.limits.processor_seconds = Some(1);
    let ran = finish(process.start().await.unwrap()).await;
    assert!(matches!(ran.exit.signal, Some(9 | 24)), "{ran:?}");
    assert!(ran.exit.reason.is_some());
}

async fn a_limit_cannot_be_raised(tier: Confinement) {
    let bench = Bench::new();
    let script = r#"
import resource
for name in ("DATA", "NOFILE", "FSIZE", "CORE", "MEMLOCK"):
    which = getattr(resource, "RLIMIT_" + name)
    soft, hard = resource.getrlimit(which)
    attempt(name, lambda: resource.setrlimit(which, (hard + 1, hard + 1)))
"#;
    let ran = bench.run(tier, script, &[]).await;
    for name in ["DATA", "NOFILE", "FSIZE", "CORE", "MEMLOCK"] {
        let said = ran.of(name);
        assert!(!said.starts_with("ok"), "{name} was raised: {ran:?}");
    }
}

/// A folder of limited size needs a mount of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_temporary_folder_is_limited() {
    in_tier(A, |tier| async move {
        let bench = Bench::new();
        let script = r#"
def fill(folder):
    for number in range(100):
        with open(f"{folder}/{number}", "wb") as file:
            file.write(bytes(1 << 20))
    return "filled"
attempt("temporary", lambda: fill("/tmp"))
attempt("shared memory", lambda: fill("/dev/shm"))
def names(folder):
    for number in range(100_000):
        os.close(os.open(f"{folder}/n{number}", os.O_CREAT | os.O_WRONLY))
    return "made"
for number in range(100):
    try: os.unlink(f"/tmp/{number}")
    except OSError: pass
attempt("names", lambda: names("/tmp"))
"#;
        let mut process = bench.python(tier, script, &[]);
        process.limits.temporary = 20 << 20;
        let ran = finish(process.start().await.unwrap()).await;
        for name in ["temporary", "shared memory", "names"] {
            assert_eq!(ran.of(name), "ENOSPC", "{ran:?}");
        }
    })
    .await;
}
