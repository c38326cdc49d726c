//! The sender of a request.

use super::{
    outcome::{resume, suspended},
    tool,
};
use crate::{
    error::ApiError,
    faces::asking::Link,
    owner::Owner,
    service::Service,
    token::{Scope, Token},
    views::QuestionView,
};
use axum::http::request::Parts;
use llm_do::{
    Session,
    core::question::{Answer, Given, OPERATOR},
    program::visible,
};
use rmcp::{ErrorData, RoleServer, model::ProtocolVersion, service::RequestContext};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Most characters of a name of the client in messages and records.
const LONGEST_NAME: usize = 60;

/// The sender of a request, and the program that the request is for.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) service: Service,
    pub(super) token: Arc<Token>,
    pub(super) program: String,
}

/// The person who answers in the place of a client's user.
pub(super) enum Operator {
    /// Answers while the run waits, at an address of the service.
    Answers { headers: Option<axum::http::HeaderMap> },
    /// Continues a suspended run in another process. The folder is that of the program, if the program is a project.
    Resumes { project: Option<PathBuf> },
}

impl Operator {
    /// Says that the run waits, and how it is answered.
    pub(super) fn asked(&self, run: &str, questions: &[QuestionView]) -> String {
        match self {
            Self::Answers { headers } => {
                let link = headers.as_ref().map_or_else(Link::none, |headers| Link::of(headers, run));
                link.asking(questions)
            }
            Self::Resumes { project } => {
                suspended(run, questions.iter().map(|question| &question.waiting), project.as_deref())
            }
        }
    }

    /// Says in a further sentence how a run that was ended from outside can be continued.
    pub(super) fn continues(&self, run: &str) -> String {
        match self {
            Self::Answers { .. } => String::new(),
            Self::Resumes { project } => format!(" To continue it: {}", resume(run, project.as_deref())),
        }
    }
}

/// A way to ask the user of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asking {
    /// The user can't be asked.
    No,
    /// A request of the server within the call.
    Request,
    /// A result with the questions. The client repeats the call with the answers.
    Rounds,
}

impl Caller {
    /// Returns the caller that the endpoint has put into the request.
    pub(super) fn in_request(context: &RequestContext<RoleServer>) -> Result<Self, ErrorData> {
        let caller = parts(context).and_then(|parts| parts.extensions.get::<Self>());
        caller.cloned().ok_or_else(|| ErrorData::internal_error("the request has no token", None))
    }

    pub(super) fn sessions(&self) -> Result<Vec<Session>, ErrorData> {
        self.service
            .sessions(&self.token, &self.program)
            .map_err(|error| ErrorData::invalid_params(error.detail().to_owned(), None))
    }

    /// The session whose entry is the tool of that name.
    pub(super) fn session(&self, name: &str) -> Result<Session, ErrorData> {
        let found = self.sessions()?.into_iter().find(|session| tool::name(session) == name);
        found
            .ok_or_else(|| ErrorData::invalid_params(format!("there is no tool `{}`", shortened(name)), None))
    }

    /// The person who answers in the place of the client's user.
    pub(super) fn operator(&self, context: &RequestContext<RoleServer>, session: &Session) -> Operator {
        match self.service.owner() {
            Owner::Tools(_) => Operator::Resumes { project: project(session) },
            Owner::Host { .. } | Owner::Client(_) => {
                Operator::Answers { headers: parts(context).map(|parts| parts.headers.clone()) }
            }
        }
    }

    /// Finds the way to ask the client's user. A token that may not answer is not asked.
    pub(super) fn asking(&self, context: &RequestContext<RoleServer>) -> Asking {
        let elicitation = context.client_capabilities().and_then(|client| client.elicitation);
        // Without either mode, a client of an older revision means forms.
        let forms = elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none());
        match (forms && self.token.has(Scope::Answer), is_newest(context)) {
            (false, _) => Asking::No,
            (true, false) => Asking::Request,
            (true, true) => Asking::Rounds,
        }
    }

    /// Returns true if the client takes a task in place of a result. Only revision 2026-07-28 has a result that says
    /// that it is a task, and only a token that reads runs can look at one.
    pub(super) fn understands_tasks(&self, context: &RequestContext<RoleServer>) -> bool {
        is_newest(context)
            && context.client_capabilities().is_some_and(|client| client.supports_tasks())
            && self.token.has(Scope::Read)
    }

    /// An answer that came through that client.
    pub(super) fn given(&self, answer: Answer, context: &RequestContext<RoleServer>) -> Given {
        let client = context.client_info().map_or_else(String::new, |client| client.name);
        let via = format!("{VIA}{}", shortened(&client));
        let by = match self.service.owner() {
            Owner::Tools(_) => OPERATOR.into(),
            Owner::Host { .. } | Owner::Client(_) => Arc::clone(self.token.name()),
        };
        Given::new(answer, by, via.trim_end())
    }

    /// Checks that the caller may answer.
    ///
    /// # Errors
    /// The token does not have that scope.
    pub(super) fn may_answer(&self) -> Result<(), ApiError> {
        match self.token.has(Scope::Answer) {
            true => Ok(()),
            false => Err(ApiError::without_scope(Scope::Answer)),
        }
    }
}

/// The beginning of `via` of answers that clients of this protocol give.
pub(super) const VIA: &str = "MCP client ";

/// A text of a client on one line.
pub(super) fn shortened(text: &str) -> String {
    visible::line(&visible::start(text, LONGEST_NAME)).into_owned()
}

fn parts(context: &RequestContext<RoleServer>) -> Option<&Parts> {
    context.extensions.get::<Parts>()
}

fn is_newest(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

/// The folder that commands about the runs need, if the program is a project.
fn project(session: &Session) -> Option<PathBuf> {
    let root = Path::new(session.program().root().as_str());
    (session.runs_dir() == root.join(".llm-do").join("runs")).then(|| root.to_owned())
}
