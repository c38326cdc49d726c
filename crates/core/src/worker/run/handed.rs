//! Paths that a caller hands to a callee.

use crate::{authority::Located, outcome::End};
use serde_json::Value;
use std::sync::Arc;

/// A mount that hands a caller's path to a callee.
pub(super) struct Handed {
    /// The parameter, and the mount's name.
    pub(super) name: Arc<str>,
    /// The path as the caller wrote it.
    pub(super) callers: String,
    /// The place.
    pub(super) place: Located,
}

/// Translates paths in an output below a mount that the caller handed over into the paths that the caller knows.
pub(super) fn translate_back(returned_paths: &[String], handed: &[Handed], end: End) -> End {
    let End::Done(value) = &end else { return end };
    if returned_paths.is_empty() || handed.is_empty() {
        return end;
    }
    let mut value = (**value).clone();
    for name in returned_paths {
        let place = if name.is_empty() { Some(&mut value) } else { value.get_mut(name) };
        if let Some(Value::String(path)) = place
            && let Some(back) = handed.iter().find_map(|handed| {
                let rest = path.trim_start_matches('/').strip_prefix(&*handed.name)?;
                (rest.is_empty() || rest.starts_with('/'))
                    .then(|| format!("{}{rest}", handed.callers.trim_end_matches('/')))
            })
        {
            *path = back;
        }
    }
    End::Done(Arc::new(value))
}
