//! The files of a folder, one row each.

use crate::{
    problem::Problem,
    row::{Broken, Content, FileRow, Place, Raw, Row},
};
use sha2::{Digest as _, Sha256};
use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Longest text of a file that becomes a parameter.
const LONGEST_TEXT: usize = 16 << 20;

/// The files, in the order of their names. The names are in memory; the files are not.
pub(crate) struct Folder {
    files: std::vec::IntoIter<PathBuf>,
    texts: bool,
    row: u64,
}

impl Folder {
    /// The regular files directly in that folder, without hidden ones and those that are left out.
    pub(super) fn new(dir: &Path, left_out: &[PathBuf], texts: bool) -> io::Result<Self> {
        let (mut files, real) = (Vec::new(), fs::canonicalize(dir)?);
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let hidden = entry.file_name().as_encoded_bytes().first() == Some(&b'.');
            if !hidden
                && !left_out.contains(&real.join(entry.file_name()))
                && fs::metadata(entry.path()).is_ok_and(|kind| kind.is_file())
            {
                files.push(entry.path());
            }
        }
        files.sort();
        Ok(Self { files: files.into_iter(), texts, row: 0 })
    }

    pub(super) fn next(&mut self) -> Result<Option<Row>, Problem> {
        let Some(path) = self.files.next() else { return Ok(None) };
        self.row += 1;
        let shown = path.display().to_string();
        let place = Place { file: Arc::from(shown.as_str()), row: self.row, line: None };
        let broken = |reason: String| Broken { reason, raw: Raw::Line(shown.clone()) };
        let content = match (path.to_str(), self.read(&path)) {
            (None, _) => Err(broken("its name is not UTF-8 text".into())),
            (_, Err(error)) => Err(broken(format!("it can't be read: {error}"))),
            (Some(_), Ok((text, sha256))) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                Ok(Content::File(FileRow { path: shown, name, text, sha256 }))
            }
        };
        Ok(Some(Row { place, content }))
    }

    /// The text, if it is wanted, and the hash of the content.
    fn read(&self, path: &Path) -> io::Result<(Option<String>, String)> {
        let mut file = File::open(path)?;
        let (mut hash, mut text, mut buffer) = (Sha256::new(), Vec::new(), vec![0; 1 << 16]);
        loop {
            let read = file.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            hash.update(&buffer[..read]);
            if self.texts {
                text.extend_from_slice(&buffer[..read]);
                if text.len() > LONGEST_TEXT {
                    let what = format!("it has more than {} MiB of text", LONGEST_TEXT >> 20);
                    return Err(io::Error::other(what));
                }
            }
        }
        let text = match self.texts {
            true => {
                let no_text =
                    |_| io::Error::other("it is not UTF-8 text; give the worker a parameter of type `path`");
                Some(String::from_utf8(text).map_err(no_text)?)
            }
            false => None,
        };
        let hex = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok((text, hex))
    }
}
