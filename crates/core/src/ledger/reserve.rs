//! Reservations as steps of a run.

use super::{Account, Reserved, Wanted};
use crate::{
    call_path::CallPath,
    driver::{CutOff, Driver, Step, StepEnd, StepName},
    engine::{Failure, FailureKind, Halt},
    journal::RecordKind,
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// What is set aside for one request.
#[must_use]
pub(crate) struct Reservation {
    account: Arc<Account>,
    reserved: Reserved,
    /// It stood in the records, with which the accounts were opened.
    recorded: bool,
}

impl Reservation {
    /// Most tokens of the answer.
    pub(crate) fn output_tokens(&self) -> Option<u32> {
        self.reserved.output_tokens.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX))
    }

    /// Replaces it by what the request used, by the record of its end; `asked` says whether it was sent just now, or
    /// stood in the records with its end.
    pub(crate) fn settle(self, end: &RecordKind, asked: bool) {
        if asked || !self.recorded {
            self.account.settle(&self.reserved, end);
        }
    }
}

/// Whether a step of that name is a reservation.
pub fn is_reservation(step: &str) -> bool {
    step.starts_with("reserve")
}

/// Reserves what is wanted in the account and all above it, as a step of that name. The inner `Err` is what the caller
/// is told.
pub(crate) async fn reserve(
    account: &Arc<Account>,
    driver: &dyn Driver,
    path: &CallPath,
    name: StepName,
    wanted: Wanted,
) -> Result<Result<Reservation, Failure>, Halt> {
    let live = AtomicBool::new(false);
    let step = Step {
        path,
        name: name.clone(),
        intent: None,
        deadline: account.remaining(driver.now_ms()),
        cut_off: CutOff::Unknown,
        run: Box::pin(async {
            live.store(true, Ordering::Relaxed);
            match account.take(wanted).await {
                Ok(reserved) => RecordKind::Reserved(reserved),
                Err(what) => RecordKind::NotReserved { what: what.into() },
            }
        }),
    };
    match driver.step(step).await?.end {
        StepEnd::Done(RecordKind::Reserved(reserved)) => Ok(Ok(Reservation {
            account: Arc::clone(account),
            reserved,
            recorded: !live.load(Ordering::Relaxed),
        })),
        StepEnd::Done(RecordKind::NotReserved { what }) => Ok(Err(Failure::new(FailureKind::Limit, &*what))),
        StepEnd::Done(other) => Err(Halt::unexpected(path, &name, &other)),
        StepEnd::TimedOut => {
            let message = "the working time ran out while others used what was left of the budget";
            Ok(Err(Failure::new(FailureKind::Timeout, message)))
        }
    }
}
