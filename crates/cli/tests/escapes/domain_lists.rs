//! Processes with a list of domains: they can reach only a proxy, which enforces the list.

use crate::{
    attempt::{Attempt, Escape, Group, Layer::Launcher, Need, Outcome, Who::Process, must},
    probe::{A, B, Ran, Victim, finish, parts, python, run},
    world::{World, wait},
};
use llm_do::confine::Confinement;
use llm_do_core::authority::{Domain, Network};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream, UdpSocket},
    sync::{Arc, Mutex},
    time::Duration,
};

/// Helpers of the probes. `LISTED` and `OTHER` are the ports of two servers, one of which is on the list.
const PRELUDE: &str = r#"
import http.client, urllib.request, urllib.error
global answer, ask, direct, get, ruled, tunnel
def ask(text):
    s = socket.create_connection(("127.0.0.1", 3128), timeout=30)
    s.sendall(text.encode())
    return answer(s)
def answer(s):
    said = b""
    while part := s.recv(4096):
        said += part
    print(said)
    line = said.decode("utf-8", "replace").split("\r\n")[0]
    return ruled(int(line.split(" ")[1]), line)
def ruled(status, said):
    "400 and 403 are refusals of the proxy. Any other failure proves nothing."
    if status in (400, 403):
        raise PermissionError(errno.EACCES, said)
    if status != 200:
        raise OSError(errno.EIO, f"{status} {said}")
    return said
def get(url):
    try:
        return urllib.request.urlopen(url, timeout=30).read().decode()
    except urllib.error.HTTPError as error:
        return ruled(error.code, error.read().decode())
def tunnel(target):
    s = socket.create_connection(("127.0.0.1", 3128), timeout=30)
    s.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    said = s.recv(4096).decode()
    ruled(int(said.split(" ")[1]), said)
    return s
def direct(port, host="127.0.0.1"):
    s = socket.create_connection((host, port), timeout=5)
    s.sendall(b"GET / HTTP/1.1\r\n\r\n")
    return answer(s)
if not FREE and get(f"http://127.0.0.1:{LISTED}/") != "hello":
    raise LookupError("what is listed can't be reached")
"#;

/// A server that answers every request and keeps it.
struct Server {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn new() -> Self {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let requests = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let requests = Arc::clone(&requests);
                std::thread::spawn(move || greet(stream, &requests));
            }
        });
        Self { port, asked }
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

fn greet(mut stream: TcpStream, asked: &Mutex<Vec<String>>) {
    let at = {
        let mut asked = asked.lock().unwrap();
        asked.push(String::new());
        asked.len() - 1
    };
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        if let Some(text) = asked.lock().unwrap().get_mut(at) {
            text.push_str(&String::from_utf8_lossy(&line));
        }
        if line == b"\r\n" {
            break;
        }
        line.clear();
    }
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let _ = stream.set_read_timeout(Some(Duration::from_secs(30)));
    let _ = stream.read_to_end(&mut Vec::new());
}

/// The expected result of the same probe without confinement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Control {
    /// The probe reaches the server that is not on the list.
    Reaches,
    /// No control exists, because without confinement there is no proxy. The prelude checks that the proxy serves the
    /// list.
    Proxy,
}

fn listed(
    name: &'static str,
    mechanism: &'static str,
    control: Control,
    verdicts: &'static str,
    script: &'static str,
) -> Attempt {
    let attack = move |world: &World| {
        let (here, other) = (Server::new(), Server::new());
        if control == Control::Reaches {
            let own = World::new();
            let ran = once(&own, Confinement::Unconfined, script, &here, &other);
            must(ran.verdict() == "ok", format!("the control, unconfined, says {}: {ran:?}", ran.verdict()))?;
        }
        other.asked();
        let ran = once(world, A, script, &here, &other);
        let verdict = ran.verdict();
        must(
            verdicts.split('|').any(|expected| expected == verdict),
            format!("{verdict}, not {verdicts}: {ran:?}"),
        )?;
        let came = other.asked();
        must(came.is_empty(), format!("ESCAPE: the server that is not listed got requests: {came:?}"))?;
        let asked = here.asked().concat();
        must(
            !asked.contains("not-listed"),
            format!("ESCAPE: the listed server got a request for another host: {asked}"),
        )?;
        Ok(Outcome::Refused)
    };
    Attempt::new(Process, Launcher, name, mechanism, attack).tier("A").needs(Need::Tiers).needs(Need::Python)
}

fn once(world: &World, confinement: Confinement, script: &str, here: &Server, other: &Server) -> Ran {
    let victim = Victim::new(world);
    let address = own_address();
    let script = format!(
        "global LISTED, OTHER, ADDRESS\nLISTED, OTHER, ADDRESS = {}, {}, '{address}'\n{PRELUDE}\n{script}",
        here.port, other.port
    );
    let mut process = python(world, &parts(world), confinement, &script, &victim);
    if confinement != Confinement::Unconfined {
        process.network = list(here.port);
    } else {
        process.network = Network::On;
    }
    run(world, process)
}

fn list(port: u16) -> Network {
    let entries = [format!("127.0.0.1:{port}"), format!("localhost:{port}"), "*.listed.example".into()];
    Network::domains(entries.iter().map(|entry| Domain::parse(entry).unwrap()))
}

/// An address of this machine other than loopback, if it has one. Finding it sends nothing.
fn own_address() -> String {
    let found = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    found.map_or_else(|_| "127.0.0.2".into(), |address| address.ip().to_string())
}

pub(crate) fn group() -> Group {
    const LIST: &str = "the proxy enforces the list";
    const FORM: &str = "the proxy refuses ambiguous requests";
    const NET: &str = "network namespace, Landlock";
    use Control::{Proxy, Reaches};
    let mut attempts = vec![
        listed(
            "another port of a listed host",
            LIST,
            Reaches,
            "EACCES",
            "return get(f'http://127.0.0.1:{OTHER}/')",
        ),
        listed(
            "another host, by HTTP and by a TLS tunnel",
            LIST,
            Proxy,
            "EACCES",
            "return each(lambda: get('http://not-listed.example/'), lambda: tunnel('not-listed.example:443'))",
        ),
        listed(
            "a name that shares only a prefix or a suffix with a listed one",
            LIST,
            Proxy,
            "EACCES",
            "return each(lambda: get('http://xlisted.example/'), lambda: get('http://listed.example/'), lambda: get('http://a.listed.example.not-listed.example/'), lambda: get('http://a.listed.example.:8080/'))",
        ),
        listed(
            "loopback and cloud metadata addresses in other notations",
            LIST,
            Proxy,
            "EACCES",
            "return each(*[lambda host=host: get(f'http://{host}:{OTHER}/') for host in ('127.1', '2130706433', '0x7f.0.0.1', '0177.0.0.1', '[::1]', '[::ffff:127.0.0.1]', '0.0.0.0', '0')], lambda: get('http://169.254.169.254/latest/'))",
        ),
        listed(
            "another host in the user part of a URL",
            FORM,
            Proxy,
            "EACCES",
            "return each(*[lambda text=text: ask(f'GET {text} HTTP/1.1\\r\\nHost: 127.0.0.1:{LISTED}\\r\\nConnection: close\\r\\n\\r\\n') for text in (f'http://127.0.0.1:{LISTED}@127.0.0.1:{OTHER}/', f'http://127.0.0.1:{OTHER}@127.0.0.1:{LISTED}/', f'http://127.0.0.1:{LISTED}\\\\@127.0.0.1:{OTHER}/')])",
        ),
        listed(
            "another host in the `Host` header",
            FORM,
            Proxy,
            "EACCES",
            "return each(lambda: ask(f'GET http://127.0.0.1:{LISTED}/ HTTP/1.1\\r\\nHost: not-listed.example\\r\\nConnection: close\\r\\n\\r\\n'), lambda: ask(f'GET http://127.0.0.1:{LISTED}/ HTTP/1.1\\r\\nHost: 127.0.0.1:{LISTED}\\r\\nHost: not-listed.example\\r\\nConnection: close\\r\\n\\r\\n'), lambda: ask(f'GET / HTTP/1.1\\r\\nHost: 127.0.0.1:{OTHER}\\r\\nConnection: close\\r\\n\\r\\n'))",
        ),
        listed(
            "a second request on the same connection",
            LIST,
            Proxy,
            "EACCES",
            "c = http.client.HTTPConnection('127.0.0.1', 3128, timeout=30)\nc.request('GET', f'http://127.0.0.1:{LISTED}/')\nc.getresponse().read()\nc.request('GET', f'http://127.0.0.1:{OTHER}/')\nr = c.getresponse()\nreturn ruled(r.status, str(r.read()))",
        ),
        listed(
            "a tunnel to another port, to cloud metadata and to the proxy itself",
            LIST,
            Proxy,
            "EACCES",
            "return each(lambda: tunnel(f'127.0.0.1:{OTHER}'), lambda: tunnel('169.254.169.254:80'), lambda: tunnel('127.0.0.1:3128'))",
        ),
        listed(
            "direct TCP to this machine",
            NET,
            Reaches,
            "EACCES|ECONNREFUSED|ENETUNREACH|ECONNREFUSED+ENETUNREACH",
            "return each(lambda: direct(OTHER), lambda: direct(OTHER, ADDRESS))",
        ),
        listed(
            "direct TCP to other machines",
            NET,
            Proxy,
            "EACCES|ENETUNREACH",
            "return each(lambda: direct(443, '1.1.1.1'), lambda: direct(80, '169.254.169.254'), lambda: direct(53, '192.0.2.1'))",
        ),
        listed(
            "UDP, including DNS queries",
            "seccomp",
            Reaches,
            "EPERM",
            "return socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', PORT))",
        ),
        listed(
            "binding and listening",
            "seccomp",
            Reaches,
            "EPERM",
            "return each(lambda: socket.socket().bind(('127.0.0.1', 0)), lambda: socket.socket().listen())",
        ),
        listed(
            "Unix sockets",
            "seccomp",
            Reaches,
            "EPERM",
            "return socket.socket(socket.AF_UNIX).connect('\\0' + DOOR)",
        ),
    ];
    let refused = |world: &World| {
        let here = Server::new();
        for confinement in [B, Confinement::Unconfined, A] {
            let victim = Victim::new(world);
            let mut process = python(world, &parts(world), confinement, "return 'begun'", &victim);
            process.network = list(here.port);
            world.arm();
            match (wait(process.start()), confinement == A) {
                (Ok(running), true) => {
                    let ran = wait(finish(running));
                    must(ran.verdict() == "ok", format!("the control: it does not begin: {ran:?}"))?;
                }
                (Ok(_), false) => return Err(Escape(format!("ESCAPE: it began in {confinement:?}"))),
                (Err(error), _) => must(error.to_string().contains("network_enabled"), error.to_string())?,
            }
        }
        Ok(Outcome::Refused)
    };
    attempts.push(
        Attempt::new(
            Process,
            Launcher,
            "a list of domains where it cannot be enforced (tier B, unconfined)",
            "the process is not started",
            refused,
        )
        .tier("B")
        .needs(Need::Tiers)
        .needs(Need::Python),
    );
    Group {
        title: "Lists of domains",
        about: "A process may reach one local port, through the proxy, and does so before each attempt. A \
                second server is not on the list and must not be reached; nothing may contact the sockets \
                outside.",
        attempts,
    }
}
