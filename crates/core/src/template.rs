//! Instructions and prompts as Jinja2 templates (`docs/reference/templates.md`).
//!
//! [`render`] turns a worker's text into the text for the model, with the syntax and the output format of the Python
//! library. Undefined variables are errors, and `file("X")` inserts a text unchanged. Every name in a template is
//! first checked as a name ([`confine`]) and then read by the front end through a [`TemplateSource`], whose roots are
//! confined as well. This module opens no files. A rendering is bounded in steps, depth and the size of what it builds and
//! prints (`budget`), because a template may come from a library (`docs/reference/sandbox.md`).
//!
//! Differences from the Python library: `docs/reference/templates.md`, held against that library's own cases by
//! `tests/templates/`.

mod arguments;
mod budget;
mod condition;
mod cycler;
mod error;
mod explain;
mod filters;
mod inserting;
mod inspect;
mod instrument;
mod json;
mod macros;
mod methods;
mod name;
mod nesting;
mod noting;
mod percent;
mod print;
mod shown;
mod tags;
mod texts;
mod urlize;
mod widths;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value, value::Kwargs};

pub use inserting::{Insert, InsertArguments};
pub(crate) use inserting::{Inserting, MOST_INSERTS};
pub(crate) use noting::Noting;

use explain::explain;
use shown::Watch;
use texts::Texts;

pub use condition::{check_condition, holds};
pub use error::{Place, TemplateError, TemplateErrorKind};
pub use inspect::{Reference, TemplateFacts, inspect};
pub use name::{TemplateName, TemplateRefusal, confine};
pub use shown::Rendered;
pub use tags::tags;

/// The source of templates and `file()` texts: an ordered list of confined roots (`docs/reference/templates.md`: the
/// worker's `templates/`, its folder, the project's `templates/`, `prompts/`, each library's `templates/`, the built-in
/// ones).
///
/// The names given are already confined lexically; the implementation must follow no symlink out of a root, hide
/// invisible paths (`docs/reference/sandbox.md`) and refuse files that are not UTF-8.
pub trait TemplateSource: Send + Sync {
    /// The text of a template (`x.jinja`, `partials/x.jinja`, `lib:x.jinja`), or `None` if no root has it.
    ///
    /// # Errors
    /// A [`TemplateRefusal`] if the template exists but may not or cannot be read.
    fn template(&self, name: &TemplateName) -> Result<Option<TemplateText>, TemplateRefusal>;

    /// The text of a file for `file("X")`, inserted unchanged, or `None` if no root has it.
    ///
    /// # Errors
    /// A [`TemplateRefusal`] if the file exists but may not or cannot be read.
    fn file(&self, name: &TemplateName) -> Result<Option<TemplateText>, TemplateRefusal>;

    /// The text of a toolset for `file("KIND:NAME", ARGUMENT=…)`, inserted unchanged, or `None` if the name is that of
    /// a file.
    ///
    /// # Errors
    /// A [`TemplateRefusal`] if the text is not available.
    fn inserted(
        &self,
        _name: &TemplateName,
        _arguments: &InsertArguments,
    ) -> Result<Option<TemplateText>, TemplateRefusal> {
        Ok(None)
    }
}

/// Returns the names of all filters.
pub fn filter_names() -> &'static [&'static str] {
    filters::FILTERS
}

/// Returns the names of all tests.
pub fn test_names() -> &'static [&'static str] {
    filters::TESTS
}

/// Returns the names of all functions.
pub fn function_names() -> &'static [&'static str] {
    filters::FUNCTIONS
}

/// A source without any template or file, for self-contained text.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTemplates;

impl TemplateSource for NoTemplates {
    fn template(&self, _: &TemplateName) -> Result<Option<TemplateText>, TemplateRefusal> {
        Ok(None)
    }

    fn file(&self, _: &TemplateName) -> Result<Option<TemplateText>, TemplateRefusal> {
        Ok(None)
    }
}

/// A text that a [`TemplateSource`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateText {
    /// The text.
    pub text: Arc<str>,
    /// The path shown in errors.
    pub origin: String,
    /// The real place of the file, if it has one. It determines the origin of the text.
    pub place: Option<crate::authority::Place>,
}

/// The origin of a text to render, for errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The file shown in errors.
    pub file: String,
    /// The line number, from 1, of the text's first line in that file: in a `.worker` file the front matter precedes
    /// the instructions.
    pub line: usize,
}

impl Origin {
    /// A text that starts at the beginning of its file.
    pub fn file(file: impl Into<String>) -> Self {
        Self { file: file.into(), line: 1 }
    }
}

/// The strictness and the size limits of a rendering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The treatment of an undefined variable.
    pub undefined: Undefined,
    /// Maximum engine instructions in one rendering, with all includes and calls. This limit ends long loops.
    pub steps: u64,
    /// Bytes of the result, of each template and of each `file()`.
    pub output: usize,
    /// Maximum nesting of includes. A macro call counts as about half an include, a block or a loop as a tenth. Each
    /// uses stack: ten fit into a thread's two megabytes even in an unoptimized build.
    pub depth: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { undefined: Undefined::Strict, steps: 250_000, output: 4 << 20, depth: 10 }
    }
}

/// The treatment of an undefined variable. Instructions are always [`Undefined::Strict`]
/// (`docs/reference/templates.md`); the other two are the Python library's own modes, for templates that rely on
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undefined {
    /// An error, except in `is defined` and `|default`.
    Strict,
    /// Prints as nothing, is false; an attribute of it is an error.
    Lenient,
    /// Prints as nothing, is false; an attribute of it is undefined too.
    Chainable,
}

/// Renders `text` with `variables` (a JSON object: parameters by name, `input`, `worker`, `project`, `run`).
///
/// A text without Jinja syntax is returned unchanged, byte for byte (`docs/reference/templates.md`). A rendered text
/// loses one newline at its end, as in the Python library.
///
/// # Errors
/// The place, the problem and a hint: see [`TemplateError`].
pub fn render<'t>(
    text: &'t str,
    origin: &Origin,
    variables: &serde_json::Value,
    source: Arc<dyn TemplateSource>,
) -> Result<Cow<'t, str>, TemplateError> {
    render_with(text, origin, variables, source, Settings::default())
}

/// [`render`] with other [`Settings`].
///
/// # Errors
/// See [`render`].
pub fn render_with<'t>(
    text: &'t str,
    origin: &Origin,
    variables: &serde_json::Value,
    source: Arc<dyn TemplateSource>,
    settings: Settings,
) -> Result<Cow<'t, str>, TemplateError> {
    if !has_syntax(text) {
        return Ok(Cow::Borrowed(text));
    }
    let texts = Arc::new(Texts::new(text, origin, source, settings.output));
    let rendered = rendered(&texts, to_value(variables), Arc::default(), settings);
    rendered.map(Cow::Owned).map_err(|error| explain(&error, &texts, variables, &settings))
}

/// [`render`], with the variables that the text shows. `inputs` are the names of the variables that differ between
/// calls.
///
/// # Errors
/// See [`render`].
pub fn render_showing(
    text: &str,
    origin: &Origin,
    variables: &serde_json::Value,
    inputs: BTreeSet<String>,
    source: Arc<dyn TemplateSource>,
) -> Result<Rendered, TemplateError> {
    if !has_syntax(text) {
        return Ok(Rendered { text: text.to_owned(), ..Rendered::default() });
    }
    let settings = Settings::default();
    let watch = Arc::new(Watch::new(variables, inputs));
    let texts = Arc::new(Texts::watched(text, origin, source, settings.output, Arc::clone(&watch)));
    let rendered = rendered(&texts, watch.context(), watch.written(), settings);
    let text = rendered.map_err(|error| explain(&error, &texts, variables, &settings))?;
    Ok(watch.rendered(text))
}

/// Renders the root of `texts`. `written` counts the bytes of the result.
fn rendered(
    texts: &Arc<Texts>,
    context: Value,
    written: Arc<AtomicUsize>,
    settings: Settings,
) -> Result<String, minijinja::Error> {
    let root = texts.root()?;
    let environment = environment(texts, settings);
    let template = environment.template_from_named_str(ROOT, &root.instrumented.text)?;
    let mut output = Bounded { bytes: Vec::with_capacity(root.text.len()), limit: settings.output, written };
    template.render_captured_to(context, &mut output)?;
    Ok(String::from_utf8(output.bytes).expect("the engine writes whole strings"))
}

/// Returns true if the text contains any Jinja syntax.
pub fn has_syntax(text: &str) -> bool {
    text.as_bytes().windows(2).any(|pair| matches!(pair, b"{{" | b"{%" | b"{#"))
}

/// The name of the text itself among the templates. No template can be called this: names with NUL are refused.
const ROOT: &str = "\0";

/// The engine's cost of one include within another, against its limit of recursion.
const INCLUDE_COST: usize = 11;

fn environment<'source>(texts: &Arc<Texts>, settings: Settings) -> Environment<'source> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_undefined_behavior(match settings.undefined {
        Undefined::Strict => UndefinedBehavior::Strict,
        Undefined::Lenient => UndefinedBehavior::Lenient,
        Undefined::Chainable => UndefinedBehavior::Chainable,
    });
    // Without this the engine does not remember which variable was undefined.
    environment.set_debug(true);
    environment.set_fuel(Some(settings.steps));
    environment.set_recursion_limit(settings.depth.saturating_mul(INCLUDE_COST));
    environment.set_formatter({
        let texts = Arc::clone(texts);
        move |out, state, value| match &texts.watch {
            Some(watch) => watch.print(value, || print::write(out, state, value, &texts.budget)),
            None => print::write(out, state, value, &texts.budget),
        }
    });
    environment.set_unknown_method_callback({
        let budget = Arc::clone(&texts.budget);
        move |state, value, method, arguments| methods::call(&budget, state, value, method, arguments)
    });
    environment.set_loader({
        let texts = Arc::clone(texts);
        move |name| texts.template(name)
    });
    // A name in a library's template refers to that library, unless it names another.
    environment.set_path_join_callback(|name, parent| match parent.split_once(':') {
        Some((library, _)) if !name.contains(':') => format!("{library}:{name}").into(),
        _ => name.into(),
    });
    environment.add_function("file", {
        let texts = Arc::clone(texts);
        move |name: &str, arguments: Kwargs| texts.file(name, &arguments)
    });
    if let Some(watch) = texts.watch.clone() {
        environment.add_filter(instrument::PRINTED, move |value: Value, pointer: &str, joined: bool| {
            watch.mark(&value, pointer, joined);
            value
        });
    }
    environment.remove_global("debug");
    filters::add(&mut environment, &texts.budget);
    environment
}

/// The result, up to the bound.
struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
    written: Arc<AtomicUsize>,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len().saturating_add(bytes.len()) > self.limit {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.extend_from_slice(bytes);
        self.written.store(self.bytes.len(), Ordering::Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Converts JSON to the engine's values. Written by hand, because serialization would pass numbers as maps if a crate
/// in the build enables `serde_json`'s arbitrary precision.
fn to_value(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::from(()),
        serde_json::Value::Bool(truth) => Value::from(*truth),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Value::from(number),
            (None, Some(number)) => Value::from(number),
            _ => Value::from(number.as_f64().unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(text) => Value::from(text.as_str()),
        serde_json::Value::Array(items) => items.iter().map(to_value).collect(),
        serde_json::Value::Object(members) => {
            Value::from_pairs(members.iter().map(|(name, member)| (name.as_str(), to_value(member))))
        }
    }
}
