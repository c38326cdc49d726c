//! Skills (docs/guides/skills.md): what a worker sees and may do, what `check` says, and installing and exporting them.

use crate::scenario::{Finished, Scenario};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt, os::unix::fs::symlink};

const SKILL: &str = "---\nname: figures\ndescription: Formats figures.\n---\nRound them. See [regions](references/regions.md).\n";

fn main_worker(toolsets: &str) -> String {
    format!("---\nmodel: script:s.yaml\ntoolsets: {{{toolsets}}}\n---\nGo.\n")
}

/// A project with the skill `figures`, whose model makes these calls, one in a turn.
fn calling(toolsets: &str, skill: &str, calls: &[(&str, Value)]) -> Scenario {
    let mut answers: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(turn, (tool, arguments))| {
            json!({"when": {"turn": turn}, "calls": [{"tool": tool, "arguments": arguments}]})
        })
        .collect();
    answers.push(json!({"text": "done"}));
    Scenario::new()
        .file("main.worker", &main_worker(toolsets))
        .file("s.yaml", &json!({ "answers": answers }).to_string())
        .file("skills/figures/SKILL.md", skill)
        .file("skills/figures/references/regions.md", "N is north.\n")
}

fn load() -> (&'static str, Value) {
    ("skill", json!({"name": "figures"}))
}

fn read(path: &str) -> (&'static str, Value) {
    ("read_file", json!({"path": path}))
}

/// The end of the call of that turn.
fn ending(scenario: &Scenario, turn: usize) -> Value {
    let path = format!("0/{turn}.0");
    let journal = scenario.journal();
    let last = journal.iter().rev().find(|record| {
        record["path"] == path.as_str()
            && ["tool_ended", "call_ended"].contains(&record["kind"].as_str().unwrap_or_default())
    });
    last.unwrap_or_else(|| panic!("no end of {path} in {journal:#?}"))["ending"].clone()
}

fn failure(scenario: &Scenario, turn: usize) -> String {
    let ending = ending(scenario, turn);
    ending["failure"]["message"]
        .as_str()
        .unwrap_or_else(|| panic!("turn {turn} did not fail: {ending:#}"))
        .to_owned()
}

fn succeeds(told: Finished) -> Finished {
    assert_eq!(told.code, Some(0), "{told}");
    told
}

#[test]
fn a_skill_is_offered_loaded_and_read_and_belongs_to_the_program() {
    let calls = [load(), read("/skills/figures/references/regions.md"), read("/skills/figures/SKILL.md")];
    let scenario = calling("skills: {}, filesystem: {}", SKILL, &calls);
    let shown = succeeds(scenario.run(&["show", "main", "--prompt", "Go", "--json"])).stdout;
    assert!(shown.contains("- figures: Formats figures.") && !shown.contains("Round them."), "{shown}");
    succeeds(scenario.run(&[".", "Go"]));
    let loaded = ending(&scenario, 0);
    let files = json!(["/skills/figures/references/regions.md"]);
    assert_eq!(loaded["output"]["files"], files, "{loaded}");
    assert!(loaded["output"]["instructions"].as_str().is_some_and(|text| text.starts_with("Round them.")));
    assert!(ending(&scenario, 1).to_string().contains("N is north."));
    let workers = scenario.journal()[0].to_string();
    assert!(workers.contains("Round them."), "the text is recorded: {workers}");
}

#[test]
fn a_run_does_not_continue_with_another_skill() {
    let calls = [load(), ("write_file", json!({"path": "/out.txt", "content": "x"}))];
    let scenario = calling("skills: {}, filesystem: {}", SKILL, &calls);
    let told = scenario.run(&[".", "Go", "--approval", "defer"]);
    assert_eq!(told.code, Some(5), "{told}");
    let scenario = scenario.file("skills/figures/SKILL.md", &SKILL.replace("Round", "Do not round"));
    let told = scenario.run(&["runs", "resume", "last", "--approve", "0/1.0"]);
    assert!(told.code != Some(0) && told.stderr.contains("has changed since the run began"), "{told}");
}

#[test]
fn allowed_tools_narrow_whatever_the_operator_allows() {
    let skill = SKILL.replace("figures.\n---", "figures.\nallowed-tools: Read Write(out/**)\n---");
    let write = |path: &str| ("write_file", json!({"path": path, "content": "x"}));
    let calls = [write("/before.txt"), load(), write("/after.txt"), write("/out/report.txt")];
    let scenario = calling("skills: {}, filesystem: {}", &skill, &calls);
    succeeds(scenario.run(&[".", "Go", "--allow", "write_file", "--approval", "auto_deny"]));
    assert!(scenario.read("before.txt").is_some() && scenario.read("out/report.txt").is_some());
    assert!(scenario.read("after.txt").is_none());
    assert!(failure(&scenario, 2).contains("needs an approval"));
    let journal = Value::from(scenario.journal()).to_string();
    assert!(
        journal.contains("the skill `figures` is loaded, whose `allowed-tools` do not have it"),
        "{journal}"
    );
}

/// The narrowing belongs to the text of the skill: it is there as long as the model reads that text.
#[test]
fn undoing_the_message_that_loaded_a_skill_lifts_its_narrowing() {
    let skill = SKILL.replace("figures.\n---", "figures.\nallowed-tools: Read\n---");
    let calls = |calls: &[(&str, Value)]| {
        let mut answers: Vec<Value> = Vec::new();
        for (number, (tool, arguments)) in calls.iter().enumerate() {
            answers.push(
                json!({"when": {"turn": 2 * number}, "calls": [{"tool": tool, "arguments": arguments}]}),
            );
            answers.push(json!({"when": {"turn": 2 * number + 1}, "text": "done"}));
        }
        json!({ "answers": answers }).to_string()
    };
    let write = ("write_file", json!({"path": "/after.txt", "content": "x"}));
    for (said, is_written) in [("load\nwrite\n", false), ("load\n/undo\nwrite\n", true)] {
        let scenario = calling("skills: {}, filesystem: {}", &skill, &[])
            .file("s.yaml", &calls(&[load(), write.clone()]));
        let told =
            scenario.run_with_stdin(&["chat", ".", "--allow", "write_file", "--approval", "auto_deny"], said);
        assert_eq!(scenario.read("after.txt").is_some(), is_written, "{said:?}: {told}");
    }
}

#[test]
fn no_worker_changes_its_skills() {
    let write = |path: &str| ("write_file", json!({"path": path, "content": "Obey."}));
    let calls = [
        write("/skills/figures/SKILL.md"),
        write("/skills/figures/references/regions.md"),
        write("/skills/figures/new.md"),
        ("delete_file", json!({"path": "/skills/figures/references/regions.md"})),
        ("move_file", json!({"source": "/skills/figures", "destination": "/gone"})),
        ("move_file", json!({"source": "/skills", "destination": "/gone"})),
        // A skill without other files has no mount, and is protected as part of the program.
        write("/skills/plain/SKILL.md"),
        write("/skills/plain/new.md"),
        // A new skill would be a part of the program the next time.
        write("/skills/more/SKILL.md"),
        write("/.claude/skills/more/SKILL.md"),
    ];
    let plain = "---\nname: plain\ndescription: Nothing.\n---\n";
    let scenario = calling("skills: {}, filesystem: {}", SKILL, &calls).file("skills/plain/SKILL.md", plain);
    succeeds(scenario.run(&[".", "Go", "--approval", "approve_all"]));
    assert_eq!(scenario.read("skills/plain/SKILL.md").as_deref(), Some(plain));
    assert!(
        scenario.read("skills/plain/new.md").is_none() && scenario.read("skills/more/SKILL.md").is_none()
    );
    assert!(scenario.read(".claude/skills/more/SKILL.md").is_none());
    assert_eq!(scenario.read("skills/figures/SKILL.md").as_deref(), Some(SKILL));
    assert_eq!(scenario.read("skills/figures/references/regions.md").as_deref(), Some("N is north.\n"));
    assert!(scenario.read("skills/figures/new.md").is_none());
    for turn in 0..calls.len() {
        let refused = failure(&scenario, turn);
        assert!(
            ["read-only", "protected", "mount"].iter().any(|why| refused.contains(why)),
            "{turn}: {refused}"
        );
    }
}

#[test]
fn scripts_run_through_shell_and_cannot_change_the_skill() {
    let command = |text: &str| ("shell", json!({"command": text}));
    let calls = [
        command("sh /skills/figures/scripts/show.sh"),
        command("/skills/figures/scripts/show.sh"),
        command("/skills/figures/scripts/run.sh"),
        command("sh /skills/figures/scripts/spoil.sh"),
    ];
    let rules = "{rules: [{pattern: sh, approval_required: false}, {pattern: /skills/figures/scripts/show.sh, \
                 approval_required: false}, {pattern: /skills/figures/scripts/run.sh, approval_required: false}]}";
    let scenario = calling(&format!("skills: {{}}, shell: {rules}"), SKILL, &calls)
        .file("skills/figures/scripts/show.sh", "#!/bin/sh\necho shown\n")
        .file("skills/figures/scripts/run.sh", "#!/bin/sh\necho run\n")
        .file("skills/figures/scripts/spoil.sh", "echo spoiled > \"$(dirname \"$0\")/show.sh\"\n");
    let script = scenario.project().join("skills/figures/scripts/run.sh");
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).expect("a run bit");
    succeeds(scenario.run(&[".", "Go", "--approval", "approve_all"]));
    assert_eq!(ending(&scenario, 0)["output"]["stdout"], "shown\n", "{}", ending(&scenario, 0));
    let refused = failure(&scenario, 1);
    assert!(
        refused.contains("run it with its interpreter: `sh /skills/figures/scripts/show.sh`"),
        "{refused}"
    );
    assert_eq!(ending(&scenario, 2)["output"]["stdout"], "run\n", "{}", ending(&scenario, 2));
    assert_ne!(ending(&scenario, 3)["output"]["exit_code"], 0, "{}", ending(&scenario, 3));
    assert_eq!(scenario.read("skills/figures/scripts/show.sh").as_deref(), Some("#!/bin/sh\necho shown\n"));
}

#[test]
fn check_says_which_skills_cannot_be_used() {
    let scenario = Scenario::new()
        .file("main.worker", &main_worker("skills: {paths: [skills, more, none, ../x]}, filesystem: {}"))
        .file("s.yaml", "answers: [{text: done}]\n")
        .file("skills/figures/SKILL.md", SKILL)
        .file(
            "skills/big/SKILL.md",
            &format!("---\nname: big\ndescription: d\n---\n{}", "x".repeat(10 << 20)),
        )
        .file("skills/bad/SKILL.md", "---\nname: bad\ndescription: \"a\\e[2Jb\"\n---\n")
        .file("more/figures/SKILL.md", SKILL);
    let told = scenario.run(&["check", "."]);
    assert_eq!(told.code, Some(2), "{told}");
    for part in [
        "`skills/big/SKILL.md` has",
        "has control characters or invisible ones",
        "two skills are named `figures`",
        "the folder of skills `none` cannot be used: it does not exist",
        "the folder of skills `../x` cannot be used: it is outside the root",
        "the skill has no file `references/regions.md`",
    ] {
        assert!(told.stderr.contains(part) || told.stdout.contains(part), "`{part}` is missing: {told}");
    }
    assert!(!told.stderr.contains('\u{1b}'), "{told}");
}

#[test]
fn skills_are_installed_pinned_listed_and_removed() {
    let pdf =
        "---\nname: pdf\ndescription: Fills in forms.\nmetadata: {version: \"1.2\"}\n---\nRead the form.\n";
    let mail = "---\nname: mail\ndescription: Writes mails.\n---\nBe brief.\n";
    let calls = [("skill", json!({"name": "pdf"})), read("/skills/pdf/references/forms.md")];
    let scenario = calling("skills: {}, filesystem: {}", SKILL, &calls)
        .file("../theirs/skills/pdf/SKILL.md", pdf)
        .file("../theirs/skills/pdf/references/forms.md", "Forms have fields.\n")
        .file("../theirs/skills/mail/SKILL.md", mail)
        .file("project.yaml", "name: report\ndependencies: [pdf]\n");
    let told = succeeds(scenario.run(&["lib", "install", "../theirs"]));
    assert!(
        told.stdout.contains("pdf@1.2  installed") && told.stdout.contains("mail@0  installed"),
        "{told}"
    );
    let told = succeeds(scenario.run(&["lib", "list"]));
    assert!(told.stdout.contains("Fills in forms."), "{told}");
    assert!(scenario.read("llm-do.lock").is_some_and(|lock| lock.contains("references/forms.md")));

    // A pinned skill is trusted, and a changed one is an error.
    let shown =
        succeeds(scenario.run(&["show", "main", "--project", ".", "--prompt", "Go", "--json"])).stdout;
    assert!(shown.contains("- pdf: Fills in forms."), "{shown}");
    succeeds(scenario.run(&[".", "Go"]));
    assert!(ending(&scenario, 1).to_string().contains("Forms have fields."));
    let forms = scenario.home().join("home/.llm-do/libs/pdf@1.2/references/forms.md");
    fs::write(&forms, "Obey.\n").expect("written");
    let told = scenario.run(&[".", "Go"]);
    assert!(told.code == Some(2) && told.stderr.contains("E0608"), "{told}");
    fs::write(&forms, "Forms have fields.\n").expect("written");

    // Without a pin it is untrusted.
    fs::remove_file(scenario.project().join("llm-do.lock")).expect("removed");
    let shown =
        succeeds(scenario.run(&["show", "main", "--project", ".", "--prompt", "Go", "--json"])).stdout;
    assert!(shown.contains("- pdf (from outside the program") && !shown.contains("Fills in"), "{shown}");
    succeeds(scenario.run(&[".", "Go"]));
    let journal = scenario.journal();
    let tainted = |path: &str| {
        let ended = journal.iter().find(|record| record["path"] == path && record["kind"] == "tool_ended");
        ended.expect("it ended")["origins"].to_string().contains("untrusted")
    };
    assert!(tainted("0/0.0") && tainted("0/1.0"), "{journal:#?}");

    // A skill without a version is replaced.
    let scenario = scenario.file("../theirs/skills/mail/SKILL.md", &mail.replace("brief", "polite"));
    let told = succeeds(scenario.run(&["lib", "install", "../theirs/skills/mail"]));
    assert!(told.stdout.contains("mail@0  replaced"), "{told}");
    succeeds(scenario.run(&["lib", "remove", "mail"]));
    assert!(!scenario.home().join("home/.llm-do/libs/mail@0").exists());
}

#[test]
fn an_exported_worker_is_a_skill_without_findings() {
    let scenario = Scenario::new()
        .file(
            "main.worker",
            "---\nmodel: script:s.yaml\nallow_workers: [reports/short_one]\n\
             toolsets: {skills: {paths: [.claude/skills]}}\n---\nGo.\n",
        )
        .file("s.yaml", "answers: [{json: {summary: Short}}]\n")
        .file(
            "workers/reports/short_one.worker",
            "---\nmodel: script:s.yaml\ndescription: \"Summarises: one text | in a sentence.\"\n\
             parameters: {text: {type: string, description: The text}, words: integer?}\n\
             returns: {summary: string}\n---\nSummarise {{ text }} {{ words }}\n",
        );
    let told =
        succeeds(scenario.run(&["lib", "export", "--skill", "reports/short_one", "-o", ".claude/skills"]));
    assert!(told.stdout.contains("reports-short-one/SKILL.md"), "{told}");
    let text = scenario.read(".claude/skills/reports-short-one/SKILL.md").expect("the skill");
    assert!(text.contains("| `text` | string | yes | The text |"), "{text}");
    let told = scenario.run(&["check", "."]);
    assert!(told.code == Some(0) && !told.stderr.contains("warning"), "{told}");
    // The command of the skill works as it is written.
    let command = text.lines().find(|line| line.starts_with("llm-do run ")).expect("a command");
    let line = command.replacen("llm-do", env!("CARGO_BIN_EXE_llm-do"), 1);
    let mut shell = scenario.command_of(std::path::Path::new("/bin/sh"));
    let ran = scenario.finished(shell.args(["-c", &line]).output().expect("it starts"));
    assert!(ran.code == Some(0) && ran.stdout.contains("Short"), "{ran}");
    let again = scenario.run(&["lib", "export", "--skill", "reports/short_one", "-o", ".claude/skills"]);
    assert!(again.code == Some(2) && again.stderr.contains("exists already"), "{again}");
    let told = scenario.run(&["lib", "export", "--skill", "main", "-o", "out"]);
    assert!(told.code == Some(2) && told.stderr.contains("has no `description`"), "{told}");
}

#[test]
fn a_worker_in_a_folder_inserts_the_agents_file_of_the_root() {
    let scenario = Scenario::new();
    succeeds(scenario.run(&["init", "notes"]));
    let agents = scenario.read("notes/AGENTS.md").expect("the file");
    assert!(agents.starts_with("# notes\n") && agents.contains("llm-do check"), "{agents}");
    let scenario = scenario.file(
        "notes/workers/reviewer.worker",
        "---\ndescription: Reviews.\n---\nReview.\n{{ file(\"AGENTS.md\") }}\n",
    );
    let shown = succeeds(scenario.run(&["show", "reviewer", "--project", "notes", "--prompt", "Go"]));
    assert!(shown.stdout.contains("Run `llm-do check` after every change"), "{shown}");
}

#[test]
fn a_linked_skill_is_one_skill_and_a_link_out_of_the_project_is_an_error() {
    let scenario = calling("skills: {}, filesystem: {}", SKILL, &[load()]);
    fs::create_dir_all(scenario.project().join(".claude/skills")).expect("a folder");
    symlink("../../skills/figures", scenario.project().join(".claude/skills/figures")).expect("a link");
    succeeds(scenario.run(&["check", "."]));
    let scenario = scenario.file("../theirs/evil/SKILL.md", "---\nname: evil\ndescription: d\n---\n");
    symlink("../../theirs/evil", scenario.project().join("skills/evil")).expect("a link");
    let told = scenario.run(&[".", "Go"]);
    assert!(told.code == Some(2) && told.stderr.contains("E0723"), "{told}");
}
