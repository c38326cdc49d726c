//! Quotas: limits for tokens, for programs and for all together (`docs/reference/quotas.md`).

use crate::{
    error::ApiError,
    meter::{Amounts, Kind, Meter, Share},
    quota_settings::{OfEach, OfProgram, QuotaSettings, Size},
    token::{OPERATOR, Tokens},
};
use std::{collections::HashMap, sync::Arc, time::Duration};

const MIB: u64 = 1 << 20;
/// Bytes of bodies at once.
const BODIES: u64 = 128 * MIB;
/// Bytes of uploads at once.
const UPLOADS: u64 = 2048 * MIB;
/// Uploaded files at once.
const UPLOAD_FILES: u64 = 4096;
/// Sessions of MCP clients at once.
const MCP_SESSIONS: u64 = 1000;
/// Bytes of memory beyond which the server accepts nothing new.
const MEMORY: u64 = 4096 * MIB;

/// Limits on the runs and streams of a service.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most runs at once, those that wait for answers included.
    pub runs: usize,
    /// Most runs at once that one token has started, those that wait for a place included. Absent: the quota in
    /// `serve.yaml`.
    pub runs_of_token: Option<usize>,
    /// Most runs that wait for a place.
    pub queue: usize,
    /// Most streams of events at once.
    pub streams: usize,
    /// Most streams of events at once of one token. Absent: the quota in `serve.yaml`.
    pub streams_of_token: Option<usize>,
    /// The time that the runs at work have to end when the service shuts down.
    pub grace: Duration,
    /// The time for which a chat waits for its next message before it ends. Absent: unlimited.
    pub chats_expire: Option<Duration>,
}

/// The limit of a token for one kind, if it has one.
fn limit_of(of: &OfEach, kind: Kind) -> Option<u64> {
    let bytes = |size: &Option<Size>| size.map(|Size(bytes)| bytes);
    match kind {
        Kind::Runs => of.runs,
        Kind::Streams => of.streams,
        Kind::Bodies => bytes(&of.bodies),
        Kind::Uploads => bytes(&of.uploads),
        Kind::UploadFiles => of.upload_files,
        Kind::McpSessions => of.mcp_sessions,
        Kind::Disk => bytes(&of.disk),
        Kind::Memory => None,
    }
}

/// The meters of a service.
pub(crate) struct Quotas {
    pub(crate) runs: Arc<Meter>,
    pub(crate) streams: Arc<Meter>,
    pub(crate) bodies: Arc<Meter>,
    pub(crate) uploads: Arc<Meter>,
    pub(crate) upload_files: Arc<Meter>,
    pub(crate) mcp_sessions: Arc<Meter>,
    pub(crate) disk: Arc<Meter>,
    pub(crate) program_runs: Arc<Meter>,
    pub(crate) program_disk: Arc<Meter>,
    memory: Arc<Meter>,
}

impl Quotas {
    pub(crate) fn new(tokens: &Tokens, limits: &Limits) -> Self {
        let QuotaSettings { all, token, programs } = tokens.quotas();
        let several = tokens.all().count() > 1;
        let bytes = |size: Option<Size>| size.map(|Size(bytes)| bytes);
        // From a command line, the limit of a token comes before that of the file.
        let of_tokens = |kind: Kind, most: u64, given: Option<u64>| {
            // So that one token can't take what others need. A token that is alone needs no limit.
            let shared = if several { most.div_ceil(2) } else { most };
            let each = given.or_else(|| limit_of(token, kind)).unwrap_or(shared);
            let of =
                tokens.all().filter_map(|of| Some((Arc::clone(of.name()), limit_of(of.quotas(), kind)?)));
            Meter::new(kind, "token", most, each, of.collect())
        };
        let of_programs = |kind: Kind, get: fn(&OfProgram) -> Option<u64>| {
            let of = programs.iter().filter_map(|(name, of)| Some((Arc::clone(name), get(of)?)));
            Meter::new(kind, "program", u64::MAX, u64::MAX, of.collect())
        };
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let runs = count(limits.runs.saturating_add(limits.queue));
        Self {
            runs: of_tokens(Kind::Runs, runs, limits.runs_of_token.map(count)),
            streams: of_tokens(Kind::Streams, count(limits.streams), limits.streams_of_token.map(count)),
            bodies: of_tokens(Kind::Bodies, bytes(all.bodies).unwrap_or(BODIES), None),
            uploads: of_tokens(Kind::Uploads, bytes(all.uploads).unwrap_or(UPLOADS), None),
            upload_files: of_tokens(Kind::UploadFiles, all.upload_files.unwrap_or(UPLOAD_FILES), None),
            mcp_sessions: of_tokens(Kind::McpSessions, all.mcp_sessions.unwrap_or(MCP_SESSIONS), None),
            disk: of_tokens(Kind::Disk, bytes(all.disk).unwrap_or(u64::MAX), None),
            program_runs: of_programs(Kind::Runs, |of| of.runs),
            program_disk: of_programs(Kind::Disk, |of| of.disk.map(|Size(bytes)| bytes)),
            memory: Meter::new(
                Kind::Memory,
                "token",
                bytes(all.memory).unwrap_or(MEMORY),
                u64::MAX,
                HashMap::new(),
            ),
        }
    }

    /// The quota of memory, with what the process uses now. Absent where the system does not say.
    pub(crate) fn memory(&self) -> Option<(&Meter, Amounts)> {
        Some((&self.memory, Amounts { all: resident()?, by_name: HashMap::new() }))
    }

    /// Checks that the process has memory for something new.
    ///
    /// # Errors
    /// It uses more than its quota.
    pub(crate) fn admit_memory(&self, more: u64) -> Result<(), ApiError> {
        self.memory().map_or(Ok(()), |(meter, used)| meter.admit(&used, OPERATOR, more))
    }

    /// Takes room for the body of a request of that token, which grows as it arrives.
    ///
    /// # Errors
    /// The quota leaves no room.
    pub(crate) fn body(&self, token: &Arc<str>, size: u64) -> Result<Share, ApiError> {
        // A body that the client announces, so that it need not be sent in vain.
        self.bodies.admit(&self.bodies.used(), token, size)?;
        self.bodies.take(token, 0)
    }
}

/// The memory of this process, in bytes.
#[cfg(target_os = "linux")]
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1 << 10)
}

#[cfg(not(target_os = "linux"))]
fn resident() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn memory_of_the_process_is_known() {
        assert!(resident().is_some_and(|bytes| bytes > 1 << 20), "{:?}", resident());
    }
}
