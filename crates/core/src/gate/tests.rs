use super::*;
use crate::authority::NotOwn;
use serde_json::Value;

static NO_SETS: ToolSets = ToolSets::none();

const WRITE: &[&str] = &["write_file"];

fn lines(rules: &[(&str, Rule)]) -> Vec<RuleLine> {
    let line = |(pattern, rule): &(&str, Rule)| {
        RuleLine::new(Pattern::parse(pattern).unwrap(), *rule, format!("{pattern}: {rule}"))
    };
    rules.iter().map(line).collect()
}

fn policy(rules: &[(&str, Rule)], default: Option<Rule>, risks: &[(Risk, Rule)]) -> Policy {
    Policy {
        lines: lines(rules),
        risks: risks.iter().copied().collect(),
        default,
        written_at: "policy".into(),
    }
}

fn path(path: &str) -> Subject {
    Subject::Path(path.into())
}

/// A call to `write_file` of a program's worker inside the program's own mounts.
fn query<'a>(subjects: &'a [Subject]) -> Query<'a> {
    Query {
        names: WRITE,
        risk: Risk::Write,
        wildcard: false,
        subjects: Some(subjects),
        facts: Facts { arguments: &Value::Null, words: None, sets: &NO_SETS },
        session: SessionRules::none(),
        worker: &[],
        callers: &[],
        toolset: None,
        of_toolset: None,
        mounts: &[],
        vouched: false,
        not_own: None,
        foreign: false,
        borrowed_name: false,
    }
}

use Rule::{Ask, Blocked, PreApproved};

/// The decision and the rule that made it, as displayed.
fn said(verdict: &Verdict) -> (Rule, String) {
    (verdict.rule, verdict.decided_by.to_string())
}

fn mount(at: &str) -> DecidedBy {
    DecidedBy::Mount { at: at.into() }
}

fn toolset(why: &str) -> DecidedBy {
    DecidedBy::Toolset { why: why.into() }
}

#[test]
fn where_no_rule_speaks_the_risk_decides() {
    let gate = Gate::default();
    for (risk, wildcard, rule) in [
        (Risk::Read, false, PreApproved),
        (Risk::Delegate, false, PreApproved),
        (Risk::Delegate, true, Ask),
        (Risk::Write, false, Ask),
        (Risk::Network, false, Ask),
        (Risk::Exec, false, Ask),
        (Risk::Destructive, false, Ask),
    ] {
        let verdict = gate.decide(&Query { risk, wildcard, ..query(&[]) });
        assert_eq!(verdict, Verdict::new(rule, DecidedBy::Default(risk)));
    }
}

#[test]
fn a_block_from_any_source_wins_over_every_approval() {
    let allow = lines(&[("*", PreApproved)]);
    let block = lines(&[("write_file", Blocked)]);
    let allowing = policy(&[("*", PreApproved)], Some(PreApproved), &[]);
    let blocking = policy(&[("write_*", Blocked)], None, &[]);
    let callers = [Arc::from(block.clone())];
    let gate = Gate { operator: allow.clone(), project: allowing.clone(), ..Gate::default() };
    let all = Query { worker: &allow, toolset: Some(&allowing), ..query(&[]) };
    assert_eq!(gate.decide(&all).rule, PreApproved);
    assert_eq!(gate.decide(&Query { worker: &block, ..all.clone() }).rule, Blocked);
    assert_eq!(gate.decide(&Query { toolset: Some(&blocking), ..all.clone() }).rule, Blocked);
    assert_eq!(gate.decide(&Query { mounts: &[(Blocked, mount("/x"))], ..all.clone() }).rule, Blocked);
    let above = gate.decide(&Query { callers: &callers, ..all.clone() });
    assert_eq!(said(&above), (Blocked, "write_file: blocked (a caller's rule)".to_owned()));
    let operator = Gate { operator: block.clone(), ..gate.clone() };
    assert_eq!(operator.decide(&all).rule, Blocked);
    let project = Gate { project: blocking, ..gate.clone() };
    assert_eq!(project.decide(&all).rule, Blocked);
    let by_risk = Gate { project: policy(&[], None, &[(Risk::Write, Blocked)]), ..gate };
    assert_eq!(said(&by_risk.decide(&all)), (Blocked, "policy: risk `write`".to_owned()));
}

#[test]
fn only_the_blocks_of_callers_reach_down() {
    let gate = Gate::default();
    for (rule, expected) in [(PreApproved, Ask), (Ask, PreApproved)] {
        let callers = [Arc::from(lines(&[("write_file", rule)]))];
        let own = lines(&[("write_file", expected)]);
        assert_eq!(gate.decide(&Query { callers: &callers, worker: &own, ..query(&[]) }).rule, expected);
    }
}

#[test]
fn a_blocking_default_spares_what_its_lines_name() {
    let policy = policy(&[("write_file(out/**)", PreApproved)], Some(Blocked), &[]);
    let gate = Gate::default();
    let decide = |at: &[Subject]| gate.decide(&Query { toolset: Some(&policy), ..query(at) }).rule;
    assert_eq!(decide(&[path("out/a")]), PreApproved);
    assert_eq!(decide(&[path("src/a")]), Blocked);
    assert_eq!(decide(&[path("out/a"), path("src/a")]), Blocked);
    assert_eq!(
        gate.decide(&Query { names: &["edit_file"], toolset: Some(&policy), ..query(&[path("out/a")]) }).rule,
        Blocked
    );
}

#[test]
fn the_first_source_that_speaks_decides() {
    let worker = lines(&[("write_file", PreApproved)]);
    let toolset = policy(&[], Some(Ask), &[]);
    let mut gate = Gate { project: policy(&[("write_file", Ask)], None, &[]), ..Gate::default() };
    assert_eq!(gate.decide(&query(&[])).decided_by.to_string(), "write_file: ask");
    let by_toolset = Query { toolset: Some(&toolset), ..query(&[]) };
    assert_eq!(gate.decide(&by_toolset).decided_by.to_string(), "policy: default");
    let by_worker = Query { worker: &worker, ..by_toolset };
    assert_eq!(gate.decide(&by_worker).rule, PreApproved);
    gate.operator = lines(&[("write_*", Ask)]);
    assert_eq!(said(&gate.decide(&by_worker)), (Ask, "write_*: ask".to_owned()));
    // A source with rules for other tools only has no rule for the call.
    gate.operator = lines(&[("read_*", Ask)]);
    assert_eq!(gate.decide(&by_worker).rule, PreApproved);
}

#[test]
fn a_mounts_rule_tightens_and_never_loosens_what_was_said() {
    let ask = lines(&[("write_file", Ask)]);
    let allow = lines(&[("write_file", PreApproved)]);
    let gate = Gate::default();
    let mounts = |rules: &[Rule]| rules.iter().map(|rule| (*rule, mount("/out"))).collect::<Vec<_>>();
    let decide = |worker: &[RuleLine], rules: &[Rule]| {
        gate.decide(&Query { worker, mounts: &mounts(rules), ..query(&[]) })
    };
    assert_eq!(said(&decide(&allow, &[Ask])), (Ask, "mount `/out`".to_owned()));
    assert_eq!(decide(&ask, &[PreApproved]).rule, Ask);
    assert_eq!(
        decide(&[], &[PreApproved]).rule,
        PreApproved,
        "a mount's rule speaks before the risk's default"
    );
    assert_eq!(decide(&[], &[PreApproved, Ask]).rule, Ask, "of two mounts the stricter");
    let operator = Gate { operator: lines(&[("write_file", PreApproved)]), ..Gate::default() };
    assert_eq!(operator.decide(&Query { mounts: &mounts(&[Ask]), ..query(&[]) }).rule, Ask);
}

#[test]
fn an_approval_needs_all_arguments_and_a_tightening_any() {
    let subjects = [path("out/a"), path("src/b")];
    let gate = Gate::default();
    let decide = |rules: &[(&str, Rule)], at: &[Subject]| {
        gate.decide(&Query { worker: &lines(rules), ..query(at) }).rule
    };
    assert_eq!(decide(&[("write_file(out/**)", PreApproved)], &subjects[..1]), PreApproved);
    assert_eq!(decide(&[("write_file(out/**)", PreApproved)], &subjects), Ask);
    assert_eq!(decide(&[("write_file(src/**)", Blocked)], &subjects), Blocked);
    assert_eq!(decide(&[("*", PreApproved), ("write_file(src/**)", Ask)], &subjects), Ask);
    assert_eq!(decide(&[("*", PreApproved), ("write_file(src/**)", Ask)], &subjects[..1]), PreApproved);
    assert_eq!(decide(&[("write_file(**)", PreApproved)], &[]), Ask, "nothing to cover is not covered");
}

#[test]
fn the_order_of_a_sources_lines_does_not_matter() {
    let gate = Gate::default();
    let at = [path("out/a")];
    for rules in [
        [("write_file", Ask), ("write_file(out/**)", PreApproved)],
        [("write_file(out/**)", PreApproved), ("write_file", Ask)],
    ] {
        assert_eq!(
            gate.decide(&Query { worker: &lines(&rules), ..query(&at) }).rule,
            PreApproved,
            "the narrower wins"
        );
    }
    for rules in
        [[("write_file", Ask), ("write_*", PreApproved)], [("write_*", PreApproved), ("write_file", Ask)]]
    {
        assert_eq!(
            gate.decide(&Query { worker: &lines(&rules), ..query(&at) }).rule,
            Ask,
            "else the stricter"
        );
    }
}

#[test]
fn the_programs_files_approve_only_effects_in_its_own_mounts() {
    let allow = lines(&[("*", PreApproved)]);
    let gate = Gate { project: policy(&[], Some(PreApproved), &[]), ..Gate::default() };
    let outside = Query { not_own: Some(NotOwn::Outside), ..query(&[]) };
    let verdict = gate.decide(&outside);
    assert_eq!(verdict.rule, Ask);
    assert!(matches!(verdict.decided_by, DecidedBy::OutsideMounts { .. }), "{}", verdict.decided_by);
    assert_eq!(gate.decide(&Query { worker: &allow, ..outside.clone() }).rule, Ask);
    assert_eq!(gate.decide(&Query { risk: Risk::Exec, worker: &allow, ..outside.clone() }).rule, Ask);
    assert_eq!(gate.decide(&Query { risk: Risk::Read, worker: &allow, ..outside.clone() }).rule, PreApproved);
    let operator = Gate { operator: allow, ..Gate::default() };
    assert_eq!(operator.decide(&outside).rule, PreApproved, "the operator may");
}

#[test]
fn a_librarys_files_tighten_and_never_loosen() {
    let allow = lines(&[("*", PreApproved)]);
    let ask = lines(&[("*", Ask)]);
    let allowing = policy(&[], Some(PreApproved), &[]);
    let asking = policy(&[], Some(Ask), &[]);
    let foreign = Query { foreign: true, ..query(&[]) };
    let gate = Gate::default();
    assert_eq!(gate.decide(&Query { worker: &allow, toolset: Some(&allowing), ..foreign.clone() }).rule, Ask);
    let reading = Query { risk: Risk::Read, ..foreign.clone() };
    assert_eq!(gate.decide(&Query { worker: &ask, ..reading.clone() }).rule, Ask);
    assert_eq!(gate.decide(&Query { toolset: Some(&asking), ..reading.clone() }).rule, Ask);
    assert_eq!(gate.decide(&Query { worker: &allow, ..reading }).rule, PreApproved);
    // The rules of the program and the operator apply, unless the library is stricter.
    for gate in [
        Gate { project: allowing.clone(), ..Gate::default() },
        Gate { operator: allow.clone(), ..Gate::default() },
    ] {
        assert_eq!(gate.decide(&foreign).rule, PreApproved);
        assert_eq!(gate.decide(&Query { worker: &ask, ..foreign.clone() }).rule, Ask);
    }
    let project = Gate { project: allowing, ..Gate::default() };
    assert_eq!(project.decide(&Query { not_own: Some(NotOwn::Outside), ..foreign }).rule, Ask);
}

#[test]
fn patterns_match_names_wildcards_and_aliases() {
    let parse = |text| Pattern::parse(text).unwrap();
    assert!(parse("write_file").names_one_of(&["write_file"]));
    assert!(!parse("write_file").names_one_of(&["write_files", "a_write_file", "WRITE_FILE"]));
    assert!(parse("fs__*").names_one_of(&["fs__read"]));
    assert!(parse("worker.call").names_one_of(&["reports__summarizer", "worker.call"]));
    assert!(parse("reports/*").names_one_of(&["reports/a/b"]));
    assert!(parse("write_file(x)").names_one_of(&["write_file"]));
    assert!(!parse("write_file(x)").speaks_of_all(&["write_file"]));
    assert!(parse("*").speaks_of_all(&["anything"]));
    for bad in ["", "(x)", "write_file(x", "write_file([)", "a{b"] {
        assert!(Pattern::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn path_patterns_stay_within_folders_and_text_patterns_do_not() {
    let covers = |pattern: &str, subject: Subject| Pattern::parse(pattern).unwrap().covers(Some(&[subject]));
    let text = |text: &str| Subject::Text(text.into());
    for pattern in ["t(out/**)", "t(/out/**)", "t(./out/**)", "t(out/*/x)"] {
        assert!(covers(pattern, path("out/a/x")), "{pattern}");
        assert!(!covers(pattern, path("outer/a/x")), "{pattern}");
        assert!(!covers(pattern, path("src/out/a/x")), "{pattern}");
    }
    assert!(!covers("t(out/*)", path("out/a/x")), "one star stays within a folder");
    assert!(covers("t(git diff*)", text("git diff a/b c")), "and crosses everything in a command");
    assert!(
        covers("t(git diff*)", text("git diff\nrm -rf")),
        "line breaks too, so that a block is not walked around"
    );
    assert!(covers("t(reports/*)", text("reports/summarizer")));
    assert!(!covers("t(git)", text("git diff")));
}

#[test]
fn a_relative_pattern_does_not_speak_of_places_outside_the_project() {
    let covers = |pattern: &str, at: &str| Pattern::parse(pattern).unwrap().covers(Some(&[path(at)]));
    assert!(covers("t(etc/**)", "etc/x"));
    assert!(!covers("t(etc/**)", "/etc/x"));
    assert!(covers("t(/etc/**)", "/etc/x"));
    assert!(covers("t(/etc/**)", "etc/x"), "a leading slash means the same inside the project");
    assert!(covers("t(**)", "/etc/x") && covers("t(**/*.pem)", "/etc/key.pem"));
}

#[test]
fn a_mode_is_only_ever_tightened() {
    use Mode::{ApproveAll, AutoDeny, Defer, Interactive};
    for operator in [ApproveAll, Interactive, Defer, AutoDeny] {
        assert_eq!(operator.tighten(ApproveAll), operator);
        assert_eq!(operator.tighten(AutoDeny), AutoDeny);
        assert_eq!(operator.tighten(operator), operator);
    }
    assert_eq!(ApproveAll.tighten(Interactive), Interactive);
    assert_eq!(Defer.tighten(Interactive), Defer);
}

#[test]
fn a_tool_that_could_only_be_refused_is_known() {
    let deny = |gate: Gate| Gate { mode: Mode::AutoDeny, ..gate };
    let base = query(&[]);
    assert!(!deny(Gate::default()).could_pass(&base));
    assert!(deny(Gate::default()).could_pass(&Query { risk: Risk::Read, ..base.clone() }));
    assert!(Gate::default().could_pass(&base), "somebody can be asked");
    let some = lines(&[("write_file(out/**)", PreApproved)]);
    assert!(
        deny(Gate::default()).could_pass(&Query { worker: &some, ..base.clone() }),
        "some arguments pass"
    );
    assert!(!deny(Gate::default()).could_pass(&Query {
        worker: &some,
        not_own: Some(NotOwn::Outside),
        ..base.clone()
    }));
    assert!(!deny(Gate::default()).could_pass(&Query { worker: &some, foreign: true, ..base.clone() }));
    assert!(
        deny(Gate { operator: some.clone(), ..Gate::default() })
            .could_pass(&Query { not_own: Some(NotOwn::Outside), ..base.clone() })
    );
    let asked_first = Gate { operator: lines(&[("write_file", Ask)]), ..Gate::default() };
    assert!(
        !deny(asked_first).could_pass(&Query { worker: &some, ..base.clone() }),
        "the operator speaks first"
    );
    assert!(
        deny(Gate::default()).could_pass(&Query { mounts: &[(PreApproved, mount("/x"))], ..base.clone() })
    );
    let project = Gate { project: policy(&[], None, &[(Risk::Write, PreApproved)]), ..Gate::default() };
    assert!(deny(project.clone()).could_pass(&base));
    let asking = policy(&[], Some(Ask), &[]);
    assert!(!deny(project.clone()).could_pass(&Query { toolset: Some(&asking), ..base.clone() }));
    assert!(!deny(project).could_pass(&Query { toolset: Some(&asking), foreign: true, ..base.clone() }));
    let reading_asked = lines(&[("write_file", Ask)]);
    assert!(!deny(Gate::default()).could_pass(&Query { risk: Risk::Read, worker: &reading_asked, ..base }));
}

#[test]
fn a_tool_that_is_always_blocked_is_not_offered_in_any_mode() {
    let base = query(&[]);
    let block = lines(&[("write_*", Blocked)]);
    let some = lines(&[("write_file(src/**)", Blocked)]);
    let callers = [Arc::from(block.clone())];
    for mode in [Mode::Interactive, Mode::ApproveAll, Mode::AutoDeny, Mode::Defer] {
        let gate = Gate { mode, operator: lines(&[("write_file", PreApproved)]), ..Gate::default() };
        assert!(gate.could_pass(&base));
        assert!(!gate.could_pass(&Query { worker: &block, ..base.clone() }));
        assert!(!gate.could_pass(&Query { callers: &callers, ..base.clone() }));
        assert!(gate.could_pass(&Query { worker: &some, ..base.clone() }), "other arguments may pass");
        let default = policy(&[], Some(Blocked), &[]);
        assert!(!gate.could_pass(&Query { toolset: Some(&default), ..base.clone() }));
        let spared = policy(&[("write_file", PreApproved)], Some(Blocked), &[]);
        assert!(gate.could_pass(&Query { toolset: Some(&spared), ..base.clone() }));
        let by_risk = Gate { project: policy(&[], None, &[(Risk::Write, Blocked)]), ..gate };
        assert!(!by_risk.could_pass(&base));
    }
}

/// Tests that the gate offers every tool of which it allows a call without asking, for any rules.
#[test]
fn what_passes_is_offered() {
    let patterns = ["*", "write_file", "write_file(out/**)", "read_file"];
    let rules = [PreApproved, Ask, Blocked];
    let mut sources: Vec<Vec<(&str, Rule)>> = vec![vec![]];
    for pattern in patterns {
        for rule in rules {
            sources.push(vec![(pattern, rule)]);
            sources.push(vec![(pattern, rule), ("write_file(out/**)", PreApproved)]);
        }
    }
    let at = [path("out/a")];
    for operator in &sources {
        for worker in &sources {
            for (own_effects, foreign, default, risk) in [
                (true, false, None, Risk::Write),
                (false, false, Some(PreApproved), Risk::Write),
                (true, true, Some(Ask), Risk::Write),
                (true, true, Some(PreApproved), Risk::Write),
                (false, true, Some(PreApproved), Risk::Read),
                (true, false, Some(Blocked), Risk::Read),
            ] {
                for user in [None, Some(PreApproved), Some(Ask)] {
                    let of = |default| Policy { default, ..Policy::default() };
                    let gate = Gate {
                        mode: Mode::AutoDeny,
                        operator: lines(operator),
                        project: of(default),
                        user: of(user),
                        sets_of_workers: Vec::new(),
                    };
                    let worker_lines = lines(worker);
                    let not_own = (!own_effects).then_some(NotOwn::Outside);
                    let query = Query { worker: &worker_lines, not_own, foreign, risk, ..query(&at) };
                    if gate.decide(&query).rule == PreApproved {
                        assert!(
                            gate.could_pass(&query),
                            "{operator:?} {worker:?} {own_effects} {foreign} {default:?} {user:?} {risk}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn what_a_toolsets_configuration_says_stands_where_its_approval_does() {
    let says = (Rule::Ask, toolset("toolsets.shell.rules[0]"));
    let subjects = [Subject::Text("git push".into())];
    let query = |of_toolset| Query {
        names: &["shell"],
        risk: Risk::Exec,
        wildcard: false,
        subjects: Some(&subjects),
        facts: Facts { arguments: &Value::Null, words: None, sets: &NO_SETS },
        session: SessionRules::none(),
        worker: &[],
        callers: &[],
        toolset: None,
        of_toolset,
        mounts: &[],
        vouched: false,
        not_own: None,
        foreign: false,
        borrowed_name: false,
    };
    let allow = RuleLine::new(Pattern::parse("shell(git push*)").unwrap(), Rule::PreApproved, "--allow");
    let told = |gate: &Gate, says| gate.decide(&query(says)).decided_by.to_string();
    let gate = Gate { operator: vec![allow.clone()], ..Gate::default() };
    assert_eq!(told(&gate, Some(&says)), "--allow");
    let gate = Gate { project: Policy { lines: vec![allow], ..Policy::default() }, ..Gate::default() };
    assert_eq!(told(&gate, Some(&says)), "toolsets.shell.rules[0]");
    let blocked = (Rule::Blocked, toolset("none"));
    let gate = Gate::default();
    assert_eq!(gate.decide(&query(Some(&blocked))).rule, Rule::Blocked);
    let allowed = (Rule::PreApproved, toolset("rule"));
    assert_eq!(gate.decide(&query(Some(&allowed))).rule, Rule::PreApproved);
    let foreign = Query { foreign: true, ..query(Some(&allowed)) };
    assert_eq!(gate.decide(&foreign).rule, Rule::Ask);
    let outside = Query { not_own: Some(NotOwn::Outside), ..query(Some(&allowed)) };
    assert_eq!(gate.decide(&outside).rule, Rule::Ask);
}

/// A rule with conditions, in the notation of the command line.
fn line(text: &str, rule: Rule) -> RuleLine {
    let Calls { pattern, conditions } = Calls::parse(text, &|set| set.values("[\"DE1\"]")).unwrap();
    RuleLine::new(pattern, rule, format!("{text}: {rule}")).when(conditions)
}

/// A call to `send_money`, which has no main argument.
fn send(arguments: &Value) -> Query<'_> {
    let facts = Facts { arguments, words: None, sets: &NO_SETS };
    Query { names: &["send_money"], risk: Risk::Write, subjects: None, facts, ..query(&[]) }
}

#[test]
fn a_rule_with_conditions_beats_a_bare_ask_and_nothing_stricter() {
    let gate = Gate::default();
    let call = serde_json::json!({"amount": 5, "to": "DE1"});
    let decide = |rules: &[(&str, Rule)]| {
        let lines: Vec<RuleLine> = rules.iter().map(|(text, rule)| line(text, *rule)).collect();
        gate.decide(&Query { worker: &lines, ..send(&call) }).rule
    };
    let small = ("send_money where amount <= 10", PreApproved);
    assert_eq!(decide(&[small]), PreApproved);
    assert_eq!(decide(&[small, ("send_money", Ask)]), PreApproved);
    assert_eq!(decide(&[("*", PreApproved), small, ("send_money", Ask)]), PreApproved);
    assert_eq!(decide(&[small, ("send_money where to = DE1", Ask)]), Ask);
    assert_eq!(decide(&[small, ("send_money where to = DE1", Blocked)]), Blocked);
    assert_eq!(decide(&[small, ("send_money where to = DE2", Blocked)]), PreApproved);
    assert_eq!(decide(&[("send_money where amount <= 1", PreApproved)]), Ask, "by its risk");
    assert_eq!(decide(&[("send_money where gone = x", Blocked)]), Blocked, "it can't be decided");
}

#[test]
fn a_pattern_for_a_tool_without_a_main_argument_never_allows() {
    let gate = Gate::default();
    let call = serde_json::json!({"to": "DE1"});
    let decide =
        |text: &str, rule| gate.decide(&Query { worker: &lines(&[(text, rule)]), ..send(&call) }).rule;
    assert_eq!(decide("send_money(*)", PreApproved), Ask);
    assert_eq!(decide("*(**)", PreApproved), Ask);
    assert_eq!(decide("send_money(x)", Blocked), Blocked, "it can't be decided");
    assert_eq!(decide("*(secret/**)", Blocked), Ask, "it is about the tools that have one");
}

#[test]
fn a_rule_vouches_that_names_the_values_of_an_argument() {
    let call = serde_json::json!({"amount": 5, "to": "DE1"});
    let vouches = |text: &[&str]| {
        let lines: Vec<RuleLine> = text.iter().map(|text| line(text, PreApproved)).collect();
        Gate::default().decide(&Query { worker: &lines, ..send(&call) }).vouches()
    };
    assert!(vouches(&["send_money where to = DE1"]));
    assert!(vouches(&["send_money where to in @f and amount <= 10"]));
    assert!(vouches(&["send_money", "send_money where to = DE1"]), "the one that says most decides");
    assert!(!vouches(&["send_money", "send_money where amount <= 10 and to matches DE."]));
    assert!(!vouches(&["send_money where to = DE2"]));
    let own = [(PreApproved, DecidedBy::Function { function: "send_money".into() })];
    let verdict = Gate::default().decide(&Query { mounts: &own, vouched: true, ..send(&call) });
    assert!(verdict.vouches());
    let ask = lines(&[("send_money", Ask)]);
    let verdict = Gate::default().decide(&Query { mounts: &own, vouched: true, worker: &ask, ..send(&call) });
    assert_eq!((verdict.rule, verdict.vouches()), (Ask, false));
}

#[test]
fn every_rule_that_does_not_decide_says_why() {
    let call = serde_json::json!({"amount": 50, "to": "DE1"});
    let worker = [
        line("send_money where amount <= 10", PreApproved),
        line("send_money", Ask),
        line("send_money where to = DE2", Blocked),
        line("send_money(x)", PreApproved),
        line("read_file", PreApproved),
    ];
    let statements = Gate::default().statements(&Query { worker: &worker, ..send(&call) });
    let worker = statements.iter().find(|statement| statement.source == "worker").unwrap();
    assert_eq!(worker.said.as_ref().unwrap().rule, Ask);
    let others: Vec<String> = worker.others.iter().map(|one| format!("{}: {}", one.calls, one.why)).collect();
    assert_eq!(
        others,
        [
            "send_money where amount <= 10: `amount <= 10` does not hold for 50",
            "send_money where to = \"DE2\": `to = \"DE2\"` does not hold for \"DE1\"",
            "send_money(x): the tool has no main argument that a pattern could match",
        ]
    );
}

#[test]
fn a_tool_that_a_condition_may_allow_is_offered() {
    let deny = Gate { mode: Mode::AutoDeny, ..Gate::default() };
    let none = Value::Null;
    let some = [line("send_money where amount <= 10", PreApproved)];
    assert!(deny.could_pass(&Query { worker: &some, ..send(&none) }));
    let asked = [line("send_money where amount <= 10", Ask)];
    assert!(!deny.could_pass(&Query { worker: &asked, ..send(&none) }));
    let blocked = [line("send_money where amount >= 10", Blocked), line("send_money", PreApproved)];
    assert!(deny.could_pass(&Query { worker: &blocked, ..send(&none) }));
}

proptest::proptest! {
    #[test]
    fn no_pattern_is_passed_over_that_speaks_of_the_call(
        pattern in r"[a-c*?]{1,12}(\((\./|/)?[a-c*?/]{0,12}\))?",
        name in r"[a-c]{0,12}",
        subject in r"/?[a-c/]{0,12}",
        is_path in proptest::bool::ANY,
    ) {
        let Ok(pattern) = Pattern::parse(&pattern) else { return Ok(()) };
        let subject = if is_path { Subject::Path(subject) } else { Subject::Text(subject) };
        let speaks = pattern.names_one_of(&[&name]) && pattern.fits_arguments(&subject);
        proptest::prop_assert!(!speaks || pattern.could_speak_of(&[Head::of(&name)], &[subject.head()]));
    }
}

#[test]
fn what_the_operator_allows_of_a_built_in_tool_allows_no_other_of_its_name() {
    let subjects = [path("out/a")];
    let allow = |rule| vec![RuleLine::new(Pattern::parse("write_file").unwrap(), rule, "given")];
    let user = Policy { lines: allow(PreApproved), ..Policy::default() };
    for gate in [Gate { operator: allow(PreApproved), ..Gate::default() }, Gate { user, ..Gate::default() }] {
        assert_eq!(gate.decide(&query(&subjects)).rule, PreApproved);
        let other = Query { borrowed_name: true, risk: Risk::Exec, ..query(&subjects) };
        assert_eq!(gate.decide(&other).rule, Ask);
    }
    let blocked = Gate { operator: allow(Blocked), ..Gate::default() };
    assert_eq!(blocked.decide(&Query { borrowed_name: true, ..query(&subjects) }).rule, Blocked);
}
