//! The texts that one rendering reads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::machinery::parse;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{ErrorKind, Value};

use super::budget::Budget;
use super::error::{Own, own, place_in};
use super::instrument::Instrumented;
use super::macros::{self, Written};
use super::name::{TemplateRefusal, confine};
use super::nesting::{self, Unfit};
use super::shown::Watch;
use super::{InsertArguments, Origin, Place, ROOT, TemplateErrorKind, TemplateSource};

/// Size of a template that the engine has compiled, as a multiple of its length.
const COMPILED: usize = 4;

/// The texts of one rendering. Each is read once and kept, to find columns in it for errors.
pub(super) struct Texts {
    source: Arc<dyn TemplateSource>,
    limit: usize,
    /// The budget of the values that the rendering builds.
    pub(super) budget: Arc<Budget>,
    /// Notes which variables the rendering shows, if its caller asks.
    pub(super) watch: Option<Arc<Watch>>,
    templates: Mutex<BTreeMap<String, Arc<Loaded>>>,
    files: Mutex<BTreeMap<String, Arc<str>>>,
}

/// A template after reading.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) text: String,
    /// The text for the engine.
    pub(super) instrumented: Instrumented,
    pub(super) origin: Origin,
    /// The text with macros rewritten for the engine, if it differs.
    written: Option<Written>,
}

impl Loaded {
    fn new(text: &str, origin: Origin, watch: Option<&Watch>) -> Self {
        let text = one_newline(text);
        let written = macros::written(&text);
        let for_engine = written.as_ref().map_or(&*text, |written| &written.text);
        let marked = |pointer: &str| watch.is_some_and(|watch| watch.has(pointer));
        Self { instrumented: Instrumented::template(for_engine, &marked), written, text, origin }
    }
}

impl Texts {
    pub(super) fn new(text: &str, origin: &Origin, source: Arc<dyn TemplateSource>, limit: usize) -> Self {
        Self::with(text, origin, source, limit, None)
    }

    /// The texts of a rendering whose shown variables `watch` notes.
    pub(super) fn watched(
        text: &str,
        origin: &Origin,
        source: Arc<dyn TemplateSource>,
        limit: usize,
        watch: Arc<Watch>,
    ) -> Self {
        Self::with(text, origin, source, limit, Some(watch))
    }

    fn with(
        text: &str,
        origin: &Origin,
        source: Arc<dyn TemplateSource>,
        limit: usize,
        watch: Option<Arc<Watch>>,
    ) -> Self {
        let root = Arc::new(Loaded::new(text, origin.clone(), watch.as_deref()));
        let templates = Mutex::new(BTreeMap::from([(ROOT.to_owned(), root)]));
        let budget = Arc::new(Budget::new(limit));
        Self { source, limit, budget, watch, templates, files: Mutex::default() }
    }

    fn loaded(&self, name: &str) -> Option<Arc<Loaded>> {
        self.templates.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// The place of an offset in the engine's text.
    pub(super) fn place_of_engine(&self, name: &str, offset: usize) -> Place {
        let original = self.loaded(name).map_or(offset, |loaded| {
            let offset = loaded.instrumented.original(offset);
            loaded.written.as_ref().map_or(offset, |written| written.offset(offset))
        });
        self.place(name, original)
    }

    /// The place of an offset in a template that was read.
    pub(super) fn place(&self, name: &str, offset: usize) -> Place {
        match self.loaded(name) {
            Some(loaded) => place_in(&loaded.text, &loaded.origin, offset),
            None => self.line(name, 1),
        }
    }

    /// A line of a template.
    pub(super) fn line(&self, name: &str, line: usize) -> Place {
        let origin = self.loaded(name).map_or_else(|| Origin::file(name), |loaded| loaded.origin.clone());
        Place { file: origin.file, line: origin.line + line - 1, column: 1 }
    }

    pub(super) fn root(&self) -> Result<Arc<Loaded>, minijinja::Error> {
        let root = self.loaded(ROOT).expect("put there by `new`");
        self.check(ROOT, &root)?;
        Ok(root)
    }

    pub(super) fn template(&self, name: &str) -> Result<Option<String>, minijinja::Error> {
        let Some(found) = self.source.template(&confine(name).map_err(refused)?).map_err(refused)? else {
            return Ok(None);
        };
        self.check_size(&found.origin, &found.text)?;
        self.budget.charge(found.text.len().saturating_mul(COMPILED))?;
        let loaded = Arc::new(Loaded::new(&found.text, Origin::file(found.origin), self.watch.as_deref()));
        self.templates
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.to_owned(), Arc::clone(&loaded));
        self.check(name, &loaded)?;
        Ok(Some(loaded.instrumented.text.clone()))
    }

    pub(super) fn file(&self, name: &str, arguments: &Kwargs) -> Result<Value, minijinja::Error> {
        let confined = confine(name).map_err(refused)?;
        let given = given(arguments)?;
        if let Some(inserted) = self.source.inserted(&confined, &given).map_err(refused)? {
            self.check_size(&inserted.origin, &inserted.text)?;
            self.budget.charge(inserted.text.len())?;
            return Ok(Value::from(inserted.text));
        }
        if !given.is_empty() {
            let message = format!("`file(\"{name}\")` takes no arguments: it inserts a file");
            return Err(own(TemplateErrorKind::Failed, message));
        }
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = files.get(name) {
            return Ok(Value::from(Arc::clone(text)));
        }
        let Some(found) = self.source.file(&confined).map_err(refused)? else {
            return Err(own(TemplateErrorKind::NotFound, format!("there is no file `{name}`")));
        };
        self.check_size(&found.origin, &found.text)?;
        self.budget.charge(found.text.len())?;
        files.insert(name.to_owned(), Arc::clone(&found.text));
        Ok(Value::from(found.text))
    }

    fn check(&self, name: &str, loaded: &Loaded) -> Result<(), minijinja::Error> {
        self.check_size(&loaded.origin.file, &loaded.text)?;
        let wrong = |kind, message: String, offset| {
            let at = Some((name.to_owned(), offset));
            minijinja::Error::new(ErrorKind::SyntaxError, message).with_source(Own { kind, at })
        };
        nesting::check(&loaded.text)
            .map_err(|Unfit { kind, message, offset }| wrong(kind, message, offset))?;
        // The author's own text is parsed first: `1 +` is no error any more in the text that the engine gets.
        match parse(&loaded.text, name, SyntaxConfig::default()) {
            // The text for the engine nests more deeply, so it can exceed a limit that the author's text keeps.
            Ok(_) => match parse(&loaded.instrumented.text, name, SyntaxConfig::default()) {
                Ok(_) => Ok(()),
                Err(error) => {
                    let message = format!("{}: {}", error.kind(), error.detail().unwrap_or_default());
                    let at = error.range().map_or(0, |range| loaded.instrumented.original(range.start));
                    Err(wrong(TemplateErrorKind::Syntax, message, at.min(loaded.text.len())))
                }
            },
            Err(error) => {
                let message = format!("{}: {}", error.kind(), error.detail().unwrap_or_default());
                let of_line = |line: usize| {
                    loaded.text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum()
                };
                let offset =
                    error.range().map_or_else(|| of_line(error.line().unwrap_or(1)), |range| range.start);
                Err(wrong(TemplateErrorKind::Syntax, message, offset))
            }
        }
    }

    fn check_size(&self, file: &str, text: &str) -> Result<(), minijinja::Error> {
        if text.len() > self.limit {
            let message = format!("`{file}` has {} bytes; at most {} are read", text.len(), self.limit);
            return Err(own(TemplateErrorKind::Limit, message));
        }
        Ok(())
    }
}

/// The arguments of `file()` beside the name: texts, numbers and booleans.
fn given(arguments: &Kwargs) -> Result<InsertArguments, minijinja::Error> {
    let argument = |name: &str| -> Result<(String, String), minijinja::Error> {
        let value: Value = arguments.get(name)?;
        let is_scalar = matches!(value.kind(), ValueKind::String | ValueKind::Number | ValueKind::Bool);
        if !is_scalar {
            let message = format!("`{name}` of `file()` must be a text, a number or a boolean");
            return Err(own(TemplateErrorKind::Failed, message));
        }
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Ok((name.to_owned(), text))
    };
    arguments.args().map(argument).collect()
}

/// Jinja2 reads every newline as `\n`; lines are preserved, so places in errors stay valid.
fn one_newline(text: &str) -> String {
    if text.contains('\r') { text.replace("\r\n", "\n").replace('\r', "\n") } else { text.to_owned() }
}

fn refused(refusal: TemplateRefusal) -> minijinja::Error {
    own(TemplateErrorKind::Refused, refusal.to_string())
}
