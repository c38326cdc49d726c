//! Answers that break off, statuses, silence, and addresses at which nothing answers.

use crate::*;

#[tokio::test]
async fn a_stream_that_ends_early_is_never_an_answer() {
    for wire in STREAMED {
        let full = || Reply::text("This is a long answer.").and_tool("read_file", json!({"path": "a"}));
        let chunks = if wire == Wire::OpenAi { 0..6 } else { 0..8 };
        for cut in chunks {
            for reply in [full().cut_after(cut), full().end_after(cut), full().malformed_after(cut)] {
                let talk = Talk::new((wire, true), Script::new().turn(reply));
                match talk.ask().await {
                    Ok(response) => panic!("{wire:?}, cut after {cut}: {response:?}"),
                    Err(error) => assert_eq!(error.kind, ModelErrorKind::Network, "{wire:?} {cut}: {error}"),
                }
            }
        }
    }
}

#[tokio::test]
async fn a_cut_answer_that_is_not_streamed_is_no_answer_either() {
    for wire in STREAMED {
        for reply in [Reply::text("A long answer.").cut_after(1), Reply::text("A long answer.").end_after(1)]
        {
            let talk = Talk::new((wire, false), Script::new().turn(reply));
            let error = talk.ask().await.unwrap_err();
            assert_eq!(error.kind, ModelErrorKind::Network, "{error}");
        }
    }
}

#[tokio::test]
async fn statuses_become_kinds_and_the_server_says_how_long_to_wait() {
    use ModelErrorKind as K;
    for way in WAYS {
        for (reply, kind, wait) in [
            (Reply::rate_limited(Some(Duration::from_secs(2))), K::RateLimited, Some(2000)),
            (Reply::rate_limited(None), K::RateLimited, None),
            (Reply::status(429).header("retry-after-ms", "250"), K::RateLimited, Some(250)),
            (Reply::status(500), K::Server, None),
            (Reply::status(529), K::Server, None),
            (Reply::status(404), K::NotFound, None),
            (Reply::status(400), K::BadRequest, None),
            (Reply::status(403), K::Auth, None),
        ] {
            let talk = Talk::new(way, Script::new().turn(reply));
            let error = talk.ask().await.unwrap_err();
            assert_eq!((error.kind, error.retry_after_ms), (kind, wait), "{way:?}: {error}");
            assert!(error.message.starts_with(talk.name.as_str()), "{error}");
        }
        let long = r#"{"error":{"message":"prompt is too long","type":"invalid_request_error"}}"#;
        let talk = Talk::new(way, Script::new().turn(Reply::status(400).body(long)));
        assert_eq!(talk.ask().await.unwrap_err().kind, K::ContextExceeded);
    }
}

#[tokio::test]
async fn a_refused_key_is_told_by_its_variable_and_not_shown() {
    for way in WAYS {
        for code in [401, 403, 400, 500] {
            let body = format!(r#"{{"error":{{"message":"Incorrect API key provided: {KEY}"}}}}"#);
            let talk = Talk::new(way, Script::new().turn(Reply::status(code).body(body)));
            let error = talk.ask().await.unwrap_err();
            assert!(!format!("{error:?}").contains(KEY), "{error:?}");
            let var = if way.0 == Wire::OpenAi { "OPENAI_API_KEY" } else { "ANTHROPIC_API_KEY" };
            // Some servers refuse a key with 400. A server's message about a key is never repeated.
            assert_eq!(code != 500, error.message.contains(var), "{error}");
            let header = if way.0 == Wire::OpenAi { "authorization" } else { "x-api-key" };
            assert!(talk.seen().header(header).unwrap().ends_with(KEY));
        }
    }
}

#[tokio::test]
async fn an_error_in_the_middle_of_a_stream_is_that_error() {
    let talk = Talk::new(
        (Wire::Anthropic, true),
        Script::new().turn(Reply::text("A b c.").error_after(3, "overloaded_error")),
    );
    let error = talk.ask().await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Server, "{error}");
    let talk = Talk::new(
        (Wire::OpenAi, true),
        Script::new().turn(Reply::text("A b c.").error_after(2, "rate_limit_exceeded")),
    );
    let error = talk.ask().await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::RateLimited, "{error}");
}

#[tokio::test]
async fn silence_is_given_up_after_the_idle_time() {
    for way in WAYS {
        for reply in [Reply::hang(), Reply::text("A b c d e f.").hang_after(1)] {
            let talk = Talk::impatient(way, reply, Duration::from_millis(60));
            let error = talk.ask().await.unwrap_err();
            assert_eq!(error.kind, ModelErrorKind::Timeout, "{way:?}: {error}");
        }
    }
}

#[tokio::test]
async fn an_address_of_this_machine_without_a_server_is_told_without_its_password() {
    // No other test listens at this address, so its port stays free.
    let free = std::net::TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap();
    let custom = CustomProvider::new(format!("http://user:hunter22@{free}/v1"));
    let server = TestServer::start(Script::new());
    let providers = providers(server.url()).custom("gw", custom);
    let error = Talk::with(server, &providers, "gw:m").ask().await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::NotFound, "{error}");
    assert!(error.message.contains(&free.to_string()) && !error.message.contains("hunter22"), "{error}");
}
