//! The part `notify` of `serve.yaml`, as it is written (`docs/reference/notify.md`).

use crate::signing::SecretAt;
use schemars::JsonSchema;
use serde::Deserialize;
use std::{collections::BTreeSet, num::NonZeroU32, sync::Arc};

/// The receivers of messages about runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NotifySettings {
    /// The address at which people reach the server. Default: its own.
    pub(crate) url: Option<String>,
    /// The minutes after which a link expires. Default: a day.
    pub(crate) link_minutes: Option<NonZeroU32>,
    /// The receivers.
    pub(crate) to: Vec<NotifierSettings>,
}

/// A receiver of messages: one of `webhook`, `slack` and `ntfy`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NotifierSettings {
    /// The name in the log and in records.
    #[schemars(length(min = 1))]
    pub(crate) name: Arc<str>,
    /// The events that it hears of.
    pub(crate) when: BTreeSet<When>,
    /// Only runs of these programs. Default: all.
    pub(crate) programs: Option<BTreeSet<Arc<str>>>,
    /// Only runs of these workers. Default: all.
    pub(crate) workers: Option<BTreeSet<Arc<str>>>,
    pub(crate) webhook: Option<WebhookSettings>,
    pub(crate) slack: Option<SlackSettings>,
    pub(crate) ntfy: Option<NtfySettings>,
}

/// The events that a notifier is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum When {
    /// A run asks a question.
    Waiting,
    /// A run has an output.
    Done,
    /// A run ended without an output, because it failed, reached a limit or was refused.
    Failed,
    /// A run was cancelled.
    Cancelled,
}

impl When {
    /// The name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Requests that are signed as Standard Webhooks are.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NotifierWebhook")]
pub(crate) struct WebhookSettings {
    pub(crate) url: SecretAt,
    pub(crate) secret: SecretAt,
}

/// An incoming webhook of Slack.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SlackSettings {
    pub(crate) url: SecretAt,
    /// The signing secret of the app whose buttons answer. Without it, messages have links only.
    pub(crate) signing_secret: Option<SecretAt>,
    /// The IDs of the users who may answer. Required with the secret: a channel may have guests.
    #[serde(default)]
    pub(crate) users: BTreeSet<String>,
}

/// A topic of ntfy.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NtfySettings {
    pub(crate) url: SecretAt,
    pub(crate) token: Option<SecretAt>,
}
