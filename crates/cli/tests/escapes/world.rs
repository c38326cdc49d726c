//! Where an attempt is made: a project, beside what nothing may reach, and how it is noticed that something did.

use crate::attempt::{Escape, Need};
use llm_do_core::{
    authority::{Access, Authority, Bounds, Extent, Mount, Network, Place, Protection, View, VirtualPath},
    function::{Function, Implementation, Leaf, LeafCall},
    results::Results,
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

/// Longest that anything here may take, on a machine that is busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
});

/// Waits for what is done elsewhere, but not for ever.
pub(crate) fn wait<T>(work: impl Future<Output = T>) -> T {
    RUNTIME.block_on(async { tokio::time::timeout(PATIENCE, work).await.expect("it takes too long") })
}

/// A project in `project` beside a folder `outside`.
pub(crate) struct World {
    _dir: TempDir,
    pub(crate) top: PathBuf,
    /// What lies outside, and in what the project hides. Made up anew for each world, so that no probe can know it.
    pub(crate) secret: String,
    /// What the attacker was told, all of it.
    heard: Mutex<String>,
    before: Mutex<Option<Vec<String>>>,
    doors: Doors,
    /// Whether a process was started that could have left others.
    pub(crate) launched: AtomicBool,
    files: NativeFileSystem,
    results: Results,
    /// The tools of the view that was used last: to make them costs more than to use them.
    tools: Mutex<Option<(Arc<Authority>, Vec<Function>)>>,
}

/// Sockets outside that nobody may knock at.
struct Doors {
    tcp: TcpListener,
    udp: UdpSocket,
    hidden: UnixListener,
    name: String,
}

impl World {
    pub(crate) fn new() -> Self {
        // Not below /tmp, which is another folder inside of a process.
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
        let doors = Doors { tcp, udp, hidden, name };
        doors.tcp.set_nonblocking(true).unwrap();
        doors.udp.set_nonblocking(true).unwrap();
        doors.hidden.set_nonblocking(true).unwrap();
        Self {
            _dir: dir,
            top,
            secret,
            heard: Mutex::default(),
            before: Mutex::default(),
            launched: AtomicBool::new(false),
            doors,
            files: NativeFileSystem::new(),
            results: Results::default(),
            tools: Mutex::default(),
        }
    }

    pub(crate) fn outside(&self, rest: &str) -> PathBuf {
        self.top.join("outside").join(rest)
    }

    pub(crate) fn project(&self, rest: &str) -> PathBuf {
        self.top.join("project").join(rest)
    }

    /// Puts a file into the project, with the folders around it.
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
        self.doors.tcp.local_addr().unwrap().port()
    }

    /// The name of a socket outside that no file system holds.
    pub(crate) fn hidden_door(&self) -> &str {
        &self.doors.name
    }

    /// Notes what the attacker was told.
    pub(crate) fn hear(&self, text: impl AsRef<str>) {
        let mut heard = self.heard.lock().unwrap();
        heard.push_str(text.as_ref());
        heard.push('\n');
    }

    /// From here on nothing outside may change. What prepares an attack comes before.
    pub(crate) fn arm(&self) {
        self.before.lock().unwrap().get_or_insert_with(|| self.guarded());
    }

    /// The same anew, after the attempt itself had to change something outside.
    pub(crate) fn rearm(&self) {
        *self.before.lock().unwrap() = Some(self.guarded());
    }

    /// What may not change: all that is outside, and what the project protects. Names, kinds, contents, and the time of the last
    /// change, which tells of modes, owners, attributes, and links as well.
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

    /// The oracles.
    pub(crate) fn nothing_got_out(&self) -> Result<(), Escape> {
        self.nothing_got_out_of_files()?;
        let quiet = |error: std::io::Error| error.kind() == ErrorKind::WouldBlock;
        if !self.doors.tcp.accept().map_or_else(quiet, |_| false) {
            return Err("ESCAPE: somebody connected to a socket outside".into());
        }
        if !self.doors.udp.recv(&mut [0]).map_or_else(quiet, |_| false) {
            return Err("ESCAPE: somebody sent to a socket outside".into());
        }
        if !self.doors.hidden.accept().map_or_else(quiet, |_| false) {
            return Err("ESCAPE: somebody connected to a hidden socket outside".into());
        }
        // To look at all processes costs more than most attempts.
        let launched = self.launched.load(Ordering::Relaxed);
        if launched && !eventually(Duration::from_secs(30), || self.processes().is_empty()) {
            return Err(format!("ESCAPE: processes are left: {:#?}", self.processes()).into());
        }
        Ok(())
    }

    /// Nothing outside has changed, and the secret was not heard.
    pub(crate) fn nothing_got_out_of_files(&self) -> Result<(), Escape> {
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
        let heard = self.heard.lock().unwrap();
        if let Some(at) = heard.find(&self.secret) {
            let around: String =
                heard[..at].chars().rev().take(300).collect::<Vec<_>>().into_iter().rev().collect();
            return Err(format!("ESCAPE: the secret came out after: {around}").into());
        }
        Ok(())
    }

    /// Whether somebody has connected since this was last asked.
    pub(crate) fn was_knocked_at(&self) -> bool {
        self.doors.tcp.accept().is_ok()
    }

    /// Processes of this machine that see this world's folder: by their command, environment, folder or mounts.
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
                // One that has ended and waits to be collected is none any more.
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
        mount.declared = true;
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

    /// What the engine does with a permitted call of a file tool: it locates what is touched, and runs it. The result as text, or
    /// the error; both are heard.
    pub(crate) fn tool(
        &self,
        authority: &Arc<Authority>,
        tool: &str,
        input: &Value,
    ) -> Result<String, String> {
        self.arm();
        let said = wait(self.tool_unheard(authority, tool, input));
        self.hear(said.as_ref().unwrap_or_else(|error| error));
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

    async fn tool_unheard(
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
            input,
            places: &places,
            authority,
            files: &self.files,
            results: &self.results,
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

/// Waits until something is so.
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
    /// Why this machine can't give it. Where tests count, it can.
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
            Self::Git => (!Path::new("/usr/bin/git").exists()).then(|| "there is no /usr/bin/git".into()),
            Self::Corpus => {
                corpus().is_none().then(|| "the list of strings is not beside the checkout".into())
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

/// The lists of strings beside the checkout.
pub(crate) fn corpus() -> Option<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora/path-traversal.txt");
    fs::read_to_string(file).ok()
}

/// Whatever else passes: the oracles see what they are for.
#[test]
fn the_oracles_notice() {
    let escapes = |deed: fn(&World)| {
        let world = World::new();
        world.arm();
        assert!(world.nothing_got_out().is_ok());
        deed(&world);
        world.nothing_got_out().is_err()
    };
    let deeds: [fn(&World); 9] = [
        |world| world.hear(format!("it says {}", world.secret)),
        |world| fs::write(world.outside("canary.txt"), "changed").unwrap(),
        |world| fs::write(world.outside("new"), "").unwrap(),
        |world| fs::remove_file(world.outside("etc/passwd")).unwrap(),
        // Only the time of the change tells.
        |world| fs::hard_link(world.outside("canary.txt"), world.project("rw/link")).unwrap(),
        |world| fs::write(world.project(".git/config"), "[core]\n\tpager = x\n").unwrap(),
        |world| drop(std::net::TcpStream::connect(("127.0.0.1", world.port())).unwrap()),
        |world| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.send_to(b"x", ("127.0.0.1", world.port())).unwrap();
        },
        |world| {
            let door = SocketAddr::from_abstract_name(world.hidden_door()).unwrap();
            drop(std::os::unix::net::UnixStream::connect_addr(&door).unwrap());
        },
    ];
    for (number, deed) in deeds.into_iter().enumerate() {
        assert!(escapes(deed), "deed {number} was not noticed");
    }
    let world = World::new();
    let mut child = std::process::Command::new("sleep").arg("1000").current_dir(&world.top).spawn().unwrap();
    assert!(eventually(PATIENCE, || world.processes().len() == 1), "a process was not noticed");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(world.processes().is_empty());
}
