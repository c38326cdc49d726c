//! The prompt of a worker, from any of its places. See `docs/reference/worker-files.md`.

use crate::{
    context::Context,
    diagnostics::{Diagnostic, Fix, codes},
    front_matter::{self, Body, Document},
    resolve::WorkerFile,
    source::{Kind, LARGEST_DEFINITION, folder_of, join},
    span::{SourceFile, Span},
    templates::Templates,
    yaml::{Entry, Node},
};
use llm_do_core::{
    template::{self, Origin, TemplateError, TemplateFacts},
    worker::Instructions,
};
use std::sync::Arc;

/// Extensions of prompts. Two prompts of one worker are an error.
const PROMPTS: [&str; 5] = ["jinja2", "j2", "jinja", "txt", "md"];

impl Context<'_> {
    /// Returns the prompt: after the front matter, under `instructions:`, or in the prompts folder.
    pub(super) fn instructions(
        &self,
        located: &WorkerFile,
        document: &Document,
        keys: &Node,
        found: &mut Vec<Diagnostic>,
    ) -> Option<(Instructions, Arc<SourceFile>, TemplateFacts)> {
        let file = &document.file;
        let body = document.body.as_ref().filter(|body| !file.text()[body.range.clone()].trim().is_empty());
        let key = keys.entry("instructions");
        let (text, file, lines): (Arc<str>, Arc<SourceFile>, u32) = match (body, key) {
            (Some(_), Some(entry)) => {
                let conflict = Diagnostic::error(codes::CONFLICT, "the instructions are given twice")
                    .at(&entry.key_span)
                    .label("here, and after the front matter");
                let after = body.map(|body| file.text()[body.range.clone()].trim());
                let same = entry.value.as_text().map(str::trim) == after;
                let fix =
                    same.then(|| Fix::remove("remove the key, which has the same value", entry)).flatten();
                let open = fix.is_none();
                let conflict = conflict.fix(fix);
                found.push(if open {
                    conflict.help("keep one of them; in a `.worker` file, write them after the front matter")
                } else {
                    conflict
                });
                return None;
            }
            (Some(Body { range, lines_before }), None) => {
                (file.text()[range.clone()].into(), Arc::clone(file), *lines_before)
            }
            (None, Some(entry)) => {
                let text = entry.value.as_text()?;
                (text.into(), Arc::clone(file), value_lines(entry))
            }
            (None, None) => {
                let prompt = self.prompt(located, document, found)?;
                (Arc::clone(prompt.text()), prompt, 0)
            }
        };
        let text: Arc<str> = match text.strip_prefix('\u{feff}') {
            Some(rest) => rest.into(),
            None => text,
        };
        let origin = Origin { file: file.path().to_string(), line: lines as usize + 1 };
        let facts = match template::inspect(&text, &origin) {
            Ok(facts) => facts,
            Err(error) => {
                found.push(bad_template(&file, error));
                return None;
            }
        };
        let templates = Templates::of(self.packages, self.package, folder_of(&located.path));
        let instructions = Instructions {
            text,
            file: Arc::clone(file.path()),
            line_offset: lines,
            templates: Arc::new(templates),
        };
        Some((instructions, file, facts))
    }

    /// Returns the empty instructions of a worker that is code.
    pub(super) fn no_instructions(
        &self,
        located: &WorkerFile,
        document: &Document,
    ) -> (Instructions, Arc<SourceFile>, TemplateFacts) {
        let templates = Templates::of(self.packages, self.package, folder_of(&located.path));
        let instructions = Instructions {
            text: "".into(),
            file: Arc::clone(document.file.path()),
            line_offset: 0,
            templates: Arc::new(templates),
        };
        (instructions, Arc::clone(&document.file), TemplateFacts::default())
    }

    /// Finds the prompt in `prompts/{id}.{jinja2,j2,jinja,txt,md}`.
    fn prompt(
        &self,
        located: &WorkerFile,
        document: &Document,
        found: &mut Vec<Diagnostic>,
    ) -> Option<Arc<SourceFile>> {
        let base = join(&self.package.manifest.prompts_root, &located.id);
        let candidates = PROMPTS.map(|extension| format!("{base}.{extension}"));
        let mut there = Vec::new();
        for candidate in &candidates {
            match self.tree().kind(candidate) {
                Ok(Some(Kind::File)) => there.push(candidate),
                Ok(_) => {}
                Err(error) => {
                    found.push(front_matter::unreadable(
                        &front_matter::unread(self.tree(), candidate),
                        &error,
                    ));
                    return None;
                }
            }
        }
        match there.as_slice() {
            [] => {
                found.push(
                    Diagnostic::error(
                        codes::NO_INSTRUCTIONS,
                        format!("the worker `{}` has no instructions", located.id),
                    )
                    .at(&Span::whole(&document.file))
                    .note(format!("tried {}", candidates.join(", ")))
                    .help("write them after the front matter"),
                );
                None
            }
            [one] => front_matter::read(self.tree(), one).map_err(|error| found.push(*error)).ok(),
            several => {
                let names: Vec<String> = several.iter().map(|path| format!("`{path}`")).collect();
                found.push(
                    Diagnostic::error(
                        codes::AMBIGUOUS,
                        format!(
                            "the prompt of `{}` is ambiguous: it may be {}",
                            located.id,
                            names.join(" or ")
                        ),
                    )
                    .at(&Span::whole(&document.file))
                    .help("rename or remove one of them"),
                );
                None
            }
        }
    }
}

/// Returns the finding for a template that can't be read.
pub(crate) fn bad_template(file: &Arc<SourceFile>, error: TemplateError) -> Diagnostic {
    let finding = Diagnostic::error(codes::BAD_TEMPLATE, format!("invalid template: {}", error.message))
        .at(&Span::at(file, error.place.line, error.place.column));
    match error.hint {
        Some(hint) => finding.help(hint),
        None => finding,
    }
}

/// Prompts have the same size limit as definitions.
const _: () = assert!(LARGEST_DEFINITION <= 4 << 20);

/// Returns the number of lines before the text of an `instructions:` key: those before the key, and one for a block
/// (`|`).
fn value_lines(entry: &Entry) -> u32 {
    let line = |span: &Span| span.line_column().map_or(1, |(line, _)| line);
    let value = line(&entry.value.span);
    // The span of a block starts at its indicator or at its first line, depending on its form.
    let block = entry.value.span.text().starts_with(['|', '>']);
    u32::try_from(if block { value } else { value.saturating_sub(1) }).unwrap_or(u32::MAX)
}
