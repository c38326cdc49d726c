//! Calls as data: what a driver needs to have a call made in another process, or on another machine.
//!
//! A frame and its authority are ordinary data once they are written down, and the data is as powerful as the authority in
//! it. Only a driver writes and reads it. A driver that lets it out of its hands must seal it.

use crate::{
    account::Account,
    authority::Authority,
    call_path::CallPath,
    gate::{SessionRules, ToolSets},
    listing::Listings,
    origin::{Origin, Origins, Trail},
    source::{FunctionId, FunctionSource},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// A call that a worker, or code on its behalf, is about to make.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallSpec {
    /// Its path in the call tree.
    pub path: CallPath,
    /// The called function.
    pub callee: Callee,
    /// The arguments.
    pub input: Arc<Value>,
}

/// The called function, as the calling worker knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Callee {
    /// One of the functions that the calling worker may call.
    Function(FunctionId),
    /// A worker that the calling worker names in the arguments of a function that delegates.
    Delegate {
        /// The worker, as the calling worker names it.
        reference: Arc<str>,
        /// The function that delegates. Its toolset's rules hold for the worker.
        by: FunctionId,
        /// Whether only a wildcard of the allowlist permits it.
        wildcard: bool,
    },
    /// A worker that code names, by the rules of the code's package.
    Named {
        /// The package.
        package: FunctionSource,
        /// The worker, as the code names it.
        reference: Arc<str>,
    },
    /// The code of the calling worker, which has no prompt.
    Code,
}

/// A frame: the place in the call tree from which calls are made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FrameSpec {
    /// The authority of calls from here.
    pub authority: Authority,
    /// The workers from the root down to the caller.
    pub workers: Vec<WorkerCall>,
    /// Set when code calls on behalf of the last of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_behalf: Option<FunctionId>,
    /// The account for calls from here, if anything limits them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Arc<Account>>,
    /// The contents that the caller has received.
    #[serde(default)]
    pub trail: Trail,
    /// The rules that the operator has made in the conversations above.
    #[serde(default, skip_serializing_if = "SessionRules::is_empty")]
    pub session: SessionRules,
    /// The input of the run's entry.
    #[serde(default)]
    pub run_input: Arc<Value>,
    /// Where that input comes from.
    #[serde(default, skip_serializing_if = "Origins::is_trusted")]
    pub input_origins: Origins,
    /// The origin of what the user writes during the run.
    #[serde(default, skip_serializing_if = "Origin::is_trusted")]
    pub user: Origin,
    /// The sets of rules that tools returned at the start of the run.
    #[serde(default, skip_serializing_if = "ToolSets::is_empty")]
    pub sets: ToolSets,
    /// What was said outside about the tools of the caller.
    #[serde(default, skip_serializing_if = "Listings::is_empty")]
    pub listings: Listings,
}

/// A worker at work: which one, and the call in which it works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerCall {
    /// Its identity.
    pub worker: FunctionId,
    /// The call.
    pub path: CallPath,
}
