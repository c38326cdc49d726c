//! Where a worker's templates and inserted files are read from (SPEC §7).

use crate::source::{Kind, LARGEST_DEFINITION, SourceError, SourceTree};
use llm_do_core::{
    authority::{Class, Protection},
    template::{TemplateName, TemplateRefusal, TemplateSource, TemplateText},
};
use std::sync::Arc;

/// The roots of one worker, in the order they are searched: its `templates/`, its folder, the project's templates,
/// the prompts.
pub struct Templates {
    tree: Arc<dyn SourceTree>,
    protection: Arc<Protection>,
    roots: Vec<String>,
}

impl Templates {
    /// The roots of a worker that lies in `folder`.
    pub fn new(
        tree: Arc<dyn SourceTree>,
        protection: Arc<Protection>,
        folder: &str,
        templates: &str,
        prompts: &str,
    ) -> Self {
        let own = if folder.is_empty() { "templates".to_owned() } else { format!("{folder}/templates") };
        let mut roots: Vec<String> = Vec::new();
        for root in [own.as_str(), folder, templates, prompts] {
            if !roots.iter().any(|known| known == root) {
                roots.push(root.to_owned());
            }
        }
        Self { tree, protection, roots }
    }

    fn find(&self, name: &TemplateName) -> Result<Option<TemplateText>, TemplateRefusal> {
        let refuse = |reason: String| TemplateRefusal { name: name.to_string(), reason };
        if let Some(library) = name.library() {
            return Err(refuse(format!(
                "it is the library `{library}`'s, and libraries are not supported yet"
            )));
        }
        for root in &self.roots {
            let path =
                if root.is_empty() { name.path().to_owned() } else { format!("{root}/{}", name.path()) };
            if let Some(text) = self.read(root, &path).map_err(refuse)? {
                return Ok(Some(TemplateText { text: text.into(), origin: path }));
            }
        }
        Ok(None)
    }

    /// The text of a file in a root; `None` if nothing is there.
    fn read(&self, root: &str, path: &str) -> Result<Option<String>, String> {
        match self.tree.kind(path) {
            Ok(Some(Kind::File)) => {}
            Ok(None) => return Ok(None),
            Ok(Some(Kind::Folder | Kind::Special)) => return Err("it is not a regular file".into()),
            Err(SourceError::NotFound) => return Ok(None),
            Err(error) => return Err(error.to_string()),
        }
        // By its own name and by where it really lies: a link is no way to what may not be seen.
        let program = self.protection.root();
        let real = self.tree.locate(path).map_err(|error| error.to_string())?.place;
        let base = self.tree.locate(root).map_err(|error| error.to_string())?.place;
        for place in [&program.join(path), &real] {
            if self.protection.class(place, program) == Class::Invisible {
                return Err("it may not be read here".into());
            }
        }
        if !real.is_within(&base) {
            return Err(format!("it leads out of `{}`", if root.is_empty() { "." } else { root }));
        }
        let bytes = self.tree.read(path, LARGEST_DEFINITION).map_err(|error| error.to_string())?;
        let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())?;
        Ok(Some(match text.strip_prefix('\u{feff}') {
            Some(rest) => rest.to_owned(),
            None => text,
        }))
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
    use crate::source::MemoryTree;
    use llm_do_core::{authority::Place, template::confine};

    fn templates(files: &[(&str, &str)]) -> Templates {
        let root = Place::new("/p");
        let tree = MemoryTree::new(root.clone(), files.iter().map(|(p, t)| (*p, *t)));
        let protection = Protection::new(root, []);
        Templates::new(Arc::new(tree), Arc::new(protection), "workers/x", "templates", "prompts")
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
        assert_eq!(found, [Some("1"), Some("3"), Some("5"), Some("7"), None].map(|t| t.map(str::to_owned)));
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
        let protection = Protection::new(tree.root().clone(), []);
        let templates =
            Templates::new(Arc::new(tree), Arc::new(protection), "workers/x", "templates", "prompts");
        for name in ["out", "env", "notes"] {
            assert!(templates.file(&confine(name).unwrap()).is_err(), "{name}");
        }
    }
}
