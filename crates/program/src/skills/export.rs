//! A worker as a skill, with which other agents call it (`docs/guides/skills.md`).

use super::{SKILL_FILE, SkillFile, problem};
use crate::source::MemoryTree;
use llm_do_core::{authority::Place, worker::WorkerDefinition};
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// A skill that was written from a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The name of the skill, and of its folder.
    pub name: String,
    /// The text of its `SKILL.md`.
    pub text: String,
}

/// Writes the skill of a worker. `project` is the word for the project's folder in a command.
///
/// # Errors
/// The reason why the worker can't be a skill.
pub fn export(worker: &WorkerDefinition, project: &str) -> Result<Exported, String> {
    let id = &*worker.id;
    let name = name_of(id);
    if problem(&name).is_some() {
        return Err(format!("the name `{id}` can't become the name of a skill"));
    }
    let description = worker.description.as_deref().map(str::trim).filter(|text| !text.is_empty());
    let Some(description) = description else {
        return Err(format!("`{id}` has no `description`, from which an agent knows when to use it"));
    };
    let text = text(worker, &name, description, project);
    let tree = MemoryTree::new(Place::new("/"), [(format!("{name}/{SKILL_FILE}"), text.clone())]);
    let mut found = Vec::new();
    SkillFile::read(&tree, &name, Some(&name), &mut found);
    match found.first() {
        Some(finding) => Err(finding.message.clone()),
        None => Ok(Exported { name, text }),
    }
}

/// Returns the name for a worker: lower-case words with hyphens between them.
fn name_of(id: &str) -> String {
    let words = id.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join("-")
}

fn text(worker: &WorkerDefinition, name: &str, description: &str, project: &str) -> String {
    let id = &worker.id;
    let mut out = format!(
        "---\nname: {name}\ndescription: {}\ncompatibility: Needs the command `llm-do` and its project.\n---\n\n# {name}\n\n\
         {description}\n\nThe worker `{id}` of llm-do does this. Call it from the project's folder:\n\n",
        Value::from(description)
    );
    if worker.signature.declared {
        let input = Value::Object(sample(worker)).to_string().replace('\'', r"'\''");
        // Writing to a `String` does not fail.
        let _ = write!(out, "```sh\nllm-do run {project} --entry {id} --json --input '{input}'\n```\n\n");
        out.push_str("`--input` takes an object with these values, or `@FILE` with the object:\n\n");
        out.push_str("| parameter | type | required | meaning |\n|---|---|---|---|\n");
        for parameter in &worker.signature.parameters {
            let about = property(worker, &parameter.name, "description").and_then(Value::as_str);
            let cell = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
            let _ = writeln!(
                out,
                "| `{}` | {} | {} | {} |",
                parameter.name,
                cell(&parameter.shown_type),
                if parameter.required { "yes" } else { "no" },
                cell(about.unwrap_or_default())
            );
        }
    } else {
        let _ = write!(out, "```sh\nllm-do run {project} 'MESSAGE' --entry {id} --json\n```\n");
    }
    out.push_str("\nThe command prints JSON. `output` is the answer");
    match &worker.returns {
        Some(schema) => {
            let schema = serde_json::to_string_pretty(&**schema.value()).unwrap_or_default();
            let _ = write!(out, ", which fits this schema:\n\n```json\n{schema}\n```\n");
        }
        None => out.push_str(", a text.\n"),
    }
    out.push_str(
        "\nThe exit code is 0 if the run succeeded. If a call waits for an approval, show it to your user; never approve it \
         yourself.\n",
    );
    out
}

/// Returns the value of a keyword in the schema of a parameter.
fn property<'a>(worker: &'a WorkerDefinition, parameter: &str, keyword: &str) -> Option<&'a Value> {
    worker.signature.schema.value().get("properties")?.get(parameter)?.get(keyword)
}

/// Returns an input with a value for each required parameter.
fn sample(worker: &WorkerDefinition) -> Map<String, Value> {
    let required = worker.signature.parameters.iter().filter(|parameter| parameter.required);
    let values = required.map(|parameter| {
        let choice = || property(worker, &parameter.name, "enum")?.get(0).cloned();
        let value = choice().unwrap_or_else(|| {
            match property(worker, &parameter.name, "type").and_then(Value::as_str) {
                Some("integer" | "number") => 1.into(),
                Some("boolean") => true.into(),
                Some("array") => Value::Array(Vec::new()),
                Some("object") => Value::Object(Map::new()),
                _ if parameter.path.is_some() => "PATH".into(),
                _ => "TEXT".into(),
            }
        });
        (parameter.name.to_string(), value)
    });
    values.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_become_names() {
        for (id, name) in
            [("summarizer", "summarizer"), ("reports/stage_1", "reports-stage-1"), ("lib:Ask", "lib-ask")]
        {
            assert_eq!(name_of(id), name);
        }
    }
}
