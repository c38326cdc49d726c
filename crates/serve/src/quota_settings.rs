//! The quotas of `serve.yaml`, as they are written (`docs/reference/quotas.md`).

use serde::{Deserialize, Deserializer, de};
use std::{collections::HashMap, sync::Arc};

/// The part `quotas` of `serve.yaml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct QuotaSettings {
    pub(crate) all: OfAll,
    pub(crate) token: OfEach,
    pub(crate) programs: HashMap<Arc<str>, OfProgram>,
}

impl QuotaSettings {
    /// The programs that it names.
    pub(crate) fn programs(&self) -> impl Iterator<Item = &Arc<str>> {
        self.programs.keys()
    }
}

/// The quotas of all tokens together. Options of the command line limit runs and streams.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct OfAll {
    pub(crate) bodies: Option<Size>,
    pub(crate) uploads: Option<Size>,
    pub(crate) upload_files: Option<u64>,
    pub(crate) mcp_sessions: Option<u64>,
    pub(crate) disk: Option<Size>,
    pub(crate) memory: Option<Size>,
}

/// The quotas of a token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct OfEach {
    pub(crate) runs: Option<u64>,
    pub(crate) streams: Option<u64>,
    pub(crate) bodies: Option<Size>,
    pub(crate) uploads: Option<Size>,
    pub(crate) upload_files: Option<u64>,
    pub(crate) mcp_sessions: Option<u64>,
    pub(crate) disk: Option<Size>,
}

/// The quotas of a program's runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct OfProgram {
    pub(crate) runs: Option<u64>,
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
