use crate::confine::{
    HostKey,
    proxy::{Limits, Proxy, Task, keys::Keys},
};
use llm_do_core::authority::Domain;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use std::{
    net::{SocketAddr, TcpListener as StdListener},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, TlsConnector, client::TlsStream};

/// Time limit of each wait in these tests, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const KEY: &str = "sk-live-0123456789";

/// Creates a certificate authority of the test, which replaces those of the internet.
fn issuer() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn trusting(roots: impl IntoIterator<Item = CertificateDer<'static>>) -> ClientConfig {
    let mut store = RootCertStore::empty();
    roots.into_iter().for_each(|root| store.add(root).unwrap());
    ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(store)
        .with_no_client_auth()
}

/// A TLS server for `localhost` that gives one answer to each connection, and hands over the request.
struct Host {
    port: u16,
    got: UnboundedReceiver<String>,
    _task: Task,
}

impl Host {
    async fn start(issuer: &CertifiedIssuer<'static, KeyPair>, answer: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, issuer).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(key.serialize_der().into()),
            )
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (tell, got) = unbounded_channel();
        let answer: Arc<str> = answer.into();
        let task = Task::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (tell, acceptor, answer) = (tell.clone(), acceptor.clone(), Arc::clone(&answer));
                tokio::spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else { return };
                    let (mut text, mut buffer) = (Vec::new(), [0; 1024]);
                    while !String::from_utf8_lossy(&text).contains("\r\n\r\n") {
                        match stream.read(&mut buffer).await.unwrap_or(0) {
                            0 => break,
                            count => text.extend_from_slice(&buffer[..count]),
                        }
                    }
                    let _ = tell.send(String::from_utf8_lossy(&text).into_owned());
                    let _ = stream.write_all(answer.as_bytes()).await;
                    let _ = stream.shutdown().await;
                });
            }
        });
        Self { port, got, _task: task }
    }

    async fn got(&mut self) -> String {
        timeout(PATIENCE, self.got.recv()).await.unwrap().unwrap()
    }
}

/// A proxy with a key for `localhost` on that port, and the certificate that its process trusts.
struct Keyed {
    proxy: Proxy,
    address: SocketAddr,
    trusted: Vec<CertificateDer<'static>>,
}

fn keyed(list: &[u16], port: u16, roots: &[CertificateDer<'static>]) -> Keyed {
    let key = HostKey {
        domain: Domain::parse(&format!("localhost:{port}")).unwrap(),
        header: "Authorization".to_owned(),
        scheme: Some("Bearer".to_owned()),
        key: KEY.to_owned(),
    };
    assert!(!format!("{key:?}").contains(KEY), "{key:?}");
    let keys = Keys::over(&[key], trusting(roots.iter().cloned())).unwrap();
    let own = CertificateDer::from_pem_slice(keys.certificate().as_bytes()).unwrap();
    let trusted = [roots, &[own]].concat();
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let list = list.iter().map(|port| Domain::parse(&format!("localhost:{port}")).unwrap()).collect();
    let proxy = Proxy::within(Limits::default(), listener, list, Some(keys)).unwrap();
    Keyed { proxy, address, trusted }
}

impl Keyed {
    /// Connects from the process to `localhost` on that port, through the proxy.
    async fn connect(&self, port: u16) -> TlsStream<TcpStream> {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let connect = format!("CONNECT localhost:{port} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n");
        stream.write_all(connect.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(stream.read_u8().await.unwrap());
        }
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
        let connector = TlsConnector::from(Arc::new(trusting(self.trusted.iter().cloned())));
        connector.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap()
    }

    /// Sends these bytes inside a connection, and returns the answer until the connection ends.
    async fn ask(&self, port: u16, said: &str) -> String {
        let mut stream = self.connect(port).await;
        stream.write_all(said.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the connection ends");
        String::from_utf8_lossy(&answer).into_owned()
    }
}

fn get(port: u16, more: &str) -> String {
    format!("GET /a?b HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n{more}\r\n")
}

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

#[tokio::test]
async fn a_key_replaces_what_the_process_sends_in_its_header() {
    let issuer = issuer();
    let mut host = Host::start(&issuer, HELLO).await;
    let keyed = keyed(&[host.port], host.port, &[issuer.as_ref().der().clone()]);
    let placeholders = "Authorization: Bearer placeholder\r\nauthorization: another\r\nUpgrade: websocket\r\n\
                        Accept-Encoding: gzip\r\nRange: bytes=0-1\r\nX-Kept: 1\r\n";
    let answer = keyed.ask(host.port, &get(host.port, placeholders)).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("hello"), "{answer}");
    let got = host.got().await.to_lowercase();
    assert!(got.starts_with("get /a?b http/1.1\r\n") && got.contains("\r\nx-kept: 1\r\n"), "{got}");
    assert_eq!(got.matches("authorization").count(), 1, "{got}");
    assert!(got.contains(&format!("\r\nauthorization: bearer {KEY}\r\n")), "{got}");
    for gone in ["placeholder", "another", "upgrade", "gzip", "range"] {
        assert!(!got.contains(gone), "{gone} is in {got}");
    }
    assert_eq!(keyed.proxy.denials().count(), 0);
}

#[tokio::test]
async fn no_request_inside_a_connection_leads_a_key_to_another_host() {
    let issuer = issuer();
    let mut host = Host::start(&issuer, HELLO).await;
    let port = host.port;
    let keyed = keyed(&[port], port, &[issuer.as_ref().der().clone()]);
    for said in [
        "GET / HTTP/1.1\r\nHost: evil.net\r\n\r\n".to_owned(),
        format!("GET / HTTP/1.1\r\nHost: localhost:{port}\r\nHost: evil.net\r\n\r\n"),
        format!("GET https://evil.net/ HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"),
        format!("GET http://localhost:{port}/ HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"),
        "CONNECT evil.net:443 HTTP/1.1\r\nHost: evil.net:443\r\n\r\n".to_owned(),
        format!("TRACE / HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nHost: localhost:{port}\r\nAuthorization : x\r\n\r\n"),
    ] {
        let answer = keyed.ask(port, &said).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{said}: {answer}");
    }
    // The second request of a connection is judged as the first one.
    let first = format!("GET / HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n");
    let answer = keyed.ask(port, &format!("{first}GET / HTTP/1.1\r\nHost: evil.net\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("HTTP/1.1 400"), "{answer}");
    assert!(host.got().await.contains(KEY), "the first one had the key");
    assert!(host.got.try_recv().is_err(), "and nothing else arrived");
}

#[tokio::test]
async fn a_key_that_its_host_sends_back_does_not_reach_the_process() {
    let issuer = issuer();
    let text = format!("you are {KEY}, and {KEY}");
    let (half, rest) = text.split_at(15);
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Echo: Bearer {KEY}\r\n\r\n{:x}\r\n{half}\r\n{:x}\r\n{rest}\r\n0\r\n\r\n",
        half.len(),
        rest.len(),
    );
    let whole = format!("HTTP/1.1 401 Bad\r\nContent-Length: {}\r\n\r\n{text}", text.len());
    for answer in [chunked, whole] {
        let host = Host::start(&issuer, &answer).await;
        let keyed = keyed(&[host.port], host.port, &[issuer.as_ref().der().clone()]);
        let got = keyed.ask(host.port, &get(host.port, "")).await;
        // The borders of chunks may lie in it.
        let header = if got.contains("x-echo") { KEY.len() } else { 0 };
        assert_eq!(got.matches('*').count(), 2 * KEY.len() + header, "{got}");
        assert!(!got.contains(KEY) && !got.contains("0123456789") && !got.contains("sk-"), "{got}");
    }
    // What can't be read can't be cleaned.
    let zipped =
        format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n{text}", text.len());
    let switched =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n".to_owned();
    for answer in [zipped, switched] {
        let host = Host::start(&issuer, &answer).await;
        let keyed = keyed(&[host.port], host.port, &[issuer.as_ref().der().clone()]);
        let got = keyed.ask(host.port, &get(host.port, "Upgrade: websocket\r\n")).await;
        assert!(got.starts_with("HTTP/1.1 502") && !got.contains(KEY), "{got}");
    }
}

#[tokio::test]
async fn a_key_goes_only_to_a_host_with_a_valid_certificate() {
    let (known, unknown) = (issuer(), issuer());
    let mut host = Host::start(&unknown, HELLO).await;
    let keyed = keyed(&[host.port], host.port, &[known.as_ref().der().clone()]);
    let answer = keyed.ask(host.port, &get(host.port, "")).await;
    assert!(answer.starts_with("HTTP/1.1 502") && answer.contains("the key was not sent"), "{answer}");
    assert!(host.got.try_recv().is_err());
}

#[tokio::test]
async fn a_host_without_a_key_is_tunnelled_and_gets_none() {
    let issuer = issuer();
    let mut other = Host::start(&issuer, HELLO).await;
    let host = Host::start(&issuer, HELLO).await;
    let keyed = keyed(&[host.port, other.port], host.port, &[issuer.as_ref().der().clone()]);
    let stream = keyed.connect(other.port).await;
    let shown = stream.get_ref().1.peer_certificates().unwrap()[0].clone();
    drop(stream);
    let own = keyed.connect(host.port).await.get_ref().1.peer_certificates().unwrap()[0].clone();
    assert_ne!(shown, own);
    let answer = keyed.ask(other.port, &get(other.port, "Authorization: mine\r\n")).await;
    assert!(answer.ends_with("hello"), "{answer}");
    // The connection without a request comes first.
    let mut got = other.got().await;
    if got.is_empty() {
        got = other.got().await;
    }
    assert!(got.contains("Authorization: mine") && !got.contains(KEY), "{got}");
}

#[tokio::test]
async fn plain_http_gets_no_key() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let keyed = keyed(&[port], port, &[issuer().as_ref().der().clone()]);
    let mut stream = TcpStream::connect(keyed.address).await.unwrap();
    let said = format!("GET http://localhost:{port}/ HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n");
    stream.write_all(said.as_bytes()).await.unwrap();
    let (mut server, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    let mut got = Vec::new();
    while !got.ends_with(b"\r\n\r\n") {
        got.push(timeout(PATIENCE, server.read_u8()).await.unwrap().unwrap());
    }
    let got = String::from_utf8_lossy(&got).to_lowercase();
    assert!(got.starts_with("get / http/1.1") && !got.contains("authorization"), "{got}");
}
