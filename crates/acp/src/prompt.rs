//! Conversion of a prompt's blocks to the user's message.

use crate::opening::wrong;
use agent_client_protocol::{
    Error,
    v1::schema::{ContentBlock, EmbeddedResourceResource},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use llm_do::{
    core::{attachment::Attachment, authority::Place, model::Blob, worker::media_type},
    place_of,
};
use std::{path::Path, sync::Arc};
use url::Url;

/// A message of the user.
#[derive(Debug)]
pub(crate) struct Prompt {
    /// The user's words, with a number in the place of a source's block, such as `[1]`.
    pub(crate) text: String,
    /// The images and resources, each with its number and name, and a list of the links.
    pub(crate) files: Vec<Attachment>,
}

/// The name of the attachment that lists the links of a prompt.
const LINKS: &str = "links";

impl Prompt {
    /// Converts the blocks of a prompt. Text is the user's own words. A linked resource is named and not read: the
    /// worker reads it with its own tools and in its own sandbox. Images and embedded resources are attachments. Names
    /// of sources are not the user's words, so they are in attachments, which have the origin of the source.
    ///
    /// # Errors
    /// A block has a kind that the agent's capabilities don't name, or its content does not match its kind.
    pub(crate) fn of(blocks: &[ContentBlock], folder: &Place) -> Result<Self, Error> {
        let (mut text, mut files, mut links) = (String::new(), Vec::new(), Links::default());
        let mut number = 0;
        for block in blocks {
            if !matches!(block, ContentBlock::Text(_)) {
                number += 1;
            }
            let mut file = match block {
                ContentBlock::Text(block) => {
                    text.push_str(&block.text);
                    continue;
                }
                ContentBlock::ResourceLink(link) => {
                    text.push_str(&format!("[{number}]"));
                    links.add(number, &Source::of(Some(&link.uri)), folder);
                    continue;
                }
                ContentBlock::Image(image) => {
                    let data = decoded(&image.data)?;
                    let extension = match media_type(&data) {
                        Some(kind) if kind.starts_with("image/") => kind.trim_start_matches("image/"),
                        _ => return Err(wrong("an image of the prompt is no PNG, JPEG, GIF or WebP")),
                    };
                    let source = Source::of(image.uri.as_deref().filter(|uri| !uri.is_empty()));
                    let name = match source {
                        Source::User => format!("image.{extension}"),
                        _ => source.name(folder),
                    };
                    attachment(name, data, &source)
                }
                ContentBlock::Resource(resource) => {
                    let (uri, data) = match &resource.resource {
                        EmbeddedResourceResource::TextResourceContents(content) => {
                            (&content.uri, content.text.clone().into_bytes())
                        }
                        EmbeddedResourceResource::BlobResourceContents(content) => {
                            (&content.uri, decoded(&content.blob)?)
                        }
                        _ => return Err(refused("resources of this kind")),
                    };
                    let source = Source::of(Some(uri));
                    attachment(source.name(folder), data, &source)
                }
                ContentBlock::Audio(_) => return Err(refused("sound")),
                _ => return Err(refused("blocks of this kind")),
            };
            text.push_str(&format!("[{number}]"));
            file.file.name = format!("[{number}] {}", file.file.name).into();
            files.push(file);
        }
        files.extend(links.attachment());
        if text.trim().is_empty() {
            return Err(wrong("the prompt is empty"));
        }
        Ok(Self { text, files })
    }
}

fn refused(what: &str) -> Error {
    wrong(format!("a prompt can hold text, images, resources and links to them, but not {what}"))
}

fn decoded(data: &str) -> Result<Vec<u8>, Error> {
    STANDARD.decode(data).map_err(|error| wrong(format!("a block of the prompt is no Base64: {error}")))
}

/// The links of a prompt: one attachment, because a message takes a limited number of them.
#[derive(Default)]
struct Links {
    lines: String,
    places: Vec<Place>,
    foreign: bool,
}

impl Links {
    fn add(&mut self, number: usize, source: &Source<'_>, folder: &Place) {
        self.lines.push_str(&format!("[{number}] {}\n", source.name(folder)));
        self.places.extend(source.places());
        self.foreign |= matches!(source, Source::Other(_));
    }

    fn attachment(self) -> Option<Attachment> {
        let Self { lines, places, foreign } = self;
        let data = Arc::from(lines.into_bytes());
        let file = Blob { name: LINKS.into(), media_type: "text/plain".into(), data };
        (!file.data.is_empty()).then_some(Attachment { file, places, foreign })
    }
}

/// The source of a block, from its URI. Titles and descriptions are ignored, because others may have written them.
enum Source<'a> {
    /// The block has no URI: the user pasted it.
    User,
    /// A file of this machine.
    File(Place),
    /// Something else, such as a page.
    Other(&'a str),
}

impl<'a> Source<'a> {
    fn of(uri: Option<&'a str>) -> Self {
        let Some(uri) = uri else { return Self::User };
        let url = Url::parse(uri).ok().filter(|url| url.scheme() == "file");
        let file = url.and_then(|url| url.to_file_path().ok());
        match file.as_deref().and_then(Path::to_str) {
            Some(file) => Self::File(Place::new(file)),
            None => Self::Other(uri),
        }
    }

    /// Returns the name that a worker's tools take: relative to the session's folder if the source is a file in it.
    fn name(&self, folder: &Place) -> String {
        match self {
            Self::User => String::new(),
            Self::File(place) => match place.rest(folder) {
                Some("") => ".".to_owned(),
                Some(rest) => rest.to_owned(),
                None => place.to_string(),
            },
            Self::Other(uri) => (*uri).to_owned(),
        }
    }

    /// Returns the place that names the file, and the place that its links lead to.
    fn places(&self) -> Vec<Place> {
        let Self::File(place) = self else { return Vec::new() };
        let mut places = vec![place.clone()];
        places.extend(place_of(Path::new(place.as_str())).ok().filter(|real| real != place));
        places
    }
}

/// Makes an attachment. Its media type is determined from the bytes, whatever the client claims.
fn attachment(name: String, data: Vec<u8>, source: &Source<'_>) -> Attachment {
    let media_type = media_type(&data).unwrap_or("application/octet-stream");
    let file = Blob { name: name.into(), media_type: media_type.into(), data: Arc::from(data) };
    Attachment { file, places: source.places(), foreign: matches!(source, Source::Other(_)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_client_protocol::v1::schema::{
        EmbeddedResource, ImageContent, ResourceLink, TextContent, TextResourceContents,
    };

    const PNG: &str = "iVBORw0KGgo=";

    fn text(text: &str) -> ContentBlock {
        ContentBlock::Text(TextContent::new(text))
    }

    fn link(uri: &str) -> ContentBlock {
        ContentBlock::ResourceLink(ResourceLink::new("a name", uri))
    }

    fn resource(uri: &str, text: &str) -> ContentBlock {
        let content = TextResourceContents::new(text, uri);
        let content = EmbeddedResourceResource::TextResourceContents(content);
        ContentBlock::Resource(EmbeddedResource::new(content))
    }

    fn prompt(blocks: &[ContentBlock]) -> Result<Prompt, Error> {
        Prompt::of(blocks, &Place::new("/home/ann/p"))
    }

    #[test]
    fn links_become_names_that_tools_take() {
        let blocks = [
            text("Compare "),
            link("file:///home/ann/p/src/a%20b.rs"),
            text(" with "),
            link("file:///etc/hosts"),
            text(" and "),
            link("https://example.org/x"),
        ];
        let Ok(Prompt { text, files }) = prompt(&blocks) else { panic!("it is a prompt") };
        assert_eq!(text, "Compare [1] with [2] and [3]", "names are no words of the user");
        let [links] = &files[..] else { panic!("one attachment: {files:?}") };
        let lines = String::from_utf8_lossy(&links.file.data);
        assert_eq!(lines, "[1] src/a b.rs\n[2] /etc/hosts\n[3] https://example.org/x\n");
        assert!(links.foreign && links.places.contains(&Place::new("/etc/hosts")), "{links:?}");
        let Ok(Prompt { files, .. }) = prompt(&blocks[..4]) else { panic!("it is a prompt") };
        assert!(!files[0].foreign, "files have the origin of their places");
    }

    #[test]
    fn images_and_resources_are_attachments_with_their_source() {
        let blocks = [
            text("See "),
            ContentBlock::Image(ImageContent::new(PNG, "image/jpeg")),
            resource("file:///home/ann/p/inbox/1.txt#L1:2", "pay"),
            resource("https://example.org/x", "page"),
        ];
        let Ok(Prompt { text, files }) = prompt(&blocks) else { panic!("it is a prompt") };
        assert_eq!(text, "See [1][2][3]");
        let seen: Vec<_> = files
            .iter()
            .map(|file| (&*file.file.name, &*file.file.media_type, file.places.len(), file.foreign))
            .collect();
        assert_eq!(
            seen,
            [
                ("[1] image.png", "image/png", 0, false),
                ("[2] inbox/1.txt", "text/plain", 1, false),
                ("[3] https://example.org/x", "text/plain", 0, true),
            ]
        );
    }

    #[test]
    fn what_is_no_prompt_is_refused() {
        let image = |data: &str| ContentBlock::Image(ImageContent::new(data, "image/png"));
        for blocks in [vec![image("AAAA")], vec![image("%")], vec![], vec![text(" ")]] {
            assert!(prompt(&blocks).is_err(), "{blocks:?}");
        }
    }
}
