//! `llm-do page`: what a page never contains, and where it is never written. The browser tests of `web/` open pages.

use crate::scenario::Scenario;
use std::fs;

fn desk() -> Scenario {
    Scenario::new()
        .file("project.yaml", "name: desk\nentry: main\n")
        .file("main.worker", "---\nmodel: openai:gpt-5-mini\n---\nHello.\n")
        .file(".env", "OPENAI_API_KEY=sk-secret\n")
        .file("data/prices.csv", "pear,0.5\n")
        .file("data/.env", "TOKEN=secret\n")
}

#[test]
fn a_page_is_not_written_over_other_files() {
    let scenario = desk().file("site/index.html", "<h1>Mine</h1>\n");
    let refused = scenario.run(&["page", ".", "-o", "site"]);
    assert_eq!(refused.code, Some(2), "{refused}");
    assert!(
        refused.stderr.contains("the folder `site` has files that are not a page of llm-do"),
        "{refused}"
    );
    assert_eq!(
        fs::read_to_string(scenario.project().join("site/index.html")).expect("read"),
        "<h1>Mine</h1>\n"
    );
}

#[test]
fn secrets_and_files_of_others_are_never_included() {
    let scenario = desk();
    for path in [".env", "data/.env", ".llm-do/runs", "../x", "/etc/passwd", ".git/config"] {
        let refused = scenario.run(&["page", ".", "-o", "site", "--include", path]);
        assert_eq!(refused.code, Some(2), "{path}: {refused}");
        assert!(refused.stderr.contains(&format!("--include {path}")), "{path}: {refused}");
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("/etc/passwd", scenario.project().join("data/link")).expect("link");
        let refused = scenario.run(&["page", ".", "-o", "site", "--include", "data"]);
        assert_eq!(refused.code, Some(2), "{refused}");
        assert!(refused.stderr.contains("`data/link` is a link or no regular file"), "{refused}");
    }
    assert!(!scenario.project().join("site").exists());
}

#[test]
fn an_origin_can_add_nothing_else_to_the_policy() {
    let scenario = desk();
    for origin in ["*", "https://a.example/x", "https://a.example; script-src *", "a.example"] {
        let refused = scenario.run(&["page", ".", "-o", "site", "--connect", origin]);
        assert_eq!(refused.code, Some(2), "{origin}: {refused}");
        assert!(refused.stderr.contains("is no origin"), "{origin}: {refused}");
    }
}

#[test]
fn a_page_has_its_definitions_and_nothing_else_or_says_what_is_missing() {
    let scenario = desk();
    let written = scenario.run(&["page", ".", "-o", "site", "--include", "data"]);
    if written.stderr.contains("this llm-do was built without") {
        // The binary of a clone has neither the app nor the engine.
        assert_eq!(written.code, Some(1), "{written}");
        assert!(written.stderr.contains("scripts/page-engine"), "{written}");
        assert!(!scenario.project().join("site").exists(), "nothing is left half-written");
        return;
    }
    assert_eq!(written.code, Some(0), "{written}");
    assert_eq!(written.stdout, "data/prices.csv\nmain.worker\nproject.yaml\n");
    let page = fs::read_to_string(scenario.project().join("site/index.html")).expect("read");
    assert!(page.contains("connect-src 'self' https://api.openai.com;"), "{page}");
    assert!(page.contains("default-src 'none'"), "{page}");
    let again = scenario.run(&["page", ".", "-o", "site", "--include", "data"]);
    assert_eq!(again.code, Some(0), "an older page is replaced: {again}");
}
