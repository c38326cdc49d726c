//! Budgets over time: amounts for a day or a month, which all runs and processes of a user share
//! (`docs/reference/budgets.md`).
//!
//! A run's own [`Account`](crate::account::Account)s are part of its records. These budgets are not: their amounts lie
//! outside of every run, behind this port. A request reserves its worst case in both before it is sent.

use crate::{
    price::{Price, Usd},
    send::{BoxFuture, MaybeSend, MaybeSync},
};
use std::sync::Arc;

/// The amounts wanted for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedRequest<'a> {
    /// The name of the request: its run, its call and its step.
    pub name: &'a str,
    /// Tokens sent, as estimated.
    pub input: u64,
    /// Maximum tokens of the answer.
    pub output: u64,
    /// Fewest tokens of the answer that are of use.
    pub least: u64,
    /// The price of the model, if it is known.
    pub price: Option<Price>,
}

/// The budgets over time that count the requests of one run.
pub trait Spending: MaybeSend + MaybeSync {
    /// The owner and amount of a cost limit, if there is one.
    fn cost_limit(&self) -> Option<(String, Usd)>;
    /// Reserves the worst case of a request in every budget, or the part of it that is left. Waits while other requests
    /// hold the missing part. `Err` names the budget, the used amount, and the time at which the budget opens again.
    fn reserve<'a>(&'a self, wanted: WantedRequest<'a>) -> BoxFuture<'a, Result<Box<dyn Held>, String>>;
    /// The message of the last refused request, if one was refused.
    fn refusal(&self) -> Option<Arc<str>>;
    /// Takes over the reservation that a process which ended has made for the request of that name, if there is one.
    fn take_over<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Box<dyn Held>>, String>>;
}

/// The reserved amounts of one request. Dropped without a settlement, they count as used, because the provider may have
/// processed the request.
pub trait Held: MaybeSend + MaybeSync {
    /// Maximum tokens of the answer.
    fn output_tokens(&self) -> u64;
    /// Replaces the reservation by the actual usage.
    fn settle(self: Box<Self>, tokens: u64, cost: Usd) -> BoxFuture<'static, ()>;
}
