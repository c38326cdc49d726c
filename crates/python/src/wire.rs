//! The messages between this process and a host (`host/src`). Each is a frame: its length in four bytes, the most
//! significant first, and then JSON.

use llm_do_core::{gate::Mode, model::Blob, origin::Origin};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, io, sync::Arc};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The largest frame, in bytes. No valid message is longer, and a length alone must not allocate memory.
const LONGEST: usize = 64 * 1024 * 1024;

/// The place at which the host finds a module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Module {
    /// The key of the module among the modules of this host.
    pub(crate) key: String,
    /// A file, or a folder that is one module.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
    /// The name of an installed module, instead of a path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) module: Option<String>,
    /// The function of an installed module that registers tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) attribute: Option<String>,
    /// The text of the module, if it is in no file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
    /// Root of the package. The files below it are the user's own.
    pub(crate) root: String,
    /// The functions that it exposes, if they are listed by name.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(crate) names: Vec<String>,
}

/// The data of a `ToolContext` about its call.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Context {
    /// ID of the run.
    pub(crate) run: String,
    /// The worker it works for.
    pub(crate) worker: String,
    /// The idempotency key.
    pub(crate) key: String,
    /// The mode of approvals.
    pub(crate) mode: Mode,
    /// The mounts of the process.
    pub(crate) mounts: Vec<MountGiven>,
}

/// A mount of a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub(crate) struct MountGiven {
    /// Virtual path.
    pub(crate) at: String,
    /// Real path.
    pub(crate) path: String,
    /// `ro` or `rw`.
    pub(crate) mode: &'static str,
}

/// A message to the host.
#[derive(Debug, Serialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub(crate) enum ToHost<'a> {
    /// Import these modules and describe what they expose.
    Load {
        /// The modules.
        modules: Vec<&'a Module>,
    },
    /// Describe a class as a JSON Schema.
    Schema {
        /// The module that defines the class.
        #[serde(flatten)]
        module: &'a Module,
        /// The name of the class.
        class: &'a str,
    },
    /// Parse the text of a program, without running it.
    Parse {
        /// The text.
        text: &'a str,
    },
    /// Call a function.
    Call {
        /// ID of the call.
        id: u64,
        /// The module that defines the function.
        module: &'a Module,
        /// The name of the function in the module.
        function: &'a str,
        /// Validated arguments.
        args: &'a Value,
        /// True if the function takes the JSON values without conversion.
        plain: bool,
        /// True if the function runs in a thread of its own, beside other calls.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        thread: bool,
        /// The context, for functions that need a context or a sandbox.
        #[serde(skip_serializing_if = "Option::is_none")]
        ctx: Option<&'a Context>,
    },
    /// Ask an `approval` function.
    Approval {
        /// ID of the question.
        id: u64,
        /// The module that defines the tool.
        module: &'a Module,
        /// The name of the function in the module.
        function: &'a str,
        /// Validated arguments.
        args: &'a Value,
        /// The input of the run.
        input: &'a Value,
        /// The worker that calls.
        caller: Option<&'a str>,
        /// The origin of each argument.
        origins: &'a BTreeMap<Arc<str>, Origin>,
    },
    /// Answer a callback.
    Reply {
        /// The call that asked.
        id: u64,
        /// The callback.
        cb: u64,
        /// The answer.
        #[serde(flatten)]
        answer: Answer<'a>,
    },
    /// Cancel a call.
    Cancel {
        /// The ID of the call.
        id: u64,
    },
    /// Answer as soon as the code of a call waits for answers to its own calls.
    Idle {
        /// The ID of the call.
        id: u64,
        /// The number that the answer repeats.
        number: u64,
    },
}

/// The answer to a callback.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer<'a> {
    /// A value.
    Value(&'a Value),
    /// The call or the step failed.
    Error {
        /// [`llm_do_core::engine::FailureKind`] in its recorded form.
        kind: String,
        /// The message of the failure.
        message: &'a str,
    },
    /// The step has no record: the code is to run it.
    Go(bool),
}

/// A message from the host.
#[derive(Debug, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub(crate) enum FromHost {
    /// The host has started.
    Ready {},
    /// The description of modules.
    Loaded {
        /// The description of each module, in the order of the request.
        modules: Vec<Value>,
    },
    /// A class as a schema.
    Schema {
        /// JSON Schema.
        schema: Value,
    },
    /// The tree of a program.
    Parsed {
        /// The nodes, in the form that `host/src/syntax.py` describes; empty if the text can't be parsed.
        #[serde(default)]
        nodes: Vec<Node>,
        /// The reason why the text can't be parsed.
        #[serde(default)]
        problem: Option<SyntaxProblem>,
    },
    /// A call returned a value.
    Result {
        /// The ID of the call.
        id: u64,
        /// The returned value.
        #[serde(default)]
        value: Value,
        /// Images and files of the value.
        #[serde(default, deserialize_with = "named")]
        blobs: Vec<Blob>,
    },
    /// A call failed, or a question without an ID.
    Error {
        /// The ID of the call, or `None` for a question without an ID.
        #[serde(default)]
        id: Option<u64>,
        /// The error.
        #[serde(flatten)]
        error: CodeError,
    },
    /// Code makes a call or begins a step.
    Callback {
        /// The call that it belongs to.
        id: u64,
        /// ID of the callback.
        cb: u64,
        /// The call or the step.
        #[serde(flatten)]
        op: Op,
    },
    /// A step ended.
    StepEnd {
        /// The call.
        id: u64,
        /// The callback that began it.
        cb: u64,
        /// The value of the step.
        #[serde(default)]
        value: Value,
        /// The error of the step, if it failed.
        #[serde(default)]
        error: Option<CodeError>,
    },
    /// Code printed or logged something.
    Log {
        /// The call, if it is known.
        #[serde(default)]
        id: Option<u64>,
        /// The printed text.
        text: String,
    },
    /// The code of a call waits for answers to its own calls.
    Idle {
        /// The call.
        id: u64,
        /// The number of the question that this answers.
        number: u64,
    },
    /// A message of a later version.
    #[serde(other)]
    Unknown,
}

/// A node of a program's tree: its kind, line, column, its children by field (the numbers of their nodes, or -1), and its
/// constants by field.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Node(
    pub(crate) String,
    pub(crate) u32,
    pub(crate) u32,
    pub(crate) BTreeMap<String, Vec<i64>>,
    pub(crate) Map<String, Value>,
);

/// The reason why a program can't be parsed, and its place.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct SyntaxProblem {
    pub(crate) message: String,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// Reads attachments, and names those that have no name.
fn named<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<Blob>, D::Error> {
    let mut given = Vec::<Value>::deserialize(input)?;
    for (at, blob) in given.iter_mut().enumerate() {
        if let Some(name @ Value::Null) = blob.get_mut("name") {
            *name = format!("result-{}", at + 1).into();
        }
    }
    given.into_iter().map(|blob| serde_json::from_value(blob).map_err(D::Error::custom)).collect()
}

/// A request of the code in a callback.
#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum Op {
    /// A worker or a tool.
    Call {
        /// The name of the worker or tool.
        name: String,
        /// The input of the call.
        #[serde(default)]
        input: Value,
    },
    /// A tool of the worker.
    CallTool {
        /// The name of the tool.
        name: String,
        /// The input of the call.
        #[serde(default)]
        input: Value,
    },
    /// A step of the code's own.
    Step {
        /// The name of the step.
        name: String,
    },
    /// A value of the package's state.
    StateGet {
        /// The name of the value.
        name: String,
    },
    /// A new value of the package's state.
    StateSet {
        /// The name of the value.
        name: String,
        /// The value; null removes it.
        #[serde(default)]
        value: Value,
    },
}

/// A failure in a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct CodeError {
    /// The kind of the failure; see [`crate::explain`].
    pub(crate) kind: String,
    /// The exception's class.
    #[serde(rename = "type")]
    pub(crate) class: String,
    /// The message of the exception.
    pub(crate) message: String,
    /// The user's own frames, outermost first.
    pub(crate) frames: Vec<StackFrame>,
    /// File of a syntax error.
    pub(crate) file: Option<String>,
    /// Line of a syntax error.
    pub(crate) line: Option<u32>,
    /// Column of a syntax error, from 1.
    pub(crate) column: Option<u32>,
    /// The line's text.
    pub(crate) text: Option<String>,
    /// The package that could not be imported.
    pub(crate) missing: Option<String>,
    /// The path that the kernel refused, or that does not exist.
    pub(crate) path: Option<String>,
    /// The kind of an uncaught `CallError`.
    pub(crate) cause: Option<String>,
}

/// A frame of a traceback.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StackFrame {
    /// The file.
    pub(crate) file: String,
    /// The line.
    pub(crate) line: u32,
    /// The function.
    pub(crate) function: String,
    /// The line's text.
    pub(crate) text: String,
}

/// Encodes a message as a frame with its length.
pub(crate) fn frame(message: &ToHost<'_>) -> Vec<u8> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message)
        .expect("messages have string keys and no floats beyond JSON's");
    let length = u32::try_from(frame.len() - 4).expect("arguments and values are far below 4 GiB");
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

/// Reads a frame. Returns `None` at the end of the stream.
pub(crate) async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<FromHost>> {
    let mut length = [0; 4];
    if let Err(error) = from.read_exact(&mut length).await {
        return if error.kind() == io::ErrorKind::UnexpectedEof { Ok(None) } else { Err(error) };
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > LONGEST {
        return Err(io::Error::other(format!("a frame of {length} bytes")));
    }
    let mut frame = Vec::new();
    // The buffer grows with the data that arrives, so a length alone takes no memory.
    from.take(length as u64).read_to_end(&mut frame).await?;
    if frame.len() < length {
        return Ok(None);
    }
    Ok(Some(serde_json::from_slice(&frame)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_attachment_without_a_name_gets_one() {
        let blob = json!({"name": null, "media_type": "image/png", "data": "AAEC"});
        let message = json!({"t": "result", "id": 1, "value": {"$blob": 0}, "blobs": [blob]});
        let FromHost::Result { blobs, .. } = serde_json::from_value(message).unwrap() else { panic!() };
        assert_eq!((&*blobs[0].name, &*blobs[0].data), ("result-1", &[0, 1, 2][..]));
    }

    #[test]
    fn frames_are_what_the_host_reads() {
        let args = json!({"a": "ü"});
        let module = Module {
            key: "m".into(),
            path: Some("/p/tools.py".into()),
            module: None,
            attribute: None,
            text: None,
            root: "/p".into(),
            names: vec![],
        };
        let parse = |message: &ToHost<'_>| {
            let frame = frame(message);
            assert_eq!(u32::from_be_bytes(frame[..4].try_into().unwrap()) as usize, frame.len() - 4);
            serde_json::from_slice::<Value>(&frame[4..]).unwrap()
        };
        assert_eq!(
            parse(&ToHost::Call {
                id: 7,
                module: &module,
                function: "f",
                args: &args,
                plain: true,
                thread: false,
                ctx: None
            }),
            json!({
                "t": "call", "id": 7, "module": {"key": "m", "path": "/p/tools.py", "root": "/p"},
                "function": "f", "args": {"a": "ü"}, "plain": true,
            })
        );
        let answer = Answer::Error { kind: "denied".into(), message: "no" };
        assert_eq!(
            parse(&ToHost::Reply { id: 7, cb: 1, answer }),
            json!({"t": "reply", "id": 7, "cb": 1, "error": {"kind": "denied", "message": "no"}})
        );
        assert_eq!(parse(&ToHost::Schema { module: &module, class: "Invoice" })["class"], json!("Invoice"));
    }

    #[tokio::test]
    async fn a_lying_length_takes_no_memory_and_an_end_in_the_middle_is_an_end() {
        let mut long: &[u8] = &[0xff, 0xff, 0xff, 0xff, b'{'];
        assert!(read(&mut long).await.unwrap_err().to_string().contains("4294967295"));
        let mut cut: &[u8] = &[0, 0, 0, 9, b'{'];
        assert!(read(&mut cut).await.unwrap().is_none());
        let mut later: &[u8] = b"\0\0\0\x0c{\"t\":\"news\"}";
        assert!(matches!(read(&mut later).await.unwrap(), Some(FromHost::Unknown)));
    }
}
