//! The definition files of a program, as the front end reads them.
//!
//! The front end reads synchronously and a page's files can't be read so. The tree knows all names, holds the files that
//! were read so far, and remembers which others the front end asked for. [`loaded`] reads these and asks the front end
//! again, until it has everything.

use crate::{
    bridge::Bridge,
    files::path_of,
    message::{Bytes, Done, Effect, EffectError, ErrorKind, FileEntry, FileKind},
};
use llm_do_core::authority::Place;
use llm_do_program::source::{Kind, LARGEST_DEFINITION, RealPlace, SourceError, SourceTree, plain};
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// The most files and folders of a program that are known by name.
const MOST_ENTRIES: u64 = 20_000;

/// The files of a program.
pub(crate) struct PageTree {
    root: Place,
    names: BTreeMap<String, (Kind, u64)>,
    state: Mutex<Held>,
    opened: AtomicU64,
}

#[derive(Default)]
struct Held {
    contents: BTreeMap<String, Result<Vec<u8>, SourceError>>,
    wanted: BTreeSet<String>,
}

impl PageTree {
    /// Lists the files of a program. Nothing is read yet.
    pub(crate) async fn list(bridge: &Bridge, program: &str) -> Result<Arc<Self>, EffectError> {
        let path = program.to_owned();
        let listed = bridge.perform(|id| Effect::List { id, path, deep: true, most: MOST_ENTRIES }).await?;
        if listed.cut {
            let message = format!("the program has more than {MOST_ENTRIES} files and folders");
            return Err(EffectError { kind: ErrorKind::Other, message });
        }
        // Of llm-do's own folder only the files count: a change of the program that was cut off is noted there.
        let path = format!("{program}/.llm-do");
        let own = bridge.perform(|id| Effect::List { id, path, deep: false, most: MOST_ENTRIES }).await;
        let own = own.map(|done| done.entries).unwrap_or_default().into_iter();
        let own = own.map(|entry| FileEntry { path: format!(".llm-do/{}", entry.path), ..entry });
        let names = listed.entries.into_iter().chain(own).filter_map(|entry| {
            let kind = match entry.kind {
                FileKind::File => Kind::File,
                FileKind::Folder => Kind::Folder,
            };
            Some((plain(&entry.path).ok()?, (kind, entry.bytes)))
        });
        Ok(Arc::new(Self {
            root: Place::new(&format!("/{program}")),
            names: names.collect(),
            state: Mutex::default(),
            opened: AtomicU64::new(0),
        }))
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The paths of all files.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, u64)> {
        let files = self.names.iter().filter(|(_, (kind, _))| *kind == Kind::File);
        files.map(|(path, (_, bytes))| (path.as_str(), *bytes))
    }

    /// Returns true if files were asked for that are not read yet.
    pub(crate) fn lacks(&self) -> bool {
        !self.held().wanted.is_empty()
    }

    /// Reads the files that were asked for. Returns false if there were none.
    async fn read_wanted(&self, bridge: &Bridge) -> bool {
        let wanted = mem::take(&mut self.held().wanted);
        if wanted.is_empty() {
            return false;
        }
        let reading = wanted.into_iter().map(|path| async move {
            let whole = path_of(&self.root.join(&path));
            let read = bridge
                .perform(|id| Effect::Read { id, path: whole, from: 0, most: LARGEST_DEFINITION + 1 })
                .await;
            let content = match read {
                Ok(Done { base64, .. }) => {
                    let Bytes(content) = base64.unwrap_or_default();
                    Ok(content)
                }
                Err(EffectError { kind: ErrorKind::Missing, .. }) => Err(SourceError::NotFound),
                Err(EffectError { message, .. }) => Err(SourceError::Io(message)),
            };
            (path, content)
        });
        let read: Vec<_> = futures_util::future::join_all(reading).await;
        self.held().contents.extend(read);
        true
    }
}

/// Calls `read`, which reads definitions of the tree, until all files that it asks for are there. Returns its last result.
pub(crate) async fn loaded<T>(bridge: &Bridge, tree: &Arc<PageTree>, mut read: impl FnMut() -> T) -> T {
    loop {
        let result = read();
        if !tree.read_wanted(bridge).await {
            return result;
        }
    }
}

impl SourceTree for PageTree {
    fn root(&self) -> &Place {
        &self.root
    }

    fn kind(&self, path: &str) -> Result<Option<Kind>, SourceError> {
        let path = plain(path)?;
        if path.is_empty() {
            return Ok(Some(Kind::Folder));
        }
        Ok(self.names.get(&path).map(|(kind, _)| *kind))
    }

    fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, SourceError> {
        let path = plain(path)?;
        match self.names.get(&path) {
            None => return Err(SourceError::NotFound),
            Some((Kind::File, size)) if *size > limit => {
                return Err(SourceError::TooLarge { size: *size, limit });
            }
            Some((Kind::File, _)) => {}
            Some(_) => return Err(SourceError::NotAFile),
        }
        let mut held = self.held();
        match held.contents.get(&path) {
            Some(Ok(content)) if content.len() as u64 > limit => {
                Err(SourceError::TooLarge { size: content.len() as u64, limit })
            }
            Some(content) => {
                self.opened.fetch_add(1, Ordering::Relaxed);
                content.clone()
            }
            None => {
                held.wanted.insert(path);
                Err(SourceError::Io("it is being read".into()))
            }
        }
    }

    fn list(&self, path: &str) -> Result<Vec<(String, Kind)>, SourceError> {
        let path = plain(path)?;
        match self.kind(&path)? {
            Some(Kind::Folder) => {}
            Some(_) => return Err(SourceError::NotAFile),
            None => return Err(SourceError::NotFound),
        }
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        let below = self.names.range(prefix.clone()..).take_while(|(name, _)| name.starts_with(&prefix));
        let own = below.filter_map(|(name, (kind, _))| {
            let rest = &name[prefix.len()..];
            (!rest.is_empty() && !rest.contains('/')).then(|| (rest.to_owned(), *kind))
        });
        Ok(own.collect())
    }

    fn locate(&self, path: &str) -> Result<RealPlace, SourceError> {
        let place = match path.starts_with('/') {
            true => Place::new(path),
            false => Place::new(&format!("{}/{path}", self.root)),
        };
        let kind = match place.rest(&self.root) {
            Some(rest) => self.kind(rest)?,
            None => None,
        };
        Ok(RealPlace { place, kind })
    }

    fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }
}
