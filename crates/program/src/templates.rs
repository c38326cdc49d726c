//! The folders from which a worker's templates and inserted files are read. See `docs/reference/templates.md`.

use crate::{
    package::{Package, Packages},
    source::{Kind, LARGEST_DEFINITION, SourceError, SourceTree},
};
use llm_do_core::{
    authority::Protection,
    template::{TemplateName, TemplateRefusal, TemplateSource, TemplateText},
};
use std::{collections::BTreeMap, sync::Arc};

/// The roots of one worker, in search order: its `templates/`, its folder, its package's templates and prompts, its
/// package's root, and the templates of each library that its package depends on.
pub struct Templates {
    roots: Vec<Root>,
    /// Roots of libraries by the name before the colon.
    libraries: BTreeMap<String, Root>,
}

/// A folder of a package.
#[derive(Clone)]
struct Root {
    tree: Arc<dyn SourceTree>,
    folder: String,
}

impl Templates {
    /// Returns the roots of a package's worker in `folder`.
    pub(crate) fn of(packages: &Packages, package: &Package, folder: &str) -> Self {
        let root = |package: &Package, folder: &str| Root {
            tree: Arc::clone(&package.tree),
            folder: folder.to_owned(),
        };
        let own = if folder.is_empty() { "templates".to_owned() } else { format!("{folder}/templates") };
        let manifest = &package.manifest;
        let mut folders: Vec<&str> = Vec::new();
        for folder in [own.as_str(), folder, &manifest.templates_root, &manifest.prompts_root, ""] {
            if !folders.contains(&folder) {
                folders.push(folder);
            }
        }
        let mut roots: Vec<Root> = folders.into_iter().map(|folder| root(package, folder)).collect();
        let mut libraries = BTreeMap::new();
        // A library that says its own name means itself.
        let itself = || root(package, &manifest.templates_root);
        libraries.extend(package.own_name().map(|name| (name.to_owned(), itself())));
        let dependencies = package.dependencies.iter().map(|id| packages.get(*id));
        // The files of a skill are for models.
        for library in dependencies.filter(|library| !library.manifest.is_skill()) {
            let templates = root(library, &library.manifest.templates_root);
            libraries.extend(library.library.as_ref().map(|name| (name.to_string(), templates.clone())));
            roots.push(templates);
        }
        Self { roots, libraries }
    }

    fn find(&self, name: &TemplateName) -> Result<Option<TemplateText>, TemplateRefusal> {
        let refuse = |reason: String| TemplateRefusal { name: name.to_string(), reason };
        if let Some(library) = name.library() {
            let root = self.libraries.get(library).ok_or_else(|| {
                refuse(format!("the library `{library}` is not a dependency of the worker's package"))
            })?;
            return root.read(name.path()).map_err(refuse);
        }
        for root in &self.roots {
            if let Some(text) = root.read(name.path()).map_err(refuse)? {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }
}

impl Root {
    /// Reads the text of a file in the root, or returns `None` if there is no such file.
    fn read(&self, name: &str) -> Result<Option<TemplateText>, String> {
        let path = if self.folder.is_empty() { name.to_owned() } else { format!("{}/{name}", self.folder) };
        match self.tree.kind(&path) {
            Ok(Some(Kind::File)) => {}
            Ok(None) => return Ok(None),
            Ok(Some(Kind::Folder | Kind::Special)) => return Err("it is not a regular file".into()),
            Err(SourceError::NotFound) => return Ok(None),
            Err(error) => return Err(error.to_string()),
        }
        // Check both the name and the real place, so that a link cannot reach an invisible file.
        let package = self.tree.root();
        let real = self.tree.locate(&path).map_err(|error| error.to_string())?.place;
        let base = self.tree.locate(&self.folder).map_err(|error| error.to_string())?.place;
        for place in [&package.join(&path), &real] {
            if place.rest(package).is_none_or(|inside| inside.split('/').any(Protection::is_invisible)) {
                return Err("it may not be read here".into());
            }
        }
        if !real.is_within(&base) {
            let root = if self.folder.is_empty() { "." } else { &self.folder };
            return Err(format!("it is outside `{root}`"));
        }
        let bytes = self.tree.read(&path, LARGEST_DEFINITION).map_err(|error| error.to_string())?;
        let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())?;
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        Ok(Some(TemplateText { text: text.into(), origin: self.tree.shown(&path), place: Some(real) }))
    }
}

impl TemplateSource for Templates {
    fn template(&self, name: &TemplateName) -> Result<Option<TemplateText>, TemplateRefusal> {
        self.find(name)
    }

    fn file(&self, name: &TemplateName) -> Result<Option<TemplateText>, TemplateRefusal> {
        self.find(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{load_options::LoadOptions, manifest::Manifest, source::MemoryTree};
    use llm_do_core::{authority::Place, template::confine};

    fn templates(files: &[(&str, &str)]) -> Templates {
        let root = Place::new("/p");
        let tree = MemoryTree::new(root.clone(), files.iter().map(|(p, t)| (*p, *t)));
        of(Arc::new(tree))
    }

    fn of(tree: Arc<dyn SourceTree>) -> Templates {
        let (host, mut found) = (LoadOptions::default(), Vec::new());
        let program = Package::program(tree, Manifest::default(), None, &host, &mut found);
        let packages = Packages::load(program, &host, &mut found);
        assert_eq!(found, []);
        Templates::of(&packages, packages.program(), "workers/x")
    }

    #[test]
    fn roots_are_searched_in_order() {
        let templates = templates(&[
            ("workers/x/templates/a", "1"),
            ("workers/x/a", "2"),
            ("workers/x/b", "3"),
            ("templates/b", "4"),
            ("templates/c", "5"),
            ("prompts/c", "6"),
            ("prompts/d", "7"),
            ("e", "8"),
        ]);
        let read = |name: &str| templates.file(&confine(name).unwrap()).unwrap().map(|t| t.text.to_string());
        let found: Vec<Option<String>> = ["a", "b", "c", "d", "e"].map(read).into();
        assert_eq!(
            found,
            [Some("1"), Some("3"), Some("5"), Some("7"), Some("8")].map(|t| t.map(str::to_owned))
        );
    }

    #[test]
    fn invisible_files_stay_invisible() {
        let templates = templates(&[
            ("templates/.env", "KEY=1"),
            ("prompts/.llm-do/x", "y"),
            ("prompts/.env.local", "z"),
        ]);
        for name in [".env", ".llm-do/x", ".env.local", "lib:x"] {
            assert!(templates.file(&confine(name).unwrap()).is_err(), "{name}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_lead_nowhere_else() {
        use crate::source::DiskTree;
        use std::{fs, os::unix::fs::symlink};
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("p");
        fs::create_dir_all(root.join("prompts")).unwrap();
        fs::write(outer.path().join("secret"), "s").unwrap();
        fs::write(root.join(".env"), "KEY=1").unwrap();
        fs::write(root.join("notes.txt"), "n").unwrap();
        symlink("../../secret", root.join("prompts/out")).unwrap();
        symlink("../.env", root.join("prompts/env")).unwrap();
        symlink("../notes.txt", root.join("prompts/notes")).unwrap();
        let tree = DiskTree::open(&root).unwrap();
        let templates = of(Arc::new(tree));
        for name in ["out", "env", "notes"] {
            assert!(templates.file(&confine(name).unwrap()).is_err(), "{name}");
        }
    }
}
