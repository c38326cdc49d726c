//! The third phase of opening a program: its models are chosen, and everything that it asks for is granted.

use crate::{machinery::Machinery, problem::Problem, session::Session};

/// A program that has everything that it asks for. [`Granted::open`] opens its models.
pub struct Granted {
    pub(crate) granted: llm_do_host::Granted<Machinery>,
    /// The message among the words that named the program.
    pub(crate) message: Option<String>,
}

impl Granted {
    /// Opens the models of every worker that is loaded, and combines the rules.
    ///
    /// # Errors
    /// A model can't be used.
    pub fn open(self) -> Result<Session, Problem> {
        Ok(Session { session: self.granted.open()?, message: self.message })
    }
}
