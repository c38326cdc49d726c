//! Models of the hub, from a loopback server that answers like the hub's API.
#![allow(clippy::unwrap_used)]

use llm_do_inference::{Hub, HubError, HubFile, HubName, NotInstalled, Store};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    sync::{Arc, Mutex},
    thread,
};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// An answer: status, further lines of the head, body.
type Answer = (u16, String, Vec<u8>);

struct Server {
    endpoint: String,
    /// `PATH AUTHORIZATION` of each request.
    asked: Arc<Mutex<Vec<String>>>,
}

/// Starts a server with these answers by path. `ENDPOINT` in a head is replaced by the server's address.
fn serve(answers: BTreeMap<String, Answer>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (own, asked) = (endpoint.clone(), Arc::new(Mutex::new(Vec::new())));
    let seen = asked.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
            let Some(first) = lines.next() else { continue };
            let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
            let (mut token, mut from) = ("-".to_owned(), 0);
            for line in lines.take_while(|line| !line.is_empty()) {
                if let Some((name, value)) = line.split_once(": ") {
                    match name.to_ascii_lowercase().as_str() {
                        "authorization" => token = value.to_owned(),
                        "range" => {
                            let start = value.strip_prefix("bytes=").and_then(|it| it.strip_suffix('-'));
                            from = start.and_then(|it| it.parse().ok()).unwrap_or(0);
                        }
                        _ => {}
                    }
                }
            }
            seen.lock().unwrap().push(format!("{path} {token}"));
            let missing = (404, "x-error-code: RepoNotFound\r\n".to_owned(), Vec::new());
            let (mut status, head, body) = answers.get(&path).cloned().unwrap_or(missing);
            let mut head = head.replace("ENDPOINT", &own);
            let body = &body[from.min(body.len())..];
            if from > 0 {
                status = 206;
                let end = from + body.len();
                head.push_str(&format!("content-range: bytes {from}-{}/{end}\r\n", end - 1));
            }
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 {status} x\r\n{head}content-length: {length}\r\nconnection: close\r\n\r\n"
            );
            let _ = stream.write_all(body);
        }
    });
    Server { endpoint, asked }
}

fn ok(value: &Value) -> Answer {
    (200, String::new(), value.to_string().into_bytes())
}

fn refused(status: u16, head: &str) -> Server {
    serve(BTreeMap::from([("/api/models/a/m".to_owned(), (status, format!("{head}\r\n"), Vec::new()))]))
}

fn weights(name: &str) -> Vec<u8> {
    [b"GGUF", name.as_bytes()].concat().repeat(1000)
}

fn entry(path: &str) -> Value {
    let file = weights(path);
    let hash: String = Sha256::digest(&file).iter().map(|byte| format!("{byte:02x}")).collect();
    json!({"type": "file", "oid": "f00", "path": path, "size": file.len(), "lfs": {"oid": hash, "size": file.len()}})
}

/// Starts a hub with the repository `a/m`, whose list has two pages.
fn hub() -> Server {
    let first = json!([
        {"type": "directory", "path": "big"}, {"type": "file", "path": "README.md", "size": 7},
        entry("m-Q8_0.gguf"), entry("big/m-F16-00001-of-00002.gguf"), entry("big/m-F16-00002-of-00002.gguf"),
    ]);
    let second = json!([entry("m-Q4_K_M.gguf"), entry("other name.gguf")]);
    let tree = format!("/api/models/a/m/tree/{COMMIT}?recursive=true");
    let next = format!("link: <ENDPOINT{tree}&cursor=2>; rel=\"next\"\r\n");
    let mut answers = BTreeMap::from([
        ("/api/models/a/m".into(), ok(&json!({"sha": COMMIT, "tags": ["gguf", "license:apache-2.0"]}))),
        (tree.clone(), (200, next, first.to_string().into_bytes())),
        (format!("{tree}&cursor=2"), ok(&second)),
    ]);
    for path in ["m-Q8_0.gguf", "m-Q4_K_M.gguf"] {
        answers.insert(format!("/a/m/resolve/{COMMIT}/{path}"), (200, String::new(), weights(path)));
    }
    let spaced = format!("/a/m/resolve/{COMMIT}/other%20name.gguf");
    answers.insert(spaced, (200, String::new(), weights("other name.gguf")));
    serve(answers)
}

async fn find(server: &Server, name: &str, token: Option<&str>) -> Result<HubFile, HubError> {
    let hub = Hub::new(&server.endpoint, token.map(str::to_owned)).unwrap();
    hub.find(&name.parse::<HubName>().unwrap(), Some(32_000_000_000)).await
}

#[tokio::test]
async fn a_model_of_the_hub_is_found_pulled_listed_and_removed() {
    let server = hub();
    let file = find(&server, "a/m:q4_k_m", None).await.unwrap();
    assert_eq!((file.name.as_str(), file.path.as_str()), ("a/m:Q4_K_M", "m-Q4_K_M.gguf"));
    assert_eq!((file.licence.as_deref(), file.candidates), (Some("apache-2.0"), 1));
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path().join("models"));
    assert_eq!(store.locate(&file.name), Err(NotInstalled::OnHub("a/m:Q4_K_M".into())));
    // The part that an earlier pull left is not fetched again.
    std::fs::create_dir_all(dir.path().join("models/a/m")).unwrap();
    std::fs::write(dir.path().join("models/a/m/Q4_K_M.gguf.part"), &weights("m-Q4_K_M.gguf")[..5000])
        .unwrap();
    let path = store.pull(&file.download(), |_| {}).await.unwrap();
    assert_eq!(path, dir.path().join("models/a/m/Q4_K_M.gguf"));
    assert!(std::fs::read(&path).unwrap() == weights("m-Q4_K_M.gguf"));
    assert_eq!(store.locate("a/m:Q4_K_M"), Ok(path));
    let listed = store.list().unwrap();
    assert_eq!((listed.len(), listed[0].name.as_str()), (1, "a/m:Q4_K_M"));
    assert_eq!(store.remove("a/m:Q4_K_M").unwrap(), Some(file.size));
    assert!(store.list().unwrap().is_empty());
}

#[tokio::test]
async fn the_best_file_that_fits_is_chosen_among_all_pages() {
    let server = hub();
    // Small models are taken with 8 bits.
    let file = find(&server, "a/m", None).await.unwrap();
    assert_eq!((file.name.as_str(), file.candidates), ("a/m:Q8_0", 3));
    let file = find(&server, "a/m:other name.gguf", None).await.unwrap();
    assert_eq!(file.name, "a/m:other-name");
    let dir = tempfile::tempdir().unwrap();
    Store::new(dir.path()).pull(&file.download(), |_| {}).await.unwrap();
    let has = |error: HubError| match error {
        HubError::NoFile { has, .. } | HubError::Split { has, .. } => {
            has.into_iter().map(|(name, _)| name).collect()
        }
        other => vec![other.to_string()],
    };
    let whole = ["m-Q8_0", "m-Q4_K_M"].map(|name| name.trim_start_matches("m-").to_owned());
    for missing in ["a/m:Q2_K", "a/m:F16"] {
        let names = has(find(&server, missing, None).await.unwrap_err());
        assert!(whole.iter().all(|name| names.contains(name)), "{names:?}");
    }
}

#[tokio::test]
async fn the_token_goes_to_the_hub_and_nowhere_else() {
    let elsewhere = hub();
    let mut answers = BTreeMap::new();
    let tree = format!("/api/models/a/m/tree/{COMMIT}?recursive=true");
    let away = format!("link: <{}/x>; rel=\"next\"\r\n", elsewhere.endpoint);
    answers.insert("/api/models/a/m".to_owned(), ok(&json!({"sha": COMMIT})));
    answers.insert(tree, (200, away, json!([entry("m-Q8_0.gguf")]).to_string().into_bytes()));
    let redirect = format!("location: {}/a/m/resolve/{COMMIT}/m-Q8_0.gguf\r\n", elsewhere.endpoint);
    answers.insert(format!("/a/m/resolve/{COMMIT}/m-Q8_0.gguf"), (302, redirect, Vec::new()));
    let server = serve(answers);
    let file = find(&server, "a/m", Some("hf_secret\n")).await.unwrap();
    assert!(!format!("{file:?}").contains("secret"));
    let dir = tempfile::tempdir().unwrap();
    Store::new(dir.path()).pull(&file.download(), |_| {}).await.unwrap();
    let asked = server.asked.lock().unwrap().clone();
    assert!(asked.iter().all(|line| line.ends_with(" Bearer hf_secret")), "{asked:?}");
    let asked = elsewhere.asked.lock().unwrap().clone();
    assert_eq!(asked, [format!("/a/m/resolve/{COMMIT}/m-Q8_0.gguf -")]);
}

#[tokio::test]
async fn refusals_are_told_apart() {
    let gated = refused(401, "x-error-code: GatedRepo");
    let error = find(&gated, "a/m", None).await.unwrap_err();
    assert!(
        matches!(&error, HubError::Gated { with_token: false, page, .. } if page.ends_with("/a/m")),
        "{error}"
    );
    let error = find(&hub(), "a/nothing", None).await.unwrap_err();
    assert!(matches!(error, HubError::Missing { with_token: false, .. }), "{error}");
    // Without a token, this is the answer for a name that does not exist.
    let error = find(&refused(401, "x: y"), "a/m", None).await.unwrap_err();
    assert!(matches!(error, HubError::Missing { .. }), "{error}");
    let error = find(&refused(401, "x: y"), "a/m", Some("old")).await.unwrap_err();
    assert!(matches!(error, HubError::Token), "{error}");
    let error = find(&refused(429, "retry-after: 60"), "a/m", None).await.unwrap_err();
    assert!(error.to_string().contains("in 60 s"), "{error}");
    let error = find(&refused(500, "x: y"), "a/m", None).await.unwrap_err();
    assert!(matches!(error, HubError::Status(500)), "{error}");
    let closed = "127.0.0.1:1";
    let server = Server { endpoint: format!("http://{closed}"), asked: Arc::default() };
    let error = find(&server, "a/m", None).await.unwrap_err();
    assert!(matches!(&error, HubError::Offline { host, .. } if host == closed), "{error}");
}

#[tokio::test]
async fn another_file_than_the_hub_listed_is_refused() {
    let mut listed = entry("m-Q8_0.gguf");
    listed["lfs"]["oid"] = json!("0".repeat(64));
    let tree = format!("/api/models/a/m/tree/{COMMIT}?recursive=true");
    let mut answers = BTreeMap::from([
        ("/api/models/a/m".to_owned(), ok(&json!({"sha": COMMIT}))),
        (tree, ok(&json!([listed, {"type": "file", "path": "m-Q4_0.gguf", "size": 9}]))),
    ]);
    answers
        .insert(format!("/a/m/resolve/{COMMIT}/m-Q8_0.gguf"), (200, String::new(), weights("m-Q8_0.gguf")));
    let server = serve(answers);
    let file = find(&server, "a/m", None).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path());
    let error = store.pull(&file.download(), |_| {}).await.unwrap_err().to_string();
    assert!(error.contains("gave another file: SHA-256"), "{error}");
    assert!(store.list().unwrap().is_empty());
    let error = find(&server, "a/m:Q4_0", None).await.unwrap_err().to_string();
    assert!(error.contains("states no SHA-256"), "{error}");
}
