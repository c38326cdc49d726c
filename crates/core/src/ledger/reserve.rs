//! Reservations as steps of a run.

use super::{Account, Reserved};
use crate::{
    account::{Amount, Wanted},
    call_path::CallPath,
    driver::{CutOff, Driver, Step, StepEnd},
    journal::RecordKind,
    outcome::{FailureKind, Halt, Stop},
    price::Price,
    shared::Shared,
    spending::{Held, Spending, WantedRequest},
    step_name::StepName,
};
use futures_util::FutureExt as _;
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

/// The budgets that count a request or a call. At least one is there.
#[derive(Clone, Copy)]
pub(crate) struct Budgets<'a> {
    /// The innermost account of the run.
    pub(crate) account: Option<&'a Arc<Account>>,
    /// The budgets over time, which count requests, and the run.
    pub(crate) spending: Option<(&'a dyn Spending, &'a str)>,
}

impl<'a> Budgets<'a> {
    /// The budgets of calls: those of the run alone.
    pub(crate) fn of_run(account: &'a Arc<Account>) -> Self {
        Self { account: Some(account), spending: None }
    }
}

/// The reservation for one request.
#[must_use]
pub(crate) struct Reservation {
    account: Option<Arc<Account>>,
    reserved: Reserved,
    /// True if the reservation was in the records with which the accounts were opened.
    recorded: bool,
    /// The name of the request in the budgets over time.
    name: String,
    /// The reservation in the budgets over time.
    held: Mutex<Option<Box<dyn Held>>>,
}

impl Reservation {
    /// Maximum tokens of the answer.
    pub(crate) fn output_tokens(&self) -> Option<u32> {
        self.reserved.output_tokens.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX))
    }

    /// Reserves the same amounts in the budgets over time for a request that is sent again: an earlier execution
    /// reserved them for its own request, which may have been answered. If the model continues that request, its
    /// reservation is taken over.
    ///
    /// # Errors
    /// The budgets leave too little; the error names one.
    pub(crate) async fn renew(
        &self,
        spending: &dyn Spending,
        price: Option<Price>,
        continues: bool,
    ) -> Result<(), String> {
        let (true, Some(input), Some(output)) =
            (self.recorded, self.reserved.input_tokens, self.reserved.output_tokens)
        else {
            return Ok(());
        };
        let name = &*self.name;
        let before = if continues { spending.take_over(name).await? } else { None };
        let held = match before {
            Some(held) => held,
            None => spending.reserve(WantedRequest { name, input, output, least: output, price }).await?,
        };
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some(held);
        Ok(())
    }

    /// Replaces the reservation by the usage of the request, from the record of its end. `asked` is true if the request
    /// was sent in this execution, and false if it was in the records with its end.
    pub(crate) async fn settle(self, driver: &dyn Driver, end: &RecordKind, asked: bool) {
        let used = self.reserved.used(end);
        if let Some(account) = self.account.filter(|_| asked || !self.recorded) {
            driver.shared().settle(&account, self.reserved, used).await;
        }
        if let Some(held) = self.held.into_inner().unwrap_or_else(PoisonError::into_inner) {
            // The execution that sent the request has counted it.
            let used = if asked { used } else { Amount::default() };
            held.settle(used.tokens, used.cost).await;
        }
    }
}

/// Reserves the wanted amounts in the budgets, as a step of that name.
pub(crate) async fn reserve(
    budgets: Budgets<'_>,
    driver: &dyn Driver,
    path: &CallPath,
    name: StepName,
    wanted: Wanted,
) -> Result<Reservation, Stop> {
    let live = AtomicBool::new(false);
    let held = Mutex::new(None);
    let of_request = budgets.spending.map(|(_, run)| format!("{run} {path} {name}")).unwrap_or_default();
    let deadline = match budgets.account {
        Some(account) => driver.shared().remaining(account, driver.now_ms()).await,
        None => None,
    };
    let step = Step {
        path,
        name: name.clone(),
        intent: None,
        deadline,
        cut_off: CutOff::Again,
        run: Box::pin(async {
            live.store(true, Ordering::Relaxed);
            match take(budgets, driver.shared(), &of_request, wanted).await {
                Ok((reserved, hold)) => {
                    *held.lock().unwrap_or_else(PoisonError::into_inner) = hold;
                    RecordKind::Reserved(reserved)
                }
                Err(what) => RecordKind::NotReserved { what: what.into() },
            }
        }),
    };
    let end = driver.step(step).await?.end;
    match end {
        StepEnd::Done(RecordKind::Reserved(reserved)) => Ok(Reservation {
            account: budgets.account.cloned(),
            reserved,
            recorded: !live.load(Ordering::Relaxed),
            name: of_request,
            held,
        }),
        StepEnd::Done(RecordKind::NotReserved { what }) => Err(Stop::failed(FailureKind::Limit, &*what)),
        StepEnd::Done(other) => Err(Halt::unexpected(path, &name, &other).into()),
        StepEnd::TimedOut => {
            let message = "the working time ran out while others used what was left of the budget";
            Err(Stop::failed(FailureKind::Timeout, message))
        }
    }
}

/// Reserves in the accounts of the run, and then in the budgets over time. If these leave less, the accounts get the
/// rest back.
async fn take(
    budgets: Budgets<'_>,
    shared: &dyn Shared,
    name: &str,
    wanted: Wanted,
) -> Result<(Reserved, Option<Box<dyn Held>>), String> {
    let reserved = match budgets.account {
        Some(account) => shared.reserve(account, wanted).await?,
        None => wanted.whole(),
    };
    let (Some((spending, _)), Some((input, _))) = (budgets.spending, wanted.request) else {
        return Ok((reserved, None));
    };
    let mut given = budgets.account.map(|account| Given { shared, account, reserved });
    let output = reserved.output_tokens.unwrap_or_default();
    let request = WantedRequest { name, input, output, least: 1, price: wanted.price };
    let held = spending.reserve(request).await?;
    let left = Wanted { request: Some((input, held.output_tokens().min(output))), ..wanted }.whole();
    if let Some(given) = &mut given {
        given.reserved = reserved.beyond(&left);
    }
    Ok((left, Some(held)))
}

/// Amounts that the accounts get back when this is dropped: a wait for the budgets over time may be cut off.
struct Given<'a> {
    shared: &'a dyn Shared,
    account: &'a Arc<Account>,
    reserved: Reserved,
}

impl Drop for Given<'_> {
    fn drop(&mut self) {
        if self.reserved != Reserved::default() {
            // The state of one process changes at once.
            let _ = self.shared.settle(self.account, self.reserved, Amount::default()).now_or_never();
        }
    }
}
