//! Requests that the host of a service sends for it.

/// A request that the host sends.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The address of the request. It may contain a key, and is not shown.
    pub url: String,
    /// The headers of the request.
    pub headers: Vec<(&'static str, String)>,
    /// The body of the request.
    pub body: String,
}
