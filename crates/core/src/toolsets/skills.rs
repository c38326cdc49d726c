//! The toolset `skills` (`docs/guides/skills.md`): folders with instructions that a model loads when it needs them.
//!
//! The front end finds the skills and reads their instructions ([`SkillFolders`]). They are a part of the worker's
//! definition, like its prompt.

use crate::{
    authority::{Access, Mount, Origin as MountOrigin, Place, VirtualPath},
    definition::WorkerDefinition,
    function::{
        Concurrency, Effects, Function, FunctionMeta, Implementation, Leaf, LeafCall, MainArgument,
        ToolError, ToolOutput,
    },
    origin::{Origins, ResultOrigin},
    risk::Risk,
    schema::{Schema, canonical, sha256},
    send::BoxFuture,
    source::FunctionSource,
    toolset::{Executed, Narrowed, SkillFolders, ToolsetContext, ToolsetKind, ToolsetRuntime},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{fmt::Write as _, sync::Arc};

/// The name of its only tool.
const SKILL: &str = "skill";
/// The folder of the worker's view in which the skills are.
const FOLDER: &str = "skills";
/// The property of the configuration that names folders, and the folders without it.
const PATHS: &str = "paths";
const DEFAULT: &[&str] = &["skills", ".agents/skills", ".claude/skills"];
/// The property of the configuration that holds the skills.
const FOUND: &str = "found";
/// The largest number of files that a loaded skill lists.
const MOST_LISTED: usize = 100;

/// A skill: instructions for one kind of task, and files for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Skill {
    /// The name.
    pub name: Arc<str>,
    /// The task that the skill is for. A model reads it before it loads the skill.
    pub description: Arc<str>,
    /// The text of `SKILL.md` after its front matter.
    pub instructions: Arc<str>,
    /// The other files, by their paths in the skill's folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<Arc<str>>,
    /// The rule patterns of the tools that calls are narrowed to once the skill is loaded. `None` if it narrows nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<Arc<str>>>,
    /// The skill's folder.
    pub folder: SkillFolder,
    /// True if others wrote the skill: it belongs neither to the program nor to a pinned library.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untrusted: bool,
}

/// The folder of a skill.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkillFolder {
    /// A folder of the worker's own package, by its path below the root.
    Own(String),
    /// An installed folder.
    Installed(Place),
}

impl Skill {
    fn place(&self, worker: &WorkerDefinition) -> Place {
        match &self.folder {
            SkillFolder::Own(path) => worker.root.join(path),
            SkillFolder::Installed(place) => place.clone(),
        }
    }

    /// Returns the virtual path of the skill's folder.
    fn at(&self) -> VirtualPath {
        VirtualPath::root().join(FOLDER).join(&self.name)
    }
}

/// Adds the skills that the front end has found to a worker's configuration of the toolset.
pub fn with_skills(configuration: &mut Value, skills: &[Skill]) {
    if let (Value::Object(map), Ok(found)) = (configuration, serde_json::to_value(skills)) {
        map.insert(FOUND.to_owned(), found);
    }
}

/// Reads the skills of a configuration.
fn skills(configuration: &Value) -> Vec<Skill> {
    let found = configuration.get(FOUND).map(Vec::<Skill>::deserialize);
    found.and_then(Result::ok).unwrap_or_default()
}

/// Returns the folders that are searched for skills, in plain form. The root itself is left out: if it were protected,
/// nothing in the program could be written.
fn searched(configuration: &Value) -> Vec<String> {
    let paths: Vec<&str> = match configuration.get(PATHS).and_then(Value::as_array) {
        Some(paths) => paths.iter().filter_map(Value::as_str).collect(),
        None => DEFAULT.to_vec(),
    };
    let plain = paths.into_iter().map(|path| {
        path.split('/').filter(|part| !part.is_empty() && *part != ".").collect::<Vec<_>>().join("/")
    });
    plain.filter(|path| !path.is_empty()).collect()
}

/// Reads one skill of a configuration.
fn skill(configuration: &Value, name: &str) -> Option<Skill> {
    let found = configuration.get(FOUND)?.as_array()?;
    let found = found.iter().find(|skill| skill.get("name").and_then(Value::as_str) == Some(name))?;
    Skill::deserialize(found).ok()
}

/// The toolset kind `skills`.
pub struct Skills;

impl ToolsetKind for Skills {
    fn name(&self) -> &'static str {
        "skills"
    }
    fn tools(&self) -> &'static [&'static str] {
        &[SKILL]
    }
    fn reserves_everywhere(&self) -> bool {
        false
    }
    fn risk(&self, tool: &str) -> Option<Risk> {
        (tool == SKILL).then_some(Risk::Read)
    }
    fn input(&self, tool: &str) -> Option<Schema> {
        (tool == SKILL).then(input)
    }
    fn has_main_argument(&self, tool: &str) -> bool {
        tool == SKILL
    }
    fn may_ask(&self, _: &WorkerDefinition, _: &Value, _: Option<&[String]>) -> bool {
        false
    }
    fn skill_folders(&self) -> Option<SkillFolders> {
        Some(SkillFolders { property: PATHS, default: DEFAULT })
    }
    fn narrows(&self, configuration: &Value, arguments: Option<&Value>, result: &Value) -> Option<Narrowed> {
        let loaded = arguments.map(name).or_else(|| result.get(SKILL)?.as_str())?;
        let skill = skill(configuration, loaded)?;
        let by = format!("the skill `{}` is loaded, whose `allowed-tools` do not have it", skill.name);
        Some(Narrowed {
            to: skill.allowed_tools.clone()?,
            by: by.into(),
            readable: VirtualPath::root().join(FOLDER),
        })
    }
    fn executes(&self, worker: &WorkerDefinition, configuration: &Value, _: &[Place]) -> Executed {
        // A skill that a run makes would be a part of the program the next time.
        let folders = searched(configuration).into_iter().map(|folder| worker.root.join(&folder));
        let files = skills(configuration).iter().map(|skill| skill.place(worker)).chain(folders).collect();
        Executed { files, importing: Vec::new() }
    }
    fn has_mounts(&self) -> bool {
        true
    }
    fn mounts(&self, worker: &WorkerDefinition, configuration: &Value) -> Vec<Mount> {
        let with_files = skills(configuration).into_iter().filter(|skill| !skill.files.is_empty());
        let mounts = with_files.map(|skill| Mount {
            origin: MountOrigin::Declared,
            untrusted: skill.untrusted,
            ..Mount::new(skill.at(), skill.place(worker), Access::Read)
        });
        mounts.collect()
    }
    fn configuration(&self) -> Schema {
        Schema::of_keys(json!({
            PATHS: {
                "type": "array",
                "items": {"type": "string", "minLength": 1},
                "description": "The folders with skills, below the root. Default: skills, .agents/skills, .claude/skills",
            },
        }))
    }
}

impl ToolsetRuntime for Skills {
    fn build<'a>(
        &'a self,
        configuration: &'a Value,
        context: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Result<Vec<Function>, String>> {
        Box::pin(async {
            let skills = skills(configuration);
            Ok(if skills.is_empty() { Vec::new() } else { vec![function(skills, context)] })
        })
    }
}

/// Returns the name in the arguments of a call.
fn name(input: &Value) -> &str {
    input.get("name").and_then(Value::as_str).unwrap_or_default()
}

fn input() -> Schema {
    Schema::built_in(json!({
        "type": "object",
        "properties": {"name": {"type": "string", "description": "The name of the skill."}},
        "required": ["name"],
        "additionalProperties": false,
    }))
}

fn function(skills: Vec<Skill>, context: &ToolsetContext<'_>) -> Function {
    Function {
        meta: FunctionMeta {
            source: FunctionSource::Toolset("skills".into()),
            name: SKILL.into(),
            tool_name: SKILL.into(),
            aliases: &[],
            description: description(&skills).into(),
            input: Arc::new(input()),
            output: None,
            risk: Risk::Read,
            concurrency: Concurrency::ByRisk,
            timeout: None,
            contained: false,
            results: ResultOrigin::Trusted,
            wildcard: false,
            policy: context.policy.clone(),
        },
        body: Implementation::Leaf(Arc::new(Load { skills })),
        rule: None,
    }
}

/// Describes the tool with all skills. Words of others would come before anything that a rule could judge, so an
/// untrusted skill has only its name here.
fn description(skills: &[Skill]) -> String {
    let mut text = "Loads a skill: instructions for one kind of task, and the paths of files for it. Load the skill that \
                    fits before you begin such a task, and follow its instructions. The skills are:"
        .to_owned();
    for Skill { name, description, untrusted, .. } in skills {
        // Writing to a `String` does not fail.
        let _ = match untrusted {
            true => write!(
                text,
                "\n- {name} (from outside the program, and not pinned; its description is not shown)"
            ),
            false => write!(text, "\n- {name}: {description}"),
        };
    }
    text
}

/// The tool that loads a skill.
struct Load {
    skills: Vec<Skill>,
}

impl Leaf for Load {
    fn effects(&self, input: &Value) -> Effects {
        Effects { main: MainArgument::Texts(vec![name(input).to_owned()]), ..Effects::default() }
    }

    fn identity(&self) -> BoxFuture<'_, Option<Arc<str>>> {
        let identity = sha256(canonical(&json!(self.skills)).as_bytes());
        Box::pin(async { Some(identity.into()) })
    }

    fn run<'a>(&'a self, call: LeafCall<'a>) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        let name = name(call.input);
        let output = match self.skills.iter().find(|skill| *skill.name == *name) {
            Some(skill) => Ok(loaded(skill)),
            None => {
                let names: Vec<&str> = self.skills.iter().map(|skill| &*skill.name).collect();
                Err(ToolError::new(format!(
                    "There is no skill `{name}`. The skills are: {}.",
                    names.join(", ")
                )))
            }
        };
        Box::pin(async { output })
    }
}

/// Returns a skill as its model reads it.
fn loaded(skill: &Skill) -> ToolOutput {
    let mut value = json!({SKILL: skill.name, "instructions": skill.instructions});
    if !skill.files.is_empty() {
        let folder = skill.at();
        let listed = skill.files.iter().take(MOST_LISTED).map(|path| folder.join(path).to_string());
        value["files"] = listed.collect::<Vec<_>>().into();
        if let Some(more) = skill.files.len().checked_sub(MOST_LISTED).filter(|more| *more > 0) {
            value["files_not_listed"] = more.into();
        }
    }
    if let Some(allowed) = &skill.allowed_tools {
        value["allowed_tools"] = json!(allowed);
    }
    let origins = skill.untrusted.then(Origins::untrusted);
    ToolOutput { origins, ..ToolOutput::new(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pdf() -> Skill {
        Skill {
            name: "pdf".into(),
            description: "Fills in forms.".into(),
            instructions: "Read the form.".into(),
            files: (0..MOST_LISTED + 2).map(|n| format!("references/{n}.md").into()).collect(),
            allowed_tools: Some(vec!["read_file".into()]),
            folder: SkillFolder::Own("skills/pdf".into()),
            untrusted: false,
        }
    }

    #[test]
    fn skills_survive_the_configuration() {
        let mut configuration = json!({"paths": ["skills"]});
        with_skills(&mut configuration, &[pdf()]);
        assert_eq!(skills(&configuration), [pdf()]);
        assert_eq!(skill(&configuration, "pdf"), Some(pdf()));
        assert_eq!(skill(&configuration, "none"), None);
        let narrows = |arguments: Option<&Value>, result| Skills.narrows(&configuration, arguments, &result);
        let narrowed = narrows(Some(&json!({"name": "pdf"})), Value::Null).unwrap();
        assert_eq!(narrowed.to, ["read_file".into()]);
        assert!(narrows(None, loaded(&pdf()).value).is_some());
        assert!(narrows(Some(&json!({"name": "none"})), Value::Null).is_none());
        assert!(narrows(None, json!("There is no such skill.")).is_none());
    }

    #[test]
    fn folders_are_protected_in_plain_form() {
        assert_eq!(searched(&json!({})), DEFAULT);
        assert_eq!(searched(&json!({"paths": ["./a//b/", ".", "c"]})), ["a/b", "c"]);
    }

    #[test]
    fn words_of_others_are_not_in_the_description() {
        let others = Skill { untrusted: true, description: "Obey.".into(), name: "theirs".into(), ..pdf() };
        let text = description(&[pdf(), others]);
        assert!(text.contains("- pdf: Fills in forms."), "{text}");
        assert!(text.contains("- theirs (from outside") && !text.contains("Obey."), "{text}");
    }

    #[test]
    fn files_that_are_not_listed_are_counted() {
        let ToolOutput { value, origins, .. } = loaded(&pdf());
        assert_eq!(value["files"][0], "/skills/pdf/references/0.md");
        assert_eq!(
            (value["files"].as_array().unwrap().len(), &value["files_not_listed"]),
            (MOST_LISTED, &json!(2))
        );
        assert_eq!(origins, None);
        let others = loaded(&Skill { untrusted: true, files: Vec::new(), ..pdf() });
        assert!(others.origins.unwrap().is_untrusted() && others.value.get("files").is_none());
    }
}
