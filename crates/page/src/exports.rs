//! The exports of the module (`docs/reference/page-engine.md`).

use crate::Engine;
use std::cell::RefCell;

thread_local! {
    static ENGINE: RefCell<Engine> = RefCell::default();
    /// The effects of the last step, until the next one.
    static EFFECTS: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Allocates memory for a message of `length` bytes. It belongs to the caller, who passes it to [`step`].
#[unsafe(no_mangle)]
extern "C" fn allocate(length: usize) -> *mut u8 {
    Box::leak(vec![0; length].into_boxed_slice()).as_mut_ptr()
}

/// Takes the message of `length` bytes at `message`, which came from [`allocate`], and its memory. Returns the address of
/// the effects in the upper and their length in the lower 32 bits.
///
/// # Safety
/// `message` and `length` are those of one call of [`allocate`], used once.
#[unsafe(no_mangle)]
unsafe extern "C" fn step(message: *mut u8, length: usize) -> u64 {
    // SAFETY: by the contract above this is the slice that `allocate` leaked.
    let message = unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(message, length)) };
    let effects = ENGINE.with_borrow_mut(|engine| engine.step(&String::from_utf8_lossy(&message)));
    EFFECTS.with_borrow_mut(|kept| {
        *kept = effects.into_bytes();
        (kept.as_ptr() as u64) << 32 | kept.len() as u64
    })
}
