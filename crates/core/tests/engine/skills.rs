//! Skills: their texts and files, and the calls that remain after one is loaded.

use crate::world::{Ran, Script, World, calls, mount, rule, text, tool, worker_with_tools};
use llm_do_core::{
    authority::{Access, Place},
    function::Risk,
    gate::{Mode, Policy, Rule},
    journal::RecordKind,
    origin::Origin,
    question::Answer,
    toolsets::skills::{Skill, SkillFolder, with_skills},
    worker::WorkerDefinition,
};
use serde_json::{Value, json};
use std::sync::Arc;

fn skill(name: &str, allowed: Option<&[&str]>) -> Skill {
    Skill {
        name: name.into(),
        description: "Fills in forms.".into(),
        instructions: "Read the form first.".into(),
        files: vec!["references/forms.md".into()],
        allowed_tools: allowed.map(|tools| tools.iter().map(|&tool| tool.into()).collect()),
        folder: SkillFolder::Installed(Place::new("/program/skills").join(name)),
        untrusted: false,
    }
}

/// A worker with the tools of the test, the file tools, and these skills.
fn main_with(skills: &[Skill]) -> WorkerDefinition {
    let mut main = worker_with_tools("main");
    let mut configuration = json!({});
    with_skills(&mut configuration, skills);
    main.toolsets.push(("skills".into(), Arc::new(configuration)));
    main.toolsets.push(("filesystem".into(), Arc::new(json!({}))));
    main
}

/// A world in which the operator pre-approves everything, and answers no question.
fn world() -> World {
    let mut world = World::new()
        .tool(tool("send", Risk::Exec, |_| Ok(json!("sent"))))
        .tool(tool("look", Risk::Read, |_| Ok(json!("seen"))))
        .file("skills/pdf/references/forms.md", "Forms have fields.")
        .file("notes.md", "Notes.");
    world.gate.mode = Mode::AutoDeny;
    world.gate.operator = vec![rule("*", Rule::PreApproved)];
    world.gate.project = Policy { lines: vec![rule("*", Rule::PreApproved)], ..Policy::default() };
    world
}

fn load(name: &str) -> (&str, Value) {
    ("skill", json!({"name": name}))
}

fn results(skills: &[Skill], script: Script) -> Vec<(String, bool)> {
    world().worker(main_with(skills), script).run(json!({})).results()
}

/// The names of the functions whose calls were refused.
fn refused(ran: &Ran) -> Vec<String> {
    let blocked = ran.verdicts().into_iter().filter(|(_, rule, _)| *rule == Rule::Blocked);
    blocked.map(|(path, _, _)| path).collect()
}

#[test]
fn a_model_loads_a_skill_and_reads_its_files() {
    let script = vec![
        calls([load("pdf")]),
        calls([("read_file", json!({"path": "/skills/pdf/references/forms.md"})), load("none")]),
        text("Done."),
    ];
    let ran = world().worker(main_with(&[skill("pdf", None)]), script).run(json!({}));
    assert!(ran.first("main").tools.iter().any(|tool| tool == "skill"));
    let [file, none] = &ran.results()[..] else { panic!("two results") };
    assert!(file.0.contains("Forms have fields.") && !file.1, "{file:?}");
    assert_eq!(none, &("There is no skill `none`. The skills are: pdf.".to_owned(), true));
}

#[test]
fn the_folder_of_a_skill_can_only_be_read() {
    let script = vec![
        calls([("write_file", json!({"path": "/skills/pdf/references/forms.md", "content": "Obey."}))]),
        text("Done."),
    ];
    let [(message, true)] = &results(&[skill("pdf", None)], script)[..] else { panic!("it is refused") };
    assert!(message.contains("/skills/pdf"), "{message}");
}

#[test]
fn a_loaded_skill_narrows_what_follows_to_its_tools() {
    let send = ("send", json!({"to": "a"}));
    let script = vec![
        calls([send.clone()]),
        // The model has made this call before it has read the skill.
        calls([load("pdf"), send.clone()]),
        calls([
            ("look", json!({})),
            ("read_file", json!({"path": "/skills/pdf/references/forms.md"})),
            ("read_file", json!({"path": "/notes.md"})),
            load("pdf"),
            send,
        ]),
        text("Done."),
    ];
    let ran = world().worker(main_with(&[skill("pdf", Some(&["look"]))]), script).run(json!({}));
    assert_eq!(refused(&ran), ["0/2.2", "0/2.4"]);
    let results = ran.results();
    let failed: Vec<bool> = results.iter().map(|(_, failed)| *failed).collect();
    assert_eq!(failed, [false, false, true, false, true], "{results:?}");
}

#[test]
fn no_rule_of_the_operator_widens_it_and_an_answer_does() {
    let script = vec![calls([load("pdf")]), calls([("send", json!({}))]), text("Done.")];
    let mut world = world().worker(main_with(&[skill("pdf", Some(&[]))]), script);
    world.gate.mode = Mode::Interactive;
    let ran = world.asking([Answer::Approve { remember: false }]).run(json!({}));
    assert_eq!(ran.results(), [("sent".to_owned(), false)]);
    assert_eq!(ran.asks.len(), 1);
}

#[test]
fn a_skill_never_allows_a_call() {
    let script = vec![calls([load("pdf")]), calls([("send", json!({}))]), text("Done.")];
    let mut world = World::new()
        .tool(tool("send", Risk::Exec, |_| Ok(json!("sent"))))
        .worker(main_with(&[skill("pdf", Some(&["send", "*"]))]), script);
    world.gate.mode = Mode::AutoDeny;
    let ran = world.run(json!({}));
    assert_eq!(ran.made().len(), 1, "only the skill was loaded: {:?}", ran.results());
}

#[test]
fn a_called_worker_is_narrowed_like_its_caller() {
    let mut main = main_with(&[skill("pdf", Some(&["helper"]))]);
    main.allow_workers = vec!["helper".into()];
    main.toolsets.push(("workers".into(), Arc::new(json!({}))));
    let ran = world()
        .worker(main, vec![calls([load("pdf")]), calls([("helper", json!({"input": "x"}))]), text("Done.")])
        .worker(worker_with_tools("helper"), vec![calls([("send", json!({}))]), text("Refused.")])
        .run(json!({}));
    let [(message, true)] = &ran.results_of("helper")[..] else { panic!("it is refused") };
    assert!(message.contains("needs an approval"), "{message}");
}

#[test]
fn two_skills_leave_what_both_allow() {
    let script = vec![
        calls([load("pdf"), load("mail")]),
        calls([("look", json!({})), ("send", json!({}))]),
        text("Done."),
    ];
    let skills = [skill("pdf", Some(&["look", "send"])), skill("mail", Some(&["look"]))];
    let failed: Vec<bool> = results(&skills, script).into_iter().map(|(_, failed)| failed).collect();
    assert_eq!(failed, [false, true]);
}

#[test]
fn words_of_others_taint_and_narrow_too() {
    let theirs = Skill { untrusted: true, ..skill("theirs", Some(&["look"])) };
    let script = vec![calls([load("theirs")]), calls([("send", json!({}))]), text("Done.")];
    let ran = world().worker(main_with(&[theirs]), script).run(json!({}));
    assert!(ran.error().contains("needs an approval"));
    let origins = ran.records.iter().find_map(|record| match &record.body {
        RecordKind::ToolEnded { origins, .. } => Some(origins.greatest()),
        _ => None,
    });
    assert_eq!(origins, Some(Origin::Untrusted));
}

#[test]
fn a_mount_beside_a_skill_stays_as_it_is() {
    let mut main = main_with(&[skill("pdf", None)]);
    main.sandbox.narrowing.declared = true;
    main.sandbox.narrowing.mounts = vec![mount("/data", "data", Access::Write)];
    let script = vec![
        calls([
            ("read_file", json!({"path": "/skills/pdf/references/forms.md"})),
            ("read_file", json!({"path": "/notes.md"})),
            ("write_file", json!({"path": "/data/a.txt", "content": "a"})),
        ]),
        text("Done."),
    ];
    let ran = world().worker(main, script).run(json!({}));
    let failed: Vec<bool> = ran.results().into_iter().map(|(_, failed)| failed).collect();
    assert_eq!(failed, [false, true, false]);
}
