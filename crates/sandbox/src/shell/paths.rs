//! Words that name files: recognises them and translates them to the paths of a process.
//!
//! A worker knows its files by virtual paths, but a process sees them at their real places. Commands therefore run in
//! the real place of `/` (or of the first mount, if nothing is mounted at `/`). Relative paths are unchanged, and
//! absolute paths are translated to real ones if the worker has such a file.

use super::words::Word;
use llm_do_core::{
    authority::{Access, Authority, Place, VirtualPath},
    vfs::FileSystem,
};

/// Lists the texts in a word that could be paths: the word, the value of `--option=value` and `-Ivalue`, parts of
/// lists.
pub(crate) fn candidates(word: &str) -> Vec<&str> {
    let mut found = Vec::new();
    if !word.starts_with('-') {
        found.push(word);
    } else if !word.starts_with("--") {
        // `-Isrc/x`; only the program knows how many letters precede a value.
        found.extend(word.char_indices().nth(2).map(|(at, _)| &word[at..]));
        found.extend(word.find('/').map(|at| &word[at..]));
        found.extend(word.find("..").map(|at| &word[at..]));
    }
    if word.contains(['=', ':', ',']) {
        found.extend(word.split(['=', ':', ',']).skip(usize::from(word.starts_with('-'))));
        found.extend(word.split_once('=').map(|(_, value)| value));
    }
    found.retain(|text| !text.is_empty());
    found
}

/// Returns true if a text is written as a path: it has a slash, or is `.` or `..`.
fn is_written_as_path(text: &str) -> bool {
    text.contains('/') || text == "." || text == ".."
}

/// Places to which a rule is restricted.
pub(crate) struct Within<'a> {
    pub(crate) paths: &'a [VirtualPath],
    pub(crate) authority: &'a Authority,
    pub(crate) cwd: &'a VirtualPath,
    /// True if words without a slash count as paths too. This is unnecessary if the kernel confines the process to the
    /// places: a word that is not a path is much more common than one that leads outside.
    pub(crate) strict: bool,
}

impl Within<'_> {
    /// Returns the first text among the arguments that leads outside.
    pub(crate) fn leaves(&self, arguments: &[Word]) -> Option<String> {
        arguments.iter().map(Word::likeness).find_map(|word| {
            let texts = candidates(&word);
            let out =
                texts.into_iter().find(|text| (self.strict || is_written_as_path(text)) && !self.holds(text));
            out.map(str::to_owned)
        })
    }

    fn holds(&self, text: &str) -> bool {
        let path = if text.starts_with('/') {
            VirtualPath::parse(text)
        } else {
            VirtualPath::parse(&format!("{}/{text}", self.cwd))
        };
        let Ok(path) = path else { return false };
        self.paths.iter().any(|within| path.rest(within).is_some()) || self.holds_real(text)
    }

    /// Returns true if the text is the real path of an entry in these places, as other commands print it.
    fn holds_real(&self, text: &str) -> bool {
        if !text.starts_with('/') || text.split('/').any(|part| part == "..") {
            return false;
        }
        let place = Place::new(text);
        let mut real =
            self.paths.iter().filter_map(|path| self.authority.locate(path.as_str(), Access::Read).ok());
        real.any(|located| place.is_within(&located.place()))
    }
}

/// Translates a word for the process.
pub(crate) async fn given(word: &str, authority: &Authority, files: &dyn FileSystem) -> String {
    let at = if word.starts_with('/') {
        Some(0)
    } else if let Some(at) = word.find('=').filter(|at| word[at + 1..].starts_with('/')) {
        let name = &word[..at];
        name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_').then_some(at + 1)
    } else {
        (word.starts_with('-') && word.find('/') == Some(2)).then_some(2)
    };
    let Some(at) = at else { return word.to_owned() };
    match real(&word[at..], authority, files).await {
        Some(real) => format!("{}{real}", &word[..at]),
        None => word.to_owned(),
    }
}

/// Returns the real path of a virtual one, if the file exists, or a folder to create it in. In the folder `/` itself
/// only existing entries count: a text that merely starts with a slash is more common than a new file there.
pub(crate) async fn real(path: &str, authority: &Authority, files: &dyn FileSystem) -> Option<String> {
    let located = authority.locate(path, Access::Read).ok()?;
    if located.place().server().is_some() {
        return None;
    }
    if !matches!(files.stat(&located).await, Ok(Some(_))) {
        let (parent, _) = located.path.as_str().rsplit_once('/')?;
        let mounted = authority.view().mounts().iter().any(|mount| mount.at == located.path);
        if !mounted && parent.is_empty() {
            return None;
        }
        if !mounted {
            let parent = authority.locate(parent, Access::Read).ok()?;
            files.stat(&parent).await.ok()??;
        }
    }
    let slash = if path.len() > 1 && path.ends_with('/') { "/" } else { "" };
    Some(format!("{}{slash}", located.place()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_could_name_paths_are_known() {
        assert_eq!(candidates("a/b"), ["a/b"]);
        assert_eq!(candidates("--out=a/b"), ["a/b", "a/b"]);
        assert_eq!(candidates("-Ia/b"), ["a/b", "/b"]);
        assert_eq!(candidates("-vf../x"), ["f../x", "/x", "../x"]);
        assert_eq!(candidates("-l"), [""; 0]);
        assert_eq!(candidates("of=/x"), ["of=/x", "of", "/x", "/x"]);
        assert_eq!(candidates("a:/etc"), ["a:/etc", "a", "/etc"]);
    }
}
