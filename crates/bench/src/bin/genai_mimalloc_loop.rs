//! `genai` alone, with llm-do's allocator.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), llm_do_bench::Failure> {
    llm_do_bench::alone::main("genai_mimalloc_loop")
}
