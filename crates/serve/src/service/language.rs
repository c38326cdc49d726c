//! The language of definition files for editors in a page: completion, hover, definitions. All answers are those of
//! `llm_do_program::language`, as in the language server.

use super::{Service, editing::work};
use crate::{
    error::{ApiError, Code},
    token::{Scope, Token},
};
use llm_do::program::{
    language::{self, CandidateKind, Symbols},
    line_index::{Columns, LineColumn, LineIndex},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, ops, sync::Arc};

/// A position in a definition file, whose text may be unsaved.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CursorIn {
    /// The path of the file from the program's folder.
    pub(crate) path: String,
    /// The position in it.
    pub(crate) position: TextPosition,
    /// Texts in the place of definition files, by path.
    #[serde(default)]
    pub(crate) files: BTreeMap<String, String>,
}

/// A position in a text, as in the Language Server Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TextPosition {
    /// The line, from 0.
    pub(crate) line: u32,
    /// The column, from 0, in code units of UTF-16.
    pub(crate) character: u32,
}

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct TextRange {
    /// The position of the first character.
    pub(crate) start: TextPosition,
    /// The position after the last character.
    pub(crate) end: TextPosition,
}

/// The texts that may stand at a position.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Completion {
    /// The candidates, the best first.
    pub(crate) candidates: Vec<CompletionCandidate>,
}

/// A text that may stand at a position.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct CompletionCandidate {
    /// The name of the candidate.
    pub(crate) label: String,
    /// The text to insert.
    pub(crate) insert: String,
    /// The part of the text that it replaces.
    pub(crate) replace: TextRange,
    /// The kind of the candidate.
    pub(crate) kind: CompletionKind,
    /// A description in Markdown. It may be empty.
    pub(crate) about: String,
}

/// The kind of a candidate.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CompletionKind {
    /// A key.
    Key,
    /// A value of a fixed set.
    Choice,
    /// A worker.
    Worker,
    /// A tool, or a pattern of tools.
    Tool,
    /// A toolset.
    Toolset,
    /// A library.
    Library,
    /// A model or a provider.
    Model,
    /// A variable of a template.
    Variable,
    /// A filter, test or function of a template.
    Function,
    /// A file.
    File,
    /// A type of a parameter.
    Type,
}

/// An explanation of the word at a position.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Explained {
    /// The explanation; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hover: Option<Explanation>,
}

/// An explanation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Explanation {
    /// The explanation in Markdown.
    pub(crate) markdown: String,
    /// The part of the text that it explains.
    pub(crate) range: TextRange,
}

/// The places that define the thing at a position.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct DefinitionPlaces {
    /// The places. Empty if the word at the position names nothing.
    pub(crate) places: Vec<DefinitionPlace>,
}

/// A place that defines something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct DefinitionPlace {
    /// The path of the file, from the program's folder; absolute in a library elsewhere.
    pub(crate) path: String,
    /// The name that is defined, or the start of the file.
    pub(crate) range: TextRange,
}

/// A text with the position of a request.
struct At<'a> {
    path: &'a str,
    text: &'a str,
    lines: LineIndex,
    offset: usize,
}

impl At<'_> {
    fn range(&self, bytes: ops::Range<usize>) -> TextRange {
        range(self.lines.range(self.text, bytes, Columns::Utf16))
    }
}

impl Service {
    /// Returns the texts that may stand at a position.
    ///
    /// # Errors
    /// The client may not edit the program, or the position does not exist.
    pub(crate) async fn completion(
        &self,
        token: &Token,
        program: &str,
        cursor: CursorIn,
    ) -> Result<Completion, ApiError> {
        self.at(token, program, cursor, |symbols, at| {
            let found = language::complete(symbols.as_ref(), at.path, at.text, at.offset).into_iter();
            let candidates = found.map(|candidate| CompletionCandidate {
                replace: at.range(candidate.replace),
                label: candidate.label,
                insert: candidate.insert,
                kind: candidate.kind.into(),
                about: candidate.about,
            });
            Completion { candidates: candidates.collect() }
        })
        .await
    }

    /// Explains the word at a position.
    ///
    /// # Errors
    /// As for [`Service::completion`].
    pub(crate) async fn hover(
        &self,
        token: &Token,
        program: &str,
        cursor: CursorIn,
    ) -> Result<Explained, ApiError> {
        self.at(token, program, cursor, |symbols, at| {
            let found = language::hover(symbols.as_ref(), at.path, at.text, at.offset);
            let hover =
                found.map(|found| Explanation { range: at.range(found.range), markdown: found.markdown });
            Explained { hover }
        })
        .await
    }

    /// Returns the places that define the thing at a position.
    ///
    /// # Errors
    /// As for [`Service::completion`].
    pub(crate) async fn definition_at(
        &self,
        token: &Token,
        program: &str,
        cursor: CursorIn,
    ) -> Result<DefinitionPlaces, ApiError> {
        self.at(token, program, cursor, |symbols, at| {
            let named = symbols.as_ref().and_then(|symbols| {
                let (_, named) = language::named(symbols, at.path, at.text, at.offset)?;
                Some(language::definition(symbols, &named))
            });
            let places = named.unwrap_or_default().into_iter().map(|target| {
                let text = target.text.as_deref().unwrap_or_default();
                let lines = LineIndex::new(text).range(text, target.range, Columns::Utf16);
                DefinitionPlace { path: target.file, range: range(lines) }
            });
            DefinitionPlaces { places: places.collect() }
        })
        .await
    }

    /// Calls `answer` with the symbols of a program and a position in one of its definition files.
    async fn at<T: Send + 'static>(
        &self,
        token: &Token,
        program: &str,
        CursorIn { path, position, mut files }: CursorIn,
        answer: impl FnOnce(Option<Symbols<'_>>, &At<'_>) -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        if !token.has(Scope::Edit) {
            return Err(ApiError::without_scope(Scope::Edit));
        }
        let program = self.program(token, Some(program))?;
        let host = Arc::clone(&self.0.host);
        work(move || {
            let unsaved = files.remove(&path);
            let (path, text) = program.definitions(|definitions| match unsaved {
                Some(text) => Ok((definitions.unsaved(&path, &text)?, text)),
                None => {
                    let file = definitions.read(&path)?;
                    let no_text = || ApiError::new(Code::BadRequest, format!("`{}` is no text", file.path));
                    let text = String::from_utf8(file.bytes).map_err(|_| no_text())?;
                    Ok((file.path, text))
                }
            })?;
            let lines = LineIndex::new(&text);
            let TextPosition { line, character } = position;
            let place = LineColumn { line, column: character };
            let offset = lines.offset(&text, place, Columns::Utf16).ok_or_else(|| {
                ApiError::new(Code::BadRequest, format!("`{path}` has no position {line}:{character}"))
            })?;
            files.insert(path.clone(), text.clone());
            let at = At { path: &path, text: &text, lines, offset };
            let answered = program.symbols(&*host, files, |symbols| answer(symbols, &at));
            answered.map_err(|reason| ApiError::new(Code::Program, reason))
        })
        .await
    }
}

fn range(lines: ops::Range<LineColumn>) -> TextRange {
    let at = |LineColumn { line, column }: LineColumn| TextPosition { line, character: column };
    TextRange { start: at(lines.start), end: at(lines.end) }
}

impl From<CandidateKind> for CompletionKind {
    fn from(kind: CandidateKind) -> Self {
        match kind {
            CandidateKind::Key => Self::Key,
            CandidateKind::Choice => Self::Choice,
            CandidateKind::Worker => Self::Worker,
            CandidateKind::Tool => Self::Tool,
            CandidateKind::Toolset => Self::Toolset,
            CandidateKind::Library => Self::Library,
            CandidateKind::Model => Self::Model,
            CandidateKind::Variable => Self::Variable,
            CandidateKind::Function => Self::Function,
            CandidateKind::File => Self::File,
            CandidateKind::Type => Self::Type,
        }
    }
}
