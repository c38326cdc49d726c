//! The place of a worker's instructions in its file.

use crate::problem::Problem;
use llm_do::{read_below, write_below};
use llm_do_core::definition::WorkerDefinition;
use llm_do_program::{
    Source, Start,
    front_matter::definition_of,
    source::{Kind, LARGEST_DEFINITION},
    span::SourceFile,
};
use std::{
    collections::BTreeMap,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A file with instructions, as it was when the command began.
pub(crate) struct InstructionsFile {
    root: PathBuf,
    /// The path of the file, relative to the root.
    pub(crate) path: String,
    /// The text of the file.
    text: String,
    /// The instructions, without blanks around them.
    range: Range<usize>,
}

impl InstructionsFile {
    /// Finds the instructions of a worker: the text after the front matter, or a file of prompts.
    ///
    /// # Errors
    /// The worker is code or belongs to a library, or its instructions are a value of its keys.
    pub(crate) fn of(source: &Source, worker: &WorkerDefinition) -> Result<Self, Problem> {
        let no = |what: &str, hint: &str| Problem::NotTunable {
            what: format!("`{}` {what}", worker.id),
            hint: hint.to_owned(),
        };
        if worker.code.is_some() {
            return Err(no("is code, and has no instructions", "name a worker with instructions"));
        }
        let tree = source.tree.as_ref();
        let instructions = &worker.instructions;
        let candidates = match &source.start {
            Start::File(file) => vec![file.clone(), instructions.file.to_string()],
            Start::Entry(_) => vec![instructions.file.to_string()],
        };
        let found = candidates.into_iter().find_map(|path| {
            if tree.kind(&path) != Ok(Some(Kind::File)) {
                return None;
            }
            let text = String::from_utf8(tree.read(&path, LARGEST_DEFINITION).ok()?).ok()?;
            let whole = match path.ends_with(".worker") {
                true => {
                    let file = SourceFile::new(path.as_str(), text.as_str());
                    definition_of(file, true).document?.body?.range
                }
                false => 0..text.len(),
            };
            // A byte order mark before them is no part of the instructions.
            text[whole.clone()].ends_with(&*instructions.text).then(|| {
                let start = whole.end - instructions.text.len();
                let lead = instructions.text.len() - instructions.text.trim_start().len();
                let trail = instructions.text.len() - instructions.text.trim_end().len();
                Self {
                    root: PathBuf::from(tree.root().as_str()),
                    range: start + lead..whole.end - trail,
                    path,
                    text,
                }
            })
        });
        found.filter(|file| !file.range.is_empty()).ok_or_else(|| {
            no(
                "has its instructions under the key `instructions`, or in a library",
                "move them after the front matter of the worker's file",
            )
        })
    }

    /// Returns the instructions.
    pub(crate) fn instructions(&self) -> Arc<str> {
        self.text[self.range.clone()].replace("\r\n", "\n").into()
    }

    /// Returns the text of the file.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text of the file with other instructions. All else stays, byte for byte.
    pub(crate) fn with(&self, instructions: &str) -> String {
        let (before, after) = (&self.text[..self.range.start], &self.text[self.range.end..]);
        match self.text.contains("\r\n") {
            true => format!("{before}{}{after}", instructions.replace('\n', "\r\n")),
            false => format!("{before}{instructions}{after}"),
        }
    }

    /// Returns the texts of a program with other instructions.
    pub(crate) fn texts(&self, instructions: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(self.path.clone(), self.with(instructions))])
    }

    /// Writes other instructions into the file.
    ///
    /// # Errors
    /// The file has changed, or can't be written.
    pub(crate) fn write(&self, instructions: &str) -> Result<(), Problem> {
        let (path, full) = (Path::new(&self.path), self.root.join(&self.path));
        match read_below(&self.root, path, LARGEST_DEFINITION) {
            Ok(now) if now == self.text.as_bytes() => {}
            _ => return Err(Problem::Changed(full)),
        }
        write_below(&self.root, path, self.with(instructions).as_bytes())
            .map_err(|source| Problem::Write { path: full, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn file(root: &Path, text: &str) -> InstructionsFile {
        fs::write(root.join("w.worker"), text).unwrap();
        let start = text.find("Say").unwrap();
        let end = text.rfind("it.").unwrap() + 3;
        InstructionsFile {
            root: root.to_owned(),
            path: "w.worker".into(),
            text: text.into(),
            range: start..end,
        }
    }

    #[test]
    fn all_but_the_instructions_stays_byte_for_byte() {
        let dir = tempfile::tempdir().unwrap();
        let head = "---\n# A comment.\nreturns: {a: string}   # another\n---\n\n  ";
        let of = file(dir.path(), &format!("{head}Say\nit.\n\n"));
        assert_eq!(&*of.instructions(), "Say\nit.");
        of.write("Sing\nit.").unwrap();
        let now = fs::read_to_string(dir.path().join("w.worker")).unwrap();
        assert_eq!(now, format!("{head}Sing\nit.\n\n"));
        // The ends of lines stay, too.
        let of = file(dir.path(), "---\r\n---\r\nSay\r\nit.\r\n");
        assert_eq!(&*of.instructions(), "Say\nit.");
        assert_eq!(of.with("Sing\nit."), "---\r\n---\r\nSing\r\nit.\r\n");
    }

    #[test]
    fn a_file_that_has_changed_or_gone_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let of = file(dir.path(), "---\n---\nSay it.\n");
        let path = dir.path().join("w.worker");
        fs::write(&path, "---\n---\nSay it .\n").unwrap();
        assert!(matches!(of.write("Sing it."), Err(Problem::Changed(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "---\n---\nSay it .\n");
        fs::remove_file(&path).unwrap();
        assert!(matches!(of.write("Sing it."), Err(Problem::Changed(_))));
        assert!(!path.exists());
    }
}
