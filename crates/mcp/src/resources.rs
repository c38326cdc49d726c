//! The resources of servers as files below `/mcp` (`docs/reference/mcp.md`).

use crate::{pool::Live, tool::WorkersServer};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use llm_do_core::{
    authority::{Located, Refusal, VirtualPath},
    schema::sha256,
    send::{BoxFuture, MaybeSend},
    vfs::{Entry, EntryKind, FileSystem, FsError},
};
use rmcp::model::ResourceContents;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The folder in which each server's resources are.
pub(crate) const FOLDER: &str = "mcp";

/// Longest name of a file, in bytes.
const LONGEST_NAME: usize = 255;

/// The part of a longer name that stays readable before its hash, in bytes.
const READABLE: usize = 200;

/// A resource as a server lists it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Listed {
    uri: String,
    /// The size in bytes, if the server states it.
    size: Option<u64>,
}

/// The servers whose resources the workers of all runs see, by the key of their place.
#[derive(Default)]
pub(crate) struct Resources {
    servers: Mutex<HashMap<String, Arc<WorkersServer>>>,
}

impl Resources {
    fn servers(&self) -> MutexGuard<'_, HashMap<String, Arc<WorkersServer>>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves the resources of a server under that key.
    pub(crate) fn serve(&self, key: &str, server: impl FnOnce() -> WorkersServer) {
        self.servers().entry(key.to_owned()).or_insert_with(|| Arc::new(server()));
    }

    /// Forgets the servers of a run.
    pub(crate) fn end(&self, run: &str) {
        self.servers().retain(|_, server| *server.run != *run);
    }

    /// Returns the server that serves a place, started if it does not run yet.
    async fn reach(&self, at: &Located) -> Result<Reached, FsError> {
        let place = at.place();
        let key = place.server().map(|served| served.key).unwrap_or_default();
        let server = self.servers().get(key).map(Arc::clone);
        let Some(server) = server else {
            return Err(failed(at, "its MCP server is not known in this process".to_owned()));
        };
        let unusable = |reason: String| failed(at, format!("the MCP server `{}`: {reason}", server.name));
        let live = server.live().await.map_err(unusable)?;
        Ok(Reached { server, live })
    }
}

/// A server that runs.
struct Reached {
    server: Arc<WorkersServer>,
    live: Arc<Live>,
}

impl Reached {
    fn failed(&self, at: &Located, reason: impl std::fmt::Display) -> FsError {
        failed(at, format!("the MCP server `{}`: {reason}", self.server.name))
    }

    /// Requests all resources from the server, and remembers them.
    async fn list(&self, at: &Located) -> Result<Arc<[Listed]>, FsError> {
        let resources = self.live.connection.resources(self.server.server.patience()).await;
        let resources = resources.map_err(|reason| self.failed(at, reason))?;
        let mut listed: Vec<Listed> = Vec::with_capacity(resources.len());
        for resource in resources {
            let resource = Listed { uri: resource.uri, size: resource.size };
            listed.push(resource);
        }
        listed.sort_by(|a, b| a.uri.cmp(&b.uri));
        listed.dedup_by(|a, b| a.uri == b.uri);
        let listed: Arc<[Listed]> = listed.into();
        self.live.remember_resources(Arc::clone(&listed));
        Ok(listed)
    }

    /// Returns the resource of that name, if the server lists one.
    async fn find(&self, at: &Located, name: &str) -> Result<Option<Listed>, FsError> {
        let found = |all: &[Listed]| all.iter().find(|resource| file_name(&resource.uri) == name).cloned();
        match found(&self.live.resources()) {
            Some(resource) => Ok(Some(resource)),
            None => Ok(found(&self.list(at).await?)),
        }
    }
}

/// Returns the name of a place below the folder of its server; empty for the folder itself.
fn name(at: &Located) -> String {
    at.place().server().map(|served| served.rest.to_owned()).unwrap_or_default()
}

fn failed(at: &Located, reason: String) -> FsError {
    FsError::Io { path: at.path.clone(), reason }
}

/// Returns the file name of a resource: its URI in percent-encoding; of a long one, the beginning and a hash. Different
/// URIs have different names.
pub(crate) fn file_name(uri: &str) -> String {
    let mut name = String::with_capacity(uri.len() + 16);
    for (at, byte) in uri.bytes().enumerate() {
        match byte {
            // A name that begins with a dot may have a meaning of its own.
            b'.' if at == 0 => name.push_str("%2E"),
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => name.push(byte.into()),
            byte => name.push_str(&format!("%{byte:02X}")),
        }
    }
    if !name.is_empty() && name.len() <= LONGEST_NAME {
        return name;
    }
    // No encoded URI has a `+`.
    name.truncate(READABLE);
    format!("{name}+{}", &sha256(uri.as_bytes())[..16])
}

/// Returns the content of a resource.
///
/// # Errors
/// The resource has no content that a file could have.
fn content(parts: Vec<ResourceContents>) -> Result<Vec<u8>, String> {
    let several = parts.len() > 1;
    let mut content = Vec::new();
    for part in parts {
        match part {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                if several {
                    content.extend_from_slice(format!("{uri}:\n").as_bytes());
                }
                content.extend_from_slice(text.as_bytes());
                if several && !text.ends_with('\n') {
                    content.push(b'\n');
                }
            }
            ResourceContents::BlobResourceContents { .. } if several => {
                return Err("the resource has several parts, and not all of them are text".to_owned());
            }
            ResourceContents::BlobResourceContents { blob, .. } => {
                content = STANDARD
                    .decode(blob)
                    .map_err(|_| "the content of the resource is not valid Base64".to_owned())?;
            }
            _ => return Err("the content of the resource is of an unknown kind".to_owned()),
        }
    }
    Ok(content)
}

impl FileSystem for Resources {
    fn read<'a>(
        &'a self,
        at: &'a Located,
        offset: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<(Vec<u8>, u64), FsError>> {
        Box::pin(async move {
            let name = name(at);
            if name.is_empty() {
                let path = at.path.clone();
                return Err(FsError::WrongKind { path, is: "a folder", wanted: "a file" });
            }
            let reached = self.reach(at).await?;
            let Some(resource) = reached.find(at, &name).await? else {
                return Err(FsError::NotFound(at.path.clone()));
            };
            let patience = reached.server.server.patience();
            let parts = reached.live.connection.resource(&resource.uri, patience).await;
            let mut content = parts.and_then(content).map_err(|reason| reached.failed(at, reason))?;
            let size = content.len() as u64;
            // Both lie within the content's length, which is a usize.
            let from = offset.min(size) as usize;
            let to = offset.saturating_add(limit).min(size) as usize;
            content.truncate(to);
            content.drain(..from);
            Ok((content, size))
        })
    }

    fn write<'a>(&'a self, at: &'a Located, _: &'a [u8]) -> BoxFuture<'a, Result<(), FsError>> {
        read_only(at)
    }

    fn append<'a>(&'a self, at: &'a Located, _: &'a [u8]) -> BoxFuture<'a, Result<(), FsError>> {
        read_only(at)
    }

    fn delete<'a>(&'a self, at: &'a Located) -> BoxFuture<'a, Result<(), FsError>> {
        read_only(at)
    }

    fn rename<'a>(&'a self, from: &'a Located, _: &'a Located) -> BoxFuture<'a, Result<(), FsError>> {
        read_only(from)
    }

    fn copy<'a>(&'a self, _: &'a Located, to: &'a Located) -> BoxFuture<'a, Result<(), FsError>> {
        read_only(to)
    }

    fn stat<'a>(&'a self, at: &'a Located) -> BoxFuture<'a, Result<Option<Entry>, FsError>> {
        Box::pin(async move {
            let name = name(at);
            if name.is_empty() {
                let path = at.path.clone();
                let folder = Entry { path, kind: EntryKind::Directory, size: Some(0), modified_ms: None };
                return Ok(Some(folder));
            }
            let found = self.reach(at).await?.find(at, &name).await?;
            Ok(found.map(|resource| entry(at.path.clone(), &resource)))
        })
    }

    fn walk<'a>(&'a self, at: &'a Located, limit: usize) -> BoxFuture<'a, Result<Vec<Entry>, FsError>> {
        Box::pin(async move {
            let name = name(at);
            let reached = self.reach(at).await?;
            if !name.is_empty() {
                let found = reached.find(at, &name).await?;
                return Ok(found.map(|resource| entry(at.path.clone(), &resource)).into_iter().collect());
            }
            let listed = reached.list(at).await?;
            let mut entries: Vec<Entry> = listed
                .iter()
                .map(|resource| entry(at.path.join(&file_name(&resource.uri)), resource))
                .collect();
            entries.sort_by(|a, b| a.path.cmp(&b.path));
            entries.truncate(limit);
            Ok(entries)
        })
    }

    fn make_directory<'a>(&'a self, at: &'a Located) -> BoxFuture<'a, Result<(), FsError>> {
        read_only(at)
    }
}

fn entry(path: VirtualPath, resource: &Listed) -> Entry {
    Entry { path, kind: EntryKind::File, size: resource.size, modified_ms: None }
}

fn read_only<'a, T: MaybeSend + 'a>(at: &Located) -> BoxFuture<'a, Result<T, FsError>> {
    let reason = "resources of a server can only be read".to_owned();
    let refusal = Refusal::ReadOnly { path: at.path.to_string(), reason };
    Box::pin(async move { Err(FsError::Refused(refusal)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::HashSet;

    #[test]
    fn every_uri_has_a_name_of_its_own_that_is_one_part_of_a_path() {
        assert_eq!(file_name("notes://today/plan.md"), "notes%3A%2F%2Ftoday%2Fplan.md");
        assert_eq!(file_name("file:///a%20b"), "file%3A%2F%2F%2Fa%2520b");
        let long = |end: &str| format!("x:{}{end}", "y".repeat(300));
        let uris = [
            "",
            ".",
            "..",
            "...",
            "/",
            "//",
            "a/..",
            "a/../b",
            "%2E%2E",
            "%2e%2e",
            "\0",
            "a\0b",
            "a\nb",
            "a\\b",
            "A:b",
            "a:b",
            "a:b+0000000000000000",
            ".env",
            ".git",
            "\u{202e}x",
            "é",
            "e\u{301}",
            "a b",
            "a+b",
            "**",
            "{a,b}",
            "x:(y)",
        ];
        let uris: Vec<String> = uris
            .iter()
            .map(ToString::to_string)
            .chain([long(""), long("1"), long("2"), "é".repeat(100), "z".repeat(255), "z".repeat(256)])
            .collect();
        let mut names = HashSet::new();
        for uri in &uris {
            let name = file_name(uri);
            let path = VirtualPath::root().join("mcp/s").join(&name);
            assert_eq!(VirtualPath::parse(path.as_str()).as_ref(), Ok(&path), "{uri:?}");
            assert!(!name.contains('/') && !name.starts_with('.'), "{uri:?} is {name}");
            assert!(names.insert(name), "{uri:?}");
        }
    }

    #[test]
    fn a_resource_is_text_or_one_blob() {
        let of = |parts: serde_json::Value| content(serde_json::from_value(parts).unwrap());
        let text = |text: &str| json!({"uri": "x:y", "text": text});
        let blob = |blob: &str| json!({"uri": "x:z", "blob": blob});
        assert_eq!(of(json!([text("one")])), Ok(b"one".to_vec()));
        assert_eq!(of(json!([blob("AAH/")])), Ok(vec![0, 1, 255]));
        assert_eq!(of(json!([])), Ok(Vec::new()));
        assert_eq!(of(json!([text("one"), text("two\n")])), Ok(b"x:y:\none\nx:y:\ntwo\n".to_vec()));
        assert!(of(json!([blob("%")])).unwrap_err().contains("Base64"));
        assert!(of(json!([text("one"), blob("AAH/")])).unwrap_err().contains("several parts"));
    }
}
