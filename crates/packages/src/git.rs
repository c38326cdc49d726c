//! Libraries from git repositories, through the `git` command.
//!
//! A repository is a stranger's. It is never checked out: the objects of one commit are read out of a bare clone, so
//! that no hook, filter, attribute, submodule or symbolic link of it does anything, and the bytes are the same whatever
//! the user's configuration says about line ends. That configuration is honoured otherwise (credential helpers,
//! proxies, `insteadOf`, ssh keys), because private repositories are reached by it.

use crate::{
    error::{Error, Message},
    package::File,
};
use llm_do_program::{
    contents::{MOST_BYTES, MOST_FILES, is_left_out},
    source::plain,
};
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    path::Path,
    process::{Child, Command, Stdio},
};

/// The most bytes of git's messages on stderr that are kept, and the most bytes of a commit's listing.
const LONGEST_COMPLAINT: u64 = 16 << 10;
const LONGEST_LISTING: u64 = 16 << 20;
/// The protocols that git may fetch with. None of them runs a command that the address names.
const PROTOCOLS: &str = "https:http:ssh:git:file";
/// Variables by which a git process around this one (a hook, an alias) would redirect ours.
const REDIRECTING: [&str; 16] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_TEMPLATE_DIR",
    "GIT_WORK_TREE",
];

/// The location of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// The repository is on this machine.
    Local,
    /// The repository is on another machine.
    Remote,
}

/// A fetched commit.
pub(crate) struct Fetched {
    pub(crate) files: Vec<File>,
    /// The hash of the commit, in hexadecimal digits.
    pub(crate) commit: String,
}

/// Determines the location of a repository from its URL.
///
/// # Errors
/// The reason why nothing may be fetched from the URL.
pub(crate) fn address(url: &str) -> Result<Address, String> {
    if url.starts_with('-') || url.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err("an address does not begin with `-` and has no spaces".into());
    }
    if let Some((scheme, rest)) = url.split_once("://") {
        let remote = match scheme {
            "https" | "http" | "ssh" | "git" => true,
            "file" => false,
            _ => {
                return Err(format!(
                    "`{scheme}` is not a supported way to fetch it; use https, http, ssh, git or file"
                ));
            }
        };
        let host = rest.split('/').next().unwrap_or_default();
        let (user, host) = host.rsplit_once('@').unwrap_or(("", host));
        if remote && (host.is_empty() || host.starts_with('-')) || user.starts_with('-') {
            return Err("it has no host".into());
        }
        if user.contains(':') {
            return Err(
                "a password in an address would end up in files; leave it to git's credential helper".into(),
            );
        }
        return Ok(if remote { Address::Remote } else { Address::Local });
    }
    // `ext::COMMAND` and its like.
    if url.contains("::") {
        return Err("such an address would run a command".into());
    }
    if url.starts_with(['/', '.']) {
        return Ok(Address::Local);
    }
    // `user@host:path`, as ssh has it.
    match url.split_once(':') {
        Some((host, path))
            if !path.is_empty() && !host.is_empty() && !host.contains('/') && !host.contains("@-") =>
        {
            Ok(Address::Remote)
        }
        _ => Err("a folder is written with `./` or `/` before it".into()),
    }
}

/// Fetches a commit's files. `url` has passed [`address`], and is absolute if it is a folder; `scratch` is an empty
/// folder of our own.
pub(crate) fn fetch(
    url: &str,
    reference: Option<&str>,
    subdir: Option<&str>,
    scratch: &Path,
) -> Result<Fetched, Error> {
    if let Some(reference) = reference.filter(|reference| !is_reference(reference)) {
        return Err(Message::wrong(format!("`{reference}` is not a branch, tag or commit")).into());
    }
    let repository = scratch.join("repository");
    let commit = clone(url, reference, scratch, &repository)?;
    let tree = match subdir {
        None => commit.clone(),
        Some(subdir) => format!("{commit}:{}", plain(subdir).map_err(|_| outside(subdir))?),
    };
    let listing = list(&repository, scratch, &tree)?;
    let Some(listing) = listing else {
        let subdir = subdir.unwrap_or_default();
        return Err(Message::wrong(format!("`{url}` has no folder `{subdir}` at {}", short(&commit))).into());
    };
    let entries = entries(&listing, url)?;
    Ok(Fetched { files: read(&repository, scratch, entries)?, commit })
}

/// Returns the beginning of a commit's hash, as people write it.
pub fn short(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}

fn outside(subdir: &str) -> Error {
    Message::wrong(format!("the subfolder `{subdir}` leads out of the repository")).into()
}

/// Returns true if a text may be a branch, a tag or a commit, and git does not read it as an option or an expression.
fn is_reference(text: &str) -> bool {
    let strange = |c: char| c.is_control() || " ~^:?*[\\".contains(c);
    !text.is_empty()
        && text.len() <= 250
        && !text.starts_with(['-', '/'])
        && !text.contains("..")
        && !text.contains("@{")
        && !text.chars().any(strange)
}

/// Clones as little as possible, and returns the commit.
fn clone(url: &str, reference: Option<&str>, scratch: &Path, into: &Path) -> Result<String, Error> {
    let is_commit =
        |text: &str| (7..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
    let attempt = |branch: Option<&str>, shallow: bool| {
        let mut command = git(scratch);
        command.args(["clone", "--bare", "--quiet", "--no-local", "--template="]);
        if shallow {
            command.args(["--depth=1", "--single-branch"]);
        }
        if let Some(branch) = branch {
            command.arg(format!("--branch={branch}"));
        }
        command.arg("--").arg(url).arg(into);
        run(command)
    };
    // Any commit can be asked for only where all of them are.
    let (branch, shallow) = match reference {
        Some(reference) if is_commit(reference) => (None, false),
        other => (other, true),
    };
    let mut outcome = attempt(branch, shallow)?;
    if shallow && outcome.as_ref().is_err_and(|said| said.contains("shallow")) {
        outcome = attempt(branch, false)?;
    }
    if let Err(said) = outcome {
        let what = reference.map(|reference| format!(" at `{reference}`")).unwrap_or_default();
        return Err(Message::failed(format!("git cannot fetch `{url}`{what}: {said}")).into());
    }
    let wanted = if branch.is_some() { "HEAD" } else { reference.unwrap_or("HEAD") };
    let mut command = git(scratch);
    command.arg("--git-dir").arg(into);
    command.args(["rev-parse", "--verify", "--quiet"]).arg(format!("{wanted}^{{commit}}"));
    let commit = output(command, 1000)?.unwrap_or_default();
    let commit = String::from_utf8_lossy(&commit).trim().to_owned();
    if commit.len() < 40 || !commit.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(Message::wrong(match reference {
            Some(reference) => format!("`{url}` has no commit `{reference}`"),
            None => format!("`{url}` has no commit yet"),
        })
        .into());
    }
    Ok(commit)
}

/// Returns the output of `git ls-tree` for a tree, or `None` if there is no such tree.
fn list(repository: &Path, scratch: &Path, tree: &str) -> Result<Option<Vec<u8>>, Error> {
    let mut command = git(scratch);
    command.arg("--git-dir").arg(repository);
    command.args(["ls-tree", "-r", "-z", "-l", "--full-tree", tree]);
    output(command, LONGEST_LISTING)
}

/// A file of a commit.
struct Entry {
    path: String,
    object: String,
    size: u64,
    executable: bool,
}

fn entries(listing: &[u8], url: &str) -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::new();
    let mut bytes = 0_u64;
    for line in listing.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
        let odd = || Message::failed(format!("git lists something odd in `{url}`"));
        let tab = line.iter().position(|byte| *byte == b'\t').ok_or_else(odd)?;
        let facts = String::from_utf8_lossy(&line[..tab]).into_owned();
        let Ok(path) = std::str::from_utf8(&line[tab + 1..]) else {
            let path = String::from_utf8_lossy(&line[tab + 1..]);
            return Err(refused(url, &path, "its name is not UTF-8"));
        };
        if path.split('/').any(is_left_out) {
            continue;
        }
        let mut facts = facts.split_whitespace();
        let (Some(mode), Some(_), Some(object), Some(size)) =
            (facts.next(), facts.next(), facts.next(), facts.next())
        else {
            return Err(odd().into());
        };
        match mode {
            "120000" => return Err(refused(url, path, "it is a symbolic link")),
            "160000" => return Err(refused(url, path, "it is a submodule")),
            mode if mode.starts_with("100") => {}
            _ => return Err(refused(url, path, "it is not a regular file")),
        }
        let size: u64 = size.parse().map_err(|_| odd())?;
        bytes = bytes.saturating_add(size);
        if entries.len() == MOST_FILES || bytes > MOST_BYTES {
            return Err(Message::wrong(format!(
                "`{url}` is too large for a library: at most {MOST_FILES} files and {} MiB",
                MOST_BYTES >> 20
            ))
            .hint("name the library's folder: git+URL#FOLDER")
            .into());
        }
        entries.push(Entry {
            path: path.to_owned(),
            object: object.to_owned(),
            size,
            executable: mode == "100755",
        });
    }
    Ok(entries)
}

fn refused(url: &str, path: &str, why: &str) -> Error {
    Message::wrong(format!(
        "`{path}` in `{url}` cannot be installed: {why}; a library holds regular files only"
    ))
    .into()
}

/// Reads the objects, one after another, each with exactly the listed length.
fn read(repository: &Path, scratch: &Path, entries: Vec<Entry>) -> Result<Vec<File>, Error> {
    let mut command = git(scratch);
    command.arg("--git-dir").arg(repository).args(["cat-file", "--batch"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = Running(command.spawn().map_err(|error| not_started(&error))?);
    let broken = || Error::from(Message::failed("git cannot read the fetched files"));
    let mut ask = child.0.stdin.take().ok_or_else(broken)?;
    let mut answers = BufReader::new(child.0.stdout.take().ok_or_else(broken)?);
    let mut files = Vec::new();
    for entry in entries {
        writeln!(ask, "{}", entry.object).and_then(|()| ask.flush()).map_err(|_| broken())?;
        let mut line = Vec::new();
        answers.by_ref().take(200).read_until(b'\n', &mut line).map_err(|_| broken())?;
        if line != format!("{} blob {}\n", entry.object, entry.size).as_bytes() {
            return Err(broken());
        }
        let mut bytes = vec![0; entry.size as usize];
        answers.read_exact(&mut bytes).map_err(|_| broken())?;
        answers.read_exact(&mut [0]).map_err(|_| broken())?;
        files.push(File { path: entry.path, bytes, executable: entry.executable });
    }
    Ok(files)
}

/// Returns the `git` command with settings that make it quiet, keep it from asking, and run no code of the repository.
fn git(scratch: &Path) -> Command {
    let mut command = Command::new("git");
    for setting in [
        "core.hooksPath=/dev/null",
        "core.fsmonitor=false",
        "protocol.ext.allow=never",
        "gc.auto=0",
        "maintenance.auto=false",
        "submodule.recurse=false",
    ] {
        command.args(["-c", setting]);
    }
    for name in REDIRECTING {
        command.env_remove(name);
    }
    command.env("GIT_ALLOW_PROTOCOL", PROTOCOLS).env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C");
    ends_with_us(&mut command);
    // Not in the user's folder: what surrounds the command must not count.
    command.current_dir(scratch).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Makes git end with this process. Otherwise the fetch would continue to write, or wait for its host forever.
#[cfg(target_os = "linux")]
fn ends_with_us(command: &mut Command) {
    use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
    use std::os::unix::process::CommandExt;
    let us = getpid();
    // SAFETY: between fork and exec only these system calls are made.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::TERM))?;
            // We may have ended before it was asked for.
            if getppid() == Some(us) { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
        });
    }
}

/// Does nothing, because other kernels have no such setting.
#[cfg(not(target_os = "linux"))]
fn ends_with_us(_: &mut Command) {}

/// Runs the command to its end. `Err` contains git's message.
fn run(mut command: Command) -> Result<Result<(), String>, Error> {
    command.stderr(Stdio::piped());
    let mut child = Running(command.spawn().map_err(|error| not_started(&error))?);
    let mut said = Vec::new();
    if let Some(mut stderr) = child.0.stderr.take() {
        // Longer output is read and dropped, so that git does not wait.
        let _ = stderr.by_ref().take(LONGEST_COMPLAINT).read_to_end(&mut said);
        let _ = io::copy(&mut stderr, &mut io::sink());
    }
    let status =
        child.0.wait().map_err(|error| Message::failed(format!("git cannot be waited for: {error}")))?;
    if status.success() {
        return Ok(Ok(()));
    }
    let said = String::from_utf8_lossy(&said);
    let said = said.lines().map(|line| line.trim().trim_start_matches("fatal: "));
    let said: Vec<&str> = said.filter(|line| !line.is_empty()).collect();
    Ok(Err(if said.is_empty() { format!("it ended with {status}") } else { said.join("; ") }))
}

/// Returns the output of a command, at most `limit` bytes; `None` if the command fails.
fn output(mut command: Command, limit: u64) -> Result<Option<Vec<u8>>, Error> {
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = Running(command.spawn().map_err(|error| not_started(&error))?);
    let mut out = Vec::new();
    if let Some(stdout) = child.0.stdout.take() {
        let read = stdout.take(limit + 1).read_to_end(&mut out);
        read.map_err(|error| Message::failed(format!("git cannot be read from: {error}")))?;
    }
    if out.len() as u64 > limit {
        return Err(Message::wrong("the repository has too many files for a library")
            .hint("name the library's folder: git+URL#FOLDER")
            .into());
    }
    let status =
        child.0.wait().map_err(|error| Message::failed(format!("git cannot be waited for: {error}")))?;
    Ok(status.success().then_some(out))
}

fn not_started(error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Message::failed("the command `git` is not installed")
            .hint("install git, or install the library from a folder: `llm-do lib install PATH`")
            .into(),
        _ => Message::failed(format!("git cannot be started: {error}")).into(),
    }
}

/// A process that is killed when its handle is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Neither fails for a process that has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_runs_no_command() {
        for url in ["https://h/x", "ssh://git@h:22/x", "git@host:team/x.git", "git://h/x", "http://h/x"] {
            assert_eq!(address(url), Ok(Address::Remote), "{url}");
        }
        for url in ["/srv/x", "./x", "../x", "file:///srv/x"] {
            assert_eq!(address(url), Ok(Address::Local), "{url}");
        }
        for url in [
            "ext::sh -c touch% x",
            "ext::x",
            "fd::17",
            "--upload-pack=x",
            "-x",
            "ext://x",
            "javascript://x",
            "x",
            "https://user:secret@h/x",
            "ssh://-oProxyCommand=x/y",
            "ssh://-o@h/y",
            "a b",
            "host:",
            "",
            "transport::./x",
            "./x::y",
            "https:///x",
            "git@-oProxyCommand=x:y",
        ] {
            assert!(address(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_reference_is_no_expression() {
        for reference in ["main", "v1.2", "feature/x", "0123abc"] {
            assert!(is_reference(reference), "{reference}");
        }
        for reference in ["", "-x", "--all", "a..b", "HEAD~1", "a:b", "x^", "@{u}", "a b", "a\n", "*"] {
            assert!(!is_reference(reference), "{reference}");
        }
    }
}
