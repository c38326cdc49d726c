//! Answers that follow from the text of one document.

use crate::{
    capabilities::TOKENS,
    places::{position, range},
};
use llm_do::host::program::{
    language::{self, Item, ItemKind, TokenKind},
    line_index::{Columns, LineIndex},
};
use serde_json::{Value, json};

/// The methods that this module answers.
pub(crate) const METHODS: [&str; 4] = [
    "textDocument/documentSymbol",
    "textDocument/foldingRange",
    "textDocument/semanticTokens/full",
    "textDocument/formatting",
];

/// Answers a request about a document.
pub(crate) fn answer(method: &str, path: &str, text: &str, columns: Columns) -> Value {
    let index = LineIndex::new(text);
    match method {
        "textDocument/documentSymbol" => {
            language::outline(path, text).iter().map(|item| symbol(item, &index, text, columns)).collect()
        }
        "textDocument/foldingRange" => {
            let folds = language::folds(path, text).into_iter();
            folds.map(|fold| json!({"startLine": fold.first, "endLine": fold.last})).collect()
        }
        "textDocument/semanticTokens/full" => json!({"data": tokens(path, text, &index, columns)}),
        _ => match language::format(path, text) {
            Some((bytes, new)) => json!([{"range": range(&index, text, bytes, columns), "newText": new}]),
            None => json!([]),
        },
    }
}

fn symbol(item: &Item, index: &LineIndex, text: &str, columns: Columns) -> Value {
    let kind = match item.kind {
        ItemKind::Key => 7,
        ItemKind::Parameter => 13,
        ItemKind::Case => 6,
        ItemKind::Heading => 15,
    };
    let children: Vec<Value> =
        item.children.iter().map(|child| symbol(child, index, text, columns)).collect();
    json!({
        "name": item.name,
        "detail": item.detail,
        "kind": kind,
        "range": range(index, text, item.range.clone(), columns),
        "selectionRange": range(index, text, item.name_range.clone(), columns),
        "children": children,
    })
}

fn tokens(path: &str, text: &str, index: &LineIndex, columns: Columns) -> Vec<u32> {
    let mut data = Vec::new();
    let (mut line, mut column) = (0, 0);
    for token in language::tokens(path, text) {
        let start = position(index, text, token.range.start, columns);
        let end = position(index, text, token.range.end, columns);
        let name = match token.kind {
            TokenKind::Property => "property",
            TokenKind::Text => "string",
            TokenKind::Number => "number",
            TokenKind::Keyword => "keyword",
            TokenKind::Comment => "comment",
            TokenKind::Variable => "variable",
            TokenKind::Function => "function",
            TokenKind::Parameter => "parameter",
            TokenKind::Operator => "operator",
            TokenKind::Heading => "heading",
            TokenKind::Emphasis => "emphasis",
            TokenKind::Strong => "strong",
            TokenKind::Code => "code",
            TokenKind::Link => "link",
            TokenKind::ListMarker => "listMarker",
        };
        let kind = TOKENS.iter().zip(0..).find(|(known, _)| **known == name).map_or(0, |(_, number)| number);
        if start.line != end.line || end.character <= start.character {
            continue;
        }
        let from = if start.line == line { column } else { 0 };
        data.extend([start.line - line, start.character - from, end.character - start.character, kind, 0]);
        (line, column) = (start.line, start.character);
    }
    data
}
