//! A Postgres of a test's own: a data folder in a temporary folder, and a socket there.
#![allow(clippy::print_stderr, reason = "a test that skips says so")]

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

/// A server that ends with the test.
pub(crate) struct Postgres {
    folder: tempfile::TempDir,
}

impl Postgres {
    /// Starts a server. `None`: the machine has no Postgres. CI sets `LLM_DO_TEST_POSTGRES`, and then it must have one.
    pub(crate) fn start() -> Option<Self> {
        if programs().is_none() {
            assert!(std::env::var_os("LLM_DO_TEST_POSTGRES").is_none(), "no Postgres is installed");
            eprintln!("skipped: no Postgres is installed");
            return None;
        }
        let folder = tempfile::Builder::new().prefix("pg-").tempdir_in("/tmp").expect("a temporary folder");
        std::os::unix::fs::chown(folder.path(), owner(), owner()).expect("a folder of its user");
        let this = Self { folder };
        let data = this.data();
        let options = ["-U", "owner", "--auth=trust", "--encoding=UTF8", "--locale=C", "-N", "-D"];
        this.run("initdb", options.iter().map(ToString::to_string).chain([data.display().to_string()]));
        this.up();
        Some(this)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn run(&self, program: &str, arguments: impl IntoIterator<Item = String>) -> Output {
        let output = command(program).args(arguments).output().expect("it starts");
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
        output
    }

    /// Starts the server.
    pub(crate) fn up(&self) {
        let folder = self.folder.path().display();
        let options = format!("-k {folder} -c listen_addresses='' -c max_connections=60");
        let log = self.folder.path().join("log").display().to_string();
        let data = self.data().display().to_string();
        let words = ["-D", &data, "-o", &options, "-l", &log, "-w", "start"].map(str::to_owned);
        // The server inherits no pipe that the test would wait for: `-l` sends its output to a file.
        let status = command("pg_ctl").args(words).stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "{}",
            fs::read_to_string(&log).unwrap_or_default()
        );
    }

    /// Ends the server at once, as a crash does.
    pub(crate) fn down(&self) {
        let data = self.data().display().to_string();
        self.run("pg_ctl", ["-D", &data, "-m", "immediate", "-w", "stop"].map(str::to_owned));
    }

    /// The URL for a role.
    pub(crate) fn url(&self, role: &str) -> String {
        let folder = self.folder.path().display().to_string().replace('/', "%2F");
        format!("postgres://{role}@{folder}/postgres")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let data = self.data().display().to_string();
        let words = ["-D", &data, "-m", "immediate", "stop"];
        let _ = command("pg_ctl").args(words).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

/// A command of Postgres, as an ordinary user: the server refuses to run as root.
fn command(program: &str) -> Command {
    let path = programs().expect("it is installed").join(program);
    let mut command = match owner() {
        Some(user) => {
            let mut command = Command::new("setpriv");
            command
                .args([format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".to_owned()])
                .arg(path);
            command
        }
        None => Command::new(path),
    };
    command.current_dir("/").stdin(Stdio::null());
    command
}

/// The folder of Postgres's programs: the newest that Debian has installed, or that of the path.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    folders.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let of_path = std::env::split_paths(&path).collect::<Vec<_>>();
    folders.into_iter().rev().chain(of_path).find(|folder| folder.join("initdb").exists())
}

/// The user that owns the server if the test runs as root.
fn owner() -> Option<u32> {
    // SAFETY: the call has no conditions.
    (unsafe { libc::geteuid() } == 0).then_some(65534)
}
