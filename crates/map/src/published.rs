//! Distinguishes the command's own files at the place of the output from those of the user.
//!
//! `published.json` in the folder of the state has the length and the hash of each file that the command wrote. A file
//! with another content is the user's, and is not overwritten.

use crate::{problem::Problem, state::Places};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::{
    fs::{self, File},
    io::{self, Read as _, Write},
    path::{Path, PathBuf},
};

/// The length and the hash that identify the content of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fingerprint {
    bytes: u64,
    sha256: String,
}

/// The fingerprints of the contents that the command wrote to each of the two files, the newest last.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Written {
    outputs: Vec<Fingerprint>,
    failures: Vec<Fingerprint>,
}

/// Fingerprints of the output and failures files that the command has written. Any other file at their place is the
/// user's.
pub(crate) struct Published {
    path: PathBuf,
    written: Written,
}

/// The number of fingerprints that are kept of each file. A fingerprint is noted before its file is moved to its place,
/// so the file may still have the one before.
const KEPT: usize = 2;

impl Published {
    /// Reads the fingerprints from the state. Without a file, nothing was written.
    pub(crate) fn read(places: &Places) -> io::Result<Self> {
        let path = places.file("published.json");
        let written = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Written::default(),
            text => serde_json::from_slice(&text?)?,
        };
        Ok(Self { path, written })
    }

    /// Checks that both files are absent or as the command wrote them.
    pub(crate) fn check(&self, places: &Places) -> Result<(), Problem> {
        let Written { outputs, failures } = &self.written;
        check(&places.outputs, outputs, "or choose another file with -o")?;
        check(
            &places.failures,
            failures,
            "to run the rows that you repaired in it, use it as the input of another map",
        )
    }

    /// Notes the fingerprints of the contents that are about to replace the files.
    pub(crate) fn note(&mut self, outputs: Fingerprint, failures: Option<Fingerprint>) -> io::Result<()> {
        for (known, new) in
            [(&mut self.written.outputs, Some(outputs)), (&mut self.written.failures, failures)]
        {
            let new = new.filter(|new| known.last() != Some(new));
            known.extend(new);
            known.drain(..known.len().saturating_sub(KEPT));
        }
        crate::state::write_whole(&self.path, &serde_json::to_vec(&self.written)?)
    }
}

fn check(path: &Path, known: &[Fingerprint], hint: &str) -> Result<(), Problem> {
    let occupied = |what: &str| {
        let shown = path.display();
        let hints = vec![format!("move {shown} away, and run the command again"), hint.to_owned()];
        Err(Problem::Occupied { what: format!("{shown} {what}"), hints })
    };
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.and_then(|_| is_one_of(path, known)),
    };
    match found {
        Ok(true) => Ok(()),
        _ if known.is_empty() => occupied("exists, and is not from this map"),
        _ => occupied("was changed after this map wrote it"),
    }
}

/// Returns true if a file has one of these fingerprints.
fn is_one_of(path: &Path, known: &[Fingerprint]) -> io::Result<bool> {
    let kind = fs::metadata(path)?;
    if !kind.is_file() || known.iter().all(|known| known.bytes != kind.len()) {
        return Ok(false);
    }
    let (mut file, mut hashed, mut buffer) = (File::open(path)?, Hashed::new(io::sink()), vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(known.contains(&hashed.fingerprint())),
            read => hashed.write_all(&buffer[..read])?,
        }
    }
}

/// A writer that computes the fingerprint of its content.
pub(crate) struct Hashed<W> {
    inner: W,
    bytes: u64,
    hash: Sha256,
}

impl<W> Hashed<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, bytes: 0, hash: Sha256::new() }
    }

    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let hash = self.hash.clone().finalize();
        Fingerprint { bytes: self.bytes, sha256: hash.iter().map(|byte| format!("{byte:02x}")).collect() }
    }

    pub(crate) fn into_inner(self) -> W {
        self.inner
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_noted_is_the_commands_own() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::of(&dir.path().join("out.jsonl"));
        fs::create_dir(&places.dir).unwrap();
        let of = |text: &str| {
            let mut hashed = Hashed::new(io::sink());
            hashed.write_all(text.as_bytes()).unwrap();
            hashed.fingerprint()
        };
        let put = |text: &str| fs::write(&places.outputs, text).unwrap();
        let is_own = || Published::read(&places).unwrap().check(&places).is_ok();
        assert!(is_own(), "nothing is there");
        put("theirs");
        assert!(!is_own());
        let mut published = Published::read(&places).unwrap();
        published.note(of("first"), None).unwrap();
        assert!(!is_own());
        put("first");
        assert!(is_own());
        // Killed before the second was put into its place.
        published.note(of("second"), Some(of("failed"))).unwrap();
        assert!(is_own());
        put("second");
        fs::write(&places.failures, "failed").unwrap();
        assert!(is_own());
        fs::write(&places.failures, "mended").unwrap();
        assert!(!is_own(), "of the same length");
        fs::remove_file(&places.failures).unwrap();
        assert!(is_own());
        published.note(of("third"), None).unwrap();
        put("first");
        assert!(!is_own(), "what was written long ago may be what somebody keeps");
        fs::remove_file(&places.outputs).unwrap();
        fs::create_dir(&places.outputs).unwrap();
        assert!(!is_own());
    }
}
