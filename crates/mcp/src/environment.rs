//! Variables of llm-do's environment, and values that contain them.

use llm_do_core::toolset::Requirement;
use std::{collections::BTreeMap, sync::Arc};

/// Looks up an environment variable.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Returns the variables in these values, as requirements that the operator must grant.
pub(crate) fn variables<'a>(values: impl Iterator<Item = &'a String>) -> impl Iterator<Item = Requirement> {
    values.flat_map(|value| parts(value)).filter_map(|part| match part {
        Part::Variable(name) => Some(Requirement::Variable(name.into())),
        Part::Text(_) => None,
    })
}

/// Replaces `${NAME}` in these values by variables of llm-do's environment. `key` is the key of the configuration that
/// has the values.
///
/// # Errors
/// A variable is not granted or not set.
pub(crate) fn filled(
    key: &str,
    values: &BTreeMap<String, String>,
    granted: impl Fn(&str) -> bool,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<Vec<(String, String)>, String> {
    let value = |text: &String| -> Result<String, String> {
        let parts = parts(text).into_iter().map(|part| match part {
            Part::Text(text) => Ok(text.to_owned()),
            Part::Variable(name) if !granted(name) => Err(format!(
                "`{key}` needs the variable {name}, which is not granted: add `--grant env={name}`"
            )),
            Part::Variable(name) => {
                lookup(name).ok_or_else(|| format!("`{key}` needs the variable {name}, which is not set"))
            }
        });
        parts.collect()
    };
    values.iter().map(|(name, text)| Ok((name.clone(), value(text)?))).collect()
}

/// A part of a value of `env` or `headers`.
#[derive(Debug, PartialEq)]
enum Part<'a> {
    Text(&'a str),
    Variable(&'a str),
}

fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else { break };
        parts.extend((!before.is_empty()).then_some(Part::Text(before)));
        parts.push(Part::Variable(name));
        rest = after;
    }
    parts.extend((!rest.is_empty()).then_some(Part::Text(rest)));
    parts
}
