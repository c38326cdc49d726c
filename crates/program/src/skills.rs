//! Skills: folders with a `SKILL.md` in the Agent Skills format (<https://agentskills.io>). See `docs/guides/skills.md`.

mod allowed;
mod export;
mod links;

use crate::{
    contents::is_left_out,
    diagnostics::{Diagnostic, Fix, codes},
    front_matter::{self, Document, Largest},
    manifest::{LIBRARY, MANIFESTS},
    source::{Kind, LARGEST_DEFINITION, SourceError, SourceTree, join},
    span::{SourceFile, Span},
    visible,
    yaml::{Data, Entry, Node, scalar},
};
pub(crate) use allowed::AllowedTool;
use allowed::allowed_tools;
pub use export::{Exported, export};
use llm_do_core::authority::Protection;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// The file that makes a folder a skill.
pub const SKILL_FILE: &str = "SKILL.md";

/// The keys of a skill's front matter.
const KEYS: [&str; 6] = ["name", "description", "license", "compatibility", "metadata", "allowed-tools"];
/// The longest name, in characters.
const LONGEST_NAME: usize = 64;
/// The longest description, in characters.
const LONGEST_DESCRIPTION: usize = 1_024;
/// The longest value of `compatibility`, in characters.
const LONGEST_COMPATIBILITY: usize = 500;
/// The largest number of files of a skill, and the greatest depth of its folders.
const MOST_FILES: usize = 1_000;
const DEEPEST: usize = 16;

const LARGEST: Largest = Largest {
    what: "a `SKILL.md`",
    bytes: LARGEST_DEFINITION,
    help: "move long material to other files of the skill, which are read only when they are needed",
};

/// A skill as its files define it.
#[derive(Debug)]
pub(crate) struct SkillFile {
    pub(crate) name: String,
    /// The place of the name.
    pub(crate) name_span: Span,
    pub(crate) description: String,
    /// The version in `metadata`.
    pub(crate) version: Option<String>,
    /// The tools that calls are narrowed to, if it has `allowed-tools`.
    pub(crate) allowed: Option<Vec<AllowedTool>>,
    pub(crate) file: Arc<SourceFile>,
    /// The text after the front matter.
    pub(crate) body: String,
    /// The other files, by their paths in the folder.
    pub(crate) files: Vec<String>,
}

impl SkillFile {
    /// Reads the skill in a folder of a tree. `called` is the folder's name, if the skill must have it. Returns `None`
    /// with an error if the skill can't be used.
    pub(crate) fn read(
        tree: &dyn SourceTree,
        folder: &str,
        called: Option<&str>,
        found: &mut Vec<Diagnostic>,
    ) -> Option<Self> {
        let before = found.len();
        let path = join(folder, SKILL_FILE);
        let document = match front_matter::read_within(tree, &path, &LARGEST).and_then(front_matter::worker) {
            Ok(document) => document,
            Err(error) => {
                found.push(*error);
                return None;
            }
        };
        let skill = Self::of(&document, called, found);
        let files = files(tree, folder, &document.file, found);
        if let Some(body) = &document.body {
            links::check(tree, folder, &document.file, body.range.clone(), found);
        }
        let usable = !found[before..].iter().any(Diagnostic::is_error);
        skill.filter(|_| usable).map(|skill| Self { files, ..skill })
    }

    fn of(document: &Document, called: Option<&str>, found: &mut Vec<Diagnostic>) -> Option<Self> {
        let Document { file, keys, body, .. } = document;
        if !matches!(keys.data, Data::Map(_)) {
            found.push(bad(&keys.span, "the front matter must be a map with `name` and `description`"));
            return None;
        }
        found.extend(keys.entries().iter().filter(|entry| !KEYS.contains(&entry.key.as_str())).map(unknown));
        let name = name(keys, called, found);
        let description = text(keys, "description", Some(LONGEST_DESCRIPTION), found);
        for (key, longest) in [("license", None), ("compatibility", Some(LONGEST_COMPATIBILITY))] {
            if keys.get(key).is_some() {
                text(keys, key, longest, found);
            }
        }
        let version = metadata(keys, found);
        let allowed = keys.get("allowed-tools").map(|node| allowed_tools(node, found));
        let body = body.as_ref().map(|body| file.text()[body.range.clone()].trim()).unwrap_or_default();
        let (name, name_span) = name?;
        Some(Self {
            name,
            name_span,
            // One line in the description of the tool.
            description: description?.split_whitespace().collect::<Vec<_>>().join(" "),
            version,
            allowed,
            file: Arc::clone(file),
            body: body.to_owned(),
            files: Vec::new(),
        })
    }

    /// Returns the patterns of `allowed-tools`.
    pub(crate) fn patterns(&self) -> Option<Vec<Arc<str>>> {
        let tools = self.allowed.as_ref()?.iter();
        Some(tools.flat_map(|tool| &tool.patterns).map(|pattern| pattern.as_str().into()).collect())
    }
}

/// Returns the finding for an unusable value of a skill.
fn bad(span: &Span, message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(codes::BAD_SKILL, message).at(span)
}

fn unknown(entry: &Entry) -> Diagnostic {
    let key = &entry.key;
    Diagnostic::warning(codes::SKILL_KEY, format!("the Agent Skills format has no key `{key}`"))
        .at(&entry.key_span)
        .note("the key has no effect")
        .did_you_mean(key, KEYS)
        .help("move it to `metadata`, or remove it")
}

/// Reads the name, which is that of the folder.
fn name(keys: &Node, called: Option<&str>, found: &mut Vec<Diagnostic>) -> Option<(String, Span)> {
    let name = text(keys, "name", None, found)?;
    let span = &keys.get("name")?.span;
    let wrong = |message: String| {
        let fix = called
            .filter(|called| problem(called).is_none())
            .and_then(|called| Fix::rewrite(format!("write `{called}`"), span, scalar(called)));
        Diagnostic::error(codes::SKILL_NAME, message).at(span).fix(fix)
    };
    if let Some(problem) = problem(&name) {
        found.push(wrong(format!("`{}` can't be the name of a skill: {problem}", visible::line(&name))));
        return None;
    }
    if let Some(called) = called.filter(|called| *called != name) {
        let message = format!("the skill is named `{name}`, but its folder `{}`", visible::line(called));
        found.push(wrong(message).help("give both the same name"));
        return None;
    }
    Some((name, span.clone()))
}

/// Returns the reason why a text can't be the name of a skill.
pub(crate) fn problem(name: &str) -> Option<&'static str> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.chars().count() > LONGEST_NAME {
        Some("it has more than 64 characters")
    } else if name.is_empty() || !name.chars().all(fits) {
        Some("use only lower-case letters, digits and hyphens")
    } else if name.starts_with('-') || name.ends_with('-') || name.contains("--") {
        Some("it may not begin or end with a hyphen, or have two in a row")
    } else {
        None
    }
}

/// Reads a text. It has no characters that are hidden from a reader of the file but not from a model.
fn text(keys: &Node, key: &str, longest: Option<usize>, found: &mut Vec<Diagnostic>) -> Option<String> {
    let node = match keys.get(key) {
        Some(node) if node.data != Data::Null => node,
        _ => {
            found.push(bad(&keys.span, format!("the skill has no `{key}`")));
            return None;
        }
    };
    let Some(text) = node.as_text() else {
        found.push(bad(&node.span, format!("`{key}` must be text, not {}", node.kind())));
        return None;
    };
    let plain = text.trim();
    let problem = if plain.is_empty() {
        Some("is empty".to_owned())
    } else if longest.is_some_and(|longest| plain.chars().count() > longest) {
        Some(format!("has more than {} characters", longest.unwrap_or_default()))
    } else if visible::prose(plain) != plain {
        Some(format!(
            "has control characters or invisible ones: {}",
            visible::start(&visible::line(plain), 200)
        ))
    } else {
        None
    };
    if let Some(problem) = problem {
        found.push(bad(&node.span, format!("`{key}` {problem}")));
        return None;
    }
    Some(plain.to_owned())
}

/// Checks `metadata`, and returns the version in it.
fn metadata(keys: &Node, found: &mut Vec<Diagnostic>) -> Option<String> {
    let node = keys.get("metadata").filter(|node| node.data != Data::Null)?;
    if !matches!(node.data, Data::Map(_)) {
        found.push(bad(&node.span, format!("`metadata` must be a map, not {}", node.kind())));
        return None;
    }
    for entry in node.entries().iter().filter(|entry| entry.value.as_text().is_none()) {
        let value = &entry.value;
        let fix = matches!(value.data, Data::Number(_) | Data::Flag(_)).then(|| {
            let quoted = serde_json::Value::from(value.span.text()).to_string();
            Fix::rewrite("put it in quotes", &value.span, quoted)
        });
        let message = format!("`metadata.{}` must be text, not {}", entry.key, value.kind());
        found.push(Diagnostic::warning(codes::SKILL_METADATA, message).at(&value.span).fix(fix.flatten()));
    }
    let version = node.get("version")?;
    let version = version.as_text().map_or_else(|| version.span.text().to_owned(), str::to_owned);
    crate::dependency::check_version(&version).is_ok().then_some(version)
}

/// Lists the files of a skill in its folder, without the `SKILL.md`.
fn files(
    tree: &dyn SourceTree,
    folder: &str,
    file: &Arc<SourceFile>,
    found: &mut Vec<Diagnostic>,
) -> Vec<String> {
    let mut files = Vec::new();
    let mut folders = vec![(String::new(), 0)];
    let whole = Span::whole(file);
    while let Some((below, depth)) = folders.pop() {
        let listed = match tree.list(&join(folder, &below)) {
            Ok(listed) => listed,
            Err(error) => {
                found.push(bad(
                    &whole,
                    format!("the folder `{}` cannot be read: {error}", tree.shown(&join(folder, &below))),
                ));
                continue;
            }
        };
        for (name, kind) in listed {
            if is_left_out(&name) || Protection::is_invisible(&name) {
                continue;
            }
            let path = join(&below, &name);
            if name.chars().any(char::is_control) {
                let message =
                    format!("the name of a file has control characters: `{}`", visible::line(&path));
                found.push(bad(&whole, message));
                continue;
            }
            match kind {
                Kind::Folder => folders.push((path, depth + 1)),
                Kind::File if path == SKILL_FILE => {}
                Kind::File => files.push(path),
                Kind::Special => match tree.kind(&join(folder, &path)) {
                    Ok(Some(Kind::File)) => files.push(path),
                    Ok(_) => {}
                    Err(error) => {
                        let shown = tree.shown(&join(folder, &path));
                        found.push(
                            Diagnostic::warning(codes::SKILL_LINK, format!("`{shown}` is left out: {error}"))
                                .at(&whole)
                                .help("copy the file into the skill's folder"),
                        );
                    }
                },
            }
        }
        if files.len() > MOST_FILES || depth > DEEPEST {
            let message = format!(
                "the skill has more than {MOST_FILES} files, or folders deeper than {DEEPEST}; a skill has at most that"
            );
            found.push(bad(&whole, message));
            return Vec::new();
        }
    }
    files.sort();
    files
}

/// The skills in one folder.
#[derive(Debug, Default)]
pub(crate) struct SkillsFolder {
    /// The skills, each with its path below the root of the tree.
    pub(crate) skills: Vec<(String, Arc<SkillFile>)>,
    /// The findings about their files.
    pub(crate) found: Vec<Diagnostic>,
}

impl SkillsFolder {
    /// Reads all skills in a folder of a tree. Returns `None` if the folder does not exist.
    ///
    /// # Errors
    /// The folder can't be read.
    pub(crate) fn read(tree: &dyn SourceTree, folder: &str) -> Result<Option<Self>, SourceError> {
        match tree.kind(folder)? {
            Some(Kind::Folder) => {}
            None => return Ok(None),
            Some(_) => return Err(SourceError::Io("it is not a folder".into())),
        }
        let mut read = Self::default();
        for (name, kind) in tree.list(folder)? {
            let path = join(folder, &name);
            // A link may lead to a skill elsewhere below the root.
            let is_folder = match kind {
                Kind::Folder => true,
                Kind::File => false,
                Kind::Special => match tree.kind(&path) {
                    Ok(kind) => kind == Some(Kind::Folder),
                    Err(error) => {
                        let place = Span::whole(&front_matter::unread(tree, &path));
                        let message = format!("the skill `{}` cannot be read: {error}", visible::line(&name));
                        read.found.push(Diagnostic::error(codes::SKILL_FOLDER, message).at(&place).help(
                            "copy the skill into the project, or install it: `llm-do lib install PATH`",
                        ));
                        false
                    }
                },
            };
            let file = join(&path, SKILL_FILE);
            if !is_folder
                || Protection::is_invisible(&name)
                || !matches!(tree.kind(&file), Ok(Some(Kind::File)))
            {
                continue;
            }
            if let Some(skill) = SkillFile::read(tree, &path, Some(&name), &mut read.found) {
                read.skills.push((path, Arc::new(skill)));
            }
        }
        Ok(Some(read))
    }
}

/// Returns the folders of the skills in a repository that is neither a library, a project nor a skill itself.
pub fn skills_in(tree: &dyn SourceTree) -> Vec<String> {
    let has = |path: &str| matches!(tree.kind(path), Ok(Some(Kind::File)));
    if [LIBRARY, SKILL_FILE].into_iter().chain(MANIFESTS).any(has) {
        return Vec::new();
    }
    let mut skills = Vec::new();
    for folder in ["", "skills", ".agents/skills", ".claude/skills"] {
        for (name, kind) in tree.list(folder).unwrap_or_default() {
            let path = join(folder, &name);
            if kind == Kind::Folder && has(&join(&path, SKILL_FILE)) {
                skills.push(path);
            }
        }
    }
    skills
}

/// The folders of skills of one package, each read once.
#[derive(Debug, Default)]
pub(crate) struct ReadFolders(Mutex<BTreeMap<String, Option<Arc<SkillsFolder>>>>);

impl ReadFolders {
    /// Returns the skills of a folder, which `read` reads the first time.
    ///
    /// # Errors
    /// The error of `read`, which is called again the next time.
    pub(crate) fn get_or_read(
        &self,
        folder: &str,
        read: impl FnOnce() -> Result<Option<SkillsFolder>, SourceError>,
    ) -> Result<Option<Arc<SkillsFolder>>, SourceError> {
        let mut folders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = folders.get(folder) {
            return Ok(known.clone());
        }
        let read = read()?.map(Arc::new);
        folders.insert(folder.to_owned(), read.clone());
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
