//! A call of a worker.

use super::{
    error::Error,
    events::{self, Events},
    options::Options,
    running::{Completed, Running},
    worker::Worker,
};
use crate::{problem::Problem, settings::Input};
use llm_do_core::{attachment::Attachment, send::BoxFuture};
use llm_do_host::EventSink;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{path::PathBuf, sync::Arc};

/// A call of a worker that is about to be made. Awaiting it makes the call and gives the output.
///
/// | instead of awaiting the call | |
/// |---|---|
/// | [`Call::result`] | the output with the run's ID, its usage and its cost |
/// | [`Call::start`] | a handle that can be cancelled from elsewhere |
/// | [`Call::stream`] | events as they happen |
#[must_use = "a call is made when it is awaited"]
pub struct Call<O> {
    worker: Worker<O>,
    input: Result<Input, String>,
    options: Options,
}

impl<O> Call<O> {
    pub(super) fn new(worker: Worker<O>, input: Result<Value, String>) -> Self {
        let input = input.map(|value| match value {
            Value::Null => Input::default(),
            value => Input { json: Some(value), ..Input::default() },
        });
        Self { worker, input, options: Options::new() }
    }

    /// Options of this call, beside those of the program.
    pub fn options(mut self, options: Options) -> Self {
        self.options = self.options.then(options);
        self
    }

    /// Attaches a file.
    pub fn attach(self, file: impl Into<PathBuf>) -> Self {
        let file = file.into();
        self.with(|input| input.attachments.push(file))
    }

    /// Attaches a file whose content the program already has.
    pub fn attach_content(self, content: Attachment) -> Self {
        self.with(|input| input.contents.push(content))
    }

    fn with(mut self, change: impl FnOnce(&mut Input)) -> Self {
        if let Ok(input) = &mut self.input {
            change(input);
        }
        self
    }
}

impl<O: DeserializeOwned> Call<O> {
    /// Makes the call, and gives the output with the run's ID, its usage and its cost.
    ///
    /// # Errors
    /// The call did not start, or the run did not end with an output.
    pub async fn result(self) -> Result<Completed<O>, Error> {
        self.start()?.result().await
    }

    /// Prepares the run: checks the input and creates the journal. Nothing is sent before the handle is awaited.
    ///
    /// # Errors
    /// The call can't be made.
    pub fn start(self) -> Result<Running<O>, Error> {
        self.begin(None)
    }

    /// Prepares the run, and gives its events as they happen. The run advances while the events are read.
    ///
    /// # Errors
    /// The call can't be made.
    pub fn stream(self) -> Result<Events<O>, Error> {
        let (sink, receiver) = events::channel();
        Ok(Events::new(self.begin(Some(sink))?, receiver))
    }

    fn begin(self, stream: Option<Arc<dyn EventSink>>) -> Result<Running<O>, Error> {
        let Self { worker, input, options } = self;
        let input = input.map_err(|reason| Problem::Option { option: "input", reason })?;
        let session = match options.change_the_run() {
            true => {
                let run = options.run(worker.session.options().clone(), &worker.opened.here)?;
                worker.session.with_options(run)?
            }
            false => worker.session,
        };
        let options = worker.opened.options.clone().then(options);
        let events = events::both(options.listening(), stream);
        let run = session.start(&input, options.answering(), events)?;
        Ok(Running::new(run, options.driving(), worker.opened))
    }
}

impl<O: DeserializeOwned + 'static> IntoFuture for Call<O> {
    type Output = Result<O, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.start()?.await })
    }
}
