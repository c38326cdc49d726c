//! What the host of a service sends for it.

/// A request that the host sends.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Its address. It may hold a key, and is not shown.
    pub url: String,
    /// Its headers.
    pub headers: Vec<(&'static str, String)>,
    /// Its body.
    pub body: String,
}
