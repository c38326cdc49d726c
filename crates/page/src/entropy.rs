//! Seeds for hash tables, from the entropy that the host of the module has given.
//!
//! The crate that validates schemas seeds its hash tables from `getrandom`, which would import a function from
//! JavaScript on this target. The backend here is selected with `--cfg getrandom_backend="custom"`.

use getrandom::Error;
use std::sync::atomic::{AtomicU64, Ordering};

static STATE: AtomicU64 = AtomicU64::new(0x9e37_79b9_7f4a_7c15);

/// Mixes the host's entropy into the seeds of later hash tables.
pub(crate) fn seed(entropy: &[u8]) {
    for chunk in entropy.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        STATE.fetch_xor(u64::from_le_bytes(word), Ordering::Relaxed);
        next();
    }
}

/// Returns the next number (SplitMix64).
fn next() -> u64 {
    let mut word = STATE.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[unsafe(no_mangle)]
unsafe extern "Rust" fn __getrandom_v03_custom(to: *mut u8, length: usize) -> Result<(), Error> {
    for at in (0..length).step_by(8) {
        let word = next().to_le_bytes();
        let bytes = word.len().min(length - at);
        // SAFETY: the caller owns `length` bytes at `to`, which need not be initialised; `at + bytes` lies within them.
        unsafe { to.add(at).copy_from_nonoverlapping(word.as_ptr(), bytes) };
    }
    Ok(())
}
