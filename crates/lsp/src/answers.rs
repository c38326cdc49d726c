//! Answers that need a checked program.

use crate::{
    Client,
    documents::Documents,
    findings::{self, Pages, file_range, range_in},
    places::{Ranges, offset, path_of, position, range, real, uri_of},
    programs::{Program, Programs},
};
use gen_lsp_types::{Position, Range, TextDocumentPositionParams};
use llm_do::host::{
    Editing,
    program::{
        language::{self, Candidate, CandidateKind, Named, Symbols, Target, Worker},
        line_index::{Columns, LineIndex},
    },
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The reason why a request has no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The parameters are invalid.
    Invalid(String),
    /// The request can't be fulfilled.
    Refused(String),
    /// The document has changed since the request.
    Outdated,
}

/// The URIs of files: those of open documents as the client writes them.
pub(crate) fn uri_in(documents: &Documents, aliases: &[(PathBuf, PathBuf)], path: &Path) -> String {
    if let Some(document) = documents.get(path) {
        return document.uri.clone();
    }
    let alias = aliases.iter().find_map(|(real, written)| Some(written.join(path.strip_prefix(real).ok()?)));
    uri_of(alias.as_deref().unwrap_or(path))
}

/// A request with what it is answered from.
pub(crate) struct Question<'a> {
    pub(crate) client: &'a Client,
    pub(crate) programs: &'a mut Programs,
    pub(crate) documents: &'a Documents,
    /// The folders of the workspace: real paths, and paths as the client writes them.
    pub(crate) folders: &'a [(PathBuf, PathBuf)],
    pub(crate) pages: &'a mut Pages,
    pub(crate) params: &'a Value,
}

/// A position in a document of a program.
struct At {
    key: PathBuf,
    path: PathBuf,
    text: Arc<str>,
    offset: usize,
}

impl Question<'_> {
    pub(crate) fn answer(&mut self, method: &str) -> Result<Value, Failure> {
        match method {
            "textDocument/completion" => self.completion(),
            "textDocument/hover" => self.hover(),
            "textDocument/definition" => self.definition(),
            "textDocument/references" => self.references(),
            "textDocument/prepareRename" => self.prepare_rename(),
            "textDocument/rename" => self.rename(),
            "textDocument/prepareCallHierarchy" => self.prepare_calls(),
            "callHierarchy/incomingCalls" => self.calls(true),
            "callHierarchy/outgoingCalls" => self.calls(false),
            "textDocument/inlayHint" => self.hints(),
            "textDocument/codeLens" => self.lenses(),
            "textDocument/codeAction" => self.actions(),
            "textDocument/diagnostic" => self.diagnostic(),
            "workspace/symbol" => self.workspace_symbols(),
            _ => Err(Failure::Invalid(format!("unknown method {method}"))),
        }
    }

    fn uri(&self, path: &Path) -> String {
        uri_in(self.documents, self.folders, path)
    }

    /// Returns the document of the request, if it belongs to a program.
    fn document(&self) -> Result<Option<(PathBuf, PathBuf, Arc<str>)>, Failure> {
        let uri = self.params.pointer("/textDocument/uri").and_then(Value::as_str);
        let uri = uri.ok_or_else(|| Failure::Invalid("there is no textDocument.uri".into()))?;
        let Some(path) = path_of(uri).map(|path| real(&path)) else { return Ok(None) };
        let Some(document) = self.documents.get(&path) else {
            return Err(Failure::Invalid(format!("{uri} is not open")));
        };
        let text = Arc::clone(&document.text);
        Ok(Programs::key(&path, self.documents).map(|key| (key, path, text)))
    }

    fn at(&self) -> Result<Option<At>, Failure> {
        let Some((key, path, text)) = self.document()? else { return Ok(None) };
        let params: TextDocumentPositionParams = serde_json::from_value(self.params.clone())
            .map_err(|error| Failure::Invalid(error.to_string()))?;
        let place = offset(&LineIndex::new(&text), &text, &params.position, self.client.columns);
        let offset = place.ok_or_else(|| {
            let Position { line, character } = params.position;
            Failure::Invalid(format!("the document has no position {line}:{character}"))
        })?;
        Ok(Some(At { key, path, text, offset }))
    }

    fn completion(&mut self) -> Result<Value, Failure> {
        let Some(at) = self.at()? else { return Ok(Value::Null) };
        let program = self.programs.check(&at.key, self.documents);
        let symbols = program.editing().and_then(Editing::symbols);
        let found = language::complete(symbols.as_ref(), &program.shown(&at.path), &at.text, at.offset);
        let index = LineIndex::new(&at.text);
        let items: Vec<Value> = found
            .into_iter()
            .enumerate()
            .map(|(number, candidate)| {
                let place = range(&index, &at.text, candidate.replace.clone(), self.client.columns);
                item(candidate, number, place)
            })
            .collect();
        Ok(json!({"isIncomplete": false, "items": items}))
    }

    fn hover(&mut self) -> Result<Value, Failure> {
        let Some(at) = self.at()? else { return Ok(Value::Null) };
        let program = self.programs.check(&at.key, self.documents);
        let symbols = program.editing().and_then(Editing::symbols);
        let hover = language::hover(symbols.as_ref(), &program.shown(&at.path), &at.text, at.offset);
        Ok(hover.map_or(Value::Null, |hover| {
            json!({
                "contents": {"kind": "markdown", "value": hover.markdown},
                "range": range_in(&at.text, hover.range, self.client.columns),
            })
        }))
    }

    /// Calls `with` with the thing at the position of the request.
    fn named<T>(
        &mut self,
        with: impl FnOnce(&Program, &Symbols<'_>, &At, std::ops::Range<usize>, Named) -> T,
    ) -> Result<Option<T>, Failure> {
        let Some(at) = self.at()? else { return Ok(None) };
        let program = self.programs.check(&at.key, self.documents);
        let Some(symbols) = program.editing().and_then(Editing::symbols) else { return Ok(None) };
        let found = language::named(&symbols, &program.shown(&at.path), &at.text, at.offset);
        Ok(found.map(|(range, named)| with(program, &symbols, &at, range, named)))
    }

    fn definition(&mut self) -> Result<Value, Failure> {
        let (documents, folders, columns) = (self.documents, self.folders, self.client.columns);
        let found = self.named(|program, symbols, _, _, named| {
            let targets = language::definition(symbols, &named).into_iter();
            targets.map(|target| location(program, documents, folders, target, columns)).collect::<Value>()
        })?;
        Ok(found.unwrap_or(Value::Null))
    }

    fn references(&mut self) -> Result<Value, Failure> {
        let (documents, folders, columns) = (self.documents, self.folders, self.client.columns);
        let with_declaration = self.params.pointer("/context/includeDeclaration").and_then(Value::as_bool);
        let found = self.named(|program, symbols, _, _, named| {
            let mut ranges = Ranges::new(columns);
            let declared: Vec<Target> = language::definition(symbols, &named);
            let is_declaration = |file: &str, start: usize| {
                declared.iter().any(|target| target.file == file && target.range.start == start && start > 0)
            };
            let spans = language::references(symbols, &named).into_iter().filter(|span| {
                with_declaration != Some(false)
                    || !span.range().is_some_and(|range| is_declaration(span.file().path(), range.start))
            });
            spans
                .map(|span| {
                    let uri = uri_in(documents, folders, &program.real(span.file().path()));
                    json!({"uri": uri, "range": ranges.span(&span)})
                })
                .collect::<Value>()
        })?;
        Ok(found.unwrap_or(Value::Null))
    }

    fn prepare_rename(&mut self) -> Result<Value, Failure> {
        let columns = self.client.columns;
        let found = self.named(|_, _, at, range, named| {
            let (range, name) = match named {
                Named::Worker(name) | Named::Parameter { name, .. } => (range, name),
                // A file stays in its folder, so only its own name is edited.
                Named::File(path) => {
                    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
                    let start = range.end.saturating_sub(name.len()).max(range.start);
                    (start..range.end, name)
                }
                Named::Tool { .. } | Named::Code { .. } => return Value::Null,
            };
            json!({"range": range_in(&at.text, range, columns), "placeholder": name})
        })?;
        Ok(found.unwrap_or(Value::Null))
    }

    fn rename(&mut self) -> Result<Value, Failure> {
        let new = self.params.get("newName").and_then(Value::as_str).map(str::to_owned);
        let new = new.ok_or_else(|| Failure::Invalid("there is no newName".into()))?;
        let (documents, folders, columns) = (self.documents, self.folders, self.client.columns);
        let can_move = self.client.renames_files;
        let found = self.named(|program, symbols, _, _, named| {
            let renamed = language::rename(symbols, &named, &new).map_err(Failure::Refused)?;
            if !renamed.files.is_empty() && !can_move {
                return Err(Failure::Refused("this editor can't rename files".into()));
            }
            let mut ranges = Ranges::new(columns);
            let mut edits: BTreeMap<PathBuf, Vec<Value>> = BTreeMap::new();
            for edit in &renamed.edits {
                let path = program.real(edit.span.file().path());
                let one = json!({"range": ranges.span(&edit.span), "newText": edit.text});
                edits.entry(path).or_default().push(one);
            }
            let mut changes: Vec<Value> = Vec::new();
            for (path, edits) in edits {
                let version = documents.get(&path).map(|document| document.version);
                let uri = uri_in(documents, folders, &path);
                changes.push(json!({"textDocument": {"uri": uri, "version": version}, "edits": edits}));
            }
            for (old, new) in &renamed.files {
                let uri = |path: &str| uri_in(documents, folders, &program.real(path));
                changes.push(json!({"kind": "rename", "oldUri": uri(old), "newUri": uri(new)}));
            }
            Ok(json!({"documentChanges": changes}))
        })?;
        found.unwrap_or_else(|| Err(Failure::Refused("there is nothing to rename here".into())))
    }

    fn prepare_calls(&mut self) -> Result<Value, Failure> {
        let (documents, folders, columns) = (self.documents, self.folders, self.client.columns);
        let found = self.named(|program, symbols, _, _, named| match named {
            Named::Worker(name) => {
                symbols.worker(&name).map(|it| hierarchy(program, documents, folders, it, columns))
            }
            _ => None,
        })?;
        if let Some(Some(item)) = found {
            return Ok(json!([item]));
        }
        // Anywhere else in a worker's file, the worker itself is meant.
        let Some((key, path, _)) = self.document()? else { return Ok(Value::Null) };
        let program = self.programs.check(&key, documents);
        let Some(symbols) = program.editing().and_then(Editing::symbols) else {
            return Ok(Value::Null);
        };
        let worker = symbols.worker_of(&program.shown(&path));
        Ok(worker
            .map_or(Value::Null, |worker| json!([hierarchy(program, documents, folders, worker, columns)])))
    }

    fn calls(&mut self, incoming: bool) -> Result<Value, Failure> {
        let (documents, folders, columns) = (self.documents, self.folders, self.client.columns);
        let data = |name: &str| self.params.pointer(&format!("/item/data/{name}")).and_then(Value::as_str);
        let (Some(key), Some(name)) = (data("program").map(PathBuf::from), data("worker").map(str::to_owned))
        else {
            return Err(Failure::Invalid("the item is not one of this server".into()));
        };
        if !self.programs.is_known(&key) {
            return Ok(Value::Null);
        }
        let program = self.programs.check(&key, documents);
        let Some(symbols) = program.editing().and_then(Editing::symbols) else {
            return Ok(Value::Null);
        };
        let mut ranges = Ranges::new(columns);
        let mut calls = Vec::new();
        let mut add = |other: Worker<'_>, places: Vec<Range>| {
            let item = hierarchy(program, documents, folders, other, columns);
            let end = if incoming { "from" } else { "to" };
            calls.push(json!({end: item, "fromRanges": places}));
        };
        if incoming {
            for caller in symbols.workers() {
                let places: Vec<Range> = caller
                    .calls()
                    .filter(|(to, _)| ***to == *name)
                    .map(|(_, span)| ranges.span(span))
                    .collect();
                if !places.is_empty() {
                    add(caller, places);
                }
            }
        } else if let Some(worker) = symbols.worker(&name) {
            let mut by_name: BTreeMap<&str, Vec<Range>> = BTreeMap::new();
            for (to, span) in worker.calls() {
                by_name.entry(to).or_default().push(ranges.span(span));
            }
            for (to, places) in by_name {
                if let Some(callee) = symbols.worker(to) {
                    add(callee, places);
                }
            }
        }
        Ok(Value::Array(calls))
    }

    fn hints(&mut self) -> Result<Value, Failure> {
        let Some((key, path, text)) = self.document()? else { return Ok(Value::Null) };
        let program = self.programs.check(&key, self.documents);
        let Some(symbols) = program.editing().and_then(Editing::symbols) else {
            return Ok(Value::Null);
        };
        let index = LineIndex::new(&text);
        let hints = language::hints(&symbols, &program.shown(&path), &text).into_iter().map(|hint| {
            json!({
                "position": position(&index, &text, hint.offset, self.client.columns),
                "label": hint.label,
                "tooltip": hint.about,
                "paddingLeft": true,
            })
        });
        Ok(hints.collect())
    }

    fn lenses(&mut self) -> Result<Value, Failure> {
        let Some((key, path, text)) = self.document()? else { return Ok(Value::Null) };
        let uri = self.uri(&path);
        let program = self.programs.check(&key, self.documents);
        let Some(symbols) = program.editing().and_then(Editing::symbols) else {
            return Ok(Value::Null);
        };
        let Some(worker) = symbols.worker_of(&program.shown(&path)) else { return Ok(json!([])) };
        let start = Position { line: 0, character: 0 };
        let end = position(
            &LineIndex::new(&text),
            &text,
            text.find('\n').unwrap_or(text.len()),
            self.client.columns,
        );
        // A lone worker is named by its file.
        let name = if key == path { Value::Null } else { json!(worker.name()) };
        let lens = |title: &str, command: &str| {
            json!({
                "range": Range { start, end },
                "command": {"title": title, "command": command, "arguments": [uri, name]},
            })
        };
        let mut lenses =
            vec![lens("Run", "llm-do.run"), lens("Prompt", "llm-do.prompt"), lens("Chat", "llm-do.chat")];
        match symbols.cases(worker) {
            0 => {}
            1 => lenses.push(lens("Test (1 case)", "llm-do.test")),
            cases => lenses.push(lens(&format!("Test ({cases} cases)"), "llm-do.test")),
        }
        Ok(Value::Array(lenses))
    }

    fn actions(&mut self) -> Result<Value, Failure> {
        let Some((key, path, _)) = self.document()? else { return Ok(Value::Null) };
        let line = |end: &str| {
            let line = self.params.pointer(&format!("/range/{end}/line")).and_then(Value::as_u64);
            line.and_then(|line| u32::try_from(line).ok())
        };
        let (Some(first), Some(last)) = (line("start"), line("end")) else {
            return Err(Failure::Invalid("there is no range".into()));
        };
        let only: Option<Vec<String>> =
            self.params.pointer("/context/only").and_then(|only| serde_json::from_value(only.clone()).ok());
        let (documents, folders) = (self.documents, self.folders);
        let program = self.programs.check(&key, documents);
        let uri = |shown: &str| uri_in(documents, folders, &program.real(shown));
        let file = program.shown(&path);
        let columns = self.client.columns;
        Ok(findings::actions(
            &program.found,
            &file,
            (first, last),
            only.as_deref(),
            &uri,
            columns,
            self.pages,
        )
        .into())
    }

    fn diagnostic(&mut self) -> Result<Value, Failure> {
        let Some((key, path, _)) = self.document()? else { return Ok(json!({"kind": "full", "items": []})) };
        let (documents, folders) = (self.documents, self.folders);
        let own = self.uri(&path);
        let program = self.programs.check(&key, documents);
        let uri = |shown: &str| uri_in(documents, folders, &program.real(shown));
        let whole = whole_file(&key, program);
        let found: Vec<_> = program.found.iter().collect();
        let mut all = findings::by_file(&found, &whole, &uri, self.client.columns, self.pages);
        Ok(json!({"kind": "full", "items": all.remove(&own).unwrap_or_default()}))
    }

    fn workspace_symbols(&mut self) -> Result<Value, Failure> {
        let query = self.params.get("query").and_then(Value::as_str).unwrap_or_default().to_lowercase();
        let keys: Vec<PathBuf> = self.programs.keys().cloned().collect();
        let mut symbols = Vec::new();
        for key in keys.iter().filter(|key| self.programs.is_known(key)).cloned().collect::<Vec<_>>() {
            let (documents, folders) = (self.documents, self.folders);
            let program = self.programs.check(&key, documents);
            let Some(of) = program.editing().and_then(Editing::symbols) else { continue };
            for worker in of.workers().filter(|worker| is_like(&worker.name().to_lowercase(), &query)) {
                let uri = uri_in(documents, folders, &program.real(worker.file().path()));
                let start = Position { line: 0, character: 0 };
                symbols.push(json!({
                    "name": worker.name(),
                    "kind": 12,
                    "containerName": key.file_name().map(|name| name.to_string_lossy()),
                    "location": {"uri": uri, "range": Range { start, end: start }},
                }));
            }
        }
        Ok(Value::Array(symbols))
    }
}

/// Returns true if the letters of a query occur in a name in this order.
fn is_like(name: &str, query: &str) -> bool {
    let mut letters = name.chars();
    query.chars().all(|wanted| letters.any(|letter| letter == wanted))
}

/// Returns the file for findings without a place: the lone worker, or the manifest.
pub(crate) fn whole_file(key: &Path, program: &Program) -> String {
    if key != program.root {
        return program.shown(key);
    }
    let names = ["project.yaml", "llm-do.yaml", "lib.yaml", "main.worker"];
    let there = names.into_iter().find(|name| program.root.join(name).is_file());
    there.unwrap_or("project.yaml").to_owned()
}

fn item(candidate: Candidate, number: usize, place: Range) -> Value {
    let kind = match candidate.kind {
        CandidateKind::Key => 10,
        CandidateKind::Choice => 12,
        CandidateKind::Worker | CandidateKind::Tool | CandidateKind::Function => 3,
        CandidateKind::Toolset | CandidateKind::Library => 9,
        CandidateKind::Model => 21,
        CandidateKind::Variable => 6,
        CandidateKind::File => 17,
        CandidateKind::Type => 25,
    };
    let mut item = json!({
        "label": candidate.label,
        "kind": kind,
        "sortText": format!("{number:05}"),
        "filterText": candidate.label,
        "textEdit": {"range": place, "newText": candidate.insert},
    });
    if !candidate.about.is_empty() {
        item["documentation"] = json!({"kind": "markdown", "value": candidate.about});
    }
    item
}

fn location(
    program: &Program,
    documents: &Documents,
    folders: &[(PathBuf, PathBuf)],
    target: Target,
    columns: Columns,
) -> Value {
    let uri = uri_in(documents, folders, &program.real(&target.file));
    let start = Position { line: 0, character: 0 };
    let range = match &target.text {
        Some(text) => range_in(text, target.range, columns),
        None => Range { start, end: start },
    };
    json!({"uri": uri, "range": range})
}

fn hierarchy(
    program: &Program,
    documents: &Documents,
    folders: &[(PathBuf, PathBuf)],
    worker: Worker<'_>,
    columns: Columns,
) -> Value {
    let path = program.real(worker.file().path());
    let start = Position { line: 0, character: 0 };
    json!({
        "name": worker.name(),
        "kind": 12,
        "detail": worker.signature(),
        "uri": uri_in(documents, folders, &path),
        "range": file_range(worker.file(), columns),
        "selectionRange": Range { start, end: start },
        "data": {"program": program.key, "worker": worker.name()},
    })
}
