//! IDs of runs: `20261121-221530-4f2a`.

use jiff::Timestamp;
use std::sync::Arc;

/// Proposes a new run's ID: UTC time, so that names sort by it, and four digits that hold the millisecond and 6 random
/// bits. It may not be unique: the caller must create the run's directory exclusively, and retry with a later time if
/// the directory exists.
pub(crate) fn propose(now: Timestamp) -> String {
    let millisecond = u16::try_from(now.subsec_millisecond()).unwrap_or(0);
    format!("{}-{:04x}", now.strftime("%Y%m%d-%H%M%S"), millisecond << 6 | fastrand::u16(..64))
}

/// The ID of a run that begins later. It is proposed and not reserved: if another run has taken it by then, the run
/// can't begin.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NewRunId(Arc<str>);

impl NewRunId {
    /// Makes an ID from the current time.
    pub fn propose() -> Self {
        Self(propose(Timestamp::now()).into())
    }

    /// Returns the text form.
    pub fn as_str(&self) -> &Arc<str> {
        &self.0
    }
}

/// Returns true if the text has the form of a run's ID. Such a text is safe as a file name.
pub fn is_run_id(text: &str) -> bool {
    let digits = |part: Option<&str>, len: usize| {
        part.is_some_and(|p| {
            p.len() == len && p.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f'))
        })
    };
    let mut parts = text.split('-');
    digits(parts.next(), 8) && digits(parts.next(), 6) && digits(parts.next(), 4) && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time_and_have_their_shape() {
        let a = propose("2026-11-21T22:15:30Z".parse().unwrap());
        let b = propose("2026-11-21T22:15:31Z".parse().unwrap());
        let between = propose("2026-11-21T22:15:30.999Z".parse().unwrap());
        assert!(a.starts_with("20261121-221530-") && a < between && between < b);
        assert!(is_run_id(&a) && is_run_id(&b));
        for other in
            ["", "..", "20261121-221530", "20261121-221530-4f2a-1", "20261121-221530-4f/a", ".gitignore"]
        {
            assert!(!is_run_id(other), "{other}");
        }
    }
}
