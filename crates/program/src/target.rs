//! Resolution of TARGET on the command line: a file, a folder, or a name in the old flat registry. See
//! `docs/guides/projects.md`.

pub use crate::request::Request;
use crate::{
    cancel::Cancel,
    diagnostics::{Diagnostic, Diagnostics, codes},
    homes,
    library::DiskLibraries,
    load_options::LoadOptions,
    manifest::{MANIFESTS, Manifest, is_project},
    manifest_names::{OLDER, older_manifest},
    older_forms::OlderForms,
    resolve::{Layout, is_cases, without_extension},
    source::{DiskTree, SourceError},
    start::{Source, Start},
};
use llm_do_core::{authority::Place, toolset::ToolsetRegistry, worker::GivenLimits};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The environment of a command line.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The current directory, absolute.
    pub here: PathBuf,
    /// The home directory.
    pub home: Option<PathBuf>,
    /// `LLM_DO_PROJECT`.
    pub project: Option<PathBuf>,
    /// `LLM_DO_PATH`: folders separated by colons.
    pub registry: Option<String>,
    /// `LLM_DO_LIBS`: roots of libraries separated by colons.
    pub libraries: Option<String>,
    /// The value of `LLM_DO_HOME`; if it is not set, `.llm-do` in the home directory is used.
    pub own: Option<PathBuf>,
}

impl Request {
    /// Returns the options for loading a program, from this command line and its environment.
    pub fn host(
        &self,
        around: &Surroundings,
        toolsets: ToolsetRegistry,
        providers: Vec<String>,
        older_forms: Arc<dyn OlderForms>,
    ) -> LoadOptions {
        LoadOptions {
            toolsets,
            providers,
            libraries: Arc::new(DiskLibraries { roots: library_roots(&self.libraries, around) }),
            limits: GivenLimits::default(),
            import_tools: !self.no_import_tools,
            module_imports: self.module_imports,
            code: None,
            older_forms: Some(older_forms),
            homes: homes::of(around.home.as_deref()),
            cancel: Cancel::default(),
        }
    }
}

/// Returns the roots of installed libraries, in search order: `--lib`, then `LLM_DO_LIBS`. If it is not set, `libs` in
/// llm-do's own folder is used (`docs/guides/libraries.md`). The first root is the place for installing libraries.
pub fn library_roots(first: &[PathBuf], around: &Surroundings) -> Vec<PathBuf> {
    let listed: Vec<PathBuf> = match &around.libraries {
        Some(list) => list.split(':').filter(|part| !part.is_empty()).map(PathBuf::from).collect(),
        None => own(around).map(|own| own.join("libs")).into_iter().collect(),
    };
    first.iter().chain(&listed).map(|root| around.here.join(root)).collect()
}

/// Returns llm-do's own folder: `LLM_DO_HOME`, or `.llm-do` in the home directory.
fn own(around: &Surroundings) -> Option<PathBuf> {
    around.own.clone().or_else(|| Some(around.home.as_ref()?.join(".llm-do")))
}

/// A resolved target.
pub struct Target {
    /// The program to load.
    pub source: Source,
    /// The plain message among the positionals.
    pub message: Option<String>,
    /// Warnings.
    pub warnings: Vec<Diagnostic>,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target")
            .field("root", self.source.tree.root())
            .field("start", &self.source.start)
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}

/// Finds the program that a command line selects.
///
/// # Errors
/// A target that does not exist, with the names that were tried, or flags that contradict each other.
pub fn find(request: &Request, around: &Surroundings) -> Result<Target, Diagnostics> {
    let (target, message, project) = words(request, around);
    let absolute = |path: &Path| around.here.join(path);
    let mut warnings = Vec::new();
    if let Some(missing) = request.libraries.iter().find(|root| !absolute(root).is_dir()) {
        let message = format!("`--lib` names `{}`, which is not a folder", missing.display());
        return Err(Diagnostic::error(codes::MISSING_ROOT, message).into());
    }
    let source = match (target, project) {
        (None, Some(project)) => folder(&absolute(&project), request)?,
        (None, None) => folder(&around.here, request)?,
        (Some(target), project) => {
            let path = absolute(Path::new(&target));
            let named = without_extension(&target).is_some();
            let exists = fs::metadata(&path);
            match (exists, project) {
                (Ok(metadata), None) if metadata.is_dir() => folder(&path, request)?,
                (Ok(metadata), Some(project)) if metadata.is_dir() => {
                    return Err(contradiction(&format!(
                        "the target `{target}` is a folder, but `--project {}` names another",
                        project.display()
                    )));
                }
                (Ok(_), None) if is_manifest(&path) => {
                    folder(path.parent().unwrap_or(&around.here), request)?
                }
                (Ok(metadata), project) if metadata.is_file() && named => {
                    file(&path, project.map(|p| absolute(&p)).as_deref(), request, around)?
                }
                (Ok(metadata), _) if metadata.is_file() && is_cases(&target) => {
                    return Err(no_target(format!("`{target}` contains test cases, and is not a worker"))
                        .help("name the file of the worker that the cases test")
                        .into());
                }
                (Ok(_), _) if target.contains('/') => {
                    return Err(no_target(format!("`{target}` is neither a worker file nor a folder"))
                        .help("worker files end in `.worker`, `.yaml` or `.yml`")
                        .into());
                }
                (_, Some(project)) => {
                    return Err(no_target(format!("`{target}` does not exist"))
                        .help(format!(
                            "to start with a worker of the project: `--project {} --entry {target}`",
                            project.display()
                        ))
                        .into());
                }
                (Err(_), None) if request.positionals.len() == 1 && reads_like_a_message(&target) => {
                    return Err(message_without_target(&target, around).into());
                }
                (_, None) if named || target.contains('/') => {
                    let missing = no_target(format!("`{target}` does not exist"));
                    return Err(missing
                        .did_you_mean(&target, names_here(around).iter().map(String::as_str))
                        .into());
                }
                (_, None) if let Some(source) = named_here(&target, request, around)? => source,
                (exists, None) => {
                    let found = match registered(&target, request, around) {
                        Err(_) if exists.is_ok() => {
                            return Err(no_target(format!(
                                "`{target}` is neither a worker file nor a folder"
                            ))
                            .help("worker files end in `.worker`, `.yaml` or `.yml`")
                            .help(format!(
                                "to give a worker this file, name the worker first and attach `{target}`"
                            ))
                            .into());
                        }
                        found => found?,
                    };
                    warnings.push(
                        Diagnostic::warning(
                            codes::DEPRECATED_REGISTRY,
                            format!("`{target}` was found in the flat registry, which is deprecated"),
                        )
                        .note(format!("the file is {}", found.display()))
                        .help("use the path of the file, or convert the registry to a project with `llm-do migrate`"),
                    );
                    file(&found, None, request, around)?
                }
            }
        }
    };
    Ok(Target { source, message, warnings })
}

/// Splits the positionals into target and message. Also returns the project's folder if it is given separately.
fn words(request: &Request, around: &Surroundings) -> (Option<String>, Option<String>, Option<PathBuf>) {
    let project = request.project.clone();
    match (request.positionals.as_slice(), &project, &around.project) {
        ([], None, Some(default)) => (None, None, Some(default.clone())),
        ([], ..) => (None, None, project),
        ([message], Some(_), _) => (None, Some(message.clone()), project),
        ([word], None, Some(default)) if !around.here.join(word).exists() => {
            (None, Some(word.clone()), Some(default.clone()))
        }
        ([target], ..) => (Some(target.clone()), None, None),
        ([target, message, ..], ..) => (Some(target.clone()), Some(message.clone()), project),
    }
}

/// Returns true if a target is a manifest, which selects its project. A manifest of an older form does too, because it
/// is not a worker.
fn is_manifest(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    let older = |folder: &Path| older_manifest(&DiskTree::open(folder).ok()?);
    MANIFESTS.contains(&name) || OLDER.contains(&name) && path.parent().and_then(older) == Some(name)
}

fn no_target(message: String) -> Diagnostic {
    Diagnostic::error(codes::NO_TARGET, message)
}

/// Returns true if a word of the command line has white space inside, as messages have. Few names have.
fn reads_like_a_message(word: &str) -> bool {
    word.trim().contains(char::is_whitespace)
}

/// Returns the error for a message in the place of the target, with the command that the user probably meant.
fn message_without_target(message: &str, around: &Surroundings) -> Diagnostic {
    let words = in_shell_quotes(message);
    let way_out = match nearest_project(&around.here, around) {
        Some(root) if fs::canonicalize(&around.here).is_ok_and(|here| here == root) => {
            format!("to give it to the project in this folder: `llm-do . {words}`")
        }
        Some(root) => {
            let root = in_shell_quotes(&root.display().to_string());
            format!("to give it to the project around this folder: `llm-do {root} {words}`")
        }
        None => format!("to ask a model without a worker: `llm-do ask {words}`"),
    };
    no_target(format!(
        "there is no target: `{message}` reads like a message, and names no file, folder or worker"
    ))
    .help(way_out)
}

/// Quotes a text as one word of a shell. Plain words stay unchanged.
fn in_shell_quotes(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    match text.contains(['"', '$', '`', '\\', '!']) {
        true => format!("'{}'", text.replace('\'', "'\\''")),
        false => format!("\"{text}\""),
    }
}

fn contradiction(message: &str) -> Diagnostics {
    Diagnostic::error(codes::CONFLICT, message).into()
}

fn folder(path: &Path, request: &Request) -> Result<Source, Diagnostics> {
    if request.no_project {
        return Err(contradiction("`--no-project` runs a worker file, but the target is a folder"));
    }
    let tree = open(path)?;
    Ok(Source {
        tree: Arc::new(tree),
        start: Start::Entry(request.entry.clone()),
        manifest: true,
        work: None,
    })
}

fn file(
    path: &Path,
    project: Option<&Path>,
    request: &Request,
    around: &Surroundings,
) -> Result<Source, Diagnostics> {
    if let Some(entry) = &request.entry {
        return Err(contradiction(&format!(
            "the target is a worker file, but `--entry {entry}` names another"
        )));
    }
    let shown = path.display();
    // The real place of the file determines its project.
    let path = fs::canonicalize(path)
        .map_err(|error| no_target(format!("`{shown}` cannot be read: {}", SourceError::from(error))))?;
    let own = path.parent().unwrap_or(Path::new("/"));
    let (root, manifest) = match (project, request.no_project) {
        (Some(_), true) => {
            return Err(contradiction("`--project` and `--no-project` cannot be used together"));
        }
        (None, true) => (workers_parent(own).unwrap_or(own).to_owned(), false),
        (Some(project), false) => {
            let root = fs::canonicalize(project).map_err(|error| {
                let reason = SourceError::from(error);
                no_target(format!("the project `{}` cannot be opened: {reason}", project.display()))
            })?;
            (root, true)
        }
        (None, false) => match project_of(own, around) {
            Some(root) => (root, true),
            None => (workers_parent(own).unwrap_or(own).to_owned(), false),
        },
    };
    let Ok(relative) = path.strip_prefix(&root) else {
        return Err(Diagnostic::error(
            codes::ESCAPES_ROOT,
            format!("`{shown}` is not in the project `{}`", root.display()),
        )
        .into());
    };
    let relative = relative.to_str().ok_or_else(|| no_target(format!("the path `{shown}` is not UTF-8")))?;
    let work = if manifest { None } else { Some(place(&around.here)?) };
    Ok(Source { tree: Arc::new(open(&root)?), start: Start::File(relative.to_owned()), manifest, work })
}

/// Returns the project of a folder: the folder itself or the nearest one above it, with the same limits as a run.
pub fn nearest_project(folder: &Path, around: &Surroundings) -> Option<PathBuf> {
    project_of(&fs::canonicalize(folder).ok()?, around)
}

/// Returns the folder of the program that a worker file belongs to, whether it is started as a part of a project or alone.
pub fn folder_of_file(file: &Path, around: &Surroundings) -> PathBuf {
    let own = file.parent().unwrap_or(Path::new("/"));
    project_of(own, around).unwrap_or_else(|| workers_parent(own).unwrap_or(own).to_owned())
}

/// Returns the nearest folder at or above `folder` that is a project. The search stops at the git root or the home
/// directory, and at a folder that anyone may write to: a project in `/tmp` must not adopt the folders below it.
fn project_of(folder: &Path, around: &Surroundings) -> Option<PathBuf> {
    let home = around.home.as_deref().and_then(|home| fs::canonicalize(home).ok());
    for ancestor in folder.ancestors() {
        // A shared folder like `/tmp` has files of many users, so it is not a project even for a file directly in it.
        let shared = if ancestor == folder { 0o1002 } else { 0o002 };
        if has_mode(ancestor, shared) {
            return None;
        }
        if DiskTree::open(ancestor).is_ok_and(|tree| is_project(&tree)) {
            return Some(ancestor.to_owned());
        }
        if ancestor.join(".git").exists() || Some(ancestor) == home.as_deref() {
            return None;
        }
    }
    None
}

/// Returns true if a folder has all of these mode bits, or if its mode can't be read.
#[cfg(unix)]
fn has_mode(folder: &Path, bits: u32) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(folder).map_or(true, |metadata| metadata.permissions().mode() & bits == bits)
}

#[cfg(not(unix))]
fn has_mode(_: &Path, _: u32) -> bool {
    false
}

/// Finds the worker of that name near the user: a file in the current directory, or a worker of the project around it.
/// Does not scan: the candidates are those of any reference to a worker.
fn named_here(name: &str, request: &Request, around: &Surroundings) -> Result<Option<Source>, Diagnostics> {
    let found = |layout: &Layout, tree: &DiskTree| match layout.resolve(tree, name) {
        Ok(found) => Ok(Some(found.path)),
        Err(error) if error.code == codes::AMBIGUOUS => Err(Diagnostics::from(*error)),
        Err(_) => Ok(None),
    };
    let beside = found(&Layout { roots: vec![String::new()] }, &open(&around.here)?)?;
    let project = match request.no_project {
        true => None,
        false => nearest_project(&around.here, around),
    };
    let in_project = match &project {
        None => None,
        Some(root) => {
            let tree = open(root)?;
            // The program's own load reports what is wrong with its manifest.
            let layout = Layout::of(&Manifest::load(&tree, &mut Vec::new()));
            found(&layout, &tree)?.map(|path| root.join(path))
        }
    };
    let beside = beside.map(|path| around.here.join(path));
    match (beside, in_project) {
        (Some(beside), Some(inside)) if !same_file(&beside, &inside) => {
            Err(Diagnostic::error(codes::AMBIGUOUS, format!("`{name}` is the name of two workers"))
                .note(format!("{} and {}", beside.display(), inside.display()))
                .help(format!("name the file: `llm-do {name}.worker`, or the worker: `--entry {name}`"))
                .into())
        }
        (Some(path), _) | (None, Some(path)) => file(&path, None, request, around).map(Some),
        (None, None) => Ok(None),
    }
}

fn same_file(one: &Path, other: &Path) -> bool {
    matches!((fs::canonicalize(one), fs::canonicalize(other)), (Ok(one), Ok(other)) if one == other)
}

/// Returns the names that the user may have meant: worker files and folders of the current directory, and workers of
/// the project around it.
fn names_here(around: &Surroundings) -> Vec<String> {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = Vec::new();
    for entry in entries(&around.here) {
        let Ok(name) = entry.file_name().into_string() else { continue };
        match without_extension(&name) {
            Some(stem) => names.extend([stem.to_owned(), name.clone()]),
            None if entry.path().is_dir() && !name.starts_with('.') => names.push(name),
            None => {}
        }
    }
    if let Some(root) = nearest_project(&around.here, around)
        && let Ok(tree) = DiskTree::open(&root)
    {
        let manifest = Manifest::load(&tree, &mut Vec::new());
        for entry in entries(&root.join(&manifest.workers_root)) {
            let Ok(name) = entry.file_name().into_string() else { continue };
            match without_extension(&name) {
                Some(id) => names.push(id.to_owned()),
                None if entry.path().join("worker.worker").is_file() => names.push(name),
                None => {}
            }
        }
    }
    names
}

/// Returns the folder above the nearest `workers` folder.
fn workers_parent(folder: &Path) -> Option<&Path> {
    folder.ancestors().find(|ancestor| ancestor.file_name().is_some_and(|name| name == "workers"))?.parent()
}

/// Finds a name in the flat registry: `LLM_DO_PATH`, by default the folder `workers` in llm-do's own folder.
fn registered(name: &str, request: &Request, around: &Surroundings) -> Result<PathBuf, Diagnostics> {
    let folders: Vec<PathBuf> = match (&around.registry, own(around)) {
        (Some(list), _) => {
            list.split(':').filter(|part| !part.is_empty()).map(|part| around.here.join(part)).collect()
        }
        (None, own) => own.iter().map(|own| own.join("workers")).collect(),
    };
    let mut tried = Vec::new();
    for folder in &folders {
        for candidate in [
            folder.join(format!("{name}.worker")),
            folder.join(name).join("worker.worker"),
            folder.join(format!("{name}.yaml")),
            folder.join(format!("{name}.yml")),
        ] {
            if candidate.is_file() {
                return Ok(candidate);
            }
            tried.push(candidate.display().to_string());
        }
    }
    let mut missing = no_target(format!("there is no file, folder or worker `{name}`"));
    missing = missing.did_you_mean(name, names_here(around).iter().map(String::as_str));
    if !tried.is_empty() {
        missing = missing.note(format!("tried {}", tried.join(", ")));
    }
    if request.positionals.len() == 1 {
        missing = missing.help(format!("if it is a message, name the target first: `llm-do . \"{name}\"`"));
    }
    Err(missing.into())
}

fn open(path: &Path) -> Result<DiskTree, Diagnostics> {
    DiskTree::open(path).map_err(|error| {
        let reason = match error {
            SourceError::NotFound => "does not exist".to_owned(),
            error => format!("cannot be opened: {error}"),
        };
        no_target(format!("`{}` {reason}", path.display())).into()
    })
}

fn place(path: &Path) -> Result<Place, Diagnostics> {
    let real = fs::canonicalize(path).map_err(|error| {
        no_target(format!("the current directory cannot be opened: {}", SourceError::from(error)))
    })?;
    let text = real.to_str().ok_or_else(|| no_target("the current directory's path is not UTF-8".into()))?;
    Ok(Place::new(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World {
        _folder: tempfile::TempDir,
        around: Surroundings,
    }

    /// Creates files below a folder that is the current directory and, at `home`, the home directory.
    fn world(files: &[&str]) -> World {
        let folder = tempfile::tempdir().unwrap();
        let here = fs::canonicalize(folder.path()).unwrap();
        for file in files {
            let path = here.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "---\n---\nHi\n").unwrap();
        }
        let around = Surroundings { home: Some(here.join("home")), here, ..Surroundings::default() };
        World { _folder: folder, around }
    }

    fn find_words(world: &World, words: &[&str]) -> Result<Target, Diagnostics> {
        let positionals = words.iter().map(|word| (*word).to_owned()).collect();
        find(&Request { positionals, ..Request::default() }, &world.around)
    }

    fn root(world: &World, target: &Target) -> String {
        let here = Place::new(world.around.here.to_str().unwrap());
        target.source.tree.root().rest(&here).unwrap().to_owned()
    }

    #[test]
    fn a_file_finds_its_project() {
        let w = world(&[
            "p/main.worker",
            "p/workers/deep/a.worker",
            "lone/x.worker",
            "flat/workers/y.worker",
            "main.worker",
            "repo/.git/HEAD",
            "repo/sub/z.worker",
        ]);
        let target = find_words(&w, &["p/workers/deep/a.worker", "hi"]).unwrap();
        assert_eq!(root(&w, &target), "p");
        assert_eq!(target.source.start, Start::File("workers/deep/a.worker".into()));
        assert_eq!(target.message.as_deref(), Some("hi"));
        assert!(target.source.work.is_none());
        // The main.worker above applies to the folders below it, but not beyond a git root.
        assert_eq!(root(&w, &find_words(&w, &["lone/x.worker"]).unwrap()), "");
        let target = find_words(&w, &["repo/sub/z.worker"]).unwrap();
        assert_eq!((root(&w, &target).as_str(), target.source.manifest), ("repo/sub", false));
        assert!(target.source.work.is_some());
    }

    #[test]
    fn a_file_without_a_project_has_its_own_folder() {
        let w = world(&["home/lone/x.worker", "home/flat/workers/y.worker"]);
        assert_eq!(root(&w, &find_words(&w, &["home/lone/x.worker"]).unwrap()), "home/lone");
        let flat = find_words(&w, &["home/flat/workers/y.worker"]).unwrap();
        assert_eq!(
            (root(&w, &flat).as_str(), flat.source.start),
            ("home/flat", Start::File("workers/y.worker".into()))
        );
    }

    #[test]
    fn words_are_told_apart() {
        let mut w = world(&["p/main.worker", "q/main.worker"]);
        assert_eq!(find_words(&w, &["p"]).unwrap().message, None);
        fs::write(w.around.here.join("q/project.yaml"), "name: q").unwrap();
        let target = find_words(&w, &["q/project.yaml"]).unwrap();
        assert_eq!((root(&w, &target).as_str(), target.source.start), ("q", Start::Entry(None)));
        let request =
            Request { positionals: vec!["hello".into()], project: Some("p".into()), ..Request::default() };
        let target = find(&request, &w.around).unwrap();
        assert_eq!((root(&w, &target).as_str(), target.message.as_deref()), ("p", Some("hello")));
        w.around.project = Some("q".into());
        let target = find_words(&w, &["hello"]).unwrap();
        assert_eq!((root(&w, &target).as_str(), target.message.as_deref()), ("q", Some("hello")));
        let target = find_words(&w, &["p"]).unwrap();
        assert_eq!((root(&w, &target).as_str(), target.message), ("p", None));
    }

    #[test]
    fn a_worker_beside_the_user_is_found_by_its_name() {
        let mut w = world(&[
            "lone/greeter.worker",
            "p/main.worker",
            "p/workers/extract.worker",
            "p/workers/deep/sum/worker.worker",
            "p/sub/notes.txt",
            "home/.llm-do/workers/extract.worker",
            "home/.llm-do/workers/far.worker",
        ]);
        let here = w.around.here.clone();
        w.around.here = here.join("lone");
        let target = find_words(&w, &["greeter", "hi"]).unwrap();
        assert_eq!(
            (target.source.start, target.message.as_deref()),
            (Start::File("greeter.worker".into()), Some("hi"))
        );
        let missing = find_words(&w, &["greter"]).unwrap_err();
        assert!(missing.0[0].help.iter().any(|help| help.contains("`greeter`")), "{missing:?}");
        for folder in ["p", "p/sub"] {
            w.around.here = here.join(folder);
            let target = find_words(&w, &["extract"]).unwrap();
            assert_eq!(target.source.start, Start::File("workers/extract.worker".into()));
            assert!(
                target.source.manifest && target.warnings.is_empty(),
                "the project's, not the registry's"
            );
        }
        let missing = find_words(&w, &["extrct"]).unwrap_err();
        assert!(missing.0[0].help.iter().any(|help| help.contains("`extract`")), "{missing:?}");
        let far = find_words(&w, &["far"]).unwrap();
        assert_eq!(far.warnings[0].code, codes::DEPRECATED_REGISTRY);
        fs::write(here.join("p/extract.worker"), "---\n---\nHi\n").unwrap();
        w.around.here = here.join("p");
        assert_eq!(find_words(&w, &["extract"]).unwrap_err().0[0].code, codes::AMBIGUOUS);
    }

    #[test]
    fn a_message_without_a_target_is_told_the_command() {
        let mut w = world(&["p/project.yaml", "p/sub/notes.txt", "q/notes.txt"]);
        let top = w.around.here.clone();
        let at = |folder: &str| top.join(folder);
        for (folder, message, command) in [
            ("p", "Sum up notes/a.md", "`llm-do . \"Sum up notes/a.md\"`".to_owned()),
            (
                "p/sub",
                "Say \"no\" to it's $1",
                format!("`llm-do {} 'Say \"no\" to it'\\''s $1'`", at("p").display()),
            ),
            ("q", "What now?", "`llm-do ask \"What now?\"`".to_owned()),
        ] {
            w.around.here = top.join(folder);
            let told = find_words(&w, &[message]).unwrap_err();
            assert_eq!(told.0[0].code, codes::NO_TARGET);
            assert!(told.0[0].help[0].contains(&command), "{:?}", told.0[0].help);
        }
    }

    #[test]
    fn registered_names_are_found_and_warned_about() {
        let w = world(&["home/.llm-do/workers/greet.worker"]);
        let target = find_words(&w, &["greet", "x"]).unwrap();
        assert_eq!(target.warnings[0].code, codes::DEPRECATED_REGISTRY);
        assert_eq!(root(&w, &target), "home/.llm-do");
        let missing = find_words(&w, &["nobody"]).unwrap_err();
        assert_eq!(missing.0[0].code, codes::NO_TARGET);
        assert!(missing.0[0].notes[0].contains("nobody.worker"));
    }

    #[test]
    fn contradictions_are_refused() {
        let w = world(&["p/main.worker", "q/x.worker", "q/notes.txt"]);
        let code = |request: Request| find(&request, &w.around).unwrap_err().0[0].code;
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let of = |positionals| Request { positionals, ..Request::default() };
        assert_eq!(code(of(words(&["nothing/here.worker"]))), codes::NO_TARGET);
        assert_eq!(code(of(words(&["q/notes.txt"]))), codes::NO_TARGET);
        assert_eq!(code(Request { no_project: true, ..of(words(&["p"])) }), codes::CONFLICT);
        assert_eq!(code(Request { entry: Some("x".into()), ..of(words(&["q/x.worker"])) }), codes::CONFLICT);
        assert_eq!(
            code(Request { libraries: vec!["none".into()], ..of(words(&["p"])) }),
            codes::MISSING_ROOT
        );
        let outside = Request { project: Some("p".into()), ..of(words(&["q/x.worker", "hi"])) };
        assert_eq!(code(outside), codes::ESCAPES_ROOT);
    }

    #[cfg(unix)]
    #[test]
    fn a_shared_folder_adopts_nothing() {
        use std::os::unix::fs::PermissionsExt;
        let w = world(&["shared/main.worker", "shared/mine/x.worker"]);
        fs::set_permissions(w.around.here.join("shared"), fs::Permissions::from_mode(0o1777)).unwrap();
        assert_eq!(root(&w, &find_words(&w, &["shared/mine/x.worker"]).unwrap()), "shared/mine");
        let beside = find_words(&w, &["shared/main.worker"]).unwrap();
        assert!(!beside.source.manifest && beside.source.work.is_some());
    }
}
