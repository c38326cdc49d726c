//! Small bad programs, each with its expected findings in a file next to it, and the page of every code, each with an
//! example and the findings of that code. `UPDATE_EXPECT=1` rewrites both.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

mod bad_programs;
mod stand_in;

use bad_programs::{cases, findings, of_files};
use llm_do_program::{
    Diagnostic,
    diagnostics::{
        Code, codes,
        render::{Colour, render},
    },
};
use std::{collections::BTreeSet, fs, path::Path};

/// Codes whose example cannot be a program of a few files; their findings are written by hand.
const WRITTEN_BY_HAND: &[Code] = &[
    codes::UNREADABLE,
    codes::TOO_LARGE,
    codes::NOT_UTF8,
    codes::NO_TARGET,
    codes::DEPRECATED_REGISTRY,
    // These need a lock file that was valid before.
    codes::LIBRARY_CHANGED,
    codes::NOT_LOCKED,
    codes::SOURCE_CHANGED,
    // This needs a machine without Python.
    codes::NOT_LOOKED_INTO,
];

fn updating() -> bool {
    std::env::var_os("UPDATE_EXPECT").is_some()
}

#[test]
fn every_bad_program_is_explained_as_expected() {
    let mut wrong = Vec::new();
    for folder in cases() {
        let said = render(&findings(&folder), Colour::Never);
        let file = folder.with_extension("expected");
        if updating() {
            fs::write(&file, &said).unwrap();
            continue;
        }
        let expected = fs::read_to_string(&file).unwrap_or_default();
        if said != expected {
            wrong.push(format!("== {}\n-- expected:\n{expected}\n-- said:\n{said}", folder.display()));
        }
    }
    assert!(wrong.is_empty(), "{}\nUPDATE_EXPECT=1 rewrites the expectations", wrong.join("\n"));
}

#[test]
fn every_code_has_a_case() {
    let raised: BTreeSet<&str> =
        cases().iter().flat_map(|folder| findings(folder)).map(|f| f.code.id).collect();
    let missing: Vec<_> = codes::ALL.iter().map(|code| code.id).filter(|id| !raised.contains(id)).collect();
    assert!(missing.is_empty(), "no program in tests/check shows {missing:?}");
}

/// A page's example: its files, and the place of their findings.
struct Example {
    files: Vec<(String, String)>,
    /// The range of the words `llm-do reports:` and the block after them, or the place for them.
    said: std::ops::Range<usize>,
}

fn example(page: &str) -> Example {
    let mut files = Vec::new();
    let begin = page.find("\n## Example\n").expect("a page has an example");
    let end = begin + page[begin + 1..].find("\n## ").map_or(page.len(), |at| at + 2);
    let mut rest = begin;
    let mut last = end;
    while let Some(at) = page[rest..end].find("\n`").map(|at| rest + at) {
        let Some((name, after)) = page[at + 2..end].split_once("`:\n\n```") else { break };
        if name.contains(['\n', '`']) {
            rest = at + 2;
            continue;
        }
        let open = end - after.len();
        let text = open + page[open..end].find('\n').unwrap() + 1;
        let close = text + page[text..end].find("```\n").unwrap();
        files.push((name.to_owned(), page[text..close].to_owned()));
        rest = close;
        last = close + "```\n".len();
    }
    let said = match page[last..end].strip_prefix(SAYS) {
        Some(after) => last..last + SAYS.len() + after.find("\n```\n").unwrap() + "\n```\n".len(),
        None => last..last,
    };
    Example { files, said }
}

const SAYS: &str = "\nllm-do reports:\n\n```text\n";

#[test]
fn every_page_shows_its_findings() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/diagnostics");
    let mut wrong = Vec::new();
    for code in codes::ALL {
        // From the disk: the compiled page may be older than `UPDATE_EXPECT`.
        let path = folder.join(format!("{}.md", code.id));
        let page = fs::read_to_string(&path).unwrap();
        assert!(page.starts_with(&format!("# {}: {}\n", code.id, code.title)), "{code}: the title");
        assert!(page.contains("\n## What to do\n"), "{code}: what to do");
        let Example { files, said } = example(&page);
        if WRITTEN_BY_HAND.contains(code) {
            continue;
        }
        assert!(!files.is_empty(), "{code}: the example names no files");
        let files = files.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        let (found, text) = of_files(files, code.id);
        let codes: Vec<&str> = found.iter().map(|finding| finding.code.id).collect();
        assert!(codes.contains(&code.id), "{code}: its example shows {codes:?}");
        let expected = format!("{SAYS}{text}```\n");
        if page[said.clone()] != expected {
            if updating() {
                fs::write(&path, format!("{}{expected}{}", &page[..said.start], &page[said.end..])).unwrap();
            } else {
                wrong.push(format!("{code}:\n{expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}\nUPDATE_EXPECT=1 rewrites the pages", wrong.join("\n"));
    let pages = fs::read_dir(&folder).unwrap().count();
    assert_eq!(pages, codes::ALL.len(), "a page belongs to no code");
}

#[test]
fn every_certain_fix_mends_its_finding() {
    let mut tried = 0;
    for folder in cases() {
        let start = folder.with_extension("start");
        if start.exists() {
            continue;
        }
        let before = findings(&folder);
        for finding in &before {
            let Some(fix) = &finding.fix else { continue };
            tried += 1;
            let file = fix.file().unwrap();
            let copy = tempfile::tempdir().unwrap();
            copy_all(&folder, copy.path());
            let changed = copy.path().join(&**file.path());
            assert_eq!(fs::read_to_string(&changed).unwrap(), **file.text());
            fs::write(&changed, fix.apply(file.text()).unwrap()).unwrap();
            let after = findings(copy.path());
            let place =
                |f: &Diagnostic| (f.code, f.message.clone(), f.span.as_ref().map(|s| s.text().to_owned()));
            let still = after.iter().filter(|f| place(f) == place(finding)).count();
            let were = before.iter().filter(|f| place(f) == place(finding)).count();
            assert!(still < were, "{}: `{}` mends nothing", folder.display(), fix.title);
        }
    }
    assert!(tried > 4, "the cases with a fix are gone");
}

fn copy_all(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(&target).unwrap();
            copy_all(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
