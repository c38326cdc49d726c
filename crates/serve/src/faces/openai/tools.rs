//! The tools of a request. A worker uses only its own tools, so a request may contain only two kinds: a function that
//! the client forces the model to call, which asks for typed output, and in Responses the worker's own tools.

use super::{error::Wrong, format::Format};
use llm_do::{Session, core::definition::WorkerMode};
use serde_json::{Map, Value, json};
use std::collections::HashSet;

const TOOLS: &str = "the tools of a worker are its own: leave the field out, or force one function whose parameters are the worker's output";

/// The server label of the worker's own tools.
pub(super) const LABEL: &str = "llm-do";

/// The interface that a request is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Face {
    Chat,
    Responses,
}

/// A function of a request.
#[derive(Clone, Copy)]
struct Function<'a> {
    number: usize,
    name: &'a str,
    parameters: Option<&'a Value>,
}

/// The function that a request forces.
pub(super) struct Choice<'a> {
    pub(super) name: &'a str,
    /// The field with its schema.
    place: String,
    schema: &'a Value,
}

/// A function whose call carries the output of the worker.
pub(super) struct Forced {
    name: String,
    format: Format,
}

impl<'a> Choice<'a> {
    /// The function that `tool_choice` forces among `tools`.
    ///
    /// # Errors
    /// The request has tools for the worker.
    pub(super) fn of(given: &'a Map<String, Value>, face: Face) -> Result<Option<Self>, Wrong> {
        let functions = functions(given.get("tools"), face)?;
        let unsupported = |field: &str, why: &str| Wrong::field(field, why).named("unsupported_parameter");
        let chosen = match given.get("tool_choice") {
            None | Some(Value::Null) => None,
            Some(Value::String(choice)) if choice == "auto" || choice == "none" => None,
            Some(Value::String(choice)) if choice == "required" => match functions[..] {
                [function] => Some(function),
                _ => {
                    return Err(unsupported(
                        "tool_choice",
                        "`required` needs exactly one function in `tools`",
                    ));
                }
            },
            Some(choice) => {
                let name = choice.get("function").unwrap_or(choice).get("name").and_then(Value::as_str);
                let name = name.filter(|_| choice["type"] == "function");
                let name = name.ok_or_else(|| unsupported("tool_choice", TOOLS))?;
                let found = functions.iter().find(|function| function.name == name);
                Some(*found.ok_or_else(|| Wrong::field("tool_choice", "it names no function of `tools`"))?)
            }
        };
        let Some(Function { number, name, parameters }) = chosen else {
            return match functions.is_empty() {
                true => Ok(None),
                false => Err(unsupported("tools", TOOLS)),
            };
        };
        let place = match face {
            Face::Chat => format!("tools[{number}].function.parameters"),
            Face::Responses => format!("tools[{number}].parameters"),
        };
        let schema = parameters.ok_or_else(|| Wrong::field(&place, "it is missing"))?;
        Ok(Some(Self { name, place, schema }))
    }

    /// Converts the choice to the forced function, if the worker's output fits its parameters.
    ///
    /// # Errors
    /// The worker returns something else.
    pub(super) fn from(self, session: &Session, face: Face) -> Result<Forced, Wrong> {
        let Self { name, place, schema } = self;
        let entry = session.entry();
        if face == Face::Responses && entry.mode == WorkerMode::Chat && entry.code.is_none() {
            let why = format!("`{}` is a chat: its answers are words", entry.id);
            return Err(Wrong::field("tool_choice", why));
        }
        let format = Format::schema(&place, schema, session)?;
        Ok(Forced { name: name.to_owned(), format })
    }
}

impl Forced {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The arguments of the call that carries that output.
    ///
    /// # Errors
    /// The output does not fit the schema of the function.
    pub(super) fn arguments(&self, output: &Value) -> Result<String, String> {
        self.format.accepts(output)?;
        match output.is_object() {
            true => Ok(output.to_string()),
            false => Err("it is no object, and arguments are one".into()),
        }
    }
}

/// The functions of `tools`.
fn functions(tools: Option<&Value>, face: Face) -> Result<Vec<Function<'_>>, Wrong> {
    let tools = match tools {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(tools)) => tools,
        Some(_) => return Err(Wrong::field("tools", "must be an array")),
    };
    let mut functions = Vec::new();
    for (number, tool) in tools.iter().enumerate() {
        match tool["type"].as_str() {
            Some("function") => {
                // Chat Completions has the function one level deeper.
                let (function, place) = match face {
                    Face::Chat => (&tool["function"], format!("tools[{number}].function.name")),
                    Face::Responses => (tool, format!("tools[{number}].name")),
                };
                let name = function["name"].as_str().filter(|name| !name.is_empty());
                let name = name.ok_or_else(|| Wrong::field(place, "must be a string"))?;
                let parameters = function.get("parameters").filter(|parameters| !parameters.is_null());
                functions.push(Function { number, name, parameters });
            }
            Some("mcp") if face == Face::Responses => own_tools(&format!("tools[{number}]"), tool)?,
            _ => return Err(Wrong::field("tools", TOOLS).named("unsupported_parameter")),
        }
    }
    Ok(functions)
}

/// Accepts the worker's own tools under their label, which changes nothing: approval requests are there in any case.
fn own_tools(place: &str, tool: &Value) -> Result<(), Wrong> {
    let wrong = |name: &str, why: &str| {
        Err(Wrong::field(format!("{place}.{name}"), why).named("unsupported_parameter"))
    };
    let fields = tool.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    for (name, value) in fields {
        match &**name {
            "type" => {}
            "server_label" if value == LABEL => {}
            "server_label" => {
                return wrong(name, "only `llm-do`, the worker's own tools: it connects to no other server");
            }
            "require_approval" if value == "always" => {}
            "require_approval" => {
                return wrong(
                    name,
                    "the rules of the worker decide which calls ask: leave it out, or send `always`",
                );
            }
            _ => return wrong(name, "the tools of `llm-do` are the worker's own: leave it out"),
        }
    }
    match tool.get("server_label") {
        Some(Value::String(_)) => Ok(()),
        _ => Err(Wrong::field(format!("{place}.server_label"), "it is missing")),
    }
}

/// The calls of the forced function in a conversation that the client keeps, which carried earlier outputs of the worker.
pub(super) struct EarlierCalls<'a> {
    forced: Option<&'a str>,
    ids: HashSet<&'a str>,
}

impl<'a> EarlierCalls<'a> {
    pub(super) fn of(forced: Option<&'a str>) -> Self {
        Self { forced, ids: HashSet::new() }
    }

    /// Returns true if the request forces a function, so that the conversation can contain calls of it.
    pub(super) fn are_expected(&self) -> bool {
        self.forced.is_some()
    }

    /// Returns the arguments of a call, which are the worker's message.
    pub(super) fn call(
        &mut self,
        place: &str,
        id: Option<&'a Value>,
        function: &'a Value,
    ) -> Result<&'a str, Wrong> {
        let name = function["name"].as_str();
        if self.forced.is_none() || name != self.forced {
            return Err(Wrong::field(place, "the tools of a worker are its own"));
        }
        let id = id.and_then(Value::as_str).ok_or_else(|| Wrong::field(place, "its ID must be a string"))?;
        self.ids.insert(id);
        let arguments = function["arguments"].as_str();
        arguments.ok_or_else(|| Wrong::field(place, "`arguments` must be a string"))
    }

    /// Checks that a result belongs to an earlier call.
    pub(super) fn result(&self, place: &str, id: Option<&Value>) -> Result<(), Wrong> {
        match id.and_then(Value::as_str).is_some_and(|id| self.ids.contains(id)) {
            true => Ok(()),
            false => Err(Wrong::field(
                place,
                "the tools of a worker are its own: a client has results of the function that it forces, and of no other",
            )),
        }
    }
}

/// The ID of the call with the output of that run.
pub(super) fn call_id(run: &str) -> String {
    format!("call_{run}")
}

/// The call in the form of Chat Completions.
pub(super) fn chat_call(run: &str, name: &str, arguments: &str) -> Value {
    json!({"id": call_id(run), "type": "function", "function": {"name": name, "arguments": arguments}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forced(request: &Value, face: Face) -> Result<Option<(String, String)>, String> {
        let fields = request.as_object().expect("an object");
        Choice::of(fields, face)
            .map(|choice| choice.map(|choice| (choice.name.to_owned(), choice.place)))
            .map_err(|wrong| wrong.body()["error"]["param"].as_str().unwrap_or("").to_owned())
    }

    #[test]
    fn one_function_can_be_forced_and_no_tool_can_be_offered() {
        let function = |name: &str| json!({"type": "function", "function": {"name": name, "parameters": {}}});
        let named = |name: &str| json!({"type": "function", "function": {"name": name}});
        let (f, g) = (function("f"), function("g"));
        for (tools, choice, found) in [
            (json!([]), json!("auto"), Ok(None)),
            (json!(null), json!(null), Ok(None)),
            (json!([f]), json!("required"), Ok(Some("tools[0].function.parameters"))),
            (json!([f, g]), named("g"), Ok(Some("tools[1].function.parameters"))),
            (json!([f]), json!("auto"), Err("tools")),
            (json!([f]), json!("none"), Err("tools")),
            (json!([f, g]), json!("required"), Err("tool_choice")),
            (json!([]), json!("required"), Err("tool_choice")),
            (json!([f]), named("g"), Err("tool_choice")),
            (json!([f]), json!({"type": "custom", "name": "f"}), Err("tool_choice")),
            (json!([f]), json!(7), Err("tool_choice")),
            (
                json!([{"type": "function", "function": {"name": "f"}}]),
                named("f"),
                Err("tools[0].function.parameters"),
            ),
            (json!([{"type": "function"}]), json!("required"), Err("tools[0].function.name")),
            (json!([{"type": "mcp", "server_label": "llm-do"}]), json!(null), Err("tools")),
            (json!({}), json!(null), Err("tools")),
        ] {
            let request = json!({"tools": tools, "tool_choice": choice});
            let place = forced(&request, Face::Chat).map(|found| found.map(|(_, place)| place));
            assert_eq!(place.as_ref().map(Option::as_deref).map_err(|param| &**param), found, "{request}");
        }
    }

    #[test]
    fn own_tools_are_accepted_in_responses_by_their_label_alone() {
        for (tool, refused) in [
            (json!({"type": "mcp", "server_label": "llm-do"}), None),
            (
                json!({"type": "mcp", "server_label": "llm-do", "require_approval": "always", "headers": null}),
                None,
            ),
            (
                json!({"type": "mcp", "server_label": "llm-do", "require_approval": "never"}),
                Some("tools[0].require_approval"),
            ),
            (
                json!({"type": "mcp", "server_label": "llm-do", "server_url": "https://example.org"}),
                Some("tools[0].server_url"),
            ),
            (json!({"type": "mcp", "server_label": "other"}), Some("tools[0].server_label")),
            (json!({"type": "mcp"}), Some("tools[0].server_label")),
            (json!({"type": "web_search"}), Some("tools")),
        ] {
            let request = json!({"tools": [tool]});
            assert_eq!(forced(&request, Face::Responses).err().as_deref(), refused, "{request}");
        }
    }
}
