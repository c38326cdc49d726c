//! Follows every page that tells a reader what to do: the README, the guides and the pages of the examples. Each block with a
//! file is written, each command is run in order, and its output is compared with the output that the page shows.
//! `UPDATE_EXPECT=1` writes the output into the pages. docs/testing.md#a-command-in-a-guide describes the marks.

#![allow(clippy::print_stdout, reason = "a test says what it skips")]

mod answers;
mod commands;
mod page;
mod reader;
mod shown;
#[allow(dead_code, reason = "the scenarios use the rest")]
#[path = "../scenarios/terminal_session.rs"]
mod terminal_session;

use page::{Block, Mark};
use reader::{Reader, root};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

/// Declares a test for each page, with what its skipped blocks need.
macro_rules! pages {
    ($($test:ident: $page:literal $([$($need:literal: $count:literal),*])?;)*) => {
        $(#[test] fn $test() { follow(stringify!($test), $page, &[$($(($need, $count)),*)?]); })*
        const PAGES: &[&str] = &[$($page),*];
    };
}

pages! {
    readme: "README.md" ["build": 3];
    examples: "examples/README.md" ["network": 1];
    example_helpdesk: "examples/helpdesk/README.md";
    example_minutes: "examples/minutes/README.md" ["network": 1];
    example_strikes: "examples/strikes/README.md" ["key": 1];
    browser: "docs/guides/browser.md";
    budgets: "docs/guides/budgets.md";
    chat: "docs/guides/chat.md";
    check: "docs/guides/check.md";
    claude_desktop: "docs/guides/claude-desktop.md";
    cluster: "docs/guides/cluster.md" ["product": 4];
    coming_from_claude_code: "docs/guides/coming-from-claude-code.md" ["product": 1];
    coming_from_docker_agent: "docs/guides/coming-from-docker-agent.md";
    coming_from_golem_forge: "docs/guides/coming-from-golem-forge.md";
    coming_from_goose: "docs/guides/coming-from-goose.md";
    coming_from_llm: "docs/guides/coming-from-llm.md";
    cursor: "docs/guides/cursor.md";
    editors: "docs/guides/editors.md";
    emacs: "docs/guides/emacs.md";
    first_program: "docs/guides/first-program.md" ["key": 1];
    helix: "docs/guides/helix.md" ["product": 2];
    installing: "docs/guides/installing.md" ["build": 7];
    jetbrains: "docs/guides/jetbrains.md";
    language_server: "docs/guides/language-server.md";
    libraries: "docs/guides/libraries.md" ["network": 1];
    local_models: "docs/guides/local-models.md" ["build": 2, "network": 3];
    many_inputs: "docs/guides/many-inputs.md";
    mcp_server: "docs/guides/mcp-server.md" ["network": 1];
    mcp: "docs/guides/mcp.md" ["browser": 1, "network": 5, "product": 1];
    migrating: "docs/guides/migrating.md";
    models: "docs/guides/models.md";
    neovim: "docs/guides/neovim.md" ["product": 1];
    openai_clients: "docs/guides/openai-clients.md";
    pages: "docs/guides/pages.md" ["build": 1];
    programs: "docs/guides/programs.md";
    projects: "docs/guides/projects.md";
    python_client: "docs/guides/python-client.md";
    python_tools: "docs/guides/python-tools.md" ["network": 2];
    replay: "docs/guides/replay.md";
    runs: "docs/guides/runs.md" ["product": 1];
    rust: "docs/guides/rust.md";
    serve: "docs/guides/serve.md";
    shell: "docs/guides/shell.md";
    skills: "docs/guides/skills.md" ["network": 1];
    testing_workers: "docs/guides/testing-workers.md";
    triggers: "docs/guides/triggers.md";
    tuning: "docs/guides/tuning.md";
    typescript_client: "docs/guides/typescript-client.md";
    typescript_tools: "docs/guides/typescript-tools.md" ["product": 1];
    untrusted_content: "docs/guides/untrusted-content.md";
    vscode: "docs/guides/vscode.md" ["product": 2];
    web_app: "docs/guides/web-app.md";
    zed: "docs/guides/zed.md";
}

fn follow(name: &str, path: &str, skipped: &[(&str, usize)]) {
    if name == "local_models" && cfg!(not(feature = "local")) {
        println!("{path}: this build has no local models");
        return;
    }
    let path = root().join(path);
    let mut text = fs::read_to_string(&path).expect("a page");
    // Each round writes the output of one command.
    for _ in 0..200 {
        let blocks = page::blocks(&text).unwrap_or_else(|why| panic!("{}:{why}", path.display()));
        assert_eq!(
            needs(&blocks),
            skipped.iter().map(|&(need, count)| (need.to_owned(), count)).collect(),
            "{name}"
        );
        let mut reader = Reader::new(name, &text);
        let followed = blocks.iter().filter(|block| !matches!(block.mark, Mark::Needs(_)));
        let Some(failure) = followed.map(|block| reader.follow(block)).find_map(Result::err) else { return };
        match failure.printed {
            Some((command, printed)) if std::env::var_os("UPDATE_EXPECT").is_some() => {
                let body = |lines: &[String]| {
                    let all = std::iter::once(format!("$ {}", command.text)).chain(lines.iter().cloned());
                    all.map(|line| line + "\n").collect::<String>()
                };
                let changed = text.replacen(&body(&command.shown), &body(&printed), 1);
                assert_ne!(changed, text, "{}:{}: {}", path.display(), failure.line, failure.text);
                text = changed;
                fs::write(&path, &text).expect("the page");
            }
            _ => panic!("{}:{}: {}", path.display(), failure.line, failure.text),
        }
    }
    panic!("{}: its output changes each time", path.display());
}

/// The needs of the blocks that are skipped, and how many have each.
fn needs(blocks: &[Block]) -> BTreeMap<String, usize> {
    let mut needs = BTreeMap::new();
    for block in blocks {
        if let Mark::Needs(what) = &block.mark {
            *needs.entry(what.clone()).or_insert(0) += 1;
        }
    }
    needs
}

#[test]
fn every_guide_is_followed() {
    let mut pages = BTreeSet::from(["README.md".to_owned(), "examples/README.md".to_owned()]);
    let names = |folder: &str| {
        let entries = fs::read_dir(root().join(folder)).expect("a folder");
        entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect::<Vec<_>>()
    };
    pages.extend(names("docs/guides").iter().map(|name| format!("docs/guides/{name}")));
    let examples = names("examples").into_iter().map(|name| format!("examples/{name}/README.md"));
    pages.extend(examples.filter(|page| root().join(page).exists()));
    assert_eq!(PAGES.iter().map(|&page| page.to_owned()).collect::<BTreeSet<_>>(), pages);
}
