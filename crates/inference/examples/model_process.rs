//! Supervises the processes that this package's tests start, and is the process of their models: a test binary has no
//! `main` of its own for that.

fn main() {
    llm_do_sandbox::confine::install();
    llm_do_inference::install();
}
