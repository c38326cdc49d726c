//! Sets that a condition compares an argument with: a list, the values of a file, or those of a tool's result.

use super::number::{equal, is_scalar, same_type};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{fmt, str::FromStr, sync::Arc};

/// The values of a set, or the reason why it can't be read. A test against a set that can't be read can't be decided.
pub type Values = Result<Arc<[Value]>, Arc<str>>;

/// Reads a file's set that a rule names. The error contains the reason of a failure.
pub type ReadSet<'a> = &'a dyn Fn(&FileSet) -> Result<Vec<Value>, String>;

/// The values of a JSON file: `@FILE#POINTER`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSet {
    /// The file, as the rule names it.
    pub file: Arc<str>,
    /// The place of the values in the file; the whole file if it is empty.
    pub at: Pointer,
}

/// A set of values.
#[derive(Clone, Debug, PartialEq)]
pub enum Set {
    /// Values that are known when the rule is read.
    Known(KnownSet),
    /// Values that a tool returns at the start of a run.
    Tool(ToolSet),
}

/// A set that is known when the rule is read.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownSet {
    /// The source file; `None` if the values are written in the rule itself.
    file: Option<FileSet>,
    values: Values,
}

/// The values of a tool's result: `in: {tool: list_payees, at: "/*/iban"}`. The tool has the risk `read` and is called
/// without arguments, before the first request of the run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ToolSet {
    /// The tool, by its name.
    pub tool: Arc<str>,
    /// The place of the values in the tool's result; the whole result if absent.
    #[serde(default, skip_serializing_if = "Pointer::is_root")]
    pub at: Pointer,
}

/// A JSON Pointer (RFC 6901) in which `*` names every element of a list and every value of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Pointer {
    parts: Vec<String>,
}

/// A text that is not a pointer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a JSON Pointer: write `/key/0/key`, with `*` for each element")]
pub struct BadPointer(pub String);

/// The sets of a run that tools returned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolSets {
    known: Vec<(ToolSet, Values)>,
}

impl Set {
    /// Creates a set whose values are written in the rule itself.
    ///
    /// # Errors
    /// A value is not a scalar, or there is none.
    pub fn listed(values: Vec<Value>) -> Result<Self, String> {
        if let Some(other) = values.iter().find(|value| !is_scalar(value)) {
            return Err(format!("a set holds texts, numbers, `true` and `false`, not `{other}`"));
        }
        if values.is_empty() {
            return Err("a set without values matches nothing".into());
        }
        Ok(Self::Known(KnownSet { file: None, values: Ok(values.into()) }))
    }

    /// The set of `FILE#POINTER`, the text after `@`.
    ///
    /// # Errors
    /// The pointer is not valid, or no file is named. A file that can't be read gives a set that can't be read.
    pub fn of_file(reference: &str, read: ReadSet<'_>) -> Result<Self, String> {
        let (file, pointer) = match reference.split_once('#') {
            Some((file, pointer)) => (file, pointer.parse::<Pointer>().map_err(|error| error.to_string())?),
            None => (reference, Pointer::default()),
        };
        if file.is_empty() {
            return Err("the name of a file is missing behind `@`".into());
        }
        let file = FileSet { file: file.into(), at: pointer };
        let values = read(&file).map(Arc::from).map_err(Arc::from);
        Ok(Self::Known(KnownSet { file: Some(file), values }))
    }

    /// The file that the set is read from, as the rule names it.
    pub fn file(&self) -> Option<&FileSet> {
        match self {
            Self::Known(known) => known.file.as_ref(),
            Self::Tool(_) => None,
        }
    }

    /// Returns true if the values are known when the rule is read.
    pub fn is_known(&self) -> bool {
        matches!(self, Self::Known(_))
    }

    /// The values of the set, if they are known.
    pub fn values<'a>(&'a self, sets: &'a ToolSets) -> Result<&'a [Value], Arc<str>> {
        let values = match self {
            Self::Known(known) => Some(&known.values),
            Self::Tool(set) => sets.get(set),
        };
        match (values, self) {
            (Some(Ok(values)), _) => Ok(values),
            (Some(Err(reason)), _) => Err(Arc::clone(reason)),
            (None, _) => Err(format!("{self} is only known in a run").into()),
        }
    }
}

impl FileSet {
    /// The values of the set in the text of the file.
    ///
    /// # Errors
    /// The text is not JSON, or the pointer leads to no values.
    pub fn values(&self, text: &str) -> Result<Vec<Value>, String> {
        let Self { file, at } = self;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let whole =
            serde_json::from_str(text).map_err(|error| format!("`{file}` is not valid JSON: {error}"))?;
        at.values(&whole).map_err(|reason| format!("`{file}`: {reason}"))
    }
}

impl fmt::Display for FileSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hash = if self.at.is_root() { "" } else { "#" };
        let text = format!("@{}{hash}{}", self.file, self.at);
        // A bare word ends with a blank.
        if text.contains(char::is_whitespace) {
            write!(f, "{}", Value::from(text))
        } else {
            f.write_str(&text)
        }
    }
}

/// Returns true if a set contains a value; `None` if it has no value of that type.
pub(super) fn holds(values: &[Value], value: &Value) -> Option<bool> {
    if values.iter().any(|one| equal(one, value)) {
        return Some(true);
    }
    values.iter().any(|one| same_type(one, value)).then_some(false)
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(KnownSet { file: Some(file), .. }) => write!(f, "{file}"),
            Self::Known(KnownSet { values, .. }) => match values {
                Ok(values) => write!(f, "{}", Value::from(values.to_vec())),
                Err(reason) => f.write_str(reason),
            },
            Self::Tool(set) => f.write_str(&serde_json::to_string(set).map_err(|_| fmt::Error)?),
        }
    }
}

impl Pointer {
    fn is_root(&self) -> bool {
        self.parts.is_empty()
    }

    /// The scalars that the pointer leads to; for a list, each element.
    ///
    /// # Errors
    /// The pointer leads to no value, or to a value that is not a scalar.
    pub fn values(&self, whole: &Value) -> Result<Vec<Value>, String> {
        let mut level: Vec<&Value> = vec![whole];
        for part in &self.parts {
            let mut next: Vec<&Value> = Vec::new();
            for value in level {
                match (part.as_str(), value) {
                    ("*", Value::Array(items)) => next.extend(items),
                    ("*", Value::Object(map)) => next.extend(map.values()),
                    (index, Value::Array(items)) => {
                        next.extend(index.parse::<usize>().ok().and_then(|index| items.get(index)));
                    }
                    (key, Value::Object(map)) => next.extend(map.get(key)),
                    _ => {}
                }
            }
            level = next;
        }
        let mut values = Vec::new();
        for value in level {
            match value {
                Value::Array(items) => values.extend(items.iter().cloned()),
                other => values.push(other.clone()),
            }
        }
        let shown = if self.is_root() { "it".to_owned() } else { format!("`{self}`") };
        match values.iter().find(|value| !is_scalar(value)) {
            Some(_) => Err(format!("{shown} does not lead to texts, numbers, `true` or `false`")),
            None if values.is_empty() => Err(format!("{shown} holds no values")),
            None => Ok(values),
        }
    }
}

impl FromStr for Pointer {
    type Err = BadPointer;

    fn from_str(text: &str) -> Result<Self, BadPointer> {
        let bad = || BadPointer(text.to_owned());
        if text.is_empty() {
            return Ok(Self::default());
        }
        let parts = text.strip_prefix('/').ok_or_else(bad)?.split('/');
        let parts = parts.map(|part| {
            let escapes = part.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
            escapes.then(|| part.replace("~1", "/").replace("~0", "~"))
        });
        Ok(Self { parts: parts.collect::<Option<_>>().ok_or_else(bad)? })
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| write!(f, "/{}", part.replace('~', "~0").replace('/', "~1")))
    }
}

impl From<Pointer> for String {
    fn from(pointer: Pointer) -> Self {
        pointer.to_string()
    }
}

impl TryFrom<String> for Pointer {
    type Error = BadPointer;

    fn try_from(text: String) -> Result<Self, BadPointer> {
        text.parse()
    }
}

impl ToolSets {
    /// No sets.
    pub const fn none() -> Self {
        Self { known: Vec::new() }
    }

    /// Adds the values of a tool, or the reason why there are none.
    pub fn insert(&mut self, set: ToolSet, values: Values) {
        self.known.push((set, values));
    }

    /// Returns true if there are no sets.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    fn get(&self, set: &ToolSet) -> Option<&Values> {
        self.known.iter().find(|(known, _)| known == set).map(|(_, values)| values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn values(reference: &str, text: &'static str) -> Result<Vec<Value>, String> {
        let set = Set::of_file(reference, &|set| set.values(text))?;
        let values = set.values(&ToolSets::default()).map(<[Value]>::to_vec);
        values.map_err(|reason| reason.to_string())
    }

    #[test]
    fn a_pointer_collects_every_value_behind_a_star() {
        let text =
            r#"{"a": [{"iban": "X"}, {"iban": "Y"}, {}], "odd~/key": [1, 2], "m": {"p": {"q": true}}}"#;
        assert_eq!(values("f#/a/*/iban", text), Ok(vec![json!("X"), json!("Y")]));
        assert_eq!(values("f#/odd~0~1key", text), Ok(vec![json!(1), json!(2)]));
        assert_eq!(values("f#/m/*/q", text), Ok(vec![json!(true)]));
        assert_eq!(values("f", "[\"x\"]"), Ok(vec![json!("x")]));
    }

    #[test]
    fn a_set_that_can_not_be_read_says_why() {
        for (reference, text, reason) in [
            ("f#/a", "{}", "`f`: `/a` holds no values"),
            ("f#/a/*", r#"{"a": [{}]}"#, "`f`: `/a/*` does not lead to texts"),
            ("f", "not json", "`f` is not valid JSON"),
            ("f#a", "{}", "`a` is not a JSON Pointer"),
            ("f#/~2", "{}", "is not a JSON Pointer"),
            ("#/a", "{}", "the name of a file is missing"),
        ] {
            let found = values(reference, text).unwrap_err();
            assert!(found.contains(reason), "{found}");
        }
    }

    #[test]
    fn a_value_of_a_type_that_the_set_lacks_can_not_be_decided() {
        let set = [json!("1"), json!(2)];
        assert_eq!(holds(&set, &json!(2.0)), Some(true));
        assert_eq!(holds(&set, &json!("2")), Some(false));
        assert_eq!(holds(&set, &json!(true)), None);
    }
}
