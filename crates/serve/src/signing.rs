//! Signatures of webhooks: HMAC-SHA256 with a secret that both sides know.

use axum::http::HeaderMap;
use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use llm_do::core::schema::sha256;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use sha2::Sha256;
use std::{
    env, fs,
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The farthest that the time in a signature may be from the server's.
const REPLAY_WINDOW: Duration = Duration::from_secs(300);
/// Least length of a secret, in bytes.
const SHORTEST: usize = 16;
/// Longest ID of a delivery that is used as it is, in bytes.
const LONGEST_ID: usize = 200;

/// The place of a secret. The configuration never holds the secret itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SecretAt {
    /// The environment variable with that name.
    Env(String),
    /// The file at that path.
    File(PathBuf),
}

impl SecretAt {
    /// The text that is there, without white space around it.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn text(&self) -> Result<String, String> {
        let (text, name) = match self {
            Self::Env(name) => (
                env::var(name).map_err(|_| format!("the environment variable {name} is not set"))?,
                format!("the environment variable {name}"),
            ),
            Self::File(path) => (
                fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?,
                path.display().to_string(),
            ),
        };
        match text.trim() {
            "" => Err(format!("{name} is empty")),
            text => Ok(text.to_owned()),
        }
    }

    /// The secret that is there.
    ///
    /// # Errors
    /// There is none, or it is too short.
    pub(crate) fn secret(&self) -> Result<Secret, String> {
        let text = self.text()?;
        // Standard Webhooks writes its secrets so.
        let decoded = text.strip_prefix("whsec_").and_then(|rest| STANDARD.decode(rest).ok());
        if text.len() < SHORTEST {
            let at = match self {
                Self::Env(name) => format!("the environment variable {name}"),
                Self::File(path) => path.display().to_string(),
            };
            return Err(format!("the secret in {at} is too short: use at least {SHORTEST} characters"));
        }
        Ok(Secret { decoded, text })
    }
}

/// A secret that signs. It has no form for people.
pub(crate) struct Secret {
    text: String,
    /// The bytes that a secret of Standard Webhooks encodes.
    decoded: Option<Vec<u8>>,
}

impl Secret {
    /// The key for the schemes that use the text as it is.
    fn plain(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// The signature of a message, as Standard Webhooks has it.
    pub(crate) fn sign(&self, id: &str, time: &str, body: &[u8]) -> String {
        let mac = mac(self.standard(), &[id.as_bytes(), b".", time.as_bytes(), b".", body]);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }

    /// The request is signed by Slack, now or nearly.
    pub(crate) fn has_signed_slack(&self, headers: &HeaderMap, body: &[u8]) -> bool {
        let text = |name: &str| headers.get(name)?.to_str().ok();
        let Some(time) = text("x-slack-request-timestamp") else { return false };
        let given = text("x-slack-signature").and_then(|given| hex(given.strip_prefix("v0=")?));
        let parts: [&[u8]; 4] = [b"v0:", time.as_bytes(), b":", body];
        is_signed(self.plain(), &parts, [given].into_iter()) && is_current(time)
    }

    /// The key of Standard Webhooks.
    fn standard(&self) -> &[u8] {
        self.decoded.as_deref().unwrap_or(self.text.as_bytes())
    }
}

fn mac(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("an HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac
}

/// Returns true if one of these is the signature of the parts. Each wrong one takes the same time.
fn is_signed<'a>(key: &[u8], parts: &[&[u8]], given: impl Iterator<Item = Option<Vec<u8>>> + 'a) -> bool {
    let mac = mac(key, parts);
    // All are compared, whichever fits.
    given.flatten().fold(false, |found, given| mac.clone().verify_slice(&given).is_ok() | found)
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    (text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit())).then(|| digits.map(byte).collect())?
}

/// The scheme by which a sender signs its deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scheme {
    /// `X-Hub-Signature-256` over the body, as GitHub, Gitea and Forgejo send it.
    Github,
    /// `Stripe-Signature` over time and body.
    Stripe,
    /// `webhook-signature` over ID, time and body (Standard Webhooks).
    Standard,
}

impl Scheme {
    /// The identity of a delivery whose signature is right and not late. Only signed parts decide about it.
    pub(crate) fn verify(self, secret: &Secret, headers: &HeaderMap, body: &[u8]) -> Option<String> {
        let text = |name: &str| headers.get(name)?.to_str().ok();
        match self {
            Self::Github => {
                let given = text("x-hub-signature-256")?.strip_prefix("sha256=")?;
                let signed = is_signed(secret.plain(), &[body], [hex(given)].into_iter());
                // The ID of a delivery is not signed: with another ID, an old delivery would be a new one.
                signed.then(|| format!("github:{}", sha256(body)))
            }
            Self::Stripe => {
                let given = text("stripe-signature")?;
                let part = |name: &'static str| {
                    given.split(',').filter_map(move |part| part.trim().strip_prefix(name)?.strip_prefix('='))
                };
                let time = part("t").next()?;
                let parts = [time.as_bytes(), b".", body];
                let signed = is_signed(secret.plain(), &parts, part("v1").map(hex));
                if !signed || !is_current(time) {
                    return None;
                }
                let id = serde_json::from_slice::<Value>(body).ok();
                let id = id.as_ref().and_then(|event| event.get("id")?.as_str()).map(str::to_owned);
                let id = id.filter(|id| !id.is_empty() && id.len() <= LONGEST_ID);
                Some(format!("stripe:{}", id.unwrap_or_else(|| sha256(body))))
            }
            Self::Standard => {
                let (id, time) = (text("webhook-id")?, text("webhook-timestamp")?);
                let given = text("webhook-signature")?.split(' ');
                let given = given.map(|each| STANDARD.decode(each.strip_prefix("v1,")?).ok());
                let parts = [id.as_bytes(), b".", time.as_bytes(), b".", body];
                let signed = is_signed(secret.standard(), &parts, given);
                (signed && is_current(time)).then(|| format!("standard:{}", sha256(id.as_bytes())))
            }
        }
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The time, in seconds since 1970, is that of now, or nearly.
fn is_current(time: &str) -> bool {
    time.parse::<u64>().is_ok_and(|time| time.abs_diff(now()) <= REPLAY_WINDOW.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), format!("{text}\n")).expect("written");
        SecretAt::File(file.path().to_owned()).secret().map_err(|_| "a secret").expect("a secret")
    }

    fn headers(given: &[(&'static str, &str)]) -> HeaderMap {
        given
            .iter()
            .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")))
            .collect()
    }

    fn hex_of(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The example of <https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries>.
    #[test]
    fn example_of_github_is_signed_and_no_other_body_is() {
        let secret = secret("It's a Secret to Everybody");
        let given = headers(&[(
            "x-hub-signature-256",
            "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        )]);
        assert!(Scheme::Github.verify(&secret, &given, b"Hello, World!").is_some());
        assert!(Scheme::Github.verify(&secret, &given, b"Hello, World?").is_none());
        assert!(Scheme::Github.verify(&secret, &HeaderMap::new(), b"Hello, World!").is_none());
        for wrong in ["sha256=", "sha256=zz", "757107ea", "sha1=757107ea", "sha256=+f"] {
            let given = headers(&[("x-hub-signature-256", wrong)]);
            assert!(Scheme::Github.verify(&secret, &given, b"Hello, World!").is_none(), "{wrong}");
        }
    }

    #[test]
    fn signature_of_stripe_holds_for_its_time_its_body_and_five_minutes() {
        let secret = secret("whsec_test_of_a_secret");
        let body = br#"{"id":"evt_1","type":"charge.failed"}"#;
        let signed = |time: u64, body: &[u8]| {
            let time = time.to_string();
            let mac = mac(secret.plain(), &[time.as_bytes(), b".", body]);
            hex_of(&mac.finalize().into_bytes())
        };
        let now = now();
        let check = |header: String, body: &[u8]| {
            Scheme::Stripe.verify(&secret, &headers(&[("stripe-signature", &header)]), body)
        };
        let good = signed(now, body);
        assert_eq!(check(format!("t={now},v1={good}"), body).as_deref(), Some("stripe:evt_1"));
        // While a secret is replaced, Stripe sends two signatures.
        assert!(check(format!("t={now},v1={},v1={good},v0=x", "0".repeat(64)), body).is_some());
        assert!(check(format!("t={},v1={good}", now - 1), body).is_none(), "another time");
        assert!(check(format!("t={now},v1={good}"), b"{}").is_none(), "another body");
        for time in [now - 301, now + 400] {
            assert!(check(format!("t={time},v1={}", signed(time, body)), body).is_none(), "{time}");
        }
        assert!(check(format!("v1={good}"), body).is_none(), "no time");
    }

    /// The example of <https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>, whose time is
    /// long past.
    #[test]
    fn signature_of_standard_webhooks_covers_id_time_and_body() {
        let secret = secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let body = br#"{"test": 2432232314}"#;
        let parts: [&[u8]; 5] = [b"msg_p5jXN8AQM9LWM0D4loKWxJek", b".", b"1614265330", b".", body];
        let mac = mac(secret.standard(), &parts);
        assert_eq!(
            STANDARD.encode(mac.finalize().into_bytes()),
            "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
        let given = headers(&[
            ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            ("webhook-timestamp", "1614265330"),
            ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
        ]);
        assert!(Scheme::Standard.verify(&secret, &given, body).is_none(), "it is late");
    }

    #[test]
    fn secret_is_long_enough_or_an_error_that_does_not_show_it() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        for text in ["", "  \n", "short"] {
            fs::write(file.path(), text).expect("written");
            let error = SecretAt::File(file.path().to_owned()).secret().err().expect("an error");
            assert!(!error.contains("short") || error.contains("too short"), "{error}");
        }
        assert!(SecretAt::Env("NO_SUCH_VARIABLE_OF_TESTS".into()).secret().is_err());
    }
}
