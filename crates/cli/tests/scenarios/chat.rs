//! `llm-do chat`: over pipes, on a terminal, left and resumed; workers that talk to the user in the middle of a run.

use crate::{chat_terminal::chat, emulator::Emulator, scenario::Scenario, terminal_session::Session};
use insta::assert_snapshot;
use serde_json::{Value, json};

/// A script that gives one answer after the other.
const ANSWERS: &str = "\
answers:
  - when: {turn: 0}
    text: \"Hello **Ann**.\"
    usage: {input_tokens: 10, output_tokens: 3}
  - when: {turn: 1}
    text: You are Ann.
  - when: {turn: 2}
    text: third
  - text: more
";

fn greeter() -> Scenario {
    Scenario::new()
        .file("hi.worker", "---\nmodel: script:s.yaml\n---\nBe friendly.\n")
        .file("s.yaml", ANSWERS)
}

/// Returns the user's turns from the journal: the step, and the answer.
fn turns(journal: &[Value]) -> Vec<(String, Value)> {
    let answered = journal.iter().filter(|record| record["kind"] == "answered");
    answered
        .map(|record| (record["step"].as_str().unwrap_or_default().to_owned(), record["value"].clone()))
        .collect()
}

#[test]
fn a_pipe_gives_one_turn_a_line() {
    let scenario = greeter();
    let done = scenario.run_with_stdin(&["chat", "hi.worker"], "I am Ann.\nWho am I?\n\n/cost\n");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(done.stdout, "hi: Hello **Ann**.\nhi: You are Ann.\n");
    assert!(done.stderr.contains("hi  script:s.yaml  10 in, 3 out"), "{}", done.stderr);
    let journal = scenario.journal_of_home();
    assert_eq!(journal[0]["chat"], json!(true));
    assert_eq!(turns(&journal), [("message.1".to_owned(), json!("Who am I?"))]);
}

#[test]
fn a_chat_is_left_resumed_and_replayed() {
    let scenario = greeter();
    let first = scenario.run_with_stdin(&["chat", "hi.worker"], "I am Ann.\n");
    assert!(first.stderr.contains("continues this chat"), "{}", first.stderr);
    let again = scenario.run_with_stdin(&["chat", "--continue"], "Who am I?\n");
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert_eq!(again.stdout, "you: I am Ann.\nhi: Hello **Ann**.\nhi: You are Ann.\n");
    let replayed = scenario.run(&["runs", "replay", "last"]);
    assert_eq!(replayed.code, Some(0), "{}{}", replayed.stdout, replayed.stderr);
    let listed = scenario.run(&["runs", "list", "--chats"]);
    assert!(listed.stdout.contains("chat") && listed.stdout.lines().count() == 1, "{}", listed.stdout);
}

#[test]
fn undone_messages_are_gone_and_stay_in_the_journal() {
    let scenario = greeter();
    let done = scenario.run_with_stdin(&["chat", "hi.worker"], "one\ntwo\n/undo\nother\n/save talk.md\n");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let saved = scenario.read("talk.md").unwrap_or_default();
    assert_eq!(saved, "## You\n\none\n\n## hi\n\nHello **Ann**.\n\n## You\n\nother\n\n## hi\n\nthird\n\n");
    let journal = scenario.journal_of_home();
    let answers: Vec<&Value> = journal
        .iter()
        .filter(|record| record["kind"] == "answered")
        .map(|record| &record["answer"])
        .collect();
    assert_eq!(answers, [&json!("give"), &json!("undo"), &json!("give")]);
    // Turn numbers are not used again.
    let requests: Vec<&Value> = journal
        .iter()
        .filter(|record| record["kind"] == "model_requested")
        .map(|record| &record["turn"])
        .collect();
    assert_eq!(requests, [&json!(0), &json!(1), &json!(2)]);
}

#[test]
fn a_run_waits_for_the_next_message_and_takes_it_from_the_command_line() {
    let scenario = greeter();
    scenario.run_with_stdin(&["chat", "hi.worker"], "I am Ann.\n");
    let resumed = scenario.run(&["runs", "resume", "last", "--answer", "0:message.1=\"Who am I?\""]);
    assert_eq!(resumed.code, Some(5), "{}{}", resumed.stdout, resumed.stderr);
    let more = scenario.run_with_stdin(&["chat", "--resume", "last"], "");
    assert_eq!(more.stdout, "you: I am Ann.\nhi: Hello **Ann**.\nyou: Who am I?\nhi: You are Ann.\n");
}

#[test]
fn what_is_no_chat_is_not_resumed_as_one() {
    let scenario = greeter();
    scenario.run(&["hi.worker", "hello"]);
    let none = scenario.run(&["chat", "--continue"]);
    assert_eq!(none.code, Some(2));
    assert!(none.stderr.contains("no chat in"), "{}", none.stderr);
    let wrong = scenario.run(&["chat", "--resume", "last"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("is no chat"), "{}", wrong.stderr);
}

#[test]
fn mistyped_commands_are_not_sent() {
    let scenario = greeter();
    let done = scenario.run_with_stdin(&["chat", "hi.worker"], "hello\n/hepl\n//etc is a folder\n");
    assert!(done.stderr.contains("Did you mean /help?"), "{}", done.stderr);
    assert_eq!(turns(&scenario.journal_of_home()), [("message.1".to_owned(), json!("/etc is a folder"))]);
}

#[test]
fn on_a_terminal_the_composer_stays_below_the_transcript() {
    let scenario = greeter();
    let mut session = Session::start(scenario.command_on_terminal(&["chat", "hi.worker"]));
    session.expect("/help shows the commands");
    session.type_keys("I am Ann.\r");
    session.expect("Hello ");
    session.expect("Ann");
    session.expect("> ");
    session.type_keys("Who am I?\r");
    session.expect("You are Ann.");
    session.type_keys("\u{4}");
    session.expect("continues this chat");
    assert_eq!(session.end().0, Some(0));
}

/// A writer that asks before it writes.
fn writer() -> Scenario {
    Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\ntoolsets: [filesystem]\n---\nWrite.\n")
        .file(
            "s.yaml",
            "answers:\n  - when: {turn: 0}\n    calls: [{tool: write_file, arguments: {path: a.txt, content: a}}]\n  \
             - when: {turn: 1}\n    text: written\n  - text: more\n",
        )
}

#[test]
fn a_question_takes_no_key_before_it_is_given_the_focus() {
    let scenario = writer();
    let mut session = Session::start(scenario.command_on_terminal(&["chat", "main.worker"]));
    session.expect("/help");
    session.type_keys("write it\r");
    session.expect("wants to call write_file  (risk: write)");
    // Keys of answers go to the draft.
    session.type_keys("aaa");
    session.expect("aaa");
    assert_eq!(scenario.read("a.txt"), None);
    // Ctrl-G gives the focus to the question.
    session.type_keys("\u{7}a");
    session.expect("written");
    assert_eq!(scenario.read("a.txt").as_deref(), Some("a"));
    // The draft is still there.
    session.type_keys("\r");
    session.expect("more");
    session.type_keys("\u{4}");
    assert_eq!(session.end().0, Some(0));
    assert_eq!(turns(&scenario.journal())[1].1, json!("aaa"));
}

#[test]
fn ctrl_c_stops_the_answer_and_not_the_chat() {
    let scenario = Scenario::new().file("hi.worker", "---\nmodel: script:s.yaml\n---\nBe friendly.\n").file(
        "s.yaml",
        "answers:\n  - when: {turn: 0}\n    delay_ms: 600000\n    text: never\n  - text: here again\n",
    );
    let mut session = Session::start(scenario.command_on_terminal(&["chat", "hi.worker"]));
    session.expect("/help");
    session.type_keys("go\r");
    session.expect("answering");
    session.type_keys("\u{3}");
    session.type_keys("back?\r");
    session.expect("here again");
    session.type_keys("\u{4}");
    assert_eq!(session.end().0, Some(0));
    let journal = scenario.journal_of_home();
    let finishes: Vec<&Value> = journal
        .iter()
        .filter(|record| record["kind"] == "model_answered")
        .map(|record| &record["finish"])
        .collect();
    assert_eq!(finishes, [&json!("stopped"), &json!("stop")]);
}

/// A planner whose interviewer talks to the user.
fn planner() -> Scenario {
    Scenario::new()
        .file("project.yaml", "entry: main\n")
        .file("main.worker", "---\nmodel: script:main.yaml\nallow_workers: [interview]\n---\nPlan.\n")
        .file(
            "main.yaml",
            "answers:\n  - when: {turn: 0}\n    calls: [{tool: interview, arguments: {input: a trip}}]\n  - text: planned\n",
        )
        .file(
            "workers/interview.worker",
            "---\nmodel: script:interview.yaml\nmode: chat\ninteraction: user\nreturns: {city: string}\n---\nAsk.\n",
        )
        .file(
            "interview.yaml",
            "answers:\n  - when: {turn: 0}\n    text: Where to?\n  - when: {turn: 1}\n    text: Really?\n  - calls: [{tool: finish, arguments: {city: Rome}}]\n",
        )
}

#[test]
fn a_worker_talks_to_the_user_in_the_middle_of_a_chat() {
    let scenario = planner();
    let done = scenario.run_with_stdin(&["chat", "--project", "."], "Plan a trip.\nRome\nyes\n");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(done.stdout, "interview: Where to?\ninterview: Really?\nmain: planned\n");
    assert!(done.stderr.contains("main → interview talks to you"), "{}", done.stderr);
}

#[test]
fn without_a_user_the_interview_fails_at_once() {
    let scenario = planner();
    let done = scenario.run(&["--project", ".", "Plan a trip."]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let journal = scenario.journal();
    let failed = journal.iter().find(|record| record["kind"] == "call_ended" && record["path"] != "0");
    let message = failed.map(|record| record["ending"]["failure"]["message"].to_string()).unwrap_or_default();
    assert!(message.contains("no user can be reached in this run"), "{message}");
}

#[test]
fn a_deferred_interview_is_answered_turn_by_turn() {
    let scenario = planner();
    let deferred = scenario.run(&["--project", ".", "Plan a trip.", "--approval", "defer"]);
    assert_eq!(deferred.code, Some(5), "{}", deferred.stderr);
    assert!(deferred.stderr.contains("0/0.0:message.1"), "{}", deferred.stderr);
    let next = scenario.run(&["runs", "resume", "last", "--answer", "0/0.0:message.1=\"Rome\""]);
    assert_eq!(next.code, Some(5), "{}", next.stderr);
    let last = scenario.run(&["runs", "resume", "last", "--answer", "0/0.0:message.2=\"yes\""]);
    assert_eq!((last.code, last.stdout.as_str()), (Some(0), "planned\n"), "{}", last.stderr);
}

/// A chat that defers approvals does not ask, and says where the decision belongs.
#[test]
fn a_chat_that_defers_says_how_to_decide() {
    let write = json!({"calls": [{"tool": "write_file", "arguments": {"path": "a.txt", "content": "a"}}]});
    let scenario = chat(&[write]);
    let told = scenario.run_with_stdin(&["chat", "hi.worker", "--approval", "defer"], "write it\n");
    assert_snapshot!(told.stderr, @"
    note: chat with hi; /help shows the commands
    note: deferred: hi wants to call write_file  (risk: write)
    note: decide with `llm-do runs resume [RUN] --approve 0/0.0` or `--deny 0/0.0`
    note: llm-do chat --resume [RUN] continues this chat
    ");
    let again = scenario.run_with_stdin(&["chat", "--continue"], "");
    assert!(again.stderr.contains("--approve 0/0.0"), "{again}");
    let quiet = scenario.run_with_stdin(&["chat", "--continue", "--quiet"], "");
    assert!(quiet.stderr.contains("--approve 0/0.0"), "{quiet}");
    let decided = scenario.run(&["runs", "resume", "last", "--approve", "0/0.0"]);
    assert_eq!(scenario.read("a.txt").as_deref(), Some("a"), "{decided}");
}

/// Outside of a chat, too: the composer, commands, and a run that is left and continued.
#[test]
fn a_run_on_a_terminal_gives_a_conversation_what_a_chat_has() {
    let scenario = planner();
    let mut window =
        Emulator::start(scenario.command_on_terminal(&["--project", ".", "Plan a trip."]), 80, 24);
    window.wait_for("Where to?");
    window.wait_for_prompt("main");
    assert!(window.shows("main → interview · script:interview.yaml"), "{}", window.picture());
    window.type_keys("/fork\r");
    window.wait_for("/fork is for a chat, and this is a run of main");
    window.type_keys("Rome,\nor not\r");
    window.wait_for("Really?");
    window.wait_for_prompt("main");
    assert_eq!(window.leave(), Some(5));
    let heard = |scenario: &Scenario| {
        let journal = scenario.journal().into_iter();
        let answers = journal.filter(|record| record["kind"] == "answered");
        answers.map(|record| record["value"].clone()).collect::<Vec<Value>>()
    };
    assert_eq!(heard(&scenario), ["Rome,\nor not"]);
    let mut window = Emulator::start(scenario.command_on_terminal(&["runs", "resume", "last"]), 80, 24);
    window.wait_for(" continues");
    assert!(window.shows("or not") && window.shows("Really?"), "{}", window.picture());
    window.wait_for_prompt("main");
    window.type_keys("/done\r");
    let (code, shown) = window.end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("planned") && shown.contains("done in"), "{shown}");
    let replayed = scenario.run(&["runs", "replay", "last"]);
    assert_eq!(replayed.code, Some(0), "{replayed}");
}

#[test]
fn ctrl_c_takes_a_question_away_and_not_the_chat() {
    let scenario = Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\ninteraction: user\n---\nAsk.\n")
        .file(
            "s.yaml",
            "answers:\n  - when: {turn: 0}\n    calls: [{tool: ask_user, arguments: {question: Which colour?}}]\n  - text: still here\n",
        );
    let mut session = Session::start(scenario.command_on_terminal(&["chat", "main.worker"]));
    session.expect("/help");
    session.type_keys("go\r");
    session.expect("Which colour?");
    session.type_keys("\u{3}");
    session.expect("✗ ask_user");
    session.type_keys("hello\r");
    session.expect("still here");
    session.type_keys("\u{4}");
    assert_eq!(session.end().0, Some(0));
}

#[test]
fn ask_user_takes_a_choice_in_the_middle_of_a_chat() {
    let scenario = Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\ninteraction: user\n---\nAsk.\n")
        .file(
            "s.yaml",
            "answers:\n  - when: {turn: 0}\n    calls: [{tool: ask_user, arguments: {question: Which colour?, choices: [red, blue]}}]\n  - text: thanks\n",
        );
    let done = scenario.run_with_stdin(&["chat", "main.worker"], "go\n2\n");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(
        done.stdout.contains("Which colour?") && done.stdout.ends_with("main: thanks\n"),
        "{}",
        done.stdout
    );
    let answers: Vec<Value> = turns(&scenario.journal()).into_iter().map(|(_, value)| value).collect();
    assert_eq!(answers, [json!("blue")]);
}

#[test]
fn a_worker_two_calls_deep_asks_the_user() {
    let worker = |more: &str| format!("---\nmodel: script:s.json\n{more}---\nWork.\n");
    let call = |tool: &str, arguments: Value| json!({"calls": [{"tool": tool, "arguments": arguments}]});
    let says = |worker: &str, turn: usize, answer: Value| {
        let mut answer = answer;
        answer["when"] = json!({"worker": worker, "turn": turn});
        answer
    };
    let ask = |question: &str| call("ask_user", json!({"question": question}));
    let answers = json!({"answers": [
        says("main", 0, call("plan", json!({"input": "a trip"}))),
        says("plan", 0, call("clerk", json!({"input": "book it"}))),
        says("clerk", 0, ask("Which train?")),
        says("clerk", 1, ask("Which seat?")),
        says("clerk", 2, json!({"text": "booked"})),
        says("plan", 1, json!({"text": "planned"})),
        says("main", 1, json!({"text": "All is {{ last }}."})),
    ]});
    let scenario = Scenario::new()
        .file("project.yaml", "entry: main\n")
        .file("main.worker", &worker("allow_workers: [plan]\n"))
        .file("workers/plan.worker", &worker("allow_workers: [clerk]\n"))
        .file("workers/clerk.worker", &worker("interaction: user\n"))
        .file("s.json", &answers.to_string());
    // The chat is left at the second question and goes on there.
    let first = scenario.run_with_stdin(&["chat", "."], "go\nthe early one\n");
    assert!(first.stdout.contains("main → plan → clerk asks:"), "{first}");
    let second = scenario.run_with_stdin(&["chat", "--continue"], "at the window\n");
    assert_eq!(second.code, Some(0), "{second}");
    assert!(second.stdout.ends_with("main: All is planned.\n"), "{second}");
    let answers: Vec<Value> = turns(&scenario.journal()).into_iter().map(|(_, value)| value).collect();
    assert_eq!(answers, [json!("the early one"), json!("at the window")]);
}
