//! Reservations as steps of a run.

use super::{Account, Reserved};
use crate::{
    account::Wanted,
    call_path::CallPath,
    driver::{CutOff, Driver, Step, StepEnd},
    journal::RecordKind,
    outcome::{FailureKind, Halt, Stop},
    step_name::StepName,
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// The reservation for one request.
#[must_use]
pub(crate) struct Reservation {
    account: Arc<Account>,
    reserved: Reserved,
    /// True if the reservation was in the records with which the accounts were opened.
    recorded: bool,
}

impl Reservation {
    /// Maximum tokens of the answer.
    pub(crate) fn output_tokens(&self) -> Option<u32> {
        self.reserved.output_tokens.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX))
    }

    /// Replaces the reservation by the usage of the request, from the record of its end. `asked` is true if the request
    /// was sent in this execution, and false if it was in the records with its end.
    pub(crate) async fn settle(self, driver: &dyn Driver, end: &RecordKind, asked: bool) {
        if asked || !self.recorded {
            driver.shared().settle(&self.account, self.reserved, self.reserved.used(end)).await;
        }
    }
}

/// Reserves the wanted amounts in the account and all above it, as a step of that name.
pub(crate) async fn reserve(
    account: &Arc<Account>,
    driver: &dyn Driver,
    path: &CallPath,
    name: StepName,
    wanted: Wanted,
) -> Result<Reservation, Stop> {
    let live = AtomicBool::new(false);
    let deadline = driver.shared().remaining(account, driver.now_ms()).await;
    let step = Step {
        path,
        name: name.clone(),
        intent: None,
        deadline,
        cut_off: CutOff::Again,
        run: Box::pin(async {
            live.store(true, Ordering::Relaxed);
            match driver.shared().reserve(account, wanted).await {
                Ok(reserved) => RecordKind::Reserved(reserved),
                Err(what) => RecordKind::NotReserved { what: what.into() },
            }
        }),
    };
    match driver.step(step).await?.end {
        StepEnd::Done(RecordKind::Reserved(reserved)) => Ok(Reservation {
            account: Arc::clone(account),
            reserved,
            recorded: !live.load(Ordering::Relaxed),
        }),
        StepEnd::Done(RecordKind::NotReserved { what }) => Err(Stop::failed(FailureKind::Limit, &*what)),
        StepEnd::Done(other) => Err(Halt::unexpected(path, &name, &other).into()),
        StepEnd::TimedOut => {
            let message = "the working time ran out while others used what was left of the budget";
            Err(Stop::failed(FailureKind::Timeout, message))
        }
    }
}
