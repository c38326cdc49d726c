//! A change of the model that answers a conversation: the user chooses another, or one stands in for another that is
//! unavailable.

use super::{
    context_limit::{ContextLimit, most_tokens},
    prepared::{AskedModel, Prepared},
    server_tools,
};
use crate::{
    definition::{ModelChoice, WorkerDefinition},
    driver::{CutOff, Step, StepEnd},
    engine::{Frame, RunContext},
    function::CompositeCall,
    journal::RecordKind,
    model::{Capabilities, Model, ModelError, ModelErrorKind, ModelName, ModelSettings, Models, Terms},
    outcome::{Failure, FailureKind, Halt, Stop},
    price::{Price, Usd},
    spending::Spending,
    step_name::StepName,
};
use std::sync::Arc;

/// Returns the sampling settings of a worker's requests to a model.
pub(super) fn settings(worker: &WorkerDefinition, model: &ModelName, host: &RunContext) -> ModelSettings {
    let settings = worker.settings_for(model);
    if worker.locked { settings } else { host.settings_override.over(&settings) }
}

/// Returns the terms of a model in a frame. A limit of the cost counts the requests to a model that costs nothing; without
/// a limit, and without a price of the user, such a request has no cost in the records.
pub(super) fn terms(host: &RunContext, model: &ModelName, frame: &Frame) -> Terms {
    let terms = host.models.terms(model);
    let is_limited = frame.ledger().is_some_and(|account| account.cost_limit().is_some());
    let free = (is_limited && model.is_free()).then_some(Price::FREE);
    Terms { price: terms.price.or(free), ..terms }
}

/// Returns the owner and the amount of a limit of the cost that counts the requests to a model: the innermost of the run, or
/// one over time, which does not count models that cost nothing.
pub(super) fn cost_limit(host: &RunContext, model: &ModelName, frame: &Frame) -> Option<(String, Usd)> {
    let over_time = || host.spending.as_ref().filter(|_| !model.is_free())?.cost_limit();
    frame.ledger().and_then(|account| account.cost_limit()).or_else(over_time)
}

/// Returns the budgets over time, if they count the requests to the model.
pub(super) fn spending<'a>(prepared: &Prepared, host: &'a RunContext) -> Option<&'a dyn Spending> {
    let costs = prepared.terms.price.is_some_and(|price| price != Price::FREE);
    host.spending.as_deref().filter(|_| costs || !prepared.model_name.is_free())
}

/// The models of a worker that can be asked.
pub(super) struct Chain {
    /// The names, at least one, in the order in which the models answer.
    pub(super) names: Vec<ModelName>,
    /// The first of them.
    pub(super) first: Arc<dyn Model>,
    /// The capabilities of the first. It has a native schema only if all have: the others continue what it has begun.
    pub(super) can: Capabilities,
}

/// Opens the models of a worker. One without a key or a grant is left out, if another remains.
///
/// # Errors
/// None of the models can be asked; or there is no such model, which is a mistake in the list.
pub(super) fn open(names: Vec<ModelName>, models: &dyn Models) -> Result<Chain, ModelError> {
    let mut chain: Option<Chain> = None;
    let mut refused = None;
    for name in names {
        let model = match models.open(&name) {
            Ok(model) => model,
            Err(error) if error.kind == ModelErrorKind::Auth => {
                refused.get_or_insert(error);
                continue;
            }
            Err(error) => return Err(error),
        };
        let can = model.capabilities();
        match &mut chain {
            Some(chain) => {
                chain.can.native_schema &= can.native_schema;
                chain.names.push(name);
            }
            None => chain = Some(Chain { names: vec![name], first: model, can }),
        }
    }
    let none = || ModelError::new(ModelErrorKind::NotFound, "no model is named");
    chain.ok_or_else(|| refused.unwrap_or_else(none))
}

/// Lets the model answer from here on that the user has chosen, if the worker and the operator allow it and it can
/// continue the conversation. It has no stand-ins. Returns false if it can't answer; the record has the reason.
pub(super) async fn choose(
    prepared: &mut Prepared,
    call: &CompositeCall<'_>,
    number: u32,
    model: &ModelName,
) -> Result<bool, Stop> {
    let refused = prepared.worker.locked.then(|| format!("`{}` is locked to its model", prepared.worker.id));
    let switched = switch(prepared, call, StepName::ModelChoice(number), model, refused).await?.is_ok();
    if switched {
        prepared.models = vec![model.clone()];
    }
    Ok(switched)
}

/// The models that were asked the same request in vain, each with the reason why it has no answer.
#[derive(Default)]
pub(super) struct Unavailable(Vec<(ModelName, Failure)>);

impl Unavailable {
    /// Lets the next model of the worker answer in the place of one that is unavailable.
    ///
    /// # Errors
    /// There is none left. The failure has the reasons of all.
    pub(super) async fn stand_in(
        &mut self,
        prepared: &mut Prepared,
        call: &CompositeCall<'_>,
        failure: Failure,
    ) -> Result<(), Stop> {
        self.0.push((prepared.model_name.clone(), failure));
        loop {
            let asked = |name: &&ModelName| self.0.iter().any(|(asked, _)| asked == *name);
            let Some(next) = prepared.models.iter().find(|name| !asked(name)).cloned() else {
                return Err(self.failure(prepared).into());
            };
            let step = StepName::StandIn(prepared.switches);
            prepared.switches += 1;
            match switch(prepared, call, step, &next, None).await? {
                Ok(()) => return Ok(()),
                Err(reason) => {
                    let reason = format!("it can't stand in: {reason}");
                    self.0.push((next, Failure::new(FailureKind::Model, reason)));
                }
            }
        }
    }

    fn failure(&mut self, prepared: &Prepared) -> Failure {
        if self.0.len() == 1 {
            return self.0.swap_remove(0).1;
        }
        let each: Vec<String> =
            self.0.iter().map(|(name, failure)| format!("`{name}`: {}", failure.message)).collect();
        let message = format!("none of the models of `{}` answers: {}", prepared.worker.id, each.join("; "));
        Failure::new(FailureKind::Model, message)
    }
}

/// Lets another model answer from here on, if it can continue the conversation and nothing else speaks against it. Returns
/// the recorded reason if it can't.
async fn switch(
    prepared: &mut Prepared,
    call: &CompositeCall<'_>,
    name: StepName,
    model: &ModelName,
    refused: Option<String>,
) -> Result<Result<(), Arc<str>>, Stop> {
    let host = call.engine.host();
    let step = Step {
        path: call.path,
        name: name.clone(),
        intent: None,
        deadline: None,
        cut_off: CutOff::Again,
        run: Box::pin(async {
            match refused.map_or_else(|| can_answer(prepared, call, model), Err) {
                Ok(opened) => RecordKind::ModelChosen {
                    model: model.clone(),
                    max_context_tokens: most_tokens(&prepared.worker, &host.models.terms(model), &*opened),
                },
                Err(reason) => RecordKind::ModelNotChosen { reason: host.redact.text(&reason).into() },
            }
        }),
    };
    match host.driver.step(step).await?.end {
        StepEnd::Done(RecordKind::ModelChosen { model, max_context_tokens }) => {
            let opened = host.models.open(&model);
            let opened = opened.map_err(|error| Stop::failed(FailureKind::Model, error.message))?;
            prepared.model = AskedModel::new(opened, call);
            prepared.terms = terms(host, &model, &prepared.frame);
            prepared.context = ContextLimit::of(&prepared.worker, max_context_tokens);
            prepared.settings = settings(&prepared.worker, &model, host);
            prepared.model_name = model;
            Ok(Ok(()))
        }
        StepEnd::Done(RecordKind::ModelNotChosen { reason }) => Ok(Err(reason)),
        StepEnd::TimedOut => Ok(Err("there was no time left".into())),
        StepEnd::Done(other) => Err(Halt::unexpected(call.path, &name, &other).into()),
    }
}

/// The model, if it can continue the conversation.
///
/// # Errors
/// The model can't continue it; the error has the reason.
fn can_answer(
    prepared: &Prepared,
    call: &CompositeCall<'_>,
    name: &ModelName,
) -> Result<Arc<dyn Model>, String> {
    let (host, worker) = (call.engine.host(), &prepared.worker);
    let choice = ModelChoice { forced: Some(name.clone()), ..host.model.clone() };
    if !worker.locked {
        choice.of(worker).map_err(|failure| failure.message)?;
    }
    let model = host.models.open(name).map_err(|error| error.message)?;
    let (can, could) = (model.capabilities(), prepared.model.capabilities());
    if could.tools && !can.tools && !prepared.tools.is_empty() {
        return Err(format!("`{name}` takes no tools, and this conversation has some"));
    }
    if could.sees.images && !can.sees.images || could.sees.pdf && !can.sees.pdf {
        return Err(format!(
            "`{name}` does not read all kinds of files that `{}` reads",
            prepared.model_name
        ));
    }
    if let Some(refused) = model.refused_settings(&settings(worker, name, host)).first() {
        return Err(refused.to_string());
    }
    server_tools::check(worker, &prepared.server_tools, &*model).map_err(|failure| failure.message)?;
    let limit = cost_limit(host, name, &prepared.frame);
    let price = terms(host, name, &prepared.frame).price;
    let uses = !prepared.server_tools.is_empty();
    match limit {
        Some((whose, limit)) if price.is_none_or(|price| uses && price.server_use.is_none()) => {
            Err(format!("{whose} may cost {limit}, and the price of `{name}` is not known"))
        }
        _ => Ok(model),
    }
}
