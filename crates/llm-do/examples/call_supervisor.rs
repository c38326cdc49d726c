//! Supervises the processes that this package's tests start: a test binary has no `main` of its own for that.

fn main() {
    llm_do_sandbox::confine::install();
}
