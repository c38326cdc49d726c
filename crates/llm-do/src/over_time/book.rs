//! The book of budgets over time: used and reserved amounts, which all processes of a user share.
//!
//! The book is one small file in the folder `spending` of llm-do's home. A process changes it under a lock, and replaces
//! it as a whole. A reservation belongs to the process that made it, which holds the lock of a file of its own. If that
//! process ends without a settlement, the provider may have processed the request: the reservation stays in the book,
//! and counts as used.

use super::calendar::Calendar;
use llm_do_core::{
    price::{Price, Usd},
    spending::WantedRequest,
};
use llm_do_program::budgets::{Amounts, Period};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};
use tempfile::NamedTempFile;

/// Version of the file.
const FORMAT: u32 = 1;
const BOOK: &str = "book.json";
const LOCK: &str = "lock";
/// The folder with a file of each process.
const PROCESSES: &str = "processes";
/// Longest wait for the lock. A change takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_millis(3);

/// The budget that a row of the book is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Key {
    /// The name of the budget. Absent for the budget of a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) budget: Option<String>,
    /// The token, if the budget is a token's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<String>,
    /// The program, if each has the budget for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) program: Option<String>,
    /// `day` or `month`.
    pub(super) per: String,
}

/// A budget that counts a run.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    pub(super) key: Key,
    /// The budget, in messages.
    pub(super) whose: String,
    pub(super) period: Period,
    pub(super) amounts: Amounts,
}

/// The decision about a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// The reservation with this ID was made for an answer of at most that many tokens.
    Granted { id: u64, output: u64 },
    /// Other requests hold the missing amount, and return the part that they don't use.
    Wait,
    /// A budget leaves too little.
    Refused(String),
}

/// Used and reserved amounts of one budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// Used by requests that have ended, or that never will.
    pub(super) used: Sum,
    /// Reserved by requests that are in flight.
    pub(super) reserved: Sum,
}

/// Tokens and money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sum {
    pub(super) tokens: u64,
    pub(super) cost_usd: Usd,
}

impl Sum {
    fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            cost_usd: self.cost_usd.plus(other.cost_usd),
        }
    }
}

/// The content of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Content {
    format: u32,
    /// The ID of the next reservation.
    next: u64,
    rows: Vec<Row>,
    reservations: Vec<Reservation>,
}

/// The use of one budget in its latest period.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    #[serde(flatten)]
    key: Key,
    /// The period. It never becomes an earlier one, so a clock that is set back opens no budget.
    period: String,
    #[serde(flatten)]
    used: Sum,
}

/// The worst case of a request that has no end yet.
#[derive(Debug, Serialize, Deserialize)]
struct Reservation {
    id: u64,
    /// The name of the request.
    request: String,
    /// The process that sends the request, by the name of its file. Absent if the request was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    process: Option<String>,
    #[serde(flatten)]
    amount: Sum,
    /// The budgets that count it, each with the period in which the request began.
    counts: Vec<(Key, String)>,
}

impl Default for Content {
    fn default() -> Self {
        Self { format: FORMAT, next: 1, rows: Vec::new(), reservations: Vec::new() }
    }
}

impl Content {
    /// The row of a budget, in the current period or a later one.
    fn row(&mut self, counted: &Counted, calendar: &Calendar) -> &mut Row {
        let current = calendar.current(counted.period);
        let at = self.rows.iter().position(|row| row.key == counted.key).unwrap_or_else(|| {
            self.rows.push(Row { key: counted.key.clone(), period: current.clone(), used: Sum::default() });
            self.rows.len() - 1
        });
        let row = &mut self.rows[at];
        if row.period < current {
            row.period = current;
            row.used = Sum::default();
        }
        row
    }

    /// The amounts of a budget in a period. `is_live` decides which processes still work.
    fn taken(&self, key: &Key, period: &str, used: Sum, is_live: &mut dyn FnMut(&str) -> bool) -> Taken {
        let here = |reservation: &&Reservation| {
            reservation.counts.iter().any(|(counted, begun)| counted == key && begun == period)
        };
        self.reservations.iter().filter(here).fold(Taken { used, ..Taken::default() }, |taken, one| match one
            .process
            .as_deref()
            .is_some_and(&mut *is_live)
        {
            true => Taken { reserved: taken.reserved.plus(one.amount), ..taken },
            false => Taken { used: taken.used.plus(one.amount), ..taken },
        })
    }

    /// Drops what no budget counts any more.
    fn prune(&mut self, calendar: &Calendar, is_live: &mut dyn FnMut(&str) -> bool) {
        let oldest = calendar.oldest();
        self.rows.retain(|row| row.period >= oldest);
        let rows = &self.rows;
        self.reservations.retain(|reservation| {
            let is_counted = |(key, period): &(Key, String)| {
                rows.iter().any(|row| row.key == *key && row.period == *period)
            };
            reservation.counts.iter().any(is_counted)
                || reservation.process.as_deref().is_some_and(&mut *is_live)
        });
    }
}

/// The book of one user, as one process uses it.
#[derive(Debug)]
pub(super) struct Book {
    dir: PathBuf,
    /// The file of this process, which is locked as long as the process lives.
    process: Mutex<Option<NamedTempFile>>,
}

/// The lock of the book.
struct Locked {
    _lock: File,
}

impl Book {
    /// The book in that folder. Nothing is read or made before the first use.
    pub(super) fn in_folder(dir: PathBuf) -> Self {
        Self { dir, process: Mutex::default() }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.dir.join(BOOK)
    }

    /// Reserves the worst case of a request in these budgets, or the part of it that is left.
    ///
    /// # Errors
    /// The book can't be read or written.
    pub(super) async fn reserve(
        &self,
        calendar: &Calendar,
        counted: &[Counted],
        wanted: WantedRequest<'_>,
    ) -> io::Result<Decision> {
        let _locked = self.locked().await?;
        let process = self.process_name()?;
        let mut content = self.read()?;
        let mut is_live = self.liveness();
        let decision = decide(&mut content, calendar, counted, wanted, &mut is_live);
        let output = match decision {
            Ok(output) => output,
            Err(decision) => return Ok(decision),
        };
        let id = content.next;
        content.next += 1;
        let counts = counted.iter().map(|one| (one.key.clone(), content.row(one, calendar).period.clone()));
        let counts = counts.collect();
        let amount = worst(wanted.input, output, wanted.price);
        let request = wanted.name.to_owned();
        content.reservations.push(Reservation { id, request, process: Some(process), amount, counts });
        content.prune(calendar, &mut is_live);
        self.write(&content)?;
        Ok(Decision::Granted { id, output })
    }

    /// Takes over the newest reservation of a process that has ended for the request of that name. Returns its ID.
    ///
    /// # Errors
    /// The book can't be read or written.
    pub(super) async fn take_over(&self, request: &str) -> io::Result<Option<u64>> {
        let _locked = self.locked().await?;
        let process = self.process_name()?;
        let mut content = self.read()?;
        let mut is_live = self.liveness();
        let mut of_request = content.reservations.iter_mut().rev().filter(|one| one.request == request);
        let Some(one) = of_request.find(|one| !one.process.as_deref().is_some_and(&mut is_live)) else {
            return Ok(None);
        };
        one.process = Some(process);
        let id = one.id;
        self.write(&content)?;
        Ok(Some(id))
    }

    /// Replaces a reservation by the actual use.
    ///
    /// # Errors
    /// The book can't be read or written. The reservation stays as it is.
    pub(super) async fn settle(&self, id: u64, used: Sum) -> io::Result<()> {
        let _locked = self.locked().await?;
        self.change(|content| {
            let Some(at) = content.reservations.iter().position(|one| one.id == id) else { return };
            let Reservation { counts, .. } = content.reservations.remove(at);
            for (key, period) in counts {
                // Use of a past period is over.
                if let Some(row) = content.rows.iter_mut().find(|row| row.key == key && row.period == period)
                {
                    row.used = row.used.plus(used);
                }
            }
        })
    }

    /// Notes that a request is given up, and that its use will never be known: it counts in full, and others don't wait
    /// for it. For code that can't wait.
    pub(super) fn give_up(&self, id: u64) {
        let until = Instant::now() + Duration::from_secs(2);
        let locked = loop {
            match self.try_lock() {
                Ok(Some(locked)) => break locked,
                Ok(None) if Instant::now() < until => std::thread::sleep(TICK),
                // The reservation stays until this process ends.
                Ok(None) | Err(_) => return,
            }
        };
        let _ = self.change(|content| {
            if let Some(one) = content.reservations.iter_mut().find(|one| one.id == id) {
                one.process = None;
            }
        });
        drop(locked);
    }

    /// The use of these budgets, each with its period, and of all other programs of budgets that each program has for
    /// itself.
    ///
    /// # Errors
    /// The book can't be read.
    pub(super) fn overview(
        &self,
        calendar: &Calendar,
        budgets: Vec<Counted>,
        each: &[Counted],
    ) -> io::Result<Vec<(Counted, String, Taken)>> {
        let _locked = match self.dir.exists() {
            true => Some(self.locked_now()?),
            false => None,
        };
        let mut content = self.read()?;
        let mut is_live = self.liveness();
        let mut all = budgets;
        for row in &content.rows {
            let Some(program) = &row.key.program else { continue };
            let of = |one: &&Counted| one.key.budget == row.key.budget && one.key.per == row.key.per;
            if let Some(one) = each.iter().find(of) {
                let whose = format!("{} of `{program}`", one.whose);
                all.push(Counted { key: row.key.clone(), whose, ..one.clone() });
            }
        }
        let overview = all.into_iter().map(|one| {
            let row = content.row(&one, calendar);
            let (period, used) = (row.period.clone(), row.used);
            let taken = content.taken(&one.key, &period, used, &mut is_live);
            (one, period, taken)
        });
        Ok(overview.collect())
    }

    fn change(&self, change: impl FnOnce(&mut Content)) -> io::Result<()> {
        let mut content = self.read()?;
        change(&mut content);
        self.write(&content)
    }

    async fn locked(&self) -> io::Result<Locked> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.try_lock()? {
                Some(locked) => return Ok(locked),
                None if Instant::now() < until => tokio::time::sleep(TICK).await,
                None => return Err(busy()),
            }
        }
    }

    fn locked_now(&self) -> io::Result<Locked> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.try_lock()? {
                Some(locked) => return Ok(locked),
                None if Instant::now() < until => std::thread::sleep(TICK),
                None => return Err(busy()),
            }
        }
    }

    fn try_lock(&self) -> io::Result<Option<Locked>> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        let path = self.dir.join(LOCK);
        let lock = match options.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                llm_do_sandbox::private_dir(&self.dir)?;
                options.open(&path)?
            }
            opened => opened?,
        };
        match lock.try_lock() {
            Ok(()) => Ok(Some(Locked { _lock: lock })),
            Err(TryLockError::WouldBlock) => Ok(None),
            // Without locks, two processes could grant one amount.
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Reads the book, under its lock.
    fn read(&self) -> io::Result<Content> {
        let wrong = |what: String| {
            let what = format!(
                "it is not a book of llm-do's budgets ({what}); remove it to begin with unused budgets"
            );
            io::Error::new(io::ErrorKind::InvalidData, what)
        };
        let text = match fs::read(self.path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Content::default()),
            read => read?,
        };
        let content: Content = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
        match content.format {
            FORMAT => Ok(content),
            other => Err(wrong(format!("format {other}"))),
        }
    }

    /// Replaces the book, under its lock. It is on the disk before a request is sent.
    fn write(&self, content: &Content) -> io::Result<()> {
        let new = self.dir.join("book.json.new");
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec(content)?)?;
        file.sync_all()?;
        fs::rename(&new, self.path())?;
        File::open(&self.dir)?.sync_all()
    }

    /// The name of this process in the book, under its lock. The first call makes the file of the process.
    fn process_name(&self) -> io::Result<String> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match process.take() {
            Some(file) => file,
            None => {
                let dir = self.dir.join(PROCESSES);
                llm_do_sandbox::private_dir(&dir)?;
                remove_dead(&dir);
                let prefix = format!("{}-", std::process::id());
                let file = tempfile::Builder::new().prefix(&prefix).rand_bytes(12).tempfile_in(&dir)?;
                file.as_file().try_lock()?;
                file
            }
        };
        let name = file.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        *process = Some(file);
        Ok(name)
    }

    /// Returns a function that decides whether a process is alive. It looks at each process once.
    fn liveness(&self) -> impl FnMut(&str) -> bool {
        let dir = self.dir.join(PROCESSES);
        let own = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        let own = own.as_ref().and_then(|file| Some(file.path().file_name()?.to_string_lossy().into_owned()));
        let mut known: Vec<(String, bool)> = own.into_iter().map(|name| (name, true)).collect();
        move |process| {
            if let Some((_, is_live)) = known.iter().find(|(name, _)| name == process) {
                return *is_live;
            }
            let is_live = holds_its_lock(&dir.join(process));
            known.push((process.to_owned(), is_live));
            is_live
        }
    }
}

fn busy() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "another process holds its lock")
}

/// Returns true if the process of that file is alive: it holds the file's lock as long as it lives.
fn holds_its_lock(file: &Path) -> bool {
    File::open(file).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Removes the files of processes that have ended.
fn remove_dead(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if !holds_its_lock(&entry.path()) {
            // The next process tries again.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The worst case of a request.
fn worst(input: u64, output: u64, price: Option<Price>) -> Sum {
    Sum {
        tokens: input.saturating_add(output),
        cost_usd: price.map(|price| price.at_most(input, output)).unwrap_or_default(),
    }
}

/// Returns the tokens of the answer that all budgets leave, or the decision against the request.
fn decide(
    content: &mut Content,
    calendar: &Calendar,
    counted: &[Counted],
    wanted: WantedRequest<'_>,
    is_live: &mut dyn FnMut(&str) -> bool,
) -> Result<u64, Decision> {
    let WantedRequest { input, output, least, price, .. } = wanted;
    let (mut capped, mut wait, mut refused) = (output, false, None);
    for one in counted {
        let row = content.row(one, calendar);
        let (period, used) = (row.period.clone(), row.used);
        let Taken { used, reserved } = content.taken(&one.key, &period, used, is_live);
        let refuse = |used: String, max: String, reserved: Option<String>, needed: String, ever: bool| {
            let Counted { whose, period: kind, .. } = one;
            let reserved = reserved.map(|reserved| format!(", {reserved} reserved")).unwrap_or_default();
            let end = calendar.end(*kind, &period).filter(|_| ever);
            let again = match end {
                Some(end) => format!("; it opens again at {}", end.strftime("%Y-%m-%d %H:%M %:z (%Q)")),
                None if ever => String::new(),
                None => "; even unused, it is too small for that".into(),
            };
            format!(
                "{whose} leaves too little: {used} of {max} per {} used{reserved}, and the next request needs {needed}{again}. \
                 `llm-do budgets` shows all budgets",
                kind.name(),
            )
        };
        if let Some(max) = one.amounts.max_tokens {
            let here = max.saturating_sub(used.tokens).saturating_sub(reserved.tokens).saturating_sub(input);
            wait |= here < output && reserved.tokens > 0;
            capped = capped.min(here);
            if here < least.max(1) {
                let held = (reserved.tokens > 0).then(|| format!("{} tokens", reserved.tokens));
                let needed = format!("about {input} tokens and more for its answer");
                let ever = max.saturating_sub(input) >= least.max(1);
                refused = Some(refuse(used.tokens.to_string(), format!("{max} tokens"), held, needed, ever));
            }
        }
        if let Some(max) = one.amounts.max_cost_usd {
            let Some(price) = price else {
                return Err(Decision::Refused(format!(
                    "{} may cost {max} per {}, and the price of the model is not known",
                    one.whose,
                    one.period.name()
                )));
            };
            let free = max.minus(used.cost_usd).minus(reserved.cost_usd);
            let here = price.output_for(free, input).unwrap_or(u64::MAX);
            wait |= here < output && reserved.cost_usd > Usd::ZERO;
            capped = capped.min(here);
            if here < least.max(1) {
                let held = (reserved.cost_usd > Usd::ZERO).then(|| reserved.cost_usd.to_string());
                let needed = format!("about {} and more for its answer", price.at_most(input, 0));
                let ever = price.output_for(max, input).unwrap_or(u64::MAX) >= least.max(1);
                refused = Some(refuse(used.cost_usd.to_string(), max.to_string(), held, needed, ever));
            }
        }
    }
    match refused {
        _ if wait => Err(Decision::Wait),
        Some(what) => Err(Decision::Refused(what)),
        None => Ok(capped),
    }
}
