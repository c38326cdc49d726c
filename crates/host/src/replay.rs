//! The replay of a run: its program runs again without effects, and its behaviour is compared with the records. See
//! `docs/guides/replay.md`.

use crate::{
    host::Host,
    loaded::{Loaded, ModelSource},
    obstacle::Obstacle,
    options::RunOptions,
    past::Past,
    start::Prepared,
};
use llm_do_core::outcome::Halt;
use llm_do_records::{Redactor, ReplayDriver, ReplayReport};
use std::sync::Arc;

impl<H: Host> Loaded<H> {
    /// Replays a run with this program, without a model, an operator or a file. The program should be loaded with
    /// [`Effects::Denied`](crate::Effects::Denied). `options` are those of the run ([`Past::replayed`]); the redactor
    /// removes the secrets that the records lack, too.
    ///
    /// # Errors
    /// The program can't run for a reason outside of its own behaviour.
    pub async fn replay(
        &self,
        past: &Past,
        options: RunOptions,
        redactor: Arc<Redactor>,
    ) -> Result<ReplayReport, H::Problem> {
        let driver = Arc::new(ReplayDriver::new(Arc::clone(past.records()), redactor));
        let models = driver.models();
        let source = ModelSource::Given { models: Arc::clone(&models), default: past.model() };
        let session = self.grant(options, source)?.open()?;
        let (input, attachments) = past.replayed_input();
        let start = Prepared { attachments, ..session.prepare(&input, false)? };
        let (run, date) = (Arc::clone(past.run()), Arc::clone(past.date()));
        let context = session.context(run, date, Arc::clone(&driver) as _, models);
        let ended = session.launch(context, start).run().await;
        let report = driver.report();
        match (ended.halt, &report.divergence) {
            (Some(halt @ (Halt::Journal(_) | Halt::Aborted { .. } | Halt::Diverged { .. })), None) => {
                Err(Obstacle::Halt(halt).into())
            }
            _ => Ok(report),
        }
    }
}
