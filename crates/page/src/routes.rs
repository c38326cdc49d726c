//! The requests of the app, by method and path.

use crate::{message::AppRequest, problem::ApiError};
use serde::de::DeserializeOwned;

/// A request, taken apart.
pub(crate) struct Route<'a> {
    pub(crate) method: &'a str,
    /// The parts of the path, decoded.
    pub(crate) path: Vec<String>,
    query: Vec<(String, String)>,
    request: &'a AppRequest,
}

impl<'a> Route<'a> {
    /// Takes a request apart.
    ///
    /// # Errors
    /// The path is no path.
    pub(crate) fn of(request: &'a AppRequest) -> Result<Self, ApiError> {
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let parts = path.split('/').filter(|part| !part.is_empty()).map(|part| {
            // A part of a path has no `+` for a space.
            let pair = format!("x={}", part.replace('+', "%2B"));
            url::form_urlencoded::parse(pair.as_bytes()).next().map(|(_, value)| value.into_owned())
        });
        let path = parts.collect::<Option<_>>().ok_or_else(|| ApiError::bad("the path is wrong"))?;
        let query = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        Ok(Self { method: &request.method, path, query, request })
    }

    /// Returns a value of the query.
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.request.headers.get(name).map(String::as_str)
    }

    /// Returns a boolean of the query.
    ///
    /// # Errors
    /// The value is none.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.query(name) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(ApiError::bad(format!("{name}: true or false"))),
        }
    }

    /// Returns the body.
    ///
    /// # Errors
    /// The body is not JSON, or another type.
    pub(crate) fn body<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        let body = self.request.body.as_deref().unwrap_or("{}");
        serde_json::from_str(body).map_err(|error| ApiError::bad(format!("the body is wrong: {error}")))
    }
}
