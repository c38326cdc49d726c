//! What the user says, from the blocks of a prompt.

use crate::opening::wrong;
use agent_client_protocol::{Error, v1::schema::ContentBlock};
use llm_do::core::authority::Place;
use url::Url;

/// The text of a prompt. Text is the user's own words. A linked resource is named and not read: the worker reads it with its
/// own tools and in its own sandbox, so that the words of a file count as such.
///
/// # Errors
/// A block of a kind that the agent's capabilities don't name.
pub(crate) fn text(blocks: &[ContentBlock], folder: &Place) -> Result<String, Error> {
    let mut text = String::new();
    for block in blocks {
        match block {
            ContentBlock::Text(block) => text.push_str(&block.text),
            ContentBlock::ResourceLink(link) => text.push_str(&named(&link.uri, folder)),
            ContentBlock::Image(_) => return Err(refused("images")),
            ContentBlock::Audio(_) => return Err(refused("sound")),
            ContentBlock::Resource(_) => return Err(refused("the content of resources; send links to them")),
            _ => return Err(refused("blocks of this kind")),
        }
    }
    if text.trim().is_empty() {
        return Err(wrong("the prompt is empty"));
    }
    Ok(text)
}

fn refused(what: &str) -> Error {
    wrong(format!("a prompt can hold text and links to resources, but not {what}"))
}

/// A resource by the name that a worker's tools take: relative to the session's folder if it is a file in it. The link's
/// title and description may be words of others, and are left out.
fn named(uri: &str, folder: &Place) -> String {
    let file =
        Url::parse(uri).ok().filter(|url| url.scheme() == "file").and_then(|url| url.to_file_path().ok());
    let place = file.as_deref().and_then(|file| file.to_str()).map(Place::new);
    match place.as_ref().and_then(|place| place.rest(folder)) {
        Some("") => "`.`".to_owned(),
        Some(rest) => format!("`{rest}`"),
        None => format!("`{}`", place.as_ref().map_or(uri, Place::as_str)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_client_protocol::v1::schema::{ImageContent, ResourceLink, TextContent};

    fn link(uri: &str) -> ContentBlock {
        ContentBlock::ResourceLink(ResourceLink::new("a name", uri))
    }

    #[test]
    fn links_become_names_that_tools_take() {
        let blocks = [
            ContentBlock::Text(TextContent::new("Compare ")),
            link("file:///home/ann/p/src/a%20b.rs"),
            ContentBlock::Text(TextContent::new(" with ")),
            link("file:///etc/hosts"),
            ContentBlock::Text(TextContent::new(" and ")),
            link("https://example.org/x"),
        ];
        let text = text(&blocks, &Place::new("/home/ann/p"));
        assert_eq!(
            text.as_deref().ok(),
            Some("Compare `src/a b.rs` with `/etc/hosts` and `https://example.org/x`")
        );
    }

    #[test]
    fn what_the_capabilities_do_not_name_is_refused() {
        let image = ContentBlock::Image(ImageContent::new("AAAA", "image/png"));
        for blocks in [vec![image], vec![], vec![ContentBlock::Text(TextContent::new(" "))]] {
            assert!(text(&blocks, &Place::new("/p")).is_err());
        }
    }
}
