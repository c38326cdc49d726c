//! Faults in a share of the answers, for soaks.

use bytes::Bytes;
use memchr::memmem;

/// A way in which an answer fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Status 429 with `Retry-After: 0`.
    RateLimitedNow,
    /// Status 429 without `Retry-After`.
    RateLimited,
    /// Status 500.
    Server,
    /// Status 529, which some services send when they are overloaded.
    Overloaded,
    /// The connection closes in the middle of the answer.
    Cut,
    /// An event of the answer is no JSON.
    Malformed,
    /// The connection closes without an answer.
    HangUp,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 7] = [
        Self::RateLimitedNow,
        Self::RateLimited,
        Self::Server,
        Self::Overloaded,
        Self::Cut,
        Self::Malformed,
        Self::HangUp,
    ];

    /// Returns the name in counts.
    pub fn name(self) -> &'static str {
        match self {
            Self::RateLimitedNow => "429 with Retry-After: 0",
            Self::RateLimited => "429 without it",
            Self::Server => "500",
            Self::Overloaded => "529",
            Self::Cut => "a stream is cut",
            Self::Malformed => "an event that is no JSON",
            Self::HangUp => "the connection closes without an answer",
        }
    }

    /// Returns the status and the `Retry-After` of a fault that is a status.
    pub(crate) fn status(self) -> Option<(u16, Option<&'static str>)> {
        match self {
            Self::RateLimitedNow => Some((429, Some("0"))),
            Self::RateLimited => Some((429, None)),
            Self::Server => Some((500, None)),
            Self::Overloaded => Some((529, None)),
            Self::Cut | Self::Malformed | Self::HangUp => None,
        }
    }

    /// Returns the part of a streamed answer before it fails in this way.
    pub(crate) fn spoiled(self, answer: &Bytes) -> Bytes {
        match self {
            Self::Malformed => {
                let end = memmem::find(answer, b"\n\n").map_or(0, |at| at + 2);
                [&answer[..end], b"data: {\"choices\":[{\"delta\":\n\n"].concat().into()
            }
            _ => answer.slice(..answer.len() / 2),
        }
    }
}

/// A choice of requests that fail, by their number: a fixed share, evenly mixed, with all faults equally frequent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    per_mille: u64,
}

impl Faults {
    /// Makes so many of a thousand requests fail.
    pub fn per_mille(per_mille: u16) -> Self {
        Self { per_mille: per_mille.into() }
    }

    /// Returns the fault in the answer to this request, if any.
    pub fn of(self, request: u64) -> Option<Fault> {
        let mixed = mix(request);
        let among = Fault::ALL.len() as u64;
        (mixed % 1000 < self.per_mille).then(|| Fault::ALL[(mixed / 1000 % among) as usize])
    }
}

/// Mixes a number so that neighbouring numbers give distant results (the finaliser of SplitMix64; Steele, Lea and
/// Flood, OOPSLA 2014).
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_kept_and_every_fault_comes() {
        let faults = Faults::per_mille(50);
        let found: Vec<Fault> = (0..100_000).filter_map(|request| faults.of(request)).collect();
        assert!((4_500..5_500).contains(&found.len()), "{}", found.len());
        for fault in Fault::ALL {
            let count = found.iter().filter(|each| **each == fault).count();
            assert!(count > found.len() / 10, "{fault:?}: {count}");
        }
        assert!((0..100_000).all(|request| Faults::default().of(request).is_none()));
    }
}
