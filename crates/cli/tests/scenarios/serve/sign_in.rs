//! Pages of the server: the app's files, and sessions in the place of the token.

use super::{
    client::{Server, TOKEN_OF_CI, ci_token},
    desk,
};
use serde_json::json;

#[test]
fn page_signs_in_to_a_session_of_two_secrets() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let own = format!("http://{}", server.address);
    let signed_in = server.ask("POST", "/v1/session", String::new()).header("Origin", &own).send();
    assert_eq!((signed_in.status, &signed_in.body["idle_s"]), (201, &json!(43200)), "{signed_in:?}");
    let cookie = signed_in.header("set-cookie").expect("a cookie");
    assert!(cookie.starts_with(&format!("llm-do-session-{}=", server.port())), "{cookie}");
    assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/"), "{cookie}");
    assert!(!cookie.contains(&server.token), "the token is in no cookie");
    let page = server.sign_in(&server.token);
    assert!(!cookie.contains(&page.cookie), "each session has its own secrets");
    let session = server.get("/v1/session").page(&page).send();
    assert_eq!(session.status, 200, "{session:?}");
    assert_eq!(
        (&session.body["name"], &session.body["scopes"], &session.body["read"]),
        (&json!("operator"), &json!(["start", "read", "answer"]), &json!("all"))
    );
    let out = server.ask("DELETE", "/v1/session", String::new()).page(&page).header("Origin", &own).send();
    assert_eq!(out.status, 204, "{out:?}");
    assert!(out.header("set-cookie").expect("a cookie").contains("Max-Age=0"));
    assert_eq!(server.get("/v1/session").page(&page).send().status, 401, "the session has ended");
    assert_eq!(server.get("/v1/session").cookie(&server.token).send().status, 401, "a token is no cookie");
}

#[test]
fn cookie_alone_and_secrets_of_two_sessions_are_useless() {
    let scenario = desk().home_file("serve.yaml", &ci_token("[start, read]", ""));
    let server = Server::start(&scenario, &[]);
    let own = format!("http://{}", server.address);
    let (page, other) = (server.sign_in(&server.token), server.sign_in(TOKEN_OF_CI));
    // Another port of this machine got the cookie. It can make its own requests, with any Origin.
    let start = |cookie: &str| server.post("/v1/runs", &json!({"input": {"name": "Ada"}})).cookie(cookie);
    for request in [start(&page.cookie), server.get("/v1/runs").cookie(&page.cookie)] {
        let refused = request.header("Origin", &own).send();
        assert_eq!((refused.status, &refused.body["code"]), (401, &json!("unauthorized")), "{refused:?}");
    }
    for wrong in ["", &page.cookie, &other.secret, &server.token] {
        let refused = start(&page.cookie).header("Origin", &own).header("Llm-Do-Session", wrong).send();
        assert_eq!(refused.status, 401, "{wrong}: {refused:?}");
    }
    // Another port has set its cookie: the page does not become somebody else.
    let mixed = server.get("/v1/session").cookie(&other.cookie).header("Llm-Do-Session", &page.secret).send();
    assert_eq!(mixed.status, 401, "{mixed:?}");
    assert_eq!(server.get("/v1/session").page(&other).send().body["name"], "ci", "the control");
    assert_eq!(scenario.runs().len(), 0);
}

#[test]
fn only_a_page_of_the_server_signs_in() {
    let scenario = desk();
    let server = Server::start(&scenario, &["--allow-origin", "https://chat.example"]);
    let sign_in = || server.ask("POST", "/v1/session", String::new());
    for origin in ["https://evil.example", "http://127.0.0.1:1", "null", "https://chat.example"] {
        let refused = sign_in().header("Origin", origin).send();
        assert_eq!((refused.status, refused.header("set-cookie")), (403, None), "{origin}: {refused:?}");
    }
    assert_eq!(sign_in().send().status, 403, "without an Origin");
    let own = format!("http://{}", server.address);
    assert_eq!(sign_in().header("Origin", &own).token("wrong").send().status, 401);
    // A link with a token of others: the page learns who opened it, and asks.
    for (site, opened_by) in [
        (None, "user"),
        (Some("none"), "user"),
        (Some("same-origin"), "user"),
        (Some("same-site"), "another page"),
        (Some("cross-site"), "another page"),
    ] {
        let mut request = server.get("/").without_token();
        if let Some(site) = site {
            request = request.header("Sec-Fetch-Site", site);
        }
        let page = request.send();
        assert_eq!(page.header("cross-origin-opener-policy"), Some("same-origin"));
        // A binary without the app has a page that signs nobody in.
        if page.text.contains("opened-by") {
            let told = format!("name=\"opened-by\" content=\"{opened_by}\"");
            assert!(page.text.contains(&told), "{site:?}: {}", page.text);
        }
    }
}

#[test]
fn session_ends_with_the_server_and_not_with_other_pages() {
    let scenario = desk().file("token", "0123456789abcdef-operator\n");
    let token = "0123456789abcdef-operator";
    let server = Server::start_given(&scenario, &["--token-file", "token"], token);
    let (one, two) = (server.sign_in(token), server.sign_in(token));
    let own = format!("http://{}", server.address);
    let out = server.ask("DELETE", "/v1/session", String::new()).page(&one).header("Origin", &own).send();
    assert_eq!(out.status, 204, "{out:?}");
    assert_eq!(server.get("/v1/session").page(&two).send().status, 200);
    drop(server);
    let server = Server::start_given(&scenario, &["--token-file", "token"], token);
    assert_eq!(server.get("/v1/session").page(&two).send().status, 401);
    assert_eq!(server.get("/v1/session").send().status, 200, "the token still works");
}

#[test]
fn request_with_the_cookie_must_come_from_a_page_of_the_server() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let own = format!("http://{}", server.address);
    let page = server.sign_in(&server.token);
    let start = || server.post("/v1/runs", &json!({"input": {"name": "Ada"}})).page(&page);
    assert_eq!(start().send().status, 403, "without an Origin");
    // A page on another port of this machine is of the same site, so the browser sends it the cookie.
    for (name, value) in
        [("Origin", "http://127.0.0.1:1"), ("Origin", "null"), ("Origin", "https://evil.example")]
    {
        assert_eq!(start().header(name, value).send().status, 403, "{value}");
    }
    for site in ["cross-site", "same-site"] {
        let refused = start().header("Origin", &own).header("Sec-Fetch-Site", site).send();
        assert_eq!(refused.status, 403, "{site}");
        let read = server.get("/v1/runs").page(&page).header("Sec-Fetch-Site", site).send();
        assert_eq!(read.status, 403, "{site}");
    }
    assert_eq!(scenario.runs().len(), 0);
    assert_eq!(start().header("Origin", &own).send().status, 201);
    assert_eq!(server.get("/v1/runs").page(&page).send().status, 200);
    let fetched = server.get("/v1/runs").page(&page).header("Sec-Fetch-Site", "same-origin").send();
    assert_eq!(fetched.status, 200);
}

#[test]
fn allowed_page_of_another_origin_is_not_let_in_by_the_cookie() {
    let scenario = desk();
    let server = Server::start(&scenario, &["--allow-origin", "https://chat.example"]);
    let page = server.sign_in(&server.token);
    let start = || {
        server
            .post("/v1/runs?wait=60", &json!({"input": {"name": "Ada"}}))
            .header("Origin", "https://chat.example")
    };
    let by_cookie = start().page(&page).send();
    assert_eq!((by_cookie.status, &by_cookie.body["code"]), (403, &json!("forbidden")), "{by_cookie:?}");
    let reads = server.get("/v1/runs").header("Origin", "https://chat.example").page(&page).send();
    assert_eq!(reads.status, 403, "{reads:?}");
    assert_eq!(reads.header("access-control-allow-credentials"), None, "{reads:?}");
    assert_eq!(scenario.runs().len(), 0);
    let by_token = start().send();
    assert_eq!((by_token.status, &by_token.body["state"]), (201, &json!("done")), "{by_token:?}");
}

#[test]
fn app_is_served_without_a_token_and_with_a_strict_policy() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let nonces: Vec<String> = (0..2)
        .map(|_| {
            let page = server.get("/").without_token().send();
            assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
            let policy = page.header("content-security-policy").expect("a policy").to_owned();
            assert!(
                policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self' 'nonce-"),
                "{policy}"
            );
            assert!(
                policy.ends_with("base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
                "{policy}"
            );
            let nonce =
                policy.split_once("'nonce-").and_then(|(_, rest)| rest.split_once('\'')).expect("a nonce").0;
            assert!(!page.text.contains("__NONCE__") && page.text.contains(nonce), "{}", page.text);
            nonce.to_owned()
        })
        .collect();
    assert_ne!(nonces[0], nonces[1]);
    for path in ["/assets/none.js", "/assets/..%2findex.html", "/assets/%2e%2e%2findex.html"] {
        assert_eq!(server.get(path).without_token().send().status, 404, "{path}");
    }
    assert_eq!(server.get("/assets/a/b.js").without_token().send().status, 404, "no such address");
    assert_eq!(server.get("/").header("Host", "evil.example").send().status, 403);
}

#[test]
fn operator_chooses_a_token_that_lasts() {
    let scenario = desk().file("token", "0123456789abcdef-operator\n");
    let server = Server::start_given(&scenario, &["--token-file", "token"], "0123456789abcdef-operator");
    assert_eq!(server.get("/v1/session").send().body["name"], "operator");
    drop(server);
    for wrong in ["short", "with spaces in it, and long", "a;b=c;d=e;f=g;h=i;j=k"] {
        std::fs::write(scenario.project().join("token"), wrong).expect("written");
        let told = scenario.run(&["serve", ".", "--token-file", "token"]);
        assert_eq!(told.code, Some(2), "{wrong}: {told}");
        assert!(told.stderr.contains("a token has 16 to 256 characters"), "{told}");
        assert!(!told.stderr.contains(wrong), "the token is in no message: {told}");
    }
}

#[test]
fn session_says_what_a_token_allows() {
    let scenario = desk().home_file("serve.yaml", &ci_token("[edit, read]", "    programs: [desk]\n"));
    let server = Server::start(&scenario, &[]);
    let session = server.get("/v1/session").token(TOKEN_OF_CI).send().body;
    assert_eq!(session["scopes"], json!(["read", "edit"]));
    assert_eq!((&session["read"], &session["programs"]), (&json!("own"), &json!(["desk"])));
    let programs = server.get("/v1/programs").token(TOKEN_OF_CI).send().body;
    assert_eq!(
        (&programs["programs"][0]["program"], &programs["programs"][0]["edit"]),
        (&json!("desk"), &json!(true)),
        "{programs}"
    );
    let checked = scenario.run(&["check", ".", "--output", "json"]);
    let checked: serde_json::Value = serde_json::from_str(&checked.stdout).expect("JSON");
    let errors = checked["diagnostics"].as_array().expect("findings").iter();
    let errors = errors.filter(|finding| finding["severity"] == "error").count();
    assert_eq!(programs["programs"][0]["findings"]["errors"], errors, "{programs}");
    let of_operator = server.get("/v1/programs").send().body;
    assert_eq!(of_operator["programs"][0]["edit"], false, "--edit was not given");
    assert_eq!(of_operator["programs"][0]["description"], "Greets somebody.");
    let workers = server.get("/v1/workers").send().body;
    assert_eq!(
        (&workers["workers"][0]["chat"], &workers["workers"][0]["model"]),
        (&json!(false), &json!("script:s.yaml"))
    );
}
