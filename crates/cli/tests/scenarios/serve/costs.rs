//! The costs of runs.

use super::{
    client::{Server, TOKEN_OF_CI, ci_token},
    desk,
};
use serde_json::{Value, json};

fn names(lines: &Value) -> Vec<&str> {
    lines.as_array().expect("lines").iter().map(|line| line["name"].as_str().expect("a name")).collect()
}

#[test]
fn costs_of_runs_are_summed_by_worker_model_day_and_client() {
    let scenario = desk().home_file("serve.yaml", &ci_token("[start]", ""));
    let server = Server::start(&scenario, &[]);
    for name in ["Ada", "Bob"] {
        server.post("/v1/runs?wait=60", &json!({"input": {"name": name}})).send();
    }
    server.post("/v1/runs?wait=60", &json!({"worker": "sorter", "input": {"mail": "x"}})).send();
    let costs = server.get("/v1/costs").send();
    assert_eq!(costs.status, 200, "{costs:?}");
    let costs = costs.body;
    assert_eq!((&costs["total"]["runs"], &costs["total"]["requests"]), (&json!(3), &json!(3)), "{costs}");
    let mut workers = names(&costs["workers"]);
    workers.sort_unstable();
    assert_eq!(workers, ["desk/greeter", "desk/sorter"]);
    let mut models = names(&costs["models"]);
    models.sort_unstable();
    assert_eq!(models, ["script:s.yaml", "script:typed.yaml"]);
    assert_eq!(costs["days"].as_array().map(Vec::len), Some(1), "{costs}");
    assert_eq!(costs["dearest"].as_array().map(Vec::len), Some(3), "{costs}");
    assert_eq!(costs["more"], false);
    let later = server.get("/v1/costs?since_ms=99999999999999").send().body;
    assert_eq!(later["total"]["runs"], 0, "{later}");
    let other = server.get("/v1/costs?program=other").send().body;
    assert_eq!(other["total"]["runs"], 0, "{other}");
    // A token without the right to read gets no sums.
    let own = server.get("/v1/costs").token(TOKEN_OF_CI).send();
    assert_eq!(own.status, 403, "{own:?}");
}
