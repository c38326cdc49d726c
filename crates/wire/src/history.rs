//! The history of a conversation as every wire format needs it: with names, ids and files that the provider takes.

use crate::{
    form::{Form, Unsendable},
    response::Echo,
    valid::Valid,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use llm_do_core::model::{Arguments, Blob, ModelRequest, Part, Role};
use serde_json::{Map, Value};
use std::{borrow::Cow, mem};

/// A message of a history. None is empty.
pub(crate) enum Turn<'a> {
    /// A message of the user, or files that a tool has fetched for the model.
    User(Vec<Piece<'a>>),
    /// A message of the model.
    Answer(Vec<Said<'a>>),
    /// The results of all calls of the answer before.
    Results(Vec<Given<'a>>),
}

/// A piece of a message of the user.
pub(crate) enum Piece<'a> {
    Text(Cow<'a, str>),
    /// An image or a PDF that the model takes.
    File(&'a Blob),
}

/// A piece of an answer.
pub(crate) enum Said<'a> {
    Text {
        text: &'a str,
        citations: Vec<Value>,
    },
    /// Thinking that the provider has signed. `None`: the signature stands alone.
    Signed {
        text: Option<&'a str>,
        signature: String,
    },
    /// Thinking that goes back without a signature.
    Reasoning(&'a str),
    /// A block of a kind that only the provider knows.
    Own(Value),
    Call {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        arguments: Cow<'a, Value>,
        signature: Option<String>,
    },
}

/// The result of a call.
pub(crate) struct Given<'a> {
    pub(crate) id: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
    pub(crate) content: &'a str,
    pub(crate) is_error: bool,
}

/// Gives each message of a request's history.
///
/// # Errors
///
/// The history contains something that can't be sent to this model.
pub(crate) fn turns<'a>(
    form: &Form,
    request: &ModelRequest<'a>,
    valid: &mut Valid,
    mut each: impl FnMut(Turn<'a>),
) -> Result<(), Unsendable> {
    let last_answer = request.messages.iter().rposition(|message| message.role == Role::Assistant);
    for (number, message) in request.messages.iter().enumerate() {
        valid.is_answered = last_answer.is_some_and(|answer| number < answer);
        let parts = &message.parts;
        match message.role {
            Role::User => user(form, parts, valid)?.into_iter().for_each(&mut each),
            Role::Assistant => answer(form, parts, valid).into_iter().for_each(&mut each),
            Role::Tool => {
                let results = results(parts, valid);
                if !results.is_empty() {
                    each(Turn::Results(results));
                }
                // Files that a tool has fetched for the model. Only messages of the user may contain them.
                user(form, parts, valid)?.into_iter().for_each(&mut each);
            }
        }
    }
    Ok(())
}

/// Converts a message of the user. `None`: it is empty.
fn user<'a>(form: &Form, parts: &'a [Part], valid: &Valid) -> Result<Option<Turn<'a>>, Unsendable> {
    let mut pieces = Vec::new();
    for part in parts {
        match part {
            Part::Text { text } if text.trim().is_empty() => {}
            Part::Text { .. } | Part::Attachment { .. } => pieces.extend(part.sent().map(Piece::Text)),
            Part::Blob(blob) => pieces.push(match file_text(form, blob, valid)? {
                Some(text) => Piece::Text(text.into()),
                None => Piece::File(blob),
            }),
            _ => {}
        }
    }
    Ok((!pieces.is_empty()).then_some(Turn::User(pieces)))
}

/// Returns the text that is sent for a file. `None`: the model takes the file itself, an image or a PDF.
///
/// # Errors
///
/// The model takes no such file, and it is no text. In a message that another model has answered, words take the place
/// of such a file.
fn file_text(form: &Form, blob: &Blob, valid: &Valid) -> Result<Option<String>, Unsendable> {
    let media_type = blob.media_type.as_ref();
    let image = media_type.starts_with("image/");
    if image && form.takes_images() || media_type == "application/pdf" && form.takes_pdf() {
        return Ok(None);
    }
    if !image && let Ok(text) = std::str::from_utf8(&blob.data) {
        return Ok(Some(format!("{}:\n{text}", blob.name)));
    }
    if valid.is_answered {
        let size = blob.data.len();
        return Ok(Some(format!("[{}: {media_type}, {size} bytes, which you can't see]", blob.name)));
    }
    let what = format!("`{}` ({media_type}) can't be sent: the model doesn't take such files", blob.name);
    Err(Unsendable(what))
}

/// Converts an answer of the model. `None`: it is empty, which most servers reject in a history.
fn answer<'a>(form: &Form, parts: &'a [Part], valid: &mut Valid) -> Option<Turn<'a>> {
    let mut said = Vec::with_capacity(parts.len());
    let mut thought: Option<&str> = None;
    // Few answers have any, and those have one for each call.
    let mut signatures: Vec<(String, Vec<String>)> = Vec::new();
    for part in parts {
        match part {
            Part::Text { text } if text.trim().is_empty() => {}
            Part::Text { text } => said.push(Said::Text { text, citations: Vec::new() }),
            Part::Reasoning { text } => thought = Some(text),
            Part::Opaque { provider, value } if *provider == form.provider => match Echo::read(value) {
                Some(Echo::Signature(signature)) => {
                    said.push(Said::Signed { text: thought.take(), signature });
                }
                Some(Echo::Reasoning) => said.extend(thought.take().map(Said::Reasoning)),
                Some(Echo::Block(block)) => said.push(Said::Own(block)),
                Some(Echo::Call { id, signatures: of_call }) => signatures.push((id, of_call)),
                Some(Echo::Citations(cited)) => {
                    if let Some(Said::Text { citations, .. }) = said.last_mut() {
                        *citations = cited;
                    }
                }
                None => {}
            },
            Part::Call(call) => {
                let own = signatures.iter().rposition(|(id, _)| *id == *call.id);
                let own = own.map(|own| signatures.swap_remove(own).1);
                said.push(Said::Call {
                    id: valid.ids.call(&valid.mapping, &call.id),
                    name: valid.mapping.told(&call.name),
                    arguments: valid.mapping.arguments(&call.name, object(&call.arguments)),
                    signature: own.and_then(|own| own.into_iter().next()),
                });
            }
            _ => {}
        }
    }
    (!said.is_empty()).then_some(Turn::Answer(said))
}

fn results<'a>(parts: &'a [Part], valid: &Valid) -> Vec<Given<'a>> {
    let given = parts.iter().filter_map(|part| match part {
        Part::Result(result) => Some(Given {
            id: valid.ids.result(&result.call_id),
            name: valid.mapping.told(&result.name),
            content: &result.content,
            is_error: result.is_error,
        }),
        _ => None,
    });
    given.collect()
}

/// Returns arguments as an object, because providers reject a history with other arguments. The model's text is kept
/// under the key that Anthropic recommends.
fn object(arguments: &Arguments) -> Cow<'_, Value> {
    let text = match arguments {
        Arguments::Json(value) if value.is_object() => return Cow::Borrowed(value),
        Arguments::Json(value) => Value::String(value.to_string()),
        Arguments::Invalid { text, .. } => Value::String(text.to_string()),
    };
    Cow::Owned(Value::Object(Map::from_iter([("INVALID_JSON".to_owned(), text)])))
}

/// Takes the text of pieces that contain only text, with empty lines between them. `None`: there is a file among them,
/// and the pieces are unchanged.
pub(crate) fn only_text<'a>(pieces: &mut Vec<Piece<'a>>) -> Option<Cow<'a, str>> {
    if pieces.iter().any(|piece| matches!(piece, Piece::File(_))) {
        return None;
    }
    let texts = mem::take(pieces).into_iter().filter_map(|piece| match piece {
        Piece::Text(text) => Some(text),
        Piece::File(_) => None,
    });
    texts.reduce(below)
}

/// Joins two texts with an empty line between them.
pub(crate) fn below<'a>(above: Cow<'a, str>, text: Cow<'a, str>) -> Cow<'a, str> {
    if above.is_empty() {
        return text;
    }
    let gap = if above.ends_with('\n') { "\n" } else { "\n\n" };
    Cow::Owned([&above, gap, &text].concat())
}

pub(crate) fn base64(blob: &Blob) -> String {
    STANDARD.encode(&blob.data)
}

pub(crate) fn data_url(blob: &Blob) -> String {
    format!("data:{};base64,{}", blob.media_type, base64(blob))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::Arc;

    #[test]
    fn arguments_go_back_as_an_object_always() {
        let object = |arguments: &Arguments| object(arguments).into_owned();
        let json = |value: Value| object(&Arguments::Json(Arc::new(value)));
        assert_eq!(json(json!({"a": 1})), json!({"a": 1}));
        assert_eq!(json(json!([1])), json!({"INVALID_JSON": "[1]"}));
        assert_eq!(object(&Arguments::parse("{\"a")), json!({"INVALID_JSON": "{\"a"}));
    }
}
