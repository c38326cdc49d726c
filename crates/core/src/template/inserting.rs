//! Texts that toolsets insert into templates: `file("KIND:NAME", ARGUMENT=…)`.
//!
//! Rendering never waits. A rendering that needs such a text for the first time fails and stores its request here. Its
//! caller fetches the text and renders again.

use super::{TemplateName, TemplateRefusal, TemplateSource, TemplateText};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Greatest number of different texts of toolsets in one rendering.
pub(crate) const MOST_INSERTS: u32 = 16;

/// The arguments of a text that a toolset inserts, by name.
pub type InsertArguments = BTreeMap<String, String>;

/// A text that a template wants from a toolset.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Insert {
    /// The kind of toolset.
    pub kind: Arc<str>,
    /// The name of the text for that kind.
    pub name: Arc<str>,
    /// The arguments that the template gives.
    pub arguments: InsertArguments,
}

/// A source that also has the texts which toolsets insert.
pub(crate) struct Inserting {
    source: Arc<dyn TemplateSource>,
    /// The kinds of toolsets that insert texts.
    kinds: Vec<&'static str>,
    state: Mutex<InsertedTexts>,
}

#[derive(Default)]
struct InsertedTexts {
    texts: BTreeMap<Insert, Arc<str>>,
    wanted: Option<Insert>,
}

impl Inserting {
    pub(crate) fn new(source: Arc<dyn TemplateSource>, kinds: Vec<&'static str>) -> Self {
        Self { source, kinds, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, InsertedTexts> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The text that the last rendering requested and did not have.
    pub(crate) fn wanted(&self) -> Option<Insert> {
        self.state().wanted.take()
    }

    /// Adds a text for later renderings.
    pub(crate) fn put(&self, insert: Insert, text: Arc<str>) {
        self.state().texts.insert(insert, text);
    }

    /// Number of texts of the source.
    pub(crate) fn count(&self) -> usize {
        self.state().texts.len()
    }
}

impl TemplateSource for Inserting {
    fn template(&self, name: &TemplateName) -> Result<Option<TemplateText>, TemplateRefusal> {
        self.source.template(name)
    }

    fn file(&self, name: &TemplateName) -> Result<Option<TemplateText>, TemplateRefusal> {
        self.source.file(name)
    }

    fn inserted(
        &self,
        name: &TemplateName,
        arguments: &InsertArguments,
    ) -> Result<Option<TemplateText>, TemplateRefusal> {
        let Some(kind) = name.library().filter(|kind| self.kinds.contains(kind)) else { return Ok(None) };
        let insert = Insert { kind: kind.into(), name: name.path().into(), arguments: arguments.clone() };
        let mut state = self.state();
        if let Some(text) = state.texts.get(&insert) {
            return Ok(Some(TemplateText { text: Arc::clone(text), origin: name.to_string(), place: None }));
        }
        state.wanted.get_or_insert(insert);
        Err(TemplateRefusal { name: name.to_string(), reason: "it was not fetched".to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::{NoTemplates, Origin, render};
    use serde_json::json;
    use std::borrow::Cow;

    #[test]
    fn a_rendering_leaves_what_it_wants_and_inserts_it_raw() {
        let source = Arc::new(Inserting::new(Arc::new(NoTemplates), vec!["mcp"]));
        let of = |text: &str| {
            let source = Arc::clone(&source) as Arc<dyn TemplateSource>;
            let rendered = render(text, &Origin::file("x"), &json!({"n": 3}), source);
            rendered.map(Cow::into_owned).map_err(|error| error.to_string())
        };
        let text = "{{ file('mcp:s/p', n=n, day='mon') }}|{{ file('mcp:s/p') }}";
        let arguments =
            BTreeMap::from([("day".to_owned(), "mon".to_owned()), ("n".to_owned(), "3".to_owned())]);
        for (arguments, filled) in [(arguments, "{{ n }}"), (BTreeMap::new(), "{% x")] {
            assert!(of(text).is_err());
            let wanted = source.wanted().expect("a text");
            assert_eq!((&*wanted.kind, &*wanted.name, &wanted.arguments), ("mcp", "s/p", &arguments));
            source.put(wanted, filled.into());
        }
        assert_eq!(of(text), Ok("{{ n }}|{% x".to_owned()), "a text of a toolset is no template");
        assert_eq!((source.wanted(), source.count()), (None, 2));
        assert!(of("{{ file('x.md', n=n) }}").unwrap_err().contains("takes no arguments"));
        assert!(of("{{ file('mcp:s/p', n=[n]) }}").unwrap_err().contains("`n`"));
    }
}
