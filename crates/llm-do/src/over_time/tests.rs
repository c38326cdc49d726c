//! Tests that no budget over time is overspent, whichever processes spend it and whatever happens to them.

use super::*;
use jiff::Timestamp;
use llm_do_core::price::Price;
use std::sync::atomic::{AtomicU64, Ordering};

/// A clock that tests set.
#[derive(Clone)]
struct Clock(Arc<Mutex<Timestamp>>);

impl Clock {
    fn at(time: &str) -> Self {
        Self(Arc::new(Mutex::new(time.parse().unwrap())))
    }

    fn set(&self, time: &str) {
        *self.0.lock().unwrap() = time.parse().unwrap();
    }

    fn calendar(&self) -> Calendar {
        let clock = self.clone();
        Calendar::with_clock("Europe/Berlin", Arc::new(move || *clock.0.lock().unwrap()))
    }
}

fn budget(period: Period, amounts: Amounts) -> Counted {
    counted(&TimeBudget { name: "all".into(), period, programs: Programs::All, amounts }, None)
}

fn tokens_a_day(max: u64) -> Counted {
    budget(Period::Day, Amounts { max_tokens: Some(max), ..Amounts::default() })
}

/// The budget as a process of its own uses it.
fn process(folder: &Path, clock: &Clock, counted: &Counted) -> RunSpending {
    RunSpending {
        book: Arc::new(Book::in_folder(folder.join(FOLDER))),
        calendar: clock.calendar(),
        counted: [counted.clone()].into(),
        refused: Mutex::default(),
    }
}

fn tokens(input: u64, output: u64) -> WantedRequest<'static> {
    WantedRequest { name: "run 0 model.0.0", input, output, least: 1, price: None }
}

fn program() -> CountedProgram {
    CountedProgram { folder: "/p".into(), entry: "/p/main.worker".into() }
}

/// The amounts of the budget, as `llm-do budgets` sees them.
fn taken(spending: &RunSpending) -> (String, Taken) {
    let reader = Book::in_folder(spending.book.path().parent().unwrap().to_owned());
    let (_, period, taken) =
        reader.overview(&spending.calendar, spending.counted.to_vec(), &[]).unwrap().remove(0);
    (period, taken)
}

#[test]
fn four_processes_never_overspend_together() {
    let folder = tempfile::tempdir().unwrap();
    let (clock, all) = (Clock::at("2026-11-27T12:00:00Z"), tokens_a_day(20_000));
    let spent = AtomicU64::new(0);
    std::thread::scope(|threads| {
        for number in 0..4u64 {
            let (clock, all, spent, folder) = (clock.clone(), all.clone(), &spent, folder.path());
            threads.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
                runtime.block_on(async {
                    let spending = process(folder, &clock, &all);
                    for request in 0.. {
                        assert!(request < 1_000, "the budget is never used up");
                        let Ok(held) = spending.reserve(tokens(100, 900)).await else { return };
                        let used = 100 + held.output_tokens() * (number + request % 3 + 4) / 10;
                        spent.fetch_add(used, Ordering::Relaxed);
                        assert!(spent.load(Ordering::Relaxed) <= 20_000);
                        tokio::task::yield_now().await;
                        held.settle(used, Usd::ZERO).await;
                    }
                });
            });
        }
    });
    let (_, taken) = taken(&process(folder.path(), &clock, &all));
    assert_eq!((taken.used.tokens, taken.reserved), (spent.into_inner(), Sum::default()));
    assert!(taken.used.tokens > 19_800, "{taken:?}");
}

#[tokio::test]
async fn a_request_waits_for_what_another_process_holds_and_gets_what_it_returns() {
    let folder = tempfile::tempdir().unwrap();
    let (clock, all) = (Clock::at("2026-11-27T12:00:00Z"), tokens_a_day(1_000));
    let (one, two) = (process(folder.path(), &clock, &all), process(folder.path(), &clock, &all));
    let held = one.reserve(tokens(100, 900)).await.unwrap();
    let waiting = two.reserve(tokens(100, 500));
    let settled = async {
        assert_eq!(taken(&one).1.reserved.tokens, 1_000);
        held.settle(300, Usd::ZERO).await;
    };
    let (granted, ()) = tokio::join!(waiting, settled);
    assert_eq!(granted.unwrap().output_tokens(), 500);
}

#[tokio::test]
async fn a_process_that_dies_leaves_the_worst_case_as_used_and_no_request_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let (clock, all) = (Clock::at("2026-11-27T12:00:00Z"), tokens_a_day(1_000));
    let one = process(folder.path(), &clock, &all);
    let held = one.reserve(tokens(100, 500)).await.unwrap();
    // As after `kill -9`: the lock is gone, the file of the process and its reservation stay.
    std::mem::forget(held);
    let processes = folder.path().join(FOLDER).join("processes");
    let file = fs::read_dir(&processes).unwrap().next().unwrap().unwrap().path();
    fs::copy(&file, file.with_extension("copy")).unwrap();
    fs::remove_file(&file).unwrap();
    fs::rename(file.with_extension("copy"), &file).unwrap();
    let two = process(folder.path(), &clock, &all);
    assert_eq!(
        taken(&two).1,
        Taken { used: Sum { tokens: 600, ..Sum::default() }, reserved: Sum::default() }
    );
    let held = two.reserve(tokens(100, 900)).await.unwrap();
    assert_eq!(held.output_tokens(), 300, "the rest, at once");
    held.settle(400, Usd::ZERO).await;
    let what = two.reserve(tokens(100, 900)).await.err().unwrap();
    assert!(what.contains("1000 of 1000 tokens per day used"), "{what}");
    assert!(what.contains("opens again at 2026-11-28 00:00 +01:00 (Europe/Berlin)"), "{what}");
    assert!(!file.exists(), "the file of the dead process is removed");
}

#[tokio::test]
async fn a_request_that_is_given_up_counts_in_full_and_the_same_process_does_not_wait_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let (clock, all) = (Clock::at("2026-11-27T12:00:00Z"), tokens_a_day(1_000));
    let one = process(folder.path(), &clock, &all);
    drop(one.reserve(tokens(100, 500)).await.unwrap());
    let held = one.reserve(tokens(100, 900)).await.unwrap();
    assert_eq!(held.output_tokens(), 300);
}

#[tokio::test]
async fn a_request_that_a_later_process_continues_is_counted_once() {
    let folder = tempfile::tempdir().unwrap();
    let (clock, all) = (Clock::at("2026-11-27T12:00:00Z"), tokens_a_day(1_000));
    let one = process(folder.path(), &clock, &all);
    let named = |name: &'static str| WantedRequest { name, ..tokens(100, 300) };
    drop(one.reserve(named("a")).await.unwrap());
    let live = one.reserve(named("b")).await.unwrap();
    let two = process(folder.path(), &clock, &all);
    assert!(two.take_over("b").await.unwrap().is_none(), "its process is alive");
    let held = two.take_over("a").await.unwrap().unwrap();
    assert!(two.take_over("a").await.unwrap().is_none(), "it is taken");
    held.settle(150, Usd::ZERO).await;
    live.settle(50, Usd::ZERO).await;
    assert_eq!(taken(&two).1.used.tokens, 200);
}

#[tokio::test]
async fn a_clock_that_is_set_back_opens_no_budget() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::at("2026-11-27T22:59:00Z");
    let day = tokens_a_day(1_000);
    let month = budget(Period::Month, Amounts { max_tokens: Some(1_500), ..Amounts::default() });
    let mut one = process(folder.path(), &clock, &day);
    one.counted = [day, month].into();
    let spend = async |most: u64| {
        let held = one.reserve(tokens(0, most)).await?;
        let output = held.output_tokens();
        held.settle(output, Usd::ZERO).await;
        Ok::<u64, String>(output)
    };
    assert_eq!(spend(5_000).await, Ok(1_000), "the day before is used up");
    clock.set("2026-11-27T23:01:00Z");
    assert_eq!(spend(5_000).await, Ok(500), "a new day, the same month");
    clock.set("2026-11-30T23:00:00Z");
    assert_eq!(spend(400).await, Ok(400), "a new day and a new month");
    // By minutes over the change of the day and the month, and by weeks to a day that was never used.
    for back in ["2026-11-30T22:59:00Z", "2026-11-27T22:59:00Z", "2026-10-01T12:00:00Z"] {
        clock.set(back);
        assert_eq!(taken(&one).0, "2026-12-01", "{back}");
    }
    assert_eq!(spend(5_000).await, Ok(600), "the rest of the new day");
    let what = spend(5_000).await.unwrap_err();
    assert!(what.contains("opens again at 2026-12-02 00:00 +01:00"), "{what}");
    clock.set("2026-12-01T22:59:59Z");
    assert!(spend(1).await.is_err());
    clock.set("2026-12-01T23:00:00Z");
    assert_eq!(spend(5_000).await, Ok(500), "the month has 500 left");
}

#[tokio::test]
async fn a_request_counts_in_the_period_in_which_it_began() {
    let folder = tempfile::tempdir().unwrap();
    let (clock, all) = (Clock::at("2026-11-27T22:59:00Z"), tokens_a_day(1_000));
    let one = process(folder.path(), &clock, &all);
    let before = one.reserve(tokens(100, 900)).await.unwrap();
    clock.set("2026-11-27T23:00:00Z");
    let after = one.reserve(tokens(100, 900)).await.unwrap();
    assert_eq!(after.output_tokens(), 900, "what is held of yesterday is not held of today");
    before.settle(1_000, Usd::ZERO).await;
    after.settle(200, Usd::ZERO).await;
    assert_eq!(
        taken(&one),
        (
            "2026-11-28".into(),
            Taken { used: Sum { tokens: 200, ..Sum::default() }, reserved: Sum::default() }
        )
    );
}

#[tokio::test]
async fn money_is_counted_by_the_price_and_an_unknown_price_is_not_zero() {
    let folder = tempfile::tempdir().unwrap();
    let usd = |amount| Usd::dollars(amount).unwrap();
    let most = Amounts { max_cost_usd: Some(usd(1.0)), max_tokens: None };
    let one = process(folder.path(), &Clock::at("2026-11-27T12:00:00Z"), &budget(Period::Day, most));
    let price = Some(Price::flat(usd(1.0), usd(4.0)));
    let request =
        WantedRequest { name: "run 0 model.0.0", input: 200_000, output: 1_000_000, least: 1, price };
    let held = one.reserve(request).await.unwrap();
    assert_eq!(held.output_tokens(), 200_000, "0.20 USD for the input, 0.80 USD for the answer");
    held.settle(300_000, usd(0.6)).await;
    let what = one.reserve(WantedRequest { input: 500_000, ..request }).await.err().unwrap();
    assert!(what.contains("0.60 USD of 1.00 USD per day used"), "{what}");
    let what = one.reserve(WantedRequest { price: None, ..request }).await.err().unwrap();
    assert!(what.contains("the price of the model is not known"), "{what}");
}

#[tokio::test]
async fn a_request_is_not_sent_again_with_a_part_of_its_reservation() {
    let folder = tempfile::tempdir().unwrap();
    let one = process(folder.path(), &Clock::at("2026-11-27T12:00:00Z"), &tokens_a_day(1_000));
    let again = |output| WantedRequest { least: output, ..tokens(100, output) };
    assert!(one.refusal().is_none());
    let refused = one.reserve(again(901)).await.err().unwrap();
    assert!(refused.contains("even unused, it is too small") && !refused.contains("again at"), "{refused}");
    assert_eq!(one.refusal().as_deref(), Some(&*refused));
    assert!(one.for_run().refusal().is_none(), "another run was refused nothing");
    assert_eq!(one.reserve(again(900)).await.unwrap().output_tokens(), 900);
}

#[tokio::test]
async fn a_book_that_cannot_be_read_lets_no_request_through() {
    let folder = tempfile::tempdir().unwrap();
    let one = process(folder.path(), &Clock::at("2026-11-27T12:00:00Z"), &tokens_a_day(1_000));
    for text in ["", "{}", "[1]", r#"{"format": 2, "next": 1, "rows": [], "reservations": []}"#] {
        fs::create_dir_all(folder.path().join(FOLDER)).unwrap();
        fs::write(one.book.path(), text).unwrap();
        let what = one.reserve(tokens(1, 1)).await.err().unwrap();
        assert!(what.contains("the request is not sent") && what.contains("book.json"), "{what}");
        assert!(fs::read_to_string(one.book.path()).unwrap() == text, "the file stays for a look at it");
    }
}

#[test]
fn programs_are_told_apart_by_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let (notes, other) = (folder.path().join("notes"), folder.path().join("notes2"));
    fs::create_dir_all(&notes).unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&notes, &link).unwrap();
    let amounts = Amounts { max_tokens: Some(1), ..Amounts::default() };
    let of = |programs: Programs, folder: &Path, entry: &Path| {
        let program = CountedProgram { folder: folder.to_owned(), entry: entry.to_owned() };
        counting(&TimeBudget { name: "a".into(), period: Period::Day, programs, amounts }, &program)
    };
    let real = notes.canonicalize().unwrap();
    let main = real.join("main.worker");
    assert!(of(Programs::Below(notes.clone()), &real, &main).is_some());
    assert!(of(Programs::Below(link), &real, &main).is_some(), "a link names its folder");
    assert!(of(Programs::Below(folder.path().to_owned()), &real, &main).is_some());
    assert!(of(Programs::Below(notes.clone()), &other, &other.join("main.worker")).is_none());
    assert!(of(Programs::Below(real.join("main.worker")), &real, &main).is_some(), "the file of the entry");
    assert!(of(Programs::Below(real.join("b.worker")), &real, &main).is_none());
    // As a folder's entry or alone, a program has one budget.
    let each = of(Programs::Each, &real, &main).unwrap();
    assert_eq!(each.key.program.as_deref(), real.to_str());
}

#[test]
fn nothing_is_read_or_made_without_budgets() {
    let home = tempfile::tempdir().unwrap();
    let budgets = BudgetsOverTime::read(home.path(), None).unwrap();
    assert!(budgets.of_run(&program(), None).unwrap().is_none());
    assert!(budgets.states().unwrap().is_empty());
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn a_link_to_a_file_that_is_gone_is_an_error() {
    let home = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/nonexistent/budgets.yaml", home.path().join(FILE)).unwrap();
    assert!(BudgetsOverTime::read(home.path(), None).is_err());
    fs::remove_file(home.path().join(FILE)).unwrap();
    std::os::unix::fs::symlink("/nonexistent/serve.yaml", home.path().join(TOKENS)).unwrap();
    assert!(BudgetsOverTime::read(home.path(), None).unwrap().states().is_err());
}

#[test]
fn budgets_of_tokens_are_those_of_serve_yaml() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join(TOKENS);
    fs::write(&file, "tokens:\n  - {name: ci, sha256: x, scopes: [start], budgets: {day: {max_cost_usd: 2}, month: {max_tokens: 9}}}\n  - {name: ann}\nquotas: {}\n").unwrap();
    let budgets = BudgetsOverTime::read(home.path(), None).unwrap();
    let client = |name: &str| Client { name: name.into(), program: "p".into(), key: None };
    let of = |name: &str| budgets.of_run(&program(), Some(&client(name))).unwrap().is_some();
    assert!(of("ci") && !of("ann") && !of("other"));
    let states = budgets.states().unwrap();
    let shown: Vec<_> = states.iter().map(|state| (state.token.as_deref(), state.period)).collect();
    assert_eq!(shown, [(Some("ci"), Period::Day), (Some("ci"), Period::Month)]);
    fs::write(&file, "tokens:\n  - {name: ci, budgets: {week: {}}}\n").unwrap();
    assert!(budgets.of_run(&program(), Some(&client("ci"))).is_err(), "a broken file is not ignored");
}
