//! The contents of a library: its files by path, each with the hash of its bytes.

pub use crate::source::Change;
use crate::source::{Kind, SourceError, SourceTree, join, plain};
use llm_do_core::schema::sha256;
use std::{collections::BTreeMap, fmt};

/// The largest number of files of a library.
pub const MOST_FILES: usize = 4_096;
/// The largest size of all files of a library together, in bytes.
pub const MOST_BYTES: u64 = 64 << 20;
/// The longest path of a file in a library, in bytes.
pub const LONGEST_PATH: usize = 255;
/// The greatest depth of a folder, and the largest number of entries of all folders, ignored ones included.
const DEEPEST: usize = 32;
const MOST_ENTRIES: usize = 100_000;
/// Files and folders that tools create and that are not part of a library, in lower case. `*.pyc` files are excluded
/// too, and `.env` with its variants: their secrets must neither be copied nor be guessable from a hash.
const LEFT_OUT: [&str; 6] = [".git", ".venv", "__pycache__", "node_modules", ".llm-do", ".ds_store"];

/// The files of a library, each with the SHA-256 of its bytes in lower-case hexadecimal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents(BTreeMap<String, String>);

/// The reason why the contents of a library can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContentsError {
    /// A symbolic link, a device, a socket, a FIFO.
    #[error("`{0}` is a symbolic link or a device; a library holds regular files and folders only")]
    NotRegular(String),
    /// A name that is invalid on other systems, or that is excluded.
    #[error("`{0}` is not a path that a library may hold ({1})")]
    BadPath(String, &'static str),
    /// The file or folder can't be read.
    #[error("`{0}` cannot be read: {1}")]
    Unreadable(String, SourceError),
    /// The library has too many files.
    #[error(
        "it has more than {MOST_FILES} files, or folders deeper than {DEEPEST}; a library has at most that"
    )]
    TooMany,
    /// The library has too many bytes.
    #[error("its files have more than {} MiB; a library has at most that", MOST_BYTES >> 20)]
    TooLarge,
}

/// A file that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The path of the file in the library.
    pub path: String,
    /// The difference.
    pub change: Change,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is {}", self.path, self.change)
    }
}

impl Contents {
    /// Reads a whole library.
    ///
    /// # Errors
    /// See [`ContentsError`].
    pub fn of(tree: &dyn SourceTree) -> Result<Self, ContentsError> {
        let mut contents = Self::default();
        visit(tree, &mut |path, bytes| contents.insert(path, &bytes))?;
        Ok(contents)
    }

    /// Reads the library in a folder of a tree.
    ///
    /// # Errors
    /// See [`ContentsError`].
    pub fn below(tree: &dyn SourceTree, folder: &str) -> Result<Self, ContentsError> {
        let mut contents = Self::default();
        walk(tree, folder, &mut |path, bytes| contents.insert(path, &bytes))?;
        Ok(contents)
    }

    /// Adds a file with these bytes.
    pub fn insert(&mut self, path: String, bytes: &[u8]) {
        self.0.insert(path, sha256(bytes));
    }

    /// Adds a file whose hash is known.
    pub fn insert_hash(&mut self, path: String, hash: String) {
        self.0.insert(path, hash);
    }

    /// Returns the hash of a file.
    pub fn get(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// Returns paths and hashes, sorted by path.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(path, hash)| (path.as_str(), hash.as_str()))
    }

    /// Returns the number of files.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there is no file.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Computes the SHA-256 of the whole library: of a line `path NUL hash` for each file, sorted by path.
    pub fn hash(&self) -> String {
        let lines: String = self.files().map(|(path, hash)| format!("{path}\0{hash}\n")).collect();
        sha256(lines.as_bytes())
    }

    /// Returns the differences in `now`, sorted by path.
    pub fn compare(&self, now: &Self) -> Vec<Difference> {
        let gone = self.0.iter().filter_map(|(path, hash)| match now.0.get(path) {
            None => Some((path, Change::Missing)),
            Some(other) if other != hash => Some((path, Change::Changed)),
            Some(_) => None,
        });
        let new = now.0.keys().filter(|path| !self.0.contains_key(*path)).map(|path| (path, Change::New));
        let mut all: Vec<Difference> =
            gone.chain(new).map(|(path, change)| Difference { path: path.clone(), change }).collect();
        all.sort_by(|a, b| a.path.cmp(&b.path));
        all
    }
}

/// Returns true if a file or folder of that name is excluded from a library.
pub fn is_left_out(name: &str) -> bool {
    let name = name.to_lowercase();
    LEFT_OUT.contains(&name.as_str())
        || name.ends_with(".pyc")
        || name.strip_prefix(".env").is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Checks that a library may contain a file at this path: plain, short, without control characters and excluded
/// parts.
///
/// # Errors
/// The problem with the path.
pub fn check_path(path: &str) -> Result<(), ContentsError> {
    let bad = |reason| Err(ContentsError::BadPath(path.to_owned(), reason));
    match plain(path) {
        _ if path.len() > LONGEST_PATH => bad("it has more than 255 bytes"),
        _ if path.chars().any(char::is_control) => bad("it has control characters"),
        Ok(same) if same == path && !path.is_empty() => match path.split('/').any(is_left_out) {
            true => bad("it is left out of libraries"),
            false => Ok(()),
        },
        _ => bad("it is not a plain relative path"),
    }
}

/// Reads every file of a library and passes it to `each` with its path, folder by folder, sorted by name.
///
/// # Errors
/// See [`ContentsError`].
pub fn visit(tree: &dyn SourceTree, each: &mut dyn FnMut(String, Vec<u8>)) -> Result<(), ContentsError> {
    walk(tree, "", each)
}

fn walk(
    tree: &dyn SourceTree,
    base: &str,
    each: &mut dyn FnMut(String, Vec<u8>),
) -> Result<(), ContentsError> {
    let mut walk = Walk { tree, base, each, files: 0, bytes: 0, entries: 0 };
    walk.folder("", 0)
}

struct Walk<'a> {
    tree: &'a dyn SourceTree,
    /// The folder of the library in the tree.
    base: &'a str,
    each: &'a mut dyn FnMut(String, Vec<u8>),
    files: usize,
    bytes: u64,
    entries: usize,
}

impl Walk<'_> {
    fn folder(&mut self, folder: &str, depth: usize) -> Result<(), ContentsError> {
        let unreadable = |path: &str, error| ContentsError::Unreadable(path.to_owned(), error);
        if depth > DEEPEST {
            return Err(ContentsError::TooMany);
        }
        let listed = self.tree.list(&join(self.base, folder));
        for (name, kind) in listed.map_err(|error| unreadable(folder, error))? {
            self.entries += 1;
            if self.entries > MOST_ENTRIES {
                return Err(ContentsError::TooMany);
            }
            if is_left_out(&name) {
                continue;
            }
            let path = join(folder, &name);
            check_path(&path)?;
            match kind {
                Kind::Folder => self.folder(&path, depth + 1)?,
                Kind::Special => return Err(ContentsError::NotRegular(path)),
                Kind::File => {
                    self.files += 1;
                    if self.files > MOST_FILES {
                        return Err(ContentsError::TooMany);
                    }
                    let bytes = match self.tree.read(&join(self.base, &path), MOST_BYTES - self.bytes) {
                        Ok(bytes) => bytes,
                        Err(SourceError::TooLarge { .. }) => return Err(ContentsError::TooLarge),
                        Err(error) => return Err(unreadable(&path, error)),
                    };
                    self.bytes += bytes.len() as u64;
                    (self.each)(path, bytes);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::MemoryTree;
    use llm_do_core::authority::Place;
    use proptest::prelude::*;

    fn contents(files: &[(&str, &str)]) -> Contents {
        Contents::of(&MemoryTree::new(Place::new("/l"), files.iter().copied())).unwrap()
    }

    #[test]
    fn the_hash_is_of_paths_and_bytes_and_nothing_else() {
        let one = contents(&[
            ("b", "2"),
            ("a/x", "1"),
            (".git/HEAD", "x"),
            (".env", "K=v"),
            ("a/__pycache__/x.pyc", "y"),
        ]);
        assert_eq!(one, contents(&[("a/x", "1"), ("b", "2"), ("t.pyc", "z")]));
        let line = |path: &str, text: &str| format!("{path}\0{}\n", sha256(text.as_bytes()));
        assert_eq!(one.hash(), sha256(format!("{}{}", line("a/x", "1"), line("b", "2")).as_bytes()));
        assert_ne!(one.hash(), contents(&[("a/x", "2"), ("b", "1")]).hash());
    }

    #[test]
    fn differences_say_what_happened_to_which_file() {
        let before = contents(&[("a", "1"), ("b", "2"), ("c", "3")]);
        let after = contents(&[("a", "1"), ("b", "x"), ("d", "4")]);
        let shown: Vec<String> = before.compare(&after).iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["`b` is changed", "`c` is missing", "`d` is new"]);
        assert_eq!(before.compare(&before), []);
    }

    #[test]
    fn what_no_library_may_hold_is_refused() {
        for path in ["", "/a", "../a", "a/../b", "a//b", "./a", "a\nb", "C:x", "a\\b", ".GIT/config", "x.pyc"]
        {
            assert!(check_path(path).is_err(), "{path:?}");
        }
        assert_eq!(check_path("workers/größe 1.worker"), Ok(()));
        assert!(check_path(&"x".repeat(LONGEST_PATH + 1)).is_err());
        let many = (0..=MOST_FILES).map(|i| (i.to_string(), ""));
        assert_eq!(Contents::of(&MemoryTree::new(Place::new("/l"), many)), Err(ContentsError::TooMany));
        let deep = "d/".repeat(DEEPEST + 1) + "x";
        assert_eq!(
            Contents::of(&MemoryTree::new(Place::new("/l"), [(deep, "")])),
            Err(ContentsError::TooMany)
        );
    }

    #[cfg(unix)]
    #[test]
    fn links_and_devices_are_no_part_of_a_library() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "1").unwrap();
        std::os::unix::fs::symlink("a", folder.path().join("link")).unwrap();
        let tree = crate::source::DiskTree::open(folder.path()).unwrap();
        assert_eq!(Contents::of(&tree), Err(ContentsError::NotRegular("link".into())));
    }

    proptest! {
        #[test]
        fn any_changed_byte_is_found(
            text in proptest::collection::vec(any::<u8>(), 1..200),
            at in any::<prop::sample::Index>(),
            flip in 1..=255_u8,
        ) {
            let tree = |bytes: &[u8]| MemoryTree::new(Place::new("/l"), [("lib.yaml", b"x".to_vec()), ("f", bytes.to_vec())]);
            let before = Contents::of(&tree(&text)).unwrap();
            let mut other = text.clone();
            other[at.index(text.len())] ^= flip;
            let after = Contents::of(&tree(&other)).unwrap();
            prop_assert_ne!(before.hash(), after.hash());
            prop_assert_eq!(before.compare(&after), [Difference { path: "f".into(), change: Change::Changed }]);
        }
    }
}
