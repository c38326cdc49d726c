//! Options of a program's runs, or of a single call.

use crate::{grant::parse_grant, loaded::read_set, problem::Problem, settings::RunOptions};
use llm_do_core::{
    driver::Driver,
    gate::{Calls, FileSet, Mode, Rule, RuleLine},
    ledger::Budget,
    operator::Operator,
};
use llm_do_host::EventSink;
use llm_do_runs::LocalDriver;
use std::{path::Path, sync::Arc};

/// Options of runs: model, mode, rules, budget, grants, operator, events, driver. [`ProgramBuilder::options`] sets those of all runs
/// of a program, and [`Call::options`] changes them for one call.
///
/// A text that can't be read is an error of the program or call that gets the options.
///
/// ```
/// use llm_do::{Mode, Options};
///
/// let options = Options::new()
///     .model("anthropic:claude-haiku-4-5")
///     .mode(Mode::AutoDeny)
///     .allow("write_file(output/**)")
///     .budget("0.10usd")
///     .budget("20turns");
/// ```
///
/// [`ProgramBuilder::options`]: crate::ProgramBuilder::options
/// [`Call::options`]: crate::Call::options
#[derive(Clone, Default)]
pub struct Options {
    changes: Vec<Change>,
    operator: Option<Arc<dyn Operator>>,
    events: Option<Arc<dyn EventSink>>,
    driver: Option<Arc<MakeDriver>>,
}

/// A function that makes the driver of a run from the one that keeps its journal.
pub(super) type MakeDriver = dyn Fn(Arc<LocalDriver>) -> Arc<dyn Driver> + Send + Sync;

/// An option. Options apply in the order in which they were given.
#[derive(Clone)]
enum Change {
    Model(String),
    Mode(Mode),
    Rule { option: &'static str, rule: Rule, text: String },
    Budget(String),
    Grant(String),
    UntrustedInput,
}

impl Options {
    /// Returns options that change nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the model of every worker that is not locked, as `PROVIDER:MODEL`.
    #[must_use]
    pub fn model(self, name: impl Into<String>) -> Self {
        self.and(Change::Model(name.into()))
    }

    /// Sets the effect of a call that needs an approval. Without it the operator is asked, or the call is refused if
    /// there is no operator. A program's manifest can only make the mode stricter.
    #[must_use]
    pub fn mode(self, mode: Mode) -> Self {
        self.and(Change::Mode(mode))
    }

    /// Calls that match this rule run without a question: `write_file(output/**)`, `refund where amount <= 20`.
    #[must_use]
    pub fn allow(self, rule: impl Into<String>) -> Self {
        self.and(Change::Rule { option: "allow", rule: Rule::PreApproved, text: rule.into() })
    }

    /// Calls that match this rule need an approval.
    #[must_use]
    pub fn ask(self, rule: impl Into<String>) -> Self {
        self.and(Change::Rule { option: "ask", rule: Rule::Ask, text: rule.into() })
    }

    /// Calls that match this rule are refused.
    #[must_use]
    pub fn deny(self, rule: impl Into<String>) -> Self {
        self.and(Change::Rule { option: "deny", rule: Rule::Blocked, text: rule.into() })
    }

    /// Adds a limit of the whole run: a number with `usd`, `tokens`, `turns`, `calls`, `s`, `m` or `h`, such as
    /// `0.50usd`. Of two limits of one kind the tighter applies.
    #[must_use]
    pub fn budget(self, limit: impl Into<String>) -> Self {
        self.and(Change::Budget(limit.into()))
    }

    /// Adds a capability beyond the program's own folder, such as `/data:ro` or `network=api.example.com`.
    #[must_use]
    pub fn grant(self, capability: impl Into<String>) -> Self {
        self.and(Change::Grant(capability.into()))
    }

    /// Declares that others than the operator write the inputs, for example the users of a website. Then every effect that
    /// these words could steer needs an approval.
    #[must_use]
    pub fn untrusted_input(self) -> Self {
        self.and(Change::UntrustedInput)
    }

    /// Answers the questions of a run: approvals, and inputs that its workers want.
    #[must_use]
    pub fn operator(mut self, operator: impl Operator + 'static) -> Self {
        self.operator = Some(Arc::new(operator));
        self
    }

    /// Passes the events of a run to a sink, as they happen.
    #[must_use]
    pub fn events(mut self, events: impl EventSink + 'static) -> Self {
        self.events = Some(Arc::new(events));
        self
    }

    /// Puts a driver of your own in front of the one that keeps the journal: it can watch the steps of a run, and have its
    /// calls made elsewhere.
    #[must_use]
    pub fn driver(
        mut self,
        driver: impl Fn(Arc<LocalDriver>) -> Arc<dyn Driver> + Send + Sync + 'static,
    ) -> Self {
        self.driver = Some(Arc::new(driver));
        self
    }

    /// Adds the options of `other`, which take precedence.
    #[must_use]
    pub(super) fn then(mut self, other: Self) -> Self {
        self.changes.extend(other.changes);
        self.operator = other.operator.or(self.operator);
        self.events = other.events.or(self.events);
        self.driver = other.driver.or(self.driver);
        self
    }

    /// Returns true if runs with these options need run options of their own.
    pub(super) fn change_the_run(&self) -> bool {
        !self.changes.is_empty() || self.operator.is_some()
    }

    /// Returns the name of the first option that changes the run's permissions or resources.
    pub(super) fn first_change(&self) -> Option<&'static str> {
        self.changes.first().map(|change| match change {
            Change::Model(_) => "model",
            Change::Mode(_) => "mode",
            Change::Rule { option, .. } => option,
            Change::Budget(_) => "budget",
            Change::Grant(_) => "grant",
            Change::UntrustedInput => "untrusted_input",
        })
    }

    pub(super) fn answering(&self) -> Option<Arc<dyn Operator>> {
        self.operator.clone()
    }

    pub(super) fn listening(&self) -> Option<Arc<dyn EventSink>> {
        self.events.clone()
    }

    pub(super) fn driving(&self) -> Option<Arc<MakeDriver>> {
        self.driver.clone()
    }

    /// Returns the options of a run. Files of sets in rules are relative to `here`.
    ///
    /// # Errors
    /// A text can't be read.
    pub(super) fn run(&self, base: RunOptions, here: &Path) -> Result<RunOptions, Problem> {
        let mut run = RunOptions { can_ask: base.can_ask || self.operator.is_some(), ..base };
        for change in &self.changes {
            match change {
                Change::Model(name) => {
                    run.model = Some(name.parse().map_err(|error| wrong("model", &error))?);
                }
                Change::Mode(mode) => run.mode = Some(*mode),
                Change::Rule { option, rule, text } => run.rules.push(line(option, text, *rule, here)?),
                Change::Budget(limit) => run.budget = limited(run.budget, limit)?,
                Change::Grant(text) => {
                    run.grants.push(parse_grant(text).map_err(|error| wrong("grant", &error))?);
                }
                Change::UntrustedInput => run.untrusted_input = true,
            }
        }
        Ok(run)
    }

    fn and(mut self, change: Change) -> Self {
        self.changes.push(change);
        self
    }
}

fn limited(budget: Budget, limit: &str) -> Result<Budget, Problem> {
    budget.and(limit).map_err(|error| wrong("budget", &error))
}

fn line(option: &'static str, text: &str, rule: Rule, here: &Path) -> Result<RuleLine, Problem> {
    let read = |set: &FileSet| read_set(here, set);
    let Calls { pattern, conditions } = Calls::parse(text, &read).map_err(|error| wrong(option, &error))?;
    Ok(RuleLine::new(pattern, rule, format!("{option} {text}")).when(conditions))
}

fn wrong(option: &'static str, error: &dyn std::fmt::Display) -> Problem {
    Problem::Option { option, reason: error.to_string() }
}
