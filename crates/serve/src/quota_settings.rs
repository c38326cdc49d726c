//! The quotas of `serve.yaml`, as they are written (`docs/reference/quotas.md`).

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use std::{borrow::Cow, collections::HashMap, sync::Arc};

/// The part `quotas` of `serve.yaml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct QuotaSettings {
    /// The quotas of all tokens together.
    pub(crate) all: OfAll,
    /// The quotas of each token that has none of its own.
    pub(crate) token: OfEach,
    /// The quotas of the runs of programs, by their names.
    pub(crate) programs: HashMap<Arc<str>, OfProgram>,
}

impl QuotaSettings {
    /// The programs that it names.
    pub(crate) fn programs(&self) -> impl Iterator<Item = &Arc<str>> {
        self.programs.keys()
    }
}

/// The quotas of all tokens together. Options of the command line limit runs and streams.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct OfAll {
    /// Bodies of requests that are being read.
    pub(crate) bodies: Option<Size>,
    /// Uploads that no run has claimed.
    pub(crate) uploads: Option<Size>,
    /// The number of such uploads.
    pub(crate) upload_files: Option<u64>,
    /// Sessions of MCP clients.
    pub(crate) mcp_sessions: Option<u64>,
    /// Files of runs.
    pub(crate) disk: Option<Size>,
    /// Memory of the server.
    pub(crate) memory: Option<Size>,
}

/// The quotas of a token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct OfEach {
    /// Runs at once.
    pub(crate) runs: Option<u64>,
    /// Streams of events.
    pub(crate) streams: Option<u64>,
    /// Bodies of requests that are being read.
    pub(crate) bodies: Option<Size>,
    /// Uploads that no run has claimed.
    pub(crate) uploads: Option<Size>,
    /// The number of such uploads.
    pub(crate) upload_files: Option<u64>,
    /// Sessions of MCP clients.
    pub(crate) mcp_sessions: Option<u64>,
    /// Files of runs.
    pub(crate) disk: Option<Size>,
}

/// The quotas of a program's runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct OfProgram {
    /// Runs at once.
    pub(crate) runs: Option<u64>,
    /// Files of runs.
    pub(crate) disk: Option<Size>,
}

/// A number of bytes, or a text such as `64 MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Given {
            Bytes(u64),
            Text(String),
        }
        match Given::deserialize(deserializer)? {
            Given::Bytes(bytes) => Ok(Self(bytes)),
            Given::Text(text) => size(&text).map(Self).ok_or_else(|| {
                de::Error::custom(format!(
                    "`{text}` is no size: give a number of bytes, or a number with KiB, MiB or GiB, such as 64 MiB"
                ))
            }),
        }
    }
}

impl JsonSchema for Size {
    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A number of bytes, or a text such as `64 MiB`.",
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": u64::MAX},
                {"type": "string", "pattern": "^\\s*[0-9]+\\s*(KiB|MiB|GiB)?\\s*$"},
            ],
        })
    }
}

fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim() {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_units_and_nothing_else() {
        for (text, bytes) in
            [("0", 0), ("512", 512), ("64 MiB", 64 << 20), ("2GiB", 2 << 30), (" 1 KiB ", 1 << 10)]
        {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for text in [
            "",
            "MiB",
            "-1",
            "1.5 GiB",
            "1 MB",
            "1 mib",
            "1 MiB x",
            "99999999999999999999",
            "99999999999 GiB",
        ] {
            assert_eq!(size(text), None, "{text}");
        }
    }
}
