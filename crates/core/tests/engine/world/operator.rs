//! The operator of a world.

use super::stage::yields;
use llm_do_core::{
    call_path::CallPath,
    operator::{Operator, Recall},
    question::{Answer, Approval, Given, Question, Reply, Waiting},
    send::BoxFuture,
};
use std::{collections::VecDeque, sync::Mutex};

/// An approval that the operator was asked for.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) call: CallPath,
    approval: Approval,
}

impl std::ops::Deref for Asked {
    type Target = Approval;
    fn deref(&self) -> &Approval {
        &self.approval
    }
}

/// An operator with a list of answers.
pub(crate) struct Answers {
    pub(super) left: Mutex<VecDeque<Option<Answer>>>,
    pub(super) asked: Mutex<Vec<Asked>>,
}

impl Operator for Answers {
    fn exchange<'a>(&'a self, waiting: &'a Waiting, _: &'a dyn Recall) -> BoxFuture<'a, Reply> {
        let what = match &waiting.question {
            Question::Approval(approval) => {
                let (call, approval) = (waiting.id.call.clone(), approval.clone());
                let function = approval.function.to_string();
                self.asked.lock().unwrap().push(Asked { call, approval });
                function
            }
            Question::Input(input) => input.prompt.to_string(),
            Question::Settlement(settlement) => settlement.function.to_string(),
        };
        let answer = self.left.lock().unwrap().pop_front();
        Box::pin(async move {
            // Others come to ask while this one is looked at.
            yields(3).await;
            match answer.unwrap_or_else(|| panic!("nobody expected to be asked about {what}")) {
                Some(answer) => Reply::Given(Given::operator(answer, "test")),
                None => Reply::Later,
            }
        })
    }
}
