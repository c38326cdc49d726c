//! How many requests a provider gets, and how fast: found out by its refusals.
//!
//! Two things are adapted. The *window* is the number of requests at the same time: it grows with each answer, and shrinks
//! with a refusal. The *rate* is the number of requests a second: unlimited until the first refusal. Then it falls below the
//! rate that was refused, the peak, comes back to it, stays near it for a while, and grows beyond it ever faster, as the
//! window of CUBIC does (RFC 9438). A window alone can't keep to a limit of requests a second where answers are fast.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// The window of a provider that nothing is known of.
const FIRST_WINDOW: f64 = 8.0;
/// What is left of the window after a refusal.
const SHRINK: f64 = 0.7;
/// What is left of the peak after a refusal, and the time in which the rate comes back to it: while the limit is searched,
/// and when it is known.
const SEARCHES: (f64, Duration) = (0.8, Duration::from_secs(6));
const KNOWS: (f64, Duration) = (0.9, Duration::from_secs(20));
/// The peak of a rate that was refused at once is so much lower.
const FALL: f64 = 0.85;
/// A refusal within this time of the last one says that the rate is far too high.
const SOON: Duration = Duration::from_secs(3);
/// Least first guess of the rate: the first refusal may come before the first answer.
const FIRST_RATE: f64 = 10.0;
/// A request that is sent so late does not delay those behind it.
const LATE: Duration = Duration::from_millis(50);
/// Least rate: a request every two minutes.
const SLOWEST: f64 = 1.0 / 120.0;
/// First and longest pause after a refusal that names no time.
const PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The time over which the rate of what a provider took is measured.
const MEASURED: Duration = Duration::from_secs(2);

/// The pace of one provider.
pub(crate) struct Pace {
    provider: Arc<str>,
    ceiling: usize,
    state: Mutex<State>,
    /// Requests wait for their turn in the order in which they came: only the first looks at the clock.
    turn: tokio::sync::Mutex<()>,
    /// A request has ended, or the pace has changed.
    freed: Notify,
}

struct State {
    window: f64,
    /// The window doubles with each round, as long as nothing is refused.
    doubles: bool,
    rate: Option<Rate>,
    in_flight: usize,
    /// When the next request may be sent at this rate.
    next: Instant,
    paused: Option<Instant>,
    /// Refusals one after the other, without an answer between them. Of requests under way at the same time, one counts.
    in_row: u32,
    /// When the pace was lowered last.
    lowered: Option<Instant>,
    began: Instant,
    /// When the requests of the last seconds were taken.
    taken: VecDeque<Instant>,
    refused: u64,
    waiting: usize,
}

/// Requests a second, as a curve over the time since the last refusal.
#[derive(Clone, Copy, Debug)]
struct Rate {
    /// The rate that was refused.
    peak: f64,
    /// When the curve begins: with the end of the pause.
    since: Instant,
    /// The least of the peak, and the time until it is reached again.
    shape: (f64, Duration),
}

impl Rate {
    fn at(&self, now: Instant) -> f64 {
        let (least, back) = self.shape;
        let way = now.saturating_duration_since(self.since).as_secs_f64() / back.as_secs_f64() - 1.0;
        (self.peak * (1.0 + (1.0 - least) * way.powi(3))).max(SLOWEST)
    }
}

/// What a request has to wait for.
enum Wait {
    Until(Instant),
    ForAnother,
}

/// A request that may be sent. Its end, known or not, makes room for another.
pub(crate) struct Permit<'a> {
    pace: &'a Pace,
    sent: Instant,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.pace.lock().in_flight -= 1;
        self.pace.freed.notify_one();
    }
}

/// A request in the line.
struct InLine<'a>(&'a Pace);

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}

impl Pace {
    /// The pace of a provider that gets at most so many requests at the same time.
    pub(crate) fn new(provider: Arc<str>, ceiling: usize) -> Self {
        let now = Instant::now();
        let state = State {
            window: FIRST_WINDOW.min(ceiling as f64),
            doubles: true,
            rate: None,
            in_flight: 0,
            next: now,
            paused: None,
            in_row: 0,
            lowered: None,
            began: now,
            taken: VecDeque::new(),
            refused: 0,
            waiting: 0,
        };
        Self {
            provider,
            ceiling,
            state: Mutex::new(state),
            turn: tokio::sync::Mutex::default(),
            freed: Notify::new(),
        }
    }

    /// The provider.
    pub(crate) fn provider(&self) -> &Arc<str> {
        &self.provider
    }

    /// Waits until a request may be sent.
    pub(crate) async fn permit(&self) -> Permit<'_> {
        self.lock().waiting += 1;
        let in_line = InLine(self);
        let _turn = self.turn.lock().await;
        loop {
            let wait = self.lock().take(Instant::now());
            match wait {
                None => break,
                Some(Wait::Until(time)) => {
                    tokio::select! {
                        () = sleep_until(time) => {}
                        () = self.freed.notified() => {}
                    }
                }
                Some(Wait::ForAnother) => self.freed.notified().await,
            }
        }
        drop(in_line);
        Permit { pace: self, sent: Instant::now() }
    }

    /// A request was answered.
    pub(crate) fn answered(&self) {
        self.lock().answered(Instant::now(), self.ceiling);
        self.freed.notify_one();
    }

    /// That request was refused because there are too many. `after` is the time that the provider names.
    pub(crate) fn refused(&self, permit: &Permit<'_>, after: Option<Duration>) {
        self.lock().refuse(Instant::now(), permit.sent, after);
    }

    /// Requests that may be under way now, and those that wait for their turn.
    pub(crate) fn room(&self) -> (usize, usize) {
        let state = self.lock();
        (state.window as usize, state.waiting)
    }

    /// Until when nothing is sent, if that is so. In the past: the provider has refused a single request after a pause, and
    /// another one is about to show whether it takes requests again.
    pub(crate) fn paused(&self) -> Option<Instant> {
        let state = self.lock();
        let now = Instant::now();
        let paused = state.paused.filter(|until| *until > now);
        paused.or((state.in_row > 1).then_some(now))
    }

    /// The requests that were refused.
    pub(crate) fn refusals(&self) -> u64 {
        self.lock().refused
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes a place, or says what to wait for.
    fn take(&mut self, now: Instant) -> Option<Wait> {
        if let Some(until) = self.paused.filter(|until| *until > now) {
            return Some(Wait::Until(until));
        }
        self.paused = None;
        // After a pause one request tries whether the provider takes any.
        let window = if self.in_row > 0 { 1 } else { self.window as usize };
        if self.in_flight >= window.max(1) {
            return Some(Wait::ForAnother);
        }
        if let Some(rate) = &self.rate {
            if self.next > now {
                return Some(Wait::Until(self.next));
            }
            // Time in which nothing was sent is not made up for, but that of a timer that rang late is.
            let late = now - self.next;
            let base = if late < LATE { self.next } else { now };
            self.next = base + Duration::from_secs_f64(1.0 / rate.at(now));
        }
        self.in_flight += 1;
        None
    }

    fn answered(&mut self, now: Instant, ceiling: usize) {
        self.in_row = 0;
        self.taken.push_back(now);
        self.forget_old(now);
        self.window += if self.doubles { 1.0 } else { 1.0 / self.window };
        self.window = self.window.min(ceiling as f64);
    }

    fn refuse(&mut self, now: Instant, sent: Instant, after: Option<Duration>) {
        self.refused += 1;
        // A request that was on its way already says nothing about the lower pace. Its provider may name a time all the same.
        let was_on_its_way = self.lowered.is_some_and(|lowered| sent <= lowered);
        let named = after.or(was_on_its_way.then_some(Duration::ZERO));
        let pause =
            named.unwrap_or_else(|| PAUSE.saturating_mul(1 << self.in_row.min(10)).min(LONGEST_PAUSE));
        let until = self.paused.map_or(now + pause, |paused| paused.max(now + pause));
        self.paused = Some(until);
        // A single request after a pause says that the pause was too short, and nothing about the pace behind it.
        let is_probe = self.in_row > 0;
        if !was_on_its_way {
            self.in_row += 1;
        }
        if let (true, Some(rate)) = (was_on_its_way || is_probe, &mut self.rate) {
            rate.since = rate.since.max(until);
            return;
        }
        self.forget_old(now);
        let (peak, shape) = match &self.rate {
            None => {
                let seconds = (now - self.began).clamp(Duration::from_millis(100), MEASURED).as_secs_f64();
                ((self.taken.len() as f64 / seconds).max(FIRST_RATE), SEARCHES)
            }
            Some(rate) if now.saturating_duration_since(rate.since) < SOON => (rate.at(now) * FALL, SEARCHES),
            Some(rate) => (rate.at(now), KNOWS),
        };
        self.rate = Some(Rate { peak: peak.max(SLOWEST), since: until, shape });
        self.window = (self.window * SHRINK).max(1.0);
        self.doubles = false;
        self.lowered = Some(now);
    }

    fn forget_old(&mut self, now: Instant) {
        while self.taken.front().is_some_and(|time| now - *time > MEASURED) {
            self.taken.pop_front();
        }
    }
}

#[cfg(test)]
mod tests;
