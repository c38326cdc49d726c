//! Interpretation of values on the command line: JSON, files, stdin, pairs (`docs/reference/commands.md`).

use crate::{exit::Complaint, render::Output};
use llm_do_core::json::{self, Fault};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;
use std::{
    fs::File,
    io::{self, BufRead as _, IsTerminal, Read as _},
    path::PathBuf,
};

/// Time for which standard input may be silent before a message explains the wait.
const SILENT: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };
/// Time to wait for text on standard input beside a complete input. Programs often start others with a pipe that they
/// neither write nor close.
const BESIDE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// No wait.
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// The most bytes that are read as input. A model takes less; a mistaken pipe must not fill the memory.
const LONGEST: u64 = 16 << 20;

/// A value, and its file if it has one.
pub(crate) struct Read<T> {
    pub(crate) value: T,
    pub(crate) file: Option<PathBuf>,
}

/// Reads the value of `--input`: JSON, `@FILE` with JSON, or `-` for JSON on stdin.
pub(crate) fn input(text: &str) -> Result<Read<Value>, Complaint> {
    json("--input", text)
}

/// Reads JSON, `@FILE` or `-` for stdin, from an argument with that name.
pub(crate) fn json(name: &str, text: &str) -> Result<Read<Value>, Complaint> {
    let (from, json, file) = match text.strip_prefix('@') {
        Some(path) => {
            let from = format!("{name} @{path}");
            let file = File::open(path).map_err(|error| Complaint::wrong(format!("{from}: {error}")))?;
            let json = read(file, &from)?;
            (from, json, Some(path.into()))
        }
        None if text == "-" => {
            (format!("{name} -"), read(io::stdin().lock(), &format!("{name} -"))?, stdin_file())
        }
        None => (name.to_owned(), text.to_owned(), None),
    };
    // Some editors begin a file with a byte order mark.
    let json = json.strip_prefix('\u{feff}').unwrap_or(&json);
    let value = json::read(json).map_err(|error| match error.fault {
        Fault::Refused => Complaint::wrong(format!("{from} can't be taken: {error}")),
        Fault::Syntax | Fault::Cut => Complaint::wrong(format!("{from} is not JSON: {error}")).hint(
            "text needs its quotes as JSON (--input '\"hello\"'); as a message it needs none (-m hello)",
        ),
    })?;
    Ok(Read { value, file })
}

/// Returns the regular file on standard input, if the system reports its path. The source of a pipe is not known.
pub(crate) fn stdin_file() -> Option<PathBuf> {
    #[cfg(target_os = "linux")]
    let path = std::fs::read_link("/proc/self/fd/0").ok();
    #[cfg(target_vendor = "apple")]
    let path = rustix::fs::getpath(io::stdin()).ok().map(|path| {
        PathBuf::from(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(path.as_bytes()))
    });
    #[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
    let path: Option<PathBuf> = None;
    path.filter(|path| path.is_file())
}

/// Splits values of the form `NAME=VALUE`.
pub(crate) fn pairs(flag: &str, given: &[String]) -> Result<Vec<(String, String)>, Complaint> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(Complaint::wrong(format!("{flag} {text}: a name and a value belong here"))
            .hint(format!("write {flag} NAME=VALUE"))),
    };
    given.iter().map(pair).collect()
}

/// Reads the piped input, for an entry that still lacks its input. `None`: stdin is a terminal, or empty. A silent pipe
/// may have been inherited by mistake, so a message explains the wait.
pub(crate) fn piped(output: &Output) -> Result<Option<Read<String>>, Complaint> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return Ok(None);
    }
    if poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&SILENT)) == Ok(0) {
        output.note(
            "reading the message from standard input until it ends; give the message as an argument, or add \
             `</dev/null`, if there is none",
        );
    }
    whole()
}

/// Reads the text on standard input for a message that is `-`.
pub(crate) fn asked_for(output: &Output) -> Result<Read<String>, Complaint> {
    let text = if io::stdin().is_terminal() { whole()? } else { piped(output)? };
    text.ok_or_else(|| {
        Complaint::wrong("the message `-` means standard input, which is empty")
            .hint("pipe a text into the command, or give the message as an argument")
    })
}

/// Reads the text that is piped beside a complete input. `None`: there is none so far.
pub(crate) fn beside() -> Result<Option<Read<String>>, Complaint> {
    if is_readable(&BESIDE) { whole() } else { Ok(None) }
}

/// Returns true if standard input has text that has not been read.
pub(crate) fn has_unread() -> bool {
    // A pipe whose other end is closed is readable, too, and has none.
    is_readable(&AT_ONCE) && io::stdin().lock().fill_buf().is_ok_and(|text| !text.trim_ascii().is_empty())
}

/// Returns true if standard input is no terminal and can be read without a wait.
fn is_readable(within: &Timespec) -> bool {
    let stdin = io::stdin();
    !stdin.is_terminal()
        && poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(within)).is_ok_and(|ready| ready > 0)
}

/// Reads all of standard input, without the newline at its end. `None`: it is empty.
fn whole() -> Result<Option<Read<String>>, Complaint> {
    let text = read(io::stdin().lock(), "stdin")?;
    let text = text.strip_suffix('\n').map_or(&*text, |text| text.strip_suffix('\r').unwrap_or(text));
    Ok((!text.is_empty()).then(|| Read { value: text.to_owned(), file: stdin_file() }))
}

fn read(source: impl io::Read, from: &str) -> Result<String, Complaint> {
    let mut bytes = Vec::new();
    let read = source.take(LONGEST + 1).read_to_end(&mut bytes);
    read.map_err(|error| Complaint::wrong(format!("{from} can't be read: {error}")))?;
    if bytes.len() as u64 > LONGEST {
        return Err(Complaint::wrong(format!("{from} is longer than {} MiB", LONGEST >> 20))
            .hint("give the worker the file instead: --attach FILE"));
    }
    String::from_utf8(bytes).map_err(|error| {
        Complaint::wrong(format!("{from} is not UTF-8 text (byte {})", error.utf8_error().valid_up_to()))
            .hint("give the worker the file instead: --attach FILE")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn input_is_json() {
        assert_eq!(input("{\"a\": 1}").expect("JSON").value["a"], 1);
        assert!(input("hello").err().expect("no JSON").message.contains("not JSON"));
        assert!(input("@/nowhere/at/all").is_err());
    }
}
