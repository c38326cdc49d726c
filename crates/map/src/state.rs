//! The folder beside the output: what is done, and the records of all runs (`docs/reference/map.md`).

use crate::{
    journal::{Journal, Unfinished},
    problem::Problem,
    results::{Failed, INTERRUPTED, Results},
};
use llm_do::Session;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Version of the folder.
const FORMAT: u32 = 1;
/// What the header is sealed as.
const SEALED_AS: &str = "map";

/// The places of a map's files.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    pub(crate) outputs: PathBuf,
    pub(crate) failures: PathBuf,
    pub(crate) dir: PathBuf,
}

impl Places {
    pub(crate) fn of(outputs: &Path) -> Self {
        let with = |suffix: &str| {
            let mut path = outputs.as_os_str().to_owned();
            path.push(suffix);
            PathBuf::from(path)
        };
        Self { outputs: outputs.to_owned(), failures: with(".failures.jsonl"), dir: with(".map") }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

/// `map.json`: what the map is of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Header {
    format: u32,
    /// The folder of the program, and its entry.
    program: String,
    worker: String,
    inputs: PathBuf,
    /// Hash of all that decides about runs beside their inputs.
    closure: String,
    /// The date that templates see. It stays that of the first command, so that a map over several days is one.
    date: Arc<str>,
}

/// The folder, locked for this process.
pub(crate) struct State {
    pub(crate) places: Places,
    pub(crate) results: Results,
    pub(crate) journal: Journal,
    pub(crate) unfinished: Unfinished,
    pub(crate) date: Arc<str>,
    pub(crate) closure: String,
    /// The definitions or options differ from those of the last command.
    pub(crate) changed: bool,
    /// This command has made the folder.
    new: bool,
    _lock: File,
}

impl State {
    /// Opens the folder, or begins it.
    pub(crate) fn open(
        session: &Session,
        places: Places,
        inputs: &Path,
        retry_failed: bool,
    ) -> Result<Self, Problem> {
        let failed = Problem::state;
        let real = fs::canonicalize(inputs).map_err(|source| Problem::input(inputs, source))?;
        let (program, worker) = (session.program().root().to_string(), session.entry().id.to_string());
        let closure = session.closure_sha256();
        let path = places.file("map.json");
        let before = read_header(session, &places, &path)?;
        let mut new = false;
        if let Some(before) = &before {
            check_same(before, &places, &program, &worker, &real)?;
        } else {
            check_free(&places)?;
            if let Some(around) = places.outputs.parent().filter(|around| !around.as_os_str().is_empty()) {
                fs::create_dir_all(around).map_err(failed(around))?;
            }
            new = make_dir(&places.dir).map_err(failed(&places.dir))?;
        }
        let lock_path = places.file("lock");
        let lock = File::create(&lock_path).map_err(failed(&lock_path))?;
        // A file system without locks gives none.
        if matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
            return Err(Problem::Running(places.outputs.clone()));
        }
        let date = before.as_ref().map_or_else(llm_do::today, |before| Arc::clone(&before.date));
        let changed = before.as_ref().is_some_and(|before| before.closure != closure);
        let header = Header {
            format: FORMAT,
            program,
            worker,
            inputs: real,
            closure: closure.clone(),
            date: Arc::clone(&date),
        };
        if before.as_ref() != Some(&header) {
            let text = serde_json::to_vec(&header).unwrap_or_default();
            let text = session.seal(SEALED_AS, text.clone()).unwrap_or(text);
            write_whole(&path, &text).map_err(failed(&path))?;
        }
        let definitions = places.file(&format!("definitions-{}.json", &closure[..16]));
        if !definitions.exists() {
            let text = json!({"closure": closure, "definitions": session.definitions()}).to_string();
            write_whole(&definitions, text.as_bytes()).map_err(failed(&definitions))?;
        }
        let path = places.file("results.jsonl");
        let again = |failure: &Failed| retry_failed && &*failure.kind != INTERRUPTED;
        let results = Results::open(&path, &places.file("index"), again).map_err(failed(&path))?;
        let journal = Journal::open(&places.dir).map_err(failed(&places.dir))?;
        let ended = |id| Ok(results.find(id)?.is_some());
        let unfinished = journal.unfinished(results.journal_from(), ended).map_err(failed(&places.dir))?;
        Ok(Self { places, results, journal, unfinished, date, closure, changed, new, _lock: lock })
    }

    /// The map can't begin: a folder that this command has made holds nothing that is worth keeping.
    pub(crate) fn give_up(&self) {
        if self.new {
            // What stays is no harm: the next command takes it.
            let _ = fs::remove_dir_all(&self.places.dir);
        }
    }

    /// The error of something that went wrong in the folder.
    pub(crate) fn failed(&self, source: io::Error) -> Problem {
        Problem::State { path: self.places.dir.clone(), source }
    }
}

fn read_header(session: &Session, places: &Places, path: &Path) -> Result<Option<Header>, Problem> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text.map_err(Problem::state(path))?,
    };
    // Whoever made a folder could say that rows were done. Without a key nothing is sealed here either.
    if session.seal(SEALED_AS, b"{}".to_vec()).is_some() && !session.has_sealed(SEALED_AS, &text) {
        return Err(Problem::Foreign(places.dir.clone()));
    }
    let header: Option<Header> = serde_json::from_slice(&text).ok();
    header.filter(|header| header.format == FORMAT).map(Some).ok_or_else(|| Problem::Occupied {
        what: format!("{} was written by another version of llm-do, or is no state of a map", path.display()),
        hints: ways_out(places),
    })
}

fn check_same(
    before: &Header,
    places: &Places,
    program: &str,
    worker: &str,
    inputs: &Path,
) -> Result<(), Problem> {
    let occupied = |what: String| Problem::Occupied { what, hints: ways_out(places) };
    if before.worker != worker || before.program != program {
        let (dir, of, at) = (places.dir.display(), &before.worker, &before.program);
        return Err(occupied(format!("{dir} belongs to a map of `{of}` in {at}")));
    }
    if before.inputs != inputs {
        let (dir, of) = (places.dir.display(), before.inputs.display());
        return Err(occupied(format!("{dir} belongs to a map over {of}")));
    }
    Ok(())
}

/// Nothing is overwritten that no map has written.
fn check_free(places: &Places) -> Result<(), Problem> {
    for path in [&places.outputs, &places.failures] {
        if fs::symlink_metadata(path).is_ok() {
            let what = format!("{} exists, and is not from this map", path.display());
            let hints =
                vec!["choose another file with -o".into(), format!("or move {} away first", path.display())];
            return Err(Problem::Occupied { what, hints });
        }
    }
    Ok(())
}

fn ways_out(places: &Places) -> Vec<String> {
    vec![
        "choose another file with -o".into(),
        format!("or give that map up: remove {} and {}", places.dir.display(), places.outputs.display()),
    ]
}

/// Makes the folder. `false`: it was there, and may hold what no map has written.
fn make_dir(dir: &Path) -> io::Result<bool> {
    let new = match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => false,
        made => made.map(|()| true)?,
    };
    // The records hold the rows.
    write_whole(&dir.join(".gitignore"), b"*\n")?;
    Ok(new)
}

/// The whole file or none.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let part = path.with_extension("new");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&part)?;
    file.write_all(bytes)?;
    fs::rename(&part, path)
}
