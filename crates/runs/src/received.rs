//! Runs that were written elsewhere, with seals of another key.

use crate::{
    files::{private_dir, private_file},
    journal::JOURNAL_FILE,
    read::run_id_of,
    seal::SealKey,
};
use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    path::Path,
};

/// Writes the journal of a run into its new folder, whose name is the run's ID. The lines must have the seals of `from`, and
/// get those of `to`.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`]: a line does not have the next seal. Otherwise the folder or the journal exists, or can't be
/// written.
pub fn receive_journal<'a>(
    run_dir: &Path,
    lines: impl IntoIterator<Item = &'a [u8]>,
    from: &SealKey,
    to: &SealKey,
) -> io::Result<()> {
    let id = run_id_of(run_dir);
    let (mut from, mut to) = (from.chain(&id), to.chain(&id));
    let mut journal = Vec::new();
    for line in lines {
        let start = journal.len();
        let Some(bare) = from.admitted(line) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a record of the run {id} was changed"),
            ));
        };
        journal.extend_from_slice(bare);
        journal.push(b'}');
        to.seal(&mut journal, start);
        journal.push(b'\n');
    }
    private_dir(run_dir)?;
    let mut file =
        private_file(OpenOptions::new().write(true).create_new(true)).open(run_dir.join(JOURNAL_FILE))?;
    file.write_all(&journal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_received_journal_has_the_seals_of_the_receiver() {
        let dir = tempfile::tempdir().unwrap();
        let run_dir = dir.path().join("20261121-221530-4f2a");
        let (theirs, ours) = (SealKey::from([1; 32]), SealKey::from([2; 32]));
        let mut chain = theirs.chain("20261121-221530-4f2a");
        let mut sealed = |line: &str| {
            let mut line = line.as_bytes().to_vec();
            chain.seal(&mut line, 0);
            line
        };
        let lines = [sealed(r#"{"seq":0}"#), sealed(r#"{"seq":1}"#)];
        let in_order = || lines.iter().map(Vec::as_slice);
        assert!(receive_journal(&run_dir, in_order().rev(), &theirs, &ours).is_err());
        assert!(receive_journal(&run_dir, in_order(), &ours, &ours).is_err());
        assert!(!run_dir.exists());
        receive_journal(&run_dir, in_order(), &theirs, &ours).unwrap();
        let text = fs::read(run_dir.join(JOURNAL_FILE)).unwrap();
        let mut chain = ours.chain("20261121-221530-4f2a");
        let written: Vec<&[u8]> = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
        assert_eq!(written.len(), 2);
        assert!(written.iter().all(|line| chain.admits(line)));
        assert!(receive_journal(&run_dir, in_order(), &theirs, &ours).is_err(), "it exists");
    }
}
