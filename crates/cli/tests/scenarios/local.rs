//! Local models, without fetching any (SPEC §10.5).

use crate::{session::Session, story::Story};

fn greeter() -> Story {
    Story::new().file("x.worker", "---\n---\nHi.\n")
}

#[test]
fn without_a_terminal_the_command_that_fetches_a_model_is_told() {
    let told = greeter().run(&["x.worker", "hello"]);
    assert_eq!(told.code, Some(2), "{told}");
    assert!(told.stderr.contains("`llm-do models pull smollm2-135m-instruct`"), "{told}");
}

#[test]
fn on_a_terminal_it_is_asked_once_whether_to_fetch_one() {
    let story = greeter();
    let mut session = Session::start(story.command_on_terminal(&["x.worker", "hello"]));
    session.expect("99 MB, licence Apache-2.0");
    session.expect("[y]es  [n]o ");
    session.wait_for_keys();
    session.type_keys("n");
    let (code, shown) = session.end();
    assert_eq!(code, Some(2), "{shown}");
    assert!(shown.contains("llm-do models pull"), "{shown}");
}

#[test]
fn the_catalogue_tells_what_is_here() {
    let told = greeter().run(&["models", "list", "--json"]);
    let list: serde_json::Value = serde_json::from_str(&told.stdout).expect("JSON");
    assert_eq!(list["models"][0]["name"], "smollm2-135m-instruct");
    assert!(list["models"][0]["installed"].is_null(), "{told}");
    assert_eq!(greeter().run(&["models", "remove", "smollm2-135m-instruct"]).code, Some(2));
    let told = greeter().run(&["models", "pull", "smollm3"]);
    assert!(told.code == Some(2) && told.stderr.contains("smollm2-135m-instruct"), "{told}");
}

#[test]
fn a_local_model_that_is_not_here_is_told_before_anything_runs() {
    let told = greeter().run(&["x.worker", "hello", "--model", "local:smollm2-135m-instruct"]);
    assert_eq!(told.code, Some(2), "{told}");
    assert!(told.stderr.contains("llm-do models pull"), "{told}");
    let story = greeter().file("model.gguf", "no such format");
    let told = story.run(&["x.worker", "hello", "--model", "local:./model.gguf"]);
    assert!(told.code == Some(2) && told.stderr.contains("not a GGUF file"), "{told}");
}

#[test]
fn ctrl_c_instead_of_an_answer_ends_it_and_restores_the_terminal() {
    let story = greeter();
    let mut session = Session::start(story.command_on_terminal(&["x.worker", "hello"]));
    session.expect("[y]es  [n]o ");
    session.wait_for_keys();
    session.type_keys("\u{3}");
    assert_eq!(session.end().0, Some(130));
}
