//! Explains to models and people why a confined process failed, with the key that would allow it
//! (`docs/reference/sandbox.md`).

use super::{Denial, ProcessView};
use llm_do_core::authority::Network;

/// Explains a refusal of the kernel. `who` is `The command` or similar; `path` is the path concerned, if known.
pub fn denied(who: &str, path: Option<&str>, view: Option<&ProcessView>) -> String {
    let mut text = match path {
        Some(path) => format!(
            "{who} may not touch `{path}`: it is confined to the files of its worker. Declare the place under \
             `sandbox.paths` (`mode: rw` to write), or give the file to the worker."
        ),
        None => format!("{who} may not do that."),
    };
    text.push_str(&not_given(view));
    text
}

/// Explains the part of the network in a failure, with the keys that would allow it, one for each host. `refused` is
/// true if the kernel has refused something other than a file. `found_nobody` is true if a name or a server was not
/// found.
pub fn network(
    who: &str,
    refused: bool,
    found_nobody: bool,
    allowed: &Network,
    denials: &[Denial],
) -> Vec<String> {
    match allowed {
        Network::Off if refused || found_nobody => vec![
            "Network needs `sandbox.network_enabled` and the operator's grant `network`: for one host, \
             `sandbox: {network_enabled: [HOST]}` in the worker and `--grant network=HOST`."
                .to_owned(),
        ],
        Network::Domains(_) if denials.is_empty() && (refused || found_nobody) => vec![format!(
            "{who} reaches the domains of `sandbox.network_enabled` by HTTP and TLS through the proxy that \
             `HTTPS_PROXY` names, and nothing else: use a client that reads that variable. The whole network needs \
             `network_enabled: true` and the operator's grant `network`."
        )],
        Network::Domains(_) => denials.iter().map(denial).collect(),
        Network::On | Network::Off => Vec::new(),
    }
}

fn denial(denial: &Denial) -> String {
    match denial.missing() {
        Some(entry) => format!(
            "Refused by the network: {denial}. To allow it, list `{entry}` there and let the operator grant `network={entry}`."
        ),
        None => format!("Refused by the network: {denial}."),
    }
}

/// Explains the possible reason for a missing file. It neither checks nor reveals whether the file exists outside.
pub fn unseen(who: &str, path: &str, view: Option<&ProcessView>) -> String {
    format!(
        "{who} sees nothing there: it is confined to the files of its worker. Declare the place of `{path}` under \
         `sandbox.paths`, or give the file to the worker.{}",
        not_given(view)
    )
}

/// Lists the mounts that the worker sees and its processes don't, with the reason of each.
fn not_given(view: Option<&ProcessView>) -> String {
    let left_out = view.map(ProcessView::left_out).unwrap_or_default();
    left_out
        .iter()
        .map(|mount| format!("\nNot given to processes: `{}`: {}", mount.at, mount.reason))
        .collect()
}
