//! Reading, checking and changing the definitions of programs.

use super::Service;
use crate::{
    definitions::Definitions,
    error::{ApiError, Code},
    log::LogEntry,
    program::Served,
    token::{Scope, Token},
    views::{CheckTexts, DefinitionFile, DefinitionFiles, DefinitionText, SaveDefinition, Saved},
};
use llm_do::program::{Diagnostic, diagnostics::json::to_json};
use serde_json::Value;
use std::sync::{Arc, PoisonError};
use tokio::task::spawn_blocking;

impl Service {
    /// The definition files of a program.
    ///
    /// # Errors
    /// There is no such program, or the client may not read them.
    pub(crate) async fn definitions(
        &self,
        token: &Token,
        program: &str,
    ) -> Result<DefinitionFiles, ApiError> {
        let program = self.definitions_of(token, program)?;
        work(move || {
            let files = program.definitions(Definitions::all)?.into_iter();
            let files = files.map(|file| DefinitionFile {
                sha256: file.sha256(),
                bytes: file.bytes.len() as u64,
                path: file.path,
            });
            Ok(DefinitionFiles { files: files.collect() })
        })
        .await
    }

    /// The text of a definition file.
    ///
    /// # Errors
    /// There is none with that path, or the client may not read it.
    pub(crate) async fn definition(
        &self,
        token: &Token,
        program: &str,
        path: String,
    ) -> Result<DefinitionText, ApiError> {
        let program = self.definitions_of(token, program)?;
        work(move || {
            let file = program.definitions(|definitions| definitions.read(&path))?;
            let sha256 = file.sha256();
            let text = String::from_utf8(file.bytes)
                .map_err(|_| ApiError::new(Code::BadRequest, format!("`{}` is no text", file.path)))?;
            Ok(DefinitionText { path: file.path, text, sha256 })
        })
        .await
    }

    /// Saves a definition file. Later runs get the program as it is then; runs under way keep what they began with.
    ///
    /// # Errors
    /// The file was changed by somebody else, or it is none that the client may change.
    pub(crate) async fn save(
        &self,
        token: &Token,
        program: &str,
        given: SaveDefinition,
    ) -> Result<Saved, ApiError> {
        if !token.has(Scope::Edit) {
            return Err(ApiError::without_scope(Scope::Edit));
        }
        let program = self.program(token, Some(program))?;
        let (of, host, by) = (Arc::clone(&program), Arc::clone(&self.0.host), Arc::clone(token.name()));
        let service = self.clone();
        let (saved, loads) = work(move || {
            // One at a time, so that what was read is what is replaced.
            let _one = of.saving.lock().unwrap_or_else(PoisonError::into_inner);
            let SaveDefinition { path, text, sha256 } = given;
            let sha256 = of.definitions(|definitions| definitions.write(&path, &text, sha256.as_deref()))?;
            service.log_entry(LogEntry {
                event: "definition_saved",
                program: Some(of.name().to_string()),
                by: Some(by.to_string()),
                text: format!("{by} has changed {path}"),
                ..LogEntry::default()
            });
            let loads = of.reload(&*host);
            let found = of.check(&*host, Default::default()).map_err(ApiError::internal)?;
            Ok((Saved { sha256, diagnostics: as_json(&found) }, loads))
        })
        .await?;
        if loads {
            self.continue_stuck(&program).await;
        } else {
            self.log(&format!(
                "program {}: it does not load: later runs are refused until it does",
                program.name()
            ));
        }
        Ok(saved)
    }

    /// Returns the findings of `check` in a program with texts that are not saved.
    ///
    /// # Errors
    /// There is no such program, or the client may not read it.
    pub(crate) async fn check(
        &self,
        token: &Token,
        program: &str,
        CheckTexts { files }: CheckTexts,
    ) -> Result<Vec<Value>, ApiError> {
        let program = self.definitions_of(token, program)?;
        let host = Arc::clone(&self.0.host);
        work(move || {
            let found = program.check(&*host, files);
            Ok(as_json(&found.map_err(|reason| ApiError::new(Code::Program, reason))?))
        })
        .await
    }

    /// A program whose definitions the client may read.
    fn definitions_of(&self, token: &Token, program: &str) -> Result<Arc<Served>, ApiError> {
        if !token.has(Scope::Edit) && !token.has(Scope::Read) {
            return Err(ApiError::without_scope(Scope::Edit));
        }
        self.program(token, Some(program))
    }
}

fn as_json(found: &[Diagnostic]) -> Vec<Value> {
    match to_json(found)["diagnostics"].take() {
        Value::Array(found) => found,
        _ => Vec::new(),
    }
}

/// Does work with files on a thread that answers no requests.
pub(super) async fn work<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    spawn_blocking(work).await.map_err(ApiError::internal)?
}
