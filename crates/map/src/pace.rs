//! The number and the rate of requests to a provider, derived from its refusals.
//!
//! Two values adapt. The *window* is the number of requests at the same time: it grows with each answer, and shrinks
//! with a refusal. The *rate* is the number of requests a second: unlimited until the first refusal. Then it falls
//! below the rate that was refused, the peak, comes back to it, stays near it for a while, and grows beyond it ever
//! faster, as the window of CUBIC does (RFC 9438). A window alone can't keep to a limit of requests a second if answers
//! are fast.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// The first window of a provider, when nothing is known of it.
const FIRST_WINDOW: f64 = 8.0;
/// The factor by which a refusal shrinks the window.
const SHRINK: f64 = 0.7;
/// The factor by which a refusal lowers the rate below the peak, and the time in which the rate comes back to the peak:
/// while the limit is searched, and when it is known.
const SEARCHES: (f64, Duration) = (0.8, Duration::from_secs(6));
const KNOWS: (f64, Duration) = (0.9, Duration::from_secs(20));
/// The factor by which the peak falls if a rate was refused at once.
const FALL: f64 = 0.85;
/// A refusal within this time after the last one means that the rate is far too high.
const SOON: Duration = Duration::from_secs(3);
/// The lowest first guess of the rate, in requests a second: the first refusal may come before the first answer.
const FIRST_RATE: f64 = 10.0;
/// The delay up to which a late request does not delay the requests behind it.
const LATE: Duration = Duration::from_millis(50);
/// The lowest rate: a request every two minutes.
const SLOWEST: f64 = 1.0 / 120.0;
/// The first and the longest pause after a refusal that names no time.
const PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The time over which the rate of accepted requests is measured.
const MEASURED: Duration = Duration::from_secs(2);

/// The pace of one provider.
pub(crate) struct Pace {
    provider: Arc<str>,
    ceiling: usize,
    state: Mutex<PaceState>,
    /// A lock that keeps waiting requests in the order in which they came: only the first one looks at the clock.
    turn: tokio::sync::Mutex<()>,
    /// Notified when a request has ended or the pace has changed.
    freed: Notify,
}

struct PaceState {
    window: f64,
    /// True if the window doubles with each round, as long as nothing is refused.
    doubles: bool,
    rate: Option<Rate>,
    in_flight: usize,
    /// The time at which the next request may be sent at this rate.
    next: Instant,
    paused: Option<Instant>,
    /// The number of refusals since the last answer. Refusals of requests that were under way at the same time count as
    /// one.
    in_row: u32,
    /// The time at which the pace was last lowered.
    lowered: Option<Instant>,
    began: Instant,
    /// The times at which the requests of the last seconds were answered.
    taken: VecDeque<Instant>,
    refused: u64,
    waiting: usize,
}

/// Requests a second, as a curve over the time since the last refusal.
#[derive(Clone, Copy, Debug)]
struct Rate {
    /// The rate that was refused.
    peak: f64,
    /// The start of the curve: the end of the pause.
    since: Instant,
    /// The lowest part of the peak, and the time until the peak is reached again.
    shape: (f64, Duration),
}

impl Rate {
    fn at(&self, now: Instant) -> f64 {
        let (least, back) = self.shape;
        let way = now.saturating_duration_since(self.since).as_secs_f64() / back.as_secs_f64() - 1.0;
        (self.peak * (1.0 + (1.0 - least) * way.powi(3))).max(SLOWEST)
    }
}

/// The event that a request has to wait for.
enum Wait {
    Until(Instant),
    ForAnother,
}

/// A permit to send a request. Dropping it makes room for another one, whatever the result of the request.
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

/// A request that waits for its turn.
struct InLine<'a>(&'a Pace);

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}

impl Pace {
    /// Creates the pace of a provider that gets at most `ceiling` requests at the same time.
    pub(crate) fn new(provider: Arc<str>, ceiling: usize) -> Self {
        let now = Instant::now();
        let state = PaceState {
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

    /// Returns the provider.
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

    /// Notes that a request was answered.
    pub(crate) fn answered(&self) {
        self.lock().answered(Instant::now(), self.ceiling);
        self.freed.notify_one();
    }

    /// Notes that the request of that permit was refused because there are too many. `after` is the time that the
    /// provider names.
    pub(crate) fn refused(&self, permit: &Permit<'_>, after: Option<Duration>) {
        self.lock().refuse(Instant::now(), permit.sent, after);
    }

    /// Returns the number of requests that may be under way now, and the number of those that wait for their turn.
    pub(crate) fn room(&self) -> (usize, usize) {
        let state = self.lock();
        (state.window as usize, state.waiting)
    }

    /// Returns the time until which no request is sent, if there is a pause. A time in the past means that the provider
    /// has refused a single request after a pause, and another request is about to show if the provider takes requests
    /// again.
    pub(crate) fn paused(&self) -> Option<Instant> {
        let state = self.lock();
        let now = Instant::now();
        let paused = state.paused.filter(|until| *until > now);
        paused.or((state.in_row > 1).then_some(now))
    }

    /// Returns the number of requests that were refused.
    pub(crate) fn refusals(&self) -> u64 {
        self.lock().refused
    }

    fn lock(&self) -> MutexGuard<'_, PaceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PaceState {
    /// Takes a place, or returns the event to wait for.
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
