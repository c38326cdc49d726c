//! Messages that the user typed in earlier chats, for the history of the composer.

use crate::environment::LLM_DO_HISTORY;
use llm_do::Session;
use serde_json::{Value, json};
use std::{
    env,
    fs::{self, File, OpenOptions},
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

/// The purpose in the seals of the lines. A project from elsewhere can't bring its own lines.
const SEALED_AS: &str = "chat-history";
/// Name of the file in the state folder: `.llm-do` of the project, or llm-do's home for a lone file.
const FILE: &str = "chat-history.jsonl";
/// The most texts in the file.
const MOST: usize = 1_000;
/// The most bytes of a text in the file.
const LONGEST: usize = 8 << 10;
/// The most bytes of the file that are read.
const MOST_BYTES: u64 = 4 << 20;

/// The texts of earlier chats: a JSON object a line, sealed with the user's key, the newest last. Only the owner may read
/// the file.
pub(super) struct PastLines {
    /// The file, or `None` if no texts are kept.
    path: Option<PathBuf>,
    session: Session,
    /// Texts that are not written yet, because the folder is created with the first run.
    unwritten: Vec<String>,
    last: Option<String>,
}

impl PastLines {
    /// Opens the history for the program of a session. Also returns its texts, the newest last.
    pub(super) fn of(session: &Session) -> (Self, Vec<String>) {
        let wanted = env::var(LLM_DO_HISTORY.name).map_or(true, |value| value != "0");
        let path = session.runs_dir().parent().filter(|_| wanted).map(|folder| folder.join(FILE));
        // Without a history the chat is held all the same.
        let texts = path.as_deref().map(|path| read(path, session).unwrap_or_default()).unwrap_or_default();
        let last = texts.last().cloned();
        (Self { path, session: session.clone(), unwritten: Vec::new(), last }, texts)
    }

    /// Adds a text, unless it is blank, long, the same as the one before, or contains a secret.
    pub(super) fn add(&mut self, text: &str) {
        let repeats = self.last.as_deref() == Some(text);
        if repeats || text.trim().is_empty() || text.len() > LONGEST || self.session.holds_secret(text) {
            return;
        }
        self.last = Some(text.to_owned());
        self.unwritten.push(text.to_owned());
        self.write();
    }

    /// Writes the texts that are not written yet.
    pub(super) fn write(&mut self) {
        let Some(path) = self.path.as_deref().filter(|path| is_folder(path.parent())) else { return };
        let mut lines = Vec::new();
        for text in self.unwritten.drain(..) {
            let object = json!({ "text": text }).to_string().into_bytes();
            // Without a key nothing is kept.
            let Ok(line) = self.session.seal(SEALED_AS, object) else { continue };
            lines.extend(line);
            lines.push(b'\n');
        }
        // A history that can't be written is no reason to disturb the chat.
        let _ = append(path, &lines);
    }
}

/// Returns true if the path is a folder and not a link.
fn is_folder(path: Option<&Path>) -> bool {
    path.is_some_and(|path| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()))
}

/// Opens the file. A link in its place is not followed, because a project may come from elsewhere.
fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = options.mode(0o600).custom_flags(flags.bits().cast_signed()).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

fn append(path: &Path, lines: &[u8]) -> io::Result<()> {
    open(path, OpenOptions::new().append(true).create(true))?.write_all(lines)
}

/// Reads the texts of the file. If the file has become long, writes it again with the newest ones.
fn read(path: &Path, session: &Session) -> io::Result<Vec<String>> {
    if !is_folder(path.parent()) {
        return Ok(Vec::new());
    }
    let file = open(path, OpenOptions::new().read(true))?.take(MOST_BYTES);
    let mut lines: Vec<String> = BufReader::new(file).lines().map_while(Result::ok).collect();
    if lines.len() > 2 * MOST {
        lines.drain(..lines.len() - MOST);
        let new = path.with_extension(format!("{}.new", std::process::id()));
        let all: String = lines.iter().map(|line| format!("{line}\n")).collect();
        open(&new, OpenOptions::new().write(true).create_new(true))?.write_all(all.as_bytes())?;
        fs::rename(new, path)?;
    }
    let own = lines.iter().filter(|line| session.has_sealed(SEALED_AS, line.as_bytes()));
    let texts =
        own.filter_map(|line| serde_json::from_str::<Value>(line).ok()?["text"].as_str().map(str::to_owned));
    Ok(texts.collect())
}
