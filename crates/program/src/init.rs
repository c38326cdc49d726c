//! Project templates and project names for `llm-do init`. See `docs/guides/projects.md`.
//!
//! This module only returns the files of a template. The caller writes them.

use std::fmt;

/// A template of a project.
#[derive(Debug)]
pub struct Template {
    /// The name of the template on the command line.
    pub name: &'static str,
    /// A description in one line.
    pub about: &'static str,
    /// The ability that its model needs.
    pub needs: &'static str,
    /// A first message for the project, for the command that is suggested.
    pub first_message: Option<&'static str>,
    files: &'static [(&'static str, &'static str)],
}

/// A file of a new project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// The path relative to the project, with `/`.
    pub path: &'static str,
    /// The text of the file.
    pub text: String,
}

macro_rules! files {
    ($template:literal: $($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("init/", $template, "/", $path)))),*]
    };
}

/// The ability that the model of a worker with tools needs. The smallest local models lack it.
const TOOLS: &str = "a model that calls tools: a hosted one, or a local one of at least 4 billion parameters";

/// Placeholder for the project's name in the templates' files.
const NAME: &str = "project-name";

/// The file that coding agents read in a project.
const FOR_AGENTS: &str = include_str!("init/AGENTS.md");

/// All templates, the default first.
pub const TEMPLATES: &[Template] = &[
    Template {
        name: "minimal",
        about: "one worker with a folder to read and a folder to write",
        needs: TOOLS,
        first_message: Some("What is in my files?"),
        // An empty folder needs a file to exist in git.
        files: files!("minimal": "main.worker", "input/.gitkeep", "output/.gitkeep"),
    },
    Template {
        name: "pipeline",
        about: "an orchestrator that passes each text through three typed stages",
        needs: TOOLS,
        first_message: None,
        files: files!("pipeline":
            "main.worker",
            "project.yaml",
            "workers/stage_1.worker",
            "workers/stage_2.worker",
            "workers/stage_3.worker",
            "input/lighthouse.txt",
            "output/.gitkeep",
        ),
    },
    Template {
        name: "research-agent",
        about: "a researcher that has documents read and its answer checked by other workers",
        needs: TOOLS,
        first_message: Some("Why has the river become warmer?"),
        files: files!("research-agent":
            "main.worker",
            "project.yaml",
            "workers/reader.worker",
            "workers/critic.worker",
            "templates/rules.jinja",
            "sources/2024-survey.txt",
            "sources/council-minutes.txt",
            "sources/angler-letter.txt",
            "output/.gitkeep",
        ),
    },
    Template {
        name: "typescript",
        about: "a worker with tools in TypeScript",
        needs: TOOLS,
        first_message: Some("Ada and Grace pay 33.10"),
        files: files!("typescript": "main.worker", "tools.ts"),
    },
];

/// Returns the template of that name.
pub fn template(name: &str) -> Option<&'static Template> {
    TEMPLATES.iter().find(|template| template.name == name)
}

impl Template {
    /// Returns the files of a project of that name, sorted by path.
    pub fn files(&self, name: &ProjectName) -> Vec<NewFile> {
        // These are the only kebab-case names that YAML does not read as text.
        let written = match name.as_str() {
            "true" | "false" | "null" => format!("\"{name}\""),
            name => name.to_owned(),
        };
        let mut files: Vec<NewFile> = self
            .files
            .iter()
            .map(|(path, text)| NewFile { path, text: text.replace(NAME, &written) })
            .collect();
        files.push(NewFile { path: "AGENTS.md", text: FOR_AGENTS.replace(NAME, name.as_str()) });
        files.sort_by_key(|file| file.path);
        files
    }
}

/// The name of a project in kebab-case. Its folder has the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectName(String);

/// An invalid project name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a project's name: {NAME_RULE}")]
pub struct BadName {
    /// The name as given.
    pub given: String,
    /// A similar valid name.
    pub suggestion: Option<ProjectName>,
}

const NAME_RULE: &str = "it has small letters, digits and single hyphens, starts with a letter, and is at most 64 characters long";
const LONGEST_NAME: usize = 64;

impl ProjectName {
    /// Reads a name.
    ///
    /// # Errors
    /// The name is not in kebab-case or is too long. The error has a suggestion if one can be made from the name.
    pub fn parse(given: &str) -> Result<Self, BadName> {
        if is_kebab_case(given) {
            return Ok(Self(given.to_owned()));
        }
        Err(BadName { given: given.to_owned(), suggestion: Self::suggest(given) })
    }

    /// Makes a valid name from a text: `My Project` becomes `my-project`. Returns `None` if too little of the text
    /// would remain.
    pub fn suggest(text: &str) -> Option<Self> {
        // Dropping the non-ASCII letters of a word would not give a useful name.
        if text.chars().any(|c| c.is_alphanumeric() && !c.is_ascii()) {
            return None;
        }
        let mut name = String::new();
        let mut before = ' ';
        for c in text.chars() {
            let new_word = c.is_ascii_uppercase() && (before.is_ascii_lowercase() || before.is_ascii_digit());
            if (new_word || !c.is_ascii_alphanumeric()) && !name.is_empty() && !name.ends_with('-') {
                name.push('-');
            }
            if c.is_ascii_alphanumeric() {
                name.push(c.to_ascii_lowercase());
            }
            before = c;
        }
        name.truncate(LONGEST_NAME);
        let name = name.trim_matches('-');
        let name = name.trim_start_matches(|c: char| !c.is_ascii_lowercase());
        is_kebab_case(name).then(|| Self(name.to_owned()))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_kebab_case(name: &str) -> bool {
    let part =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    name.len() <= LONGEST_NAME
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.split('-').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        LoadOptions, Program, Source, Start, list_workers,
        source::{MemoryTree, SourceTree},
    };
    use llm_do_core::{authority::Place, toolset::ToolsetRegistry, worker::Definitions};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn name(text: &str) -> ProjectName {
        ProjectName::parse(text).unwrap()
    }

    #[test]
    fn every_template_is_a_program_without_a_word_against_it() {
        let names = ["my-project", "null", "true", "e5"];
        for (template, called) in TEMPLATES.iter().flat_map(|t| names.map(|called| (t, called))) {
            let files: Vec<(&str, String)> =
                template.files(&name(called)).into_iter().map(|file| (file.path, file.text)).collect();
            let tree: Arc<dyn SourceTree> = Arc::new(MemoryTree::new(Place::new("/p"), files));
            let host = LoadOptions {
                toolsets: ToolsetRegistry::built_in(),
                providers: vec!["anthropic".into()],
                ..LoadOptions::default()
            };
            let source =
                Source { tree: Arc::clone(&tree), start: Start::Entry(None), manifest: true, work: None };
            assert_eq!(crate::check(source.clone(), host.clone()), [], "{}", template.name);
            assert_eq!(crate::check(source.clone(), host.clone()), [], "{}", template.name);
            let all = list_workers(&source, host.clone()).unwrap().workers;
            let loaded = Program::load(source, host).unwrap();
            assert_eq!(loaded.warnings, [], "{}", template.name);
            assert_eq!(loaded.program.loaded().len(), all.len(), "{}: all are reached", template.name);
            for worker in loaded.program.loaded() {
                assert!(worker.description.is_some(), "{}: {}", template.name, worker.id);
                assert!(loaded.program.worker(&worker, "main").is_ok());
            }
        }
    }

    #[test]
    fn the_name_stands_in_the_manifest_and_nowhere_else() {
        let files = template("pipeline").unwrap().files(&name("bees"));
        let manifest = files.iter().find(|file| file.path == "project.yaml").unwrap();
        assert!(manifest.text.contains("\nname: bees\n"));
        for template in TEMPLATES {
            let other = template.files(&name("x"));
            assert!(other.iter().all(|file| !file.text.contains(NAME)), "{}", template.name);
            assert!(other.iter().any(|file| file.path == "main.worker"));
        }
    }

    #[test]
    fn names_are_kebab_case_and_others_get_a_suggestion() {
        for good in ["a", "my-project", "report-2024", "x1-2-y"] {
            assert_eq!(name(good).as_str(), good);
        }
        for (bad, suggestion) in [
            ("My Project", Some("my-project")),
            ("myProject", Some("my-project")),
            ("MyProject2Go", Some("my-project2-go")),
            ("my_project", Some("my-project")),
            ("--my--project--", Some("my-project")),
            ("2024-report", Some("report")),
            ("a/b", Some("a-b")),
            ("..", None),
            ("", None),
            ("größe", None),
            ("\u{1b}[2Jx", Some("jx")),
        ] {
            let error = ProjectName::parse(bad).unwrap_err();
            assert_eq!(error.suggestion.as_ref().map(ProjectName::as_str), suggestion, "{bad:?}");
        }
        assert!(ProjectName::parse(&"a".repeat(65)).is_err());
    }

    proptest! {
        #[test]
        fn a_suggestion_is_a_name_itself(text in "\\PC{0,90}") {
            if let Some(suggestion) = ProjectName::suggest(&text) {
                prop_assert_eq!(ProjectName::parse(suggestion.as_str()), Ok(suggestion));
            }
        }
    }
}
