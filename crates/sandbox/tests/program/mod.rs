//! A program on disk with a neighbour that must not be reached, and the file tools over it.

use llm_do_core::{
    authority::{
        Access, Authority, Bounds, Extent, Mount, Narrowing, Network, Place, Protection, View, VirtualPath,
    },
    function::{Implementation, Leaf, LeafCall, Preview},
    shared::Results,
    toolsets::filesystem::Filesystem,
};
use llm_do_sandbox::{NativeFileSystem, place_of};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};
use tempfile::TempDir;

/// Content that must never leave its file, nor change.
pub(crate) const CANARY: &str = "CANARY-7f3a: outside of every mount";

/// A project folder `project` beside a folder `outside`.
pub(crate) struct Program {
    _dir: TempDir,
    pub(crate) top: PathBuf,
    pub(crate) authority: Arc<Authority>,
    pub(crate) files: NativeFileSystem,
}

#[allow(dead_code, reason = "each test file uses its part")]
impl Program {
    /// Creates a project whose root is mounted for writing at `/`.
    pub(crate) fn new() -> Self {
        Self::with(|project| vec![Mount::new(VirtualPath::root(), project.clone(), Access::Write)])
    }

    /// Creates a project with these mounts.
    pub(crate) fn with(mounts: impl FnOnce(&Place) -> Vec<Mount>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir_all(top.join("project/notes")).unwrap();
        fs::create_dir_all(top.join("outside/etc")).unwrap();
        fs::write(top.join("project/notes/plan.md"), "The plan\n").unwrap();
        fs::write(top.join("project/main.worker"), "---\nname: main\n---\nProtected\n").unwrap();
        fs::write(top.join("project/.env"), "SECRET=hunter2\n").unwrap();
        fs::write(top.join("outside/canary.txt"), CANARY).unwrap();
        fs::write(top.join("outside/etc/passwd"), CANARY).unwrap();
        let project = place_of(&top.join("project")).unwrap();
        let mounts = mounts(&project);
        let extents = [Extent { place: project.clone(), access: Access::Write }]
            .into_iter()
            .chain(mounts.iter().map(|m| Extent { place: m.place.clone(), access: m.access }))
            .collect();
        let protection = Arc::new(Protection::new(project, ["workers".to_owned()]));
        let authority = Authority::new(Bounds::new(extents, Network::Off), View::new(mounts), protection);
        Self { _dir: dir, top, authority: Arc::new(authority), files: NativeFileSystem::new() }
    }

    /// Returns the same program for a worker that asks for `narrowing`.
    pub(crate) fn narrowed(mut self, narrowing: &Narrowing) -> Self {
        self.authority = Arc::new(self.authority.narrow("test", narrowing).unwrap());
        self
    }

    /// Returns a real path in the project.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.top.join("project").join(path)
    }

    pub(crate) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    fn leaf(&self, tool: &str) -> Arc<dyn Leaf> {
        let functions = Filesystem::made_for(&self.authority, None);
        let function = functions.into_iter().find(|f| &*f.meta.name == tool).expect("the tool is offered");
        match function.body {
            Implementation::Leaf(leaf) => leaf,
            Implementation::Composite(_) => panic!("a file tool is a leaf"),
        }
    }

    /// Executes a permitted call as the engine does: locates its paths and runs it.
    pub(crate) async fn call(&self, tool: &str, input: Value) -> Result<Value, String> {
        let leaf = self.leaf(tool);
        let places = leaf
            .effects(&input)
            .touches
            .iter()
            .map(|touch| {
                self.authority.locate(&touch.path, touch.access).map_err(|refusal| refusal.to_string())
            })
            .collect::<Result<Vec<_>, _>>()?;
        let call = LeafCall {
            redact: &llm_do_core::redact::NoSecrets,
            run: "run",
            input: &input,
            places: &places,
            authority: &self.authority,
            files: &self.files,
            results: Results::default(),
            untrusted: &llm_do_core::origin::UntrustedSet::default(),
            idempotency_key: "",
        };
        leaf.run(call).await.map(|output| output.value).map_err(|error| error.message)
    }

    /// Returns the result as text, or the error.
    pub(crate) async fn said(&self, tool: &str, input: Value) -> String {
        match self.call(tool, input).await {
            Ok(Value::String(text)) => text,
            Ok(value) => value.to_string(),
            Err(error) => format!("error: {error}"),
        }
    }

    pub(crate) async fn preview(&self, tool: &str, input: Value) -> Option<Preview> {
        let leaf = self.leaf(tool);
        let touches = leaf.effects(&input).touches;
        let places: Vec<_> =
            touches.iter().map(|touch| self.authority.locate(&touch.path, touch.access).unwrap()).collect();
        let call = LeafCall {
            redact: &llm_do_core::redact::NoSecrets,
            run: "run",
            input: &input,
            places: &places,
            authority: &self.authority,
            files: &self.files,
            results: Results::default(),
            untrusted: &llm_do_core::origin::UntrustedSet::default(),
            idempotency_key: "",
        };
        leaf.preview(call).await
    }

    /// Lists everything below a real folder: names, kinds, contents, targets of links.
    pub(crate) fn snapshot(folder: &Path) -> Vec<String> {
        let mut found = Vec::new();
        let mut left = vec![folder.to_owned()];
        while let Some(path) = left.pop() {
            let meta = fs::symlink_metadata(&path).unwrap();
            let what = if meta.is_dir() {
                left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                "folder".to_owned()
            } else if meta.is_symlink() {
                format!("link to {}", fs::read_link(&path).unwrap().display())
            } else if meta.is_file() {
                format!(
                    "{:?}",
                    fs::read(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap()
                )
            } else {
                "special".to_owned()
            };
            found.push(format!("{}: {what}", path.display()));
        }
        found.sort();
        found
    }

    pub(crate) fn outside(&self) -> Vec<String> {
        Self::snapshot(&self.top.join("outside"))
    }
}
