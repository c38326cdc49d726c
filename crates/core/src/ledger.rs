//! The ledger: the budgets and the usage of a call and everything below it (`docs/reference/loop.md`).
//!
//! The run has an [`Account`] if the operator gave it a budget, and so has each call of a worker with limits.
//! Accounts form a tree like their calls, and one lock guards all accounts of a run. Before a request is sent it
//! reserves its worst case in every account above it, and it settles afterwards. Parallel requests therefore never
//! overspend together. Usage exceeds a limit only by the amount that providers report beyond the reservations that
//! were open when the last one was granted. The cap on answers bounds this excess to the error of the input
//! estimates.
//!
//! The order of two parallel requests decides which gets the remaining budget. Each reservation is therefore a step
//! of its own, and on a resume an account opens with the recorded reservations and usage below it
//! ([`Driver::reserved_before`]), so that no budget is granted twice.

mod deadline;
mod reserve;

pub use crate::budget::{BadBudget, Budget, Reserved};
pub use deadline::Deadline;
pub(crate) use reserve::reserve;

use crate::{
    call_path::CallPath,
    driver::Driver,
    journal::RecordKind,
    model::ModelErrorKind,
    price::{Price, Usd},
};
use serde::Serialize;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
    time::Duration,
};

impl Reserved {
    /// The part that stays reserved until it is settled. Turns and calls are used at once and are not returned.
    fn held(&self) -> Amount {
        Amount {
            tokens: self.input_tokens.unwrap_or(0).saturating_add(self.output_tokens.unwrap_or(0)),
            cost: self.cost_usd.unwrap_or_default(),
            ..Amount::default()
        }
    }

    fn used_at_once(&self) -> Amount {
        Amount { turns: self.turns.into(), calls: self.calls.into(), ..Amount::default() }
    }

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
            RecordKind::ModelFailed { error } => match error.kind {
                ModelErrorKind::Timeout | ModelErrorKind::Network => self.held(),
                _ => Amount::default(),
            },
            _ => self.held(),
        }
    }
}

/// The amounts wanted for a request or for calls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) turns: u32,
    pub(crate) calls: u32,
    /// Tokens sent and maximum tokens of the answer, if a request is to be sent.
    pub(crate) request: Option<(u64, u64)>,
    pub(crate) price: Option<Price>,
}

/// The counted amounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Amount {
    turns: u64,
    calls: u64,
    tokens: u64,
    cost: Usd,
}

impl Amount {
    fn plus(self, other: Self) -> Self {
        Self {
            turns: self.turns.saturating_add(other.turns),
            calls: self.calls.saturating_add(other.calls),
            tokens: self.tokens.saturating_add(other.tokens),
            cost: self.cost.plus(other.cost),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            turns: self.turns.saturating_sub(other.turns),
            calls: self.calls.saturating_sub(other.calls),
            tokens: self.tokens.saturating_sub(other.tokens),
            cost: self.cost.minus(other.cost),
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    used: Amount,
    reserved: Amount,
}

/// The accounts below one topmost account, by number.
#[derive(Default)]
struct Book {
    accounts: Vec<Spent>,
    /// Requests that wait for others to settle.
    waiting: Vec<Waker>,
}

/// The owner of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Owner {
    Run,
    Worker(Arc<str>),
}

/// The budget of one call and everything below it.
pub struct Account {
    owner: Owner,
    budget: Budget,
    deadline: Option<Deadline>,
    above: Option<Arc<Account>>,
    book: Arc<Mutex<Book>>,
    number: usize,
}

/// The remaining budget; absent values have no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Left {
    /// Model turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// Tool calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Tokens, sent and produced together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Money.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Usd>,
}

/// The decision about a reservation.
enum Decision {
    Granted(Reserved),
    /// Other requests hold the missing amount, and return the part that they don't use.
    Wait,
    Refused(String),
}

impl Account {
    /// The account of the run, if the operator gave it a budget.
    pub fn of_run(budget: Budget, driver: &dyn Driver) -> Option<Arc<Self>> {
        Self::open(Owner::Run, budget, None, &CallPath::root(), driver)
    }

    /// The account of a worker's call, or the one above it if the worker has no limits that extend below it.
    pub(crate) fn of_worker(
        worker: &Arc<str>,
        budget: Budget,
        above: Option<&Arc<Self>>,
        path: &CallPath,
        driver: &dyn Driver,
    ) -> Option<Arc<Self>> {
        Self::open(Owner::Worker(Arc::clone(worker)), budget, above, path, driver).or(above.cloned())
    }

    fn open(
        owner: Owner,
        budget: Budget,
        above: Option<&Arc<Self>>,
        path: &CallPath,
        driver: &dyn Driver,
    ) -> Option<Arc<Self>> {
        if budget == Budget::default() {
            return None;
        }
        let mut spent = Spent::default();
        for (reserved, end) in driver.reserved_before(path) {
            spent.used = spent.used.plus(reserved.used_at_once());
            match &end {
                Some(end) => spent.used = spent.used.plus(reserved.used(end)),
                None => spent.reserved = spent.reserved.plus(reserved.held()),
            }
        }
        let book = above.map_or_else(Arc::default, |above| Arc::clone(&above.book));
        let number = {
            let mut book = book.lock().unwrap_or_else(PoisonError::into_inner);
            book.accounts.push(spent);
            book.accounts.len() - 1
        };
        let deadline = budget.timeout_ms.map(|ms| Deadline::new(Duration::from_millis(ms), driver.now_ms()));
        Some(Arc::new(Self { owner, budget, deadline, above: above.cloned(), book, number }))
    }

    fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |account| account.above.as_deref())
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anything but time is limited here or above.
    pub(crate) fn counts(&self) -> bool {
        self.chain().any(|account| Budget { timeout_ms: None, ..account.budget } != Budget::default())
    }

    /// The owner and amount of the cost limit, if there is one.
    pub(crate) fn cost_limit(&self) -> Option<(String, Usd)> {
        self.chain().find_map(|account| Some((account.owner.to_string(), account.budget.max_cost_usd?)))
    }

    /// Working time left to the tightest deadline here and above.
    pub fn remaining(&self, now_ms: u64) -> Option<Duration> {
        self.chain().filter_map(|account| Some(account.deadline.as_ref()?.remaining(now_ms))).min()
    }

    /// Excludes a wait between these times from the working time of every deadline.
    pub fn waited(&self, start_ms: u64, end_ms: u64) {
        for deadline in self.chain().filter_map(|account| account.deadline.as_ref()) {
            deadline.waited(start_ms, end_ms);
        }
    }

    /// The remainder of this account's own budget.
    pub fn left(&self) -> Left {
        let Spent { used, .. } = self.book().accounts[self.number];
        let Budget { max_turns, max_tool_calls, max_tokens, max_cost_usd, .. } = self.budget;
        Left {
            turns: max_turns.map(|max| u64::from(max).saturating_sub(used.turns)),
            calls: max_tool_calls.map(|max| u64::from(max).saturating_sub(used.calls)),
            tokens: max_tokens.map(|max| max.saturating_sub(used.tokens)),
            cost_usd: max_cost_usd.map(|max| max.minus(used.cost)),
        }
    }

    /// Reserves the wanted amounts, or the available part of them. Waits while other requests hold the missing part.
    /// `Err` says which limit was reached.
    async fn take(&self, wanted: Wanted) -> Result<Reserved, String> {
        std::future::poll_fn(|context| {
            let mut book = self.book();
            match self.decide(&book, wanted) {
                Decision::Granted(reserved) => {
                    for account in self.chain() {
                        let spent = &mut book.accounts[account.number];
                        spent.used = spent.used.plus(reserved.used_at_once());
                        spent.reserved = spent.reserved.plus(reserved.held());
                    }
                    Poll::Ready(Ok(reserved))
                }
                Decision::Wait => {
                    if !book.waiting.iter().any(|waiting| waiting.will_wake(context.waker())) {
                        book.waiting.push(context.waker().clone());
                    }
                    Poll::Pending
                }
                Decision::Refused(what) => Poll::Ready(Err(what)),
            }
        })
        .await
    }

    fn decide(&self, book: &Book, wanted: Wanted) -> Decision {
        let (input, output) = wanted.request.unwrap_or_default();
        let mut capped = output;
        let mut wait = false;
        let mut refused = None;
        for account in self.chain() {
            let Spent { used, reserved } = book.accounts[account.number];
            let Budget { max_turns, max_tool_calls, max_tokens, max_cost_usd, .. } = account.budget;
            let owner = &account.owner;
            if let Some(max) = max_turns.filter(|max| used.turns + u64::from(wanted.turns) > (*max).into()) {
                return Decision::Refused(owner.used_up(&format!("{max} model turns")));
            }
            if let Some(max) =
                max_tool_calls.filter(|max| used.calls + u64::from(wanted.calls) > (*max).into())
            {
                let left = u64::from(max).saturating_sub(used.calls);
                return Decision::Refused(match left {
                    0 => owner.used_up(&format!("{max} tool calls")),
                    left => owner.too_little(
                        &format!("{left} of {max} tool calls"),
                        &format!("{} are to be made", wanted.calls),
                    ),
                });
            }
            if wanted.request.is_none() {
                continue;
            }
            if let Some(max) = max_tokens {
                let free = |taken: u64| max.saturating_sub(taken);
                let here = free(used.tokens.saturating_add(reserved.tokens)).saturating_sub(input);
                wait |= here < output && reserved.tokens > 0;
                capped = capped.min(here);
                if here == 0 {
                    refused = Some(match free(used.tokens) {
                        0 => owner.used_up(&format!("{max} tokens")),
                        left => owner.too_little(
                            &format!("{left} of {max} tokens"),
                            &format!("the next request needs about {input}, and more for its answer"),
                        ),
                    });
                }
            }
            if let Some(max) = max_cost_usd {
                let Some(price) = wanted.price else {
                    return Decision::Refused(format!(
                        "{owner} may cost {max}, and the price of the model is not known"
                    ));
                };
                let free = max.minus(used.cost).minus(reserved.cost);
                let here = price.output_for(free, input).unwrap_or(u64::MAX);
                wait |= here < output && reserved.cost > Usd::ZERO;
                capped = capped.min(here);
                if here == 0 {
                    refused = Some(match max.minus(used.cost) {
                        Usd::ZERO => owner.used_up(&max.to_string()),
                        left => owner.too_little(
                            &format!("{left} of {max}"),
                            &format!(
                                "the next request costs about {}, and more for its answer",
                                price.at_most(input, 0)
                            ),
                        ),
                    });
                }
            }
        }
        match refused {
            _ if wait => Decision::Wait,
            Some(what) => Decision::Refused(what),
            None => Decision::Granted(Reserved {
                turns: wanted.turns,
                calls: wanted.calls,
                input_tokens: wanted.request.map(|_| input),
                output_tokens: wanted.request.map(|_| capped),
                cost_usd: wanted.request.and(wanted.price).map(|price| price.at_most(input, capped)),
            }),
        }
    }

    /// Replaces a reservation by the actual usage.
    fn settle(&self, reserved: &Reserved, end: &RecordKind) {
        let mut book = self.book();
        for account in self.chain() {
            let spent = &mut book.accounts[account.number];
            spent.reserved = spent.reserved.minus(reserved.held());
            spent.used = spent.used.plus(reserved.used(end));
        }
        let waiting = std::mem::take(&mut book.waiting);
        drop(book);
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Run => f.write_str("the run"),
            Self::Worker(id) => write!(f, "`{id}`"),
        }
    }
}

impl Owner {
    fn used_up(&self, what: &str) -> String {
        match self {
            Self::Run => format!("the run used all of its budget of {what}"),
            Self::Worker(id) => format!("`{id}` and its callees used all of their {what}"),
        }
    }

    fn too_little(&self, left: &str, needed: &str) -> String {
        match self {
            Self::Run => format!("the run has {left} left of its budget, and {needed}"),
            Self::Worker(id) => format!("`{id}` and its callees have {left} left, and {needed}"),
        }
    }
}

#[cfg(test)]
mod tests;
