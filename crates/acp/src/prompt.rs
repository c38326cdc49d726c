//! What the user says, from the blocks of a prompt.

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

/// What the user says.
#[derive(Debug)]
pub(crate) struct Prompt {
    /// The words. Each file is named in them where its block stands.
    pub(crate) text: String,
    /// The images and resources.
    pub(crate) files: Vec<Attachment>,
}

impl Prompt {
    /// The prompt that consists of these blocks. Text is the user's own words. A linked resource is named and not read: the
    /// worker reads it with its own tools and in its own sandbox. Images and embedded resources are attachments.
    ///
    /// # Errors
    /// A block of a kind that the agent's capabilities don't name, or one that is not what it claims to be.
    pub(crate) fn of(blocks: &[ContentBlock], folder: &Place) -> Result<Self, Error> {
        let (mut text, mut files) = (String::new(), Vec::new());
        for block in blocks {
            let file = match block {
                ContentBlock::Text(block) => {
                    text.push_str(&block.text);
                    continue;
                }
                ContentBlock::ResourceLink(link) => {
                    text.push_str(&format!("`{}`", Source::of(Some(&link.uri)).name(folder)));
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
                        Source::User => format!("image-{}.{extension}", files.len() + 1),
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
            text.push_str(&format!("`{}`", file.file.name));
            files.push(file);
        }
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

/// Where a block comes from, by its URI. Titles and descriptions may be words of others, and are left out.
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

    /// The name that a worker's tools take: relative to the session's folder if it is a file in it.
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

    /// The place that names the file, and the one that its links lead to.
    fn places(&self) -> Vec<Place> {
        let Self::File(place) = self else { return Vec::new() };
        let mut places = vec![place.clone()];
        places.extend(place_of(Path::new(place.as_str())).ok().filter(|real| real != place));
        places
    }
}

/// The media type is that of the bytes, whatever the client claims.
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
        let text = prompt(&blocks).map(|prompt| prompt.text);
        assert_eq!(
            text.as_deref().ok(),
            Some("Compare `src/a b.rs` with `/etc/hosts` and `https://example.org/x`")
        );
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
        assert_eq!(text, "See `image-1.png``inbox/1.txt``https://example.org/x`");
        let seen: Vec<_> = files
            .iter()
            .map(|file| (&*file.file.name, &*file.file.media_type, file.places.len(), file.foreign))
            .collect();
        assert_eq!(
            seen,
            [
                ("image-1.png", "image/png", 0, false),
                ("inbox/1.txt", "text/plain", 1, false),
                ("https://example.org/x", "text/plain", 0, true),
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
