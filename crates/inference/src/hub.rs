//! Models of the Hugging Face hub: the files of a repository, the file that fits this machine, and its SHA-256
//! (`docs/guides/local-models.md`).
//!
//! The hub's API lists the files of a commit. Large files are stored by their SHA-256, which the list includes, so that
//! a download can be verified although the catalogue does not have the model.

use crate::{
    catalogue::{Source, memory_needed},
    network,
    pull::Download,
};
use llm_do_core::local_name;
use reqwest::{Response, StatusCode};
use serde_json::Value;
use std::{fmt, str::FromStr};

/// The hub, unless `HF_ENDPOINT` names another.
pub const ENDPOINT: &str = "https://huggingface.co";

/// The most bytes of one answer of the API.
const MOST_BYTES: usize = 16 << 20;
/// The most pages of a list of files.
const MOST_PAGES: usize = 20;
/// Size in bytes up to which the 8-bit file is preferred: small models lose more with fewer bits.
const SMALL: u64 = 1_000_000_000;

/// Labels in the order in which they are chosen: 4 bits are the usual balance of size and quality, more bits are better
/// but slower, fewer are worse.
const PREFERENCE: &[&str] = &[
    "Q4_K_M",
    "UD-Q4_K_XL",
    "MXFP4",
    "Q4_K_S",
    "IQ4_NL",
    "IQ4_XS",
    "Q4_1",
    "Q4_0",
    "Q5_K_M",
    "Q5_K_S",
    "Q5_1",
    "Q5_0",
    "Q6_K",
    "Q8_0",
    "Q3_K_L",
    "Q3_K_M",
    "Q3_K_S",
    "IQ3_M",
    "IQ3_S",
    "IQ3_XS",
    "IQ3_XXS",
    "Q2_K",
    "IQ2_M",
    "IQ2_S",
    "IQ2_XS",
    "IQ2_XXS",
    "BF16",
    "F16",
    "FP16",
    "F32",
];

/// The name of a repository, and optionally of a file in it: `OWNER/REPO[:FILE|QUANT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubName {
    owner: String,
    repo: String,
    wanted: Wanted,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    /// The best file that fits the machine.
    Best,
    /// The path of a file, which ends in `.gguf`.
    File(String),
    /// A quantisation, such as `Q4_K_M`.
    Label(String),
}

/// A text that is no [`HubName`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not OWNER/REPO, OWNER/REPO:QUANT or OWNER/REPO:FILE.gguf")]
pub struct BadHubName(String);

impl FromStr for HubName {
    type Err = BadHubName;
    fn from_str(text: &str) -> Result<Self, BadHubName> {
        let bad = || BadHubName(text.to_owned());
        let (repository, wanted) = match text.split_once(':') {
            Some((repository, wanted)) => (repository, Some(wanted)),
            None => (text, None),
        };
        let (owner, repo) = repository.split_once('/').ok_or_else(bad)?;
        let wanted = match wanted {
            None => Wanted::Best,
            Some(file) if file.to_ascii_lowercase().ends_with(".gguf") => Wanted::File(file.to_owned()),
            Some(label) if local_name::is_part(label) => Wanted::Label(label.to_owned()),
            Some(_) => return Err(bad()),
        };
        if !local_name::is_part(owner) || !local_name::is_part(repo) {
            return Err(bad());
        }
        Ok(Self { owner: owner.to_owned(), repo: repo.to_owned(), wanted })
    }
}

/// Writes `OWNER/REPO`.
impl fmt::Display for HubName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.repo)
    }
}

/// A hub, with the user's token.
#[derive(Clone, Debug)]
pub struct Hub {
    endpoint: String,
    token: Option<Token>,
}

#[derive(Clone, PartialEq, Eq)]
struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    fn text(token: Option<&Self>) -> Option<&str> {
        token.map(|token| token.0.as_str())
    }
}

/// The file that a [`HubName`] selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubFile {
    /// The name in `local:NAME`: `OWNER/REPO:LABEL`.
    pub name: String,
    /// The path in the repository.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 in lower-case hex.
    pub sha256: String,
    /// The licence that the repository states.
    pub licence: Option<String>,
    /// The number of files of the repository that could have been chosen. 1 if the name selects one.
    pub candidates: usize,
    url: String,
    /// The repository, as `OWNER/REPO`, and its page.
    repo: String,
    page: String,
    token: Option<Token>,
}

impl HubFile {
    /// Returns the error for a file that the hub lists, but gives only to users who accepted its owner's conditions.
    pub fn gated(&self) -> HubError {
        let (repo, page) = (self.repo.clone(), self.page.clone());
        HubError::Gated { repo, page, with_token: self.token.is_some() }
    }

    /// Returns the download of the file.
    pub fn download(&self) -> Download<'_> {
        let source = Source::Hub { url: &self.url, token: Token::text(self.token.as_ref()) };
        Download { name: &self.name, size: self.size, sha256: &self.sha256, sources: vec![source] }
    }
}

/// The reason for which the hub did not give a file.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// `HF_ENDPOINT` is no address, or would send the token unencrypted.
    #[error("the hub's address `{0}` is not https")]
    Endpoint(String),
    /// The hub does not answer.
    #[error("the hub {host} cannot be reached: {reason}")]
    Offline {
        /// Host of the hub.
        host: String,
        /// The reason.
        reason: String,
    },
    /// The repository does not exist, or it is private.
    #[error("the hub has no model `{repo}`, or it is private")]
    Missing {
        /// The repository, as `OWNER/REPO`.
        repo: String,
        /// True if a token was sent.
        with_token: bool,
    },
    /// The owner gives the file only to users who have accepted conditions.
    #[error("the owner of `{repo}` gives it only to users who accepted its conditions")]
    Gated {
        /// The repository, as `OWNER/REPO`.
        repo: String,
        /// The page on which to accept them.
        page: String,
        /// True if a token was sent.
        with_token: bool,
    },
    /// The token is not valid.
    #[error("the hub does not accept the token in HF_TOKEN")]
    Token,
    /// The hub limits the number of requests.
    #[error("the hub limits the number of requests{}", .seconds.map(|it| format!("; it takes further ones in {it} s")).unwrap_or_default())]
    Limited {
        /// Seconds until the hub accepts further requests, if it states them.
        seconds: Option<u64>,
        /// True if a token was sent.
        with_token: bool,
    },
    /// The hub answered with another error status.
    #[error("the hub answered {0}")]
    Status(u16),
    /// The hub's answer can't be used.
    #[error("the hub's answer cannot be used: {0}")]
    Answer(String),
    /// The repository has no such file.
    #[error("`{repo}` has no file `{wanted}`")]
    NoFile {
        /// The repository, as `OWNER/REPO`.
        repo: String,
        /// The requested file or label.
        wanted: String,
        /// The files of the repository: labels with sizes in bytes.
        has: Vec<(String, u64)>,
    },
    /// The repository has no model in a GGUF file.
    #[error("`{0}` has no model in a GGUF file")]
    NoGguf(String),
    /// The file is split into several files.
    #[error("`{wanted}` of `{repo}` is split into several files; llm-do runs models in one file")]
    Split {
        /// The repository, as `OWNER/REPO`.
        repo: String,
        /// The requested file or label.
        wanted: String,
        /// The models of the repository in a single file: labels with sizes in bytes.
        has: Vec<(String, u64)>,
    },
    /// Every file is too large for this machine.
    #[error("no file of `{repo}` fits the memory of this machine")]
    NoneFits {
        /// The repository, as `OWNER/REPO`.
        repo: String,
        /// The machine's memory in bytes.
        memory: u64,
        /// The files of the repository: labels with sizes in bytes.
        has: Vec<(String, u64)>,
    },
}

/// A GGUF file in a repository.
#[derive(Clone, Debug)]
struct Listed {
    path: String,
    /// The quantisation, or the name of the file if that contains none.
    label: String,
    size: u64,
    sha256: Option<String>,
    is_split: bool,
}

impl Hub {
    /// Makes a client of the hub at that address, with that token.
    ///
    /// # Errors
    /// [`HubError::Endpoint`]: the address must be `https`, or a server on this machine.
    pub fn new(endpoint: &str, token: Option<String>) -> Result<Self, HubError> {
        let endpoint = endpoint.trim_end_matches('/');
        let bad = || HubError::Endpoint(endpoint.to_owned());
        let address: reqwest::Url = endpoint.parse().map_err(|_| bad())?;
        let here = matches!(address.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
        if !(address.scheme() == "https" || (address.scheme() == "http" && here)) {
            return Err(bad());
        }
        let token = token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty());
        Ok(Self { endpoint: endpoint.to_owned(), token: token.map(Token) })
    }

    /// Finds the file that a name selects. If the name leaves a choice, this is the preferred file that fits into
    /// `memory` bytes.
    ///
    /// # Errors
    /// See [`HubError`].
    pub async fn find(&self, name: &HubName, memory: Option<u64>) -> Result<HubFile, HubError> {
        let about = self.ask(name, &format!("{}/api/models/{name}", self.endpoint)).await?.0;
        let commit = about["sha"].as_str().filter(|sha| sha.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let commit = commit.ok_or_else(|| HubError::Answer("it names no commit".into()))?;
        let files = self.files(name, commit).await?;
        let (file, candidates) = choose(name, &files, memory)?;
        let sha256 = file
            .sha256
            .clone()
            .ok_or_else(|| HubError::Answer(format!("it states no SHA-256 of {}", file.path)))?;
        let twins = files.iter().filter(|other| other.label.eq_ignore_ascii_case(&file.label)).count();
        let label = if twins == 1 { file.label.clone() } else { stem(&file.path).to_owned() };
        let safe = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
        let label: String = label.chars().map(safe).collect();
        if !local_name::is_part(&label) {
            return Err(HubError::Answer(format!("{} cannot be the name of a model here", file.path)));
        }
        Ok(HubFile {
            name: format!("{name}:{label}"),
            path: file.path.clone(),
            size: file.size,
            sha256,
            licence: licence(&about),
            candidates,
            url: format!("{}/{name}/resolve/{commit}/{}", self.endpoint, encoded(&file.path)),
            repo: name.to_string(),
            page: self.page(name),
            token: self.token.clone(),
        })
    }

    /// Returns the GGUF files with models in that commit.
    async fn files(&self, name: &HubName, commit: &str) -> Result<Vec<Listed>, HubError> {
        let mut next = Some(format!("{}/api/models/{name}/tree/{commit}?recursive=true", self.endpoint));
        let mut files = Vec::new();
        for _ in 0..MOST_PAGES {
            let Some(url) = next.take() else { break };
            let (page, following) = self.ask(name, &url).await?;
            let entries =
                page.as_array().ok_or_else(|| HubError::Answer("its list of files is no list".into()))?;
            files.extend(entries.iter().filter_map(Listed::of));
            // Never to another server: the token goes there.
            next = following.filter(|url| url.starts_with(&format!("{}/", self.endpoint)));
        }
        Ok(files)
    }

    /// Returns an answer of the API, and the address of its next page.
    async fn ask(&self, name: &HubName, url: &str) -> Result<(Value, Option<String>), HubError> {
        let offline = |error: reqwest::Error| HubError::Offline {
            host: Source::Url(&self.endpoint).label(),
            reason: network::reason(&error),
        };
        let client = network::client(url).map_err(offline)?;
        let mut answer =
            network::get(&client, url, Token::text(self.token.as_ref())).send().await.map_err(offline)?;
        if !answer.status().is_success() {
            return Err(self.refusal(name, &answer));
        }
        let next = next_page(&answer);
        let mut body = Vec::new();
        while let Some(bytes) = answer.chunk().await.map_err(offline)? {
            body.extend_from_slice(&bytes);
            if body.len() > MOST_BYTES {
                return Err(HubError::Answer("it is too long".into()));
            }
        }
        let value = serde_json::from_slice(&body).map_err(|error| HubError::Answer(error.to_string()))?;
        Ok((value, next))
    }

    /// Returns the address of the repository's page for people.
    fn page(&self, name: &HubName) -> String {
        format!("{}/{name}", self.endpoint)
    }

    fn refusal(&self, name: &HubName, answer: &Response) -> HubError {
        let header = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok());
        let (repo, with_token) = (name.to_string(), self.token.is_some());
        match (answer.status(), header("x-error-code")) {
            (_, Some("GatedRepo")) | (StatusCode::FORBIDDEN, _) => {
                HubError::Gated { repo, page: self.page(name), with_token }
            }
            // Without a token it says 401 for what does not exist, so that private names are not given away.
            (_, Some("RepoNotFound")) | (StatusCode::NOT_FOUND, _) => HubError::Missing { repo, with_token },
            (StatusCode::UNAUTHORIZED, _) if with_token => HubError::Token,
            (StatusCode::UNAUTHORIZED, _) => HubError::Missing { repo, with_token },
            (StatusCode::TOO_MANY_REQUESTS, _) => {
                let seconds = header("retry-after").and_then(|value| value.parse().ok());
                HubError::Limited { seconds, with_token }
            }
            (status, _) => HubError::Status(status.as_u16()),
        }
    }
}

impl Listed {
    /// Returns the GGUF file with a model that an entry of the list describes.
    fn of(entry: &Value) -> Option<Self> {
        let path = entry["path"].as_str()?;
        let name = stem(path);
        let lower = path.to_ascii_lowercase();
        if entry["type"] != "file"
            || !lower.ends_with(".gguf")
            || path.split('/').any(|part| part.starts_with('.'))
        {
            return None;
        }
        // Parts of other models: projectors of images, and statistics for quantisation.
        if lower.contains("mmproj") || lower.contains("imatrix") {
            return None;
        }
        let size = entry["lfs"]["size"].as_u64().or(entry["size"].as_u64())?;
        let sha256 = entry["lfs"]["oid"].as_str().map(str::to_ascii_lowercase);
        let sha256 =
            sha256.filter(|hash| hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let (whole, is_split) = match without_part(name) {
            Some(whole) => (whole, true),
            None => (name, false),
        };
        Some(Self { path: path.to_owned(), label: label(whole), size, sha256, is_split })
    }
}

/// Returns the file that a name selects, and the number of files from which it was chosen.
fn choose<'a>(
    name: &HubName,
    files: &'a [Listed],
    memory: Option<u64>,
) -> Result<(&'a Listed, usize), HubError> {
    let repo = name.to_string();
    let whole: Vec<&Listed> = files.iter().filter(|file| !file.is_split).collect();
    let has = || {
        let mut has: Vec<_> = whole.iter().map(|file| (file.label.clone(), file.size)).collect();
        has.sort_by_key(|(_, size)| *size);
        has
    };
    let is_wanted = |file: &&Listed| match &name.wanted {
        Wanted::Best => true,
        Wanted::File(path) => file.path == *path,
        Wanted::Label(label) => {
            file.label.eq_ignore_ascii_case(label) || stem(&file.path).eq_ignore_ascii_case(label)
        }
    };
    if let Wanted::File(wanted) | Wanted::Label(wanted) = &name.wanted {
        if let Some(file) = whole.iter().copied().find(|file| is_wanted(file)) {
            return Ok((file, 1));
        }
        let (wanted, has) = (wanted.clone(), has());
        let is_split = files.iter().any(|file| is_wanted(&file));
        return Err(if is_split {
            HubError::Split { repo, wanted, has }
        } else {
            HubError::NoFile { repo, wanted, has }
        });
    }
    if whole.is_empty() {
        return Err(match files.first() {
            Some(file) => HubError::Split { repo, wanted: file.label.clone(), has: Vec::new() },
            None => HubError::NoGguf(repo),
        });
    }
    let rank = |file: &Listed| {
        let small = file.label == "Q8_0" && file.size <= SMALL;
        let place = PREFERENCE.iter().position(|label| *label == file.label).unwrap_or(PREFERENCE.len());
        (!small, place, file.size)
    };
    let fits = |file: &&Listed| memory.is_none_or(|memory| memory_needed(file.size) <= memory);
    match whole.iter().copied().filter(fits).min_by_key(|file| rank(file)) {
        Some(file) => Ok((file, whole.len())),
        None => Err(HubError::NoneFits { repo, memory: memory.unwrap_or(u64::MAX), has: has() }),
    }
}

/// Returns the name of a file without folders and extension.
fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.get(..name.len().saturating_sub(".gguf".len())).unwrap_or(name)
}

/// Returns the name of a model of which a file is one part: `NAME-00001-of-00003`.
fn without_part(name: &str) -> Option<&str> {
    let (rest, of) = name.rsplit_once("-of-")?;
    let (whole, number) = rest.rsplit_once('-')?;
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(of) && is_number(number)).then_some(whole)
}

/// Returns the quantisation at the end of a file's name in upper case, or the whole name.
fn label(name: &str) -> String {
    let (before, last) = match name.rfind(['-', '.']) {
        Some(at) => (&name[..at], name[at + 1..].to_ascii_uppercase()),
        None => ("", name.to_ascii_uppercase()),
    };
    let digits = last.trim_start_matches("IQ").trim_start_matches("TQ").trim_start_matches('Q');
    let is_quant = (digits.len() < last.len() && digits.starts_with(|c: char| c.is_ascii_digit()))
        || last.starts_with("MXFP4")
        || matches!(last.as_str(), "F16" | "FP16" | "BF16" | "F32");
    match is_quant {
        false => name.to_owned(),
        true if before.to_ascii_uppercase().ends_with("-UD") => format!("UD-{last}"),
        true => last,
    }
}

/// Returns the licence that a repository states in its tags.
fn licence(about: &Value) -> Option<String> {
    let tags = about["tags"].as_array()?;
    tags.iter().find_map(|tag| Some(tag.as_str()?.strip_prefix("license:")?.to_owned()))
}

/// Returns the address after `rel="next"` in the header `Link` (RFC 8288).
fn next_page(answer: &Response) -> Option<String> {
    let header = answer.headers().get("link")?.to_str().ok()?;
    let link = header.split(',').find(|link| link.contains("rel=\"next\""))?;
    Some(link.split_once('<')?.1.split_once('>')?.0.to_owned())
}

/// Encodes a path for use in an address.
fn encoded(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn files(names: &[(&str, u64)]) -> Vec<Listed> {
        let entry = |(path, size): &(&str, u64)| json!({"type": "file", "path": path, "size": size, "lfs": {"oid": "a".repeat(64), "size": size}});
        names.iter().map(entry).filter_map(|entry| Listed::of(&entry)).collect()
    }

    fn chosen(name: &str, files: &[Listed], memory: u64) -> Result<String, String> {
        let name: HubName = name.parse().unwrap();
        match choose(&name, files, Some(memory)) {
            Ok((file, _)) => Ok(file.label.clone()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn names_have_an_owner_and_a_repository() {
        for name in ["a/b", "a/b:Q4_K_M", "a/b:x y/c.gguf", "Qwen/Qwen3-0.6B-GGUF"] {
            assert!(name.parse::<HubName>().is_ok(), "{name}");
        }
        for name in
            ["", "a", "a/b/c", "../b", "a/..", "a/b:", "a/b:c/d", "a b/c", "a/b?c", "a/b#c", "a/b:../x"]
        {
            assert!(name.parse::<HubName>().is_err(), "{name}");
        }
    }

    #[test]
    fn labels_are_the_quantisations_in_the_names() {
        for (file, label) in [
            ("Qwen3-4B-Q4_K_M.gguf", "Q4_K_M"),
            ("qwen2.5-3b-instruct-q5_k_m.gguf", "Q5_K_M"),
            ("SmolLM2-135M-Instruct.Q4_1.gguf", "Q4_1"),
            ("x/Model-UD-IQ2_XXS.gguf", "UD-IQ2_XXS"),
            ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
            ("model-BF16-00001-of-00002.gguf", "BF16"),
            ("Qwen3.gguf", "Qwen3"),
            ("tiny.gguf", "tiny"),
        ] {
            assert_eq!(files(&[(file, 1)])[0].label, label, "{file}");
        }
        assert!(files(&[("mmproj-x-F16.gguf", 1), ("x.safetensors", 1), ("imatrix.gguf", 1)]).is_empty());
    }

    #[test]
    fn the_usual_quantisation_that_fits_is_chosen() {
        const GB: u64 = 1_000_000_000;
        let repo = files(&[
            ("m-Q2_K.gguf", 3 * GB),
            ("m-Q3_K_M.gguf", 4 * GB),
            ("m-Q4_K_M.gguf", 5 * GB),
            ("m-Q8_0.gguf", 9 * GB),
            ("m-F16-00001-of-00002.gguf", 9 * GB),
            ("m-F16-00002-of-00002.gguf", 9 * GB),
        ]);
        assert_eq!(chosen("a/m", &repo, 32 * GB), Ok("Q4_K_M".into()));
        assert_eq!(chosen("a/m", &repo, 6 * GB), Ok("Q3_K_M".into()));
        assert_eq!(chosen("a/m", &repo, 4 * GB), Ok("Q2_K".into()));
        assert!(chosen("a/m", &repo, GB).unwrap_err().contains("fits"));
        assert_eq!(chosen("a/m:q8_0", &repo, GB), Ok("Q8_0".into()));
        assert_eq!(chosen("a/m:m-Q2_K.gguf", &repo, GB), Ok("Q2_K".into()));
        assert!(chosen("a/m:F16", &repo, GB).unwrap_err().contains("split"));
        assert!(chosen("a/m:Q5_K_M", &repo, GB).unwrap_err().contains("no file `Q5_K_M`"));
        assert!(chosen("a/m", &repo[4..], GB).unwrap_err().contains("split"));
        assert!(chosen("a/m", &[], GB).unwrap_err().contains("no model in a GGUF"));
        let small = files(&[("m-Q4_K_M.gguf", 400_000_000), ("m-Q8_0.gguf", 640_000_000)]);
        assert_eq!(chosen("a/m", &small, 32 * GB), Ok("Q8_0".into()));
    }

    #[test]
    fn a_token_is_only_sent_over_https_or_within_this_machine() {
        for endpoint in
            ["https://hub.example/", "http://127.0.0.1:80", "http://localhost:1", "http://[::1]:1"]
        {
            assert!(Hub::new(endpoint, None).is_ok(), "{endpoint}");
        }
        for endpoint in ["http://hub.example", "ftp://localhost", "hub.example", "", "file:///x"] {
            assert!(Hub::new(endpoint, None).is_err(), "{endpoint}");
        }
        let hub = Hub::new(ENDPOINT, Some("hf_secret".into())).unwrap();
        assert!(!format!("{hub:?}").contains("secret"));
    }
}
