//! `genai` alone, with the system's allocator.

fn main() -> Result<(), llm_do_bench::Failure> {
    llm_do_bench::alone::main("genai_loop")
}
