//! Requests that follow a run to its end.

use super::{
    lines::LineSender,
    rpc::{RequestId, RpcError, notification},
};
use crate::{
    error::ApiError,
    events::Reader,
    live::{KEPT_EVENTS, LiveRun},
    service::Service,
    token::Token,
    views::QuestionView,
};
use llm_do::core::{event::Event, question::QuestionId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::watch;

/// The notifications that the client of a request gets before the result.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Hears {
    /// True if the client gets the events of the run.
    pub(super) events: bool,
    /// True if the client gets the questions of the run, and answers them.
    pub(super) questions: bool,
}

/// A run that a request follows.
pub(super) struct Followed<'a> {
    pub(super) service: &'a Service,
    pub(super) token: &'a Token,
    pub(super) lines: &'a LineSender,
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
    /// Notifies the client that the run has started.
    pub(super) async fn started(&self) {
        let Self { lines, request, id, .. } = self;
        lines.send(notification("started", &Started { request, run: id })).await;
    }

    /// Follows the run to its end, and returns the run as the result. If the client cancels the request, the run is
    /// cancelled.
    pub(super) async fn to_the_end(
        &self,
        reader: Option<Reader>,
        mut cancelled: watch::Receiver<bool>,
    ) -> Result<Value, RpcError> {
        let Self { service, token, id, .. } = self;
        let live = service.under_way(id);
        let cancel = async {
            // The sender lives as long as the request.
            let _ = cancelled.wait_for(|cancelled| *cancelled).await;
            if let Some(live) = &live {
                live.cancel();
            }
            std::future::pending::<()>().await;
        };
        let followed = async {
            self.pass_on(reader, live.as_deref()).await?;
            over(live.as_deref()).await;
            Ok::<_, ApiError>(())
        };
        tokio::select! {
            () = cancel => {}
            followed = followed => followed?,
        }
        let run = service.run(token, id).await?;
        serde_json::to_value(run).map_err(|error| ApiError::internal(error).into())
    }

    /// Passes events and questions on until the run is over. A question comes after the events that led to it. While
    /// the client has no room for an event, later events wait, so deltas are lost.
    async fn pass_on(&self, mut reader: Option<Reader>, live: Option<&LiveRun>) -> Result<(), ApiError> {
        let Self { lines, request, hears, id, .. } = self;
        let live = live.filter(|live| hears.questions || live.about.chat);
        let mut changed = live.map(|live| live.questions().subscribe());
        let mut asked = Asked::default();
        // Events since questions have changed, if they have and the client does not know.
        let mut since = live.map(|_| 0);
        loop {
            if let (Some(KEPT_EVENTS..), Some(live)) = (since, live) {
                since = None;
                self.tell(&mut asked, live).await;
            }
            tokio::select! {
                biased;
                event = next(&mut reader), if reader.is_some() => match event {
                    Some(event) => {
                        let event = &event.map_err(ApiError::internal)?;
                        since = since.map(|count| count + 1);
                        if !lines.send(notification("event", &EventOf { request, run: id, event })).await {
                            return Ok(());
                        }
                    }
                    None => reader = None,
                },
                // Ready only where no event is.
                () = std::future::ready(()), if since.is_some() => since = Some(KEPT_EVENTS),
                () = change(&mut changed), if live.is_some() => since = Some(0),
                () = over(live), if reader.is_none() => return Ok(()),
            }
        }
    }

    /// Notifies the client of new and changed questions, and of questions that are no longer open.
    async fn tell(&self, asked: &mut Asked, live: &LiveRun) {
        let Self { lines, request, id, .. } = self;
        let Asked(known) = asked;
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
    }
}

/// The questions that a client knows, with their digests.
#[derive(Default)]
struct Asked(BTreeMap<QuestionId, String>);

/// Returns the next event of the reader, if there is a reader.
async fn next(reader: &mut Option<Reader>) -> Option<Result<Arc<Event>, String>> {
    reader.as_mut()?.event().await
}

/// Waits for a change of the questions.
async fn change(changed: &mut Option<watch::Receiver<()>>) {
    let is_changed = match changed {
        Some(changed) => changed.changed().await.is_ok(),
        None => false,
    };
    if !is_changed {
        // The sender lives as long as the run.
        std::future::pending::<()>().await;
    }
}

/// Waits for the end of a run that is under way.
async fn over(live: Option<&LiveRun>) {
    if let Some(live) = live {
        live.ended().await;
    }
}
