//! Files of cases: inputs of a worker with expectations about the call. `docs/reference/cases.md` documents the format,
//! which `test`, `harden` and `runs export --cases` share.

mod expect;
mod find;
mod matcher;
mod read;
mod stub;

pub use expect::{CallExpected, CaseLimits, Ensured, Expect, ExpectedFile, FileExpected};
pub use find::{
    CASES_JSONL, CASES_YAML, beside_file, files, is_cases_file, is_portable, of_worker_file, recorded_folder,
    worker_candidates,
};
pub use matcher::{Matcher, Mismatch};
pub(crate) use read::same_names;
pub use read::{parse, read};
pub use stub::{Stub, StubResult, StubResults};

use crate::{span::Span, yaml::Node};
use serde_json::Value;
use std::sync::Arc;

/// A file of cases.
#[derive(Clone, Debug)]
pub struct CasesFile {
    /// The path of the file, relative to the program's root.
    pub path: String,
    /// The cases in the file.
    pub cases: Vec<Case>,
}

/// A case.
#[derive(Clone, Debug)]
pub struct Case {
    /// The name of the case, and of its recordings: letters, digits, `.`, `-` and `_`.
    pub name: Arc<str>,
    /// The place of the name.
    pub name_span: Span,
    /// The input of the worker.
    pub input: Arc<Value>,
    /// The input as written, with its place, if it is given.
    pub input_node: Option<Node>,
    /// The number of times that the case runs.
    pub repeat: u32,
    /// The files that it adds to its copy of the mounts.
    pub files: CaseFiles,
    /// Stubs that replace callees.
    pub given: Vec<Stub>,
    /// The expectations.
    pub expect: Expect,
    /// The recorded call from which the case was made.
    pub from: Option<CaseOrigin>,
}

/// The files of a case.
#[derive(Clone, Debug, Default)]
pub enum CaseFiles {
    /// None.
    #[default]
    None,
    /// Texts.
    Inline(Vec<InlineFile>),
    /// A folder beside the file of cases, whose content is copied to the root.
    Folder(String, Span),
}

/// A file whose text is in the case.
#[derive(Clone, Debug)]
pub struct InlineFile {
    /// The path of the file from the root.
    pub path: String,
    /// The place of the path.
    pub span: Span,
    /// The text of the file.
    pub text: String,
}

/// A recorded call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseOrigin {
    /// ID of the run.
    pub run: String,
    /// Place of the call in its tree.
    pub call: String,
    /// The number of recorded calls that had this input.
    pub calls: u64,
    /// The number of these calls with another output.
    pub differing: u64,
    /// The failure of the call.
    pub failure: Option<String>,
}

/// The largest number of repeats of a case.
pub const MOST_REPEATS: u64 = 10_000;

/// The longest name of a case.
const LONGEST_NAME: usize = 100;

/// Returns true if a text can be a case's name: its recordings are files of that name on any system.
pub fn is_case_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    name.len() <= LONGEST_NAME
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && !name.ends_with('.')
        && name.chars().all(fits)
}
