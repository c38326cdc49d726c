//! The folder beside the output: the ends of rows, and the records of all runs (`docs/reference/map.md`).

use crate::{
    journal::{Journal, Unfinished},
    problem::Problem,
    published::Published,
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

/// The version of the folder's format.
const FORMAT: u32 = 1;
/// The content of the ignore file. The records hold the rows: they belong into no repository.
const IGNORE: &[u8] = b"*\n";
/// The file that identifies the map to which the folder belongs.
const HEADER: &str = "map.json";
/// The file that a command locks while it uses the folder.
const LOCK: &str = "lock";
/// The file that keeps the folder out of a repository.
const IGNORE_FILE: &str = ".gitignore";
/// The purpose for which the header is sealed.
const SEALED_AS: &str = "map";

/// The places of a map's files.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    pub(crate) outputs: PathBuf,
    pub(crate) failures: PathBuf,
    pub(crate) dir: PathBuf,
}

impl Places {
    /// Returns the places for that output.
    ///
    /// # Errors
    /// The output can't be the name of a file.
    pub(crate) fn checked(outputs: &Path) -> Result<Self, Problem> {
        let wrong = |what: String, hint: &str| Problem::Outputs { what, hints: vec![hint.to_owned()] };
        let shown = outputs.display();
        if outputs == Path::new("-") {
            let hint = "name a file, such as -o out.jsonl: the state is in a folder beside it";
            return Err(wrong("-o: the output can't be a pipe".into(), hint));
        }
        let is_folder = outputs.is_dir() || outputs.file_name().is_none();
        if is_folder || outputs.as_os_str().as_encoded_bytes().ends_with(b"/") {
            let hint = "name a file in it, such as -o FOLDER/out.jsonl";
            return Err(wrong(format!("-o: {shown} is a folder"), hint));
        }
        if let Some(around) = outputs.ancestors().skip(1).find(|around| around.is_file()) {
            let what = format!("-o: {} is not a folder", around.display());
            return Err(wrong(what, "name a file in a folder, such as -o FOLDER/out.jsonl"));
        }
        Ok(Self::of(outputs))
    }

    pub(crate) fn of(outputs: &Path) -> Self {
        let with = |suffix: &str| {
            let mut path = outputs.as_os_str().to_owned();
            path.push(suffix);
            PathBuf::from(path)
        };
        Self { outputs: outputs.to_owned(), failures: with(".failures.jsonl"), dir: with(".map") }
    }

    /// Returns the files of the map beside its folder, in the form in which a folder of inputs names them.
    pub(crate) fn own_files(&self) -> Vec<PathBuf> {
        let own = [&self.outputs, &self.failures];
        own.into_iter()
            .filter_map(|path| {
                let around = path.parent().filter(|around| !around.as_os_str().is_empty());
                let around = fs::canonicalize(around.unwrap_or(Path::new("."))).ok()?;
                Some(around.join(path.file_name()?))
            })
            .collect()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

/// The content of `map.json`: the identity of the map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Header {
    format: u32,
    /// The folder of the program, and its entry.
    program: String,
    worker: String,
    inputs: PathBuf,
    /// A hash of everything that determines runs except their inputs.
    closure: String,
    /// The date that templates see. It stays that of the first command, so that a map that takes several days is
    /// consistent.
    date: Arc<str>,
}

/// The folder, locked for this process.
pub(crate) struct MapFolder {
    pub(crate) places: Places,
    pub(crate) results: Results,
    pub(crate) journal: Journal,
    pub(crate) published: Published,
    pub(crate) unfinished: Unfinished,
    pub(crate) date: Arc<str>,
    pub(crate) closure: String,
    /// True if the definitions or options differ from those of the last command.
    pub(crate) changed: bool,
    /// True if this command has made the folder.
    new: bool,
    _lock: File,
}

impl MapFolder {
    /// Opens the folder, or begins it.
    pub(crate) fn open(
        session: &Session,
        places: Places,
        inputs: &Path,
        retry_failed: bool,
    ) -> Result<Self, Problem> {
        let failed = Problem::state;
        check_links(&places)?;
        let real = fs::canonicalize(inputs).map_err(|source| Problem::input(inputs, source))?;
        let (program, worker) = (session.program().root().to_string(), session.entry().id.to_string());
        let closure = session.closure_sha256();
        let path = places.file(HEADER);
        let before = read_header(session, &places, &path)?;
        let mut new = false;
        match &before {
            Some(before) => check_same(before, &places, &program, &worker, &real)?,
            None => check_folder(&places)?,
        }
        let published = Published::read(&places).map_err(failed(&places.file("published.json")))?;
        published.check(&places)?;
        if before.is_none() {
            if let Some(around) = places.outputs.parent().filter(|around| !around.as_os_str().is_empty()) {
                fs::create_dir_all(around).map_err(|error| Problem::Outputs {
                    what: format!("-o: cannot create the folder {}: {error}", around.display()),
                    hints: Vec::new(),
                })?;
            }
            new = make_dir(&places.dir).map_err(failed(&places.dir))?;
        }
        let lock_path = places.file(LOCK);
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
            let text = session.seal(SEALED_AS, text).map_err(Problem::no_key)?;
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
        let from = results.journal_from();
        let journal = Journal::open(&places.dir, from).map_err(failed(&places.dir))?;
        let unfinished = journal.unfinished(from, |id| results.known(id)).map_err(failed(&places.dir))?;
        Ok(Self { places, results, journal, published, unfinished, date, closure, changed, new, _lock: lock })
    }

    /// Removes the folder if this command has made it: when the map can't begin, it holds nothing that is worth
    /// keeping.
    pub(crate) fn give_up(&self) {
        if self.new {
            // What stays is no harm: the next command takes it.
            let _ = remove(&self.places);
        }
    }

    /// Converts an I/O error in the folder to a problem.
    pub(crate) fn failed(&self, source: io::Error) -> Problem {
        Problem::State { path: self.places.dir.clone(), source }
    }
}

/// Removes the folder of a map, and its header after all files that only the header explains. If this is interrupted,
/// the rest is the state of a map, or a folder that [`check_folder`] takes for the beginning of one.
fn remove(places: &Places) -> io::Result<()> {
    for entry in fs::read_dir(&places.dir)? {
        let name = entry?.file_name();
        if ![HEADER, LOCK, IGNORE_FILE].iter().any(|kept| name == *kept) {
            let path = places.dir.join(name);
            if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
        }
    }
    fs::remove_file(places.file(HEADER))?;
    fs::remove_dir_all(&places.dir)
}

/// Checks that neither the folder nor anything in it is a link. A project may contain the link, and llm-do would write
/// to its target.
pub(crate) fn check_links(places: &Places) -> Result<(), Problem> {
    let occupied = |path: &Path| {
        let what = format!("{} is a link, and the state of a map is not kept elsewhere", path.display());
        let hints = vec!["choose another file with -o".into(), "or remove the link".into()];
        Problem::Occupied { what, hints }
    };
    let is_absent = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    match fs::symlink_metadata(&places.dir) {
        Err(error) if is_absent(&error) => return Ok(()),
        Ok(found) if found.is_symlink() => return Err(occupied(&places.dir)),
        // What else stands there is judged later.
        Ok(found) if !found.is_dir() => return Ok(()),
        found => {
            found.map_err(Problem::state(&places.dir))?;
        }
    }
    for entry in fs::read_dir(&places.dir).map_err(Problem::state(&places.dir))? {
        let entry = entry.map_err(Problem::state(&places.dir))?;
        if entry.file_type().map_err(Problem::state(&entry.path()))?.is_symlink() {
            return Err(occupied(&entry.path()));
        }
    }
    Ok(())
}

fn read_header(session: &Session, places: &Places, path: &Path) -> Result<Option<Header>, Problem> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text.map_err(Problem::state(path))?,
    };
    session.seal(SEALED_AS, b"{}".to_vec()).map_err(Problem::no_key)?;
    // A folder from elsewhere could say that rows were done.
    if !session.has_sealed(SEALED_AS, &text) {
        return Err(foreign(places));
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

/// Checks that a folder without a header holds only the files that a command can leave if it is killed at its start.
fn check_folder(places: &Places) -> Result<(), Problem> {
    let occupied = || {
        let shown = places.dir.display();
        let hints = vec!["choose another file with -o".into(), format!("or move {shown} away first")];
        Problem::Occupied { what: format!("{shown} exists, and is not the state of a map"), hints }
    };
    let entries = match fs::read_dir(&places.dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|_| occupied())?,
    };
    for entry in entries {
        let entry = entry.map_err(Problem::state(&places.dir))?;
        let is_ours = match entry.file_name().to_str() {
            Some(LOCK | "map.new" | ".gitignore.new") => true,
            Some(IGNORE_FILE) => fs::read(entry.path()).is_ok_and(|text| text == IGNORE),
            _ => false,
        };
        if !is_ours {
            return Err(occupied());
        }
    }
    Ok(())
}

/// Returns the error of a state that this user's llm-do did not write.
pub(crate) fn foreign(places: &Places) -> Problem {
    let hints = vec![format!("remove {}: then all rows run again", files_of(places))];
    Problem::Foreign { dir: places.dir.clone(), hints }
}

fn ways_out(places: &Places) -> Vec<String> {
    vec!["choose another file with -o".into(), format!("or give that map up: remove {}", files_of(places))]
}

/// Lists the existing files of a map.
fn files_of(places: &Places) -> String {
    let all = [&places.dir, &places.outputs, &places.failures];
    let found: Vec<String> = all
        .into_iter()
        .filter(|path| fs::symlink_metadata(path).is_ok())
        .map(|path| path.display().to_string())
        .collect();
    match found.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => found.concat(),
    }
}

/// Makes the folder. Returns false if it existed, so that it may hold files that no map has written.
fn make_dir(dir: &Path) -> io::Result<bool> {
    let new = match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => false,
        made => made.map(|()| true)?,
    };
    write_whole(&dir.join(IGNORE_FILE), IGNORE)?;
    Ok(new)
}

/// Writes the whole file or nothing.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let part = path.with_extension("new");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&part)?;
    file.write_all(bytes)?;
    fs::rename(&part, path)
}
