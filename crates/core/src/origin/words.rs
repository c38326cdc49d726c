//! Search for a value in a text.

use super::scalars::{read_number, same, same_number};
use serde_json::{Number, Value};

/// Minimal length of a text to search for, in characters. Shorter texts occur in any text by chance.
const SHORTEST: usize = 3;

/// Returns true if a value occurs in a text, between characters that belong to no word. Numbers are compared by value.
/// Texts of less than three characters never count, and neither do values that are neither text nor number.
pub(super) fn stands_in(value: &Value, text: &str) -> bool {
    find(value, text).is_some()
}

/// The byte offset of a value in a text.
pub(super) fn find(value: &Value, text: &str) -> Option<usize> {
    match value {
        Value::String(words) => find_words(words.trim(), text),
        Value::Number(number) => find_number(number, text),
        _ => None,
    }
}

/// Minimal length of a value to be compared by its letters alone. Shorter values are compared as whole words only:
/// their letters occur in other text by chance.
const LONG: usize = 6;

/// Returns true if a part of a value is equal to another value or contains it: texts as whole words or by their letters
/// and digits alone, whatever separates these; numbers by value. Names of fields count. The function protects values
/// that must not leak, so in doubt it returns true.
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

/// Characters that may precede a token, and those that may follow it.
const OPENING: &[char] =
    &['"', '\'', '`', '(', '[', '{', '<', '*', '_', '\u{201c}', '\u{2018}', '\u{201e}', '\u{ab}'];
const CLOSING: &[char] = &[
    '"', '\'', '`', ')', ']', '}', '>', '*', '_', '.', ',', ';', ':', '!', '?', '\u{201d}', '\u{2019}',
    '\u{201c}', '\u{bb}',
];

/// Returns true if a text contains a value as one or more whole tokens: delimited by white space, with only quotes,
/// brackets and punctuation in between. Numbers are compared by value.
pub(super) fn holds_token(text: &str, value: &Value) -> bool {
    match value {
        Value::String(words) => {
            let words = words.trim();
            words.chars().nth(SHORTEST - 1).is_some() && tokens(text, words).next().is_some()
        }
        Value::Number(number) => find_number(number, text).is_some(),
        _ => false,
    }
}

/// Finds words in a text as whole tokens. Each item has the text before the match and after it, without the signs
/// beside the words.
fn tokens<'a>(text: &'a str, words: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    text.match_indices(words).filter_map(move |(at, _)| {
        let before = text[..at].trim_end_matches(OPENING);
        let after = text[at + words.len()..].trim_start_matches(CLOSING);
        let is_apart = |c: Option<char>| c.is_none_or(char::is_whitespace);
        let is_whole = is_apart(before.chars().next_back()) && is_apart(after.chars().next());
        is_whole.then_some((before, after))
    })
}

/// Returns true if a text names a place: the path, the file name, the ID or the address is a whole token of it, which
/// no quotes connect with other words. `https://` and `./` before it and `/` after it are ignored.
pub(super) fn names_place(text: &str, place: &str) -> bool {
    let bare = place.strip_prefix("https://").or_else(|| place.strip_prefix("./")).unwrap_or(place);
    let bare = bare.strip_suffix('/').filter(|bare| !bare.is_empty()).unwrap_or(bare);
    let is_open = |before: &str, quote: char| before.matches(quote).count() % 2 == 1;
    ["", "https://", "./"]
        .into_iter()
        .flat_map(|prefix| ["", "/"].map(|suffix| format!("{prefix}{bare}{suffix}")))
        .any(|written| {
            tokens(text, &written)
                .any(|(before, _)| !['"', '`'].into_iter().any(|quote| is_open(before, quote)))
        })
}

/// Returns true if a text names a host: as the host of an address that is a token of the text, or as a token that is a
/// full host name. `www.` before a name is ignored. Parts of addresses, file names and the names in e-mail addresses
/// are not hosts.
pub(super) fn names_host(text: &str, host: &str) -> bool {
    let bare = |name: &str| {
        let name = name.to_ascii_lowercase();
        name.strip_prefix("www.").map_or(name.clone(), str::to_owned)
    };
    let wanted = bare(host.split_once("]:").map_or(host, |(address, _)| address).trim_matches(['[', ']']));
    let words = text.split_whitespace().flat_map(|word| {
        // A link of Markdown.
        let (label, target) = word.split_once("](").unwrap_or((word, ""));
        [label, target]
    });
    words.filter_map(named_host).any(|name| bare(name.trim_matches(['[', ']'])) == wanted)
}

/// The host that a word of a text names.
fn named_host(word: &str) -> Option<&str> {
    let address = word.trim_start_matches(OPENING).split_once("://").filter(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    });
    if let Some((_, rest)) = address {
        let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
        let authority = authority.rsplit('@').next().unwrap_or_default();
        return Some(split_port(authority.trim_end_matches(|c| c != ']' && CLOSING.contains(&c))).0);
    }
    if let Some(address) = word.find('[').map(|at| &word[at..]).filter(|rest| rest.contains("]:")) {
        let (host, port) = split_port(address.trim_end_matches(CLOSING));
        return port.and(Some(host));
    }
    let (host, port) = split_port(word.trim_start_matches(OPENING).trim_end_matches(CLOSING));
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_name = host.contains('.')
        && host.split('.').all(|label| {
            !label.is_empty()
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.chars().all(|c| c.is_alphanumeric() || c == '-')
        })
        && (last.starts_with("xn--") || last.chars().count() > 1 && last.chars().all(char::is_alphabetic))
        && !FILES.contains(&last.to_ascii_lowercase().as_str());
    let is_address = host.parse::<std::net::Ipv4Addr>().is_ok() && port.is_some();
    (is_name || is_address || host.eq_ignore_ascii_case("localhost")).then_some(host)
}

/// A host, and the port behind it.
fn split_port(text: &str) -> (&str, Option<&str>) {
    let split = if text.starts_with('[') { text.find("]:").map(|at| at + 1) } else { text.find(':') };
    match split {
        Some(at) if text[at + 1..].starts_with(|c: char| c.is_ascii_digit()) => {
            let port = &text[at + 1..];
            match port.chars().all(|c| c.is_ascii_digit()) {
                true => (&text[..at], Some(port)),
                false => (text, None),
            }
        }
        _ => (text, None),
    }
}

/// The last parts of common file names. Some are also domains, such as `md`, `py` and `zip`: hosts in these count only
/// in addresses.
const FILES: &[&str] = &[
    "ai",
    "app",
    "asc",
    "bak",
    "bash",
    "bat",
    "bin",
    "bmp",
    "bz",
    "cab",
    "cc",
    "cfg",
    "cmd",
    "conf",
    "cpp",
    "cs",
    "css",
    "csv",
    "dat",
    "db",
    "deb",
    "diff",
    "dll",
    "doc",
    "docx",
    "eml",
    "env",
    "epub",
    "eps",
    "exe",
    "gif",
    "go",
    "gz",
    "hpp",
    "hs",
    "htm",
    "html",
    "ics",
    "img",
    "ini",
    "ipynb",
    "iso",
    "jar",
    "java",
    "jinja",
    "jpeg",
    "jpg",
    "js",
    "json",
    "jsonl",
    "jsx",
    "key",
    "kt",
    "lock",
    "log",
    "lua",
    "map",
    "md",
    "mdx",
    "mjs",
    "ml",
    "mm",
    "mov",
    "mp",
    "mpeg",
    "mpg",
    "odp",
    "ods",
    "odt",
    "ogg",
    "old",
    "orig",
    "out",
    "parquet",
    "patch",
    "pdf",
    "pem",
    "php",
    "pl",
    "pm",
    "png",
    "ppt",
    "pptx",
    "properties",
    "ps",
    "pub",
    "py",
    "rar",
    "rb",
    "rpm",
    "rs",
    "rst",
    "rtf",
    "scala",
    "sh",
    "so",
    "sql",
    "sqlite",
    "srt",
    "st",
    "svg",
    "swift",
    "tar",
    "tex",
    "tf",
    "tgz",
    "tmp",
    "toml",
    "ts",
    "tsv",
    "tsx",
    "txt",
    "vb",
    "vcf",
    "wasm",
    "wav",
    "webm",
    "webp",
    "worker",
    "xls",
    "xlsx",
    "xml",
    "xz",
    "yaml",
    "yml",
    "zip",
    "zst",
];

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

/// The numbers that a text contains in the notation of JSON, and the offset of each. A number that is part of a word,
/// or of something like a date or a version, does not count.
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
        let text = "Read https://docs.example.org:8080/a?u=https://query.example, (www.shop.example), mail bob.evil@corp.com. \
                    See [::1]:80, [a page](http://link.example/x), https://user.example@real.example, 10.0.0.1 and 10.0.0.2:80. \
                    Not report.md or ./path.example/a or a,b.example; https://md.report.md and `bücher.example`: fine.";
        for (host, named) in [
            ("docs.example.org", true),
            ("DOCS.example.org", true),
            ("shop.example", true),
            ("www.shop.example", true),
            ("[::1]:80", true),
            ("[::1]", true),
            ("link.example", true),
            ("real.example", true),
            ("10.0.0.2", true),
            ("md.report.md", true),
            ("bücher.example", true),
            ("example.org", false),
            ("evil-docs.example.org", false),
            ("query.example", false),
            ("corp.com", false),
            ("bob.evil", false),
            ("user.example", false),
            ("10.0.0.1", false),
            ("report.md", false),
            ("path.example", false),
            ("b.example", false),
            ("fine", false),
        ] {
            assert_eq!(names_host(text, host), named, "{host}");
        }
    }

    #[test]
    fn a_place_is_named_as_a_whole_token() {
        let text = "See (https://shop.example/a/), `./notes/x.txt`, \"my file 7.txt\" and old/bill-2.txt.";
        for (place, named) in [
            ("https://shop.example/a", true),
            ("shop.example/a", true),
            ("notes/x.txt", true),
            ("old/bill-2.txt", true),
            ("bill-2.txt", false),
            ("old/bill-2", false),
            ("x.txt", false),
            ("7.txt", false),
            ("http://shop.example/a", false),
            ("shop.example", false),
        ] {
            assert_eq!(names_place(text, place), named, "{place}");
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
