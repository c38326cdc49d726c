//! Decides whether and after which delay a failed request is retried (`docs/reference/loop.md`).

use crate::model::ModelError;
use std::time::Duration;

/// First wait without a `Retry-After`.
const FIRST: Duration = Duration::from_millis(500);
/// Maximum wait without a `Retry-After`.
const LONGEST: Duration = Duration::from_secs(60);
/// Maximum `Retry-After`; beyond it the request fails.
const LONGEST_ASKED: Duration = Duration::from_secs(300);

/// The wait before the next attempt, or `None` if there should be none. `random` spreads many clients that fail at
/// once: the wait is between half and all of the exponential step.
pub fn wait_before_retry(error: &ModelError, attempt: u32, retries: u32, random: u64) -> Option<Duration> {
    if attempt >= retries || !error.is_transient() {
        return None;
    }
    if let Some(asked) = error.retry_after() {
        return (asked <= LONGEST_ASKED).then_some(asked);
    }
    let step = FIRST.saturating_mul(1 << attempt.min(16)).min(LONGEST);
    let fraction = (random % 1024) as f64 / 1024.0;
    Some(step.mul_f64(0.5 + fraction / 2.0))
}

/// The message for a wait that the server asks for and that is longer than a request waits.
pub(super) fn too_long_to_wait(error: &ModelError) -> Option<String> {
    let asked = error.retry_after().filter(|asked| error.is_transient() && *asked > LONGEST_ASKED)?;
    let (minutes, seconds) = (asked.as_secs() / 60, asked.as_secs() % 60);
    let asked = match (minutes / 60, minutes % 60) {
        (0, minutes) => format!("{minutes} min {seconds} s"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    };
    let longest = LONGEST_ASKED.as_secs() / 60;
    Some(format!(
        "the server asks to wait {asked}, and llm-do waits {longest} minutes at most: try again then"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelErrorKind;

    #[test]
    fn waits_grow_and_stay_bounded() {
        let error = ModelError::new(ModelErrorKind::Server, "busy");
        for attempt in 0..20 {
            let least = wait_before_retry(&error, attempt, 99, 0).unwrap();
            let most = wait_before_retry(&error, attempt, 99, 1023).unwrap();
            assert!(least < most && most <= LONGEST);
        }
        assert_eq!(wait_before_retry(&error, 0, 99, 0).unwrap(), FIRST / 2);
    }

    #[test]
    fn a_server_that_names_a_time_is_believed_within_reason() {
        let mut error = ModelError::new(ModelErrorKind::RateLimited, "slow down");
        error.retry_after_ms = Some(7_000);
        assert_eq!(wait_before_retry(&error, 0, 3, 5), Some(Duration::from_secs(7)));
        assert_eq!(too_long_to_wait(&error), None);
        error.retry_after_ms = Some(86_460_000);
        assert_eq!(wait_before_retry(&error, 0, 3, 5), None);
        assert!(too_long_to_wait(&error).unwrap().contains("wait 24 h 1 min"));
        error.retry_after_ms = Some(301_000);
        assert!(too_long_to_wait(&error).unwrap().contains("wait 5 min 1 s"));
    }

    #[test]
    fn what_cannot_get_better_is_not_repeated() {
        let error = ModelError::new(ModelErrorKind::Auth, "no key");
        assert_eq!(wait_before_retry(&error, 0, 3, 5), None);
        let error = ModelError::new(ModelErrorKind::Server, "busy");
        assert_eq!(wait_before_retry(&error, 3, 3, 5), None);
    }
}
