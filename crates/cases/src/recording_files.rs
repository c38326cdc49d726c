//! The files of recordings: `NAME.recorded/CASE.K.jsonl` beside a file of cases.

use cap_std::{ambient_authority, fs::Dir};
use llm_do::{read_below, write_below};
use llm_do_program::cases::recorded_folder;
use llm_do_records::{BadRecording, Recording};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
};

/// The largest size of a recording that is read, in bytes.
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

/// Returns the folder of a file's recordings.
pub(crate) fn folder(root: &Path, cases: &str) -> PathBuf {
    root.join(recorded_folder(cases))
}

/// Returns true if there are recordings of a file of cases.
pub(crate) fn exist(root: &Path, cases: &str) -> bool {
    folder(root, cases).is_dir()
}

fn name(case: &str, repeat: u32) -> String {
    format!("{case}.{repeat}.jsonl")
}

/// Reads the recording of a repeat. Repeats are numbered from 1.
pub(crate) fn read(root: &Path, cases: &str, case: &str, repeat: u32) -> Result<Recording, RecordingError> {
    let file = format!("{}/{}", recorded_folder(cases), name(case, repeat));
    let io = |source| RecordingError::Io { file: file.clone(), source };
    let text = match text(root, &file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(RecordingError::Missing(file)),
        text => text.map_err(io)?,
    };
    Recording::parse(&text).map_err(|source| RecordingError::Bad { file, source })
}

/// Reads the text of a file of recordings: a regular file below the root.
fn text(root: &Path, file: &str) -> io::Result<String> {
    let bytes = read_below(root, Path::new(file), LARGEST)?;
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Writes the recording of a repeat. If only the date differs from the existing file, the file stays as it is, so that
/// a new recording changes only files whose content is different.
pub(crate) fn write(
    root: &Path,
    cases: &str,
    case: &str,
    repeat: u32,
    recording: &Recording,
) -> io::Result<()> {
    let lines = recording.lines()?;
    let file = format!("{}/{}", recorded_folder(cases), name(case, repeat));
    if text(root, &file).is_ok_and(|before| dateless(&before) == dateless(&lines)) {
        return Ok(());
    }
    write_below(root, Path::new(&file), lines.as_bytes())
}

/// Returns the lines of a recording without the dates on which its runs started.
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

/// Removes recordings of cases and repeats that no longer exist. `kept` are the recordings to keep of all files of
/// cases that share the folder.
pub(crate) fn prune(root: &Path, cases: &str, kept: &BTreeSet<(String, u32)>) -> io::Result<()> {
    let kept: BTreeSet<String> = kept.iter().map(|(case, repeat)| name(case, *repeat)).collect();
    let root = Dir::open_ambient_dir(root, ambient_authority())?;
    let folder = match root.open_dir(recorded_folder(cases)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        folder => folder?,
    };
    for entry in folder.entries()? {
        let entry = entry?;
        let left =
            entry.file_name().to_str().is_some_and(|file| file.ends_with(".jsonl") && !kept.contains(file));
        if left && entry.file_type()?.is_file() {
            entry.remove_file()?;
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
