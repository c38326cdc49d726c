//! Starts llama.cpp. No other module does, and it happens only when a local model is used.

use llama_cpp_2::llama_backend::LlamaBackend;
use std::{
    cell::RefCell,
    ffi::{CStr, c_char, c_void},
    sync::OnceLock,
};

thread_local! {
    /// The errors that llama.cpp reported on this thread since [`take_complaint`].
    static COMPLAINT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Returns llama.cpp, started by the first call. It never writes to the terminal.
pub(crate) fn backend() -> &'static LlamaBackend {
    static BACKEND: OnceLock<LlamaBackend> = OnceLock::new();
    BACKEND.get_or_init(|| {
        // SAFETY: `collect` has the signature asked for, uses no user data, and lives as long as the program.
        unsafe { llama_cpp_sys_2::llama_log_set(Some(collect), std::ptr::null_mut()) };
        LlamaBackend::init().expect("this is the only place that starts it")
    })
}

/// Returns the processor features that llama.cpp was compiled to use and this machine lacks. To run it regardless would
/// kill the process with an illegal instruction.
pub(crate) fn missing_cpu_features() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        // The features that a portable build of llama.cpp enables.
        let features = [
            ("AVX2", std::arch::is_x86_feature_detected!("avx2")),
            ("FMA", std::arch::is_x86_feature_detected!("fma")),
            ("F16C", std::arch::is_x86_feature_detected!("f16c")),
            ("BMI2", std::arch::is_x86_feature_detected!("bmi2")),
        ];
        features.into_iter().filter(|(_, present)| !present).map(|(name, _)| name).collect()
    }
    #[cfg(not(target_arch = "x86_64"))]
    Vec::new()
}

/// Takes the reason that llama.cpp gave for a failure on this thread, without its function names.
pub(crate) fn take_complaint() -> Option<String> {
    let text = COMPLAINT.take();
    let line = text.lines().find(|line| !line.trim().is_empty())?;
    let mut reason = line.trim();
    while let Some((head, rest)) = reason.split_once(": ") {
        let is_function = head.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !(is_function || head == "error loading model") {
            break;
        }
        reason = rest;
    }
    Some(reason.chars().filter(|it| !it.is_control()).take(300).collect())
}

/// Receives llama.cpp's log: keeps errors for [`take_complaint`], drops the rest.
unsafe extern "C" fn collect(level: llama_cpp_sys_2::ggml_log_level, text: *const c_char, _: *mut c_void) {
    if level != llama_cpp_sys_2::GGML_LOG_LEVEL_ERROR || text.is_null() {
        return;
    }
    // SAFETY: llama.cpp passes a C string that is valid for the length of this call.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    // The thread may be ending; then there is no later query.
    let _ = COMPLAINT.try_with(|complaint| {
        let mut complaint = complaint.borrow_mut();
        if complaint.len() < 4096 {
            complaint.push_str(&text);
        }
    });
}
