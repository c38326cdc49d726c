//! A worker that can be called.

use super::{call::Call, error::Error, opened::Opened, resumption::Resumption};
use crate::{fit, problem::Problem, session::Session};
use futures_util::{StreamExt as _, stream};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{marker::PhantomData, sync::Arc};

/// A worker of a program, to be called any number of times. `O` is the type of its output: any JSON value, until
/// [`Worker::returns`] names a type. Cheap to clone.
pub struct Worker<O = Value> {
    pub(super) session: Session,
    pub(super) opened: Arc<Opened>,
    output: PhantomData<fn() -> O>,
}

impl<O> Clone for Worker<O> {
    fn clone(&self) -> Self {
        Self { session: self.session.clone(), opened: Arc::clone(&self.opened), output: PhantomData }
    }
}

impl Worker {
    pub(super) fn new(session: Session, opened: Arc<Opened>) -> Self {
        Self { session, opened, output: PhantomData }
    }
}

impl<O> Worker<O> {
    /// Returns the ID of the worker.
    pub fn id(&self) -> &str {
        &self.session.entry().id
    }

    /// Returns the description that the author of the worker wrote.
    pub fn description(&self) -> Option<&str> {
        self.session.entry().description.as_deref()
    }

    /// The same worker, with outputs of a type. The schema of the type is compared with the worker's `returns` at once, so
    /// that no run is paid for whose output the program can't take.
    ///
    /// ```no_run
    /// use llm_do::schemars::JsonSchema;
    /// use serde::Deserialize;
    ///
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Invoice {
    ///     number: String,
    ///     total: f64,
    /// }
    ///
    /// # async fn example() -> Result<(), llm_do::Error> {
    /// let program = llm_do::Program::open("my-project")?;
    /// let extractor = program.worker("extractor")?.returns::<Invoice>()?;
    /// let invoice = extractor.call("INVOICE 17 … total 614.50").await?;
    /// println!("{}: {}", invoice.number, invoice.total);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The worker may return values that the type can't hold. [`Misfit`](crate::Misfit) has both schemas and the differences.
    pub fn returns<T: DeserializeOwned + JsonSchema>(self) -> Result<Worker<T>, Problem> {
        let entry = self.session.entry();
        let returned = entry.returns.as_ref().map(|schema| schema.shown());
        fit::compare::<T>(&entry.id, returned.map(|schema| &**schema)).map_err(Problem::Returns)?;
        Ok(Worker { session: self.session, opened: self.opened, output: PhantomData })
    }
}

impl<O: DeserializeOwned + 'static> Worker<O> {
    /// Returns a call with this input: an object with the worker's parameters, a text for its only required text
    /// parameter, or any value for a worker that declares no parameters. `()` is no input. Await the call for its
    /// output.
    pub fn call(&self, input: impl Serialize) -> Call<O> {
        Call::new(self.clone(), serde_json::to_value(input).map_err(|error| error.to_string()))
    }

    /// Calls it for many inputs, at most `at_once` at the same time. The results have the order of the inputs.
    pub async fn call_all<I: Serialize>(
        &self,
        inputs: impl IntoIterator<Item = I>,
        at_once: usize,
    ) -> Vec<Result<O, Error>> {
        let calls: Vec<Call<O>> = inputs.into_iter().map(|input| self.call(input)).collect();
        stream::iter(calls.into_iter().map(IntoFuture::into_future)).buffered(at_once.max(1)).collect().await
    }

    /// Continues a run of this worker that waits or was interrupted, by the run's ID.
    pub fn resume(&self, run: impl Into<String>) -> Resumption<O> {
        Resumption::new(self.clone(), run.into())
    }
}
