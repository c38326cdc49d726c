//! Whether a value stands in a text.

use super::scalars::{read_number, same, same_number};
use serde_json::{Number, Value};

/// Shorter texts stand in any other by chance.
const SHORTEST: usize = 3;

/// Whether a value stands in a text, between characters that belong to no word. Numbers are compared by value. Texts of
/// less than three characters stand nowhere, and neither does a value that is neither text nor number.
pub(super) fn stands_in(value: &Value, text: &str) -> bool {
    find(value, text).is_some()
}

/// Where a value stands in a text, in bytes.
pub(super) fn find(value: &Value, text: &str) -> Option<usize> {
    match value {
        Value::String(words) => find_words(words.trim(), text),
        Value::Number(number) => find_number(number, text),
        _ => None,
    }
}

/// Shorter values are compared as whole words only: their letters stand in other text by chance.
const LONG: usize = 6;

/// Whether a part of a value is, or holds, another value: texts as whole words or by their letters and digits alone, whatever
/// separates these; numbers by value. Names of fields count. For values that must not get out, so in doubt it holds.
pub(crate) fn contains(value: &Value, part: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            fields.iter().any(|(name, field)| text_contains(name, part) || contains(field, part))
        }
        Value::Array(elements) => elements.iter().any(|element| contains(element, part)),
        Value::String(text) => text_contains(text, part),
        value => same(value, part),
    }
}

fn text_contains(text: &str, part: &Value) -> bool {
    match part {
        Value::Number(number) => find_number(number, text).is_some(),
        Value::String(part) => {
            let (text, part) = (text.to_lowercase(), part.trim().to_lowercase());
            let plain = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
            let letters = plain(&part);
            let is_long = letters.chars().count() >= LONG;
            !part.is_empty()
                && (find_whole(&part, &text).is_some() || (is_long && plain(&text).contains(&letters)))
        }
        _ => false,
    }
}

/// Whether a text names a host: as a word by itself, or as the host of an address. The name in an e-mail address is none, and
/// `www.` before a name makes no difference.
pub(super) fn names_host(text: &str, host: &str) -> bool {
    let bare = |name: &str| {
        let name = name.to_ascii_lowercase();
        name.strip_prefix("www.").map_or(name.clone(), str::to_owned)
    };
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
    let wanted = bare(host);
    let mut at = 0;
    for word in text.split(|c: char| !is_part(c)) {
        let before = text[..at].chars().next_back();
        at += word.len();
        at += text[at..].chars().next().map_or(0, char::len_utf8);
        let name = word.trim_matches(['.', ':', '-']);
        let name = match name.starts_with('[') {
            true => name,
            false => name.split(':').next().unwrap_or_default(),
        };
        if before != Some('@') && !name.is_empty() && bare(name) == wanted {
            return true;
        }
    }
    false
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn find_words(words: &str, text: &str) -> Option<usize> {
    words.chars().nth(SHORTEST - 1)?;
    find_whole(words, text)
}

fn find_whole(words: &str, text: &str) -> Option<usize> {
    let found = |at: &usize| {
        let (before, after) = (text[..*at].chars().next_back(), text[at + words.len()..].chars().next());
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    };
    text.match_indices(words).map(|(at, _)| at).find(found)
}

fn find_number(number: &Number, text: &str) -> Option<usize> {
    numbers(text).find(|(_, read)| same_number(read, number)).map(|(at, _)| at)
}

/// The numbers that are written in a text as JSON writes them, and where each begins. A number that is part of a word, or
/// of something like a date or a version, is none.
pub(super) fn numbers(text: &str) -> impl Iterator<Item = (usize, Number)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let start = at + text[at..].find(|c: char| c.is_alphanumeric())?;
            // What belongs together: a word, a date, a version.
            let length = text[start..]
                .find(|c: char| !(is_word(c) || matches!(c, '.' | ',' | ':' | '-' | '+')))
                .unwrap_or(text.len() - start);
            at = start + length;
            let whole = text[start..at].trim_end_matches(['.', ',', ':', '-', '+']);
            let before = text[..start].chars().next_back();
            if before.is_some_and(is_word) {
                continue;
            }
            let Some(number) = read_number(whole) else { continue };
            let negative = before == Some('-') && !text[..start - 1].chars().next_back().is_some_and(is_word);
            match negative {
                true => match read_number(&format!("-{whole}")) {
                    Some(number) => return Some((start - 1, number)),
                    None => continue,
                },
                false => return Some((start, number)),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_stands_in_a_text_as_a_whole_word() {
        let text = "Pay 50.00 EUR to bob@corp.com (IBAN DE89 3704), not 1000.";
        for value in
            [json!("bob@corp.com"), json!("DE89 3704"), json!(50), json!(50.0), json!(1000), json!("EUR")]
        {
            assert!(stands_in(&value, text), "{value}");
        }
        for value in [
            json!("ob@corp.com"),
            json!("bob@corp.co"),
            json!(5),
            json!(500),
            json!(100),
            json!("to"),
            json!(true),
        ] {
            assert!(!stands_in(&value, text), "{value}");
        }
    }

    #[test]
    fn hosts_are_named_by_themselves_and_in_addresses() {
        let text =
            "Read https://docs.example.org:8080/a and www.shop.example, mail bob@corp.com. See [::1]:80.";
        for (host, named) in [
            ("docs.example.org", true),
            ("DOCS.example.org", true),
            ("shop.example", true),
            ("www.shop.example", true),
            ("[::1]:80", true),
            ("example.org", false),
            ("evil-docs.example.org", false),
            ("corp.com", false),
        ] {
            assert_eq!(names_host(text, host), named, "{host}");
        }
    }

    #[test]
    fn a_number_in_a_word_a_date_or_a_version_is_none() {
        for text in ["a5", "2024-05-06", "1.5.2", "5,7", "5_000"] {
            assert!(!stands_in(&json!(5), text), "{text}");
        }
        assert!(stands_in(&json!(-5), "by -5 degrees"));
        assert!(!stands_in(&json!(5), "by -5 degrees"));
        assert!(stands_in(&json!(5), "take 5, please"));
    }
}
