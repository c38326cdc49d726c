//! Findings: a page reports the same as the front end on a disk.

use crate::page::Page;
use llm_do_program::{Source, Start, check, diagnostics::json::to_json, source::DiskTree};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

/// Adds the files below a folder. Returns false if one of them is no regular file or too large for a page's test.
fn add(files: &mut BTreeMap<String, Vec<u8>>, folder: &Path, prefix: &str) -> bool {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let (Ok(name), kind) = (entry.file_name().into_string(), entry.file_type().unwrap()) else {
            return false;
        };
        let path = format!("{prefix}/{name}");
        let is_good = match kind {
            kind if kind.is_dir() => add(files, &entry.path(), &path),
            kind if kind.is_file() => files.insert(path, fs::read(entry.path()).unwrap()).is_none(),
            _ => false,
        };
        if !is_good {
            return false;
        }
    }
    true
}

/// The findings without the root of the program, which differs.
fn plain(found: &Value, root: &str) -> String {
    found.to_string().replace(root, "[ROOT]")
}

#[test]
fn every_bad_program_has_the_findings_of_the_disk() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../program/tests/check");
    let mut compared = 0;
    let mut wrong = Vec::new();
    for entry in fs::read_dir(root).unwrap() {
        let folder = entry.unwrap().path();
        let is_case = folder.is_dir() && folder.extension().is_none();
        // A page has no installed libraries, and opens a program by its entry.
        let is_other = folder.with_extension("libs").exists() || folder.with_extension("start").exists();
        let mut files = BTreeMap::new();
        // A page has no symbolic links.
        if !is_case || is_other || !add(&mut files, &folder, "case") {
            continue;
        }
        let tree = DiskTree::open(&folder).unwrap();
        let source = Source { tree: Arc::new(tree), start: Start::Entry(None), manifest: true, work: None };
        let native = to_json(&check(source, llm_do_page::load_options()))["diagnostics"].take();
        let mut page = Page::over(files, json!({}));
        let (status, found) = page.ask("POST", "/v1/programs/case/check", Some(json!({})));
        assert_eq!(status, 200, "{}: {found}", folder.display());
        let real = fs::canonicalize(&folder).unwrap();
        let native = plain(&native, real.to_str().unwrap());
        let found = plain(&found["diagnostics"], "/case");
        if native != found {
            wrong.push(format!("{}:\n{native}\n{found}", folder.display()));
        }
        compared += 1;
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 100, "only {compared} programs were compared");
}

#[test]
fn the_first_finding_names_the_line_and_unsaved_texts_count() {
    let mut page = Page::new(&[("p/main.worker", "---\ndescripton: Greets.\n---\nGreet.\n")], json!({}));
    let (_, found) = page.ask("POST", "/v1/programs/p/check", Some(json!({})));
    assert!(found["diagnostics"][0].to_string().contains("descripton"), "{found}");
    let texts = json!({"files": {"main.worker": "---\ndescription: Greets.\n---\nGreet.\n"}});
    let (_, found) = page.ask("POST", "/v1/programs/p/check", Some(texts));
    assert_eq!(found, json!({"diagnostics": []}));
    let (_, listed) = page.ask("GET", "/v1/programs", None);
    assert_eq!(listed["programs"][0]["findings"]["errors"], 1, "{listed}");
}
