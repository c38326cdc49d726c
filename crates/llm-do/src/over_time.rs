//! Budgets over time on this machine: those of `budgets.yaml`, and those of the tokens in `serve.yaml`
//! (`docs/reference/budgets.md`).

mod book;
mod calendar;
pub(crate) mod outside;
#[cfg(test)]
mod tests;

use crate::{problem::Problem, settings::Client};
use book::{Book, Counted, Decision, Key, Sum, Taken};
use calendar::Calendar;
use jiff::Zoned;
use llm_do_core::{
    price::Usd,
    send::BoxFuture,
    spending::{Held, Spending, WantedRequest},
};
use llm_do_host::Budgets;
use llm_do_program::budgets::{Amounts, Period, Programs, TimeBudget, TimeBudgets};
use schemars::JsonSchema;
use serde::Deserialize;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

/// The file of budgets in llm-do's home.
const FILE: &str = "budgets.yaml";
/// The file with the tokens of `llm-do serve`.
const TOKENS: &str = "serve.yaml";
/// The folder of the book.
const FOLDER: &str = "spending";
/// Time between two attempts of a request that waits for others.
const PAUSE: Duration = Duration::from_millis(50);

/// The budgets of one user. Without a file of budgets, nothing is read or made.
#[derive(Debug)]
pub struct BudgetsOverTime {
    home: PathBuf,
    settings: TimeBudgets,
    opened: OnceLock<(Arc<Book>, Calendar)>,
}

/// A program, as budgets count it. A file of the program can't change which budgets do.
#[derive(Clone, Debug)]
pub(crate) struct CountedProgram {
    /// The folder of the program, however it is started.
    pub(crate) folder: PathBuf,
    /// The file of the entry.
    pub(crate) entry: PathBuf,
}

/// The budgets of a token of `llm-do serve`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TokenBudgets {
    /// The most that its runs may use in a day.
    pub day: Option<TokenAmounts>,
    /// The most that its runs may use in a month.
    pub month: Option<TokenAmounts>,
}

impl TokenBudgets {
    /// Returns true if one of the budgets limits nothing, which is a mistake.
    pub fn limit_nothing(&self) -> bool {
        [self.day, self.month].into_iter().flatten().any(|amounts| amounts == TokenAmounts::default())
    }
}

/// The most that the runs of a token may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("minProperties" = 1))]
pub struct TokenAmounts {
    /// US dollars that requests may cost.
    #[schemars(with = "Option<f64>", range(min = 0.0))]
    pub max_cost_usd: Option<Usd>,
    /// Tokens of models, sent and produced together.
    pub max_tokens: Option<u64>,
}

/// The part of `serve.yaml` that has budgets. The service checks the whole file.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ServeFile {
    tokens: Vec<TokenEntry>,
}

#[derive(Deserialize)]
struct TokenEntry {
    name: String,
    #[serde(default)]
    budgets: TokenBudgets,
}

/// The state of one budget.
#[derive(Clone, Debug)]
pub struct BudgetState {
    /// The name in `budgets.yaml`. Absent for the budget of a token.
    pub budget: Option<String>,
    /// The token of `serve.yaml`.
    pub token: Option<String>,
    /// The programs that it counts: a path, or `each` if no program has used the budget yet.
    pub program: Option<String>,
    /// The time after which it opens again.
    pub period: Period,
    /// The most in one period.
    pub max: Amounts,
    /// Used tokens.
    pub used_tokens: u64,
    /// Used money.
    pub used_cost: Usd,
    /// Tokens reserved by requests in flight.
    pub reserved_tokens: u64,
    /// Money reserved by requests in flight.
    pub reserved_cost: Usd,
    /// The current period: `2026-11-27` or `2026-11`.
    pub current: String,
    /// The time at which the budget opens again.
    pub opens_again: Option<Zoned>,
}

impl BudgetsOverTime {
    /// Reads the budgets in llm-do's home. `user` is the home of the user. Without a file there are none.
    ///
    /// # Errors
    /// The file can't be read, or it is wrong.
    pub fn read(home: &Path, user: Option<&Path>) -> Result<Self, Problem> {
        let path = home.join(FILE);
        let settings = match fs::read_to_string(&path) {
            Ok(text) => {
                let is_zone = |name: &str| jiff::tz::TimeZone::get(name).is_ok();
                let name = path.display().to_string();
                TimeBudgets::parse(&name, &text, user, is_zone).map_err(Problem::Program)?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && is_absent(&path) => {
                TimeBudgets::default()
            }
            Err(error) => return Err(Problem::UserConfig { path, reason: error.to_string() }),
        };
        Ok(Self { home: home.to_owned(), settings, opened: OnceLock::new() })
    }

    fn opened(&self) -> &(Arc<Book>, Calendar) {
        self.opened.get_or_init(|| {
            let book = Book::in_folder(self.home.join(FOLDER));
            (Arc::new(book), Calendar::of_machine(self.settings.time_zone.as_deref()))
        })
    }

    /// Returns the budgets that count the runs of a program, started by a client of a service or by the operator.
    ///
    /// # Errors
    /// The budgets of the client's token can't be read.
    pub(crate) fn of_run(
        &self,
        program: &CountedProgram,
        client: Option<&Client>,
    ) -> Result<Option<Arc<RunSpending>>, Problem> {
        let mut counted: Vec<Counted> =
            self.settings.budgets.iter().filter_map(|budget| counting(budget, program)).collect();
        if let Some(client) = client {
            let tokens = tokens(&self.home)?;
            let of_client = tokens.into_iter().filter(|(name, _)| **name == *client.name);
            counted.extend(of_client.flat_map(|(name, budgets)| of_token(name, budgets)));
        }
        if counted.is_empty() {
            return Ok(None);
        }
        let (book, calendar) = self.opened();
        Ok(Some(Arc::new(RunSpending {
            book: Arc::clone(book),
            calendar: calendar.clone(),
            counted: counted.into(),
            refused: Mutex::default(),
        })))
    }

    /// Returns warnings about budgets that count no program.
    pub fn warnings(&self) -> Vec<String> {
        let of = |budget: &TimeBudget| match &budget.programs {
            Programs::Below(path) if !path.exists() => Some(format!(
                "the budget `{}` counts nothing: {} does not exist",
                budget.name,
                path.display()
            )),
            _ => None,
        };
        self.settings.budgets.iter().filter_map(of).collect()
    }

    /// Returns the state of every budget: those of `budgets.yaml` in their order, then those of tokens.
    ///
    /// # Errors
    /// The file of tokens or the book can't be read.
    pub fn states(&self) -> Result<Vec<BudgetState>, Problem> {
        let each: Vec<Counted> = self
            .settings
            .budgets
            .iter()
            .filter(|budget| budget.programs == Programs::Each)
            .map(|budget| counted(budget, None))
            .collect();
        let mut budgets: Vec<Counted> =
            self.settings.budgets.iter().map(|budget| counted(budget, None)).collect();
        for (name, of) in tokens(&self.home)? {
            budgets.extend(of_token(name, of));
        }
        if budgets.is_empty() {
            return Ok(Vec::new());
        }
        let (book, calendar) = self.opened();
        let overview = book
            .overview(calendar, budgets, &each)
            .map_err(|error| Problem::UserConfig { path: book.path(), reason: error.to_string() })?;
        let programs = |key: &Key| {
            let budget = self.settings.budgets.iter().find(|one| Some(&one.name) == key.budget.as_ref());
            key.program.clone().or_else(|| match &budget?.programs {
                Programs::All => None,
                Programs::Below(path) => Some(path.display().to_string()),
                Programs::Each => Some("each".into()),
            })
        };
        let state = |(one, current, taken): (Counted, String, Taken)| BudgetState {
            program: programs(&one.key),
            opens_again: calendar.end(one.period, &current),
            budget: one.key.budget,
            token: one.key.token,
            period: one.period,
            max: one.amounts,
            used_tokens: taken.used.tokens,
            used_cost: taken.used.cost_usd,
            reserved_tokens: taken.reserved.tokens,
            reserved_cost: taken.reserved.cost_usd,
            current,
        };
        let mut states: Vec<BudgetState> = overview.into_iter().map(state).collect();
        // The row of a budget for each program stands for it only until a program has used it.
        let used: Vec<Option<String>> = states
            .iter()
            .filter(|state| state.program.as_deref().is_some_and(|program| program != "each"))
            .map(|state| state.budget.clone())
            .collect();
        states.retain(|state| state.program.as_deref() != Some("each") || !used.contains(&state.budget));
        Ok(states)
    }
}

/// The budget for a program, if it counts that program.
fn counting(budget: &TimeBudget, CountedProgram { folder, entry }: &CountedProgram) -> Option<Counted> {
    match &budget.programs {
        Programs::All => Some(counted(budget, None)),
        Programs::Below(path) => {
            let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
            let path = real(path);
            let is_below =
                [folder.as_path(), entry, &real(entry)].iter().any(|place| place.starts_with(&path));
            is_below.then(|| counted(budget, None))
        }
        Programs::Each => Some(counted(budget, Some(folder.display().to_string()))),
    }
}

fn counted(budget: &TimeBudget, program: Option<String>) -> Counted {
    let of = program.as_ref().map(|program| format!(" of `{program}`")).unwrap_or_default();
    Counted {
        whose: format!("the budget `{}`{of}", budget.name),
        period: budget.period,
        amounts: budget.amounts,
        key: Key {
            budget: Some(budget.name.clone()),
            token: None,
            program,
            per: budget.period.name().into(),
        },
    }
}

/// The budgets of a token.
fn of_token(name: String, TokenBudgets { day, month }: TokenBudgets) -> impl Iterator<Item = Counted> {
    let periods = [(Period::Day, day), (Period::Month, month)];
    periods.into_iter().filter_map(move |(period, amounts)| {
        let TokenAmounts { max_cost_usd, max_tokens } = amounts?;
        Some(Counted {
            whose: format!("the budget of the token `{name}`"),
            period,
            amounts: Amounts { max_cost_usd, max_tokens },
            key: Key { budget: None, token: Some(name.clone()), program: None, per: period.name().into() },
        })
    })
}

/// Returns true if there is no file, and no link to one that is gone either.
fn is_absent(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Reads the budgets of the tokens in `serve.yaml`.
fn tokens(home: &Path) -> Result<Vec<(String, TokenBudgets)>, Problem> {
    let path = home.join(TOKENS);
    let wrong = |reason: String| Problem::UserConfig { path: path.clone(), reason };
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_absent(&path) => return Ok(Vec::new()),
        read => read.map_err(|error| wrong(error.to_string()))?,
    };
    let options = serde_saphyr::options! { strict_booleans: true, no_schema: true, with_snippet: false };
    let ServeFile { tokens } =
        serde_saphyr::from_str_with_options(&text, options).map_err(|error| wrong(error.to_string()))?;
    Ok(tokens.into_iter().map(|TokenEntry { name, budgets }| (name, budgets)).collect())
}

/// The budgets that count one run.
pub(crate) struct RunSpending {
    book: Arc<Book>,
    calendar: Calendar,
    counted: Arc<[Counted]>,
    /// The message of the last refused request.
    refused: Mutex<Option<Arc<str>>>,
}

impl Spending for RunSpending {
    fn cost_limit(&self) -> Option<(String, Usd)> {
        self.counted.iter().find_map(|one| Some((one.whose.clone(), one.amounts.max_cost_usd?)))
    }

    fn reserve<'a>(&'a self, wanted: WantedRequest<'a>) -> BoxFuture<'a, Result<Box<dyn Held>, String>> {
        Box::pin(async move {
            loop {
                let decided = self.book.reserve(&self.calendar, &self.counted, wanted).await;
                match decided.map_err(|error| self.unusable(&error))? {
                    Decision::Granted { id, output } => {
                        let book = Arc::clone(&self.book);
                        return Ok(Box::new(Hold { book, id, output, is_settled: false }) as Box<dyn Held>);
                    }
                    Decision::Wait => tokio::time::sleep(PAUSE).await,
                    Decision::Refused(what) => return Err(self.refuse(what)),
                }
            }
        })
    }

    fn refusal(&self) -> Option<Arc<str>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn take_over<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Box<dyn Held>>, String>> {
        Box::pin(async move {
            let id = self.book.take_over(name).await.map_err(|error| self.unusable(&error))?;
            // The tokens of the answer are those that the request was sent with.
            let hold = |id| Hold { book: Arc::clone(&self.book), id, output: u64::MAX, is_settled: false };
            Ok(id.map(|id| Box::new(hold(id)) as Box<dyn Held>))
        })
    }
}

impl Budgets for RunSpending {
    fn for_run(&self) -> Arc<dyn Spending> {
        Arc::new(Self {
            book: Arc::clone(&self.book),
            calendar: self.calendar.clone(),
            counted: Arc::clone(&self.counted),
            refused: Mutex::default(),
        })
    }
}

impl RunSpending {
    /// Keeps the message of a refusal.
    fn refuse(&self, what: String) -> String {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(what.as_str().into());
        what
    }

    fn unusable(&self, error: &io::Error) -> String {
        let path = self.book.path();
        self.refuse(format!("the request is not sent: cannot use {}: {error}", path.display()))
    }
}

/// A reservation in the book.
struct Hold {
    book: Arc<Book>,
    id: u64,
    output: u64,
    is_settled: bool,
}

impl Held for Hold {
    fn output_tokens(&self) -> u64 {
        self.output
    }

    fn settle(mut self: Box<Self>, tokens: u64, cost: Usd) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // Unsettled, it counts in full.
            self.is_settled = self.book.settle(self.id, Sum { tokens, cost_usd: cost }).await.is_ok();
        })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.is_settled {
            self.book.give_up(self.id);
        }
    }
}
