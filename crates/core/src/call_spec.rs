//! Calls as data: the data that a driver needs to make a call in another process, or on another machine.
//!
//! A serialised frame and its authority are ordinary data, and the data is as powerful as the authority in it. Only a
//! driver writes and reads it. A driver that gives the data to others must seal it.

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
    /// The place in the call tree.
    pub path: CallPath,
    /// The called function.
    pub callee: Callee,
    /// The arguments.
    pub input: Arc<Value>,
}

/// The called function, in the form in which the calling worker names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Callee {
    /// A function that the calling worker may call.
    Function(FunctionId),
    /// A worker that the calling worker names in the arguments of a function that delegates.
    Delegate {
        /// The name that the calling worker uses.
        reference: Arc<str>,
        /// The function that delegates. Its toolset's rules apply to the worker.
        by: FunctionId,
        /// True if only a wildcard of the allowlist permits the worker.
        wildcard: bool,
    },
    /// A worker that code names, by the rules of the code's package.
    Named {
        /// The package.
        package: FunctionSource,
        /// The name that the code uses.
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
    /// The tool whose code calls on behalf of the last worker, if code calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_behalf: Option<FunctionId>,
    /// The account for calls from here, if anything limits them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Arc<Account>>,
    /// The contents that the caller has received.
    #[serde(default)]
    pub trail: Trail,
    /// The rules that the operator has made in the conversations that led here.
    #[serde(default, skip_serializing_if = "SessionRules::is_empty")]
    pub session: SessionRules,
    /// The input of the run's entry.
    #[serde(default)]
    pub run_input: Arc<Value>,
    /// The origins of that input.
    #[serde(default, skip_serializing_if = "Origins::is_trusted")]
    pub input_origins: Origins,
    /// The origin of the user's words during the run.
    #[serde(default, skip_serializing_if = "Origin::is_trusted")]
    pub user: Origin,
    /// The sets of rules that tools returned at the start of the run.
    #[serde(default, skip_serializing_if = "ToolSets::is_empty")]
    pub sets: ToolSets,
    /// The listings of the caller's tools by external servers.
    #[serde(default, skip_serializing_if = "Listings::is_empty")]
    pub listings: Listings,
}

/// A worker in the chain, and the call in which it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerCall {
    /// The worker's identity.
    pub worker: FunctionId,
    /// The call.
    pub path: CallPath,
}
