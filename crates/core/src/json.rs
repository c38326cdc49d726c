//! Reads JSON that others wrote: answers and arguments of models, inputs, rows, results of tools.
//!
//! serde_json reads an integer of more than 64 bits as the nearest double, and of two members with one name it keeps
//! the last. Both silently change the content. This reader refuses them and names the place.

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};
use std::{fmt, str::FromStr as _};

/// The smallest double above which not every whole number is a double.
pub(crate) const INEXACT: f64 = 9_007_199_254_740_992.0;

/// A text that is not JSON, or that contains a value which can't be kept exactly.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} at line {line} column {column}")]
pub struct BadJson {
    /// The fault in words, without the place.
    pub message: String,
    /// The line, from 1.
    pub line: usize,
    /// The byte in the line, from 1.
    pub column: usize,
    /// The kind of fault.
    pub fault: Fault,
}

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The text is not JSON.
    Syntax,
    /// The text ends inside a value.
    Cut,
    /// The text is JSON, but has a number that can't be kept exactly, or a name twice in one object.
    Refused,
}

/// Reads one value, which the text may begin with a byte order mark.
///
/// # Errors
/// The text is not JSON, has a name twice in one object, or a number that can't be kept exactly.
pub fn read(text: &str) -> Result<Value, BadJson> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Unique(value) = serde_json::from_str(text).map_err(BadJson::from)?;
    exact(text)?;
    Ok(value)
}

/// Reads one value from bytes.
///
/// # Errors
/// The errors of [`read`]. Bytes that are not UTF-8 are not JSON.
pub fn read_bytes(bytes: &[u8]) -> Result<Value, BadJson> {
    match std::str::from_utf8(bytes) {
        Ok(text) => read(text),
        Err(error) => {
            let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]).into_owned();
            let (line, column) = place(&before, before.len());
            let message = "the text is not UTF-8".to_owned();
            Err(BadJson { message, line, column, fault: Fault::Syntax })
        }
    }
}

/// Reads the value that a text begins with, and returns it with its length in bytes.
///
/// # Errors
/// The errors of [`read`].
pub(crate) fn read_first(text: &str) -> Result<(Value, usize), BadJson> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let Unique(value) = Unique::deserialize(&mut deserializer).map_err(BadJson::from)?;
    let length = deserializer.into_iter::<Unique>().byte_offset();
    exact(&text[..length])?;
    Ok((value, length))
}

/// Checks that every number of a JSON text can be kept as it is written.
///
/// # Errors
/// A number can't be kept; the error is about the first one.
pub fn exact(text: &str) -> Result<(), BadJson> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => at = end_of_string(bytes, at),
            b'-' | b'0'..=b'9' => {
                let more = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
                let length = bytes[at..].iter().take_while(|byte| more(byte)).count();
                if let Some(message) = inexact(&text[at..at + length]) {
                    let (line, column) = place(text, at);
                    return Err(BadJson { message, line, column, fault: Fault::Refused });
                }
                at += length;
            }
            _ => at += 1,
        }
    }
    Ok(())
}

/// The place after the string that begins at this place.
pub(crate) fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Line and column of a byte, from 1.
pub(crate) fn place(text: &str, at: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..at];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
    (line, column)
}

/// The reason why a number can't be kept as it is written.
///
/// A fraction is read as the nearest double, as everywhere in JSON, and so is a large number with an exponent, whose
/// last digits are not significant. A whole number keeps all its digits, and a fraction never becomes a whole number.
fn inexact(number: &str) -> Option<String> {
    // Numbers of fewer characters are exact, or fractions that stay fractions.
    if number.len() < 16 && !number.contains(['e', 'E']) {
        return None;
    }
    if !number.contains(['.', 'e', 'E']) {
        let fits = i64::from_str(number).is_ok() || u64::from_str(number).is_ok();
        return (!fits).then(|| {
            format!(
                "the integer {} has more than 64 bits and can't be kept exactly; write it as a text",
                shown(number)
            )
        });
    }
    let read = f64::from_str(number).ok()?;
    if !read.is_finite() {
        return Some(format!("the number {} is too large", shown(number)));
    }
    if read.fract() != 0.0 || digits(number) == digits(&format!("{read:.0}")) {
        return None;
    }
    let is_rough = number.contains(['e', 'E']) && read.abs() >= INEXACT;
    (!is_rough).then(|| {
        format!(
            "the number {} can't be kept exactly: it would become {read:.0}; write it with fewer digits, or as a text",
            shown(number)
        )
    })
}

fn shown(number: &str) -> &str {
    number.get(..80).unwrap_or(number)
}

/// The value of a number as its digits without zeros at both ends, and the power of ten of the last one.
fn digits(number: &str) -> (bool, String, i64) {
    let (mantissa, power) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (negative, mantissa) = mantissa.strip_prefix('-').map_or((false, mantissa), |rest| (true, rest));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = [whole, fraction].concat();
    let kept = all.trim_end_matches('0');
    let zeros = i64::try_from(all.len() - kept.len()).unwrap_or(i64::MAX);
    let kept = kept.trim_start_matches('0');
    if kept.is_empty() {
        return (false, String::new(), 0);
    }
    let behind = i64::try_from(fraction.len()).unwrap_or(i64::MAX);
    // A power that is no number of 64 bits has made the number infinite or zero.
    let power = i64::from_str(power.trim_start_matches('+')).unwrap_or(i64::MIN / 2);
    (negative, kept.to_owned(), power.saturating_sub(behind).saturating_add(zeros))
}

impl From<serde_json::Error> for BadJson {
    fn from(error: serde_json::Error) -> Self {
        let fault = match error.classify() {
            serde_json::error::Category::Eof => Fault::Cut,
            serde_json::error::Category::Data => Fault::Refused,
            _ => Fault::Syntax,
        };
        let text = error.to_string();
        let message = text.rsplit_once(" at line ").map_or(&*text, |(message, _)| message).to_owned();
        Self { message, line: error.line(), column: error.column(), fault }
    }
}

/// A value whose objects have each name once. Of two members with one name, the last one is not more likely to be the
/// intended one.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Self)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(Unique(item)) = items.next_element()? {
            array.push(item);
        }
        Ok(array.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(A::Error::custom(format_args!("an object has the key `{key}` twice")));
            }
            let Unique(value) = entries.next_value()?;
            object.insert(key, value);
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused(text: &str) -> BadJson {
        read(text).expect_err(text)
    }

    #[test]
    fn integers_are_exact_or_refused() {
        for exact in ["9007199254740993", "18446744073709551615", "-9223372036854775808", "-0", "0"] {
            let read = read(&format!(r#"{{"n": [{exact}]}}"#)).unwrap();
            let shown = read["n"][0].to_string();
            assert!(shown == exact || shown == "-0.0", "{exact}: {shown}");
        }
        for long in ["18446744073709551616", "-9223372036854775809", "123456789012345678901234"] {
            let error = refused(&format!("{{\n  \"n\": {long}}}"));
            assert_eq!((error.fault, error.line, error.column), (Fault::Refused, 2, 8), "{error}");
            assert!(error.message.contains(long) && error.message.contains("64 bits"), "{error}");
            assert_eq!(read(&format!(r#"["{long}", "\"{long}"]"#)).unwrap()[0], long, "a text is a text");
        }
    }

    #[test]
    fn decimals_that_would_become_another_whole_number_are_refused() {
        for bad in [
            "1.0000000000000000001",
            "0.99999999999999999999",
            "12345678901234567890.0",
            "9007199254740992.5",
            "-9007199254740993.0",
            "1e-400",
            "1e400",
            "-1e400",
            "1e99999999999999999999",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        for (good, value) in [
            ("1.0000000000000000000000", 1.0),
            ("100000000000000000000e-20", 1.0),
            ("0.1", 0.1),
            ("3.14159265358979323846264338327950288", std::f64::consts::PI),
            ("6.02214076e23", 6.022_140_76e23),
            ("1e5", 1e5),
            ("9007199254740992.0", 9_007_199_254_740_992.0),
            ("0.000e-99999", 0.0),
        ] {
            assert_eq!(read(good).unwrap(), json!(value), "{good}");
        }
    }

    #[test]
    fn a_name_is_once_in_an_object() {
        let error = refused("{\"a\": {\"b\": 1,\n\"b\": 1}}");
        assert_eq!((error.fault, error.line), (Fault::Refused, 2), "{error}");
        assert!(error.to_string().contains("`b` twice"), "{error}");
        assert_eq!(read(r#"[{"a": 1}, {"a": 2}]"#).unwrap(), json!([{"a": 1}, {"a": 2}]));
    }

    #[test]
    fn faults_say_what_they_are() {
        for (text, fault) in [
            ("", Fault::Cut),
            ("[1, 2", Fault::Cut),
            (r#"{"a": "b"#, Fault::Cut),
            ("{a}", Fault::Syntax),
            ("[1] [2]", Fault::Syntax),
            ("NaN", Fault::Syntax),
        ] {
            assert_eq!(refused(text).fault, fault, "{text}");
        }
        assert_eq!(read("\u{feff}[1]").unwrap(), json!([1]));
        assert_eq!(read_bytes(b"[\"\xff\"]").unwrap_err().column, 3);
        assert_eq!(read_first(r#"{"a": 1} and"#).unwrap(), (json!({"a": 1}), 8));
    }
}
