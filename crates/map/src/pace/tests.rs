use super::*;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use std::ops::Range;
use tokio::time::sleep;

/// A provider that takes a fixed number of requests a second.
struct Server {
    limit: f64,
    burst: f64,
    tokens: Mutex<(f64, Instant)>,
    retry_after: Option<Duration>,
    /// True if requests are counted in whole seconds that begin together, and not by a token bucket.
    windowed: bool,
    /// Seconds in which all requests are refused.
    down: Range<u64>,
    start: Instant,
}

impl Server {
    fn takes(&self) -> bool {
        let mut tokens = self.tokens.lock().unwrap();
        let now = Instant::now();
        if self.down.contains(&(now - self.start).as_secs()) {
            return false;
        }
        if self.windowed {
            if now - tokens.1 >= Duration::from_secs(1) {
                let whole = (now - tokens.1).as_secs();
                *tokens = (self.limit, tokens.1 + Duration::from_secs(whole));
            }
        } else {
            tokens.0 = (tokens.0 + (now - tokens.1).as_secs_f64() * self.limit).min(self.burst);
            tokens.1 = now;
        }
        if tokens.0 < 1.0 {
            return false;
        }
        tokens.0 -= 1.0;
        true
    }
}

/// Sends requests up to the end of these seconds. Returns the number of requests a second that were accepted in them,
/// and the share that was refused.
async fn measured(server: Server, latency: Duration, seconds: Range<u64>) -> (f64, f64) {
    let pace = Pace::new("p".into(), 256);
    let start = server.start;
    let counted = Mutex::new((0.0, 0.0));
    let send = || async {
        loop {
            let permit = pace.permit().await;
            sleep(latency).await;
            let late = seconds.contains(&start.elapsed().as_secs());
            let mut counted = counted.lock().unwrap();
            if server.takes() {
                pace.answered();
                counted.0 += f64::from(late);
                return;
            }
            pace.refused(&permit, server.retry_after);
            counted.1 += f64::from(late);
            drop(permit);
        }
    };
    let mut running = FuturesUnordered::new();
    while start.elapsed() < Duration::from_secs(seconds.end) {
        while running.len() < pace.room().0 {
            running.push(send());
        }
        running.next().await;
    }
    let (taken, refused) = *counted.lock().unwrap();
    (taken / (seconds.end - seconds.start) as f64, refused / (taken + refused))
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_requests_a_second_is_nearly_reached_and_seldom_exceeded() {
    let mut missed = Vec::new();
    for (latency, burst, retry_after, windowed) in [
        (5, 50.0, Some(1000), false),
        (20, 1.0, None, false),
        (20, 50.0, Some(1000), true),
        (200, 50.0, Some(1000), false),
        (200, 10.0, Some(20), false),
        (2000, 50.0, Some(1000), false),
    ] {
        let server = Server {
            limit: 50.0,
            burst,
            tokens: Mutex::new((burst, Instant::now())),
            retry_after: retry_after.map(Duration::from_millis),
            windowed,
            down: 0..0,
            start: Instant::now(),
        };
        let (rate, refused) = measured(server, Duration::from_millis(latency), 45..90).await;
        let which = format!(
            "latency {latency} ms, burst {burst}, {retry_after:?}, {windowed}: {rate:.1}/s, {refused:.4}"
        );
        if rate < 45.0 || refused >= 0.02 {
            missed.push(which);
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_refuses_for_an_hour_is_asked_seldom_and_then_as_before() {
    let pace = Pace::new("p".into(), 64);
    let start = Instant::now();
    let mut asked = 0;
    loop {
        let permit = pace.permit().await;
        if start.elapsed() > Duration::from_secs(3600) {
            pace.answered();
            break;
        }
        asked += 1;
        pace.refused(&permit, None);
        assert!(pace.paused().is_some());
        drop(permit);
    }
    assert!(asked < 80, "{asked}");
    let again = Instant::now();
    for _ in 0..200 {
        let _permit = pace.permit().await;
        pace.answered();
    }
    assert!(again.elapsed() < Duration::from_secs(30), "{:?}", again.elapsed());
    assert_eq!(pace.refusals(), asked);
}

#[tokio::test(start_paused = true)]
async fn a_long_stretch_of_refusals_does_not_lower_the_pace_behind_it() {
    for retry_after in [None, Some(Duration::from_secs(1))] {
        let start = Instant::now();
        let tokens = Mutex::new((50.0, start));
        let server =
            Server { limit: 50.0, burst: 50.0, tokens, retry_after, windowed: false, down: 30..1800, start };
        // The last pause is a minute at most.
        let (rate, _) = measured(server, Duration::from_millis(20), 1870..1900).await;
        assert!(rate > 40.0, "{retry_after:?}: {rate}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_is_said_to_take_no_requests_until_it_has_answered_one() {
    let pace = Pace::new("p".into(), 64);
    for _ in 0..3 {
        let permit = pace.permit().await;
        pace.refused(&permit, Some(Duration::ZERO));
    }
    assert!(pace.paused().is_some());
    pace.answered();
    assert!(pace.paused().is_none());
}

#[tokio::test(start_paused = true)]
async fn the_time_that_a_provider_names_is_kept() {
    let pace = Pace::new("p".into(), 64);
    let permit = pace.permit().await;
    pace.refused(&permit, Some(Duration::from_secs(30)));
    drop(permit);
    let start = Instant::now();
    drop(pace.permit().await);
    assert!(start.elapsed() >= Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn a_number_is_a_ceiling() {
    let pace = Pace::new("p".into(), 3);
    let permits = [pace.permit().await, pace.permit().await, pace.permit().await];
    for _ in 0..100 {
        pace.answered();
    }
    let fourth = tokio::time::timeout(Duration::from_secs(60), pace.permit()).await;
    assert!(fourth.is_err(), "a fourth request");
    drop(permits);
    pace.permit().await;
}
