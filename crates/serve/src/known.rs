//! Names that are kept in a file, one a line. A name stands for something that has been dealt with.

use llm_do::{private_dir, write_below};
use std::{
    collections::HashSet,
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Names that this process knows, and those that the next one will know.
#[derive(Debug)]
pub(crate) struct KnownNames {
    file: PathBuf,
    names: Mutex<HashSet<String>>,
}

impl KnownNames {
    /// The names of a file in that folder, which is made.
    ///
    /// # Errors
    /// The names can't be read.
    pub(crate) fn open(folder: &Path, file: &str) -> io::Result<Self> {
        private_dir(folder)?;
        let path = folder.join(file);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read?,
        };
        // A last line that was cut off is not known.
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        if whole.len() < text.len() {
            write_below(folder, Path::new(file), whole.as_bytes())?;
        }
        Ok(Self { file: path, names: Mutex::new(whole.lines().map(str::to_owned).collect()) })
    }

    fn names(&self) -> MutexGuard<'_, HashSet<String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.names().contains(name)
    }

    /// Lets this process know a name.
    pub(crate) fn learn(&self, name: &str) {
        self.names().insert(name.to_owned());
    }

    /// Lets this process and the next one know a name.
    ///
    /// # Errors
    /// The name can't be written. This process knows it nevertheless.
    pub(crate) fn keep(&self, name: &str) -> io::Result<()> {
        self.learn(name);
        let mut file = OpenOptions::new().create(true).append(true).open(&self.file)?;
        file.write_all(format!("{name}\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_to_the_next_process_also_after_a_line_that_was_cut_off() {
        let home = tempfile::tempdir().expect("a folder");
        let known = KnownNames::open(home.path(), "files").expect("opened");
        known.keep("one").expect("written");
        known.learn("zero");
        assert!(known.has("zero"));
        let file = home.path().join("files");
        fs::write(&file, "one\ntw").expect("written");
        let known = KnownNames::open(home.path(), "files").expect("opened");
        assert!(known.has("one") && !known.has("tw") && !known.has("zero"));
        known.keep("two").expect("written");
        assert_eq!(fs::read_to_string(&file).expect("a file"), "one\ntwo\n");
    }
}
