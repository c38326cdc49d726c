//! Commands (docs/guides/shell.md): what the rules, the operator and the kernel allow, and what the model is told.

use crate::{
    scenario::{Finished, Scenario},
    terminal_session::Session,
};
use llm_do_core::rule::DecidedBy;
use serde_json::{Value, json};
use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

/// A secret that no command may read.
const SECRET: &str = "plainly-secret-4410";

/// A timeout, long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A project whose model runs these commands one after another, with files to read, a folder to write in, and secrets.
fn project(shell: &str, commands: &[&str]) -> Scenario {
    let calls: Vec<Value> =
        commands.iter().map(|command| json!({"tool": "shell", "arguments": {"command": command}})).collect();
    calling(shell, &calls)
}

fn calling(shell: &str, calls: &[Value]) -> Scenario {
    let mut answers: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(turn, call)| json!({"when": {"turn": turn}, "calls": [call]}))
        .collect();
    answers.push(json!({"text": "done"}));
    let worker = format!(
        "---\nmodel: script:s.yaml\ntoolsets: {{shell: {shell}}}\n\
         sandbox: {{root: ./data, paths: {{out: {{root: ./out, mode: rw}}}}}}\n---\nGo.\n"
    );
    Scenario::new()
        .file("main.worker", &worker)
        .file("s.yaml", &json!({ "answers": answers }).to_string())
        .file("data/a.txt", "one\ntwo\n")
        .file("data/b.txt", "three\n")
        .file("data/notes/c.txt", "four\n")
        .file("data/.env", SECRET)
        .file("private/key.txt", SECRET)
        .file("out/.keep", "")
        .env("OPENAI_API_KEY", SECRET)
}

/// Runs the project, which must succeed.
fn succeed(scenario: &Scenario, arguments: &[&str]) -> Finished {
    let told = scenario.run(arguments);
    assert_eq!(told.code, Some(0), "{told}");
    told
}

/// The result of the command of this turn, or the reason why it did not run.
fn ending(scenario: &Scenario, turn: usize) -> Value {
    let path = format!("0/{turn}.0");
    let journal = scenario.journal();
    let last = journal.iter().rev().find(|record| {
        record["path"] == path.as_str()
            && ["tool_ended", "call_ended"].contains(&record["kind"].as_str().unwrap_or_default())
    });
    last.unwrap_or_else(|| panic!("no end of {path} in {journal:#?}"))["ending"].clone()
}

fn output(scenario: &Scenario, turn: usize) -> Value {
    let ending = ending(scenario, turn);
    assert!(ending.get("output").is_some(), "turn {turn} failed: {ending:#}");
    ending["output"].clone()
}

fn printed(scenario: &Scenario, turn: usize) -> String {
    let output = output(scenario, turn);
    assert_eq!(output["exit_code"], 0, "{output}");
    output["stdout"].as_str().expect("a text").to_owned()
}

fn failure(scenario: &Scenario, turn: usize) -> String {
    let ending = ending(scenario, turn);
    match ending["failure"]["message"].as_str() {
        Some(message) => scenario.steady(message),
        None => panic!("turn {turn} did not fail: {ending:#}"),
    }
}

/// The rule that decided, and its source.
fn verdict(scenario: &Scenario, turn: usize) -> (String, String) {
    let path = format!("0/{turn}.0");
    let journal = scenario.journal();
    let mut verdicts =
        journal.iter().filter(|record| record["path"] == path.as_str() && record["kind"] == "verdict");
    let last = verdicts.next_back().unwrap_or_else(|| panic!("no verdict at {path} in {journal:#?}"));
    let by: DecidedBy = serde_json::from_value(last["by"].clone()).expect("who decided");
    (last["rule"].as_str().expect("a rule").to_owned(), by.to_string())
}

fn holds(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

const LOOKING: &str = "{rules: [{pattern: cat, approval_required: false}, {pattern: ls, approval_required: false}, \
     {pattern: git diff, approval_required: false}, {pattern: touch}, {pattern: find, approval_required: false}]}";

#[test]
fn disallowed_command_is_refused_with_the_list_of_allowed_ones() {
    let scenario =
        project(LOOKING, &["cat a.txt /notes/c.txt", "wc a.txt", "lsblk", "git difftool", "cat nothing"]);
    succeed(&scenario, &["."]);
    assert_eq!(printed(&scenario, 0), "one\ntwo\nfour\n");
    assert_eq!(verdict(&scenario, 0), ("preApproved".into(), "toolsets.shell.rules[0] (cat)".into()));
    for (turn, program) in [(1, "wc"), (2, "lsblk"), (3, "git")] {
        let said = failure(&scenario, turn);
        holds(&said, &["blocked", &format!("`{program}`"), "`cat`, `ls`, `git diff`, `touch`, `find`"]);
        assert_eq!(verdict(&scenario, turn).0, "blocked");
    }
    let result = output(&scenario, 4);
    assert_eq!((&result["exit_code"], &result["stdout"]), (&json!(1), &json!("")));
    holds(result["stderr"].as_str().expect("a text"), &["nothing", "No such file"]);
}

#[test]
fn shell_syntax_is_refused_with_an_alternative() {
    let commands = [
        "cat a.txt | wc -l",
        "cat a.txt > out/x",
        "cat $HOME",
        "cat `ls`",
        "ls; ls",
        "X=1 ls",
        "ls ~",
        "ls 'x",
    ];
    let scenario = project(LOOKING, &commands);
    // Refused even where the operator allows everything: there is nothing to run.
    succeed(&scenario, &[".", "--approval", "approve_all", "--allow", "shell"]);
    let instead = [
        "once for each program",
        "write_file",
        "write the value itself",
        "call shell for it first",
        "once for each command",
        "write the program first",
        "from `/`",
        "is not closed",
    ];
    for (turn, instead) in instead.iter().enumerate() {
        holds(&failure(&scenario, turn), &[instead]);
    }
    assert_eq!(scenario.read("out/x"), None);
}

#[test]
fn wildcards_expand_to_visible_files() {
    let scenario = project(LOOKING, &["cat *.txt", "ls */*", "ls '*.txt'", "ls *.md", "cat .e*"]);
    succeed(&scenario, &["."]);
    assert_eq!(printed(&scenario, 0), "one\ntwo\nthree\n");
    assert_eq!(printed(&scenario, 1), "notes/c.txt\n");
    assert_ne!(output(&scenario, 2)["exit_code"], 0);
    holds(&failure(&scenario, 3), &["nothing fits `*.md`"]);
    holds(&failure(&scenario, 4), &["nothing fits `.e*`"]);
}

#[test]
fn command_that_needs_an_approval_is_refused_without_a_terminal() {
    let scenario = project(LOOKING, &["touch /out/x", "find . -delete", "find . -name a.txt"]);
    succeed(&scenario, &["."]);
    for turn in [0, 1] {
        holds(&failure(&scenario, turn), &["needs an approval"]);
    }
    assert_eq!(printed(&scenario, 2), "./a.txt\n");
    assert!(scenario.read("out/x").is_none() && scenario.read("data/a.txt").is_some());
}

#[test]
fn approval_prompt_shows_the_reason() {
    let scenario = project(LOOKING, &["touch /out/x", "find /out -name x -delete"]);
    let mut session = Session::start(scenario.command_on_terminal(&["."]));
    session.expect("main wants to call shell  (risk: exec)");
    session.expect("toolsets.shell.rules[3] (touch)");
    session.expect("touch /out/x");
    session.expect_prompt();
    assert_eq!(scenario.read("out/x"), None);
    session.type_keys("a");
    session.expect("`find -delete` runs another program, deletes");
    session.expect("find /out -name x -delete");
    session.expect_prompt();
    session.type_keys("d");
    session.expect("reason");
    session.type_keys("\r");
    let (code, shown) = session.end();
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(scenario.read("out/x").as_deref(), Some(""));
    assert_eq!(printed(&scenario, 0), "");
}

#[test]
fn operator_rules_match_unquoted_words() {
    let all = "{default: {approval_required: false}}";
    let scenario = project(all, &["rm out/x", "r''m  \"-f\" /out/x", "'rm -f' x", "cat a.txt"]);
    succeed(&scenario, &[".", "--deny", "shell(rm *)"]);
    for turn in [0, 1] {
        holds(&failure(&scenario, turn), &["blocked"]);
    }
    holds(&failure(&scenario, 2), &["no program `rm -f`"]);
    assert_eq!(printed(&scenario, 3), "one\ntwo\n");
}

#[test]
fn sandbox_paths_of_a_rule_confine_its_commands() {
    let places = "{rules: [{pattern: cat, approval_required: false, sandbox_paths: [/notes]}]}";
    let scenario = project(places, &["cat notes/c.txt", "cat ./a.txt", "cat a.txt", "cat notes/../a.txt"]);
    succeed(&scenario, &["."]);
    assert_eq!(printed(&scenario, 0), "four\n");
    for turn in [1, 3] {
        holds(&failure(&scenario, turn), &["needs an approval"]);
    }
    assert_ne!(output(&scenario, 2)["exit_code"], 0, "the kernel holds what the words don't show");
}

#[test]
fn commands_see_no_files_outside_and_the_hint_names_the_key() {
    let all = "{default: {approval_required: false}}";
    let scenario = project(all, &[]);
    let outside = |path: &str| scenario.project().join(path).display().to_string();
    let (key, env) = (outside("private/key.txt"), outside("data/.env"));
    let commands = [
        format!("cat {key}"),
        format!("cat {env}"),
        "printenv".into(),
        format!("cp a.txt {key}"),
        "touch /usr/a.txt".into(),
    ];
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let script = fs::read_to_string(project(all, &commands).project().join("s.yaml")).expect("a script");
    let scenario = scenario.file("s.yaml", &script);
    succeed(&scenario, &["."]);
    for turn in 0..5 {
        let result = output(&scenario, turn);
        assert!(!result.to_string().contains(SECRET), "{result}");
        // A process sees a hidden file as an empty one.
        if ![1, 2].contains(&turn) {
            assert_ne!(result["exit_code"], 0, "{result}");
            holds(&result.to_string(), &["sandbox.paths"]);
        }
    }
    assert_eq!(fs::read_to_string(&key).expect("it is there"), SECRET);
    let env = printed(&scenario, 2);
    assert!(env.contains("PATH=") && !env.contains("API_KEY"), "{env}");
}

#[test]
fn network_needs_a_grant() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let all = "{default: {approval_required: false}}";
    let scenario = project(all, &[&format!("bash -c 'echo > /dev/tcp/127.0.0.1/{port}'")]);
    succeed(&scenario, &[".", "--approval", "approve_all"]);
    let result = output(&scenario, 0);
    assert_ne!(result["exit_code"], 0, "{result}");
    listener.set_nonblocking(true).expect("it does not wait");
    assert!(listener.accept().is_err(), "somebody has connected");
}

#[test]
fn long_running_commands_and_long_output_are_cut() {
    let all = "{default: {approval_required: false}, timeout: 2s}";
    let mark = format!("97{}.5", std::process::id());
    let scenario = project(
        all,
        &[
            &format!("sh -c 'echo begun; setsid sleep {mark} & sleep {mark}'"),
            "seq 200000",
            &format!("sh -c 'sleep {mark} & echo left'"),
        ],
    );
    succeed(&scenario, &[".", "--approval", "approve_all"]);
    let result = output(&scenario, 0);
    assert_eq!(result["ended"], "it ran for longer than 2 s and was ended");
    assert_eq!(result["stdout"], "begun\n");
    let result = output(&scenario, 1);
    // Long texts are stored beside the journal.
    let hash = result["stdout"]["$blob"]
        .as_str()
        .and_then(|name| name.strip_prefix("sha256:"))
        .expect("a long text");
    let run = scenario.runs().pop().expect("a run");
    let stdout = fs::read_to_string(run.join("blobs").join(hash)).expect("the text");
    assert!(stdout.starts_with("1\n2\n") && stdout.ends_with("\n200000\n") && stdout.len() < 20_000);
    holds(&stdout, &["bytes are left out here"]);
    assert_eq!(printed(&scenario, 2), "left\n");
    let start = Instant::now();
    while is_running(&mark) {
        assert!(start.elapsed() < PATIENCE, "a process is left behind");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns true if a process of this machine has this argument.
fn is_running(mark: &str) -> bool {
    fs::read_dir("/proc").expect("procfs").flatten().any(|entry| {
        let arguments = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&arguments).split('\0').any(|argument| argument == mark)
    })
}

#[test]
fn shell_without_rules_and_default_offers_no_tool() {
    let scenario = project("{}", &["ls"]);
    succeed(&scenario, &["."]);
    let journal = scenario.journal();
    let started = journal.iter().find(|record| record["kind"] == "conversation_started").expect("a start");
    assert_eq!(started["tools"], json!([]));
}

#[test]
fn check_validates_the_shell_configuration() {
    let scenario = project("{rules: [{patern: ls}], defualt: {}}", &[]);
    let told = scenario.run(&["check"]);
    assert_eq!(told.code, Some(2), "{told}");
    holds(&told.to_string(), &["patern", "did you mean `default`?"]);
    let told = project("{rules: [{pattern: 'ls | wc'}]}", &[]).run(&["check"]);
    assert_eq!(told.code, Some(2), "{told}");
    holds(&told.to_string(), &["E0412", "/rules/0/pattern"]);
}

/// Runs the binary where namespaces cannot be created. `None`, with a message, where that is not possible.
#[allow(clippy::print_stderr, reason = "a test that skips says so")]
fn without_namespaces(scenario: &Scenario, arguments: &[&str]) -> Option<Finished> {
    const LIMIT: &str = "echo 0 > /proc/sys/user/max_user_namespaces";
    let can = Command::new("unshare").args(["-Ur", "sh", "-c", LIMIT]).output();
    if !can.is_ok_and(|can| can.status.success()) {
        assert!(std::env::var_os("CI").is_none(), "CI can make namespaces");
        eprintln!("skipped: no namespace can be made here to run without namespaces in");
        return None;
    }
    let plain = scenario.command(arguments);
    let mut command = Command::new("unshare");
    command.args(["-Ur", "sh", "-c", &format!("{LIMIT}; exec \"$0\" \"$@\"")]);
    command.arg(plain.get_program()).args(plain.get_args());
    command.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(plain.get_current_dir().unwrap_or(Path::new("/")));
    Some(scenario.finished(command.output().expect("it starts")))
}

#[test]
fn commands_are_confined_without_namespaces() {
    let all = "{default: {approval_required: false}}";
    let scenario = project(
        all,
        &["cp /dev/null /out/x", "cat /notes/c.txt", "cat a.txt", "cat /out/../private/key.txt"],
    );
    let Some(told) = without_namespaces(&scenario, &["."]) else { return };
    assert_eq!(told.code, Some(0), "{told}");
    assert_eq!(printed(&scenario, 0), "");
    assert_eq!(scenario.read("out/x").as_deref(), Some(""));
    // Without namespaces a folder with hidden files is not visible at all, and the hint says so.
    let result = output(&scenario, 2);
    holds(&result.to_string(), &["Not given to processes: `/`", ".env"]);
    assert!(!output(&scenario, 3).to_string().contains(SECRET));
}

#[test]
fn notes_example_runs() {
    let examples =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").canonicalize().expect("the examples");
    let text = |path: &str| fs::read_to_string(examples.join(path)).expect("a file of the example");
    let scenario = Scenario::new()
        .file("main.worker", &text("notes/main.worker"))
        .file("notes/monday.md", &text("notes/notes/monday.md"))
        .file("notes/tuesday.md", &text("notes/notes/tuesday.md"));
    let script = format!("script:{}", examples.join("scripts/notes.yaml").display());
    let told = succeed(&scenario, &[".", "How much is still to do?", "--model", &script]);
    assert_eq!(told.stdout, "Three things are open, two of them from Tuesday.\n");
    assert_eq!(printed(&scenario, 0), "monday.md:1\ntuesday.md:2\n");
}
