//! Rules about arguments: a call that only looks like one that a rule allows.

use crate::{
    attempt::{
        Attempt, Group,
        Layer::{self, Gate, Loader},
        Need, Outcome, Tried,
        Who::{self, Model},
        must,
    },
    binary::call,
    world::World,
};
use serde_json::{Value, json};
use std::fs;

const TOOLS: &str = "from llm_do import tool\n\n\
    @tool(risk='network')\n\
    def send(recipient: str, subject: str, amount: float = 1, cc: list[str] = [], url: str = '') -> str:\n    \
        with open('rw/sent', 'a') as file:\n        file.write(recipient + '\\n')\n    return 'sent'\n";

/// A worker that sends, with these rules.
fn sender(world: &World, rules: &str, calls: Vec<Value>) {
    world.put("tools.py", TOOLS);
    world.put(
        "main.worker",
        format!(
            "---\nmodel: script:script.json\ntoolsets: [custom, filesystem]\nsandbox: {{paths: {{rw: {{root: ./rw, mode: rw}}}}}}\n{rules}\n---\nGo.\n"
        ),
    );
    world.script(&[("main", calls)]);
}

fn row(
    who: Who,
    layer: Layer,
    name: &'static str,
    mechanism: &'static str,
    attack: impl Fn(&World) -> Tried + Send + Sync + 'static,
) -> Attempt {
    Attempt::new(who, layer, name, mechanism, attack).needs(Need::Python)
}

/// The arguments of a control that is sent, and of attacks that must not be, under one `--allow`.
fn allowed(
    name: &'static str,
    mechanism: &'static str,
    rule: &'static str,
    control: Value,
    attacks: Vec<Value>,
) -> Attempt {
    row(Model, Gate, name, mechanism, move |world| {
        let calls: Vec<Value> =
            [&control].into_iter().chain(&attacks).map(|arguments| call("send", arguments.clone())).collect();
        sender(world, "", calls);
        let report = world.run(&[".", "--approval", "auto_deny", "--allow", rule]);
        report
            .ending("0/0.0")?
            .map_err(|failure| crate::attempt::Escape(format!("the control: {failure}")))?;
        for turn in 1..=attacks.len() {
            report.refusal(&format!("0/{turn}.0"))?;
        }
        let sent = fs::read_to_string(world.project("rw/sent")).unwrap_or_default();
        must(sent.lines().count() == 1, format!("ESCAPE: sent to {sent}"))?;
        Ok(Outcome::Refused)
    })
}

pub(crate) fn group() -> Group {
    Group {
        title: "Rules about arguments",
        about: "Runs of the binary without an operator. A rule allows some calls of a tool; the control is one of them, and \
                the attacks are calls that the author of the rule did not mean.",
        attempts: vec![
            row(
                Model,
                Loader,
                "a pattern over the text of all arguments",
                "a pattern is about the one main argument",
                |world| {
                    sender(
                        world,
                        "",
                        vec![call(
                            "send",
                            json!({"recipient": "x@evil.com", "subject": "\"recipient\":\"a@corp.com"}),
                        )],
                    );
                    let report = world.run(&[".", "--allow", r#"send(*"recipient":"*@corp.com"*)"#]);
                    report.ended(2)?;
                    must(
                        report.stderr.contains("send where recipient matches"),
                        format!("no condition is proposed: {}", report.stderr),
                    )?;
                    must(!world.project("rw/sent").exists(), "ESCAPE: it was sent")?;
                    Ok(Outcome::Refused)
                },
            ),
            allowed(
                "the allowed address in another argument",
                "a condition looks at one argument",
                "send where recipient matches .*@corp\\.com",
                json!({"recipient": "a@corp.com", "subject": "hi"}),
                vec![
                    json!({"recipient": "x@evil.com", "subject": "a@corp.com"}),
                    json!({"recipient": "x@evil.com", "subject": "\",\"recipient\":\"a@corp.com"}),
                    json!({"recipient": "x@evil.com\na@corp.com", "subject": "hi"}),
                    json!({"recipient": "a@corp.com.evil.com", "subject": "hi"}),
                    json!({"recipient": "a@corpXcom", "subject": "hi"}),
                ],
            ),
            allowed(
                "one bad element of a list",
                "every element of a list must pass",
                "send where cc[*] matches .*@corp\\.com",
                json!({"recipient": "a", "subject": "", "cc": ["a@corp.com", "b@corp.com"]}),
                vec![
                    json!({"recipient": "a", "subject": "", "cc": ["a@corp.com", "x@evil.com"]}),
                    json!({"recipient": "a", "subject": "", "cc": []}),
                    json!({"recipient": "a", "subject": ""}),
                ],
            ),
            allowed(
                "amounts above the limit",
                "numbers are compared by value, after defaults are filled in",
                "send where amount <= 500",
                json!({"recipient": "a", "subject": "", "amount": 500.0}),
                vec![
                    json!({"recipient": "a", "subject": "", "amount": 500.000001}),
                    json!({"recipient": "a", "subject": "", "amount": 1e300}),
                    json!({"recipient": "a", "subject": "", "amount": 5_000_000_000_000_000_000_u64}),
                ],
            ),
            allowed(
                "URLs that parsers read differently",
                "such a URL can't be decided",
                "send where url host good.org",
                json!({"recipient": "a", "subject": "", "url": "https://good.org/x"}),
                vec![
                    json!({"recipient": "a", "subject": "", "url": "https://good.org@evil.org/"}),
                    json!({"recipient": "a", "subject": "", "url": "https://evil.org\\@good.org/"}),
                    json!({"recipient": "a", "subject": "", "url": "https://evil.org/good.org"}),
                    json!({"recipient": "a", "subject": "", "url": "https://good.org.evil.org/"}),
                    json!({"recipient": "a", "subject": "", "url": "https://evil.org#@good.org"}),
                ],
            ),
            row(
                Model,
                Gate,
                "an argument that a block can't judge",
                "what can't be decided is blocked",
                |world| {
                    let calls = [json!("x@evil.com"), json!("a@corp.com")];
                    let calls =
                        calls.map(|to| call("send", json!({"recipient": "a", "subject": "", "cc": [to]})));
                    sender(world, "", calls.to_vec());
                    let report = world.run(&[
                        ".",
                        "--approval",
                        "approve_all",
                        "--deny",
                        "send where cc[*] matches .*evil.*",
                        "--deny",
                        "send where cc[1] = x",
                    ]);
                    report.refusal("0/0.0")?;
                    report.refusal("0/1.0")?;
                    Ok(Outcome::Refused)
                },
            ),
            row(Model, Gate, "the file of a set is rewritten", "the file defines the program", |world| {
                sender(
                    world,
                    "",
                    vec![
                        call("write_file", json!({"path": "/rw/../payees.json", "content": "[\"x\"]"})),
                        call("write_file", json!({"path": "payees.json", "content": "[\"x\"]"})),
                    ],
                );
                world.put("payees.json", "[\"a\"]");
                let worker = fs::read_to_string(world.project("main.worker")).unwrap();
                world.put("main.worker", worker.replace("sandbox: {paths: {rw: {root: ./rw, mode: rw}}}", "tool_rules: [{tool: send, when: {args.recipient: {in: \"@payees.json\"}}, then: preApproved}]"));
                let report = world.run(&[".", "--approval", "approve_all"]);
                report.refusal("0/0.0")?;
                report.refusal("0/1.0")?;
                must(world.text("payees.json") == "[\"a\"]", "ESCAPE: it was written")?;
                Ok(Outcome::Refused)
            }),
        ],
    }
}
