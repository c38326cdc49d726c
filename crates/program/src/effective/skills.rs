//! The skills of a worker: those in the folders that its toolset names, and those that its package depends on. See
//! `docs/guides/skills.md`.

use crate::{
    context::Context,
    diagnostics::{Diagnostic, codes},
    package::Package,
    skills::{SkillFile, SkillsFolder},
    source::{SourceError, plain},
    span::Span,
    toolsets::Toolsets,
    yaml::Node,
};
use llm_do_core::{
    toolset::SkillFolders,
    toolsets::skills::{Skill, SkillFolder},
};
use std::{collections::BTreeMap, sync::Arc};

/// A skill of a worker.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) file: Arc<SkillFile>,
    folder: SkillFolder,
    /// True if others can change it at any time.
    pub(crate) untrusted: bool,
}

impl Found {
    /// Returns the skill for the worker's definition.
    pub(super) fn skill(&self) -> Skill {
        let Self { file, folder, untrusted } = self;
        Skill {
            name: file.name.as_str().into(),
            description: file.description.as_str().into(),
            instructions: file.body.as_str().into(),
            files: file.files.iter().map(|path| path.as_str().into()).collect(),
            allowed_tools: file.patterns(),
            folder: folder.clone(),
            untrusted: *untrusted,
        }
    }
}

impl Context<'_> {
    /// Finds the skills of a worker with these merged toolsets.
    pub(super) fn skills(&self, toolsets: &Toolsets, found: &mut Vec<Diagnostic>) -> Vec<Found> {
        let with_folders = toolsets.iter().find_map(|(name, configuration)| {
            Some((self.host.toolsets.get(name)?.skill_folders()?, configuration))
        });
        let Some((folders, configuration)) = with_folders else { return Vec::new() };
        let mut all: BTreeMap<String, Found> = BTreeMap::new();
        let mut add = |one: Found, found: &mut Vec<Diagnostic>| {
            let file = &one.file;
            match all.get(&file.name) {
                Some(other) if other.folder == one.folder => {}
                Some(other) => found.push(
                    Diagnostic::error(codes::SKILL_TWICE, format!("two skills are named `{}`", file.name))
                        .at(&file.name_span)
                        .related("the other one is here", &other.file.name_span)
                        .help("rename one of them with its folder, or name other `paths`"),
                ),
                None => drop(all.insert(file.name.clone(), one)),
            }
        };
        for one in self.own(folders, configuration, found) {
            add(one, found);
        }
        for id in &self.package.dependencies {
            if let Some(one) = installed(self.packages.get(*id), found) {
                add(one, found);
            }
        }
        if all.is_empty() && !found.iter().any(Diagnostic::is_error) {
            let searched = match configuration.get(folders.property) {
                Some(paths) => paths.texts().map(|(path, _)| path).collect::<Vec<_>>().join(", "),
                None => folders.default.join(", "),
            };
            found.push(
                Diagnostic::warning(codes::NO_SKILLS, "the toolset `skills` has no skill")
                    .at(&configuration.span)
                    .note(format!("searched {searched}, and the dependencies"))
                    .help("add a folder with a `SKILL.md`, install a skill, or remove the toolset"),
            );
        }
        all.into_values().collect()
    }

    /// Reads the skills in the folders of the worker's package.
    fn own(&self, folders: SkillFolders, configuration: &Node, found: &mut Vec<Diagnostic>) -> Vec<Found> {
        let written = configuration.get(folders.property);
        let named: Vec<(&str, Option<&Span>)> = match written {
            Some(list) => list.texts().map(|(path, span)| (path, Some(span))).collect(),
            None => folders.default.iter().map(|path| (*path, None)).collect(),
        };
        let mut skills = Vec::new();
        for (path, span) in named {
            let folder = match self.package.skills(path) {
                Ok(Some(folder)) => folder,
                // The default folders need not exist.
                Ok(None) if span.is_none() => continue,
                Ok(None) => {
                    found.push(
                        unusable(path, "it does not exist", span)
                            .help("correct the path, or create the folder"),
                    );
                    continue;
                }
                Err(SourceError::Escapes) => {
                    found.push(
                        unusable(path, "it is outside the root", span)
                            .help("install the skills from there: `llm-do lib install PATH`"),
                    );
                    continue;
                }
                Err(error) => {
                    found.push(unusable(path, &error.to_string(), span));
                    continue;
                }
            };
            found.extend_from_slice(&folder.found);
            for (path, file) in &folder.skills {
                // A link to a skill is the skill.
                let real = self.package.tree.locate(path).ok();
                let real = real.and_then(|real| real.place.rest(self.package.tree.root()).map(str::to_owned));
                let folder = SkillFolder::Own(real.unwrap_or_else(|| path.clone()));
                skills.push(Found { file: Arc::clone(file), folder, untrusted: false });
            }
        }
        skills
    }
}

fn unusable(path: &str, reason: &str, span: Option<&Span>) -> Diagnostic {
    let message = format!("the folder of skills `{path}` cannot be used: {reason}");
    Diagnostic::error(codes::SKILL_FOLDER, message).or_at(span)
}

/// Returns the skill that a package is, if it is one. Its other files are read without the checks of this crate.
fn installed(package: &Package, found: &mut Vec<Diagnostic>) -> Option<Found> {
    let file = package.skill()?;
    found.extend_from_slice(package.changes());
    Some(Found {
        file,
        folder: SkillFolder::Installed(package.tree.root().clone()),
        untrusted: !package.is_pinned(),
    })
}

impl Package {
    /// Returns the skills in one of its folders, read once. `None` if the folder does not exist.
    fn skills(&self, folder: &str) -> Result<Option<Arc<SkillsFolder>>, SourceError> {
        let folder = plain(folder)?;
        self.skill_folders.get_or_read(&folder, || SkillsFolder::read(self.tree.as_ref(), &folder))
    }

    /// Returns the skill that the package is.
    fn skill(&self) -> Option<Arc<SkillFile>> {
        let read = || {
            // Its errors were reported with the manifest.
            let mut skill = SkillsFolder::default();
            let file = SkillFile::read(self.tree.as_ref(), "", None, &mut skill.found)?;
            skill.skills.push((String::new(), Arc::new(file)));
            Some(skill)
        };
        self.manifest.is_skill.then_some(())?;
        let folder = self.skill_folders.get_or_read("", || Ok(read())).ok()??;
        folder.skills.first().map(|(_, file)| Arc::clone(file))
    }
}
