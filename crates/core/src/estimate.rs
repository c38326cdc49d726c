//! Estimates of a request's tokens before a provider counts them.

use crate::model::{Blob, Message, Part, Usage};

/// Bytes of text per token, a low estimate: English has four, code and JSON three to four.
const BYTES: u64 = 3;
/// Tokens of an image. Providers scale large images down to about this size.
const IMAGE: u64 = 1600;
/// Bytes of a PDF per token: a page has some tens of kilobytes, and one to three thousand tokens.
const PDF_BYTES: u64 = 10;

/// Estimated tokens of that number of bytes of text.
pub(crate) fn estimate_text(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(BYTES)
}

/// Tokens of a message whose JSON has that many bytes.
pub(crate) fn estimate(message: &Message, json_bytes: usize) -> u64 {
    let blobs = message.parts.iter().filter_map(|part| match part {
        Part::Blob(blob) => Some(blob),
        _ => None,
    });
    let (mut encoded, mut tokens) = (0, 0);
    for Blob { media_type, data, .. } in blobs {
        encoded += data.len().div_ceil(3) * 4;
        tokens += match &**media_type {
            "application/pdf" => (data.len() as u64).div_ceil(PDF_BYTES),
            kind if kind.starts_with("image/") => IMAGE,
            _ => estimate_text(data.len()),
        };
    }
    tokens + estimate_text(json_bytes.saturating_sub(encoded))
}

/// Estimates the requests of one conversation, each from the provider's last count and the messages added since.
#[derive(Debug, Default)]
pub(crate) struct Estimate {
    /// The estimate of the last answered request, and its provider's count.
    counted: Option<(u64, u64)>,
}

impl Estimate {
    /// The estimate for the next request, given the plain estimate of everything that it sends.
    pub(crate) fn next(&self, estimated: u64) -> u64 {
        match self.counted {
            Some((then, counted)) if estimated >= then => counted.saturating_add(estimated - then),
            // Less is sent than was counted, by a compaction or an undone message: the count shrinks in proportion.
            Some((then, counted)) => scaled(estimated, counted, then),
            None => estimated,
        }
    }

    /// Takes the provider's count for an answered request with that estimate.
    pub(crate) fn answered(&mut self, estimated: u64, usage: &Usage) {
        self.counted = usage.input_tokens.map(|counted| (estimated, counted)).or(self.counted);
    }
}

/// `amount` in the proportion of `to` to `from`, rounded up.
pub(crate) fn scaled(amount: u64, to: u64, from: u64) -> u64 {
    let scaled = (u128::from(amount) * u128::from(to)).div_ceil(u128::from(from.max(1)));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
