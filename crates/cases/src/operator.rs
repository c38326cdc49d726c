//! The operator of a case: approves calls that touch only the copy, and refuses all others.

use crate::stand_ins::Stubs;
use llm_do_core::{
    operator::{Operator, Recall},
    question::{Answer, Given, Question, Reply, Waiting},
    send::BoxFuture,
    toolset::ToolsetRegistry,
};
use std::{collections::BTreeSet, sync::Arc};

/// The channel in the records of its answers.
const CHANNEL: &str = "test";

/// Approves calls of stubs, which run nothing, and of the built-in file tools, which reach only the copy: a test gets
/// no grant for a place outside of the copy that it could write to.
pub(crate) struct CaseOperator {
    stubs: Arc<Stubs>,
    file_tools: BTreeSet<&'static str>,
}

impl CaseOperator {
    pub(crate) fn new(stubs: Arc<Stubs>) -> Self {
        let kinds = ToolsetRegistry::built_in();
        let file_tools = kinds.get("filesystem").map(|kind| kind.tools().iter().copied().collect());
        Self { stubs, file_tools: file_tools.unwrap_or_default() }
    }
}

impl Operator for CaseOperator {
    fn exchange<'a>(&'a self, waiting: &'a Waiting, _: &'a dyn Recall) -> BoxFuture<'a, Reply> {
        let answer = match &waiting.question {
            Question::Approval(approval)
                if self.stubs.has(&approval.function) || self.file_tools.contains(&*approval.function) =>
            {
                Answer::Approve { remember: false }
            }
            Question::Approval(_) => Answer::Deny { reason: None, remember: false },
            Question::Input(_) => Answer::Decline { reason: Some("a test has no operator to ask".into()) },
            Question::Settlement(_) => return Box::pin(async { Reply::Later }),
        };
        Box::pin(async { Reply::Given(Given::operator(answer, CHANNEL)) })
    }
}
