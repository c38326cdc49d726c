//! A connection to a host with a key: TLS that ends here, with requests that are judged one by one.

use super::{
    Answer, Gate, Stop, address, answered, forward,
    keys::Entry,
    request::{self, Target},
};
use crate::confine::Denial;
use hyper::{
    Request, Response, body::Incoming, server::conn::http1, service::service_fn, upgrade::OnUpgrade,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use llm_do_core::authority::Host;
use rustls::{ServerConfig, pki_types::ServerName};
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsAcceptor, TlsConnector, client::TlsStream};

/// Time limit for a handshake.
const PATIENCE: Duration = Duration::from_secs(30);

/// An allowed connection to a host with a key.
pub(super) struct Interception {
    client: OnUpgrade,
    target: Target,
    entry: Arc<Entry>,
    config: Arc<ServerConfig>,
}

impl Interception {
    pub(super) fn new(client: OnUpgrade, target: Target, entry: Arc<Entry>, config: ServerConfig) -> Self {
        Self { client, target, entry, config: Arc::new(config) }
    }

    /// Serves the requests in the connection until it ends.
    pub(super) async fn run(self, gate: &Arc<Gate>) {
        let Self { client, target, entry, config } = self;
        let Ok(client) = client.await else { return };
        let handshake = TlsAcceptor::from(config).accept(TokioIo::new(client));
        // A client that does not trust the authority ends the handshake, and says so itself.
        let Ok(Ok(client)) = timeout(PATIENCE, handshake).await else { return };
        let service = service_fn(|request| {
            let (gate, target, entry) = (Arc::clone(gate), target.clone(), Arc::clone(&entry));
            async move { Ok::<_, Infallible>(answered(&gate, answer(&gate, request, &target, &entry).await)) }
        });
        let requests = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(gate.limits.head)
            .max_header_size(super::LONGEST_HEAD)
            .serve_connection(TokioIo::new(client), service);
        // The client has received the error.
        let _ = requests.await;
    }
}

async fn answer(
    gate: &Gate,
    request: Request<Incoming>,
    target: &Target,
    entry: &Arc<Entry>,
) -> Result<Response<Answer>, Stop> {
    request::judge_inside(&request, target).map_err(|reason| Stop::Denied(Denial::Malformed(reason)))?;
    let stream = connect(gate, target).await?;
    forward::with_key(request, target, stream, entry).await
}

/// Connects to the host, and verifies its certificate.
async fn connect(gate: &Gate, target: &Target) -> Result<TlsStream<TcpStream>, Stop> {
    let unreachable =
        |reason: String| Stop::Unreachable(format!("`{}` can't be reached: {reason}", target.host));
    let Some(keys) = &gate.keys else { return Err(unreachable("it has no key any more".into())) };
    let stream = address::connect(target, &gate.list).await?;
    let name = match &target.host {
        Host::Name(name) => {
            ServerName::try_from(name.clone()).map_err(|error| unreachable(error.to_string()))?
        }
        Host::Address(address) => ServerName::IpAddress((*address).into()),
    };
    let handshake = TlsConnector::from(Arc::clone(keys.upstream())).connect(name, stream);
    match timeout(PATIENCE, handshake).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(unreachable(format!("no TLS connection, so the key was not sent: {error}"))),
        Err(_) => Err(unreachable("the TLS handshake took too long".into())),
    }
}

#[cfg(test)]
mod tests;
