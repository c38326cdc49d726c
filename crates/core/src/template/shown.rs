//! The inputs that a rendering prints whole, and the place of the first input in its result.
//!
//! A worker's instructions often print its inputs. The parts that were printed are not sent a second time, and the text
//! before the first of them is the same for every call (`docs/reference/loop.md`). An input is identified by the memory
//! address of its texts, which loops, macros and filters that return a value unchanged pass on. The tags
//! `{{ NAME.KEY }}` are also marked in the text for the engine, because numbers and lists have no such address.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minijinja::Value;
use minijinja::value::{Enumerator, Object};
use serde_json::Value as Json;

/// A text made from a template, with the inputs that it shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// The text.
    pub text: String,
    /// The byte of the text at which the first printed input may begin. Everything before it is the same for all values
    /// of the inputs, unless a condition chose it. `None` if no input was printed whole.
    pub begins: Option<usize>,
    /// The variables, and parts of them, that were printed whole, as JSON pointers into the variables.
    pub printed: BTreeSet<String>,
}

/// Watches one rendering.
pub(super) struct Watch {
    variables: Json,
    /// The names of the variables that differ between calls.
    inputs: BTreeSet<String>,
    /// Number of bytes of the result up to now.
    written: Arc<AtomicUsize>,
    state: Mutex<ShownState>,
}

#[derive(Default)]
struct ShownState {
    /// The texts of the variables by their memory address.
    texts: HashMap<usize, String>,
    /// True if an input was looked up since the last value was printed.
    looked_up: bool,
    begins: Option<usize>,
    /// The variable that is printed by the tag under evaluation.
    pending: Option<String>,
    printed: BTreeSet<String>,
    /// The texts that were printed into a macro or a block, which may be printed later: each variable, and the length
    /// of `computed` at that time.
    captured: Vec<(String, usize)>,
    /// The printed texts whose source is not known, such as the results of macros, each before a NUL.
    computed: String,
}

/// Minimal length of a text to search for. A shorter text occurs in another one by chance. If only a macro printed it,
/// it counts as not printed.
const LONG: usize = 16;

/// Greatest number of bytes in which captured texts are searched. Texts beyond count as not printed.
const MOST_SEARCHED: usize = 16 << 20;

impl Watch {
    pub(super) fn new(variables: &Json, inputs: BTreeSet<String>) -> Self {
        Self { variables: variables.clone(), inputs, written: Arc::default(), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, ShownState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The counter of the bytes of the result.
    pub(super) fn written(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.written)
    }

    /// The variables for the engine.
    pub(super) fn context(self: &Arc<Self>) -> Value {
        let mut texts = HashMap::new();
        let members = self.variables.as_object().into_iter().flatten();
        let values = members.map(|(name, value)| {
            let pointer = extended("", name);
            (name.clone(), known(value, &pointer, &mut texts))
        });
        let values = values.collect();
        self.state().texts = texts;
        Value::from_object(Variables { values, watch: Arc::clone(self) })
    }

    /// Returns true if the pointer names a variable or a part of one.
    pub(super) fn has(&self, pointer: &str) -> bool {
        self.variables.pointer(pointer).is_some()
    }

    /// Marks the value that a tag is about to print, and that has the name of a variable. `joined` is true if only the
    /// items of a list are printed.
    pub(super) fn mark(&self, value: &Value, pointer: &str, joined: bool) {
        let Some(variable) = self.variables.pointer(pointer) else { return };
        let is_it = match value.as_str() {
            Some(text) => variable.as_str() == Some(text),
            None => !variable.is_string() && super::to_value(variable) == *value,
        };
        let is_scalar = |item: &Json| !item.is_array() && !item.is_object();
        let is_whole = !joined || variable.as_array().is_some_and(|items| items.iter().all(is_scalar));
        if is_it && is_whole {
            self.state().pending = Some(pointer.to_owned());
        }
    }

    /// Runs a function that prints a value, and notes the inputs that it shows.
    pub(super) fn print<E>(&self, value: &Value, write: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let before = self.written.load(Ordering::Relaxed);
        write()?;
        let is_direct = self.written.load(Ordering::Relaxed) > before;
        let mut state = self.state();
        let known = value.as_str().and_then(|text| state.texts.get(&(text.as_ptr() as usize)).cloned());
        if let (Some(text), true, None) = (value.as_str(), is_direct, &known) {
            state.computed.push_str(text);
            state.computed.push('\0');
        }
        let is_input = known.as_ref().is_some_and(|pointer| self.inputs.contains(&first(pointer)));
        if std::mem::take(&mut state.looked_up) || is_input {
            state.begins.get_or_insert(before);
        }
        for pointer in state.pending.take().into_iter().chain(known) {
            let text = self.variables.pointer(&pointer).and_then(Json::as_str).map(str::trim);
            match text {
                // An empty text is whole wherever it is printed.
                Some(text) if !is_direct && !text.is_empty() => {
                    if text.len() >= LONG && !state.printed.contains(&pointer) {
                        let from = state.computed.len();
                        state.captured.push((pointer, from));
                    }
                }
                None if !is_direct => {}
                _ => {
                    state.printed.insert(pointer);
                }
            }
        }
        Ok(())
    }

    /// Notes the captured texts that were printed with the result of a macro or a block. They are searched in their
    /// order, each after the one before, so that the search usually reads the printed text once.
    fn find_captured(&self, state: &mut ShownState) {
        let (mut left, mut next) = (MOST_SEARCHED, 0);
        let (captured, computed) = (std::mem::take(&mut state.captured), std::mem::take(&mut state.computed));
        for (pointer, from) in captured {
            let text = self.variables.pointer(&pointer).and_then(Json::as_str).map(str::trim);
            let Some(text) = text.filter(|_| !state.printed.contains(&pointer)) else { continue };
            for begin in [next.max(from), from] {
                let end = (begin + left).min(computed.len());
                let end = (begin..=end).rev().find(|at| computed.is_char_boundary(*at)).unwrap_or(begin);
                let within = &computed[begin..end];
                if let Some(at) = within.find(text) {
                    left -= at;
                    next = begin + at + text.len();
                    state.printed.insert(pointer);
                    break;
                }
                left -= within.len();
                if begin == from {
                    break;
                }
            }
        }
    }

    /// The result of the rendering.
    pub(super) fn rendered(&self, text: String) -> Rendered {
        let mut state = self.state();
        self.find_captured(&mut state);
        let printed = std::mem::take(&mut state.printed);
        let of_input = |pointer: &String| self.inputs.contains(&first(pointer));
        let begins = state.begins.filter(|_| printed.iter().any(of_input));
        Rendered { text, begins, printed }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("inputs", &self.inputs).finish_non_exhaustive()
    }
}

/// Extends a pointer by the name of a member.
pub(super) fn extended(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// The name of the variable that a pointer begins with.
fn first(pointer: &str) -> String {
    let name = pointer.split('/').nth(1).unwrap_or_default();
    name.replace("~1", "/").replace("~0", "~")
}

/// Converts a value for the engine. Each text in it gets a memory address of its own.
fn known(json: &Json, pointer: &str, texts: &mut HashMap<usize, String>) -> Value {
    match json {
        Json::String(text) => {
            let text: Arc<str> = Arc::from(text.as_str());
            texts.insert(text.as_ptr() as usize, pointer.to_owned());
            Value::from(text)
        }
        Json::Array(items) => {
            let items = items.iter().enumerate();
            items.map(|(at, item)| known(item, &extended(pointer, &at.to_string()), texts)).collect()
        }
        Json::Object(members) => Value::from_pairs(
            members
                .iter()
                .map(|(name, member)| (name.as_str(), known(member, &extended(pointer, name), texts))),
        ),
        other => super::to_value(other),
    }
}

/// The variables of a rendering. They record each lookup of an input.
#[derive(Debug)]
struct Variables {
    values: HashMap<String, Value>,
    watch: Arc<Watch>,
}

impl Object for Variables {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let name = key.as_str()?;
        let value = self.values.get(name)?;
        if self.watch.inputs.contains(name) {
            self.watch.state().looked_up = true;
        }
        Some(value.clone())
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.values.keys().map(|name| Value::from(name.as_str())).collect())
    }
}

#[cfg(test)]
mod tests {
    use crate::template::{NoTemplates, Origin, Rendered, render_showing};
    use serde_json::json;
    use std::sync::Arc;

    fn shown(text: &str) -> Rendered {
        let variables = json!({
            "text": "A long story about a river.", "n": 3, "items": [{"name": "pear", "price": 2}],
            "tags": ["a", "b"], "kind": "short", "empty": "", "run": {"date": "2026-11-27"},
            "input": {"text": "A long story about a river."},
        });
        let inputs = ["text", "n", "items", "tags", "empty", "input"].map(str::to_owned);
        let source = Arc::new(NoTemplates);
        render_showing(text, &Origin::file("x"), &variables, inputs.into(), source).expect("it renders")
    }

    #[test]
    fn values_that_are_printed_whole_are_known() {
        for (text, printed) in [
            ("{{ text }}", &["/text"][..]),
            ("{{ n }} {{ text|trim }}", &["/n", "/text"]),
            ("{{ input.text }}{{ input['text'] }}", &["/input/text"]),
            ("{{ items|tojson }}", &["/items"]),
            ("{{ tags|join(', ') }}", &["/tags"]),
            ("{% for tag in tags %}{{ tag }}{% endfor %}", &["/tags/0", "/tags/1"]),
            ("{% for item in items %}{{ item.name }}{% endfor %}", &["/items/0/name"]),
            ("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(text) }}", &["/text"]),
            ("{% set x %}{{ text }}{% endset %}{{ x }}", &["/text"]),
            ("{% set x = text %}{{ x }}", &["/text"]),
            ("{% set x %}{% set y %}{{ text }}{% endset %}{{ y }}{% endset %}- {{ x }}", &["/text"]),
            (
                "{% macro m(x) %}{{ caller() }}{% endmacro %}{% call m(1) %}{{ text }}{% endcall %}",
                &["/text"],
            ),
            ("{{ empty }}", &["/empty"]),
            ("{{ kind }}", &["/kind"]),
            // Not whole, or not printed.
            ("{{ text|upper }}{{ text[:3] }}{{ text|length }}", &[]),
            ("{% if text and n > 2 %}x{% endif %}", &[]),
            ("{% set x %}{{ text }}{% endset %}", &[]),
            ("{% set x %}{{ text }}{% endset %}A long story about a river.", &[]),
            ("{% set x %}{{ tags[0] }}{% endset %}a {{ 'a' }}{{ kind|upper }}", &[]),
            ("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(tags[0]) }}", &[]),
            ("{{ 'A long story about a river.' }}{% set x %}{{ text }}{% endset %}", &[]),
            ("{% set x %}{{ text }}{% endset %}{{ text|upper }}{{ x|length }}", &[]),
            ("{% for n in [1] %}{{ n }}{% endfor %}", &[]),
            ("{{ items|join(', ') }}{{ items|join(', ', attribute='price') }}", &[]),
            ("{{ tags|first|upper }}", &[]),
        ] {
            let found: Vec<String> = shown(text).printed.into_iter().collect();
            assert_eq!(found, printed, "{text}");
        }
    }

    #[test]
    fn the_search_for_captured_inputs_is_bounded() {
        let items: Vec<String> = (0..4_000).map(|number| format!("a name with number {number}.")).collect();
        let variables = json!({ "items": items });
        let rendered = |text: &str| {
            let inputs = ["items".to_owned()].into();
            let source = Arc::new(NoTemplates);
            render_showing(text, &Origin::file("x"), &variables, inputs, source).expect("it renders")
        };
        let each = "{% macro m(x) %}- {{ x }}{% endmacro %}{% for item in items %}{{ m(item) }}{% endfor %}";
        assert_eq!(rendered(each).printed.len(), items.len());
        let once = "{% set all %}{% for item in items %}{{ item }}{% endfor %}{% endset %}{{ all }}";
        assert_eq!(rendered(once).printed.len(), items.len());
        let never =
            "{% for item in items %}{% set x %}{{ item }}{% endset %}{% endfor %}{{ 'a name ' * 400000 }}";
        assert!(rendered(never).printed.is_empty());
    }

    #[test]
    fn the_text_before_the_first_input_is_known() {
        for (text, before) in [
            ("Rules.\n\n{{ text }} x", Some("Rules.\n\n")),
            ("On {{ run.date }}: {{ kind }} {{ n }} {{ text }}", Some("On 2026-11-27: short ")),
            ("{% if n > 2 %}Many.{% endif %} {{ text }}", Some("Many. ")),
            ("a {{ text|upper }} b {{ text }}", Some("a ")),
            ("a {% set x = text ~ '!' %}b {{ run.date }} {{ text }}", Some("a b ")),
            ("a {% set x %}{{ text }}{% endset %}b {{ x }}", Some("a ")),
            // Nothing is printed whole, or only what is the same for many calls.
            ("a {{ text|upper }}", None),
            ("a {{ kind }} {{ run.date }}", None),
            ("a", None),
        ] {
            let rendered = shown(text);
            assert_eq!(rendered.begins.map(|at| &rendered.text[..at]), before, "{text}");
        }
    }
}
