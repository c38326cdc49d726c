//! Links: which addresses may be followed, and when an address is shown beside its text.

/// Longest address that is linked; longer ones are shown instead. Terminals cut them off at about this length.
const MAX_LENGTH: usize = 2048;

/// A link whose text is being collected.
#[derive(Debug)]
pub(crate) struct OpenLink {
    /// The address as written.
    pub(crate) address: String,
    /// The address that the link may open, if any.
    pub(crate) link: Option<String>,
    /// The text up to here.
    pub(crate) label: String,
    /// True for an image, which shows its address in any case.
    pub(crate) is_image: bool,
}

impl OpenLink {
    /// Begins a link. `links`: the terminal can follow links.
    pub(crate) fn new(address: String, is_image: bool, links: bool) -> Self {
        let link = (links && followable(&address)).then(|| address.clone());
        Self { address, link, label: String::new(), is_image }
    }

    /// Returns true if the address must be shown to the reader: the link can't be opened, it has no text, or its text
    /// reads like another address.
    pub(crate) fn shows_address(&self) -> bool {
        let label = self.label.trim();
        let same = bare(label) == bare(&self.address);
        !same && (self.is_image || self.link.is_none() || label.is_empty() || reads_as_address(label))
    }
}

/// Returns true if a terminal may open the address.
fn followable(address: &str) -> bool {
    let scheme = address.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    matches!(scheme.as_deref(), Some("http" | "https" | "mailto"))
        && address.len() <= MAX_LENGTH
        && address.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Returns an address without the parts that people leave out.
fn bare(address: &str) -> &str {
    let address = address.strip_prefix("mailto:").unwrap_or(address);
    let address = address.split_once("://").map_or(address, |(_, rest)| rest);
    address.strip_prefix("www.").unwrap_or(address).trim_end_matches('/')
}

fn reads_as_address(label: &str) -> bool {
    label.contains("://")
        || label.contains('@')
        || (label.contains('.') && !label.contains(char::is_whitespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(label: &str, address: &str) -> OpenLink {
        OpenLink { label: label.to_owned(), ..OpenLink::new(address.to_owned(), false, true) }
    }

    #[test]
    fn only_harmless_schemes_can_be_followed() {
        for address in ["https://a.example/x?y=1#z", "HTTP://a.example", "mailto:a@b.example"] {
            assert!(link("x", address).link.is_some(), "{address}");
        }
        let long = format!("https://a.example/{}", "x".repeat(MAX_LENGTH));
        for address in [
            "javascript:alert(1)",
            "file:///etc/passwd",
            "src/main.rs",
            "https://a b",
            "https://ä.example",
            "https://a\u{1b}\\",
            &long,
        ] {
            assert!(link("x", address).link.is_none() && link("x", address).shows_address(), "{address}");
        }
    }

    #[test]
    fn text_that_reads_like_another_address_does_not_hide_the_real_one() {
        assert!(link("https://bank.example", "https://evil.example").shows_address());
        assert!(link("bank.example", "https://evil.example").shows_address());
        assert!(link("", "https://evil.example").shows_address());
        assert!(!link("www.bank.example", "https://bank.example/").shows_address());
        assert!(!link("the bank", "https://bank.example").shows_address());
    }
}
