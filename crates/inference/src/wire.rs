//! The messages between llm-do and the process of a model. Each is a frame: its length in four bytes, the most
//! significant first, and then JSON.
//!
//! llm-do trusts no message of the process. A frame has a limit, an answer has no part that a model could not write,
//! and an unknown number belongs to no request.

use crate::chat::Turn;
use llm_do_core::model::{Arguments, ModelError, ModelSettings, ToolSpec};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{
    io::{self, Read},
    sync::Arc,
};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Most bytes of one frame. No valid message is longer.
const LONGEST: usize = 64 << 20;

/// A message to the process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub(crate) enum ToModel {
    /// Load the file. The first message, once.
    Load(Machine),
    /// Answer a request.
    Ask {
        /// Number of the request.
        id: u64,
        /// The request.
        ask: Ask,
    },
    /// Stop answering a request.
    Cancel {
        /// Number of the request.
        id: u64,
    },
}

/// The resources of the machine that the process may use. It can't determine them itself.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// Processor cores.
    pub(crate) cores: usize,
    /// Bytes of memory for conversations.
    pub(crate) memory: u64,
}

/// A request, in the form that a model sees.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Ask {
    /// The conversation.
    pub(crate) turns: Vec<Turn>,
    /// Tools that may be called.
    pub(crate) tools: Arc<[ToolSpec]>,
    /// Schema of the answer.
    pub(crate) output: Option<Arc<Value>>,
    /// Sampling and limits.
    pub(crate) settings: ModelSettings,
}

/// A message from the process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub(crate) enum FromModel {
    /// Loading or a long prompt continues.
    Busy,
    /// The model is ready for requests.
    Loaded,
    /// The file can't be used.
    Unusable {
        /// The reason.
        reason: String,
    },
    /// More text of an answer.
    Text {
        /// Number of the request.
        id: u64,
        /// The new piece.
        text: String,
    },
    /// The answer calls a tool.
    Call {
        /// Number of the request.
        id: u64,
        /// Name of the tool.
        name: String,
    },
    /// The end of a request.
    Done {
        /// Number of the request.
        id: u64,
        /// The answer, or the error.
        outcome: Result<Answer, ModelError>,
        /// Tokens of prompts and answers that the process has evaluated in total.
        evaluated: u64,
    },
}

/// A whole answer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// The text of the answer.
    pub(crate) text: String,
    /// The call at the end of the answer.
    pub(crate) call: Option<WrittenCall>,
    /// True if a limit cut the answer off.
    pub(crate) cut_off: bool,
    /// Tokens of the prompt.
    pub(crate) input_tokens: u64,
    /// Tokens of the prompt that were evaluated before the request.
    pub(crate) cached_tokens: u64,
    /// Tokens of the answer.
    pub(crate) output_tokens: u64,
}

/// A call as the model wrote it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WrittenCall {
    /// Name of the tool.
    pub(crate) name: String,
    /// The arguments of the call.
    pub(crate) arguments: Arguments,
}

/// Serialises a message as a frame with its length.
pub(crate) fn frame(message: &impl Serialize) -> Vec<u8> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message).expect("messages have string keys");
    let length = u32::try_from(frame.len() - 4).expect("a conversation is far below 4 GiB");
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

/// Reads one frame; `None` at the end of the stream.
pub(crate) async fn read<T: DeserializeOwned>(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    if let Err(error) = from.read_exact(&mut length).await {
        return none_at_end(error);
    }
    let length = length_of(length)?;
    let mut frame = Vec::new();
    // The buffer grows with the data that arrives, so a length alone takes no memory.
    from.take(length).read_to_end(&mut frame).await?;
    parse(&frame, length)
}

/// Reads one frame on a thread that may block; `None` at the end of the stream.
pub(crate) fn read_blocking<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    if let Err(error) = from.read_exact(&mut length) {
        return none_at_end(error);
    }
    let length = length_of(length)?;
    let mut frame = Vec::new();
    from.take(length).read_to_end(&mut frame)?;
    parse(&frame, length)
}

fn none_at_end<T>(error: io::Error) -> io::Result<Option<T>> {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => Ok(None),
        _ => Err(error),
    }
}

fn length_of(bytes: [u8; 4]) -> io::Result<u64> {
    let length = u32::from_be_bytes(bytes);
    if length as usize > LONGEST {
        return Err(io::Error::other(format!("a frame of {length} bytes")));
    }
    Ok(length.into())
}

fn parse<T: DeserializeOwned>(frame: &[u8], length: u64) -> io::Result<Option<T>> {
    if (frame.len() as u64) < length {
        return Ok(None);
    }
    serde_json::from_slice(frame).map(Some).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_are_read_as_they_were_written() {
        let messages = [ToModel::Load(Machine { cores: 2, memory: 1 << 30 }), ToModel::Cancel { id: 7 }];
        let bytes = messages.iter().flat_map(frame).collect::<Vec<_>>();
        let (mut one, mut other) = (bytes.as_slice(), bytes.as_slice());
        for message in &messages {
            let read = read::<ToModel>(&mut one).await.unwrap().unwrap();
            let blocking = read_blocking::<ToModel>(&mut other).unwrap().unwrap();
            assert_eq!(frame(&read), frame(message));
            assert_eq!(frame(&blocking), frame(message));
        }
        assert!(read::<ToModel>(&mut one).await.unwrap().is_none());
        assert!(read_blocking::<ToModel>(&mut other).unwrap().is_none());
    }

    #[test]
    fn a_length_alone_takes_no_memory_and_nonsense_is_an_error() {
        assert!(read_blocking::<FromModel>(&mut [255, 255, 255, 255].as_slice()).is_err());
        assert!(read_blocking::<FromModel>(&mut [2, 0, 0, 0, b'{'].as_slice()).unwrap().is_none());
        assert!(read_blocking::<FromModel>(&mut [0, 0, 0, 2, b'{', b'}'].as_slice()).is_err());
    }
}
