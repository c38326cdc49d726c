//! The check between an approval and its effect that nothing has changed since the operator was asked.

use super::{Admitted, Call, Engine};
use crate::{
    driver::{CutOff, Step, StepEnd},
    journal::RecordKind,
    outcome::Halt,
    question::{Approval, Preview, Question},
    step_name::StepName,
};
use std::sync::Arc;

impl Engine {
    /// Compares links and the preview with those at the time of the question. The answer may take hours, and other calls
    /// and processes work on the same files meanwhile. Returns what changed. `asked` is the question that the operator
    /// saw; without one, only links are compared. This is a step whenever there is something to compare.
    pub(super) async fn recheck(
        &self,
        call: &Call<'_>,
        admitted: &Admitted,
        round: u32,
        asked: Option<&Question>,
    ) -> Result<Option<Arc<str>>, Halt> {
        let shown = match asked {
            Some(Question::Approval(Approval { preview, .. })) => preview.as_deref(),
            _ => None,
        };
        if admitted.places.is_empty() && shown.is_none() {
            return Ok(None);
        }
        let name = StepName::Recheck(round);
        let step = Step {
            path: &call.path,
            name: name.clone(),
            intent: None,
            deadline: None,
            cut_off: CutOff::Again,
            run: Box::pin(async {
                RecordKind::Rechecked { changed: self.changed(call, admitted, shown).await }
            }),
        };
        match self.host.driver.step(step).await?.end {
            StepEnd::Done(RecordKind::Rechecked { changed }) => Ok(changed),
            StepEnd::Done(other) => Err(Halt::unexpected(&call.path, &name, &other)),
            StepEnd::TimedOut => Ok(Some("the files that it touches could not be read in time".into())),
        }
    }

    /// The difference to the time of the question, if there is one.
    async fn changed(
        &self,
        call: &Call<'_>,
        admitted: &Admitted,
        shown: Option<&Preview>,
    ) -> Option<Arc<str>> {
        let places = admitted.places.iter().zip(&admitted.effects.touches).zip(&admitted.real);
        for ((place, touch), before) in places {
            if self.real(place, touch).await != *before {
                return Some(format!("the links in `{}` changed", place.path).into());
            }
        }
        let Preview::Change { path, .. } = shown?;
        let now = self.preview(call, admitted).await;
        (now.as_ref() != shown).then(|| format!("`{path}` changed").into())
    }
}
