//! Tests that no account overspends, for any tree and any order of requests.

use super::*;
use crate::{
    account::Wanted,
    driver::MemoryDriver,
    model::{FinishReason, Message, MessageId, Role, Usage},
    price::{Price, Usd},
    shared::{InProcess, Shared},
};
use proptest::{collection::vec, option, prelude::*};
use std::{
    collections::HashMap,
    future::Future,
    pin::Pin,
    sync::Mutex,
    task::{Context, Poll, Waker},
};

/// A request: estimated input, wanted output, the error of the estimate, the percentage of the output that is used, and
/// the duration of the answer.
type Asked = (u64, u64, u64, u64, u8);

fn answered(input: u64, output: u64, price: &Price) -> RecordKind {
    let usage = Usage { input_tokens: Some(input), output_tokens: Some(output), ..Usage::default() };
    RecordKind::ModelAnswered {
        message: Arc::new(Message {
            id: MessageId(1),
            parent: None,
            role: Role::Assistant,
            parts: Vec::new(),
        }),
        finish: FinishReason::Stop,
        usage: usage.priced(Some(price)),
        unknown_finish: None,
        unoffered: Vec::new(),
    }
}

fn price() -> Price {
    let usd = |amount| Usd::dollars(amount).unwrap();
    Price::flat(usd(1.0), usd(4.0))
}

/// The usage that providers have counted beyond reservations since an account last granted one.
type Beyond = Mutex<HashMap<CallPath, Amount>>;

fn path(account: &Account) -> &CallPath {
    match &account.owner {
        Owner::Worker { path, .. } => path,
        Owner::Run | Owner::Answer { .. } | Owner::Call { .. } => {
            unreachable!("every account of this tree is a worker's")
        }
    }
}

/// Sends one request after another until a limit is reached. Returns the number of answered requests.
async fn work(shared: &InProcess, account: Arc<Account>, asked: Vec<Asked>, beyond: &Beyond) -> usize {
    let price = price();
    for (done, (input, output, off, percent, delay)) in asked.iter().copied().enumerate() {
        let wanted = Wanted { request: Some((input, output)), price: Some(price), ..Wanted::default() };
        let Ok(reserved) = shared.reserve(&account, wanted).await else { return done };
        let cap = reserved.output_tokens.unwrap();
        assert!(cap > 0 && cap <= output);
        for account in account.chain() {
            beyond.lock().unwrap().insert(path(account).clone(), Amount::default());
        }
        let mut left = delay;
        std::future::poll_fn(|_| {
            left = left.saturating_sub(1);
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        let end = answered(input + off, cap * percent / 100, &price);
        let over = reserved.used(&end).minus(reserved.held());
        shared.settle(&account, reserved, reserved.used(&end)).await;
        for account in account.chain() {
            let mut beyond = beyond.lock().unwrap();
            let beyond = beyond.entry(path(account).clone()).or_default();
            *beyond = beyond.plus(over);
            let Spent { used, reserved } = shared.spent(&account.owner);
            let (taken, beyond) = (used.plus(reserved), *beyond);
            let Budget { max_tokens, max_cost_usd, .. } = account.budget;
            assert!(max_tokens.is_none_or(|max| taken.tokens <= max + beyond.tokens));
            assert!(max_cost_usd.is_none_or(|max| taken.cost <= max.plus(beyond.cost)));
        }
    }
    asked.len()
}

/// The value of a future that is ready at once.
fn ready<T>(future: impl Future<Output = T>) -> T {
    futures_util::FutureExt::now_or_never(future).expect("it is ready at once")
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_account_of_any_tree_spends_more_than_providers_count_beyond_reservations(
        tree in vec((any::<prop::sample::Index>(), option::of(1u64..20_000), option::of(1u64..50_000)), 1..12),
        tasks in vec((any::<prop::sample::Index>(), vec((1u64..500, 1u64..4_000, 0u64..50, 0u64..=100, 1u8..6), 1..6)), 1..12),
        order in vec(any::<prop::sample::Index>(), 1..60),
    ) {
        let driver = MemoryDriver::new(0, None);
        let mut accounts: Vec<Arc<Account>> = Vec::new();
        for (number, (above, tokens, microdollars)) in tree.iter().enumerate() {
            let budget = Budget {
                // An account without limits would not exist.
                max_turns: Some(u32::MAX),
                max_tokens: *tokens,
                max_cost_usd: microdollars.map(|amount| Usd::dollars(amount as f64 / 1e6).unwrap()),
                ..Budget::default()
            };
            let above = (number > 0).then(|| Arc::clone(above.get(&accounts)));
            let (path, worker) = (CallPath::root().call(0, number), Arc::from("w"));
            let open = open_worker(&worker, budget, above.as_ref(), &path, &driver);
            accounts.push(ready(open).unwrap());
        }
        let beyond = Beyond::default();
        let mut running: Vec<Pin<Box<dyn Future<Output = usize> + '_>>> = tasks
            .iter()
            .map(|(account, asked)| {
                let account = Arc::clone(account.get(&accounts));
                Box::pin(work(driver.in_process(), account, asked.clone(), &beyond)) as _
            })
            .collect();
        let mut context = Context::from_waker(Waker::noop());
        let mut polls = order.iter().cycle();
        for poll in 0.. {
            if running.is_empty() {
                break;
            }
            prop_assert!(poll < 10_000, "somebody waits for ever");
            // Polls a random task every second turn, and the longest waiting task in between.
            let next = if poll % 2 == 0 { polls.next().unwrap().index(running.len()) } else { 0 };
            let mut task = running.remove(next);
            if task.as_mut().poll(&mut context).is_pending() {
                running.push(task);
            }
        }
        for account in &accounts {
            let Spent { reserved, .. } = driver.in_process().spent(&account.owner);
            prop_assert_eq!(reserved, Amount::default(), "all is settled");
        }
    }
}

#[test]
fn what_is_left_is_told_for_what_is_limited() {
    let driver = MemoryDriver::new(0, None);
    let budget = Budget { max_turns: Some(3), max_tokens: Some(1_000), ..Budget::default() };
    let account = ready(open_run(budget, &driver)).unwrap();
    let left = ready(driver.shared().left(&account));
    assert_eq!(left, Left { turns: Some(3), tokens: Some(1_000), ..Left::default() });
    assert!(ready(open_run(Budget::default(), &driver)).is_none());
}
