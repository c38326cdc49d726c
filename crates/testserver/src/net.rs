//! The sockets, shared by tests and benchmarks.

use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpSocket};

/// Length of the queue of connections, longer than any test's burst: with a short queue the kernel drops the rest, and
/// each dropped one costs its client a second.
const BACKLOG: u32 = 4096;

/// Listens on a free loopback port. Call it in the context of a tokio runtime.
pub fn listen() -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    socket.listen(BACKLOG)
}

/// Serves every connection with the function that `connect` makes for it, until dropped. An error of that function
/// closes the connection without an answer.
pub async fn accept<C, F, A, B, E>(listener: TcpListener, mut connect: C)
where
    C: FnMut() -> F,
    F: Fn(Request<Incoming>) -> A + Send + 'static,
    A: Future<Output = Result<Response<B>, E>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    loop {
        // An error concerns the one connection that failed (or a moment without descriptors).
        let Ok((stream, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        // Without it, small writes wait for the peer's delayed acknowledgement: 40 ms each.
        let _ = stream.set_nodelay(true);
        let handle = connect();
        tokio::spawn(async move {
            // Fails where the client hangs up or a script cuts the answer: both are meant.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(handle)).await;
        });
    }
}
