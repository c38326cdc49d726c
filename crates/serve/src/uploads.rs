//! Files that clients upload for runs, in the user's folder, readable by the user alone.

use crate::{
    error::{ApiError, Code},
    listing::cut_off_because,
    meter::{Amounts, Meter},
};
use llm_do::{
    core::journal::RunStatus,
    records::RunState,
    runs::{RunSummary, is_run_id, summary_of},
};
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

/// The prefix of an upload in an input: `upload:ID`.
pub(crate) const PREFIX: &str = "upload:";
/// The time for which an upload is kept that no run uses.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// Longest name, in bytes, as file systems have it.
const LONGEST_NAME: usize = 200;
/// The file that describes an upload, in the upload's folder.
const ABOUT: &str = "about.json";
/// The file that names the run that uses an upload, in the upload's folder.
const USE: &str = "use.json";
/// The folder of the uploaded file, in the upload's folder.
const CONTENT: &str = "content";

/// The uploads of a service.
pub(crate) struct Uploads {
    folder: PathBuf,
    files: Arc<Meter>,
    bytes: Arc<Meter>,
    /// Uploads are stored one at a time, so that their sum is known.
    storing: std::sync::Mutex<()>,
}

/// A file that a client has uploaded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Upload {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// The token that has uploaded it.
    by: Arc<str>,
}

/// The run that uses an upload.
#[derive(Serialize, Deserialize)]
struct Used {
    run: String,
    runs_dir: PathBuf,
}

impl Uploads {
    /// The uploads below the user's folder, with the limits of these meters.
    pub(crate) fn of(home: &Path, files: &Arc<Meter>, bytes: &Arc<Meter>) -> Self {
        let folder = home.join("serve").join("uploads");
        Self {
            folder,
            files: Arc::clone(files),
            bytes: Arc::clone(bytes),
            storing: std::sync::Mutex::default(),
        }
    }

    /// The number of files and of bytes that are stored.
    pub(crate) fn amounts(&self) -> [Amounts; 2] {
        let mut used = [Amounts::default(), Amounts::default()];
        for upload in self.all() {
            used[0].add(&upload.by, 1);
            used[1].add(&upload.by, upload.bytes);
        }
        used
    }

    /// Stores a file.
    ///
    /// # Errors
    /// The name is no file name, a limit would be exceeded, or the file can't be written.
    pub(crate) fn store(&self, by: &Arc<str>, name: &str, bytes: &[u8]) -> Result<Upload, ApiError> {
        if !is_file_name(name) {
            let detail = "name: a file's name of at most 200 bytes, without slashes and control characters, that begins with no dot";
            return Err(ApiError::new(Code::BadRequest, detail));
        }
        let _one = self.storing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.clean();
        let [files, sizes] = self.amounts();
        self.files.admit(&files, by, 1)?;
        self.bytes.admit(&sizes, by, bytes.len() as u64)?;
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(ApiError::internal)?;
        let id: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let upload = Upload { name: name.to_owned(), bytes: bytes.len() as u64, by: Arc::clone(by), id };
        let written = self.write(&upload, bytes);
        if written.is_err() {
            self.remove(&upload.id);
        }
        written.map_err(ApiError::storage)?;
        Ok(upload)
    }

    fn write(&self, upload: &Upload, bytes: &[u8]) -> io::Result<()> {
        let dir = self.folder.join(&upload.id);
        private_folder(&dir.join(CONTENT))?;
        fs::write(dir.join(CONTENT).join(&upload.name), bytes)?;
        // Last: without it there is no upload.
        fs::write(dir.join(ABOUT), serde_json::to_vec(upload)?)
    }

    /// The upload with that ID, if the token has uploaded it and no run uses it.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn get(&self, by: &str, id: &str) -> Result<Upload, ApiError> {
        let unknown = || ApiError::new(Code::BadInput, format!("there is no upload `{}`", shown(id)));
        if !is_id(id) {
            return Err(unknown());
        }
        let upload = self.read(id).filter(|upload| *upload.by == *by).ok_or_else(unknown)?;
        if self.folder.join(id).join(USE).exists() {
            let detail = format!("a run uses the upload `{id}`: upload the file again");
            return Err(ApiError::new(Code::Conflict, detail));
        }
        Ok(upload)
    }

    /// The file of an upload.
    pub(crate) fn file(&self, upload: &Upload) -> PathBuf {
        self.folder.join(&upload.id).join(CONTENT).join(&upload.name)
    }

    /// Notes that a run uses the upload, until the run ends.
    ///
    /// # Errors
    /// Another run uses the upload, or the note can't be written.
    pub(crate) fn claim(&self, upload: &Upload, run: &str, runs_dir: &Path) -> Result<(), ApiError> {
        let used = Used { run: run.to_owned(), runs_dir: runs_dir.to_owned() };
        let claimed = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(self.folder.join(&upload.id).join(USE))
            .and_then(|file| Ok(serde_json::to_writer(file, &used)?));
        claimed.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => ApiError::new(
                Code::Conflict,
                format!("a run uses the upload `{}`: upload the file again", upload.id),
            ),
            _ => ApiError::storage(error),
        })
    }

    /// Removes the uploads that a run has used, after its end.
    pub(crate) fn ended(&self, run: &str) {
        for id in self.ids() {
            if self.used(&id).is_some_and(|used| used.run == run) {
                self.remove(&id);
            }
        }
    }

    /// Removes the uploads of runs that are over, and unused ones that were kept long enough.
    pub(crate) fn clean(&self) {
        for id in self.ids() {
            let needed = match self.used(&id) {
                Some(Used { run, runs_dir }) => {
                    let over = |found: &RunSummary| match found.state {
                        RunState::Ended(RunStatus::Suspended) | RunState::Open(_) => false,
                        RunState::Ended(_) => cut_off_because(found, &runs_dir.join(&run)).is_none(),
                    };
                    is_run_id(&run) && summary_of(&runs_dir, &run).is_ok_and(|found| !over(&found))
                }
                None => {
                    let stored = fs::metadata(self.folder.join(&id)).and_then(|found| found.modified());
                    let age = stored.ok().and_then(|stored| SystemTime::now().duration_since(stored).ok());
                    age.is_none_or(|age| age < KEPT)
                }
            };
            if !needed {
                self.remove(&id);
            }
        }
    }

    fn ids(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten();
        entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|id| is_id(id))
            .collect()
    }

    fn all(&self) -> Vec<Upload> {
        self.ids().iter().filter_map(|id| self.read(id)).collect()
    }

    fn read(&self, id: &str) -> Option<Upload> {
        serde_json::from_slice(&fs::read(self.folder.join(id).join(ABOUT)).ok()?).ok()
    }

    fn used(&self, id: &str) -> Option<Used> {
        serde_json::from_slice(&fs::read(self.folder.join(id).join(USE)).ok()?).ok()
    }

    fn remove(&self, id: &str) {
        // What can't be removed now is removed the next time.
        let _ = fs::remove_dir_all(self.folder.join(id));
    }
}

fn private_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Returns true if a text has the form of an upload's ID. Such a text is safe as a file name.
fn is_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'))
}

fn is_file_name(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len())
        && !name.starts_with('.')
        && !name.contains(['/', '\\'])
        && !name.chars().any(char::is_control)
}

fn shown(text: &str) -> String {
    text.chars().filter(char::is_ascii_graphic).take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::Kind;
    use std::collections::HashMap;

    fn uploads(home: &Path, most: u64) -> Uploads {
        let meter = |kind, most| Meter::new(kind, "token", most, most.div_ceil(2), HashMap::new());
        Uploads::of(home, &meter(Kind::UploadFiles, 4), &meter(Kind::Uploads, most))
    }

    #[test]
    fn a_token_can_not_take_the_room_of_others() {
        let home = tempfile::tempdir().expect("a folder");
        let uploads = uploads(home.path(), 100);
        let (ann, bob): (Arc<str>, Arc<str>) = ("ann".into(), "bob".into());
        uploads.store(&ann, "a", &[0; 40]).expect("room");
        let refused = uploads.store(&ann, "b", &[0; 20]).expect_err("beyond the bytes of a token");
        assert_eq!(refused.code(), Code::TooManyUploads);
        uploads.store(&ann, "b", &[0; 1]).expect("room");
        uploads.store(&ann, "c", &[0; 1]).expect_err("beyond the files of a token");
        uploads.store(&bob, "a", &[0; 50]).expect("room of another token");
    }

    #[test]
    fn an_upload_is_its_tokens_and_is_used_once() {
        let home = tempfile::tempdir().expect("a folder");
        let uploads = uploads(home.path(), 100);
        let (ann, bob): (Arc<str>, Arc<str>) = ("ann".into(), "bob".into());
        let upload = uploads.store(&ann, "a b.pdf", b"bytes").expect("stored");
        assert_eq!(fs::read(uploads.file(&upload)).expect("a file"), b"bytes");
        assert!(uploads.get(&bob, &upload.id).is_err() && uploads.get(&ann, "../../etc").is_err());
        let found = uploads.get(&ann, &upload.id).expect("it is there");
        uploads.claim(&found, "20261123-000000-0000", home.path()).expect("free");
        assert!(uploads.get(&ann, &upload.id).is_err() && uploads.claim(&found, "x", home.path()).is_err());
        uploads.ended("20261123-000000-0000");
        assert!(!uploads.file(&upload).exists());
    }

    #[test]
    fn names_are_those_of_files() {
        for wrong in ["", ".", "..", ".env", "a/b", "a\\b", "a\0b", "a\nb", &"a".repeat(300)] {
            assert!(!is_file_name(wrong), "{wrong:?}");
        }
        assert!(is_file_name("Rechnung für Ada.pdf"));
    }
}
