//! What the command line means by its values: JSON, files, stdin, pairs (`docs/reference/commands.md`).

use crate::{exit::Complaint, render::Output};
use llm_do_core::json::{self, Fault};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;
use std::{
    fs::File,
    io::{self, IsTerminal, Read},
};

/// How long standard input may be silent before that is explained.
const SILENT: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };
/// Most bytes that are read as input. A model takes less; a mistaken pipe must not fill the memory.
const LONGEST: u64 = 16 << 20;

/// The value of `--input`: JSON, `@FILE` with JSON, or `-` for JSON on stdin.
pub(crate) fn input(text: &str) -> Result<Value, Complaint> {
    json("--input", text)
}

/// JSON, `@FILE` or `-` for stdin, of an argument with that name.
pub(crate) fn json(name: &str, text: &str) -> Result<Value, Complaint> {
    let (from, json) = match text.strip_prefix('@') {
        Some(path) => {
            let from = format!("{name} @{path}");
            let file = File::open(path).map_err(|error| Complaint::wrong(format!("{from}: {error}")))?;
            let json = read(file, &from)?;
            (from, json)
        }
        None if text == "-" => (format!("{name} -"), read(io::stdin().lock(), &format!("{name} -"))?),
        None => (name.to_owned(), text.to_owned()),
    };
    json::read(&json).map_err(|error| match error.fault {
        Fault::Refused => Complaint::wrong(format!("{from} can't be taken: {error}")),
        Fault::Syntax | Fault::Cut => Complaint::wrong(format!("{from} is not JSON: {error}")).hint(
            "text needs its quotes as JSON (--input '\"hello\"'); as a message it needs none (-m hello)",
        ),
    })
}

/// `NAME=VALUE`.
pub(crate) fn pairs(flag: &str, given: &[String]) -> Result<Vec<(String, String)>, Complaint> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(Complaint::wrong(format!("{flag} {text}: a name and a value belong here"))
            .hint(format!("write {flag} NAME=VALUE"))),
    };
    given.iter().map(pair).collect()
}

/// The piped input, for an entry that still lacks its input. `None`: stdin is a terminal, or empty. A pipe that stays
/// silent may have been inherited by mistake, so the wait is explained.
pub(crate) fn piped(output: &Output) -> Result<Option<String>, Complaint> {
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
    let text = read(stdin.lock(), "stdin")?;
    let text = text.strip_suffix('\n').map_or(&*text, |text| text.strip_suffix('\r').unwrap_or(text));
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

fn read(source: impl Read, from: &str) -> Result<String, Complaint> {
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
        assert_eq!(input("{\"a\": 1}").expect("JSON")["a"], 1);
        assert!(input("hello").expect_err("no JSON").message.contains("not JSON"));
        assert!(input("@/nowhere/at/all").is_err());
    }
}
