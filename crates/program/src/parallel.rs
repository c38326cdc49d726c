//! Parallel work with results that do not depend on the number of processors. In a browser there are no threads.

use crate::cancel::Cancel;
#[cfg(not(target_arch = "wasm32"))]
use std::{
    num::NonZero,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

/// The smallest number of items for which starting threads pays.
#[cfg(not(target_arch = "wasm32"))]
const WORTH_A_THREAD: usize = 64;

/// Applies `work` to each of `items`, in their order, until `cancel` ends it.
#[cfg(target_arch = "wasm32")]
pub(crate) fn in_parallel<T, R>(cancel: &Cancel, items: Vec<T>, work: impl Fn(T) -> R) -> Vec<R> {
    items.into_iter().take_while(|_| !cancel.is_wanted()).map(work).collect()
}

/// Applies `work` to each of `items`, on all processors if that pays, until `cancel` ends it. The results have the order
/// of the items. After an early end, some are missing.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn in_parallel<T: Send, R: Send>(
    cancel: &Cancel,
    items: Vec<T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    // The system reads files to tell the number, so that it is asked only if it matters.
    let threads = match items.len() {
        ..WORTH_A_THREAD => 1,
        _ => std::thread::available_parallelism().map_or(1, NonZero::get),
    };
    if threads < 2 {
        return items.into_iter().take_while(|_| !cancel.is_wanted()).map(work).collect();
    }
    // Use more shares than threads, because workers differ in size.
    let share = items.len().div_ceil(threads * 8);
    let mut items = items.into_iter();
    let shares: Vec<Mutex<(Vec<T>, Vec<R>)>> = std::iter::from_fn(|| {
        let next: Vec<T> = items.by_ref().take(share).collect();
        (!next.is_empty()).then(|| Mutex::new((next, Vec::new())))
    })
    .collect();
    let next = AtomicUsize::new(0);
    let shares_in_turn = || {
        while let Some(share) = shares.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut share = share.lock().unwrap_or_else(PoisonError::into_inner);
            let items = std::mem::take(&mut share.0);
            share.1 = items.into_iter().take_while(|_| !cancel.is_wanted()).map(&work).collect();
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(shares_in_turn);
        }
        // This thread works too.
        shares_in_turn();
    });
    let done =
        shares.into_iter().flat_map(|share| share.into_inner().unwrap_or_else(PoisonError::into_inner).1);
    done.collect()
}

/// Frees a large value on another thread. A process that is about to end need not wait for it.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn drop_in_background<T: Send + 'static>(large: T) {
    // If no thread can be started, it is freed here.
    let _ = std::thread::Builder::new().spawn(move || drop(large));
}

/// Frees a large value.
#[cfg(target_arch = "wasm32")]
pub(crate) fn drop_in_background<T>(large: T) {
    drop(large);
}
