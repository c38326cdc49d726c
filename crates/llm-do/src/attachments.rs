//! Files that the operator attaches.

use llm_do_core::{
    attachment::Attachment,
    authority::Place,
    model::Blob,
    worker::{WorkerDefinition, media_type},
};
use llm_do_sandbox::{place_of, read_regular};
use std::{fs, path::Path};

/// Reads a file that is attached to the input of a worker.
pub(crate) fn read(path: &Path, worker: &WorkerDefinition) -> Result<Attachment, String> {
    let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
    let limit = worker.attachments.max_total_bytes;
    if metadata.is_file() && metadata.len() > limit {
        return Err(format!("it has {} bytes; `{}` takes {limit}", metadata.len(), worker.id));
    }
    let data = read_regular(path, limit).map_err(|error| error.to_string())?;
    let name =
        path.file_name().map_or_else(|| "attachment".into(), |name| name.to_string_lossy().into_owned());
    let media_type = media_type(&data).unwrap_or("application/octet-stream");
    let file = Blob { name: name.into(), media_type: media_type.into(), data: data.into() };
    Ok(Attachment { file, places: file_places(path), foreign: false })
}

/// Returns the place that names a file, and the place that its links lead to.
pub fn file_places(path: &Path) -> Vec<Place> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let name = path.file_name().and_then(|name| name.to_str());
    let named = name.zip(place_of(folder).ok()).map(|(name, folder)| folder.join(name));
    let mut places: Vec<Place> = named.into_iter().chain(place_of(path).ok()).collect();
    places.dedup();
    places
}
