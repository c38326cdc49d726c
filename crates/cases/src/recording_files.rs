//! The files of recordings: `NAME.recorded/CASE.K.jsonl` beside a file of cases.

use llm_do_program::cases::recorded_folder;
use llm_do_records::{BadRecording, Recording};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

/// Largest recording that is read.
const LARGEST: u64 = 256 << 20;

/// A recording that can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordingError {
    #[error("there is no recording `{0}`: make it with `llm-do test --update`")]
    Missing(String),
    #[error("the recording `{file}` cannot be used: {source}. Make it again with `llm-do test --update`")]
    Bad { file: String, source: BadRecording },
    #[error("the recording `{file}` cannot be read: {source}. Make it again with `llm-do test --update`")]
    Io { file: String, source: io::Error },
}

/// The folder of a file's recordings.
pub(crate) fn folder(root: &Path, cases: &str) -> PathBuf {
    root.join(recorded_folder(cases))
}

/// The same, and it is no link: what is written and removed there lies in the program.
fn own_folder(root: &Path, cases: &str) -> io::Result<PathBuf> {
    let folder = folder(root, cases);
    match fs::symlink_metadata(&folder) {
        Ok(found) if found.is_symlink() => Err(io::Error::other("it is a symbolic link")),
        _ => Ok(folder),
    }
}

/// Whether there are recordings of a file of cases.
pub(crate) fn exist(root: &Path, cases: &str) -> bool {
    folder(root, cases).is_dir()
}

fn name(case: &str, repeat: u32) -> String {
    format!("{case}.{repeat}.jsonl")
}

/// The recording of a repeat, from 1.
pub(crate) fn read(root: &Path, cases: &str, case: &str, repeat: u32) -> Result<Recording, RecordingError> {
    let file = format!("{}/{}", recorded_folder(cases), name(case, repeat));
    let path = root.join(&file);
    let io = |source| RecordingError::Io { file: file.clone(), source };
    own_folder(root, cases).map_err(io)?;
    let metadata = match fs::symlink_metadata(&path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(RecordingError::Missing(file)),
        Err(error) => return Err(io(error)),
    };
    if !metadata.is_file() || metadata.len() > LARGEST {
        return Err(io(io::Error::other("it is not a regular file of at most 256 MiB")));
    }
    let text = fs::read_to_string(&path).map_err(io)?;
    Recording::parse(&text).map_err(|source| RecordingError::Bad { file, source })
}

/// Writes the recording of a repeat. What differs from the file in the date alone leaves it as it is, so that recording again
/// changes what is different now.
pub(crate) fn write(
    root: &Path,
    cases: &str,
    case: &str,
    repeat: u32,
    recording: &Recording,
) -> io::Result<()> {
    let folder = own_folder(root, cases)?;
    fs::create_dir_all(&folder)?;
    let text = recording.lines()?;
    let path = folder.join(name(case, repeat));
    if fs::read_to_string(&path).is_ok_and(|before| dateless(&before) == dateless(&text)) {
        return Ok(());
    }
    // Never half a recording: a reader in another process sees the old one or the new one.
    let file = tempfile::NamedTempFile::new_in(&folder)?;
    fs::write(file.path(), text)?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// The lines of a recording without the dates on which its runs started.
fn dateless(text: &str) -> Vec<String> {
    let dateless = |line: &str| match serde_json::from_str::<Value>(line) {
        Ok(mut record) if record["kind"] == "run_started" => {
            record["date"] = Value::Null;
            record.to_string()
        }
        _ => line.to_owned(),
    };
    text.lines().map(dateless).collect()
}

/// Removes recordings of cases and repeats that are no more. `kept` are those of all files of cases that share the folder.
pub(crate) fn prune(root: &Path, cases: &str, kept: &BTreeSet<(String, u32)>) -> io::Result<()> {
    let kept: BTreeSet<String> = kept.iter().map(|(case, repeat)| name(case, *repeat)).collect();
    let folder = own_folder(root, cases)?;
    if !folder.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let left =
            entry.file_name().to_str().is_some_and(|file| file.ends_with(".jsonl") && !kept.contains(file));
        if left && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_date_of_a_run_may_differ() {
        let run = |date: &str, text: &str| {
            format!("{{\"kind\":\"run_started\",\"date\":\"{date}\"}}\n{{\"date\":\"{text}\"}}\n")
        };
        assert_eq!(dateless(&run("2026-01-01", "x")), dateless(&run("2026-01-02", "x")));
        assert_ne!(dateless(&run("2026-01-01", "x")), dateless(&run("2026-01-01", "y")));
    }
}
