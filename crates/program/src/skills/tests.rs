use super::*;
use crate::source::MemoryTree;
use llm_do_core::authority::Place;

fn read(text: &str) -> (Option<SkillFile>, Vec<(&'static str, String)>) {
    let files =
        [("skills/pdf/SKILL.md", text), ("skills/pdf/references/forms.md", "x"), ("skills/pdf/.env", "K=1")];
    let mut found = Vec::new();
    let skill =
        SkillFile::read(&MemoryTree::new(Place::new("/p"), files), "skills/pdf", Some("pdf"), &mut found);
    (skill, found.into_iter().map(|one| (one.code.id, one.message)).collect())
}

fn codes(text: &str) -> Vec<&'static str> {
    read(text).1.into_iter().map(|(code, _)| code).collect()
}

#[test]
fn a_skill_has_its_keys_and_its_files() {
    let (skill, found) = read(
        "---\nname: pdf\ndescription: >-\n  Fills in\n  forms.\nlicense: MIT\ncompatibility: Needs python3.\n\
         metadata: {version: \"1.2\", author: me}\nallowed-tools: Read Bash(git:*)\n---\n\nSee [forms](references/forms.md).\n",
    );
    assert_eq!(found, []);
    let skill = skill.unwrap();
    assert_eq!((skill.name.as_str(), skill.description.as_str()), ("pdf", "Fills in forms."));
    assert_eq!(
        (skill.version.as_deref(), skill.body.as_str()),
        (Some("1.2"), "See [forms](references/forms.md).")
    );
    assert_eq!(skill.files, ["references/forms.md"]);
    let patterns: Vec<String> = skill.patterns().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(patterns, ["read_file", "shell(git)", "shell(git *)"]);
    assert_eq!(skill.allowed.unwrap()[1].span.text(), "Bash(git:*)");
}

#[test]
fn values_outside_the_format_are_errors() {
    let with = |keys: &str| codes(&format!("---\n{keys}\n---\nText.\n"));
    assert_eq!(with("name: pdf\ndescription: d"), [""; 0]);
    assert_eq!(with("description: d"), ["E0720"]);
    assert_eq!(with("name: pdf"), ["E0720"]);
    assert_eq!(with("- pdf"), ["E0720"]);
    assert_eq!(with("name: pdf\ndescription: [a]"), ["E0720"]);
    assert_eq!(with("name: pdf\ndescription: \" \""), ["E0720"]);
    assert_eq!(with(&format!("name: pdf\ndescription: {}", "d".repeat(1_025))), ["E0720"]);
    assert_eq!(with(&format!("name: pdf\ndescription: {}", "d".repeat(1_024))), [""; 0]);
    assert_eq!(with(&format!("name: pdf\ndescription: d\ncompatibility: {}", "c".repeat(501))), ["E0720"]);
    for hidden in ["\\x1b[2J", "\\u202e", "\\U000E0041", "\\0"] {
        assert_eq!(with(&format!("name: pdf\ndescription: \"a{hidden}b\"")), ["E0720"], "{hidden}");
    }
    for name in ["PDF", "pdf-", "-pdf", "a--b", "a b", "other", &"a".repeat(65)] {
        assert_eq!(with(&format!("name: {name}\ndescription: d")), ["E0721"], "{name}");
    }
    assert_eq!(with("name: pdf\ndescription: d\nmodel: x"), ["W0724"]);
    assert_eq!(with("name: pdf\ndescription: d\nmetadata: {version: 1.0}"), ["W0728"]);
    assert_eq!(with("name: pdf\ndescription: d\nallowed-tools: WebFetch Read"), ["W0726"]);
    assert_eq!(codes("---\nname: pdf\ndescription: d\n---\n[x](x.md) [y](../y.md)"), ["W0725", "W0725"]);
    assert_eq!(codes("Text."), ["E0106"]);
}

#[test]
fn a_wrong_name_is_corrected_to_that_of_the_folder() {
    let text = "---\nname: \"PDF tools\"\ndescription: d\n---\n";
    let mut found = Vec::new();
    SkillFile::read(
        &MemoryTree::new(Place::new("/p"), [("pdf/SKILL.md", text)]),
        "pdf",
        Some("pdf"),
        &mut found,
    );
    let fixed = found[0].fix.as_ref().unwrap().apply(text);
    assert_eq!(fixed.as_deref(), Some("---\nname: pdf\ndescription: d\n---\n"));
}

#[test]
fn a_long_body_is_refused_with_its_size() {
    let (skill, found) = read(&format!("---\nname: pdf\ndescription: d\n---\n{}", "x".repeat(10 << 20)));
    assert!(skill.is_none());
    assert!(found[0].1.contains("bytes; a `SKILL.md` has at most 1048576"), "{found:?}");
}

#[cfg(unix)]
#[test]
fn links_that_lead_out_are_no_skills() {
    use crate::source::DiskTree;
    use std::{fs, os::unix::fs::symlink};
    let text = |name: &str| format!("---\nname: {name}\ndescription: d\n---\n");
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir(outside.path().join("theirs")).unwrap();
    fs::write(outside.path().join("theirs/SKILL.md"), text("theirs")).unwrap();
    let root = tempfile::tempdir().unwrap();
    let skills = root.path().join("skills");
    fs::create_dir_all(skills.join("mine")).unwrap();
    fs::write(skills.join("mine/SKILL.md"), text("mine")).unwrap();
    symlink(outside.path().join("theirs/SKILL.md"), skills.join("mine/secret.md")).unwrap();
    symlink(outside.path().join("theirs"), skills.join("theirs")).unwrap();
    fs::create_dir_all(root.path().join("elsewhere/near")).unwrap();
    fs::write(root.path().join("elsewhere/near/SKILL.md"), text("near")).unwrap();
    symlink("../elsewhere/near", skills.join("near")).unwrap();
    let read = SkillsFolder::read(&DiskTree::open(root.path()).unwrap(), "skills").unwrap().unwrap();
    let names: Vec<&str> = read.skills.iter().map(|(_, skill)| skill.name.as_str()).collect();
    assert_eq!(names, ["mine", "near"]);
    assert!(read.skills[0].1.files.is_empty());
    let mut codes: Vec<_> = read.found.iter().map(|one| one.code.id).collect();
    codes.sort_unstable();
    assert_eq!(codes, ["E0723", "W0725"]);
}
