//! The definition files of a program, for the editor: listed, read, saved, explained.

use crate::{
    message::{Bytes, Done, Effect, EffectError, ErrorKind},
    problem::{ApiError, diagnostics},
    program::{Asked, PageProgram, run_options},
    service::Service,
};
use llm_do_core::{
    authority::{Class, Place, Protection, VirtualPath},
    journal::RecordKind,
    schema::sha256,
};
use llm_do_host::Input;
use llm_do_program::{
    language::{self, CandidateKind},
    line_index::{Columns, LineColumn, LineIndex},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{collections::BTreeMap, ops::Range, sync::Arc};

/// The largest definition.
const LARGEST: u64 = 1 << 20;
/// Folders of tools, which hold no definitions.
const OF_TOOLS: &[&str] = &["node_modules", "__pycache__", ".venv", "venv", "target"];

/// A text to save.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SaveDefinition {
    path: String,
    text: String,
    #[serde(deserialize_with = "Option::deserialize")]
    sha256: Option<String>,
}

/// A worker and an input whose first request is wanted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RenderPrompt {
    worker: String,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    input: Option<Value>,
    #[serde(default)]
    files: BTreeMap<String, String>,
}

/// A position in a definition file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CursorIn {
    path: String,
    position: TextPosition,
    #[serde(default)]
    files: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct TextPosition {
    line: u32,
    character: u32,
}

fn range(lines: Range<LineColumn>) -> Value {
    let at = |LineColumn { line, column }: LineColumn| TextPosition { line, character: column };
    json!({"start": at(lines.start), "end": at(lines.end)})
}

fn kind_of(kind: CandidateKind) -> &'static str {
    match kind {
        CandidateKind::Key => "key",
        CandidateKind::Choice => "choice",
        CandidateKind::Worker => "worker",
        CandidateKind::Tool => "tool",
        CandidateKind::Toolset => "toolset",
        CandidateKind::Library => "library",
        CandidateKind::Model => "model",
        CandidateKind::Variable => "variable",
        CandidateKind::Function => "function",
        CandidateKind::File => "file",
        CandidateKind::Type => "type",
    }
}

/// The protections of a program's workers, which tell definitions from other files.
struct Definitions {
    root: Place,
    protections: Vec<Arc<Protection>>,
}

impl Definitions {
    /// Returns true if the place of a file makes it a definition.
    fn has(&self, path: &str) -> bool {
        let place = self.root.join(path);
        let hidden = |part: &str| Protection::is_version_control(part) || Protection::is_invisible(part);
        !path.split('/').any(|part| hidden(part) || OF_TOOLS.contains(&part.to_ascii_lowercase().as_str()))
            && !self.protections.iter().any(|one| one.is_executed(&place))
            && self.protections.iter().any(|one| one.class(&place, &self.root) == Class::Protected)
    }

    /// Returns the plain path of a definition.
    ///
    /// # Errors
    /// The path is that of no definition.
    fn path(&self, path: &str) -> Result<String, ApiError> {
        let bad = |reason: &str| ApiError::bad(format!("path: {reason}"));
        if path.starts_with('/') {
            return Err(bad("write it from the program's folder"));
        }
        let plain = VirtualPath::parse(path).map_err(|error| bad(&error.to_string()))?;
        let plain = plain.as_str().trim_start_matches('/').to_owned();
        if plain.is_empty() {
            return Err(bad("it names no file"));
        }
        match self.has(&plain) {
            true => Ok(plain),
            false => Err(ApiError::new(
                403,
                "forbidden",
                format!(
                    "`{plain}` is not a definition of the program: only these can be read and changed here"
                ),
            )),
        }
    }
}

impl Service {
    async fn definitions_of(&self, program: &PageProgram) -> Definitions {
        let root = Place::new(&format!("/{}", program.name));
        // A program that does not load has the definitions that every program has.
        let protection = match self.open_worker(program, None).await {
            Ok(session) => Arc::clone(session.program().protection()),
            Err(_) => Arc::new(Protection::new(root.clone(), [])),
        };
        Definitions { root, protections: vec![protection] }
    }

    async fn text_of(&self, program: &str, path: &str) -> Result<Option<Vec<u8>>, ApiError> {
        let path = format!("{program}/{path}");
        match self.bridge.perform(|id| Effect::Read { id, path, from: 0, most: LARGEST + 1 }).await {
            Ok(Done { base64, .. }) => {
                let Bytes(content) = base64.unwrap_or_default();
                match content.len() as u64 > LARGEST {
                    true => Err(ApiError::new(413, "too_large", "a definition has at most 1 MiB")),
                    false => Ok(Some(content)),
                }
            }
            Err(EffectError { kind: ErrorKind::Missing, .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Lists the definition files of a program.
    ///
    /// # Errors
    /// There is no such program.
    pub(crate) async fn definitions(&self, name: &str) -> Result<Value, ApiError> {
        let program = self.program(name).await?;
        let definitions = self.definitions_of(&program).await;
        let paths: Vec<String> = program
            .tree()
            .files()
            .filter(|(path, bytes)| *bytes <= LARGEST && definitions.has(path))
            .map(|(path, _)| path.to_owned())
            .collect();
        let mut files = Vec::new();
        for path in paths {
            if let Some(content) = self.text_of(name, &path).await?
                && str::from_utf8(&content).is_ok()
            {
                files.push(json!({"path": path, "sha256": sha256(&content), "bytes": content.len()}));
            }
        }
        Ok(json!({"files": files}))
    }

    /// Returns the text of a definition file.
    ///
    /// # Errors
    /// There is none with that path.
    pub(crate) async fn definition(&self, name: &str, path: &str) -> Result<Value, ApiError> {
        let program = self.program(name).await?;
        let path = self.definitions_of(&program).await.path(path)?;
        let content = self.text_of(name, &path).await?;
        let content = content.ok_or_else(|| ApiError::not_found(format!("the program has no `{path}`")))?;
        let hash = sha256(&content);
        let text = String::from_utf8(content).map_err(|_| ApiError::bad(format!("`{path}` is no text")))?;
        Ok(json!({"path": path, "text": text, "sha256": hash}))
    }

    /// Saves a definition file. Later runs get the program as it is then.
    ///
    /// # Errors
    /// The file was changed by somebody else, or can't be written.
    pub(crate) async fn save(&self, name: &str, given: SaveDefinition) -> Result<Value, ApiError> {
        let SaveDefinition { path, text, sha256: was } = given;
        let program = self.program(name).await?;
        let path = self.definitions_of(&program).await.path(&path)?;
        if text.len() as u64 > LARGEST {
            return Err(ApiError::new(413, "too_large", "a definition has at most 1 MiB"));
        }
        let now = self.text_of(name, &path).await?.map(|content| sha256(&content));
        if now != was {
            let detail = match &now {
                Some(_) => format!("`{path}` was changed: read it again"),
                None => format!("`{path}` is not there"),
            };
            return Err(ApiError::new(409, "file_changed", detail));
        }
        let (hash, whole) = (sha256(text.as_bytes()), format!("{name}/{path}"));
        let base64 = Bytes(text.into_bytes());
        let new = was.is_none();
        self.bridge.perform(|id| Effect::Write { id, run: None, path: whole, base64, new }).await?;
        self.changed(name);
        let found = self.program(name).await?.check(&BTreeMap::new()).await;
        Ok(json!({"sha256": hash, "diagnostics": diagnostics(&found)}))
    }

    /// Returns the first request of a worker for an input, with these texts in the place of what is saved.
    ///
    /// # Errors
    /// A run would fail before its first request.
    pub(crate) async fn prompt(&self, name: &str, given: RenderPrompt) -> Result<Value, ApiError> {
        let RenderPrompt { worker, message, input, files } = given;
        if message.is_some() == input.is_some() {
            return Err(ApiError::bad("give either `message` or `input`"));
        }
        let program = self.program(name).await?;
        let options = self.options();
        let asked = |host: &crate::host::PageHost| run_options(&options, &Asked::default(), host);
        let session = program.session(Some(&worker), &options, None, &files, asked).await?;
        if session.entry().code.is_some() {
            return Err(ApiError::conflict("the worker is code, which has no prompt"));
        }
        let input = Input { message, json: input, ..Input::default() };
        match session.preview(&input).await? {
            RecordKind::ConversationStarted { model, system, tools, message, .. } => Ok(json!({
                "model": model.to_string(),
                // As the journal of a run would have them.
                "system": session.redacted(&system),
                "message": session.redacted(&message.text()),
                "tools": tools.iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>(),
            })),
            _ => Err(ApiError::conflict("the worker sends no request")),
        }
    }

    /// Answers a question of the editor about a position: `completion`, `hover` or `definition`.
    ///
    /// # Errors
    /// The position does not exist.
    pub(crate) async fn language(&self, name: &str, kind: &str, cursor: CursorIn) -> Result<Value, ApiError> {
        let CursorIn { path, position: TextPosition { line, character }, mut files } = cursor;
        let program = self.program(name).await?;
        let path = self.definitions_of(&program).await.path(&path)?;
        let text = match files.get(&path) {
            Some(text) => text.clone(),
            None => {
                let content = self.text_of(name, &path).await?;
                let content =
                    content.ok_or_else(|| ApiError::not_found(format!("the program has no `{path}`")))?;
                String::from_utf8(content).map_err(|_| ApiError::bad(format!("`{path}` is no text")))?
            }
        };
        let lines = LineIndex::new(&text);
        let offset = lines.offset(&text, LineColumn { line, column: character }, Columns::Utf16);
        let offset =
            offset.ok_or_else(|| ApiError::bad(format!("`{path}` has no position {line}:{character}")))?;
        files.insert(path.clone(), text.clone());
        program.check(&files).await;
        let own = |bytes: Range<usize>| range(lines.range(&text, bytes, Columns::Utf16));
        Ok(program.checked(|checker| {
            let symbols = checker.and_then(llm_do_program::Checker::symbols);
            match kind {
                "completion" => {
                    let found = language::complete(symbols.as_ref(), &path, &text, offset).into_iter();
                    let candidates = found.map(|candidate| {
                        json!({
                            "label": candidate.label,
                            "insert": candidate.insert,
                            "replace": own(candidate.replace),
                            "kind": kind_of(candidate.kind),
                            "about": candidate.about,
                        })
                    });
                    json!({"candidates": candidates.collect::<Vec<_>>()})
                }
                "hover" => match language::hover(symbols.as_ref(), &path, &text, offset) {
                    Some(found) => json!({"hover": {"markdown": found.markdown, "range": own(found.range)}}),
                    None => json!({}),
                },
                _ => {
                    let named = symbols.as_ref().and_then(|symbols| {
                        let (_, named) = language::named(symbols, &path, &text, offset)?;
                        Some(language::definition(symbols, &named))
                    });
                    let places = named.unwrap_or_default().into_iter().map(|target| {
                        let text = target.text.as_deref().unwrap_or_default();
                        let lines = LineIndex::new(text).range(text, target.range, Columns::Utf16);
                        json!({"path": target.file, "range": range(lines)})
                    });
                    json!({"places": places.collect::<Vec<_>>()})
                }
            }
        }))
    }
}
