//! The costs of runs: by worker, model, day and client, and the dearest runs.

use super::Service;
use crate::{
    costs::{OfRun, Spent},
    error::ApiError,
    listing::Listing,
    token::Token,
    views::RunView,
};
use jiff::{Timestamp, tz::Offset};
use llm_do::core::{model::Usage, price::Usd};
use schemars::JsonSchema;
use serde::Serialize;
use std::{cmp::Reverse, collections::BTreeMap, io, sync::Arc};
use tokio::task::spawn_blocking;

/// Most journals that one request opens for the first time.
const MOST_OPENED: usize = 500;
/// The dearest runs that are listed.
const DEAREST: usize = 20;

/// The runs whose costs are summed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Span {
    /// Only of this program.
    pub(crate) program: Option<String>,
    /// Only those that began at this time or later, in milliseconds since 1970.
    pub(crate) since_ms: u64,
}

/// The costs of runs, each by what the name of its field says.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct CostsOfRuns {
    /// The sum.
    pub(crate) total: CostLine,
    /// By the worker that sent the requests, as `PROGRAM/WORKER`, dearest first.
    pub(crate) workers: Vec<CostLine>,
    /// By model, dearest first.
    pub(crate) models: Vec<CostLine>,
    /// By the day on which the run began, in UTC, `YYYY-MM-DD`, newest first.
    pub(crate) days: Vec<CostLine>,
    /// By the client that started the run, dearest first.
    pub(crate) clients: Vec<CostLine>,
    /// The dearest runs, with what they have used so far.
    pub(crate) dearest: Vec<RunView>,
    /// Whether more runs are to be read: the next request has them too.
    pub(crate) more: bool,
}

/// Requests and their costs.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct CostLine {
    /// What the line is about.
    pub(crate) name: String,
    /// How many runs have a part in it.
    pub(crate) runs: u64,
    /// How many requests to models were answered.
    pub(crate) requests: u64,
    /// How many of these have an unknown cost, which the sum lacks.
    pub(crate) unpriced: u64,
    /// Tokens, and the known costs.
    pub(crate) usage: Usage,
}

impl CostLine {
    fn add(&mut self, spent: &Spent) {
        let mut all = Spent { requests: self.requests, unpriced: self.unpriced, usage: self.usage };
        all.add(spent);
        (self.requests, self.unpriced, self.usage) = (all.requests, all.unpriced, all.usage);
    }
}

/// Lines by name.
#[derive(Default)]
struct CostLines(BTreeMap<String, CostLine>);

impl CostLines {
    /// Adds the parts of one run, each with the name of its line.
    fn add<'a>(&mut self, parts: impl Iterator<Item = (String, &'a Spent)>) {
        let mut of_run: BTreeMap<String, Spent> = BTreeMap::new();
        parts.for_each(|(name, spent)| of_run.entry(name).or_default().add(spent));
        for (name, spent) in of_run {
            let line = self.0.entry(name.clone()).or_default();
            line.name = name;
            line.runs += 1;
            line.add(&spent);
        }
    }

    fn dearest_first(self) -> Vec<CostLine> {
        let mut lines: Vec<CostLine> = self.0.into_values().collect();
        lines.sort_by_key(|line| Reverse(weight(&line.usage)));
        lines
    }
}

/// Costs first, then tokens.
fn weight(usage: &Usage) -> (Usd, u64) {
    let tokens = usage.input_tokens.unwrap_or(0).saturating_add(usage.output_tokens.unwrap_or(0));
    (usage.cost_usd.unwrap_or(Usd::ZERO), tokens)
}

fn total(spent: &OfRun) -> Spent {
    let mut all = Spent::default();
    spent.values().for_each(|one| all.add(one));
    all
}

fn day(ms: u64) -> String {
    let time = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok()).unwrap_or_default();
    Offset::UTC.to_datetime(time).date().to_string()
}

impl Service {
    /// The costs of the runs that the client may see.
    pub(crate) async fn costs(&self, token: &Arc<Token>, span: Span) -> Result<CostsOfRuns, ApiError> {
        let (service, token) = (self.clone(), Arc::clone(token));
        let summed = spawn_blocking(move || service.summed(&token, &span)).await;
        summed.map_err(ApiError::internal)?.map_err(ApiError::internal)
    }

    fn summed(&self, token: &Token, span: &Span) -> io::Result<CostsOfRuns> {
        let mut costs = CostsOfRuns::default();
        let [mut workers, mut models, mut days, mut clients] = [(); 4].map(|()| CostLines::default());
        let mut opened = 0;
        for (id, folder) in Listing::ids(&self.runs_dirs(token), None)? {
            let Some(mut view) = self.in_list(token, &folder, &id) else { continue };
            let is_other = span.program.as_deref().is_some_and(|program| *program != *view.program);
            if is_other || view.started_ms < span.since_ms {
                continue;
            }
            let dir = folder.join(&id);
            if self.0.costs.is_new(&dir) {
                if opened == MOST_OPENED {
                    costs.more = true;
                    continue;
                }
                opened += 1;
            }
            let spent = self.0.costs.of(&dir);
            let all = total(&spent);
            costs.total.runs += 1;
            costs.total.add(&all);
            workers.add(spent.iter().map(|(by, one)| (format!("{}/{}", view.program, by.worker), one)));
            models.add(spent.iter().map(|(by, one)| (by.model.clone(), one)));
            days.add([(day(view.started_ms), &all)].into_iter());
            clients.add([(view.client.to_string(), &all)].into_iter());
            view.usage = (all.requests > 0).then_some(all.usage);
            view.questions.clear();
            if all.requests > 0 {
                costs.dearest.push(view);
            }
            if costs.dearest.len() > DEAREST * 4 {
                keep_dearest(&mut costs.dearest);
            }
        }
        keep_dearest(&mut costs.dearest);
        costs.days = days.0.into_values().rev().collect();
        [costs.workers, costs.models, costs.clients] =
            [workers, models, clients].map(CostLines::dearest_first);
        Ok(costs)
    }
}

fn keep_dearest(runs: &mut Vec<RunView>) {
    runs.sort_by_key(|run| Reverse(run.usage.as_ref().map(weight)));
    runs.truncate(DEAREST);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::Spender;

    #[test]
    fn a_run_counts_once_in_each_line_that_it_has_a_part_in() {
        let spent = |requests, dollars| Spent {
            requests,
            unpriced: 0,
            usage: Usage { cost_usd: Usd::dollars(dollars), ..Usage::default() },
        };
        let by = |worker: &str, model: &str| Spender { worker: worker.into(), model: model.into() };
        let run: OfRun = [(by("a", "m"), spent(1, 0.25)), (by("b", "m"), spent(2, 0.5))].into();
        let (mut models, mut workers) = (CostLines::default(), CostLines::default());
        models.add(run.iter().map(|(by, one)| (by.model.clone(), one)));
        workers.add(run.iter().map(|(by, one)| (by.worker.clone(), one)));
        let models = models.dearest_first();
        assert_eq!((models.len(), models[0].runs, models[0].requests), (1, 1, 3));
        let names: Vec<String> = workers.dearest_first().into_iter().map(|line| line.name).collect();
        assert_eq!(names, ["b", "a"]);
        assert_eq!(day(86_400_000), "1970-01-02");
    }
}
