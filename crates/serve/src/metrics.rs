//! Counts for Prometheus (OpenMetrics 1.0, <https://prometheus.io/docs/specs/om/open_metrics_spec/>).

use crate::{
    meter::{Amounts, Meter},
    token::Token,
    views::State,
};
use llm_do::{BudgetState, core::model::Usage};
use prometheus_client::{
    encoding::text::encode,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};
use std::{
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64},
    time::Duration,
};

type Labels = Vec<(&'static str, String)>;

/// Counts of a service's runs, tokens, costs, answers and requests, and the use of its quotas.
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    started: Family<Labels, Counter>,
    ended: Family<Labels, Counter>,
    live: Family<Labels, Gauge>,
    tokens: Family<Labels, Counter>,
    cost: Family<Labels, Counter<f64, AtomicU64>>,
    answered: Counter,
    triggered: Family<Labels, Counter>,
    notified: Family<Labels, Counter>,
    requests: Family<Labels, Counter>,
    took: Family<Labels, Histogram, fn() -> Histogram>,
    first: Family<Labels, Histogram, fn() -> Histogram>,
    quota_used: Family<Labels, Gauge<u64, AtomicU64>>,
    quota_limit: Family<Labels, Gauge<u64, AtomicU64>>,
    budget_used: Family<Labels, Gauge<f64, AtomicU64>>,
    budget_limit: Family<Labels, Gauge<f64, AtomicU64>>,
}

/// A histogram with buckets from 10 ms to three hours.
fn of_runs() -> Histogram {
    Histogram::new(exponential_buckets(0.01, 4.0, 11))
}

/// A histogram with buckets from a millisecond to four seconds.
fn of_starts() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 13))
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("llm_do");
        let metrics = Self {
            registry: Mutex::default(),
            started: Family::default(),
            ended: Family::default(),
            live: Family::default(),
            tokens: Family::default(),
            cost: Family::default(),
            answered: Counter::default(),
            triggered: Family::default(),
            notified: Family::default(),
            requests: Family::default(),
            took: Family::new_with_constructor(of_runs),
            first: Family::new_with_constructor(of_starts),
            quota_used: Family::default(),
            quota_limit: Family::default(),
            budget_used: Family::default(),
            budget_limit: Family::default(),
        };
        registry.register("runs_started", "Runs that clients have started", metrics.started.clone());
        registry.register("runs_ended", "Runs that have ended, by how", metrics.ended.clone());
        registry.register("runs", "Runs under way, by state", metrics.live.clone());
        registry.register("tokens", "Tokens of runs that have ended", metrics.tokens.clone());
        let dollars = Unit::Other("dollars".into());
        registry.register_with_unit("cost", "Cost of runs that have ended", dollars, metrics.cost.clone());
        registry.register("answers", "Answers to questions", metrics.answered.clone());
        registry.register(
            "triggers",
            "Events of triggers, by what became of them",
            metrics.triggered.clone(),
        );
        registry.register(
            "notifications",
            "Messages to notifiers, by what became of them",
            metrics.notified.clone(),
        );
        let seconds = || Unit::Seconds;
        let about = "From the start of a run to its end, waiting included";
        registry.register_with_unit("run_duration", about, seconds(), metrics.took.clone());
        let about = "From a request that starts a run to the run's first record";
        registry.register_with_unit("first_event", about, seconds(), metrics.first.clone());
        registry.register("http_requests", "Requests, by status", metrics.requests.clone());
        let about = "What is used of each quota, by all together or by a token or program";
        registry.register("quota_used", about, metrics.quota_used.clone());
        registry.register("quota_limit", "The most that may be used", metrics.quota_limit.clone());
        let about = "What is used and reserved of each budget over time in its current period";
        registry.register("budget_used", about, metrics.budget_used.clone());
        let about = "The most that may be used in one period of a budget over time";
        registry.register("budget_limit", about, metrics.budget_limit.clone());
        Self { registry: Mutex::new(registry), ..metrics }
    }
}

impl Metrics {
    pub(crate) fn started(&self, program: &str, worker: &str) {
        let labels = vec![("program", program.to_owned()), ("worker", worker.to_owned())];
        self.started.get_or_create(&labels).inc();
    }

    pub(crate) fn ended(&self, program: &str, state: State, usage: Usage, took: Duration) {
        let of = |name, value: &str| vec![("program", program.to_owned()), (name, value.to_owned())];
        self.ended.get_or_create(&of("state", state.name())).inc();
        self.took.get_or_create(&of("state", state.name())).observe(took.as_secs_f64());
        self.tokens.get_or_create(&of("direction", "input")).inc_by(usage.input_tokens.unwrap_or_default());
        self.tokens.get_or_create(&of("direction", "output")).inc_by(usage.output_tokens.unwrap_or_default());
        if let Some(cost) = usage.cost_usd {
            self.cost.get_or_create(&vec![("program", program.to_owned())]).inc_by(cost.as_dollars());
        }
    }

    /// Observes the time from a request to the first record of its run.
    pub(crate) fn recorded(&self, program: &str, after: Duration) {
        self.first.get_or_create(&vec![("program", program.to_owned())]).observe(after.as_secs_f64());
    }

    pub(crate) fn answered(&self) {
        self.answered.inc();
    }

    /// Counts an event of a trigger with its outcome.
    pub(crate) fn triggered(&self, program: &str, trigger: &str, outcome: &'static str) {
        let labels = [("program", program), ("trigger", trigger), ("outcome", outcome)];
        self.triggered.get_or_create(&labels.map(|(name, value)| (name, value.to_owned())).into()).inc();
    }

    /// Counts a message to a notifier with its outcome.
    pub(crate) fn notified(&self, notifier: &str, outcome: &'static str) {
        let labels = vec![("notifier", notifier.to_owned()), ("outcome", outcome.to_owned())];
        self.notified.get_or_create(&labels).inc();
    }

    pub(crate) fn request(&self, status: u16) {
        self.requests.get_or_create(&vec![("status", status.to_string())]).inc();
    }

    /// Returns the metrics as text, as far as the token may see them. `states` are those of the runs under way;
    /// `each_quota` calls back with each quota. `budgets` are the budgets over time that the token may see.
    pub(crate) fn text(
        &self,
        token: &Token,
        states: &[State],
        budgets: &[BudgetState],
        each_quota: impl FnOnce(&mut dyn FnMut(&Meter, &Amounts, &[Arc<str>], bool)),
    ) -> String {
        // One at a time: these gauges are of this token.
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        for state in [State::Queued, State::Running, State::Waiting] {
            let count = states.iter().filter(|found| **found == state).count();
            let gauge = self.live.get_or_create(&vec![("state", state.name().to_owned())]);
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        self.quota_used.clear();
        self.quota_limit.clear();
        each_quota(&mut |meter, used, names, all| {
            let name = meter.kind.name();
            if all {
                self.quota(vec![("quota", name.to_owned())], used.all, meter.limit());
            }
            for of in names {
                let labels = vec![("quota", name.to_owned()), (meter.whose, of.to_string())];
                self.quota(labels, used.by_name.get(of).copied().unwrap_or_default(), meter.limit_of(of));
            }
        });
        self.budget_used.clear();
        self.budget_limit.clear();
        budgets.iter().for_each(|budget| self.budget(budget));
        let mut text = String::new();
        // Writing to a `String` does not fail.
        let _ = encode(&mut text, &registry);
        text.lines().filter(|line| is_seen(token, line)).flat_map(|line| [line, "\n"]).collect()
    }

    fn quota(&self, labels: Labels, used: u64, limit: u64) {
        self.quota_used.get_or_create(&labels).set(used);
        // Without a limit there is no series.
        if limit < u64::MAX {
            self.quota_limit.get_or_create(&labels).set(limit);
        }
    }

    fn budget(&self, state: &BudgetState) {
        let BudgetState { budget, token, program, period, max, .. } = state;
        let names = [("budget", budget), ("token", token), ("program", program)];
        let names = names.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
        let labels: Labels = names.chain([("per", period.name().to_owned())]).collect();
        let set = |unit: &str, used: f64, limit: f64| {
            let labels = [labels.clone(), vec![("unit", unit.to_owned())]].concat();
            self.budget_used.get_or_create(&labels).set(used);
            self.budget_limit.get_or_create(&labels).set(limit);
        };
        if let Some(limit) = max.max_cost_usd {
            set("usd", state.used_cost.plus(state.reserved_cost).as_dollars(), limit.as_dollars());
        }
        if let Some(limit) = max.max_tokens {
            set("tokens", state.used_tokens.saturating_add(state.reserved_tokens) as f64, limit as f64);
        }
    }
}

/// Returns true if the token may see the line. Series of a program have it as their first label. Series without one
/// count all clients, except for gauges, which are made for the token.
fn is_seen(token: &Token, line: &str) -> bool {
    let (name, labels) = line.split_once(['{', ' ']).unwrap_or((line, ""));
    const OF_TOKEN: [&str; 5] = [
        "llm_do_runs",
        "llm_do_quota_used",
        "llm_do_quota_limit",
        "llm_do_budget_used",
        "llm_do_budget_limit",
    ];
    if line.starts_with('#') || OF_TOKEN.contains(&name) {
        return true;
    }
    let program =
        labels.strip_prefix("program=\"").and_then(|rest| rest.split_once('"')).map(|(name, _)| name);
    program.map_or(token.sees_all(), |program| token.reads_all() && token.may_use(program))
}
