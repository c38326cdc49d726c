//! Events of a run, as they happen.

use super::{
    error::Error,
    running::{Completed, Running, completed},
};
use crate::run::Report;
use futures_util::Stream;
use llm_do_core::{call_path::CallPath, event::Event, model::Delta};
use llm_do_host::EventSink;
use llm_do_records::RecordRef;
use serde::de::DeserializeOwned;
use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The events of a run, and then its result. The run advances while the events are read.
///
/// It is also a [`Stream`](futures_util::Stream) of events.
#[must_use = "a run advances while its events are read"]
pub struct Events<O> {
    running: Running<O>,
    report: Option<Report>,
    receiver: UnboundedReceiver<Event>,
}

impl<O> Events<O> {
    pub(super) fn new(running: Running<O>, receiver: UnboundedReceiver<Event>) -> Self {
        Self { running, report: None, receiver }
    }

    /// Returns the run.
    pub fn run(&self) -> &Running<O> {
        &self.running
    }

    /// Returns the next event. `None`: the run has ended.
    pub async fn next(&mut self) -> Option<Event> {
        poll_fn(|context| self.poll_event(context)).await
    }

    /// Returns the next piece of the worker's own answer. `None`: the run has ended. A worker that calls tools may say
    /// something before each call.
    pub async fn next_text(&mut self) -> Option<String> {
        let root = CallPath::root();
        loop {
            match self.next().await? {
                Event::Delta { path, delta: Delta::Text { text }, .. } if path == root => return Some(text),
                _ => {}
            }
        }
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        // What is there is given before the run advances.
        if let Poll::Ready(Some(event)) = self.receiver.poll_recv(context) {
            return Poll::Ready(Some(event));
        }
        if self.report.is_none()
            && let Poll::Ready(report) = self.running.poll_report(context)
        {
            self.report = Some(report);
        }
        match self.receiver.poll_recv(context) {
            Poll::Ready(Some(event)) => Poll::Ready(Some(event)),
            _ if self.report.is_some() => Poll::Ready(None),
            _ => Poll::Pending,
        }
    }
}

impl<O: DeserializeOwned> Events<O> {
    /// Runs to the end, drops the events that were not read, and gives the result.
    ///
    /// # Errors
    /// The run did not end with an output.
    pub async fn result(mut self) -> Result<Completed<O>, Error> {
        match self.report.take() {
            Some(report) => completed(report),
            None => self.running.result().await,
        }
    }
}

impl<O> Stream for Events<O> {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        Pin::into_inner(self).poll_event(context)
    }
}

/// Returns a sink, and the receiver of its events.
pub(super) fn channel() -> (Arc<dyn EventSink>, UnboundedReceiver<Event>) {
    let (sender, receiver) = unbounded_channel();
    (Arc::new(Channel(sender)), receiver)
}

/// The events of a run that the same task reads: the run waits for the reader, so that they don't pile up.
struct Channel(UnboundedSender<Event>);

impl EventSink for Channel {
    fn event(&self, event: Event) {
        // A reader that is gone reads nothing.
        let _ = self.0.send(event);
    }
}

/// Combines two sinks, if there are two.
pub(super) fn both(
    one: Option<Arc<dyn EventSink>>,
    other: Option<Arc<dyn EventSink>>,
) -> Option<Arc<dyn EventSink>> {
    match (one, other) {
        (Some(one), Some(other)) => Some(Arc::new(Both(one, other))),
        (one, other) => one.or(other),
    }
}

struct Both(Arc<dyn EventSink>, Arc<dyn EventSink>);

impl EventSink for Both {
    fn event(&self, event: Event) {
        self.0.event(event.clone());
        self.1.event(event);
    }
    fn record(&self, record: RecordRef<'_>) {
        self.0.record(record);
        self.1.record(record);
    }
    fn wants_written(&self) -> bool {
        self.0.wants_written() || self.1.wants_written()
    }
    fn wants_deltas(&self) -> bool {
        self.0.wants_deltas() || self.1.wants_deltas()
    }
}
