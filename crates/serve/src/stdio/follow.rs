//! One request that follows a run to its end.

use super::{
    lines::Lines,
    rpc::{RequestId, RpcError, notification},
};
use crate::{
    error::ApiError, events::Reader, live::LiveRun, service::Service, token::Token, views::QuestionView,
};
use llm_do::core::{event::Event, question::QuestionId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::watch;

/// What the client of a request hears before its result.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Hears {
    /// The events of the run.
    pub(super) events: bool,
    /// The questions of the run, which it then answers.
    pub(super) questions: bool,
}

/// A run that a request follows.
pub(super) struct Followed<'a> {
    pub(super) service: &'a Service,
    pub(super) token: &'a Token,
    pub(super) lines: &'a Lines,
    pub(super) request: &'a RequestId,
    pub(super) hears: Hears,
    pub(super) id: Arc<str>,
}

#[derive(Serialize)]
struct Started<'a> {
    request: &'a RequestId,
    run: &'a str,
}

#[derive(Serialize)]
struct EventOf<'a> {
    request: &'a RequestId,
    run: &'a str,
    #[serde(flatten)]
    event: &'a Event,
}

#[derive(Serialize)]
struct QuestionOf<'a> {
    request: &'a RequestId,
    run: &'a str,
    #[serde(flatten)]
    question: &'a QuestionView,
}

#[derive(Serialize)]
struct Withdrawn<'a> {
    request: &'a RequestId,
    run: &'a str,
    #[serde(flatten)]
    id: &'a QuestionId,
}

impl Followed<'_> {
    /// Says that the run has started.
    pub(super) async fn started(&self) {
        let Self { lines, request, id, .. } = self;
        lines.send(notification("started", &Started { request, run: id })).await;
    }

    /// Follows the run to its end, which cancelling the request brings about. The result is the run.
    pub(super) async fn to_the_end(
        &self,
        reader: Option<Reader>,
        mut cancelled: watch::Receiver<bool>,
    ) -> Result<Value, RpcError> {
        let Self { service, token, id, .. } = self;
        if let Some(live) = service.under_way(id) {
            let cancel = async {
                // The sender lives as long as the request.
                let _ = cancelled.wait_for(|cancelled| *cancelled).await;
                live.cancel();
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = cancel => {}
                followed = async { tokio::join!(self.events(reader), self.questions(&live), live.ended()) } => {
                    followed.0?;
                }
            }
        } else {
            self.events(reader).await?;
        }
        let run = service.run(token, id).await?;
        serde_json::to_value(run).map_err(|error| ApiError::internal(error).into())
    }

    /// Passes events on. One that the client has no room for delays those after it, and so deltas are lost.
    async fn events(&self, reader: Option<Reader>) -> Result<(), ApiError> {
        let Self { lines, request, id, .. } = self;
        let Some(mut reader) = reader else { return Ok(()) };
        while let Some(event) = reader.event().await {
            let event = &event.map_err(ApiError::internal)?;
            if !lines.send(notification("event", &EventOf { request, run: id, event })).await {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Passes questions on, until the run is over.
    async fn questions(&self, live: &LiveRun) {
        let Self { lines, request, hears, id, .. } = self;
        if !hears.questions && !live.about.chat {
            return;
        }
        let mut changed = live.questions().subscribe();
        let mut known: BTreeMap<QuestionId, String> = BTreeMap::new();
        loop {
            changed.borrow_and_update();
            let open: Vec<QuestionView> =
                live.questions().waiting().into_iter().map(QuestionView::from).collect();
            let gone: Vec<QuestionId> = known
                .keys()
                .filter(|id| !open.iter().any(|question| question.waiting.id == **id))
                .cloned()
                .collect();
            for id_of in gone {
                known.remove(&id_of);
                let withdrawn = Withdrawn { request, run: id, id: &id_of };
                lines.send(notification("withdrawn", &withdrawn)).await;
            }
            for question in &open {
                if known.get(&question.waiting.id) != Some(&question.digest) {
                    known.insert(question.waiting.id.clone(), question.digest.clone());
                    let question = QuestionOf { request, run: id, question };
                    lines.send(notification("question", &question)).await;
                }
            }
            tokio::select! {
                () = live.ended() => return,
                _ = changed.changed() => {}
            }
        }
    }
}
