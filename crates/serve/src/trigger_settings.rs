//! The triggers of `serve.yaml`, as they are written (`docs/reference/triggers.md`).

use crate::{
    quota_settings::Size,
    signing::{Scheme, SecretAt},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
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
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = ["cron", "webhook", "folder"].map(one_alone)))]
pub(crate) struct TriggerSettings {
    /// The name in records, lists and addresses.
    #[schemars(regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))]
    pub(crate) name: Arc<str>,
    pub(crate) cron: Option<CronSettings>,
    pub(crate) webhook: Option<WebhookSettings>,
    pub(crate) folder: Option<FolderSettings>,
    /// The program. May be left out where the server has only one.
    pub(crate) program: Option<Arc<str>>,
    /// One of the exported workers. Default: the one that requests without a worker start.
    pub(crate) worker: Option<String>,
    /// A fixed message, in place of `input` and `from`.
    pub(crate) message: Option<String>,
    /// Fixed arguments.
    #[serde(default)]
    pub(crate) input: Map<String, Value>,
    /// Arguments from the event, by JSON Pointer.
    #[serde(default)]
    pub(crate) from: BTreeMap<String, String>,
    /// The treatment of an event while earlier runs are under way.
    pub(crate) concurrency: Option<Concurrency>,
    /// The number of runs at once from which `concurrency` decides. Default: 1.
    pub(crate) at_once: Option<NonZeroUsize>,
}

/// The schema of a trigger that has this key, and none of the others that could start runs. A key may be null.
fn one_alone(key: &str) -> Value {
    let others = ["cron", "webhook", "folder"].into_iter().filter(|other| *other != key);
    let absent = others.map(|other| (other.to_owned(), json!({"type": "null"})));
    let mut properties: Map<String, Value> = absent.collect();
    properties.insert(key.to_owned(), json!({"type": "object"}));
    json!({"required": [key], "properties": properties})
}

/// The treatment of an event while earlier runs of the trigger are under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CronSettings {
    /// A cron expression of five fields, or six with seconds first.
    pub(crate) at: String,
    /// An IANA time zone. Default: UTC.
    pub(crate) time_zone: Option<String>,
    /// The treatment of slots that passed while no server was there.
    #[serde(default)]
    pub(crate) missed: Missed,
}

/// The treatment of slots that passed while no server was there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Missed {
    /// The slots start no run.
    #[default]
    Skip,
    /// The last of the slots starts one run.
    Once,
}

/// An address for signed deliveries.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebhookSettings {
    /// The scheme of the signatures.
    pub(crate) signature: Scheme,
    /// Where the secret is.
    pub(crate) secret: SecretAt,
    /// The largest body. Default: 1 MiB.
    pub(crate) max_body: Option<Size>,
}

/// A folder whose files start runs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FolderSettings {
    /// The absolute path of the folder, or `~/…`.
    pub(crate) path: PathBuf,
    /// The seconds that a file stays the same before its run starts. Default: 2.
    pub(crate) settle_s: Option<u64>,
}
