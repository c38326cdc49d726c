#![no_main]

#[path = "../src/http_request.rs"]
mod http_request;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| http_request::run(bytes));
