//! The library as an embedding program uses it.
#![allow(clippy::unwrap_used)] // in a test a panic is the report

mod calls;
mod parts;
mod process;
mod registration;
mod resuming;
mod tools;

use llm_do::{Program, ProgramBuilder};
use std::{fs, path::Path};
use tempfile::TempDir;

/// A folder with a program of these files, and a folder for the user's files beside it.
struct Folder(TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join("program").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self(folder)
    }

    /// A program of one worker with these keys.
    fn of(keys: &str) -> Self {
        Self::new(&[("main.worker", &format!("---\n{keys}\n---\nDo it.\n"))])
    }

    fn program(&self) -> std::path::PathBuf {
        self.0.path().join("program")
    }

    fn builder(&self, script: &str) -> ProgramBuilder {
        Program::builder(self.program()).home(self.0.path().join("home")).script(script)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}
