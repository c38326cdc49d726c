//! Several conversations with one model. Each keeps its evaluated tokens, and concurrent ones are evaluated together.
//! The tests use a model of a few kilobytes, and real weights where the machine has them.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that meets an error has failed, and says what it skips"
)]

mod asking;
#[allow(dead_code, reason = "other tests use the rest")]
mod tiny_model;

use asking::{Ask, open, real_model};
use llm_do_core::model::{FinishReason, ModelResponse, Part, Role};
use llm_do_inference::LocalModel;
use std::fs;
use tempfile::TempDir;
use tiny_model::Gguf;

/// Opens the tiny model, in a file that lives as long as the folder.
fn tiny() -> (TempDir, LocalModel) {
    // Not below /tmp, which is another folder in a confined process.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("tiny.gguf");
    fs::write(&path, Gguf::tiny().bytes()).unwrap();
    let model = open(path).unwrap();
    (folder, model)
}

fn ask(system: &str, text: &str, max_tokens: u32) -> Ask {
    let mut ask = Ask { system: system.to_owned(), ..Ask::user(text) };
    ask.settings.temperature = Some(0.0);
    ask.settings.max_tokens = Some(max_tokens);
    ask
}

fn text(response: &ModelResponse) -> String {
    response.parts.iter().filter_map(Part::as_text).collect()
}

/// Continues a conversation with the answer and another message.
fn continued(ask: &Ask, answer: &ModelResponse, message: &str) -> Ask {
    let mut ask = ask.clone();
    ask.parts.push((Role::Assistant, answer.parts.clone()));
    ask.parts.push((Role::User, vec![Part::text(message)]));
    ask
}

/// Returns the number of tokens of a conversation that are held after an answer: all but the last one of an answer that
/// was cut off, which was never evaluated.
fn held(response: &ModelResponse) -> u64 {
    let unneeded = u64::from(response.finish == FinishReason::Length);
    response.usage.input_tokens.unwrap() + response.usage.output_tokens.unwrap() - unneeded
}

/// Returns the number of tokens that had to be evaluated for an answer.
fn evaluated(response: &ModelResponse) -> u64 {
    held(response) - response.usage.cached_tokens.unwrap()
}

/// Asks as a caller, then as its callee, and then as the caller again.
async fn caller_and_callee(model: &LocalModel) {
    let caller = ask(&"You plan the work of others. ".repeat(20), "Plan a garden.", 12);
    let callee = ask(&"You know all about plants. ".repeat(20), "Which plants need shade?", 12);
    let first = caller.answer(model).await;
    let called = callee.answer(model).await;
    let again = continued(&callee, &called, "And which need sun?").answer(model).await;
    let second = continued(&caller, &first, "Ferns need shade.").answer(model).await;
    assert_eq!(again.usage.cached_tokens, Some(held(&called)), "{:?}", again.usage);
    assert_eq!(second.usage.cached_tokens, Some(held(&first)), "{:?}", second.usage);
    let all = [&first, &called, &again, &second].map(evaluated).iter().sum::<u64>();
    assert_eq!(model.evaluated_tokens(), all);
}

#[tokio::test]
async fn a_caller_evaluates_no_token_twice_after_its_callee() {
    let (_folder, model) = tiny();
    caller_and_callee(&model).await;
}

#[tokio::test]
async fn a_caller_evaluates_no_token_twice_with_real_weights() {
    let Some(model) = real_model() else { return };
    caller_and_callee(&model).await;
}

/// Makes all requests at once, then one after the other, each with a model that has evaluated nothing.
async fn at_once_and_one_by_one(
    together: &LocalModel,
    apart: &LocalModel,
    asks: &[Ask; 3],
) -> [ModelResponse; 3] {
    let [a, b, c] = asks;
    let at_once: [ModelResponse; 3] =
        tokio::join!(a.answer(together), b.answer(together), c.answer(together)).into();
    for (ask, answer) in asks.iter().zip(&at_once) {
        assert_eq!(text(answer), text(&ask.answer(apart).await));
    }
    at_once
}

async fn children(together: &LocalModel, apart: &LocalModel) {
    let system = "You answer questions about rivers in a word or two. ".repeat(8);
    let asks =
        ["Longest river?", "A river in France?", "The river of London?"].map(|it| ask(&system, it, 16));
    let answers = at_once_and_one_by_one(together, apart, &asks).await;
    // The common beginning was evaluated once, although all came at the same time.
    let cached: Vec<u64> = answers.iter().map(|answer| answer.usage.cached_tokens.unwrap()).collect();
    assert_eq!(cached.iter().filter(|cached| **cached == 0).count(), 1, "{cached:?}");
    assert!(cached.iter().filter(|cached| **cached > 80).count() == 2, "{cached:?}");
    assert!(together.evaluated_tokens() <= apart.evaluated_tokens());
}

#[tokio::test]
async fn parallel_children_say_what_they_say_one_after_the_other() {
    let ((_one, together), (_other, apart)) = (tiny(), tiny());
    children(&together, &apart).await;
}

#[tokio::test]
async fn parallel_children_say_the_same_with_real_weights() {
    let Some(together) = real_model() else { return };
    let apart = open(together.path()).unwrap();
    children(&together, &apart).await;
}

/// The window of the tiny model is 4,096 tokens, and its memory holds two windows.
#[tokio::test]
async fn the_oldest_conversation_makes_room() {
    let (_folder, model) = tiny();
    let asks = ["a", "b", "c"].map(|it| ask(&it.repeat(3500), "Go on.", 4));
    let mut answers = Vec::new();
    for ask in &asks {
        answers.push(ask.answer(&model).await);
    }
    let second = continued(&asks[2], &answers[2], "More.").answer(&model).await;
    assert!(second.usage.cached_tokens > Some(3500), "{:?}", second.usage);
    let oldest = asks[0].answer(&model).await;
    assert!(oldest.usage.cached_tokens < Some(100), "{:?}", oldest.usage);
    assert_eq!(text(&oldest), text(&answers[0]));
}

#[tokio::test]
async fn answers_that_do_not_fit_together_wait_for_each_other() {
    let (_folder, model) = tiny();
    let [a, b, c] = ["a", "b", "c"].map(|it| ask(&it.repeat(3500), "Go on.", 200));
    let answers = tokio::join!(a.answer(&model), b.answer(&model), c.answer(&model));
    for answer in [answers.0, answers.1, answers.2] {
        assert_eq!(answer.usage.output_tokens, Some(200));
    }
    // One of the three conversations was evaluated twice, and not again and again.
    assert!(model.evaluated_tokens() < 4 * 3800, "{}", model.evaluated_tokens());
}

#[tokio::test]
async fn more_requests_than_sequences_are_all_answered() {
    let (_folder, model) = tiny();
    let asks: Vec<Ask> = (0..40).map(|number| ask("", &format!("Number {number}?"), 8)).collect();
    let answers = asks.iter().map(|ask| ask.answer(&model));
    for answer in join_all(answers).await {
        assert_eq!(answer.usage.output_tokens, Some(8));
    }
}

/// Polls all futures, and returns their results in order.
async fn join_all<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut waiting: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        for (future, done) in waiting.iter_mut().filter(|(_, done)| done.is_none()) {
            if let std::task::Poll::Ready(value) = future.as_mut().poll(context) {
                *done = Some(value);
            }
        }
        match waiting.iter().all(|(_, done)| done.is_some()) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    waiting.into_iter().filter_map(|(_, done)| done).collect()
}
