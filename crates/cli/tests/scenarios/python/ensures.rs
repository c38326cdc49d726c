//! Python functions that check a worker's output before it is returned (`ensures`, docs/reference/worker-files.md).

use super::fixture::{failure, has_python, holds, output, succeed};
use crate::scenario::Scenario;
use serde_json::json;

const TOOLS: &str = r#"
def has_points(output: dict, input: dict) -> list[str]:
    """Says what is wrong with a summary."""
    problems = []
    if len(output["points"]) > input["most"]:
        problems.append(f"{len(output['points'])} points, and at most {input['most']} were asked for")
    return problems


def is_polite(output: dict) -> None:
    if "!" in output["title"]:
        raise ValueError("no exclamation marks in a title")
"#;

/// A worker whose model gives these summaries, one after the other.
fn summing_up(summaries: &[serde_json::Value]) -> Scenario {
    let answers: Vec<serde_json::Value> = summaries
        .iter()
        .enumerate()
        .map(|(turn, value)| json!({"when": {"turn": turn}, "text": value.to_string()}))
        .collect();
    Scenario::new()
        .file(
            "main.worker",
            "---\nmodel: script:s.yaml\ntoolsets: [custom]\nparameters: {text: string, most: integer}\n\
             returns: {title: string, points: array<string>}\nensures: [has_points, is_polite]\n---\nSum up {{ text }}.\n",
        )
        .file("tools.py", TOOLS)
        .file("s.yaml", &json!({"answers": answers}).to_string())
}

const ASK: [&str; 5] = [".", "--param", "text=bees", "--param", "most=1"];

#[test]
fn failed_check_is_returned_to_the_model() {
    if !has_python() {
        return;
    }
    let good = json!({"title": "Bees", "points": ["they fly"]});
    let scenario = summing_up(&[json!({"title": "Bees!", "points": ["a", "b"]}), good.clone()]);
    let told = succeed(&scenario, &ASK);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&told.stdout).unwrap(), good);
    let journal = scenario.journal();
    let repair = journal.iter().find(|record| record["kind"] == "message_added").unwrap();
    holds(
        &repair.to_string(),
        &[
            "`has_points`: 2 points, and at most 1 were asked for",
            "`is_polite`: ",
            "no exclamation marks in a title",
        ],
    );
    holds(&failure(&scenario, "0/ensures.0.1"), &["no exclamation marks in a title"]);
    assert_eq!(output(&scenario, "0/ensures.1.0"), json!([]));

    // A replay needs only the journal, and takes the results of the functions from it.
    let scenario =
        scenario.file("tools.py", &TOOLS.replace("problems = []", "problems = [] if len(input) else None"));
    let told = scenario.run(&["runs", "replay", "last"]);
    assert_eq!(told.code, Some(0), "{told}");
}

#[test]
fn check_that_needs_an_approval_can_be_resumed() {
    if !has_python() {
        return;
    }
    let good = json!({"title": "Bees", "points": ["they fly"]});
    let scenario = summing_up(std::slice::from_ref(&good));
    let told = scenario.run(&[&ASK[..], &["--ask", "has_points", "--approval", "defer"]].concat());
    assert_eq!(told.code, Some(5), "{told}");
    let told = scenario.run(&["runs", "resume", "last", "--approve", "0/ensures.0.0"]);
    assert_eq!(told.code, Some(0), "{told}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&told.stdout).unwrap(), good);
    let requests = scenario.journal().iter().filter(|record| record["kind"] == "model_requested").count();
    assert_eq!(requests, 1, "the answer was not asked for once more");
}

#[test]
fn check_whose_code_takes_another_path_says_what_belongs_into_a_step() {
    if !has_python() {
        return;
    }
    let good = json!({"title": "Bees", "points": ["they fly"]});
    let code = "from llm_do import ToolContext\n\ndef one() -> str:\n    return '1'\n\ndef two() -> str:\n    return '2'\n\n\
                def slow() -> str:\n    return 'ok'\n\n\
                def judged(ctx: ToolContext, output: dict) -> list[str]:\n    \
                ctx.call(open('mode.txt').read().strip(), {})\n    ctx.call('slow', {})\n    return []\n";
    let worker = "---\nmodel: script:s.yaml\ntoolsets: [custom]\nreturns: {title: string, points: array<string>}\n\
                  ensures: [judged]\n---\nSum up.\n";
    let scenario = Scenario::new()
        .file("main.worker", worker)
        .file("tools.py", code)
        .file("mode.txt", "one\n")
        .file("s.yaml", &json!({"answers": [{"text": good.to_string()}]}).to_string());
    let told = scenario.run(&[".", "--allow", "*", "--ask", "slow", "--approval", "defer"]);
    assert_eq!(told.code, Some(5), "{told}");
    let asked = scenario.journal().into_iter().find(|record| record["kind"] == "asked").expect("a question");
    let scenario = scenario.file("mode.txt", "two\n");
    let path = asked["path"].as_str().expect("a path");
    let told = scenario.run(&["runs", "resume", "last", "--approve", path]);
    assert_ne!(told.code, Some(0), "{told}");
    holds(&told.to_string(), &["is not made any more", "`ctx.step`"]);
}
