//! Python functions as workers: the function that a program starts with, or the one that a worker file names instead
//! of a prompt. See `docs/guides/python-tools.md`.

use super::{Effective, exclusive, mistakes::Mistakes, sections::limits, whole_text};
use crate::{
    context::Context,
    diagnostics::{Diagnostic, codes},
    front_matter::{self, Document},
    mounts::{self, Layers},
    resolve::WorkerFile,
    signature::{self, Declared},
    source::folder_of,
    span::{SourceFile, Span},
    templates::Templates,
    tool_reference::{self, Function},
    toolsets::{self, Toolsets},
    yaml::{Data, Node},
};
use llm_do_core::{
    model::ModelSettings,
    template::TemplateFacts,
    worker::{
        AttachmentPolicy, CodeEntry, InheritedSettings, Instructions, Sandbox, ToolLevel, Untrusted,
        WorkerDefinition, WorkerMode,
    },
};
use std::sync::Arc;

/// Keys that apply only to a model, not to code.
const OF_MODELS: [&str; 10] = [
    "instructions",
    "model",
    "model_settings",
    "compatible_models",
    "locked",
    "allow_empty_input",
    "server_side_tools",
    "mode",
    "interaction",
    "max_context_tokens",
];

impl Context<'_> {
    /// Computes the hash of the code of a worker, if a host can read the code.
    pub(super) fn code_sha256(&self, tools: &[ToolLevel], entry: Option<&CodeEntry>) -> Option<Arc<str>> {
        let reader = self.host.code.as_ref().filter(|_| !tools.is_empty() || entry.is_some())?;
        Some(reader.sha256(tools, entry))
    }

    /// Returns the function that a worker file names under `code`, and the text of its file. The outer `None` means
    /// that it has errors.
    pub(super) fn code_of(
        &self,
        located: &WorkerFile,
        document: &Document,
        keys: &Node,
        found: &mut Vec<Diagnostic>,
    ) -> Option<Option<(CodeEntry, Arc<str>)>> {
        let Some(entry) = keys.entry("code") else { return Some(None) };
        for key in OF_MODELS {
            exclusive(keys, key, "code", found);
        }
        let file = &document.file;
        if document.body.as_ref().is_some_and(|body| !file.text()[body.range.clone()].trim().is_empty()) {
            found.push(
                Diagnostic::error(codes::CONFLICT, "a worker with `code` cannot have instructions")
                    .at(&entry.key_span)
                    .help("keep one of them"),
            );
        }
        let reference = entry.value.as_text()?;
        let folder = folder_of(&located.path);
        let function =
            match tool_reference::function_of_worker(self.package, folder, reference, self.policy()) {
                Ok(function) => function,
                Err(error) => {
                    found.push(match error.span {
                        Some(_) => error.related("it is named here", &entry.value.span),
                        None => error.at(&entry.value.span),
                    });
                    return None;
                }
            };
        let text = match front_matter::read(self.tree(), function.file.as_deref().unwrap_or_default()) {
            Ok(file) => Arc::clone(file.text()),
            Err(error) => {
                found.push(error.related("it is named here", &entry.value.span));
                return None;
            }
        };
        let package = Arc::clone(&self.package.code);
        Some(Some((CodeEntry { package, module: function.module, function: function.name.into() }, text)))
    }

    /// Returns the definition of a function that is the entry. It has the project's settings.
    pub(crate) fn code(
        &self,
        located: &WorkerFile,
        function: Function,
        named: Option<&Span>,
        found: &mut Vec<Diagnostic>,
    ) -> Option<Effective> {
        let errors = |found: &[Diagnostic]| found.iter().filter(|d| d.is_error()).count();
        let before = errors(found);
        let file = match &function.file {
            // The journal records the text of the code.
            Some(path) => match front_matter::read(self.tree(), path) {
                Ok(file) => file,
                Err(error) => {
                    found.push(match named {
                        Some(span) => error.related("it is named here", span),
                        None => *error,
                    });
                    return None;
                }
            },
            None => SourceFile::new(located.path.as_str(), ""),
        };
        let nothing = Node { span: Span::whole(&file), data: Data::Map(Vec::new()) };
        let project = self.package.manifest.sandbox.as_ref();
        let layers = Layers { project, worker: None };
        let sandbox = mounts::merge(self.tree(), &self.package.own, layers, found);
        let mut toolsets = self.package.toolsets.clone();
        toolsets::insert_declared(&mut toolsets, &self.package.declared, &self.host.toolsets);
        // It has the project's tools. Files next to it count only in the project's tool folders.
        let at_root = WorkerFile { path: String::new(), ..located.clone() };
        let skills = self.skills(&toolsets, found);
        let tools = self.tool_levels(&at_root, &nothing, &Toolsets::new(), &mut toolsets, found);
        let attachments = AttachmentPolicy::default();
        let signature = signature::build(&Declared::default(), &[], attachments.max_attachments > 0).ok()?;
        let code = CodeEntry {
            package: Arc::clone(&self.package.code),
            module: function.module,
            function: function.name.as_str().into(),
        };
        let code_sha256 = self.code_sha256(&tools, Some(&code));
        let definition = WorkerDefinition {
            id: function.name.as_str().into(),
            source: self.package.code.source.clone(),
            root: self.package.code.root.clone(),
            description: None,
            instructions: Instructions {
                text: "".into(),
                file: Arc::clone(file.path()),
                line_offset: 0,
                templates: Arc::new(Templates::of(self.packages, self.package, "")),
            },
            models: Vec::new(),
            compatible_models: Vec::new(),
            settings: ModelSettings::default(),
            inherited: InheritedSettings::default(),
            mode: WorkerMode::Single,
            interactive: false,
            locked: false,
            signature,
            returns: None,
            ensures: Arc::new([]),
            returned_paths: Vec::new(),
            toolsets: self.configurations(&toolsets, &skills),
            pins: self.package.tool_pins(),
            server_tools: Arc::new([]),
            tools,
            code: Some(code),
            code_sha256,
            allow_workers: Vec::new(),
            fixed: Default::default(),
            rules: Arc::default(),
            overrides: Vec::new(),
            sandbox: Sandbox {
                narrowing: sandbox.narrowing,
                env: sandbox.env.into_iter().map(|(name, _)| name).collect(),
                keys: sandbox.keys.into_iter().map(|(key, _)| key).collect(),
            },
            attachments,
            untrusted: Untrusted::default(),
            allow_empty_input: true,
            limits: limits(self.host, &[self.package.manifest.limits.as_ref()]),
            text: whole_text(file.text(), None, &skills),
        };
        let effective = Effective {
            definition: Arc::new(definition),
            grants: sandbox.grants,
            located: located.clone(),
            keys: nothing,
            rules: Vec::new(),
            toolsets,
            callees: Vec::new(),
            skills,
            with: Vec::new(),
            calls: Vec::new(),
            text: file,
            facts: TemplateFacts::default(),
            mistakes: Mistakes::default(),
        };
        (errors(found) == before).then_some(effective)
    }
}
