//! The contents of messages: text, and files as data URLs.

use super::error::Wrong;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use llm_do::core::{attachment::Attachment, model::Blob, worker::media_type};
use serde_json::{Map, Value};

/// Longest name of a file, in characters.
const LONGEST_NAME: usize = 120;

/// The text of a message, and its files.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) text: String,
    pub(super) files: Vec<Attachment>,
}

/// Reads `content` of the message at that place.
pub(super) fn read(place: &str, content: Option<&Value>, is_users: bool) -> Result<Content, Wrong> {
    let place = format!("{place}.content");
    match content {
        None | Some(Value::Null) if !is_users => Ok(Content::default()),
        Some(Value::String(text)) => Ok(Content { text: text.clone(), files: Vec::new() }),
        Some(Value::Array(parts)) => {
            let mut content = Content::default();
            for (number, part) in parts.iter().enumerate() {
                content.take(&format!("{place}[{number}]"), part, is_users)?;
            }
            Ok(content)
        }
        _ => Err(Wrong::field(place, "must be a string or an array of parts")),
    }
}

impl Content {
    fn take(&mut self, place: &str, part: &Value, is_users: bool) -> Result<(), Wrong> {
        let Some(fields) = part.as_object() else { return Err(Wrong::field(place, "must be an object")) };
        let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
        match kind {
            "text" | "input_text" | "output_text" => {
                let text = string(place, fields, "text")?;
                if !self.text.is_empty() {
                    self.text.push('\n');
                }
                self.text.push_str(text);
            }
            "refusal" => self.text.push_str(string(place, fields, "refusal")?),
            "image_url" | "input_image" | "file" | "input_file" if !is_users => {
                return Err(Wrong::field(place, "only messages of the user can have files"));
            }
            "image_url" => {
                let inner = fields.get("image_url").and_then(Value::as_object);
                let inner = inner.ok_or_else(|| Wrong::field(place, "`image_url` must be an object"))?;
                let place = format!("{place}.image_url");
                self.image(&place, string(&place, inner, "url")?)?;
            }
            "input_image" => {
                not_stored(place, fields)?;
                self.image(place, string(place, fields, "image_url")?)?;
            }
            "file" => {
                let inner = fields.get("file").and_then(Value::as_object);
                let inner = inner.ok_or_else(|| Wrong::field(place, "`file` must be an object"))?;
                self.file(&format!("{place}.file"), inner)?;
            }
            "input_file" => self.file(place, fields)?,
            _ => {
                let shown: String = kind.chars().filter(|c| !c.is_control()).take(40).collect();
                return Err(Wrong::field(place, format!("parts of the type `{shown}` are not supported")));
            }
        }
        Ok(())
    }

    fn image(&mut self, place: &str, url: &str) -> Result<(), Wrong> {
        let data = data_url(place, url)?;
        let Some(kind) = media_type(&data).filter(|kind| kind.starts_with("image/")) else {
            let why = "the data is no image: PNG, JPEG, GIF and WebP are known";
            return Err(Wrong::field(place, why).named("invalid_image_format"));
        };
        let extension = kind.trim_start_matches("image/");
        let name = format!("image-{}.{extension}", self.files.len() + 1);
        self.files.push(Blob { name: name.into(), media_type: kind.into(), data: data.into() }.into());
        Ok(())
    }

    fn file(&mut self, place: &str, fields: &Map<String, Value>) -> Result<(), Wrong> {
        not_stored(place, fields)?;
        if fields.contains_key("file_url") {
            return Err(Wrong::field(place, "the server fetches nothing: send the content as `file_data`"));
        }
        let given = string(place, fields, "file_data")?;
        let data = match given.starts_with("data:") {
            true => data_url(place, given)?,
            false => decoded(place, given)?,
        };
        let name = fields.get("filename").and_then(Value::as_str).unwrap_or_default();
        // Only a name: a path would be one of the client's machine.
        let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
        let mut name: String = name.chars().filter(|c| !c.is_control()).take(LONGEST_NAME).collect();
        if name.is_empty() {
            name = format!("file-{}", self.files.len() + 1);
        }
        let kind = media_type(&data).unwrap_or("application/octet-stream");
        self.files.push(Blob { name: name.into(), media_type: kind.into(), data: data.into() }.into());
        Ok(())
    }
}

fn not_stored(place: &str, fields: &Map<String, Value>) -> Result<(), Wrong> {
    match fields.get("file_id") {
        None | Some(Value::Null) => Ok(()),
        Some(_) => Err(Wrong::field(place, "the server stores no files: send the content in the message")),
    }
}

fn string<'a>(place: &str, fields: &'a Map<String, Value>, name: &str) -> Result<&'a str, Wrong> {
    let given = fields.get(name).and_then(Value::as_str);
    given.ok_or_else(|| Wrong::field(format!("{place}.{name}"), "must be a string"))
}

/// The bytes of a data URL (RFC 2397) in Base64.
fn data_url(place: &str, url: &str) -> Result<Vec<u8>, Wrong> {
    let Some(rest) = url.strip_prefix("data:") else {
        return Err(Wrong::field(place, "the server fetches nothing: send a data URL"));
    };
    match rest.split_once(',') {
        Some((head, data)) if head.ends_with(";base64") => decoded(place, data),
        _ => Err(Wrong::field(place, "the data URL must be in Base64: data:TYPE;base64,DATA")),
    }
}

fn decoded(place: &str, text: &str) -> Result<Vec<u8>, Wrong> {
    STANDARD.decode(text.trim()).map_err(|error| {
        Wrong::field(place, format!("the data is not Base64: {error}")).named("invalid_base64")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PIXEL: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=";

    #[test]
    fn text_and_files_are_taken_in_either_form() {
        for parts in [
            json!([{"type": "text", "text": "Look."}, {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{PIXEL}")}},
                {"type": "file", "file": {"filename": "../../etc/a.txt", "file_data": "data:text/plain;base64,aGk="}}]),
            json!([{"type": "input_text", "text": "Look."}, {"type": "input_image", "detail": "auto", "image_url": format!("data:image/png;base64,{PIXEL}")},
                {"type": "input_file", "filename": "a.txt", "file_data": "aGk="}]),
        ] {
            let content = read("messages[0]", Some(&parts), true).expect("good parts");
            assert_eq!(content.text, "Look.");
            let files: Vec<(&str, &str)> =
                content.files.iter().map(|file| (&*file.file.name, &*file.file.media_type)).collect();
            assert_eq!(files, [("image-1.png", "image/png"), ("a.txt", "text/plain")]);
        }
    }

    #[test]
    fn what_is_no_content_is_an_error_at_its_place() {
        for (part, says) in [
            (
                json!({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}),
                "fetches nothing",
            ),
            (json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}), "no image"),
            (json!({"type": "image_url", "image_url": {"url": "data:image/png,hi"}}), "Base64"),
            (json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,???"}}), "not Base64"),
            (json!({"type": "image_url", "image_url": "data:"}), "must be an object"),
            (json!({"type": "input_audio", "input_audio": {}}), "input_audio"),
            (json!({"type": "input_file", "file_id": "file-1"}), "stores no files"),
            (json!({"type": "input_file", "file_url": "https://example.org"}), "fetches nothing"),
            (json!("text"), "must be an object"),
            (json!({}), "not supported"),
        ] {
            let wrong = read("messages[3]", Some(&json!([part])), true).expect_err("wrong").body();
            let message = wrong["error"]["message"].as_str().expect("a message");
            assert!(message.contains(says) && message.contains("messages[3].content[0]"), "{message}");
        }
    }
}
