//! A round as Server-Sent Events, in the form of one face.

use super::round::{Next, Piece, Round, Settled};
use crate::error::ApiError;
use axum::response::{
    IntoResponse, Response, Sse,
    sse::{Event, KeepAlive},
};
use futures_util::stream::unfold;
use std::{collections::VecDeque, convert::Infallible, time::Duration};

/// Interval at which a stream without events sends a keep-alive.
const ALIVE: Duration = Duration::from_secs(15);

/// A writer of rounds in the form of a face.
pub(crate) trait Writer: Send + 'static {
    /// The events before the first piece.
    fn begin(&mut self) -> Vec<Event>;
    fn piece(&mut self, piece: Piece) -> Vec<Event>;
    /// The last events.
    fn end(&mut self, settled: Settled) -> Vec<Event>;
    /// The last events of a round that can't be followed to its end.
    fn broken(&mut self, error: &ApiError) -> Vec<Event>;
}

struct StreamState<W> {
    round: Round,
    writer: W,
    ready: VecDeque<Event>,
    over: bool,
}

/// Returns the response that streams a round as it happens.
pub(crate) fn response<W: Writer>(round: Round, mut writer: W) -> Response {
    let ready = writer.begin().into();
    let state = StreamState { round, writer, ready, over: false };
    let stream = unfold(state, |mut state| async move {
        loop {
            if let Some(event) = state.ready.pop_front() {
                return Some((Ok::<_, Infallible>(event), state));
            }
            if state.over {
                return None;
            }
            let events = match state.round.next().await {
                Ok(Next::Piece(piece)) => state.writer.piece(piece),
                Ok(Next::Settled(settled)) => {
                    state.over = true;
                    state.writer.end(*settled)
                }
                Err(error) => {
                    state.over = true;
                    state.writer.broken(&error)
                }
            };
            state.ready.extend(events);
        }
    });
    Sse::new(stream).keep_alive(KeepAlive::new().interval(ALIVE)).into_response()
}
