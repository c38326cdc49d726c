//! What a confined process could not do, in words for models and for people: with the key that would allow it (SPEC §6.6).

use super::ProcessView;

/// What the kernel refused. `who` is `The command` or the like; `path` what it was about, if that is known.
pub fn denied(who: &str, path: Option<&str>, view: Option<&ProcessView>) -> String {
    let mut text = match path {
        Some(path) => format!(
            "{who} may not touch `{path}`: it is confined to the files of its worker. Declare the place under \
             `sandbox.paths` (`mode: rw` to write), or give the file to the worker."
        ),
        None => format!(
            "{who} may not do that. Network needs `sandbox.network_enabled` and the operator's `--grant network`."
        ),
    };
    text.push_str(&not_given(view));
    text
}

/// What may be the reason that a file is not there. Whether it exists outside is not looked at, and not told.
pub fn unseen(who: &str, path: &str, view: Option<&ProcessView>) -> String {
    format!(
        "{who} sees nothing there: it is confined to the files of its worker. Declare the place of `{path}` under \
         `sandbox.paths`, or give the file to the worker.{}",
        not_given(view)
    )
}

/// The mounts that the worker sees and its processes don't, with the reason of each.
fn not_given(view: Option<&ProcessView>) -> String {
    let left_out = view.map(ProcessView::left_out).unwrap_or_default();
    left_out
        .iter()
        .map(|mount| format!("\nNot given to processes: `{}`: {}", mount.at, mount.reason))
        .collect()
}
