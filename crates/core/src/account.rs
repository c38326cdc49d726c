//! Accounts: the budgets of a run and of the calls of workers with limits, as data (`docs/reference/loop.md`).
//!
//! An [`Account`] names its owner, its budget and the account above it, and holds no state: the frame of a call
//! contains it. The amounts that were used and reserved are shared by the whole call tree
//! ([`Shared`](crate::shared::Shared)).

use crate::{
    budget::{Budget, Reserved},
    call_path::CallPath,
    price::{Price, Usd},
};
use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

/// The owner of an account, which is its key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// The run: the operator gave it a budget.
    Run,
    /// A call of a worker with limits.
    Worker {
        /// The worker's ID, for messages.
        id: Arc<str>,
        /// The call.
        path: CallPath,
    },
    /// An answer of a conversation with the user.
    Answer {
        /// The worker's ID, for messages.
        id: Arc<str>,
        /// The call.
        path: CallPath,
    },
    /// A call of a function that makes calls, with a time limit from its caller.
    Call {
        /// The function, for messages.
        function: Arc<str>,
        /// The call.
        path: CallPath,
    },
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run => f.write_str("the run"),
            Self::Worker { id: name, .. }
            | Self::Answer { id: name, .. }
            | Self::Call { function: name, .. } => {
                write!(f, "`{name}`")
            }
        }
    }
}

impl Owner {
    fn used_up(&self, what: &str) -> String {
        match self {
            Self::Run => format!("the run used all of its budget of {what}"),
            Self::Answer { .. } => format!("{self} and its callees used all of their {what} for one answer"),
            Self::Worker { .. } | Self::Call { .. } => {
                format!("{self} and its callees used all of their {what}")
            }
        }
    }

    fn too_little(&self, left: &str, needed: &str) -> String {
        match self {
            Self::Run => format!("the run has {left} left of its budget, and {needed}"),
            Self::Worker { .. } | Self::Answer { .. } | Self::Call { .. } => {
                format!("{self} and its callees have {left} left, and {needed}")
            }
        }
    }
}

/// The budget of one call and everything below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The owner.
    pub owner: Owner,
    /// The limits.
    pub budget: Budget,
    /// The account that counts the same usage further up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above: Option<Arc<Account>>,
}

impl Account {
    /// The account and all above it, innermost first.
    pub fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |account| account.above.as_deref())
    }

    /// Returns true if anything other than time is limited, in this account or above.
    pub fn counts(&self) -> bool {
        self.chain().any(|account| Budget { timeout_ms: None, ..account.budget } != Budget::default())
    }

    /// Returns true if tokens or money limit the length of an answer, in this account or above.
    pub(crate) fn bounds_answers(&self) -> bool {
        self.chain()
            .any(|account| account.budget.max_tokens.is_some() || account.budget.max_cost_usd.is_some())
    }

    /// Returns true if working time is limited, in this account or above.
    pub fn has_deadline(&self) -> bool {
        self.chain().any(|account| account.budget.timeout_ms.is_some())
    }

    /// The owner and amount of the innermost cost limit, if there is one.
    pub(crate) fn cost_limit(&self) -> Option<(String, Usd)> {
        self.chain().find_map(|account| Some((account.owner.to_string(), account.budget.max_cost_usd?)))
    }

    /// The remainder of this account's own budget.
    pub fn left(&self, Spent { used, .. }: Spent) -> Left {
        let Budget { max_turns, max_tool_calls, max_tokens, max_cost_usd, .. } = self.budget;
        Left {
            turns: max_turns.map(|max| u64::from(max).saturating_sub(used.turns)),
            calls: max_tool_calls.map(|max| u64::from(max).saturating_sub(used.calls)),
            tokens: max_tokens.map(|max| max.saturating_sub(used.tokens)),
            cost_usd: max_cost_usd.map(|max| max.minus(used.cost)),
        }
    }

    /// Decides about a reservation by the amounts that each account of the chain has spent.
    pub(crate) fn decide(&self, spent: impl Fn(&Owner) -> Spent, wanted: Wanted) -> Decision {
        let (input, output) = wanted.request.unwrap_or_default();
        let mut capped = output;
        let mut wait = false;
        let mut refused = None;
        for account in self.chain() {
            let owner = &account.owner;
            let Spent { used, reserved } = spent(owner);
            let Budget { max_turns, max_tool_calls, max_tokens, max_cost_usd, .. } = account.budget;
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
            None => Decision::Granted(
                Wanted { request: wanted.request.map(|_| (input, capped)), ..wanted }.whole(),
            ),
        }
    }
}

/// The amounts wanted for a request or for calls.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Wanted {
    /// Model turns that begin.
    pub turns: u32,
    /// Tool calls that are about to be made.
    pub calls: u32,
    /// Tokens sent and maximum tokens of the answer, if a request is to be sent.
    pub request: Option<(u64, u64)>,
    /// The price of the model, if it is known.
    pub price: Option<Price>,
}

impl Wanted {
    /// The reservation of all wanted amounts.
    pub(crate) fn whole(&self) -> Reserved {
        Reserved {
            turns: self.turns,
            calls: self.calls,
            input_tokens: self.request.map(|(input, _)| input),
            output_tokens: self.request.map(|(_, output)| output),
            cost_usd: self.request.and_then(|(input, output)| Some(self.price?.at_most(input, output))),
        }
    }
}

/// Counted amounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Model turns.
    pub turns: u64,
    /// Tool calls.
    pub calls: u64,
    /// Tokens, sent and produced together.
    pub tokens: u64,
    /// Money.
    pub cost: Usd,
}

impl Amount {
    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            turns: self.turns.saturating_add(other.turns),
            calls: self.calls.saturating_add(other.calls),
            tokens: self.tokens.saturating_add(other.tokens),
            cost: self.cost.plus(other.cost),
        }
    }

    /// The difference, at least zero.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            turns: self.turns.saturating_sub(other.turns),
            calls: self.calls.saturating_sub(other.calls),
            tokens: self.tokens.saturating_sub(other.tokens),
            cost: self.cost.minus(other.cost),
        }
    }
}

/// The amounts of one account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Amounts used permanently.
    pub used: Amount,
    /// Amounts held by requests that have not ended.
    pub reserved: Amount,
}

impl Reserved {
    /// The part that stays reserved until it is settled. Turns and calls are used at once and are not returned.
    pub(crate) fn held(&self) -> Amount {
        Amount {
            tokens: self.input_tokens.unwrap_or(0).saturating_add(self.output_tokens.unwrap_or(0)),
            cost: self.cost_usd.unwrap_or_default(),
            ..Amount::default()
        }
    }

    /// The held part that a smaller reservation for the same request does not have.
    pub(crate) fn beyond(&self, smaller: &Self) -> Self {
        let held = self.held().minus(smaller.held());
        let tokens = Some(held.tokens).filter(|tokens| *tokens > 0);
        let cost = Some(held.cost).filter(|cost| *cost > Usd::ZERO);
        Self { output_tokens: tokens, cost_usd: cost, ..Self::default() }
    }

    /// The part that is used with the reservation.
    pub(crate) fn used_at_once(&self) -> Amount {
        Amount { turns: self.turns.into(), calls: self.calls.into(), ..Amount::default() }
    }
}

/// The remaining budget; absent values have no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// Model turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// Tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Tokens, sent and produced together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Usd>,
}

/// The decision about a reservation.
pub(crate) enum Decision {
    Granted(Reserved),
    /// Other requests hold the missing amount, and return the part that they don't use.
    Wait,
    Refused(String),
}
