//! The definition files of a program, for editors: read, and written whole.
//!
//! A file is a definition if its place says so, as for runs (`docs/reference/sandbox.md`): these files are authority, which
//! workers may read and not write. Records, secrets, version control and what other programs execute are none.

use crate::error::{ApiError, Code};
use cap_std::{ambient_authority, fs::Dir};
use llm_do::{
    NewFile,
    core::{
        authority::{Class, Place, Protection, VirtualPath},
        schema::sha256,
    },
};
use std::{
    io::{self, Read, Write},
    path::Path,
    sync::Arc,
};

/// Largest definition that is read or written, in bytes.
const LARGEST: u64 = 1 << 20;
/// Most files that are listed, and most entries of folders that are looked at.
const MOST_FILES: usize = 2000;
const MOST_LOOKED_AT: usize = 20_000;
/// Deepest folder that is looked into.
const DEEPEST: usize = 12;
/// Folders of tools, which hold thousands of files that are nobody's definitions.
const OF_TOOLS: &[&str] = &["node_modules", "__pycache__", ".venv", "venv", "target"];

/// Returns the definition files of a program with these protections: their paths, relative to its folder, and their bytes.
///
/// # Errors
/// The folder can't be read.
pub fn definition_files(protections: Vec<Arc<Protection>>) -> Result<Vec<(String, Vec<u8>)>, String> {
    let files = Definitions::open(protections).and_then(|definitions| definitions.all());
    let files = files.map_err(|error| error.detail().to_owned())?;
    Ok(files.into_iter().map(|file| (file.path, file.bytes)).collect())
}

/// The definitions of a program in its folder.
pub(crate) struct Definitions {
    dir: Dir,
    root: Place,
    /// The protection of each worker with those that it may call: their code is a definition, too.
    protections: Vec<Arc<Protection>>,
}

/// A definition file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    /// The path of the file, relative to the program's folder.
    pub(crate) path: String,
    pub(crate) bytes: Vec<u8>,
}

impl Definition {
    pub(crate) fn sha256(&self) -> String {
        sha256(&self.bytes)
    }
}

impl Definitions {
    /// Opens the definitions of the program whose workers have these protections.
    ///
    /// # Errors
    /// There is no worker, or the program's folder can't be opened.
    pub(crate) fn open(protections: Vec<Arc<Protection>>) -> Result<Self, ApiError> {
        let first = protections.first().ok_or_else(|| ApiError::internal("the program has no worker"))?;
        let root = first.root().clone();
        let dir = Dir::open_ambient_dir(root.as_str(), ambient_authority()).map_err(ApiError::internal)?;
        Ok(Self { dir, root, protections })
    }

    /// Returns all definitions, by path.
    ///
    /// # Errors
    /// A folder can't be read.
    pub(crate) fn all(&self) -> Result<Vec<Definition>, ApiError> {
        let (mut found, mut looked_at) = (Vec::new(), 0);
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            let entries = if folder.is_empty() { self.dir.entries() } else { self.dir.read_dir(&folder) };
            // A folder that can't be read holds no definitions that could be.
            for entry in entries.into_iter().flatten().flatten() {
                looked_at += 1;
                if looked_at > MOST_LOOKED_AT || found.len() >= MOST_FILES {
                    found.sort_by(|a: &Definition, b| a.path.cmp(&b.path));
                    return Ok(found);
                }
                let (Ok(name), Ok(kind)) = (entry.file_name().into_string(), entry.file_type()) else {
                    continue;
                };
                let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
                if kind.is_dir() {
                    let skipped = OF_TOOLS.contains(&name.as_str()) || name.starts_with('.');
                    if !skipped && path.matches('/').count() < DEEPEST {
                        folders.push(path);
                    }
                } else if kind.is_file()
                    && self.is_definition(&path)
                    && let Ok(Some(bytes)) = self.content(&path)
                    && str::from_utf8(&bytes).is_ok()
                {
                    found.push(Definition { path, bytes });
                }
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    /// Reads the definition with that path.
    ///
    /// # Errors
    /// There is none with that path.
    pub(crate) fn read(&self, path: &str) -> Result<Definition, ApiError> {
        let path = self.path(path)?;
        let bytes = self.content(&path)?.ok_or_else(|| no_file(&path))?;
        Ok(Definition { path, bytes })
    }

    /// Returns the plain path of a definition whose text is not saved. The file need not exist.
    ///
    /// # Errors
    /// The path is that of no definition, or the text is too large for one.
    pub(crate) fn unsaved(&self, path: &str, text: &str) -> Result<String, ApiError> {
        let path = self.path(path)?;
        match text.len() as u64 > LARGEST {
            true => Err(ApiError::new(Code::TooLarge, "a definition has at most 1 MiB")),
            false => Ok(path),
        }
    }

    /// Writes a definition, if the hash of the file is `was`, or if there is no file and `was` is `None`. Returns the
    /// new hash.
    ///
    /// # Errors
    /// The path is that of no definition, the file has changed, or it can't be written.
    pub(crate) fn write(&self, path: &str, text: &str, was: Option<&str>) -> Result<String, ApiError> {
        let path = self.unsaved(path, text)?;
        let now = self.content(&path)?.map(|bytes| sha256(&bytes));
        if now.as_deref() != was {
            let detail = match &now {
                Some(_) => format!("`{path}` was changed: read it again"),
                None => format!("`{path}` is not there"),
            };
            return Err(ApiError::new(Code::FileChanged, detail));
        }
        let failed =
            |error: io::Error| ApiError::new(Code::Internal, format!("cannot write `{path}`: {error}"));
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
        if !folder.is_empty() {
            self.dir.create_dir_all(folder).map_err(failed)?;
        }
        let folder = if folder.is_empty() { self.dir.try_clone() } else { self.dir.open_dir(folder) };
        replace(&folder.map_err(failed)?, name, text.as_bytes()).map_err(failed)?;
        Ok(sha256(text.as_bytes()))
    }

    /// A path of a definition in its plain form, which no link on the way leads elsewhere.
    fn path(&self, path: &str) -> Result<String, ApiError> {
        let no = |detail: String| ApiError::new(Code::Forbidden, detail);
        let bad = |reason: &str| ApiError::new(Code::BadRequest, format!("path: {reason}"));
        if path.starts_with('/') {
            return Err(bad("write it from the program's folder"));
        }
        let plain = VirtualPath::parse(path).map_err(|error| bad(&error.to_string()))?;
        let plain = plain.as_str().trim_start_matches('/').to_owned();
        if plain.is_empty() {
            return Err(bad("it names no file"));
        }
        if !self.is_definition(&plain) {
            return Err(no(format!(
                "`{plain}` is not a definition of the program: only these can be read and changed here"
            )));
        }
        let mut whole = String::new();
        for part in plain.split('/') {
            whole = if whole.is_empty() { part.to_owned() } else { format!("{whole}/{part}") };
            if self.dir.symlink_metadata(&whole).is_ok_and(|found| found.is_symlink()) {
                return Err(no(format!("`{whole}` is a symbolic link: change what it leads to")));
            }
        }
        Ok(plain)
    }

    /// Returns true if the place of a file makes it a definition.
    fn is_definition(&self, path: &str) -> bool {
        let place = self.root.join(path);
        let hidden = |part: &str| Protection::is_version_control(part) || Protection::is_invisible(part);
        !path.split('/').any(|part| hidden(part) || OF_TOOLS.contains(&part.to_ascii_lowercase().as_str()))
            && !self.protections.iter().any(|one| one.is_executed(&place))
            && self.protections.iter().any(|one| one.class(&place, &self.root) == Class::Protected)
    }

    /// Returns the bytes of a regular file, or `None` if there is no file.
    fn content(&self, path: &str) -> Result<Option<Vec<u8>>, ApiError> {
        let failed =
            |error: io::Error| ApiError::new(Code::Internal, format!("cannot read `{path}`: {error}"));
        match self.dir.symlink_metadata(Path::new(path)) {
            Err(error) if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&error.kind()) => {
                return Ok(None);
            }
            Err(error) => return Err(failed(error)),
            Ok(found) if !found.is_file() => {
                return Err(ApiError::new(Code::Forbidden, format!("`{path}` is no regular file")));
            }
            Ok(found) if found.len() > LARGEST => {
                return Err(ApiError::new(Code::TooLarge, format!("`{path}` has more than 1 MiB")));
            }
            Ok(_) => {}
        }
        let mut bytes = Vec::new();
        let file = self.dir.open(path).map_err(failed)?;
        file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
        Ok(Some(bytes))
    }
}

/// Replaces a file of a folder. A reader sees the old content or the new one.
fn replace(folder: &Dir, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut new = NewFile::begin(folder)?;
    new.write_all(bytes)?;
    if let Ok(old) = folder.symlink_metadata(name) {
        new.file().set_permissions(old.permissions())?;
    }
    new.file().sync_all()?;
    new.replace(name)
}

fn no_file(path: &str) -> ApiError {
    ApiError::new(Code::NotFound, format!("the program has no `{path}`"))
}
