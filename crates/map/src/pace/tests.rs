use super::*;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::time::sleep;

/// A provider that takes so many requests a second.
struct Server {
    limit: f64,
    burst: f64,
    tokens: Mutex<(f64, Instant)>,
    retry_after: Option<Duration>,
    /// Counts are of whole seconds that begin together, and not of a bucket.
    windowed: bool,
}

impl Server {
    fn takes(&self) -> bool {
        let mut tokens = self.tokens.lock().unwrap();
        let now = Instant::now();
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

/// Sends requests for a minute and a half, of which the first half is the warm-up: the requests that were taken a second,
/// and the part that was refused.
async fn measured(server: Server, latency: Duration) -> (f64, f64) {
    let pace = Pace::new("p".into(), 256);
    let start = Instant::now();
    let counted = Mutex::new((0.0, 0.0));
    let send = || async {
        loop {
            let permit = pace.permit().await;
            sleep(latency).await;
            let late = start.elapsed() > Duration::from_secs(45);
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
    while start.elapsed() < Duration::from_secs(90) {
        while running.len() < pace.room().0 {
            running.push(send());
        }
        running.next().await;
    }
    let (taken, refused) = *counted.lock().unwrap();
    (taken / 45.0, refused / (taken + refused))
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
        };
        let (rate, refused) = measured(server, Duration::from_millis(latency)).await;
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
    assert!(again.elapsed() < Duration::from_secs(300), "{:?}", again.elapsed());
    assert_eq!(pace.refusals(), asked);
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
