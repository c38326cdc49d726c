//! The engine of a page: inputs of the host in, effects out.

use crate::{
    bridge::{Bridge, Got},
    message::{Done, Effects, Input, Message},
    problem::ApiError,
    service::Service,
    tasks::Tasks,
};
use serde_json::json;
use std::sync::Arc;

/// The engine.
pub struct Engine {
    bridge: Bridge,
    tasks: Tasks,
    service: Arc<Service>,
}

impl Default for Engine {
    fn default() -> Self {
        let (bridge, tasks) = (Bridge::default(), Tasks::default());
        let service = Service::new(bridge.clone(), tasks.spawner().clone());
        Self { bridge, tasks, service }
    }
}

impl Engine {
    /// Takes a message in JSON, runs until everything waits for the host, and returns the effects in JSON, or `{"error":
    /// …}` for a message that is none.
    pub fn step(&mut self, message: &str) -> String {
        let message: Message = match serde_json::from_str(message) {
            Ok(message) => message,
            Err(error) => return json!({"error": error.to_string()}).to_string(),
        };
        let Message { now_ms, today, inputs } = message;
        self.bridge.set_time(now_ms, today);
        for input in inputs {
            self.take(input);
        }
        // The results above are of the last list: from here on, effects are those of the next one.
        self.bridge.begin();
        self.tasks.run();
        self.service.tell();
        serde_json::to_string(&Effects { effects: self.bridge.take() }).unwrap_or_default()
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Start { entropy, seal_key } => {
                #[cfg(target_arch = "wasm32")]
                crate::entropy::seed(&entropy.0);
                self.bridge.seed(&entropy.0);
                self.service.start(&seal_key.0);
            }
            Input::Options(options) => self.service.set_options(options),
            Input::Request(request) => {
                let (id, service) = (request.id, Arc::clone(&self.service));
                self.tasks.spawner().spawn(Box::pin(async move {
                    if let Err(error) = service.answer(&request).await {
                        service.bridge.respond(id, None, error.answer());
                    }
                }));
            }
            Input::Close { id } => drop(self.service.close(id)),
            Input::Done(Done { id, .. }) if id == 0 => {}
            Input::Done(done) => self.got(done.id, Got::Done(done)),
            Input::Failed { id, error } => self.got(id, Got::Failed(error)),
            Input::Head { id, status, headers } => self.got(id, Got::Head { status, headers }),
            Input::Piece { id, base64 } => self.got(id, Got::Piece(base64.0)),
            Input::End { id } => self.got(id, Got::End),
            Input::Changed { program } => self.service.changed(&program),
        }
    }

    fn got(&self, id: u64, got: Got) {
        if let Some((run, skipped)) = self.bridge.got(id, got) {
            let reason = self.bridge.broken(&run).unwrap_or_default();
            for request in skipped {
                if self.service.close(request) {
                    self.bridge.emit(crate::message::Effect::End { request });
                } else {
                    self.bridge.respond(request, None, ApiError::storage(&reason).answer());
                }
            }
            self.service.break_off(&run, reason);
        }
    }
}
