//! The texts of open documents.

use gen_lsp_types::{Position, TextDocumentContentChangeEvent};
use llm_do::host::program::line_index::{Columns, LineColumn, LineIndex};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// An open document.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    /// The URI, as the client writes it.
    pub(crate) uri: String,
    pub(crate) text: Arc<str>,
    pub(crate) version: i32,
    /// True if an edit could not be applied. The text is the last one that is known, until the client sends it whole.
    pub(crate) is_lost: bool,
}

/// The open documents by real path. A snapshot is cheap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Documents(Arc<BTreeMap<PathBuf, Arc<Document>>>);

impl Documents {
    pub(crate) fn get(&self, path: &Path) -> Option<&Arc<Document>> {
        self.0.get(path)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&PathBuf, &Arc<Document>)> {
        self.0.iter()
    }

    pub(crate) fn insert(&mut self, path: PathBuf, document: Document) {
        Arc::make_mut(&mut self.0).insert(path, Arc::new(document));
    }

    pub(crate) fn remove(&mut self, path: &Path) {
        Arc::make_mut(&mut self.0).remove(path);
    }

    /// Applies the changes of one notification, all or none.
    ///
    /// # Errors
    /// The reason why a change can't be applied. The document keeps its text.
    pub(crate) fn change(
        &mut self,
        path: &Path,
        version: i32,
        changes: Vec<TextDocumentContentChangeEvent>,
        columns: Columns,
    ) -> Result<(), String> {
        let Some(old) = self.0.get(path) else { return Err("it is not open".into()) };
        let changed = match version > old.version {
            true => apply(old, changes, columns),
            false => Err(format!("its version {version} is not newer than {}", old.version)),
        };
        let (text, failed) = match changed {
            Ok(text) => (text.into(), None),
            Err(reason) => (Arc::clone(&old.text), Some(reason)),
        };
        let document = Document {
            uri: old.uri.clone(),
            text,
            version: version.max(old.version),
            is_lost: failed.is_some(),
        };
        self.insert(path.to_owned(), document);
        failed.map_or(Ok(()), Err)
    }
}

fn apply(
    old: &Document,
    changes: Vec<TextDocumentContentChangeEvent>,
    columns: Columns,
) -> Result<String, String> {
    let mut text: Option<String> = if old.is_lost { None } else { Some(old.text.to_string()) };
    for change in changes {
        match change {
            TextDocumentContentChangeEvent::TextDocumentContentChangeWholeDocument(whole) => {
                text = Some(whole.text);
            }
            TextDocumentContentChangeEvent::TextDocumentContentChangePartial(part) => {
                let Some(text) = &mut text else {
                    return Err("an earlier change could not be applied".into());
                };
                let index = LineIndex::new(text);
                let at = |position: &Position| {
                    let (line, column) = (position.line, position.character);
                    index
                        .offset(text, LineColumn { line, column }, columns)
                        .ok_or_else(|| format!("there is no position {line}:{column}"))
                };
                let (start, end) = (at(&part.range.start)?, at(&part.range.end)?);
                if start > end {
                    return Err("the end of a range lies before its start".into());
                }
                text.replace_range(start..end, &part.text);
            }
        }
    }
    text.ok_or_else(|| "an earlier change could not be applied".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gen_lsp_types::{Range, TextDocumentContentChangePartial, TextDocumentContentChangeWholeDocument};

    fn part(from: (u32, u32), to: (u32, u32), text: &str) -> TextDocumentContentChangeEvent {
        let at = |(line, character)| Position { line, character };
        let range = Range { start: at(from), end: at(to) };
        #[expect(deprecated, reason = "the field exists")]
        let part = TextDocumentContentChangePartial { range, range_length: None, text: text.into() };
        part.into()
    }

    fn open(text: &str) -> Documents {
        let mut documents = Documents::default();
        let document = Document { uri: "file:///x".into(), text: text.into(), version: 1, is_lost: false };
        documents.insert("/x".into(), document);
        documents
    }

    #[test]
    fn changes_apply_in_order() {
        let mut documents = open("a😀b\nc");
        let path = Path::new("/x");
        let changes = vec![part((0, 3), (0, 4), "漢"), part((0, 4), (1, 0), "")];
        assert_eq!(documents.change(path, 2, changes, Columns::Utf16), Ok(()));
        assert_eq!(&*documents.get(path).unwrap().text, "a😀漢c");
    }

    #[test]
    fn a_wrong_change_loses_nothing() {
        let path = Path::new("/x");
        for wrong in [part((7, 0), (7, 1), "y"), part((0, 3), (0, 3), "y"), part((1, 0), (0, 0), "y")] {
            let mut documents = open("a😀b\nc");
            let good = part((0, 0), (0, 0), "z");
            assert!(documents.change(path, 2, vec![good.clone(), wrong], Columns::Utf16).is_err());
            assert_eq!(&*documents.get(path).unwrap().text, "a😀b\nc");
            assert!(documents.change(path, 3, vec![good], Columns::Utf16).is_err(), "the texts differ");
            let whole = TextDocumentContentChangeWholeDocument { text: "new".into() };
            assert_eq!(documents.change(path, 4, vec![whole.into()], Columns::Utf16), Ok(()));
            assert_eq!(&*documents.get(path).unwrap().text, "new");
        }
        let mut documents = open("a");
        assert!(
            documents.change(path, 1, vec![part((0, 0), (0, 0), "z")], Columns::Utf8).is_err(),
            "a version twice"
        );
    }
}
