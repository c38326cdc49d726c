//! Replacements during a case: stubs instead of functions, and recorded listings instead of servers.

use llm_do_core::{
    call_path::CallPath,
    function::{FunctionMeta, Leaf, LeafCall, StandIns, ToolError, ToolOutput},
    listing::Listing,
    send::BoxFuture,
};
use llm_do_program::cases::{Stub, StubResult};
use llm_do_records::RecordedModels;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

/// The stubs of a case, for one run.
pub(crate) struct Stubs {
    stubs: Vec<Stub>,
    state: Mutex<StubCalls>,
}

#[derive(Default)]
struct StubCalls {
    /// The number of calls of each stub, by position.
    calls: HashMap<usize, usize>,
    /// A message for each function that was called more often than its stub gives results.
    exhausted: Vec<String>,
}

impl Stubs {
    /// Makes the stubs of a case.
    pub(crate) fn new(stubs: &[Stub]) -> Self {
        Self { stubs: stubs.to_vec(), state: Mutex::default() }
    }

    /// Returns true if a stub replaces the function.
    pub(crate) fn has(&self, function: &str) -> bool {
        self.stubs.iter().any(|stub| is_named(stub, function))
    }

    /// Returns a message for each function that was called more often than its stub gives results.
    pub(crate) fn exhausted(&self) -> Vec<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).exhausted.clone()
    }
}

/// Returns true if a stub names a function, by its own name or by the name that a model sees.
fn is_named(stub: &Stub, function: &str) -> bool {
    stub.function == function || llm_do_core::function::tool_name(&stub.function) == function
}

impl Stubs {
    /// Returns the result of the function's next call, if the function has a stub.
    fn stand_in(&self, function: &FunctionMeta) -> Option<Arc<dyn Leaf>> {
        let named = |stub: &Stub| is_named(stub, &function.name) || is_named(stub, &function.tool_name);
        let at = self.stubs.iter().position(named)?;
        let stub = &self.stubs[at];
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let count = state.calls.entry(at).or_default();
        let number = *count;
        *count += 1;
        let result = match stub.result(number) {
            Some(StubResult::Output(value, _)) => Ok(ToolOutput::new(value.clone())),
            Some(StubResult::Error(message)) => Err(ToolError::new(message)),
            None => {
                let message = format!(
                    "`{}` is called more often than the case gives results: {}",
                    stub.function,
                    stub.all().len()
                );
                if number == stub.all().len() {
                    state.exhausted.push(message.clone());
                }
                Err(ToolError::new(message))
            }
        };
        Some(Arc::new(Fixed(result)))
    }
}

/// The stubs of a case, with the tools that the servers of its recording listed.
pub(crate) struct WithListings {
    pub(crate) stubs: Arc<Stubs>,
    /// The recorded models; absent if the listings come from servers.
    pub(crate) recorded: Option<RecordedModels>,
}

impl StandIns for WithListings {
    fn stand_in(&self, function: &FunctionMeta) -> Option<Arc<dyn Leaf>> {
        self.stubs.stand_in(function)
    }

    fn listing(&self, call: &CallPath, toolset: &str) -> Option<Arc<Listing>> {
        self.recorded.as_ref()?.listing(call, toolset)
    }
}

/// A result that is known before the call.
struct Fixed(Result<ToolOutput, ToolError>);

impl Leaf for Fixed {
    fn run<'a>(&'a self, _: LeafCall<'a>) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        let result = self.0.clone();
        Box::pin(async { result })
    }
}
