//! The table of all codes. The meaning of a code never changes, and a retired code is not reused.

use std::fmt;

/// The kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Code {
    /// `E0201`, or `W0501` for a code that is only a warning.
    pub id: &'static str,
    /// The kind in a few words.
    pub title: &'static str,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}

impl Code {
    /// Returns the page of the code in Markdown: its meaning, an example, and solutions.
    pub fn page(self) -> &'static str {
        ALL.iter().zip(PAGES).find(|(code, _)| code.id == self.id).map_or("", |(_, page)| page)
    }

    /// Finds the code of that ID, in capitals or not.
    pub fn find(id: &str) -> Option<Self> {
        ALL.iter().copied().find(|code| code.id.eq_ignore_ascii_case(id))
    }
}

// A code without a page in `docs/diagnostics` does not compile.
macro_rules! codes {
    ($($name:ident = $id:literal, $title:literal;)*) => {
        $(#[doc = $title] pub const $name: Code = Code { id: $id, title: $title };)*
        /// All codes, in order.
        pub const ALL: &[Code] = &[$($name),*];
        const PAGES: &[&str] = &[$(include_str!(concat!("../../../../docs/diagnostics/", $id, ".md"))),*];
    };
}

codes! {
    UNREADABLE = "E0101", "a file cannot be read";
    TOO_LARGE = "E0102", "a definition file is too large";
    NOT_UTF8 = "E0103", "a definition file is not UTF-8";
    EMPTY_FILE = "E0104", "a definition file is empty";
    UNTERMINATED = "E0105", "the front matter is not closed";
    NO_FRONT_MATTER = "E0106", "a worker file has no front matter";
    BAD_YAML = "E0107", "invalid YAML";
    DUPLICATE_KEY = "E0108", "a key is given twice";
    YAML_BUDGET = "E0109", "YAML that is too large";
    CUT_OFF = "E0110", "a change to the folder was interrupted";

    UNKNOWN_KEY = "E0201", "unknown key";
    WRONG_TYPE = "E0202", "a value has the wrong type";
    BAD_VALUE = "E0203", "a value is not valid here";
    NOT_SUPPORTED = "E0204", "not supported yet";
    CONFLICT = "E0205", "two keys cannot be used together";
    TWO_MANIFESTS = "E0206", "two manifests";
    NOT_A_FORMAT = "E0207", "an unsupported file layout";
    MISSING_ROOT = "E0208", "a root that names nothing";
    OLDER_MANIFEST = "E0209", "an older manifest";

    WORKER_NOT_FOUND = "E0301", "worker not found";
    AMBIGUOUS = "E0302", "ambiguous worker ID";
    NAME_MISMATCH = "E0303", "a worker's name is not its ID";
    ESCAPES_ROOT = "E0304", "a path is outside the root";
    ENTRY_MISSING = "E0305", "the entry does not exist";
    NO_ENTRY = "E0306", "the project has no entry";
    NO_TARGET = "E0307", "the target does not exist";
    SAME_ID = "E0308", "two files define one worker ID";
    BAD_REFERENCE = "E0309", "not a worker reference";
    CASE_CLASH = "E0310", "two names differ only in case";

    BAD_TEMPLATE = "E0401", "invalid template";
    BAD_SCHEMA = "E0402", "invalid schema";
    BAD_TYPE = "E0403", "not a type";
    BAD_PATTERN = "E0404", "not a rule pattern";
    BAD_MODEL = "E0405", "not a model name";
    UNKNOWN_TOOLSET = "E0406", "unknown toolset";
    UNKNOWN_PROVIDER = "E0407", "unknown provider";
    INCOMPATIBLE_MODEL = "E0408", "incompatible model";
    BAD_MOUNT = "E0409", "an invalid mount";
    BAD_GLOB = "E0410", "not a glob pattern";
    NO_INSTRUCTIONS = "E0411", "a worker has no instructions";
    BAD_TOOLSET_CONFIG = "E0412", "a toolset's configuration is invalid";
    UNKNOWN_VARIABLE = "E0413", "a template uses a variable that does not exist";
    MISSING_TEMPLATE = "E0414", "a template refers to one that does not exist";
    TEMPLATE_CYCLE = "E0415", "templates include each other";
    RULE_EXAMPLE = "E0416", "a rule does not match its examples";
    BAD_CONDITION = "E0417", "a condition of `ensures` cannot be checked";
    NOT_RETRIED = "E0418", "a tool that cannot be retried";
    SERVER_TOOL = "E0419", "a tool that the provider does not have";
    BAD_RULE_CONDITION = "E0420", "a condition of a rule that cannot be evaluated";
    MISFIT_CONDITION = "E0421", "a condition of a rule that does not fit its tool";
    NO_MAIN_ARGUMENT = "E0422", "a rule pattern for a tool without a main argument";
    UNREADABLE_SET = "E0423", "a set of a rule that cannot be read";
    WRITABLE_SET = "E0424", "a set of a rule that a worker may write";
    NOT_DECLARED = "E0425", "a server that the manifest does not declare";

    DEPRECATED_REGISTRY = "W0501", "the flat registry is deprecated";
    EMPTY_TOOLSET = "W0502", "a toolset without a value is not enabled";
    NOT_CARRIED_OVER = "W0503", "values that a migration did not carry over";

    LIBRARY_NOT_FOUND = "E0601", "library not found";
    BAD_LIBRARY = "E0602", "a folder that is not a usable library";
    BAD_DEPENDENCY = "E0603", "not a dependency";
    VERSION_CONFLICT = "E0604", "two versions of one library";
    CIRCULAR_DEPENDENCY = "E0605", "circular dependency between libraries";
    NOT_EXPORTED = "E0606", "a library does not export this";
    UNDECLARED_LIBRARY = "E0607", "a library that is not a dependency";
    LIBRARY_CHANGED = "E0608", "a library differs from the lock file";
    BAD_LOCK = "E0609", "the lock file is damaged";
    RESERVED_NAME = "E0610", "a reserved name";
    NOT_LOCKED = "W0611", "a library that is not pinned";
    SOURCE_CHANGED = "W0612", "a library whose source has changed";

    BAD_TOOL_REFERENCE = "E0701", "not a tool reference";
    TOOL_MODULE_NOT_FOUND = "E0702", "a tool module does not exist";
    TOOL_IMPORT_DISALLOWED = "E0703", "a tool import that is not allowed";
    NAME_CLASH = "E0704", "two functions would get one name";
    EXPOSES_NOTHING = "E0705", "a tool module exposes no tools";
    TOOL_TWICE = "E0706", "a tool is defined twice";
    NO_TOOL = "E0707", "a function that cannot be a tool";
    PYTHON_SYNTAX = "E0708", "a Python syntax error";
    PYTHON_FAILED = "E0709", "a Python module cannot be loaded";
    UNKNOWN_TOOL = "E0710", "a tool that does not exist";
    SHADOWED_TOOL = "W0711", "a tool that a nearer one hides";
    NOT_LOOKED_INTO = "W0712", "Python tools that were not checked";
    UNMATCHED_RULE = "W0713", "a rule that no known tool matches";
    UNMARKED_FUNCTION = "W0714", "a function that is no tool because others are marked";
    TOOL_IN_TWO_LANGUAGES = "E0715", "a tool is defined in Python and in TypeScript";

    BAD_SKILL = "E0720", "a skill that does not have the format";
    SKILL_NAME = "E0721", "a skill whose name is not that of its folder";
    SKILL_TWICE = "E0722", "two skills with one name";
    SKILL_FOLDER = "E0723", "a folder of skills that cannot be used";
    SKILL_KEY = "W0724", "an unknown key of a skill";
    SKILL_LINK = "W0725", "a skill links to a file that does not exist";
    SKILL_TOOL = "W0726", "a tool of a skill that does not exist";
    NO_SKILLS = "W0727", "a toolset without skills";
    SKILL_METADATA = "W0728", "a value of a skill's metadata that is not text";

    CALL_CYCLE = "E0801", "workers call each other in a cycle";
    UNSATISFIABLE_CALL = "E0802", "a value that a parameter does not accept";
    OUT_OF_BOUNDS = "E0803", "a mount outside the caller's bounds";
    MISSING_PATH = "W0804", "a path of the sandbox does not exist";
    UNREACHED = "W0805", "a worker that nothing can call";
    UNUSED_CAPABILITY = "W0806", "a capability that the worker cannot use";
    UNUSED_PARAMETER = "W0807", "a parameter that the instructions do not use";
    TOO_DEEP = "W0808", "a chain of workers deeper than the limit";
    SHADOWED_VARIABLE = "W0809", "a parameter that hides a built-in variable";
    INPUT_VARIABLE = "W0810", "a variable that only the input may define";
    ASKS_ANYWAY = "W0811", "a pre-approval that asks anyway";
    MEETING = "W0812", "untrusted content, private files and a way out in one worker";
    UNLISTED = "W0813", "a server that no worker lists";
    STALE_STUBS = "W0814", "types for another language that are out of date";
    UNTAUGHT_TOOL = "W0815", "a prompt that names a tool which the worker does not have";

    NO_EXPECTATION = "E0901", "a case without an expectation";
    CASES_OF_NOTHING = "E0902", "cases of a worker that does not exist";
    BAD_CASE_INPUT = "E0903", "a case whose input the worker does not accept";
    BAD_STUB = "E0904", "a stub that cannot stand in for its function";
    BAD_JUDGE = "E0905", "a worker that cannot judge";
    BAD_EXPECTATION = "E0906", "an expectation that cannot be checked";
    SAME_CASE = "E0907", "two cases of one name";
    BAD_CASE_FILES = "E0908", "files of a case that are not below its root";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_in_order() {
        assert!(ALL.windows(2).all(|pair| pair[0].id[1..] < pair[1].id[1..]));
        assert!(ALL.iter().all(|code| code.id.len() == 5 && !code.title.is_empty()));
    }
}
