//! The state that the calls of one run share, in whichever process they are made: the ledger, remembered answers,
//! generated workers, the texts of long results, and the state that code keeps.
//!
//! The engine reaches all of it through this port, which belongs to the driver. A driver of one process holds it [in
//! memory](InProcess). A driver that makes calls in several processes holds it in one of them. The records are the
//! truth: each execution of a run builds the state again from them.

mod deadline;
mod in_process;

pub use in_process::{InProcess, KnownHere};

use crate::{
    account::{Account, Amount, Left, Spent, Wanted},
    authority::Place,
    budget::Reserved,
    call_path::CallPath,
    origin::{Origins, Trail},
    question::QuestionId,
    send::{BoxFuture, MaybeSend, MaybeSync},
    source::FunctionSource,
    undo::SideEffect,
};
use serde_json::Value;
use std::{sync::Arc, time::Duration};

/// The state that the calls of one run share.
///
/// No method fails. A driver that can't reach the state gives any answer, and halts the run at the next step: nothing
/// that follows from the answer is recorded.
pub trait Shared: MaybeSend + MaybeSync {
    /// Opens an account with the amounts that the records contain. Its working time starts at `now_ms`.
    fn open<'a>(&'a self, account: &'a Account, spent: Spent, now_ms: u64) -> BoxFuture<'a, ()>;
    /// Reserves the wanted amounts in the account and all above it, or the available part of them. Waits while other
    /// requests hold the missing part. `Err` names the limit that was reached.
    fn reserve<'a>(&'a self, account: &'a Account, wanted: Wanted)
    -> BoxFuture<'a, Result<Reserved, String>>;
    /// Replaces a reservation by the actual usage.
    fn settle<'a>(&'a self, account: &'a Account, reserved: Reserved, used: Amount) -> BoxFuture<'a, ()>;
    /// Working time left at `now_ms` to the tightest deadline of the account and all above it, if there is one.
    fn remaining<'a>(&'a self, account: &'a Account, now_ms: u64) -> BoxFuture<'a, Option<Duration>>;
    /// Excludes a wait between these times from the working time of the account and all above it.
    fn waited<'a>(&'a self, account: &'a Account, start_ms: u64, end_ms: u64) -> BoxFuture<'a, ()>;
    /// The remainder of this account's own budget.
    fn left<'a>(&'a self, account: &'a Account) -> BoxFuture<'a, Left>;

    /// Returns true if the operator's answer to such a question is remembered. The driver's exchange uses the answer
    /// itself ([`Known::Remembered`](crate::question::Known)).
    fn remembers<'a>(&'a self, question: &'a str) -> BoxFuture<'a, bool>;

    /// Forgets the answer to that question. Returns false if it is not remembered.
    fn forget<'a>(&'a self, question: &'a QuestionId) -> BoxFuture<'a, bool>;

    /// Notes an effect of the call at `call`, below a conversation with the user, in case the user takes its turn back.
    fn did<'a>(&'a self, call: &'a CallPath, effect: SideEffect) -> BoxFuture<'a, ()>;
    /// Undoes the turns from `since` on of that conversation: the answers that were remembered in them are forgotten.
    /// Returns the effects of their calls, in order.
    fn undo<'a>(&'a self, conversation: &'a CallPath, since: u32) -> BoxFuture<'a, Vec<SideEffect>>;
    /// Reports that these places have the same content as before the turns from `since` on of that conversation: the
    /// changes that these turns made there are forgotten.
    fn restored<'a>(
        &'a self,
        conversation: &'a CallPath,
        since: u32,
        places: Vec<Place>,
    ) -> BoxFuture<'a, ()>;

    /// Keeps a worker that the worker's call at `creator` has generated, in the form of the arguments from which it was
    /// made.
    fn generate<'a>(
        &'a self,
        creator: &'a CallPath,
        name: Arc<str>,
        arguments: Arc<Value>,
    ) -> BoxFuture<'a, ()>;
    /// The workers that the worker's call at `creator` has generated, by name, sorted.
    fn generated<'a>(&'a self, creator: &'a CallPath) -> BoxFuture<'a, Vec<(Arc<str>, Arc<Value>)>>;

    /// Keeps the text of a long result of the conversation at `conversation`, and returns its number there, from 1.
    /// Equal texts share a number.
    fn keep_result<'a>(&'a self, conversation: &'a CallPath, text: &'a str) -> BoxFuture<'a, usize>;
    /// The text with that number.
    fn result<'a>(&'a self, conversation: &'a CallPath, number: usize) -> BoxFuture<'a, Option<Arc<str>>>;

    /// The value that code of this package has set under this name, with its origins (`ctx.state` in
    /// `docs/guides/python-tools.md`).
    fn state<'a>(
        &'a self,
        package: &'a FunctionSource,
        name: &'a str,
    ) -> BoxFuture<'a, Option<(Arc<Value>, Origins)>>;
    /// Sets such a value, whose record was made at `at_ms`. A value that was recorded later is not replaced: a resume
    /// sets the recorded values again, and parallel functions set them in any order.
    fn set_state<'a>(
        &'a self,
        package: &'a FunctionSource,
        name: &'a str,
        value: Arc<Value>,
        origins: Origins,
        at_ms: u64,
    ) -> BoxFuture<'a, ()>;

    /// Drops the accounts, the generated workers and the results of the call at `path`, which has ended.
    fn ended<'a>(&'a self, path: &'a CallPath) -> BoxFuture<'a, ()>;
}

/// The cut results of one conversation, for a tool that reads them. The default has none.
#[derive(Clone, Copy, Default)]
pub struct Results<'a> {
    of: Option<(&'a dyn Shared, &'a CallPath)>,
    tainted: bool,
}

impl<'a> Results<'a> {
    /// The results of the conversation at `path`.
    pub fn new(shared: &'a dyn Shared, path: &'a CallPath) -> Self {
        Self { of: Some((shared, path)), tainted: false }
    }

    /// Sets the trail of the conversation.
    #[must_use]
    pub fn of(self, trail: &Trail) -> Self {
        Self { tainted: trail.is_tainted(), ..self }
    }

    /// The origins of the texts that are read here: the conversation has received each of these results before.
    pub fn origins(&self) -> Origins {
        if self.tainted { Origins::untrusted() } else { Origins::TRUSTED }
    }

    /// The text kept under `/results/N`, if the path is one.
    pub async fn get(&self, path: &str) -> Option<Arc<str>> {
        let (shared, conversation) = self.of?;
        let number = path.trim_start_matches('/').strip_prefix("results/")?.parse().ok()?;
        shared.result(conversation, number).await
    }
}
