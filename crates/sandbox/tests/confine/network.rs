//! A list of domains: the process reaches only a proxy, and the proxy enforces the list.

use crate::bench::{A, B, Bench, NONE, Ran, finish, run};
use llm_do_core::authority::{Domain, Network};
use llm_do_sandbox::confine::{Denial, HostKey, Process, StartError};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{IpAddr, TcpListener, TcpStream, UdpSocket},
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::PermissionsExt,
            net::{SocketAddr, UnixListener},
        },
    },
    path::Path,
    process::Command,
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

/// Time limit of each wait in these tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// Functions of the probes beside those that all have.
const PRELUDE: &str = r#"
import http.client, urllib.request
def get(url):
    try:
        return urllib.request.urlopen(url, timeout=30).read().decode()
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"{error.code} {error.read().decode()}")
def connect(family, address, kind=socket.SOCK_STREAM, protocol=0):
    s = socket.socket(family, kind, protocol)
    s.settimeout(5)
    s.connect(address)
    return "connected"
def tunnel(target):
    s = socket.create_connection(("127.0.0.1", 3128))
    s.sendall(f"CONNECT {target} HTTP/1.1\r\n\r\n".encode())
    answer = s.recv(4096).decode()
    if " 200 " not in answer:
        raise RuntimeError(answer.splitlines()[0])
    return s
"#;

/// A server of the machine that answers "hello" to every request, and reports the beginning and the end of each
/// connection.
fn server() -> (u16, Receiver<&'static str>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let tell = tell.clone();
            std::thread::spawn(move || greet(stream.unwrap(), |what| tell.send(what).unwrap_or_default()));
        }
    });
    (port, told)
}

fn greet(mut stream: TcpStream, tell: impl Fn(&'static str)) {
    tell("begun");
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let _ = stream.read_to_end(&mut Vec::new());
    tell("ended");
}

fn listed(entries: &[String]) -> Network {
    Network::domains(entries.iter().map(|entry| Domain::parse(entry).unwrap()))
}

fn probe(bench: &Bench, script: &str, args: &[&Path], network: Network) -> Process {
    let mut process = bench.python(A, &format!("{PRELUDE}\n{script}"), args);
    process.network = network;
    process
}

async fn free(bench: &Bench, script: &str, args: &[&Path]) -> Ran {
    run(bench.python(NONE, &format!("{PRELUDE}\n{script}"), args)).await
}

/// Makes a test of tier A, which alone has such a network.
macro_rules! tier_a {
    ($($name:ident),+ $(,)?) => {
        mod a {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { crate::bench::in_tier(crate::bench::A, |_| super::$name()).await; })+
        }
    };
}

tier_a!(
    the_proxy_leads_to_what_is_listed_and_nowhere_else,
    nothing_but_the_proxy_can_be_reached,
    no_other_kind_of_socket_can_be_made,
    what_the_process_starts_is_held_as_well,
    each_process_has_a_proxy_of_its_own,
    connections_end_with_the_process,
    nothing_of_the_proxy_leaks_into_the_process,
    an_ordinary_user_has_a_proxy_as_well,
    a_local_address_is_not_opened_by_a_name,
    a_key_for_requests_is_nowhere_in_the_process,
);

async fn the_proxy_leads_to_what_is_listed_and_nowhere_else() {
    let bench = Bench::new();
    let ((port, told), (other, never)) = (server(), server());
    let script = r#"
port, other = sys.argv[1:]
attempt("listed", lambda: get(f"http://127.0.0.1:{port}/"))
attempt("listed, by tunnel", lambda: tunnel(f"127.0.0.1:{port}").sendall(b"GET / HTTP/1.1\r\n\r\n"))
attempt("other port", lambda: get(f"http://127.0.0.1:{other}/"))
attempt("other name", lambda: get(f"http://localhost:{port}/"))
attempt("other host", lambda: get("http://x.example/"))
attempt("other host by TLS", lambda: get("https://x.example/"))
attempt("tunnel to other port", lambda: tunnel(f"127.0.0.1:{other}"))
attempt("tunnel to the proxy", lambda: tunnel("127.0.0.1:3128"))
def lie():
    c = http.client.HTTPConnection("127.0.0.1", 3128)
    c.putrequest("GET", f"http://127.0.0.1:{port}/", skip_host=True)
    c.putheader("Host", f"127.0.0.1:{other}")
    c.endheaders()
    answer = c.getresponse()
    return answer.status == 200 or 1/0
attempt("another host header", lie)
"#;
    let list = listed(&[format!("127.0.0.1:{port}"), "y.example".into()]);
    let (port_text, other_text) = (port.to_string(), other.to_string());
    let args = [Path::new(&port_text), Path::new(&other_text)];
    let running = probe(&bench, script, &args, list).start().await.unwrap();
    let denials = running.denials().unwrap();
    let ran = finish(running).await;
    assert_eq!(ran.of("listed"), "ok hello", "{ran:?}");
    ran.succeeded("listed, by tunnel");
    for name in ["other port", "other name", "other host", "other host by TLS", "tunnel to other port"] {
        assert!(ran.of(name).contains("is not on the list of this worker's"), "{name}: {ran:?}");
    }
    assert!(ran.of("other host").contains("`x.example`"), "{ran:?}");
    assert!(ran.of("other port").contains(&format!("`127.0.0.1:{other}`")), "{ran:?}");
    ran.refused("tunnel to the proxy");
    ran.refused("another host header");
    assert_eq!(told.recv_timeout(PATIENCE), Ok("begun"));
    assert!(never.try_recv().is_err(), "somebody came to what is not listed");
    let missing: Vec<String> = denials.since(0).iter().filter_map(Denial::missing).collect();
    for name in [format!("127.0.0.1:{other}"), format!("localhost:{port}"), "x.example".into()] {
        assert!(missing.contains(&name), "{name}: {missing:?}");
    }
}

/// Returns an address of this machine that is not its loopback, if it has one. Nothing is sent to find out.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("1.1.1.1:53").ok()?;
    Some(socket.local_addr().ok()?.ip())
}

async fn nothing_but_the_proxy_can_be_reached() {
    let bench = Bench::new();
    let address = own_address().unwrap_or(IpAddr::from([127, 0, 0, 1]));
    let everywhere = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = everywhere.local_addr().unwrap().port();
    let six = TcpListener::bind("[::1]:0").ok();
    let six_port = six.as_ref().map_or(1, |six| six.local_addr().unwrap().port());
    let named = bench.path("project/rw/socket");
    let _named = UnixListener::bind(&named).unwrap();
    let name = format!("llm-do-test-network-{}", std::process::id());
    let _abstract = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let script = r#"
address, port, six, named, name = sys.argv[1:]
port = int(port)
attempt("loopback", lambda: connect(socket.AF_INET, ("127.0.0.1", port)))
attempt("own address", lambda: connect(socket.AF_INET, (address, port)))
attempt("mapped", lambda: connect(socket.AF_INET6, ("::ffff:127.0.0.1", port)))
attempt("six", lambda: connect(socket.AF_INET6, ("::1", int(six))))
attempt("unix", lambda: connect(socket.AF_UNIX, named))
attempt("abstract", lambda: connect(socket.AF_UNIX, "\0" + name))
attempt("bind", lambda: socket.socket().bind(("127.0.0.1", 0)))
attempt("listen", lambda: socket.socket().listen())
def pair():
    a, b = socket.socketpair()
    a.connect("\0" + name)
attempt("pair", pair)
def fast_open():
    s = socket.socket()
    return s.sendto(b"x", 0x20000000, ("127.0.0.1", port))
attempt("fast open", fast_open)
if len(os.environ.get("HTTP_PROXY", "")):
    attempt("outside", lambda: connect(socket.AF_INET, ("1.1.1.1", 443)))
    attempt("outside six", lambda: connect(socket.AF_INET6, ("2606:4700:4700::1111", 443)))
    attempt("metadata", lambda: connect(socket.AF_INET, ("169.254.169.254", 80)))
    attempt("name", lambda: socket.getaddrinfo("example.org", 443) and 0)
    attempt("proxy at another address", lambda: connect(socket.AF_INET, (address, 3128)))
    attempt("proxy", lambda: connect(socket.AF_INET, ("127.0.0.1", 3128)))
"#;
    let texts = [address.to_string(), port.to_string(), six_port.to_string()];
    let mut args: Vec<&Path> = texts.iter().map(Path::new).collect();
    args.extend([named.as_path(), Path::new(&name)]);
    let free = free(&bench, script, &args).await;
    let mut all = vec!["loopback", "own address", "mapped", "unix", "abstract", "bind", "listen"];
    all.extend(six.is_some().then_some("six"));
    for name in &all {
        free.succeeded(name);
    }
    while everywhere.set_nonblocking(true).is_ok() && everywhere.accept().is_ok() {}
    let list = listed(&[format!("127.0.0.1:{port}"), "*.example".into()]);
    let ran = run(probe(&bench, script, &args, list)).await;
    all.extend(["six", "pair", "fast open", "outside", "outside six", "metadata", "name"]);
    for name in all {
        ran.refused(name);
    }
    ran.succeeded("proxy");
    assert!(everywhere.accept().is_err(), "somebody came without the proxy");
}

async fn no_other_kind_of_socket_can_be_made() {
    let bench = Bench::new();
    let script = r#"
import fcntl, struct
for family in range(1, 46):
    for kind in range(1, 11):
        attempt(f"{family}/{kind}", lambda: socket.socket(family, kind))
for protocol in range(0, 263):
    attempt(f"protocol {protocol}", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol))
attempt("flags", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK))
attempt("six", lambda: socket.socket(socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP))
# The kernel looks at the low half alone.
attempt("high bits", lambda: syscall(41, 198, 2 | 1 << 32, 2 | 1 << 32, 0) == "ok" or 1/0)
s = socket.socket()
down = struct.pack("16sH22x", b"lo", 0)
attempt("interface", lambda: fcntl.ioctl(s, 0x8914, down))
attempt("address", lambda: fcntl.ioctl(s, 0x8916, struct.pack("16sHH4s16x", b"lo", 2, 0, bytes([9, 9, 9, 9]))))
"#;
    let ran = run(probe(&bench, script, &[], listed(&["example.org".into()]))).await;
    for family in 1..46 {
        for kind in 1..11 {
            let said = ran.of(&format!("{family}/{kind}"));
            if matches!(family, 2 | 10) && kind == 1 {
                // A machine without IPv6 says so.
                assert!(said.starts_with("ok") || (family == 10 && said == "EAFNOSUPPORT"), "{said}");
            } else {
                assert_eq!(said, "EPERM", "{family}/{kind}");
            }
        }
    }
    for protocol in 0..263 {
        let said = ran.of(&format!("protocol {protocol}"));
        assert_eq!(said.starts_with("ok"), matches!(protocol, 0 | 6), "{protocol}: {said}");
    }
    ran.succeeded("flags");
    for name in ["high bits", "interface", "address"] {
        ran.refused(name);
    }
}

async fn what_the_process_starts_is_held_as_well() {
    let bench = Bench::new();
    let (port, _told) = server();
    let script = r#"
import subprocess
code = """
import socket, sys, urllib.request
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=5)
    print("direct", end=" ")
except OSError:
    print("held", end=" ")
print(urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/").read().decode())
"""
def child(**how):
    return subprocess.run([sys.executable, "-I", "-c", code, sys.argv[1]], capture_output=True, text=True, **how).stdout.strip()
attempt("child", child)
attempt("child of another session", lambda: child(start_new_session=True))
attempt("child without proxy", lambda: child(env={}))
"#;
    let port_text = port.to_string();
    let list = listed(&[format!("127.0.0.1:{port}")]);
    let ran = run(probe(&bench, script, &[Path::new(&port_text)], list)).await;
    assert_eq!(ran.of("child"), "ok held hello", "{ran:?}");
    assert_eq!(ran.of("child of another session"), "ok held hello", "{ran:?}");
    assert_eq!(ran.of("child without proxy"), "ok held", "{ran:?}");
}

async fn each_process_has_a_proxy_of_its_own() {
    let bench = Bench::new();
    let ((one, _one), (two, _two)) = (server(), server());
    let script = r#"
for port in sys.argv[1:]:
    attempt(port, lambda: get(f"http://127.0.0.1:{port}/"))
sys.stdout.close()
os.close(1)
sys.stdin.read()
"#;
    let texts = [one.to_string(), two.to_string()];
    let args: Vec<&Path> = texts.iter().map(Path::new).collect();
    let start = async |port: u16| {
        probe(&bench, script, &args, listed(&[format!("127.0.0.1:{port}")])).start().await.unwrap()
    };
    // Both at once, on one port each of a network of their own.
    let (a, b) = tokio::join!(start(one), start(two));
    let (a, b) = tokio::join!(finish(a), finish(b));
    for (ran, allowed, other) in [(a, one, two), (b, two, one)] {
        assert_eq!(ran.of(&allowed.to_string()), "ok hello", "{ran:?}");
        ran.refused(&other.to_string());
    }
}

async fn connections_end_with_the_process() {
    let bench = Bench::new();
    let script = r#"
s = tunnel(f"127.0.0.1:{sys.argv[1]}")
print("tunnel: ok", flush=True)
if len(sys.argv) == 2:
    import time
    time.sleep(1000)
"#;
    for how in ["by itself", "killed", "dropped"] {
        let (port, told) = server();
        let port_text = port.to_string();
        let mut args = vec![Path::new(&port_text)];
        if how == "by itself" {
            args.push(Path::new("ends"));
        }
        let list = listed(&[format!("127.0.0.1:{port}")]);
        let mut running = probe(&bench, script, &args, list).start().await.unwrap();
        let wait = |what| assert_eq!(told.recv_timeout(PATIENCE), Ok(what), "{how}");
        tokio::task::block_in_place(|| wait("begun"));
        match how {
            "by itself" => drop(running.wait().await),
            "killed" => {
                running.kill();
                running.wait().await;
            }
            _ => drop(running),
        }
        tokio::task::block_in_place(|| wait("ended"));
    }
}

async fn nothing_of_the_proxy_leaks_into_the_process() {
    let bench = Bench::new();
    let script = r#"
seen = []
for number in range(1024):
    try:
        os.fstat(number)
        seen.append(number)
    except OSError:
        pass
print("open: ok", *seen)
for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
    print(f"{name}: ok", repr(os.environ[name]), repr(os.environ[name.lower()]))
attempt("hosts", lambda: read("/etc/hosts"))
attempt("resolver", lambda: read("/etc/resolv.conf"))
"#;
    let mut process = probe(&bench, script, &[], listed(&["example.org".into()]));
    // The caller's environment opens no way around it.
    process.env.push(("HTTPS_PROXY".into(), "http://10.0.0.1:8080".into()));
    process.env.push(("no_proxy".into(), "*".into()));
    let ran = finish(process.start().await.unwrap()).await;
    assert_eq!(ran.of("open"), "ok 0 1 2");
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        assert_eq!(ran.of(name), "ok 'http://127.0.0.1:3128' 'http://127.0.0.1:3128'");
    }
    assert_eq!(ran.of("NO_PROXY"), "ok '' ''");
    assert_eq!(ran.of("hosts"), r"ok b'127.0.0.1 localhost\n::1 localhost\n'");
    assert_eq!(ran.of("resolver"), "ENOENT");
}

async fn an_ordinary_user_has_a_proxy_as_well() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: every other test runs as an ordinary user already");
        return;
    }
    let bench = Bench::new();
    let (port, _told) = server();
    let front = bench.path("front");
    fs::copy(env!("CARGO_BIN_EXE_llm-do-confine"), &front).unwrap();
    for path in ["", "front"] {
        fs::set_permissions(bench.path(path), fs::Permissions::from_mode(0o777)).unwrap();
    }
    let script = format!(
        "import os, urllib.request; print(os.getuid(), urllib.request.urlopen('http://localhost:{port}').read())"
    );
    let ran = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(&front)
        .args([
            "--tier",
            "a",
            "--domain",
            &format!("localhost:{port}"),
            "/usr/bin/python3",
            "-I",
            "-c",
            &script,
        ])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "65534 b'hello'\n", "{ran:?}");
}

async fn a_local_address_is_not_opened_by_a_name() {
    let bench = Bench::new();
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_lowercase();
    let leads_here = tokio::net::lookup_host((name.as_str(), 80)).await.is_ok_and(|mut found| {
        found.all(|address| matches!(address.ip(), IpAddr::V4(ip) if ip.is_loopback() || ip.is_private()))
    });
    if !leads_here || Domain::parse(&name).is_err() {
        println!("skipped: this machine has no name that leads to a local address");
        return;
    }
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = r#"attempt("name", lambda: get(f"http://{sys.argv[1]}/"))"#;
    let address = format!("{name}:{port}");
    let ran =
        run(probe(&bench, script, &[Path::new(&address)], listed(std::slice::from_ref(&address)))).await;
    assert!(ran.of("name").contains("403") && ran.of("name").contains("local network"), "{ran:?}");
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "somebody came");
}

#[tokio::test]
async fn elsewhere_a_list_of_domains_is_refused_with_a_way_out() {
    for confinement in [B, NONE] {
        let bench = Bench::new();
        let mut process = bench.python(confinement, "", &[]);
        process.network = listed(&["example.org".into()]);
        let error = process.start().await.err().unwrap();
        assert!(matches!(error, StartError::Domains), "{error}");
        assert!(error.to_string().contains("tier A") && error.to_string().contains("network_enabled"));
    }
}

/// The process speaks TLS with the proxy, whose authority it trusts, and has no key. The host shows no certificate, so
/// that it gets none either.
async fn a_key_for_requests_is_nowhere_in_the_process() {
    const KEY: &str = "sk-live-0123456789";
    let bench = Bench::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut bytes = [0; 4096];
            let count = stream.read(&mut bytes).unwrap_or(0);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
            let _ = tell.send(bytes[..count].to_vec());
        }
    });
    let script = r#"
port, key = sys.argv[1], sys.argv[2][::-1]
def ask():
    try:
        return urllib.request.urlopen(f"https://localhost:{port}/", timeout=30).read().decode()
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read().decode()}"
attempt("asked", ask)
attempt("environment", lambda: [name for name, value in os.environ.items() if key in value])
def certificates():
    text = open(os.environ["SSL_CERT_FILE"]).read()
    return "PRIVATE" in text or key in text or text.count("BEGIN CERTIFICATE") == 0
attempt("certificates", certificates)
"#;
    let (port_text, reversed) = (port.to_string(), KEY.chars().rev().collect::<String>());
    let args = [Path::new(&port_text), Path::new(&reversed)];
    let mut process = probe(&bench, script, &args, listed(&[format!("localhost:{port}")]));
    process.keys = vec![HostKey {
        domain: Domain::parse(&format!("localhost:{port}")).unwrap(),
        header: "Authorization".into(),
        scheme: Some("Bearer".into()),
        key: KEY.into(),
    }];
    let ran = run(process).await;
    assert!(ran.of("asked").contains("502") && ran.of("asked").contains("the key was not sent"), "{ran:?}");
    assert_eq!(ran.of("environment"), "ok []", "{ran:?}");
    assert_eq!(ran.of("certificates"), "ok False", "{ran:?}");
    let got = told.recv_timeout(PATIENCE).unwrap();
    assert!(!got.is_empty() && !got.windows(KEY.len()).any(|window| window == KEY.as_bytes()));
}
