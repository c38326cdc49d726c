//! The files that a rendering read, for their origins.

use super::{TemplateName, TemplateRefusal, TemplateSource, TemplateText};
use crate::authority::Place;
use std::sync::{Arc, Mutex, PoisonError};

/// A source that notes the real places of the texts that it finds.
pub(crate) struct Noting {
    source: Arc<dyn TemplateSource>,
    places: Mutex<Vec<Place>>,
}

impl Noting {
    pub(crate) fn new(source: Arc<dyn TemplateSource>) -> Self {
        Self { source, places: Mutex::default() }
    }

    /// The places of the texts that were found.
    pub(crate) fn places(&self) -> Vec<Place> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(
        &self,
        found: Result<Option<TemplateText>, TemplateRefusal>,
    ) -> Result<Option<TemplateText>, TemplateRefusal> {
        let place = found.as_ref().ok().and_then(|text| text.as_ref()?.place.clone());
        self.places.lock().unwrap_or_else(PoisonError::into_inner).extend(place);
        found
    }
}

impl TemplateSource for Noting {
    fn template(&self, name: &TemplateName) -> Result<Option<TemplateText>, TemplateRefusal> {
        self.note(self.source.template(name))
    }

    fn file(&self, name: &TemplateName) -> Result<Option<TemplateText>, TemplateRefusal> {
        self.note(self.source.file(name))
    }
}
