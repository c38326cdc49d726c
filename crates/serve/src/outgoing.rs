//! Requests that the host of a service sends for it.

/// A request that the host sends.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The address. It may hold a key, and is not shown.
    pub url: String,
    /// The headers.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: String,
}
