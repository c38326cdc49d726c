//! Runs, tests and maps of a project's terminal, as clients of a service see them.

use super::{
    client::{Server, TOKEN_OF_CI, ci_token},
    desk,
};
use serde_json::{Value, json};

const CASES: &str = "\
repeat: 2
cases:
- name: right
  input: {name: Ada}
  expect: {output: Hello!}
- name: wrong
  input: {name: Bob}
  expect: {output: 'Hello, Bob!'}
";

fn ids<'a>(list: &'a Value, key: &str) -> Vec<&'a str> {
    list.as_array().expect("a list").iter().map(|one| one[key].as_str().expect("an ID")).collect()
}

#[test]
fn runs_of_a_terminal_are_in_the_history_and_can_only_be_looked_at() {
    let scenario = desk().home_file("serve.yaml", &ci_token("[start, read, answer]", ""));
    assert_eq!(scenario.run(&["--project", ".", "--entry", "greeter", "--param", "name=Ada"]).code, Some(0));
    assert_eq!(
        scenario.run(&["--project", ".", "--entry", "writer", "-m", "now", "--approval", "defer"]).code,
        Some(5)
    );
    let server = Server::start(&scenario, &[]);
    let runs = server.get("/v1/runs").send().body;
    let runs = runs["runs"].as_array().expect("runs");
    let shown: Vec<_> =
        runs.iter().map(|run| (&run["worker"], &run["state"], &run["client"], &run["outside"])).collect();
    let of = |worker: &str, state: &str| (json!(worker), json!(state), json!("operator"), json!(true));
    let expected = [of("writer", "waiting"), of("greeter", "done")];
    assert_eq!(shown, expected.iter().map(|(a, b, c, d)| (a, b, c, d)).collect::<Vec<_>>(), "{runs:?}");
    let waiting = runs[0]["run"].as_str().expect("an ID");
    let whole = server.get(&format!("/v1/runs/{waiting}")).send().body;
    assert_eq!(whole["questions"], Value::Null, "nothing can be answered: {whole}");
    // The grants and rules of that run were given to a terminal, and to no client.
    let digest = "0".repeat(32);
    let answer = json!({"call": "0/0.0", "step": "1", "digest": digest, "answer": "approve"});
    let refused = server.post(&format!("/v1/runs/{waiting}/answers"), &answer).send();
    assert_eq!(refused.status, 403, "{refused:?}");
    assert!(refused.text.contains("runs resume"), "{refused:?}");
    assert_eq!(server.post(&format!("/v1/runs/{waiting}/cancel"), &json!({})).send().status, 409);
    // A token that reads its own runs sees none of them.
    let own = server.get("/v1/runs").token(TOKEN_OF_CI).send();
    assert_eq!(own.body["runs"], json!([]), "{own:?}");
    assert_eq!(server.get(&format!("/v1/runs/{waiting}")).token(TOKEN_OF_CI).send().status, 404);
}

#[test]
fn the_results_of_tests_are_kept_with_what_was_expected_and_what_came() {
    let scenario = desk()
        .file("workers/greeter.cases.yaml", CASES)
        .home_file("serve.yaml", &ci_token("[start, read]", ""));
    let first = scenario.run(&["test", "--json"]);
    assert_eq!(first.code, Some(1), "{}", first.stderr);
    std::fs::write(scenario.project().join("before.json"), &first.stdout).expect("a file");
    assert_eq!(scenario.run(&["test", "--baseline", "before.json"]).code, Some(1));
    let server = Server::start(&scenario, &[]);
    let tests = server.get("/v1/programs/desk/tests").send().body;
    let newest = &tests["tests"][0];
    assert_eq!(ids(&tests["tests"], "test").len(), 2, "{tests}");
    let counts = json!({"cases": 2, "passed": 1, "failed": 1, "state": "ended", "worse": 0});
    for (name, value) in counts.as_object().expect("an object") {
        assert_eq!(&newest[name], value, "{name}: {newest}");
    }
    let id = newest["test"].as_str().expect("an ID");
    let test = server.get(&format!("/v1/programs/desk/tests/{id}")).send().body;
    let [right, wrong] = &test["cases"].as_array().expect("cases")[..] else { panic!("{test}") };
    assert_eq!((&right["passed"], &right["of"], &right["repeats"]), (&json!(2), &json!(2), &json!(2)));
    assert_eq!((&wrong["passed"], &wrong["of"]), (&json!(0), &json!(2)), "{wrong}");
    let run = &wrong["runs"][0];
    assert_eq!((&run["expected"], &run["output"]), (&json!("Hello, Bob!"), &json!("Hello!")), "{run}");
    assert_eq!(wrong["compared"]["change"], "same", "{wrong}");
    // They are the operator's: a token that reads its own runs sees none.
    let own = server.get("/v1/programs/desk/tests").token(TOKEN_OF_CI).send();
    assert_eq!(own.body, json!({"tests": []}));
    assert_eq!(server.get(&format!("/v1/programs/desk/tests/{id}")).token(TOKEN_OF_CI).send().status, 404);
    assert_eq!(server.get("/v1/programs/desk/tests/20000101-000000-0000").send().status, 404);
    // A log that somebody has changed is none of the user's.
    let path = scenario.project().join(".llm-do/runs/tests").join(format!("{id}.jsonl"));
    let text = std::fs::read_to_string(&path).expect("a log").replace("Bob", "Eve");
    std::fs::write(&path, text).expect("a log");
    assert_eq!(server.get(&format!("/v1/programs/desk/tests/{id}")).send().status, 404);
    assert_eq!(ids(&server.get("/v1/programs/desk/tests").send().body["tests"], "test").len(), 1);
}

#[test]
fn a_map_has_its_rows_and_the_run_of_each() {
    let scenario = desk()
        .file("s.yaml", "answers:\n  - when: {last_regex: Bob}\n    error: {kind: bad_request, message: no such thing}\n  - text: Hello!\n    usage: {input_tokens: 10, output_tokens: 2}\n")
        .file("in.csv", "name\nAda\nBob\nCleo\n")
        .home_file("serve.yaml", &ci_token("[start, read]", ""));
    let words = ["map", "greeter", "in.csv", "-o", "out.jsonl", "--max-cost", "unlimited"];
    assert_eq!(scenario.run(&words).code, Some(1));
    // The same command again is the same map.
    assert_eq!(scenario.run(&words).code, Some(1));
    let server = Server::start(&scenario, &[]);
    let maps = server.get("/v1/programs/desk/maps").send().body;
    let [map] = &maps["maps"].as_array().expect("maps")[..] else { panic!("{maps}") };
    let about = json!({
        "worker": "greeter", "inputs": "in.csv", "outputs": "out.jsonl", "running": false,
        "rows": 3, "done": 2, "failed": 1, "at_work": 0,
    });
    for (name, value) in about.as_object().expect("an object") {
        assert_eq!(&map[name], value, "{name}: {map}");
    }
    let at = format!("/v1/programs/desk/maps/{}", map["map"].as_str().expect("an ID"));
    assert_eq!(&server.get(&at).send().body, map);
    let rows = server.get(&format!("{at}/rows")).send().body;
    let states: Vec<_> = rows["rows"].as_array().expect("rows").iter().map(|row| &row["state"]).collect();
    assert_eq!(states, ["done", "failed", "done"], "{rows}");
    let failed = server.get(&format!("{at}/rows?state=failed,missing")).send().body;
    let [row] = &failed["rows"].as_array().expect("rows")[..] else { panic!("{failed}") };
    assert_eq!(
        (&row["row"], &row["kind"], &row["input"]),
        (&json!(2), &json!("model"), &json!("{\"name\":\"Bob\"}"))
    );
    let page = server.get(&format!("{at}/rows?limit=1&after=1")).send().body;
    assert_eq!((ids(&page["rows"], "run").len(), &page["next"]), (1, &json!(2)), "{page}");
    assert_eq!(server.get(&format!("{at}/rows?state=odd")).send().status, 400);

    let run = rows["rows"][0]["run"].as_str().expect("a run");
    let events = server.get(&format!("{at}/rows/{run}/events?view=true")).send();
    assert!(events.text.contains("run_ended") && events.text.contains("Hello!"), "{events:?}");
    for other in ["0".repeat(32), "..%2f..%2fjournal".into(), "x".into()] {
        assert_eq!(server.get(&format!("{at}/rows/{other}/events")).send().status, 404, "{other}");
    }
    let own = server.get("/v1/programs/desk/maps").token(TOKEN_OF_CI).send();
    assert_eq!(own.body, json!({"maps": []}));
    for path in [at.clone(), format!("{at}/rows"), format!("{at}/rows/{run}/events")] {
        assert_eq!(server.get(&path).token(TOKEN_OF_CI).send().status, 404, "{path}");
    }
    // The service shows no records that were changed, and no map whose state is a link.
    let state = scenario.project().join("out.jsonl.map");
    let segment = std::fs::read_dir(&state).expect("the state").flatten().map(|entry| entry.path());
    let segment =
        segment.into_iter().find(|path| path.to_string_lossy().contains("journal-")).expect("a segment");
    let text = std::fs::read_to_string(&segment).expect("records").replace("Hello!", "Hollo!");
    std::fs::write(&segment, text).expect("records");
    assert_eq!(server.get(&format!("{at}/rows/{run}/events")).send().status, 404);
    std::fs::rename(&state, scenario.project().join("elsewhere")).expect("another name");
    std::os::unix::fs::symlink("elsewhere", &state).expect("a link");
    assert_eq!(server.get("/v1/programs/desk/maps").send().body, json!({"maps": []}));
}
