//! Reads that no worker makes: a client of a service opens a file in the view of a worker (`docs/reference/http.md`).

use super::Filesystem;
use crate::{
    authority::{Access, Authority, Located, Place},
    call_path::CallPath,
    definition::WorkerDefinition,
    engine::{Admitted, Call, Engine, Frame, subjects},
    function::{
        Effects, Function, Implementation, Leaf, LeafCall, MainArgument, ToolError, ToolOutput, Touch,
    },
    gate::{Gate, Policy, Rule, Verdict},
    origin::Origins,
    outcome::{Failure, FailureKind},
    rule::Mode,
    send::BoxFuture,
    toolset::{Configuration, ToolsetKind},
};
use serde_json::json;
use std::sync::Arc;

/// The kind of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The content of a file, like `read_file`.
    File,
    /// The names in a folder, like `list_files`.
    Folder,
}

impl Read {
    /// The tool that makes such a read, whose rules apply to it.
    pub fn tool(self) -> &'static str {
        match self {
            Self::File => "read_file",
            Self::Folder => "list_files",
        }
    }
}

/// A read of one path in the place of the tool that would make it. The gate judges it, and it is never called.
struct Reading;

impl Leaf for Reading {
    fn run<'a>(&'a self, _: LeafCall<'a>) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async { Err(ToolError::new("a read of a client is judged and not called")) })
    }
}

impl Engine {
    /// Judges a read of a place in the view of a worker, as if the worker called the tool that makes such a read. An
    /// `ask` is pre-approved if the mode of the run approves everything. The path is bound to the judged place.
    ///
    /// # Errors
    /// The configuration of the worker's file tools is wrong.
    pub async fn judge_read(
        &self,
        worker: &Arc<WorkerDefinition>,
        authority: &Arc<Authority>,
        read: Read,
        at: &mut Located,
    ) -> Result<Verdict, Failure> {
        let real = self.real(at, &touch(at)).await;
        at.decided(&real, true);
        let frame = Frame::operator(Arc::clone(authority)).of(worker);
        let verdict = self.weigh_read(&frame, read, at, real)?;
        Ok(match (verdict.rule, self.host().gate.mode) {
            (Rule::Ask, Mode::ApproveAll) => verdict.approved(),
            _ => verdict,
        })
    }

    /// The verdict that blocks a path which a client passes to a worker: a rule blocks the worker's own reads there.
    pub(crate) fn blocked_handing(&self, call: &Call<'_>, admitted: &Admitted) -> Option<Verdict> {
        let definitions = &self.host().definitions;
        if !(self.host().for_client && call.by_operator) {
            return None;
        }
        let worker = definitions.identified(&call.function.meta.id())?;
        let frame = Frame::operator(Arc::clone(call.frame.shared_authority())).of(&worker);
        let handed = admitted.places.iter().zip(&admitted.real).filter(|(at, _)| at.access == Access::Read);
        let mut verdicts = handed.filter_map(|(at, real)| {
            // A wrong configuration fails the worker's call with its reason.
            self.weigh_read(&frame, Read::File, at, real.clone()).ok()
        });
        verdicts.find(|verdict| verdict.rule == Rule::Blocked)
    }

    fn weigh_read(&self, frame: &Frame, read: Read, at: &Located, real: Place) -> Result<Verdict, Failure> {
        let policy = frame.worker().map_or(Ok(None), |worker| self.policy_of_files(worker))?;
        let tools = Filesystem::made_for(frame.shared_authority(), policy.as_ref());
        let found = tools.into_iter().find(|function| *function.meta.name == *read.tool());
        let Some(Function { meta, .. }) = found else {
            return Err(Failure::new(FailureKind::Definition, format!("there is no tool `{}`", read.tool())));
        };
        let function = Function { meta, body: Implementation::Leaf(Arc::new(Reading)), rule: None };
        let input = Arc::new(json!({"path": at.path.as_str()}));
        let call = Call {
            path: CallPath::root(),
            function: &function,
            input: Arc::clone(&input),
            frame,
            attachments: &[],
            by_operator: false,
        };
        let effects = Effects { touches: vec![touch(at)], main: MainArgument::Paths, ..Effects::default() };
        let (places, real) = (vec![at.clone()], vec![real]);
        let admitted = Admitted {
            subjects: subjects(&effects, &places, &real),
            input,
            effects,
            places,
            real,
            bounds: None,
            stated: None,
            origins: Origins::TRUSTED,
            untrusted: Vec::new(),
            process_reads_untrusted: false,
        };
        Ok(self.weigh(&call, &admitted, Gate::decide))
    }

    /// The `approval` of the worker's toolset `filesystem`, if it has the toolset.
    fn policy_of_files(&self, worker: &WorkerDefinition) -> Result<Option<Arc<Policy>>, Failure> {
        let configured = self.host().toolsets.of(worker);
        let Some((name, whole)) = configured.iter().find(|(name, _)| **name == *Filesystem.name()) else {
            return Ok(None);
        };
        let written_at = format!("{}: toolsets.{name}.approval", worker.id);
        let parsed = Configuration::parse(whole, &written_at);
        parsed
            .map(|configuration| configuration.policy)
            .map_err(|reason| Failure::new(FailureKind::Definition, reason))
    }
}

fn touch(at: &Located) -> Touch {
    Touch { path: at.path.to_string(), access: Access::Read, delete: false }
}
