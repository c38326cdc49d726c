//! The Model Context Protocol with a single client over a pair of streams.

use super::{Tools, caller::Caller, exact::pass_on};
use crate::{service::Service, token::Token};
use rmcp::{
    ServiceExt,
    service::{QuitReason, ServerInitializeError},
    transport::async_rw::AsyncRwTransport,
};
use std::{io, sync::Arc};
use tokio::io::{AsyncRead, AsyncWrite};

/// Longest line of a client, in bytes. A longer one is dropped without an answer, because its ID can't be known.
const LONGEST_LINE: usize = 16 << 20;
/// Most bytes of the client in the buffer between the check of its numbers and the protocol.
const PASSED_ON: usize = 64 * 1024;

/// Serves the only client of a service until it closes its stream, or `stop` ends. Then the runs end in order.
///
/// # Errors
/// The client speaks no protocol that the server knows.
pub(crate) async fn serve(
    service: Service,
    token: Arc<Token>,
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let (passed_on, checked) = tokio::io::duplex(PASSED_ON);
    let passing = tokio::spawn(pass_on(reader, passed_on, LONGEST_LINE));
    let transport = AsyncRwTransport::new_server(checked, writer).with_max_line_length(LONGEST_LINE);
    let program = service.only_program(&token).unwrap_or_default();
    let client = Caller { service: service.clone(), token, program };
    let tools = Tools::of_client(&service.server_name(), client);
    let served = async {
        let running = match tools.serve(transport).await {
            Ok(running) => running,
            // The client has gone before it asked for anything.
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(io::Error::other(error)),
        };
        match running.waiting().await {
            Ok(QuitReason::Closed | QuitReason::Cancelled) => Ok(()),
            Ok(reason) => Err(io::Error::other(format!("the connection broke: {reason:?}"))),
            Err(error) => Err(io::Error::other(error)),
        }
    };
    let ended = tokio::select! {
        ended = served => ended,
        () = stop => Ok(()),
    };
    passing.abort();
    service.end().await;
    ended
}
