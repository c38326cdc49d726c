//! What a client says that keeps the conversation itself: each of its requests has all messages so far.

use llm_do::{
    Session,
    core::{attachment::Attachment, json},
};
use serde_json::Value;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// The client's own application: a system or developer message. To a worker it is a part of the input.
    Application,
    User,
    Worker,
    /// The client's own code: the result of a call that carried an output of the worker.
    Client,
}

impl Speaker {
    fn tag(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::User => "user",
            Self::Worker => "assistant",
            Self::Client => "result",
        }
    }
}

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Words {
    pub(crate) speaker: Speaker,
    pub(crate) text: String,
    pub(crate) files: Vec<Attachment>,
}

/// All messages so far. The last one is the user's, or a result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Conversation {
    before: Vec<Words>,
    last: Words,
}

/// The input of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Prompt {
    pub(crate) message: Option<String>,
    pub(crate) input: Option<Value>,
    pub(crate) files: Vec<Attachment>,
}

impl Conversation {
    /// # Errors
    /// The last message is not the user's.
    pub(crate) fn new(mut words: Vec<Words>) -> Result<Self, &'static str> {
        match words.pop() {
            None => Err("there is no message"),
            Some(last) if matches!(last.speaker, Speaker::User | Speaker::Client) => {
                Ok(Self { before: words, last })
            }
            Some(_) => Err("the last message must be the user's"),
        }
    }

    /// The user's last message.
    pub(crate) fn last(&self) -> &str {
        &self.last.text
    }

    /// How many messages came before the last one.
    pub(crate) fn before(&self) -> usize {
        self.before.len()
    }

    /// The input for that worker: a single message as it is, a longer conversation as one text. A worker that takes no plain message
    /// gets the last message as JSON.
    ///
    /// # Errors
    /// The worker takes parameters, and the conversation is no object of them.
    pub(crate) fn prompt(self, session: &Session) -> Result<Prompt, String> {
        let entry = session.entry();
        if entry.signature.message.is_none() {
            let input: Value = json::read(&self.last.text)
                .ok()
                .filter(Value::is_object)
                .ok_or_else(|| {
                    format!(
                        "`{}` takes parameters and no plain message: the last message must be a JSON object of them",
                        entry.id
                    )
                })?;
            if !self.before.is_empty() {
                return Err(format!(
                    "`{}` takes parameters and no conversation: send the last message alone",
                    entry.id
                ));
            }
            return Ok(Prompt { message: None, input: Some(input), files: self.last.files });
        }
        let Self { before, last } = self;
        if before.is_empty() {
            return Ok(Prompt { message: Some(last.text), input: None, files: last.files });
        }
        let answered = match last.speaker {
            Speaker::Client => "The last result is about your last answer. Answer again.",
            _ => "Answer the user's last message.",
        };
        let mut text = format!("This is a conversation so far. {answered}\n");
        let mut files = Vec::new();
        for words in before.into_iter().chain([last]) {
            let tag = words.speaker.tag();
            text.push_str(&format!("\n<{tag}>\n{}\n</{tag}>\n", words.text));
            files.extend(words.files);
        }
        Ok(Prompt { message: Some(text), input: None, files })
    }
}
