//! The exports of the module: memory to write a request to, and the answer.

/// Allocates memory for a request of `length` bytes. It belongs to the caller, who passes it to [`answer`].
#[unsafe(no_mangle)]
extern "C" fn allocate(length: usize) -> *mut u8 {
    Box::leak(vec![0; length].into_boxed_slice()).as_mut_ptr()
}

/// Answers the request of `length` bytes at `request`, which came from [`allocate`], and takes it back. Returns the
/// report's address in the upper and its length in the lower 32 bits; it is never freed.
///
/// # Safety
/// `request` and `length` are those of one call of [`allocate`], used once.
#[unsafe(no_mangle)]
unsafe extern "C" fn answer(request: *mut u8, length: usize) -> u64 {
    // SAFETY: by the contract above this is the slice that `allocate` leaked.
    let request = unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(request, length)) };
    let report = crate::answer(&String::from_utf8_lossy(&request)).into_bytes().leak();
    (report.as_ptr() as u64) << 32 | report.len() as u64
}
