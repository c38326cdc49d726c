//! Files that the operator attaches.

use crate::problem::Problem;
use llm_do_core::{
    attachment::Attachment,
    authority::Place,
    model::Blob,
    worker::{WorkerDefinition, media_type},
};
use llm_do_sandbox::{place_of, read_regular};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Reads the files at `paths`, and adds `contents`, if the entry accepts them.
pub(crate) fn read(
    entry: &WorkerDefinition,
    paths: &[PathBuf],
    contents: &[Attachment],
) -> Result<Vec<Attachment>, Problem> {
    let named = || contents.first().map(|content| PathBuf::from(&*content.file.name));
    let first = paths.first().cloned().or_else(named);
    if let (Some(path), true) = (&first, entry.code.is_some()) {
        let reason = format!(
            "`{}` is Python code, and attachments are for models: give it the path as an input instead",
            entry.id
        );
        return Err(Problem::Attachment { path: path.clone(), reason });
    }
    let mut attachments = Vec::with_capacity(paths.len() + contents.len());
    for path in paths {
        let fail = |reason: String| Problem::Attachment { path: path.clone(), reason };
        let metadata = fs::metadata(path).map_err(|error| fail(error.to_string()))?;
        let limit = entry.attachments.max_total_bytes;
        if metadata.is_file() && metadata.len() > limit {
            return Err(fail(format!("it has {} bytes; `{}` takes {limit}", metadata.len(), entry.id)));
        }
        let data = read_regular(path, limit).map_err(|error| fail(error.to_string()))?;
        let name =
            path.file_name().map_or_else(|| "attachment".into(), |name| name.to_string_lossy().into_owned());
        let media_type = media_type(&data).unwrap_or("application/octet-stream");
        let file = Blob { name: name.into(), media_type: media_type.into(), data: data.into() };
        attachments.push(Attachment { file, places: file_places(path), foreign: false });
    }
    attachments.extend_from_slice(contents);
    let sizes: Vec<(&str, u64)> =
        attachments.iter().map(|given| (&*given.file.name, given.file.data.len() as u64)).collect();
    entry
        .attachments
        .admits(&format!("`{}`", entry.id), &sizes)
        .map_err(|reason| Problem::Attachment { path: first.unwrap_or_default(), reason })?;
    Ok(attachments)
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
