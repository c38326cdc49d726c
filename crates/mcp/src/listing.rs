//! The tools of servers as data, as they are recorded, and the functions that they become.

use crate::{
    configuration::qualified,
    known::{Definition, name_of},
};
use llm_do_core::{
    function::{Risk, tool_name},
    schema::{Schema, sha256},
};
use rmcp::model::Tool;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// The tools of each server, by the name of the server.
pub(crate) type Listed = BTreeMap<String, Vec<Definition>>;

/// Most bytes of a tool's schemas and annotations.
const LARGEST_DEFINITION: usize = 64 << 10;

/// Most characters of a description that a model is shown.
const LONGEST_DESCRIPTION: usize = 4000;

/// Returns the parts of a tool that a model and the gate need: no icons, no metadata of the protocol.
pub(crate) fn definition(tool: Tool) -> Definition {
    let mut all = json!(tool);
    if let Some(fields) = all.as_object_mut() {
        fields.retain(|name, _| name != "icons" && name != "_meta");
    }
    all
}

/// Does the same for any entry of a list of tools. An entry that is no valid tool gets a definition with the reason.
pub(crate) fn any_definition(listed: Value) -> Definition {
    match serde_json::from_value::<Tool>(listed.clone()) {
        Ok(tool) => definition(tool),
        Err(error) => {
            let name = listed.get("name").and_then(Value::as_str);
            json!({"name": name, UNREADABLE: reason(&listed, &error)})
        }
    }
}

/// Returns the reason for which an entry of a list of tools is no valid tool.
fn reason(listed: &Value, error: &serde_json::Error) -> String {
    let Some(fields) = listed.as_object() else {
        let mut shown = listed.to_string();
        if let Some((at, _)) = shown.char_indices().nth(40) {
            shown.replace_range(at.., "…");
        }
        return format!("it is no tool, but {shown}");
    };
    let is_absent = |field: &str| fields.get(field).is_none_or(Value::is_null);
    match ["name", "inputSchema"].into_iter().find(|field| is_absent(field)) {
        Some(field) => format!("it has no `{field}`"),
        None => format!("its definition can't be read: {error}"),
    }
}

/// The key, in a definition that can't be read, of the reason. No field of the protocol has a space in its name.
const UNREADABLE: &str = "llm-do: unreadable";

/// Checks that a tool can be offered.
///
/// # Errors
/// The tool can't be offered; the text gives the reason.
pub(crate) fn check(tool: &Definition) -> Result<(), String> {
    if let Some(reason) = tool.get(UNREADABLE) {
        return Err(reason.as_str().unwrap_or_default().to_owned());
    }
    let name = name_of(tool);
    if name.is_empty() || name.chars().count() > 128 {
        return Err("its name is empty or longer than 128 characters".to_owned());
    }
    if name.chars().any(|c| c.is_whitespace() || c.is_control() || "()*?".contains(c)) {
        return Err("its name has characters that rules can't name".to_owned());
    }
    if tool.to_string().len() > LARGEST_DEFINITION {
        return Err(format!("its definition is longer than {} KiB", LARGEST_DEFINITION >> 10));
    }
    input(tool)?;
    output(tool)?;
    Ok(())
}

/// Returns the schema of a tool's arguments.
///
/// # Errors
/// The definition has no valid schema.
pub(crate) fn input(tool: &Definition) -> Result<Schema, String> {
    let mut schema = tool["inputSchema"].clone();
    let Some(fields) = schema.as_object_mut() else { return Err("its arguments have no schema".to_owned()) };
    match fields.get("type").and_then(Value::as_str) {
        Some("object") => {}
        None if !fields.contains_key("type") => drop(fields.insert("type".to_owned(), "object".into())),
        _ => return Err("its arguments are not an object".to_owned()),
    }
    Schema::new(schema).map_err(|error| format!("the schema of its arguments is invalid: {error}"))
}

/// Returns the schema of a tool's structured results, if it has any.
///
/// # Errors
/// The definition has no valid schema.
pub(crate) fn output(tool: &Definition) -> Result<Option<Schema>, String> {
    let Some(schema) = tool.get("outputSchema") else { return Ok(None) };
    let schema = Schema::new(schema.clone());
    schema.map(Some).map_err(|error| format!("the schema of its results is invalid: {error}"))
}

/// Returns the description as the server writes it, cut at a limit.
pub(crate) fn written(tool: &Definition) -> Option<String> {
    let written = ["description", "title"].into_iter().find_map(|field| tool[field].as_str());
    let text = written.map(str::trim).filter(|text| !text.is_empty())?;
    Some(match text.char_indices().nth(LONGEST_DESCRIPTION) {
        Some((at, _)) => format!("{} […]", &text[..at]),
        None => text.to_owned(),
    })
}

/// Returns the description for a model, marked as words of the server.
pub(crate) fn description(server: &str, tool: &Definition) -> Arc<str> {
    match written(tool) {
        Some(text) => format!("The MCP server `{server}` says: {text}").into(),
        None => format!("The tool `{}` of the MCP server `{server}`.", name_of(tool)).into(),
    }
}

/// Returns the risk that the server's annotations state. Without annotations, the tool may do whatever its process can.
pub(crate) fn risk(tool: &Definition) -> Risk {
    let states = |hint: &str| tool["annotations"][hint].as_bool();
    if states("readOnlyHint") == Some(true) {
        // A search of the web reads, too, and its argument leaves the machine.
        return if states("openWorldHint") == Some(true) { Risk::Network } else { Risk::Read };
    }
    if states("destructiveHint") == Some(true) {
        Risk::Destructive
    } else if states("openWorldHint") == Some(true) {
        Risk::Network
    } else {
        Risk::Exec
    }
}

/// Returns the name that a model sees for each tool, by the tool's name in rules. Names that would be equal get a hash
/// of their names in rules, whatever the order of the tools.
pub(crate) fn tool_names(listed: &Listed) -> HashMap<Arc<str>, Arc<str>> {
    let all = listed
        .iter()
        .flat_map(|(server, tools)| tools.iter().map(move |tool| qualified(server, name_of(tool))));
    let mut same: BTreeMap<String, Vec<Arc<str>>> = BTreeMap::new();
    for name in all {
        same.entry(tool_name(&name)).or_default().push(name);
    }
    let mut names = HashMap::new();
    for (seen, of) in same {
        let alone = of.len() == 1;
        for name in of {
            let seen = match alone {
                true => seen.clone(),
                // Names that models see are ASCII.
                false => format!("{}_{}", &seen[..seen.len().min(55)], &sha256(name.as_bytes())[..8]),
            };
            names.insert(name, seen.into());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str) -> Definition {
        json!({"name": name, "inputSchema": {"type": "object"}})
    }

    #[test]
    fn names_that_would_be_the_same_get_a_hash() {
        let long = "x".repeat(80);
        let listed = Listed::from([("s".to_owned(), vec![tool("a.b"), tool("a b"), tool("c"), tool(&long)])]);
        let names = tool_names(&listed);
        let of = |name: &str| names[&*qualified("s", name)].to_string();
        assert_eq!(of("c"), "s__c");
        assert!(of("a.b").starts_with("s__a_b_") && of("a b").starts_with("s__a_b_"), "{names:?}");
        assert_ne!(of("a.b"), of("a b"));
        assert!(names.values().all(|name| name.len() <= 64), "{names:?}");
    }

    #[test]
    fn descriptions_are_words_of_the_server() {
        let of = |text: &str| description("s", &json!({"name": "t", "description": text}));
        assert_eq!(&*of(" Reads notes. "), "The MCP server `s` says: Reads notes.");
        assert_eq!(&*of(""), "The tool `t` of the MCP server `s`.");
        let long = of(&"ä".repeat(LONGEST_DESCRIPTION + 1));
        assert!(long.ends_with("ä […]") && long.chars().count() < LONGEST_DESCRIPTION + 40, "{long}");
    }

    #[test]
    fn annotations_set_the_risk() {
        let of = |annotations: Value| risk(&json!({"name": "t", "annotations": annotations}));
        assert_eq!(of(json!({"readOnlyHint": true})), Risk::Read);
        assert_eq!(of(json!({"readOnlyHint": true, "openWorldHint": true})), Risk::Network);
        assert_eq!(of(json!({"destructiveHint": true, "openWorldHint": true})), Risk::Destructive);
        assert_eq!(of(json!({"openWorldHint": true})), Risk::Network);
        assert_eq!(of(json!({"destructiveHint": false})), Risk::Exec);
        assert_eq!(risk(&tool("t")), Risk::Exec);
    }

    #[test]
    fn anything_in_a_list_is_a_tool_or_has_a_reason() {
        let of = |listed: Value| check(&any_definition(listed));
        assert_eq!(of(tool("good")), Ok(()));
        for (listed, reason) in [
            (json!({"name": "bare"}), "it has no `inputSchema`"),
            (json!({"name": "bare", "inputSchema": null}), "it has no `inputSchema`"),
            (json!({"inputSchema": {}}), "it has no `name`"),
            (json!({"name": 3, "inputSchema": {}}), "its definition can't be read: "),
            (json!({"name": "t", "inputSchema": []}), "its definition can't be read: "),
            (
                json!({"name": "t", "inputSchema": {}, "annotations": "none"}),
                "its definition can't be read: ",
            ),
            (json!(null), "it is no tool, but null"),
            (json!(["x".repeat(100)]), "it is no tool, but [\"xxx"),
        ] {
            let said = of(listed.clone()).unwrap_err();
            assert!(said.starts_with(reason), "{listed}: {said}");
            assert!(said.len() < 200, "{said}");
        }
    }

    #[test]
    fn a_tool_with_an_unusable_schema_is_not_offered() {
        let of = |schema: Value| check(&json!({"name": "t", "inputSchema": schema}));
        assert_eq!(of(json!({})), Ok(()));
        assert_eq!(of(json!({"type": "object", "properties": {"self": {"$ref": "#"}}})), Ok(()));
        for wrong in [
            json!(3),
            json!({"type": "string"}),
            json!({"type": "object", "properties": {"a": {"type": "nothing"}}}),
            json!({"type": "object", "$ref": "https://elsewhere.example/schema"}),
            json!({"type": "object", "description": "x".repeat(LARGEST_DEFINITION)}),
        ] {
            assert!(of(wrong.clone()).is_err(), "{wrong}");
        }
        assert!(check(&tool("a(b)")).is_err());
    }
}
