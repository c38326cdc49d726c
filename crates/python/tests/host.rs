//! The host's own tests, in Python, on each version that is installed. They speak the protocol with the joined host
//! that the binary holds.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that meets an error has failed, and says what it skips"
)]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
};

/// Finds an interpreter of that version: on the `PATH`, or among those of pyenv.
fn interpreter(version: &str) -> Option<PathBuf> {
    let named = format!("python{version}");
    let on_path =
        env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(&named)).collect::<Vec<_>>();
    let pyenv = env::home_dir()?.join(".pyenv/versions");
    let installed = fs::read_dir(pyenv).into_iter().flatten().flatten();
    let installed = installed.map(|entry| entry.path().join("bin").join(&named));
    on_path.into_iter().chain(installed).find(|path| answers(path, version))
}

/// Returns true if the interpreter has that version: a version manager puts scripts on the `PATH` that start nothing.
fn answers(path: &Path, version: &str) -> bool {
    let code = "import sys; print('%d.%d' % sys.version_info[:2])";
    let said = Command::new(path).args(["-I", "-c", code]).stderr(Stdio::null()).output();
    said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).trim() == version)
}

/// The host as `build.rs` joins it.
const JOINED: &str = concat!(env!("OUT_DIR"), "/host.py");

/// A lock that runs the versions one after another: the tests wait for answers with limits, which a busy machine would
/// exceed.
static TURN: Mutex<()> = Mutex::new(());

fn run(python: &Path) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("host/tests");
    let run = Command::new(python)
        .args(["-B", "-m", "unittest", "discover", "-s"])
        .arg(tests)
        .env("LLM_DO_TEST_HOST", JOINED)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{}:\n{said}", python.display());
    assert!(!said.contains("Ran 0 tests"), "{said}");
}

macro_rules! versions {
    ($($test:ident: $version:literal),*) => {$(
        #[test]
        fn $test() {
            match interpreter($version) {
                Some(python) => run(&python),
                None => eprintln!("skipped: there is no Python {} here", $version),
            }
        }
    )*};
}

versions!(python_3_9: "3.9", python_3_10: "3.10", python_3_11: "3.11", python_3_12: "3.12", python_3_13: "3.13");

/// Runs the tests with Pydantic, in the environment that `LLM_DO_TEST_PYDANTIC` names (`.ci/run` makes one).
#[test]
fn with_pydantic() {
    match env::var_os("LLM_DO_TEST_PYDANTIC") {
        Some(python) => run(Path::new(&python)),
        None => eprintln!("skipped: LLM_DO_TEST_PYDANTIC names no Python with Pydantic"),
    }
}

#[test]
fn build_script_and_join_script_make_the_same_host() {
    let Some(python) =
        ["3.13", "3.12", "3.11", "3.10", "3.9"].iter().find_map(|version| interpreter(version))
    else {
        eprintln!("skipped: there is no Python here");
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("host/join.py");
    let joined = Command::new(python).arg("-B").arg(script).output().unwrap();
    assert!(joined.status.success(), "{}", String::from_utf8_lossy(&joined.stderr));
    assert_eq!(String::from_utf8(joined.stdout).unwrap(), fs::read_to_string(JOINED).unwrap());
}

/// Runs the ruff and the mypy on the `PATH`, or in the folder that `LLM_DO_TEST_LINTERS` names.
#[test]
fn linters_find_nothing() {
    let named = env::var_os("LLM_DO_TEST_LINTERS").map(PathBuf::from);
    let search = env::var_os("PATH").unwrap_or_default();
    let search: Vec<PathBuf> = named.into_iter().chain(env::split_paths(&search)).collect();
    let missing =
        ["ruff", "mypy"].into_iter().find(|name| !search.iter().any(|dir| dir.join(name).is_file()));
    if let Some(missing) = missing {
        eprintln!("skipped: {missing} is not installed");
        return;
    }
    let lint = Path::new(env!("CARGO_MANIFEST_DIR")).join("host/lint");
    let found = Command::new(lint).env("PATH", env::join_paths(search).unwrap()).output().unwrap();
    let said = [found.stdout, found.stderr].concat();
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&said));
}
