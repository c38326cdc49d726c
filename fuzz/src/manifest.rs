//! The files beside the workers: `project.yaml`, a library's `lib.yaml`, and the lock file.

use super::{
    findings::{Program, hold},
    parts,
};
use llm_do_core::authority::Place;
use llm_do_program::{
    contents::Contents,
    lock::{LOCK_FILE, Lock, Pinned},
    source::MemoryTree,
    span::SourceFile,
};

const MAIN: &[u8] =
    b"---\nparameters: {source: string?}\nallow_workers: [helper, \"utils:summary\"]\n---\n{{ source }}\n";
const HELPER: &[u8] = b"---\n---\n{% include 'utils:part.jinja' %}\n";
const SUMMARY: &[u8] = b"---\nreturns: {text: string}\n---\nSum up {{ input }}.\n";
const PART: &[u8] = b"Be brief.";

/// A lock file of one word, which pins the library as it is. A fuzzer finds no SHA-256.
const FRESH: &[u8] = b"fresh\n";

/// Takes the three texts, each optional, of `project.yaml`, the `lib.yaml` of `utils`, and `llm-do.lock`.
pub fn run(bytes: &[u8]) {
    let [project, library, lock] = parts::<3>(bytes);
    let library = library.unwrap_or(b"name: utils\nversion: 1.0.0\n");
    let utils =
        vec![("lib.yaml", library), ("workers/summary.worker", SUMMARY), ("templates/part.jinja", PART)];
    let fresh = fresh(&utils);
    let lock = lock.map(|lock| if lock == FRESH { fresh.as_bytes() } else { lock });
    if let Some(Ok(text)) = lock.map(std::str::from_utf8) {
        hold_lock(text);
    }
    let mut program = Program::of([("main.worker", MAIN), ("workers/helper.worker", HELPER)]);
    program.files.extend(project.map(|text| ("project.yaml", text)));
    program.files.extend(lock.map(|text| (LOCK_FILE, text)));
    program.libraries.insert("utils", utils.clone());
    program.libraries.insert("text@1.0", vec![("lib.yaml", b"name: text\nversion: '1.0'\n")]);
    program
        .libraries
        .insert("text@2.0", vec![("lib.yaml", b"name: text\nversion: '2.0'\ndependencies: [utils]\n")]);
    program.check();
    // A library by itself.
    Program { files: utils, ..program }.check();
}

fn fresh(library: &[(&str, &[u8])]) -> String {
    let tree = MemoryTree::new(Place::new("/libs/utils"), library.to_vec());
    let contents = Contents::of(&tree).expect("a few files in memory are a library");
    let mut lock = Lock::default();
    lock.insert(Pinned::new("utils", "1.0.0", contents));
    lock.to_text()
}

/// Asserts that a parsed lock file round-trips.
fn hold_lock(text: &str) {
    match Lock::parse(&SourceFile::new(LOCK_FILE, text)) {
        Ok(lock) => {
            let written = lock.to_text();
            let again = Lock::parse(&SourceFile::new(LOCK_FILE, written.as_str()));
            assert_eq!(again.expect("what was written can be read").to_text(), written);
        }
        Err(errors) => hold(&errors),
    }
}
