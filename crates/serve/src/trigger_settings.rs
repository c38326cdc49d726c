//! The triggers of `serve.yaml`, as they are written (`docs/reference/triggers.md`).

use crate::{
    quota_settings::Size,
    signing::{Scheme, SecretAt},
};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::{collections::BTreeMap, num::NonZeroUsize, path::PathBuf, sync::Arc};

/// The beginning of the names of the triggers' clients. No token has such a name.
pub(crate) const PREFIX: &str = "trigger:";

/// A trigger with wrong settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("serve.yaml, line {line}: the trigger `{name}`: {reason}")]
pub struct BadTrigger {
    /// The line of the trigger in the file.
    pub line: u64,
    /// The name of the trigger.
    pub name: Arc<str>,
    /// The problem with the trigger.
    pub reason: String,
}

/// A trigger: one of `cron`, `webhook` and `folder`, and the run that it starts.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TriggerSettings {
    pub(crate) name: Arc<str>,
    pub(crate) cron: Option<CronSettings>,
    pub(crate) webhook: Option<WebhookSettings>,
    pub(crate) folder: Option<FolderSettings>,
    /// May be left out where the server has only one program.
    pub(crate) program: Option<Arc<str>>,
    /// Default: the one that requests without a worker start.
    pub(crate) worker: Option<String>,
    pub(crate) message: Option<String>,
    /// Fixed arguments.
    #[serde(default)]
    pub(crate) input: Map<String, Value>,
    /// Arguments from the event, by JSON Pointer.
    #[serde(default)]
    pub(crate) from: BTreeMap<String, String>,
    pub(crate) concurrency: Option<Concurrency>,
    /// The number of runs at once from which `concurrency` decides. Default: 1.
    pub(crate) at_once: Option<NonZeroUsize>,
}

/// The treatment of an event while earlier runs of the trigger are under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Concurrency {
    /// The event starts no run.
    Skip,
    /// The event's run waits for the end of an earlier one.
    Queue,
    /// The event's run starts, and the oldest one is cancelled.
    Replace,
}

impl Concurrency {
    /// The name in files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Queue => "queue",
            Self::Replace => "replace",
        }
    }
}

/// A schedule.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CronSettings {
    /// A cron expression of five fields, or six with seconds first.
    pub(crate) at: String,
    /// An IANA time zone. Default: UTC.
    pub(crate) time_zone: Option<String>,
    #[serde(default)]
    pub(crate) missed: Missed,
}

/// The treatment of slots that passed while no server was there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Missed {
    /// The slots start no run.
    #[default]
    Skip,
    /// The last of the slots starts one run.
    Once,
}

/// An address for signed deliveries.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebhookSettings {
    pub(crate) signature: Scheme,
    pub(crate) secret: SecretAt,
    /// Default: 1 MiB.
    pub(crate) max_body: Option<Size>,
}

/// A folder whose files start runs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FolderSettings {
    pub(crate) path: PathBuf,
    /// The seconds that a file stays the same before its run starts. Default: 2.
    pub(crate) settle_s: Option<u64>,
}
