//! Approval functions: `@tool(approval=…)`.

use crate::{
    call::{InFlight, Seat},
    host::{Event, START},
    pool::Room,
    python::Python,
    view::Reach,
    wire::{Module, ToHost},
};
use llm_do_core::{
    function::{RuleCall, RuleCode},
    gate::Rule,
    send::BoxFuture,
};
use std::sync::Arc;

/// The function of `@tool(approval=…)`.
pub(crate) struct HostedRule {
    pub(crate) python: Arc<Python>,
    pub(crate) reach: Reach,
    pub(crate) module: Module,
    pub(crate) function: Arc<str>,
    /// True if the function takes `origins`.
    pub(crate) takes_origins: bool,
    /// True if it is the program's own code in a process that reaches only what the operator has granted.
    pub(crate) covers_grants: bool,
}

impl RuleCode for HostedRule {
    fn takes_origins(&self) -> bool {
        self.takes_origins
    }

    fn covers_grants(&self) -> bool {
        self.covers_grants
    }

    fn rule<'a>(&'a self, call: RuleCall<'a>) -> BoxFuture<'a, Result<Rule, String>> {
        Box::pin(async move {
            // In the process of the functions, so that it sees what they have changed; not in turn with them: the one that
            // runs may wait for the call that the rule is about.
            let lease =
                self.python.lease(&self.reach, Room::Home, Some(START)).await.map_err(|error| error.0)?;
            let (module, function) = (&self.module, &*self.function);
            let mut flight = InFlight::begin(lease, Seat::Beside, &self.function, |id| ToHost::Approval {
                id,
                module,
                function,
                args: call.arguments,
                input: call.run_input,
                caller: call.caller,
                origins: call.origins,
            });
            loop {
                match flight.next().await {
                    Event::Result(rule, _) => {
                        return serde_json::from_value(rule).map_err(|error| error.to_string());
                    }
                    Event::Failed(error) => return Err(error.message),
                    Event::Died(death) => return Err(death.reason.to_string()),
                    Event::Callback { .. } | Event::StepEnd { .. } | Event::Log(_) | Event::Idle(_) => {}
                }
            }
        })
    }
}
