//! Runs of files in a folder.
//!
//! The folder is looked at each second. Notifications of the system would need a library with a backend for each system, do
//! not come from network file systems, and do not say when a file is complete.

use super::{Event, Fired, Kind, Trigger, may_pass};
use crate::{service::Service, trigger_settings::Concurrency};
use llm_do::{core::schema::sha256, read_below};
use serde_json::json;
use std::{
    collections::HashMap,
    env,
    fs::{self, Metadata},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, UNIX_EPOCH},
};
use tokio::{task::spawn_blocking, time::sleep};

/// Time between two looks at the folder.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Largest file, in bytes, as for uploads over HTTP.
const LARGEST: u64 = 16 << 20;

/// The absolute path of an existing folder.
///
/// # Errors
/// The path is not absolute, or there is no folder.
pub(super) fn place(path: &Path) -> Result<PathBuf, String> {
    let home = || env::home_dir().ok_or("folder: there is no home directory for `~`");
    let place = match path.strip_prefix("~") {
        Ok(rest) => home()?.join(rest),
        Err(_) => path.to_owned(),
    };
    if !place.is_absolute() {
        return Err(format!("folder: `{}` is not absolute: begin it with / or ~/", path.display()));
    }
    match fs::metadata(&place) {
        Ok(found) if found.is_dir() => Ok(place),
        Ok(_) => Err(format!("folder: {} is no folder", place.display())),
        Err(error) => Err(format!("folder: {}: {error}", place.display())),
    }
}

/// The properties of a file at a look at the folder. A file that differs in one of them is another file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Look {
    bytes: u64,
    modified_ns: u128,
}

impl Look {
    fn at(found: &Metadata) -> Self {
        let modified = found.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Self { bytes: found.len(), modified_ns: modified.unwrap_or_default().as_nanos() }
    }

    fn key(&self, name: &str) -> String {
        let hash = sha256(format!("{name}\0{}\0{}", self.bytes, self.modified_ns).as_bytes());
        format!("file:{}", &hash[..32])
    }
}

/// A file that starts a run.
struct Ready {
    name: String,
    look: Look,
}

/// The files of a folder that have started no run so far, with their properties and the time at which they were first
/// seen with these.
#[derive(Default)]
struct Seen(HashMap<String, (Look, Instant)>);

impl Seen {
    /// Returns the files that have stayed the same for `settled`, oldest first. Links, folders and names that begin
    /// with a dot are left out.
    fn ready(
        &mut self,
        folder: &Path,
        settled: Duration,
        is_known: impl Fn(&str) -> bool,
    ) -> io::Result<Vec<Ready>> {
        let (mut ready, mut now_there) = (Vec::new(), HashMap::new());
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            // It may be gone again.
            let Ok(found) = fs::symlink_metadata(entry.path()) else { continue };
            if name.starts_with('.') || !found.is_file() {
                continue;
            }
            let look = Look::at(&found);
            if is_known(&look.key(&name)) {
                continue;
            }
            let since = match self.0.remove(&name) {
                Some((before, since)) if before == look => since,
                _ => Instant::now(),
            };
            if since.elapsed() >= settled {
                ready.push(Ready { name: name.clone(), look: look.clone() });
            }
            now_there.insert(name, (look, since));
        }
        self.0 = now_there;
        ready.sort_by(|a, b| (a.look.modified_ns, &a.name).cmp(&(b.look.modified_ns, &b.name)));
        Ok(ready)
    }
}

/// The content of a file, or `None` if the file has changed meanwhile.
fn content(folder: &Path, Ready { name, look }: &Ready) -> io::Result<Option<Vec<u8>>> {
    let same = || Ok::<_, io::Error>(Look::at(&fs::symlink_metadata(folder.join(name))?) == *look);
    if !same()? {
        return Ok(None);
    }
    let bytes = read_below(folder, Path::new(name), LARGEST)?;
    Ok((same()? && bytes.len() as u64 == look.bytes).then_some(bytes))
}

/// Starts a run for each file.
pub(super) async fn watch(service: &Service, trigger: &Arc<Trigger>) {
    let Kind::Folder { path, settled, .. } = &trigger.kind else { return };
    let (mut seen, mut said) = (Seen::default(), None);
    loop {
        let (of, folder, settled) = (Arc::clone(trigger), path.clone(), *settled);
        let looking = spawn_blocking(move || {
            let Kind::Folder { files, .. } = &of.kind else { return (seen, Ok(Vec::new())) };
            let ready = seen.ready(&folder, settled, |key| files.has(key));
            (seen, ready)
        });
        let ready = match looking.await {
            Ok((after, ready)) => {
                seen = after;
                ready
            }
            Err(error) => {
                seen = Seen::default();
                Err(io::Error::other(error))
            }
        };
        let problem = match ready {
            Ok(ready) => {
                each(service, trigger, ready).await;
                None
            }
            // The folder may come back.
            Err(error) => Some(format!("cannot read {}: {error}", path.display())),
        };
        if let Some(problem) = problem.as_ref().filter(|problem| said.as_ref() != Some(*problem)) {
            service.log_trigger(trigger, problem.clone());
        }
        said = problem;
        sleep(LOOK_AGAIN).await;
    }
}

/// Starts the runs of these files, until one finds no room.
async fn each(service: &Service, trigger: &Arc<Trigger>, ready: Vec<Ready>) {
    let Kind::Folder { path, files, .. } = &trigger.kind else { return };
    for file in ready {
        if trigger.concurrency == Concurrency::Queue {
            // The folder is the queue, so that it takes no room among the runs.
            service.until_free(trigger).await;
        }
        let key = file.look.key(&file.name);
        let (folder, name, bytes) = (path.clone(), file.name.clone(), file.look.bytes);
        let read = spawn_blocking(move || content(&folder, &file)).await.map_err(io::Error::other);
        let content = match read.and_then(|read| read) {
            Ok(Some(content)) => content,
            // The next look finds it as it is then.
            Ok(None) => continue,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                service.log_trigger(trigger, format!("cannot read {name}: {error}"));
                note(service, trigger, &key);
                continue;
            }
        };
        let fields = json!({"name": name, "bytes": bytes});
        let event = Event { key: key.clone(), fields, file: Some((name.clone(), content)) };
        match service.fire(trigger, event).await {
            Err(error) if may_pass(error.code()) => return,
            Ok(Fired::Started(_) | Fired::Known(_)) => note(service, trigger, &key),
            Ok(Fired::Skipped) | Err(_) => {
                service.log_trigger(trigger, format!("{name} has no run: touch it to try again"));
                note(service, trigger, &key);
            }
        }
        debug_assert!(files.has(&key), "a file is dealt with once");
    }
}

/// Notes that a file has been dealt with.
fn note(service: &Service, trigger: &Trigger, key: &str) {
    let Kind::Folder { files, .. } = &trigger.kind else { return };
    if let Err(error) = files.keep(key) {
        service.log_trigger(trigger, format!("cannot note a file: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(ready: &[Ready]) -> Vec<&str> {
        ready.iter().map(|file| file.name.as_str()).collect()
    }

    #[test]
    fn file_is_ready_when_it_has_stayed_the_same() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.txt");
        fs::write(&file, "half").expect("written");
        let mut seen = Seen::default();
        let mut look = |settled| seen.ready(folder.path(), settled, |_| false).expect("read");
        assert!(look(Duration::from_secs(600)).is_empty(), "it is new");
        assert_eq!(names(&look(Duration::ZERO)), ["a.txt"]);
        fs::write(&file, "half and the rest").expect("written");
        assert!(look(Duration::from_secs(600)).is_empty(), "it is another file now");
        let ready = look(Duration::ZERO);
        assert_eq!(
            content(folder.path(), &ready[0]).expect("read").as_deref(),
            Some(&b"half and the rest"[..])
        );
        fs::write(&file, "more than it was when it was looked at").expect("written");
        assert_eq!(content(folder.path(), &ready[0]).expect("read"), None, "it changes meanwhile");
    }

    #[cfg(unix)]
    #[test]
    fn links_folders_and_hidden_files_start_nothing() {
        let (folder, outside) =
            (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let secret = outside.path().join("secret");
        fs::write(&secret, "secret").expect("written");
        let at = |name: &str| folder.path().join(name);
        std::os::unix::fs::symlink(&secret, at("link.txt")).expect("a link");
        fs::create_dir(at("inner")).expect("a folder");
        fs::write(at(".part"), "half").expect("written");
        let mut seen = Seen::default();
        assert!(seen.ready(folder.path(), Duration::ZERO, |_| false).expect("read").is_empty());
        // One that takes the place of a file after the look.
        fs::write(at("a.txt"), "plain!").expect("written");
        let ready = seen.ready(folder.path(), Duration::ZERO, |_| false).expect("read");
        fs::remove_file(at("a.txt")).expect("removed");
        std::os::unix::fs::symlink(&secret, at("a.txt")).expect("a link");
        assert!(!matches!(content(folder.path(), &ready[0]), Ok(Some(_))));
    }

    #[test]
    fn folder_is_absolute_and_there() {
        assert!(place(Path::new("inbox")).expect_err("relative").contains("not absolute"));
        assert!(place(Path::new("/no/such/folder")).is_err());
    }
}
