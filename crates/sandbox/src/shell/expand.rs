//! Expands the wildcards of a command to files that its worker sees.

use super::words::Word;
use crate::confine::unfit;
use llm_do_core::{
    authority::{Authority, VirtualPath},
    vfs::{EntryKind, FileSystem},
};
use std::collections::BTreeSet;

/// Maximum number of words after expansion.
const MOST_WORDS: usize = 2000;
/// Maximum number of entries visited for one pattern.
const LOOKED_AT: usize = 20_000;

/// The files of a worker, for its commands.
pub(crate) struct Expansion<'a> {
    pub(crate) authority: &'a Authority,
    pub(crate) files: &'a dyn FileSystem,
    /// The base of relative patterns.
    pub(crate) cwd: &'a VirtualPath,
}

impl Expansion<'_> {
    /// Replaces each pattern in the command by its files, in order.
    ///
    /// # Errors
    /// A pattern that matches nothing or too much, with a message for a model.
    pub(crate) async fn expand(&self, command: &[Word]) -> Result<Vec<Word>, String> {
        let mut words = Vec::with_capacity(command.len());
        for word in command {
            match word.text() {
                Some(_) => words.push(word.clone()),
                None => words.extend(self.matches(word).await?.into_iter().map(Word::literal)),
            }
            if words.len() > MOST_WORDS {
                return Err(format!(
                    "`{word}` makes it more than {MOST_WORDS} words; write a narrower pattern, or give the folder to a \
                     program that looks into it itself"
                ));
            }
        }
        Ok(words)
    }

    async fn matches(&self, word: &Word) -> Result<BTreeSet<String>, String> {
        let components = word.components();
        let literal = components.iter().take_while(|component| component.text().is_some()).count();
        let (before, patterns) = components.split_at(literal);
        let before: Vec<&str> = before.iter().filter_map(Word::text).collect();
        // As it was typed, up to the first wildcard.
        let typed: String = before.iter().map(|part| format!("{part}/")).collect();
        let folder = if typed.starts_with('/') { typed.clone() } else { format!("{}/{typed}", self.cwd) };
        let folder = VirtualPath::parse(&folder).map_err(|refusal| refusal.to_string())?;
        let (patterns, folders_only) = match patterns.split_last() {
            Some((last, others)) if last.text() == Some("") => (others, true),
            _ => (patterns, false),
        };
        let mut found = BTreeSet::new();
        let mut take = |path: &VirtualPath, is_folder: bool| {
            let Some(rest) = path.rest(&folder).filter(|rest| !rest.is_empty()) else { return };
            let parts: Vec<&str> = rest.split('/').collect();
            let fits = parts.len() == patterns.len()
                && patterns.iter().zip(&parts).all(|(pattern, part)| pattern.matches_name(part));
            if fits && (is_folder || !folders_only) {
                let slash = if folders_only { "/" } else { "" };
                // A word with a leading dash would be an option.
                let dash = if typed.is_empty() && rest.starts_with('-') { "./" } else { "" };
                found.insert(format!("{dash}{typed}{rest}{slash}"));
            }
        };
        for tree in self.authority.locate_tree(folder.as_str()).unwrap_or_default() {
            // Processes don't learn the names of files that they don't get.
            if unfit(&tree.mount).is_some() {
                continue;
            }
            let kind = self.files.stat(&tree).await.ok().flatten().map(|entry| entry.kind);
            take(&tree.path, kind == Some(EntryKind::Directory));
            if kind == Some(EntryKind::Directory) {
                let entries = self.files.walk(&tree, LOOKED_AT).await.map_err(|error| error.to_string())?;
                if entries.len() >= LOOKED_AT {
                    return Err(format!(
                        "`{folder}` holds more files than are looked at for `{word}`; begin the pattern with a folder"
                    ));
                }
                entries.iter().for_each(|entry| take(&entry.path, entry.kind == EntryKind::Directory));
            }
        }
        if found.is_empty() {
            return Err(format!(
                "nothing fits `{word}`: `*`, `?` and `[...]` stand for names of files that are there. Put it between \
                 single quotes if it is meant as it is"
            ));
        }
        Ok(found)
    }
}
