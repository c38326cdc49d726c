//! Budgets of tokens over time.

use super::{
    client::{Server, TOKEN_OF_CI, ci_token},
    desk,
};
use serde_json::{Value, json};

#[test]
fn a_token_has_a_budget_of_a_day_that_a_restart_does_not_open() {
    let more = "    budgets: {day: {max_tokens: 1000}, month: {max_cost_usd: 5}}\n";
    let scenario = desk()
        .home_file("config.yaml", "prices:\n  'script:*': {input: 1, output: 10, max_output: 500}\n")
        .home_file("serve.yaml", &ci_token("[start, read]", more));
    let start = |server: &Server, token: &str| {
        let run = server.post("/v1/runs?wait=60", &json!({"input": {"name": "Ada"}})).token(token).send();
        assert_eq!(run.status, 201, "{run:?}");
        run.body
    };
    let server = Server::start(&scenario, &[]);
    assert_eq!(start(&server, TOKEN_OF_CI)["state"], "done");
    assert_eq!(start(&server, TOKEN_OF_CI)["state"], "done", "with a shorter answer");
    drop(server);
    let server = Server::start(&scenario, &[]);
    let refused = start(&server, TOKEN_OF_CI);
    assert_eq!(refused["state"], "limit", "{refused}");
    assert!(refused.to_string().contains("the budget of the token `ci` leaves too little"), "{refused}");
    assert_eq!(start(&server, &server.token)["state"], "done", "another token has no budget");

    let told = scenario.run(&["budgets", "--json"]);
    let report: Value = serde_json::from_str(&told.stdout).expect("JSON");
    let [day, month] = [&report["budgets"][0], &report["budgets"][1]];
    assert_eq!((&day["token"], &day["per"], &month["per"]), (&json!("ci"), &json!("day"), &json!("month")));
    assert!(
        day["left_tokens"].as_u64() < Some(100) && month["used_cost_usd"].as_f64() > Some(0.0),
        "{report}"
    );

    let metrics = |token: &str| server.get("/metrics").token(token).send().text;
    let used = "llm_do_budget_used{token=\"ci\",per=\"day\",unit=\"tokens\"} ";
    let limit = "llm_do_budget_limit{token=\"ci\",per=\"day\",unit=\"tokens\"} 1000";
    for token in [TOKEN_OF_CI, &server.token] {
        let text = metrics(token);
        assert!(text.contains(used) && text.contains(limit), "{text}");
    }

    let wrong = ci_token("[start]", "    budgets: {week: {max_tokens: 1}}\n");
    let told = desk().home_file("serve.yaml", &wrong).run(&["serve", ".", "--listen", "127.0.0.1:0"]);
    assert!(told.code == Some(2) && told.stderr.contains("week"), "{told}");
}
