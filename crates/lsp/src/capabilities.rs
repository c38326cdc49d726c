//! The first exchange: what client and server can do.

use crate::Client;
use gen_lsp_types::InitializeParams;
use llm_do::host::program::line_index::Columns;
use serde_json::{Value, json};

/// The kinds of semantic tokens, in the order of their numbers.
pub(crate) const TOKENS: [&str; 15] = [
    "property",
    "string",
    "number",
    "keyword",
    "comment",
    "variable",
    "function",
    "parameter",
    "operator",
    "heading",
    "emphasis",
    "strong",
    "code",
    "link",
    "listMarker",
];

/// Reads what the client can do.
pub(crate) fn client(params: &InitializeParams) -> Client {
    let all = serde_json::to_value(&params.capabilities).unwrap_or_default();
    let can = |pointer: &str| all.pointer(pointer).and_then(Value::as_bool).unwrap_or(false);
    let has = |pointer: &str| all.pointer(pointer).is_some_and(|value| !value.is_null());
    let lists = |pointer: &str, wanted: &str| {
        all.pointer(pointer)
            .and_then(Value::as_array)
            .is_some_and(|list| list.iter().any(|one| one == wanted))
    };
    let options = serde_json::to_value(&params.initialization_options).unwrap_or_default();
    Client {
        columns: match lists("/general/positionEncodings", "utf-8") {
            true => Columns::Utf8,
            false => Columns::Utf16,
        },
        pulls: has("/textDocument/diagnostic"),
        refreshes_findings: can("/workspace/diagnostics/refreshSupport"),
        shows_progress: can("/window/workDoneProgress"),
        watches_files: can("/workspace/didChangeWatchedFiles/dynamicRegistration"),
        renames_files: lists("/workspace/workspaceEdit/resourceOperations", "rename"),
        trusted: options.get("trusted").and_then(Value::as_bool).unwrap_or(false),
    }
}

/// Returns what the server can do.
pub(crate) fn server(client: &Client) -> Value {
    json!({
        "capabilities": {
            "positionEncoding": match client.columns {
                Columns::Utf8 => "utf-8",
                Columns::Utf16 => "utf-16",
            },
            "textDocumentSync": {"openClose": true, "change": 2, "save": {"includeText": false}},
            "completionProvider": {"triggerCharacters": ["{", "|", "/", "\"", ":", "[", " ", "."]},
            "hoverProvider": true,
            "definitionProvider": true,
            "referencesProvider": true,
            "renameProvider": {"prepareProvider": true},
            "documentSymbolProvider": true,
            "workspaceSymbolProvider": true,
            "callHierarchyProvider": true,
            "inlayHintProvider": true,
            "codeLensProvider": {"resolveProvider": false},
            "codeActionProvider": {"codeActionKinds": ["quickfix", "source.fixAll"]},
            "foldingRangeProvider": true,
            "documentFormattingProvider": true,
            "semanticTokensProvider": {
                "legend": {"tokenTypes": TOKENS, "tokenModifiers": []},
                "full": true,
            },
            "diagnosticProvider": {
                "identifier": "llm-do",
                "interFileDependencies": true,
                "workspaceDiagnostics": false,
            },
            "workspace": {"workspaceFolders": {"supported": true, "changeNotifications": true}},
        },
        "serverInfo": {"name": "llm-do", "version": env!("CARGO_PKG_VERSION")},
    })
}
