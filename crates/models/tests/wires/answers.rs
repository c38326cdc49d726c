//! Answers: text, calls, refusals, and the requests that carry them back.

use crate::*;

#[tokio::test]
async fn text_comes_with_its_finish_and_usage() {
    for way in WAYS {
        let talk = Talk::new(way, Script::new().turn(Reply::text("Hi there.").usage_with_cache(100, 7, 60)));
        let response = talk.ask().await.unwrap();
        assert_eq!(text(&response), "Hi there.", "{way:?}");
        assert_eq!(response.finish, FinishReason::Stop);
        assert_eq!(response.usage.input_tokens, Some(100), "{way:?}");
        assert_eq!(response.usage.cached_tokens, Some(60), "{way:?}");
        assert_eq!(response.usage.output_tokens, Some(7), "{way:?}");
        let seen = talk.seen();
        assert_eq!((seen.system(), seen.last_user_text()), ("Be brief.", "Hello."));
        assert_eq!(seen.streamed(), way.1);
        assert_eq!(seen.tool_names(), ["read_file", "list_files"]);
        assert_eq!(talk.told.text(), if way.1 { "Hi there." } else { "" });
        talk.server.assert_valid();
    }
}

#[tokio::test]
async fn several_calls_and_their_results_make_a_history_that_the_wire_accepts() {
    for way in WAYS {
        let both = [("read_file", json!({"path": "a"})), ("read_file", json!({"path": "b"}))];
        let script = Script::new()
            .turn(Reply::text("I look.").and_tool("list_files", json!({})))
            .turn(Reply::tools(both))
            .turn(Reply::text("Done."));
        let mut talk = Talk::new(way, script);
        let first = talk.turn("a, b").await;
        assert_eq!(first.finish, FinishReason::ToolCalls);
        assert_eq!(arguments(&calls(&first)[0]), json!({}), "{way:?}");
        let second = talk.turn("error: unreadable").await;
        let made = calls(&second);
        assert_eq!([arguments(&made[0]), arguments(&made[1])], [json!({"path": "a"}), json!({"path": "b"})]);
        assert_ne!(made[0].id, made[1].id);
        assert_eq!(text(&talk.turn("").await), "Done.");
        talk.server.assert_valid();
        let seen = talk.seen();
        assert_eq!(seen.tool_results().len(), 2, "{way:?}: parallel results stand together");
        assert_eq!(seen.tool_results()[0].is_error, way.0 == Wire::Anthropic);
        assert_eq!(seen.tool_results()[1].text, "error: unreadable");
        if way.1 {
            assert_eq!(talk.told.calls(), ["list_files", "read_file", "read_file"]);
        }
    }
}

#[tokio::test]
async fn torn_chunks_and_characters_come_together_again() {
    for wire in STREAMED {
        for size in [1, 3, 7] {
            let reply = Reply::text("Grüße, 世界 🌍.").and_tool("read_file", json!({"path": "ä"})).torn(size);
            let talk = Talk::new((wire, true), Script::new().turn(reply));
            let response = talk.ask().await.unwrap();
            assert_eq!(text(&response), "Grüße, 世界 🌍.");
            assert_eq!(arguments(&calls(&response)[0]), json!({"path": "ä"}));
            assert_eq!(talk.told.text(), "Grüße, 世界 🌍.");
        }
    }
}

#[tokio::test]
async fn arguments_that_are_no_json_are_kept_and_can_go_back() {
    for way in WAYS {
        let broken = r#"{"path": "a", "#;
        let script = Script::new()
            .turn(Reply::text("Hm.").and_raw_tool("read_file", broken).and_tool("list_files", json!({})))
            .turn(Reply::text("Sorry."));
        let mut talk = Talk::new(way, script);
        let response = talk.turn("error: not JSON").await;
        assert_eq!(text(&response), "Hm.", "{way:?}");
        assert_eq!(response.finish, FinishReason::ToolCalls);
        let made = calls(&response);
        assert_eq!(made.len(), 2);
        assert!(
            matches!(&made[0].arguments, Arguments::Invalid { text, .. } if &**text == broken),
            "{way:?}: {made:?}"
        );
        assert_eq!(text(&talk.turn("").await), "Sorry.");
        talk.server.assert_valid();
        let seen = talk.seen();
        let sent = seen.messages().iter().flat_map(|message| &message.tool_calls).next().unwrap();
        assert_eq!(sent.arguments, json!({"INVALID_JSON": broken}), "{way:?}");
    }
}

#[tokio::test]
async fn refusals_cut_off_answers_and_empty_ones_say_so() {
    for way in WAYS {
        let talk = Talk::new(way, Script::new().turn(Reply::refusal("I can't help with that.")));
        let response = talk.ask().await.unwrap();
        assert_eq!(response.finish, FinishReason::Refusal, "{way:?}");
        assert_eq!(text(&response), "I can't help with that.", "{way:?}");

        let talk = Talk::new(way, Script::new().turn(Reply::text("Once upon").finish(Finish::Length)));
        assert_eq!(talk.ask().await.unwrap().finish, FinishReason::Length, "{way:?}");

        let talk = Talk::new(way, Script::new().turn(Reply::text("x").finish(Finish::Filtered)));
        assert_eq!(talk.ask().await.unwrap().finish, FinishReason::Refusal, "{way:?}");

        let mut talk = Talk::new(way, Script::new().turn(Reply::empty()).turn(Reply::text("Yes.")));
        let response = talk.turn("").await;
        assert_eq!((response.parts.len(), response.finish), (0, FinishReason::Stop), "{way:?}");
        talk.say(Role::User, vec![Part::text("Say something.")]);
        assert_eq!(text(&talk.turn("").await), "Yes.");
        talk.server.assert_valid();
    }
}
