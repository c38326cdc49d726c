//! The bytes after a `CONNECT`, in both directions. On port 443 the first of them must be a TLS handshake that names
//! the same host. Otherwise a client could ask a server that serves many hosts for any of them.

use super::{
    Denial, Denials,
    request::{TLS, Target},
};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use llm_do_core::authority::Host;
use rustls::server::Acceptor;
use std::{io, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional},
    net::TcpStream,
    time::timeout,
};

/// An allowed tunnel.
pub(super) struct Tunnel {
    client: OnUpgrade,
    server: TcpStream,
    target: Target,
}

/// Time limit for the handshake's first message.
const PATIENCE: Duration = Duration::from_secs(30);

/// Maximum size of that message, in bytes.
const LONGEST_HELLO: usize = 64 * 1024;

/// `unrecognized_name`, fatal, as a record of TLS 1.2 (RFC 8446 §6), which clients of all versions read.
const ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

impl Tunnel {
    pub(super) fn new(client: OnUpgrade, server: TcpStream, target: Target) -> Self {
        Self { client, server, target }
    }

    /// Copies bytes until both sides have ended, or one has failed.
    pub(super) async fn run(self, denials: &Denials) {
        if let Ok(client) = self.client.await {
            carry(TokioIo::new(client), self.server, self.target, denials).await;
        }
    }
}

async fn carry(
    mut client: impl AsyncRead + AsyncWrite + Unpin,
    mut server: TcpStream,
    target: Target,
    denials: &Denials,
) {
    if let (TLS, Host::Name(name)) = (target.port, &target.host) {
        match timeout(PATIENCE, hello(&mut client)).await {
            Ok(Ok(Hello { bytes, name: Some(named) })) if named.eq_ignore_ascii_case(name) => {
                if server.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            Ok(Ok(Hello { name: named, .. })) => {
                denials.note(Denial::OtherServer { host: target.host, named });
                let _ = client.write_all(&ALERT).await;
                let _ = client.shutdown().await;
                return;
            }
            Ok(Err(_)) | Err(_) => return,
        }
    }
    // A connection that one side ends is no error.
    let _ = copy_bidirectional(&mut client, &mut server).await;
}

/// The first message of a handshake.
struct Hello {
    /// All bytes that were read.
    bytes: Vec<u8>,
    /// The host that it names; also `None` if it is another message.
    name: Option<String>,
}

async fn hello(client: &mut (impl AsyncRead + Unpin)) -> io::Result<Hello> {
    let mut acceptor = Acceptor::default();
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while bytes.len() < LONGEST_HELLO {
        let count = client.read(&mut buffer).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&buffer[..count]);
        let mut new = &buffer[..count];
        while !new.is_empty() {
            if acceptor.read_tls(&mut new)? == 0 {
                return Ok(Hello { bytes, name: None });
            }
            match acceptor.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    let name = accepted.client_hello().server_name().map(str::to_owned);
                    return Ok(Hello { bytes, name });
                }
                Err(_) => return Ok(Hello { bytes, name: None }),
            }
        }
    }
    Ok(Hello { bytes, name: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};
    use std::sync::Arc;
    use tokio::net::TcpListener;

    /// Returns the first message of a TLS client.
    fn client_hello(name: &str, sends_name: bool) -> Vec<u8> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        config.enable_sni = sends_name;
        let name = name.to_owned().try_into().unwrap();
        let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut bytes = Vec::new();
        connection.write_tls(&mut bytes).unwrap();
        bytes
    }

    /// Returns the bytes that the server and the client receive in a tunnel to port 443 of `example.org`, after the
    /// client has sent `said`.
    async fn tunnelled(said: &[u8], piece: usize) -> (Vec<u8>, Vec<u8>, Vec<Denial>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let (mut client, theirs) = tokio::io::duplex(1 << 20);
        let (host, _) = Host::with_port("example.org").unwrap();
        let denials = Denials::default();
        let (mut got, mut heard) = (Vec::new(), Vec::new());
        let tunnel = carry(theirs, stream, Target { host, port: TLS }, &denials);
        let talk = async {
            for bytes in said.chunks(piece) {
                if client.write_all(bytes).await.is_err() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            let _ = client.shutdown().await;
            server.read_to_end(&mut got).await.unwrap();
            let _ = server.write_all(b"the answer").await;
            drop(server);
            client.read_to_end(&mut heard).await.unwrap();
        };
        tokio::join!(tunnel, talk);
        (got, heard, denials.since(0))
    }

    #[tokio::test]
    async fn a_handshake_for_the_same_host_passes_byte_for_byte() {
        for (name, piece) in [("example.org", 1), ("example.org", 7), ("Example.ORG", 1 << 16)] {
            let mut said = client_hello(name, true);
            said.extend_from_slice(b"what follows is not looked at");
            let (got, heard, denials) = tunnelled(&said, piece).await;
            assert!(got == said, "{} of {} bytes arrived", got.len(), said.len());
            assert_eq!((heard.as_slice(), denials), (&b"the answer"[..], Vec::new()));
        }
    }

    #[tokio::test]
    async fn nothing_of_any_other_beginning_arrives() {
        let host = Host::Name("example.org".into());
        let other =
            |named: Option<&str>| Denial::OtherServer { host: host.clone(), named: named.map(str::to_owned) };
        let mut truncated = client_hello("example.org", true);
        truncated[1] = 9;
        let mut long = client_hello("example.org", true);
        // A record beyond the maximum length.
        long[3] = 0xff;
        for (said, denial) in [
            (client_hello("evil.net", true), other(Some("evil.net"))),
            (client_hello("www.example.org", true), other(Some("www.example.org"))),
            (client_hello("example.org", false), other(None)),
            (client_hello("127.0.0.1", true), other(None)),
            (b"GET / HTTP/1.1\r\nHost: evil.net\r\n\r\n".to_vec(), other(None)),
            (b"SSH-2.0-OpenSSH_9.9\r\n".to_vec(), other(None)),
            (truncated, other(None)),
            (long, other(None)),
        ] {
            let (got, heard, denials) = tunnelled(&said, 1 << 16).await;
            assert_eq!(got, b"", "{denial:?}");
            assert_eq!(heard, ALERT);
            assert_eq!(denials, [denial]);
        }
        let half = client_hello("example.org", true);
        let (got, heard, _) = tunnelled(&half[..half.len() - 1], 100).await;
        assert_eq!((got, heard), (Vec::new(), Vec::new()));
    }
}
