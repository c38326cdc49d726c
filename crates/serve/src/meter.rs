//! Meters: the use of a quota by each token or program, and by all together.

use crate::error::{ApiError, Code};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The resource that a quota limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Runs under way, those that wait for answers or for a place included.
    Runs,
    /// Open streams of events.
    Streams,
    /// Bytes of the bodies of requests that are not yet answered.
    Bodies,
    /// Bytes of uploaded files.
    Uploads,
    /// Uploaded files.
    UploadFiles,
    /// Sessions of clients of the Model Context Protocol.
    McpSessions,
    /// Bytes of the folders of runs.
    Disk,
    /// Bytes of the server's memory.
    Memory,
}

impl Kind {
    /// The name of the resource in `serve.yaml`, in errors and in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Streams => "streams",
            Self::Bodies => "bodies",
            Self::Uploads => "uploads",
            Self::UploadFiles => "upload_files",
            Self::McpSessions => "mcp_sessions",
            Self::Disk => "disk",
            Self::Memory => "memory",
        }
    }

    /// The error code of a request that exceeds the quota.
    fn code(self) -> Code {
        match self {
            Self::Runs => Code::TooManyRuns,
            Self::Streams => Code::TooManyStreams,
            Self::Bodies => Code::TooManyBodies,
            Self::Uploads | Self::UploadFiles => Code::TooManyUploads,
            Self::McpSessions => Code::TooManySessions,
            Self::Disk => Code::Storage,
            Self::Memory => Code::TooMuchMemory,
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Streams => "streams",
            Self::UploadFiles => "files",
            Self::McpSessions => "sessions",
            Self::Bodies | Self::Uploads | Self::Disk | Self::Memory => "bytes",
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Self::Runs => "start another when one has ended",
            Self::Streams => "close one, or ask again without following",
            Self::Bodies => "send it again when other requests have been answered",
            Self::Uploads | Self::UploadFiles => {
                "start the runs that use the files, or upload again tomorrow: an upload is kept for 24 hours"
            }
            Self::McpSessions => "end one",
            Self::Disk => {
                "the operator of the server can remove runs with `llm-do runs clean`, or raise the quota"
            }
            Self::Memory => "try again when other runs have ended",
        }
    }
}

/// The use of a resource, and its limits.
pub(crate) struct Meter {
    pub(crate) kind: Kind,
    /// "token" or "program", for messages and metrics.
    pub(crate) whose: &'static str,
    all: u64,
    each: u64,
    /// Limits that differ from `each`, by name.
    of: HashMap<Arc<str>, u64>,
    used: Mutex<Amounts>,
}

/// Amounts that are in use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Amounts {
    pub(crate) all: u64,
    pub(crate) by_name: HashMap<Arc<str>, u64>,
}

impl Amounts {
    pub(crate) fn add(&mut self, name: &Arc<str>, amount: u64) {
        self.all = self.all.saturating_add(amount);
        let own = self.by_name.entry(Arc::clone(name)).or_default();
        *own = own.saturating_add(amount);
    }
}

/// A part of a quota that is in use, given back when it is dropped.
pub(crate) struct Share {
    meter: Arc<Meter>,
    name: Arc<str>,
    amount: u64,
}

impl Meter {
    pub(crate) fn new(
        kind: Kind,
        whose: &'static str,
        all: u64,
        each: u64,
        of: HashMap<Arc<str>, u64>,
    ) -> Arc<Self> {
        Arc::new(Self { kind, whose, all, each, of, used: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Amounts> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The most that all may use together.
    pub(crate) fn limit(&self) -> u64 {
        self.all
    }

    /// The most that this token or program may use.
    pub(crate) fn limit_of(&self, name: &str) -> u64 {
        self.of.get(name).copied().unwrap_or(self.each).min(self.all)
    }

    /// Returns true if any amount is limited.
    pub(crate) fn has_limits(&self) -> bool {
        [self.all, self.each].into_iter().chain(self.of.values().copied()).any(|most| most < u64::MAX)
    }

    /// The amounts that are in use now.
    pub(crate) fn used(&self) -> Amounts {
        self.lock().clone()
    }

    /// Checks that the limits leave room for `more` beside `used`.
    ///
    /// # Errors
    /// A limit would be exceeded. For a body that could never fit, the code is `Code::TooLarge`.
    pub(crate) fn admit(&self, used: &Amounts, name: &str, more: u64) -> Result<(), ApiError> {
        let own = used.by_name.get(name).copied().unwrap_or_default();
        let limits = [(self.limit_of(name), own, Some(self.whose)), (self.all, used.all, None)];
        for (limit, used, whose) in limits {
            if used.saturating_add(more) > limit {
                return Err(self.exceeded(limit, used, more, whose));
            }
        }
        Ok(())
    }

    /// The error of a request beyond the limit. `whose` is absent for the limit of all together.
    fn exceeded(&self, limit: u64, used: u64, more: u64, whose: Option<&str>) -> ApiError {
        let Self { kind, .. } = self;
        let (name, unit) = (kind.name(), kind.unit());
        let whose = whose.map_or_else(|| "all together".to_owned(), |whose| format!("this {whose}"));
        if *kind == Kind::Bodies && more > limit {
            let detail = format!("the body is larger than the quota `{name}` of {whose}, {limit} {unit}");
            return ApiError::new(Code::TooLarge, detail).of_quota(name);
        }
        let detail = format!(
            "no room in the quota `{name}` of {whose}: {used} of {limit} {unit} are in use; {}",
            kind.advice()
        );
        ApiError::new(kind.code(), detail).of_quota(name)
    }

    /// Takes `amount` of the quota, until the share is dropped.
    ///
    /// # Errors
    /// A limit would be exceeded.
    pub(crate) fn take(self: &Arc<Self>, name: &Arc<str>, amount: u64) -> Result<Share, ApiError> {
        let mut share = Share { meter: Arc::clone(self), name: Arc::clone(name), amount: 0 };
        share.grow(amount)?;
        Ok(share)
    }

    /// Takes `amount` regardless of the limits, for something that was admitted before.
    pub(crate) fn take_anyway(self: &Arc<Self>, name: &Arc<str>, amount: u64) -> Share {
        self.lock().add(name, amount);
        Share { meter: Arc::clone(self), name: Arc::clone(name), amount }
    }
}

impl Share {
    /// Takes `more` of the quota in addition.
    ///
    /// # Errors
    /// A limit would be exceeded. The share stays as it is.
    pub(crate) fn grow(&mut self, more: u64) -> Result<(), ApiError> {
        let mut used = self.meter.lock();
        self.meter.admit(&used, &self.name, more).map_err(|error| {
            // A part of something that can never fit as a whole.
            let whole = self.amount.saturating_add(more);
            let most = self.meter.limit_of(&self.name);
            if whole > most { self.meter.exceeded(most, 0, whole, Some(self.meter.whose)) } else { error }
        })?;
        used.add(&self.name, more);
        self.amount += more;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut used = self.meter.lock();
        used.all = used.all.saturating_sub(self.amount);
        if let Some(own) = used.by_name.get_mut(&self.name) {
            *own = own.saturating_sub(self.amount);
            if *own == 0 {
                used.by_name.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(kind: Kind, all: u64, each: u64, of: &[(&str, u64)]) -> Arc<Meter> {
        Meter::new(kind, "token", all, each, of.iter().map(|(name, most)| ((*name).into(), *most)).collect())
    }

    #[test]
    fn shares_are_limited_for_all_and_for_each_and_come_back() {
        let streams = meter(Kind::Streams, 3, 2, &[]);
        let (ann, bob): (Arc<str>, Arc<str>) = ("ann".into(), "bob".into());
        let first = streams.take(&ann, 1).expect("room");
        let _second = streams.take(&ann, 1).expect("room");
        assert!(streams.take(&ann, 1).is_err(), "of the token");
        let _third = streams.take(&bob, 1).expect("room");
        assert!(streams.take(&bob, 1).is_err(), "of all");
        drop(first);
        streams.take(&bob, 1).expect("room that was given back");
        assert_eq!(streams.used().all, 2);
    }

    #[test]
    fn a_token_may_have_its_own_limit_but_none_beyond_that_of_all() {
        let bodies = meter(Kind::Bodies, 100, 40, &[("ann", 10), ("bob", 500)]);
        assert_eq!([bodies.limit_of("ann"), bodies.limit_of("bob"), bodies.limit_of("eve")], [10, 100, 40]);
    }

    #[test]
    fn errors_name_the_quota_and_say_whether_waiting_helps() {
        let bodies = meter(Kind::Bodies, 100, 40, &[]);
        let ann: Arc<str> = "ann".into();
        let held = bodies.take(&ann, 30).expect("room");
        let busy = bodies.take(&ann, 20).map(|_| ()).expect_err("no room");
        assert_eq!(busy.code(), Code::TooManyBodies);
        assert!(busy.detail().contains("quota `bodies` of this token: 30 of 40 bytes"), "{}", busy.detail());
        drop(held);
        let mut growing = bodies.take(&ann, 30).expect("room");
        let large = growing.grow(20).expect_err("never fits");
        assert_eq!(large.code(), Code::TooLarge, "waiting does not help: {}", large.detail());
        drop(growing);
        assert_eq!(bodies.used().all, 0);
    }
}
