//! A launch that stops before its first request.

use super::{Launch, RunRecords};
use crate::{
    budget::Budget,
    call_path::CallPath,
    driver::MemoryDriver,
    journal::RecordKind,
    model::{
        Capabilities, DeltaSink, Model, ModelError, ModelErrorKind, ModelName, ModelRequest, ModelResponse,
        ModelSettings, Models, Terms,
    },
    operator::{Operator, Recall},
    outcome::{End, Failure, FailureKind},
    question::{Answer, Given, Question, Reply, UNATTENDED, Waiting},
    send::BoxFuture,
    server_tool::ServerTool,
};
use std::sync::Arc;

/// A copy of the launch without effects: its records are kept in memory and its models answer nothing.
pub(super) fn discarding(mut launch: Launch) -> (Launch, Arc<MemoryDriver>) {
    let driver = Arc::new(MemoryDriver::new(0, Some(Arc::new(Agreeable))));
    launch.context.driver = Arc::clone(&driver) as _;
    launch.context.models = Arc::new(Silent(launch.context.models));
    launch.budget = Budget::default();
    launch.records = RunRecords::None;
    (launch, driver)
}

pub(super) async fn first_request(launch: Launch) -> Result<RecordKind, Failure> {
    let (launch, driver) = discarding(launch);
    let report = launch.run().await;
    let begun = driver.records().into_iter().find_map(|record| match record.body {
        body @ RecordKind::ConversationStarted { .. } if record.path == CallPath::root() => Some(body),
        _ => None,
    });
    begun.ok_or(match report.end {
        End::Failed(failure) => failure,
        _ => Failure::new(FailureKind::Definition, "the entry worker was refused before its first request"),
    })
}

/// Approves the tools that a worker's provider would run. These are the only questions before the first request.
struct Agreeable;

impl Operator for Agreeable {
    fn exchange<'a>(&'a self, waiting: &'a Waiting, _: &'a dyn Recall) -> BoxFuture<'a, Reply> {
        let reply = match waiting.question {
            Question::Approval(_) => {
                Reply::Given(Given::operator(Answer::Approve { remember: false }, UNATTENDED))
            }
            Question::Input(_) | Question::Settlement(_) => Reply::Later,
        };
        Box::pin(async { reply })
    }
}

/// Models with the capabilities of the real ones, which are never asked.
struct Silent(Arc<dyn Models>);

struct SilentModel(Arc<dyn Model>);

impl Models for Silent {
    fn open(&self, name: &ModelName) -> Result<Arc<dyn Model>, ModelError> {
        Ok(Arc::new(SilentModel(self.0.open(name)?)))
    }

    fn terms(&self, name: &ModelName) -> Terms {
        self.0.terms(name)
    }
}

impl Model for SilentModel {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn refused_settings(&self, settings: &ModelSettings) -> Vec<String> {
        self.0.refused_settings(settings)
    }

    fn refused_server_tools(&self, tools: &[ServerTool]) -> Vec<String> {
        self.0.refused_server_tools(tools)
    }

    fn respond<'a>(
        &'a self,
        _: ModelRequest<'a>,
        _: &'a dyn DeltaSink,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async { Err(ModelError::new(ModelErrorKind::Unsupported, "nothing is sent in a preview")) })
    }
}
