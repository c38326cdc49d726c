//! Conversations that the client keeps: each of its requests contains all messages so far.

use llm_do::{
    Session,
    core::{attachment::Attachment, json},
};
use serde_json::Value;

/// The sender of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// The client's own application, which sends system and developer messages. They are part of the worker's input.
    Application,
    User,
    Worker,
    /// The client's own code, which sends the result of a call that carried an output of the worker.
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

/// A message of a conversation.
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

    /// Returns the number of messages before the last one.
    pub(crate) fn before(&self) -> usize {
        self.before.len()
    }

    /// Returns the input for a worker: a single message unchanged, a longer conversation as one text. A worker that
    /// takes no plain message gets the last message, which must be JSON.
    ///
    /// # Errors
    /// The worker takes parameters, and the last message is no JSON object of them.
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
        let answered = match self.last.speaker {
            Speaker::Client => "The last result is about your last answer. Answer again.",
            _ => "Answer the user's last message.",
        };
        let is_longer = !self.before.is_empty();
        let (mut text, files) = self.text();
        if is_longer {
            text = format!("This is a conversation so far. {answered}\n\n{text}");
        }
        Ok(Prompt { message: Some(text), input: None, files })
    }

    /// Joins the messages and their files. A single message is unchanged; several messages are put between tags that
    /// name the speaker.
    pub(crate) fn text(self) -> (String, Vec<Attachment>) {
        let Self { before, last } = self;
        if before.is_empty() {
            return (last.text, last.files);
        }
        let (mut texts, mut files) = (Vec::new(), Vec::new());
        for words in before.into_iter().chain([last]) {
            let tag = words.speaker.tag();
            texts.push(format!("<{tag}>\n{}\n</{tag}>\n", words.text));
            files.extend(words.files);
        }
        (texts.join("\n"), files)
    }
}
