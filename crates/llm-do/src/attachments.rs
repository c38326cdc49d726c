//! Files that the operator attaches.

use crate::problem::Problem;
use llm_do_core::{
    model::Blob,
    worker::{WorkerDefinition, media_type},
};
use std::{fs, io, path::PathBuf};

/// Reads them, within what the entry takes.
pub(crate) fn read(entry: &WorkerDefinition, paths: &[PathBuf]) -> Result<Vec<Blob>, Problem> {
    if let (Some(path), true) = (paths.first(), entry.code.is_some()) {
        let reason = format!(
            "`{}` is Python code, and attachments are for models: give it the path as an input instead",
            entry.id
        );
        return Err(Problem::Attachment { path: path.clone(), reason });
    }
    let mut blobs = Vec::with_capacity(paths.len());
    for path in paths {
        let fail = |reason: String| Problem::Attachment { path: path.clone(), reason };
        let metadata = fs::metadata(path).map_err(|error| fail(error.to_string()))?;
        if !metadata.is_file() {
            return Err(fail("it is not a regular file".into()));
        }
        let limit = entry.attachments.max_total_bytes;
        if metadata.len() > limit {
            return Err(fail(format!("it has {} bytes; `{}` takes {limit}", metadata.len(), entry.id)));
        }
        let data = fs::read(path).map_err(|error: io::Error| fail(error.to_string()))?;
        let name =
            path.file_name().map_or_else(|| "attachment".into(), |name| name.to_string_lossy().into_owned());
        let media_type = media_type(&data).unwrap_or("application/octet-stream");
        blobs.push(Blob { name: name.into(), media_type: media_type.into(), data: data.into() });
    }
    let sizes: Vec<(&str, u64)> = blobs.iter().map(|b| (&*b.name, b.data.len() as u64)).collect();
    entry
        .attachments
        .admits(&format!("`{}`", entry.id), &sizes)
        .map_err(|reason| Problem::Attachment { path: paths.first().cloned().unwrap_or_default(), reason })?;
    Ok(blobs)
}
