use super::*;
use llm_do_core::authority::Host;
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    time::timeout,
};

/// Time limit of each wait in these tests, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server on this machine that gives one answer to every connection, and passes on the bytes that it received.
struct Server {
    address: SocketAddr,
    got: UnboundedReceiver<String>,
    _task: Task,
}

impl Server {
    async fn start(answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, got) = unbounded_channel();
        let task = Task::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let tell = tell.clone();
                tokio::spawn(async move {
                    let mut text = Vec::new();
                    let mut buffer = [0; 1024];
                    let is_whole = |text: &[u8]| {
                        let text = String::from_utf8_lossy(text).into_owned();
                        match text.split_once("\r\n\r\n") {
                            Some((head, body)) if head.to_lowercase().contains("chunked") => {
                                body.ends_with("0\r\n\r\n")
                            }
                            Some((head, body)) => match head.to_lowercase().split_once("content-length: ") {
                                Some((_, length)) => {
                                    body.len() >= length.split("\r\n").next().unwrap().parse().unwrap()
                                }
                                None => true,
                            },
                            None => false,
                        }
                    };
                    while !is_whole(&text) {
                        match stream.read(&mut buffer).await.unwrap_or(0) {
                            0 => break,
                            count => text.extend_from_slice(&buffer[..count]),
                        }
                    }
                    let _ = tell.send(String::from_utf8_lossy(&text).into_owned());
                    let _ = stream.write_all(answer.as_bytes()).await;
                    let _ = stream.shutdown().await;
                    let _ = stream.read_to_end(&mut text).await;
                });
            }
        });
        Self { address, got, _task: task }
    }

    fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns the bytes that the next connection sent.
    async fn got(&mut self) -> String {
        timeout(PATIENCE, self.got.recv()).await.unwrap().unwrap()
    }

    fn got_nothing_more(&mut self) -> bool {
        self.got.try_recv().is_err()
    }
}

const HELLO: &str =
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: X-Hop\r\nX-Hop: 1\r\nX-End: 2\r\n\r\nhello";

fn proxy(limits: Limits, list: &[&str]) -> (Proxy, SocketAddr) {
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let list = list.iter().map(|entry| Domain::parse(entry).unwrap()).collect();
    (Proxy::within(limits, listener, list, None).unwrap(), address)
}

/// Sends these bytes, and returns the answer until the connection ends.
async fn ask(proxy: SocketAddr, said: &str) -> String {
    let mut stream = TcpStream::connect(proxy).await.unwrap();
    stream.write_all(said.as_bytes()).await.unwrap();
    rest(&mut stream).await
}

/// Reads everything until the connection ends, with or without an error.
async fn rest(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the connection ends");
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_request_is_written_anew_for_its_server() {
    let mut server = Server::start(HELLO).await;
    let port = server.port();
    let (proxy, address) = proxy(Limits::default(), &[&format!("localhost:{port}")]);
    let said = format!(
        "POST http://LOCALHOST:{port}/a?b=c HTTP/1.1\r\nHost: localhost:{port}\r\nProxy-Authorization: Basic c2VjcmV0\r\n\
         Proxy-Connection: keep-alive\r\nConnection: X-Secret, close, Host, Content-Length\r\nX-Secret: 1\r\nUpgrade: h2c\r\n\
         X-Kept: 2\r\nContent-Length: 4\r\n\r\nbody"
    );
    let answer = ask(address, &said).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nhello"), "{answer}");
    assert!(answer.contains("x-end: 2") && !answer.contains("x-hop"), "{answer}");
    let got = server.got().await;
    assert!(got.starts_with("POST /a?b=c HTTP/1.1\r\n") && got.ends_with("\r\n\r\nbody"), "{got}");
    let lower = got.to_lowercase();
    assert!(
        lower.contains(&format!("\r\nhost: localhost:{port}\r\n")) && lower.contains("\r\nx-kept: 2\r\n"),
        "{got}"
    );
    assert!(lower.contains("\r\ncontent-length: 4\r\n"), "{got}");
    for gone in ["proxy", "x-secret", "upgrade", "connection"] {
        assert!(!lower.contains(gone), "{gone} is in {got}");
    }
    assert_eq!(proxy.denials().count(), 0);
}

#[tokio::test]
async fn every_request_of_a_connection_is_judged() {
    let mut server = Server::start(HELLO).await;
    let port = server.port();
    let (proxy, address) = proxy(Limits::default(), &[&format!("127.0.0.1:{port}")]);
    let said = format!(
        "GET http://127.0.0.1:{port}/1 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n\
         GET http://evil.net/2 HTTP/1.1\r\nHost: evil.net\r\n\r\n\
         GET http://127.0.0.1:{port}/3 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"
    );
    let answer = ask(address, &said).await;
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 1, "{answer}");
    let text = "`evil.net` is not on the list of this worker's `sandbox.network_enabled`";
    assert!(answer.contains(&format!("HTTP/1.1 403 {text}\r\n")), "{answer}");
    assert!(answer.ends_with(&format!("\r\n\r\n{text}\n")), "{answer}");
    assert!(server.got().await.starts_with("GET /1 "));
    assert!(server.got_nothing_more(), "what comes behind a refusal is carried out");
    let (host, _) = Host::with_port("evil.net").unwrap();
    assert_eq!(proxy.denials().since(0), [Denial::NotListed { host, port: 80 }]);
}

#[tokio::test]
async fn no_request_hides_in_the_body_of_another() {
    let mut server = Server::start(HELLO).await;
    let port = server.port();
    let (_proxy, address) = proxy(Limits::default(), &[&format!("127.0.0.1:{port}")]);
    let hidden = format!("GET /hidden HTTP/1.1\r\nHost: other\r\nX: 127.0.0.1:{port}\r\n\r\n");
    let first = format!("POST http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n");
    let length = hidden.len() + 5;
    for both in [
        format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n"),
        format!("Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n"),
        "Transfer-Encoding: identity, chunked\r\nTransfer-Encoding: identity\r\n".to_owned(),
        "Content-Length: 0\r\nContent-Length: 5\r\n".to_owned(),
        "Content-Length: +5\r\n".to_owned(),
        "Transfer-Encoding: xchunked\r\n".to_owned(),
    ] {
        let answer = ask(address, &format!("{first}{both}\r\n0\r\n\r\n{hidden}")).await;
        let answers = answer.matches("HTTP/1.1 ").count();
        if answer.contains("HTTP/1.1 200") {
            // As a request with a chunked body of nothing; then the connection ends.
            let got = server.got().await;
            assert!(
                !got.contains("hidden") && !got.to_lowercase().contains("content-length"),
                "{both}: {got}"
            );
        }
        assert!(answers <= 1, "{both}: {answer}");
        assert!(server.got_nothing_more(), "{both}");
    }
    // A body is a body, whatever it looks like.
    let whole = format!("{first}Content-Length: {}\r\nConnection: close\r\n\r\n{hidden}", hidden.len());
    assert_eq!(ask(address, &whole).await.matches("HTTP/1.1 ").count(), 1);
    assert!(server.got().await.ends_with(&hidden) && server.got_nothing_more());
}

#[tokio::test]
async fn a_tunnel_carries_bytes_both_ways() {
    let mut server = Server::start("from the server").await;
    let port = server.port();
    let (_proxy, address) = proxy(Limits::default(), &[&format!("localhost:{port}")]);
    let mut client = TcpStream::connect(address).await.unwrap();
    // The first bytes of the tunnel come with the request.
    let said = format!("CONNECT localhost:{port} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\nfrom ");
    client.write_all(said.as_bytes()).await.unwrap();
    client.write_all(b"the client").await.unwrap();
    client.shutdown().await.unwrap();
    let answer = rest(&mut client).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 ") && !head.to_lowercase().contains("length"), "{head}");
    assert_eq!(body, "from the server");
    assert_eq!(server.got().await, "from the client");
}

#[tokio::test]
async fn what_is_refused_never_leaves() {
    let mut server = Server::start(HELLO).await;
    let port = server.port();
    let (proxy, address) = proxy(Limits::default(), &["example.org", "127.0.0.2"]);
    for (said, status) in [
        (format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n"), "403"),
        (format!("CONNECT localhost:{port} HTTP/1.1\r\nHost: example.org\r\n\r\n"), "400"),
        (format!("GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"), "403"),
        (format!("GET http://[::ffff:127.0.0.1]:{port}/ HTTP/1.1\r\n\r\n"), "403"),
        (format!("GET http://example.org:x@127.0.0.1:{port}/ HTTP/1.1\r\n\r\n"), "400"),
        (format!("GET http://2130706433:{port}/ HTTP/1.1\r\n\r\n"), "400"),
        (format!("GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"), "400"),
        (format!("GET http:// HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"), "400"),
        (format!("GET //127.0.0.1:{port}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"), "400"),
        (format!("GET http://b\u{fc}cher.example:{port}/ HTTP/1.1\r\n\r\n"), "400"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), ""),
        ("\u{16}\u{3}\u{1} no HTTP at all\r\n\r\n".to_owned(), "400"),
        (format!("GET http://127.0.0.1:{port}/\r\n\r\n"), ""),
    ] {
        let answer = ask(address, &said).await;
        assert!(answer.is_empty() || answer.starts_with(&format!("HTTP/1.1 {status}")), "{said}: {answer}");
        assert!(!answer.contains(" 200 "), "{said}: {answer}");
    }
    assert!(server.got_nothing_more());
    assert!(proxy.denials().count() >= 8, "{:?}", proxy.denials().since(0));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_as_such() {
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
    // Bound, so that no other process takes it, but without a listener.
    let taken = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&taken, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let free = SocketAddr::try_from(getsockname(&taken).unwrap()).unwrap();
    let (proxy, address) = proxy(Limits::default(), &[&free.to_string()]);
    let answer = ask(address, &format!("CONNECT {free} HTTP/1.1\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 502 `127.0.0.1` can't be reached"), "{answer}");
    assert_eq!(proxy.denials().count(), 0, "that is no refusal");
}

#[tokio::test]
async fn a_head_has_an_end() {
    let (_proxy, address) = proxy(Limits::default(), &["example.org"]);
    let long = "x".repeat(2 * LONGEST_HEAD);
    let mut client = TcpStream::connect(address).await.unwrap();
    let said = format!("GET http://example.org/ HTTP/1.1\r\nX: {long}\r\n\r\n");
    // It may end the connection before all is read.
    let _ = client.write_all(said.as_bytes()).await;
    let answer = rest(&mut client).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    let quick = Limits { head: Duration::from_millis(50), ..Limits::default() };
    let (_proxy, address) = self::proxy(quick, &["example.org"]);
    assert_eq!(ask(address, "GET http://exam").await, "");
}

#[tokio::test]
async fn what_is_idle_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = listener.local_addr().unwrap().port();
    let quick = Limits { idle: Duration::from_millis(50), ..Limits::default() };
    let (_proxy, address) = proxy(quick, &[&format!("127.0.0.1:{silent}")]);
    for said in [
        format!("CONNECT 127.0.0.1:{silent} HTTP/1.1\r\n\r\n"),
        format!("GET http://127.0.0.1:{silent}/ HTTP/1.1\r\n\r\n"),
    ] {
        let (answer, accepted) = tokio::join!(ask(address, &said), listener.accept());
        // Nothing came of it but the tunnel itself.
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 200"), "{answer}");
        let (mut server, _) = accepted.unwrap();
        rest(&mut server).await;
    }
}

#[tokio::test]
async fn so_many_connections_and_no_more() {
    let two = Limits { connections: 2, ..Limits::default() };
    let (_proxy, address) = proxy(two, &["example.org"]);
    let first = TcpStream::connect(address).await.unwrap();
    let second = TcpStream::connect(address).await.unwrap();
    let mut third = TcpStream::connect(address).await.unwrap();
    third.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut byte = [0];
    // Too short can only let a fault pass, never fail.
    assert!(timeout(Duration::from_millis(200), third.read(&mut byte)).await.is_err(), "a third is served");
    drop(first);
    assert!(rest(&mut third).await.starts_with("HTTP/1.1 400"));
    drop(second);
}

#[tokio::test]
async fn everything_ends_with_the_proxy() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (proxy, address) = proxy(Limits::default(), &[&format!("127.0.0.1:{port}")]);
    let mut tunnel = TcpStream::connect(address).await.unwrap();
    tunnel.write_all(format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
    let (mut tunnelled, _) = listener.accept().await.unwrap();
    let mut plain = TcpStream::connect(address).await.unwrap();
    plain.write_all(format!("GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
    let (mut asked, _) = listener.accept().await.unwrap();
    drop(proxy);
    for stream in [&mut tunnel, &mut tunnelled, &mut plain, &mut asked] {
        rest(stream).await;
    }
    let gone = async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, gone).await.expect("nobody listens");
}

#[tokio::test]
async fn answers_of_every_shape_pass() {
    for (method, answer, body) in [
        (
            "GET",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
            "hello",
        ),
        ("GET", "HTTP/1.0 200 OK\r\n\r\nhello", "hello"),
        ("GET", "HTTP/1.1 404 Nobody knows\r\nContent-Length: 5\r\n\r\nhello", "hello"),
        ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", ""),
        ("DELETE", "HTTP/1.1 204 No Content\r\n\r\n", ""),
        ("GET", "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello"),
    ] {
        let mut server = Server::start(answer).await;
        let (proxy, address) = proxy(Limits::default(), &[&server.address.to_string()]);
        let said = format!("{method} http://{}/ HTTP/1.0\r\n\r\n", server.address);
        let got = ask(address, &said).await;
        let (head, rest) = got.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}: {got}"));
        let status = |text: &str| text.split(' ').nth(1).map(str::to_owned);
        let last = answer.split("HTTP/").last().unwrap();
        assert_eq!((status(head), rest), (status(last), body), "{answer}");
        assert!(server.got().await.starts_with(&format!("{method} / HTTP/1.1\r\n")));
        drop(proxy);
    }
    // Not that: who changes the protocol is not judged any more.
    let server =
        Server::start("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n").await;
    let (_proxy, address) = proxy(Limits::default(), &[&server.address.to_string()]);
    let said =
        format!("GET http://{}/ HTTP/1.1\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", server.address);
    let got = ask(address, &said).await;
    assert!(got.starts_with("HTTP/1.1 502"), "{got}");
}
