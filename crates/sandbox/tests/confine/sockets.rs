//! Sockets of every family, and the pair that an event loop needs.

use crate::bench::{Bench, NONE, all_of, both_tiers, finish};
use llm_do_core::authority::Network;
use llm_do_sandbox::confine::{Channel, Confinement};
use std::{
    io::Read,
    net::TcpListener,
    os::{
        fd::OwnedFd,
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener, UnixStream},
    },
    path::Path,
};

both_tiers!(
    no_socket_can_be_made,
    no_listening_socket_can_be_reached,
    a_pair_of_streams_is_all_there_is,
    the_channel_cannot_be_turned_elsewhere,
    a_network_grant_gives_internet_sockets_only,
    a_channel_that_was_not_given_is_not_open,
);

const FAMILIES: &str = r#"
for family in [int(arg) for arg in sys.argv[1:]] or range(1, 46):
    for kind in (1, 2, 3, 4, 5):
        attempt(f"{family}/{kind}", lambda: socket.socket(family, kind))
"#;

async fn no_socket_can_be_made(tier: Confinement) {
    let bench = Bench::new();
    let free = bench.run(NONE, FAMILIES, &["1", "2", "16"].map(Path::new)).await;
    for name in ["1/1", "2/1", "2/2", "16/3"] {
        free.succeeded(name);
    }
    let ran = bench.run(tier, FAMILIES, &[]).await;
    for family in 1..46 {
        for kind in 1..=5 {
            assert_eq!(ran.of(&format!("{family}/{kind}")), "EPERM", "{ran:?}");
        }
    }
}

async fn no_listening_socket_can_be_reached(tier: Confinement) {
    let bench = Bench::new();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port().to_string();
    let named = bench.path("project/rw/socket");
    let _named = UnixListener::bind(&named).unwrap();
    let name = format!("llm-do-test-{}-{tier:?}", std::process::id());
    let _abstract = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let script = r#"
port, named, name = sys.argv[1:]
def connect(family, address, kind=socket.SOCK_STREAM):
    s = socket.socket(family, kind)
    s.connect(address)
    return "connected"
attempt("tcp", lambda: connect(socket.AF_INET, ("127.0.0.1", int(port))))
attempt("udp", lambda: connect(socket.AF_INET, ("127.0.0.1", int(port)), socket.SOCK_DGRAM))
attempt("named", lambda: connect(socket.AF_UNIX, named))
attempt("abstract", lambda: connect(socket.AF_UNIX, "\0" + name))
a, b = socket.socketpair()
attempt("pair to named", lambda: a.connect(named))
attempt("pair to abstract", lambda: b.connect("\0" + name))
attempt("pair bound", lambda: a.bind(named + "2"))
attempt("pair listening", lambda: b.listen())
"#;
    let args = [Path::new(&port), named.as_path(), Path::new(&name)];
    let free = bench.run(NONE, script, &args).await;
    for name in ["tcp", "udp", "named", "abstract"] {
        free.succeeded(name);
    }
    let ran = bench.run(tier, script, &args).await;
    for name in [
        "tcp",
        "udp",
        "named",
        "abstract",
        "pair to named",
        "pair to abstract",
        "pair bound",
        "pair listening",
    ] {
        ran.refused(name);
    }
}

async fn a_pair_of_streams_is_all_there_is(tier: Confinement) {
    let bench = Bench::new();
    let script = r#"
def pair(family, kind):
    a, b = socket.socketpair(family, kind)
    a.send(b"x")
    return b.recv(1)
attempt("stream", lambda: pair(socket.AF_UNIX, socket.SOCK_STREAM))
attempt("flags", lambda: pair(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK))
attempt("datagram", lambda: pair(socket.AF_UNIX, socket.SOCK_DGRAM))
attempt("datagram with flags", lambda: pair(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC))
attempt("packets", lambda: pair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
attempt("raw", lambda: pair(socket.AF_UNIX, socket.SOCK_RAW))
attempt("tipc", lambda: pair(30, socket.SOCK_SEQPACKET))
# The kernel looks at the low half alone.
two = (ctypes.c_int * 2)()
attempt("high bits", lambda: syscall(53, 199, 1 | 1 << 32, 2 | 1 << 32, 0, two) == "ok" or 1/0)
"#;
    let free = bench.run(NONE, script, &[]).await;
    for name in ["stream", "flags", "datagram", "packets", "high bits"] {
        free.succeeded(name);
    }
    let ran = bench.run(tier, script, &[]).await;
    ran.succeeded("stream");
    ran.succeeded("flags");
    for name in ["datagram", "datagram with flags", "packets", "raw", "tipc", "high bits"] {
        ran.refused(name);
    }
}

async fn the_channel_cannot_be_turned_elsewhere(tier: Confinement) {
    let bench = Bench::new();
    let named = bench.path("project/rw/socket");
    let listener = UnixListener::bind(&named).unwrap();
    listener.set_nonblocking(true).unwrap();
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let script = r#"
s = socket.socket(fileno=3)
attempt("connect", lambda: s.connect(sys.argv[1]))
attempt("bind", lambda: s.bind(sys.argv[1] + "2"))
attempt("send to", lambda: s.sendto(b"x", sys.argv[1]))
s.send(b"by the channel")
"#;
    let mut process = bench.python(tier, script, &[&named]);
    process.channel = Some(Channel::Third(OwnedFd::from(theirs)));
    let ran = finish(process.start().await.unwrap()).await;
    ran.refused("connect");
    ran.refused("bind");
    assert!(listener.accept().is_err(), "somebody connected");
    let mut said = String::new();
    ours.read_to_string(&mut said).unwrap();
    assert!(said.ends_with("by the channel"), "{said:?} {ran:?}");
}

async fn a_network_grant_gives_internet_sockets_only(tier: Confinement) {
    let bench = Bench::new();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port().to_string();
    let named = bench.path("project/rw/socket");
    let _named = UnixListener::bind(&named).unwrap();
    let script = r#"
port, named = sys.argv[1:]
def connect(family, address):
    socket.socket(family).connect(address)
attempt("tcp", lambda: connect(socket.AF_INET, ("127.0.0.1", int(port))))
attempt("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
attempt("tcp6", lambda: socket.socket(socket.AF_INET6))
attempt("named", lambda: connect(socket.AF_UNIX, named))
attempt("unix", lambda: socket.socket(socket.AF_UNIX))
attempt("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("vsock", lambda: socket.socket(40))
attempt("alg", lambda: socket.socket(38, socket.SOCK_SEQPACKET))
a, b = socket.socketpair()
attempt("pair to named", lambda: a.connect(named))
attempt("datagram pair", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
attempt("resolver", lambda: read("/etc/resolv.conf"))
"#;
    let mut process = bench.python(tier, script, &[Path::new(&port), &named]);
    process.network = Network::On;
    let ran = finish(process.start().await.unwrap()).await;
    for name in ["tcp", "udp"] {
        ran.succeeded(name);
    }
    for name in
        ["named", "unix", "netlink", "packet", "raw", "vsock", "alg", "pair to named", "datagram pair"]
    {
        ran.refused(name);
    }
    if Path::new("/etc/resolv.conf").exists() {
        ran.succeeded("resolver");
    }
}

async fn a_channel_that_was_not_given_is_not_open(tier: Confinement) {
    let bench = Bench::new();
    // A channel is a descriptor like any other; none is left open without one.
    let mut process = bench.python(tier, "import stat\nattempt('three', lambda: os.fstat(3))", &[]);
    process.channel = None;
    let mut running = process.start().await.unwrap();
    let out = all_of(running.stdout()).await;
    assert!(out.contains("three: EBADF"), "{out}");
}
