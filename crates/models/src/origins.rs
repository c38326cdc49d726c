//! Addresses of providers, for pages that may connect to nothing else.

use crate::known::{KNOWN, KnownProvider};
use url::Url;

/// Returns the origin of the provider's own address. `None`: no provider of that name is known, or its address depends on the
/// environment.
pub fn origin_of_provider(provider: &str) -> Option<String> {
    let base = KnownProvider::named(provider)?.base(&|_| None).ok()?;
    origin_of_address(&base)
}

/// Returns the origin of an address, such as `https://api.openai.com`. `None`: it is no address of HTTP.
pub fn origin_of_address(address: &str) -> Option<String> {
    let url: Url = address.parse().ok()?;
    matches!(url.scheme(), "http" | "https").then(|| url.origin().ascii_serialization())
}

/// Returns the origins of all known providers whose address does not depend on the environment.
pub fn origins_of_providers() -> Vec<String> {
    let mut origins: Vec<String> = KNOWN.iter().filter_map(|known| origin_of_provider(known.name)).collect();
    origins.sort_unstable();
    origins.dedup();
    origins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_no_path() {
        assert_eq!(origin_of_provider("openai").as_deref(), Some("https://api.openai.com"));
        assert_eq!(origin_of_provider("vertex"), None);
        assert_eq!(origin_of_address("http://127.0.0.1:8080/v1").as_deref(), Some("http://127.0.0.1:8080"));
        assert_eq!(origin_of_address("file:///etc"), None);
        assert!(origins_of_providers().contains(&"https://api.anthropic.com".to_owned()));
    }
}
