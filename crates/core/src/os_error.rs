//! Messages for errors of the operating system, in places that omit the system's own message because it names no path.

use std::io;

/// `EMFILE` on Linux, macOS and the BSDs: the process has its maximum number of open files.
const TOO_MANY_OF_PROCESS: i32 = 24;
/// `ENFILE`: the machine has its maximum number of open files.
const TOO_MANY_OF_MACHINE: i32 = 23;

/// The reason of an error, for a sentence that names the file. For an error without words of the standard library, the
/// system's own message is used.
pub fn reason(error: &io::Error) -> String {
    let Some(number) = error.raw_os_error() else { return error.to_string() };
    if cfg!(unix) && number == TOO_MANY_OF_PROCESS {
        return "too many open files; raise the limit of the process, for example with `ulimit -n 4096`"
            .into();
    }
    if cfg!(unix) && number == TOO_MANY_OF_MACHINE {
        return "too many open files on this machine; close programs, or raise the limit of the system"
            .into();
    }
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "the disk is full".into(),
        io::ErrorKind::ReadOnlyFilesystem => "the disk is read-only".into(),
        kind => match kind.to_string() {
            // The kind of all errors that have no kind, which can't be named.
            kind if kind == "uncategorized error" => error.to_string(),
            kind => kind,
        },
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn no_error_is_without_a_reason() {
        for (number, words) in
            [(24, "too many open files"), (23, "too many open files"), (28, "the disk is full")]
        {
            let said = reason(&io::Error::from_raw_os_error(number));
            assert!(said.contains(words), "{number}: {said}");
        }
        for number in 1..134 {
            let said = reason(&io::Error::from_raw_os_error(number));
            assert!(!said.is_empty() && !said.contains("uncategorized"), "{number}: {said}");
        }
        assert_eq!(reason(&io::Error::other("a reason of our own")), "a reason of our own");
    }
}
