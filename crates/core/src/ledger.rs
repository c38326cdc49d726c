//! The ledger: the budgets and the usage of a call and everything below it (`docs/reference/loop.md`).
//!
//! The run has an [`Account`] if the operator gave it a budget, and so has each call of a worker with limits.
//! Accounts form a tree like their calls, and the run's shared state holds their amounts. Before a request is sent it
//! reserves its worst case in every account above it, and it settles afterwards. Parallel requests therefore never
//! overspend together. Usage exceeds a limit only by the amount that providers report beyond the reservations that
//! were open when the last one was granted. The cap on answers bounds this excess to the error of the input
//! estimates.
//!
//! The order of two parallel requests decides which gets the remaining budget. Each reservation is therefore a step
//! of its own, and on a resume an account opens with the recorded reservations and usage below it
//! ([`Driver::reserved_before`]), so that no budget is granted twice.
//!
//! [Budgets over time](crate::spending) are above the run. Their amounts are not among its records, so a request that a
//! resumed run sends again reserves in them again.

mod reserve;

pub use crate::{
    account::{Account, Left},
    budget::{BadBudget, Budget, Reserved},
};
pub(crate) use reserve::{Budgets, reserve};

use crate::{
    account::{Amount, Owner, Spent},
    call_path::CallPath,
    driver::Driver,
    journal::RecordKind,
    model::ModelErrorKind,
};
use std::{sync::Arc, time::Duration};

impl Reserved {
    /// The usage of the request, from the record of its end. A figure that the provider doesn't report counts as
    /// fully used, and so does a request without an answer that the provider may have processed.
    fn used(&self, end: &RecordKind) -> Amount {
        match end {
            RecordKind::ModelAnswered { usage, .. } => {
                let input = usage.input_tokens.or(self.input_tokens).unwrap_or(0);
                let output = usage.output_tokens.or(self.output_tokens).unwrap_or(0);
                Amount {
                    tokens: input.saturating_add(output),
                    cost: usage.cost_usd.or(self.cost_usd).unwrap_or_default(),
                    ..Amount::default()
                }
            }
            RecordKind::ModelFailed { error, .. } => match error.kind {
                ModelErrorKind::Timeout | ModelErrorKind::Network | ModelErrorKind::Repetition => self.held(),
                _ => Amount::default(),
            },
            RecordKind::NotReserved { .. } => Amount::default(),
            _ => self.held(),
        }
    }
}

/// Opens the account of the run, if the operator gave it a budget.
pub async fn open_run(budget: Budget, driver: &dyn Driver) -> Option<Arc<Account>> {
    open(Account { owner: Owner::Run, budget, above: None }, &CallPath::root(), driver).await
}

/// Opens the account of a worker's call at `path`. A call without limits of its own uses the account of its caller.
pub(crate) async fn open_worker(
    worker: &Arc<str>,
    budget: Budget,
    above: Option<&Arc<Account>>,
    path: &CallPath,
    driver: &dyn Driver,
) -> Option<Arc<Account>> {
    let owner = Owner::Worker { id: Arc::clone(worker), path: path.clone() };
    let own = open(Account { owner, budget, above: above.cloned() }, path, driver).await;
    own.or_else(|| above.cloned())
}

/// Opens the account of one answer of the conversation at `path`, which begins with that turn.
pub(crate) async fn open_answer(
    worker: &Arc<str>,
    budget: Budget,
    above: Option<&Arc<Account>>,
    path: &CallPath,
    turn: u32,
    driver: &dyn Driver,
) -> Option<Arc<Account>> {
    let owner = Owner::Answer { id: Arc::clone(worker), path: path.clone() };
    let own = open_since(Account { owner, budget, above: above.cloned() }, path, turn, driver).await;
    own.or_else(|| above.cloned())
}

/// Opens the account of a call at `path` whose time its caller limits.
pub(crate) async fn open_call(
    function: &Arc<str>,
    timeout: Duration,
    above: Option<&Arc<Account>>,
    path: &CallPath,
    driver: &dyn Driver,
) -> Option<Arc<Account>> {
    let owner = Owner::Call { function: Arc::clone(function), path: path.clone() };
    let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    let budget = Budget { timeout_ms: Some(timeout_ms), ..Budget::default() };
    open(Account { owner, budget, above: above.cloned() }, path, driver).await
}

/// Opens an account with the reservations that the records contain for the call at `path` and all calls below it.
async fn open(account: Account, path: &CallPath, driver: &dyn Driver) -> Option<Arc<Account>> {
    open_since(account, path, 0, driver).await
}

/// Opens an account with the reservations from that turn of the conversation at `path` on.
async fn open_since(
    account: Account,
    path: &CallPath,
    turn: u32,
    driver: &dyn Driver,
) -> Option<Arc<Account>> {
    if account.budget == Budget::default() {
        return None;
    }
    let mut spent = Spent::default();
    for (reserved, end) in driver.reserved_before(path, turn) {
        spent.used = spent.used.plus(reserved.used_at_once());
        match &end {
            Some(end) => spent.used = spent.used.plus(reserved.used(end)),
            None => spent.reserved = spent.reserved.plus(reserved.held()),
        }
    }
    driver.shared().open(&account, spent, driver.now_ms()).await;
    Some(Arc::new(account))
}

#[cfg(test)]
mod tests;
