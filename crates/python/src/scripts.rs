//! The files that scripts in TypeScript and JavaScript import by relative paths. Node resolves these by their whole names,
//! so llm-do finds them in the texts, without running anything.

use llm_do_core::{
    authority::Protection,
    worker::{is_imported_by_scripts, joined_import, relative_imports},
};
use llm_do_sandbox::read_regular;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Files at the root of a package that decide how its scripts are read, and which packages they use.
const DECIDING: &[&str] =
    &["package.json", "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock"];

/// The largest script whose imports are read, in bytes.
const LARGEST: u64 = 4 << 20;

/// The largest number of scripts whose imports are followed.
const MOST: usize = 10_000;

/// Returns true if a file is source of scripts, or decides which packages they use.
pub(crate) fn is_source(name: &str) -> bool {
    is_imported_by_scripts(name) || DECIDING.contains(&name)
}

/// Adds the files that these modules import by relative paths, directly or not, and the files that decide how Node reads
/// them. Files outside the root of the package, links, and names that are invisible to tools are left out.
pub(crate) fn imported(root: &Path, modules: Vec<PathBuf>, places: &mut BTreeSet<PathBuf>) {
    let Ok(real) = fs::canonicalize(root) else { return };
    // A place that is given to a process is given with what a link leads to.
    let is_own = |rest: &str| {
        let (path, real) = (root.join(rest), real.join(rest));
        path.is_file() && fs::canonicalize(path).is_ok_and(|found| found == real)
    };
    places.extend(DECIDING.iter().filter(|name| is_own(name)).map(|name| root.join(name)));
    let mut left = modules;
    let mut read = BTreeSet::new();
    while let Some(file) = left.pop() {
        if read.len() == MOST || !read.insert(file.clone()) {
            continue;
        }
        let Ok(text) = read_regular(&file, LARGEST) else { continue };
        let Some(folder) = file.parent().and_then(|folder| folder.strip_prefix(root).ok()) else { continue };
        for import in relative_imports(&String::from_utf8_lossy(&text)) {
            let Some(rest) = joined_import(&folder.to_string_lossy(), import) else { continue };
            let visible = !rest.split('/').any(Protection::is_invisible);
            if is_imported_by_scripts(&rest) && visible && is_own(&rest) {
                let path = root.join(&rest);
                places.insert(path.clone());
                left.push(path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn relative_imports_are_followed_within_the_package() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("project");
        fs::create_dir_all(root.join("src/deep")).unwrap();
        let put = |path: &str, text: &str| fs::write(root.join(path), text).unwrap();
        put("tools.ts", "import { a } from './src/a.ts';\nimport z from \"zod\";\nimport '../secret.ts';\n");
        put(
            "src/a.ts",
            "const data = await import(`./deep/data.json`);\nimport '../tools.ts';\nimport '../.env.js';",
        );
        put("src/deep/data.json", "{}");
        put("src/unused.ts", "");
        put(".env.js", "");
        put("package.json", "{}");
        fs::write(dir.path().join("secret.ts"), "").unwrap();
        let mut places = BTreeSet::new();
        imported(&root, vec![root.join("tools.ts")], &mut places);
        let names: Vec<_> =
            places.iter().map(|place| place.strip_prefix(&root).unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["package.json", "src/a.ts", "src/deep/data.json", "tools.ts"]);
    }

    #[test]
    fn links_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("project");
        fs::create_dir_all(&root).unwrap();
        fs::create_dir(dir.path().join("outside")).unwrap();
        fs::write(dir.path().join("outside/secret.mjs"), "").unwrap();
        for (to, link) in [("../outside/secret.mjs", "linked.mjs"), ("../outside", "folder")] {
            symlink(to, root.join(link)).unwrap();
        }
        symlink("../outside/secret.mjs", root.join("package.json")).unwrap();
        let text = "import './linked.mjs';\nimport './folder/secret.mjs';\nimport '../outside/secret.mjs';\n";
        fs::write(root.join("tools.ts"), text).unwrap();
        let mut places = BTreeSet::new();
        imported(&root, vec![root.join("tools.ts")], &mut places);
        assert!(places.is_empty(), "{places:?}");
    }
}
