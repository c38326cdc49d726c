//! The files of a folder, each of which is a row.

use crate::{
    problem::Problem,
    row::{Broken, Content, FileRow, Place, Raw, Row},
};
use cap_std::{ambient_authority, fs::Dir};
use sha2::{Digest as _, Sha256};
use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

/// The largest text of a file that becomes a parameter, in bytes.
const LONGEST_TEXT: usize = 16 << 20;

/// The files, in the order of their names. The names are in memory; the files are not.
pub(crate) struct Folder {
    /// The folder. All files are read inside of it.
    dir: Dir,
    /// The path of the folder, after links are followed.
    real: PathBuf,
    files: std::vec::IntoIter<(PathBuf, Target)>,
    texts: bool,
    row: u64,
}

/// The target of a name in the folder.
#[derive(Debug)]
enum Target {
    File,
    /// A link to that file of the folder, as a path in the folder.
    Link(PathBuf),
    /// A link that can't be a row, with the reason.
    Refused(String),
}

impl Folder {
    /// Lists the files directly in that folder, without hidden files and those of `left_out`. Links are followed within
    /// the folder.
    pub(super) fn new(dir: &Path, left_out: &[PathBuf], texts: bool) -> io::Result<Self> {
        let (mut files, real) = (Vec::new(), fs::canonicalize(dir)?);
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let hidden = entry.file_name().as_encoded_bytes().first() == Some(&b'.');
            if hidden || left_out.contains(&real.join(entry.file_name())) {
                continue;
            }
            let kind = entry.file_type()?;
            let target = match () {
                () if kind.is_file() => Target::File,
                () if kind.is_symlink() => match linked(&entry.path(), &real) {
                    Some(target) => target,
                    None => continue,
                },
                () => continue,
            };
            files.push((entry.path(), target));
        }
        files.sort_by(|(a, _), (b, _)| a.cmp(b));
        let dir = Dir::open_ambient_dir(&real, ambient_authority())?;
        Ok(Self { dir, real, files: files.into_iter(), texts, row: 0 })
    }

    pub(super) fn next(&mut self) -> Result<Option<Row>, Problem> {
        let Some((path, target)) = self.files.next() else { return Ok(None) };
        self.row += 1;
        let shown = path.display().to_string();
        let place = Place { file: Arc::from(shown.as_str()), row: self.row, line: None };
        let broken = |reason: String| Broken { reason, raw: Raw::Line(shown.clone()) };
        let name = path.file_name().unwrap_or_default();
        let inside = match target {
            Target::File => Ok(PathBuf::from(name)),
            Target::Link(inside) => Ok(inside),
            Target::Refused(reason) => Err(io::Error::other(reason)),
        };
        let read = inside.and_then(|inside| Ok((self.read(&inside)?, inside)));
        let content = match (path.to_str(), read) {
            (None, _) => Err(broken("its name is not UTF-8 text".into())),
            (_, Err(error)) => Err(broken(format!("it can't be read: {error}"))),
            (Some(_), Ok(((text, sha256), inside))) => {
                let (name, real) = (name.to_string_lossy().into_owned(), self.real.join(inside));
                Ok(Content::File(FileRow { path: shown, name, text, real, sha256 }))
            }
        };
        Ok(Some(Row { place, content }))
    }

    /// Returns the text, if it is wanted, and the hash of the content.
    fn read(&self, path: &Path) -> io::Result<(Option<String>, String)> {
        let mut file = self.dir.open(path)?;
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

/// Returns the target of a link in a folder, or `None` if the target is not a file: it would not be a row without the
/// link either.
fn linked(link: &Path, folder: &Path) -> Option<Target> {
    let refused = |reason: String| Some(Target::Refused(reason));
    match fs::canonicalize(link) {
        Err(error) => refused(format!("it is a link, and where it leads: {error}")),
        Ok(real) => match real.strip_prefix(folder) {
            Err(_) => refused("it is a link that leads out of the folder".into()),
            Ok(inside) => real.is_file().then(|| Target::Link(inside.to_owned())),
        },
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_within_the_folder_alone() {
        let around = tempfile::tempdir().unwrap();
        let (dir, secret) = (around.path().join("in"), around.path().join("secret"));
        fs::create_dir_all(dir.join("sub")).unwrap();
        fs::write(&secret, "the secret").unwrap();
        fs::write(dir.join("a"), "A").unwrap();
        fs::write(dir.join("sub/c"), "C").unwrap();
        symlink(&secret, dir.join("absolute")).unwrap();
        symlink("../secret", dir.join("relative")).unwrap();
        symlink("..", dir.join("up")).unwrap();
        symlink("up/secret", dir.join("through")).unwrap();
        symlink("nowhere", dir.join("dangling")).unwrap();
        symlink("a", dir.join("b")).unwrap();
        symlink(fs::canonicalize(&dir).unwrap().join("sub/c"), dir.join("d")).unwrap();
        symlink("sub", dir.join("folder")).unwrap();
        let mut folder = Folder::new(&dir, &[], true).unwrap();
        let mut rows = Vec::new();
        while let Some(Row { place, content }) = folder.next().unwrap() {
            let name = place.file.rsplit('/').next().unwrap().to_owned();
            rows.push((name, content.map_err(|broken| broken.reason)));
        }
        let texts: Vec<(&str, Option<&str>)> = rows
            .iter()
            .map(|(name, content)| match content {
                Ok(Content::File(file)) => (&**name, file.text.as_deref()),
                _ => (&**name, None),
            })
            .collect();
        let expected = [
            ("a", Some("A")),
            ("absolute", None),
            ("b", Some("A")),
            ("d", Some("C")),
            ("dangling", None),
            ("relative", None),
            ("through", None),
            ("up", None),
        ];
        assert_eq!(texts, expected);
        let reason =
            |wanted: &str| rows.iter().find(|(name, _)| name == wanted).unwrap().1.as_ref().unwrap_err();
        assert!(reason("relative").contains("leads out of the folder"), "{}", reason("relative"));
    }

    #[test]
    fn a_file_that_becomes_a_link_is_not_followed_out() {
        let around = tempfile::tempdir().unwrap();
        let dir = around.path().join("in");
        fs::create_dir(&dir).unwrap();
        fs::write(around.path().join("secret"), "the secret").unwrap();
        fs::write(dir.join("a"), "A").unwrap();
        let mut folder = Folder::new(&dir, &[], true).unwrap();
        fs::remove_file(dir.join("a")).unwrap();
        symlink("../secret", dir.join("a")).unwrap();
        assert!(folder.next().unwrap().unwrap().content.is_err());
    }
}
