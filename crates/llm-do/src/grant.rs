//! Grants on this machine: their text names files, and a grantor decides about those that are missing.

pub use crate::remembered_grants::{BadGrantsFile, RememberedGrant, RememberedGrants};
pub use llm_do_host::{BadGrant, Grant, MissingGrant, NeededBy, grants::network};

use llm_do_sandbox::place_of;
use std::path::Path;

/// A decision about a program's requests beyond its own tree. [`RememberedGrants`] agrees to grants from earlier runs;
/// a terminal asks as well.
pub trait Grantor: Send + Sync {
    /// Returns true if the program whose root (or lone file) is `program` gets all missing grants. It gets all or none.
    ///
    /// # Errors
    /// The remembered grants can't be read.
    fn grant(&self, program: &Path, missing: &[MissingGrant]) -> Result<bool, BadGrantsFile>;
}

/// Parses a grant. Places are relative to the current directory.
///
/// # Errors
/// The text is not a grant.
pub fn parse_grant(text: &str) -> Result<Grant, BadGrant> {
    Grant::parse(text, &place_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the Markdown files below a folder.
    fn pages(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pages(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }

    #[test]
    fn grants_in_the_documentation_have_the_form_of_grants() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut files = vec![root.join("README.md")];
        for folder in ["docs", "skills", "examples"] {
            pages(&root.join(folder), &mut files);
        }
        let mut count = 0;
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            for (_, rest) in text.match_indices("--grant ").map(|(at, word)| (at, &text[at + word.len()..])) {
                let end: &[char] = match rest.chars().next() {
                    Some('\'') => &['\''],
                    Some('"') => &['"'],
                    _ => &['`', ' ', '\n', ')', ',', '|'],
                };
                let rest = rest.trim_start_matches(['\'', '"']);
                let grant = &rest[..rest.find(end).unwrap_or(rest.len())];
                // Placeholders: `<CAP>` and `…`.
                if grant.contains(['<', '…', '$']) {
                    continue;
                }
                // The form counts: the places are those of a reader.
                let anywhere = match grant.rsplit_once(':') {
                    Some((_, access @ ("ro" | "rw"))) => format!("/:{access}"),
                    _ => grant.to_owned(),
                };
                let parsed = parse_grant(&anywhere);
                assert!(parsed.is_ok(), "{}: `--grant {grant}`: {parsed:?}", file.display());
                count += 1;
            }
        }
        assert!(count > 20, "{count}");
    }
}
